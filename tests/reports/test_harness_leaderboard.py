"""lm_eval tasks of others on the leaderboard and in `results list` and `show`."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from ragtasks.cli import app
from ragtasks.reports.harness_comparison import compare_harness_columns, harness_columns
from ragtasks.reports.history import History, read_history
from ragtasks.reports.leaderboard import Board, leaderboard_tables
from ragtasks.results import read_harness_tasks
from tests._evaluations import results_file
from tests._harness_tasks import BEFORE_0_4_13

TOP = ["local_all", "local_by_task", "local_lengths", "local_pages", "local_passes", "local_repeats"]

GROUPS = {
    "local_all": "mean over the documents of local_choices, local_checks, local_endings",
    "local_by_task": "mean over the means of local_sums, local_claims",
}


@pytest.fixture
def folder(harness_results: Path, tmp_path: Path) -> Path:
    shutil.copytree(harness_results, tmp_path / "results")
    return tmp_path / "results"


def change(folder: Path, edit: Callable[[dict[str, Any]], Any]) -> None:
    content = json.loads(results_file(folder).read_text())
    edit(content)
    results_file(folder).write_text(json.dumps(content))


def boards(history: History) -> dict[str, list[Board]]:
    found: dict[str, list[Board]] = {}
    for board in leaderboard_tables(history.entries):
        found.setdefault(board.title, []).append(board)
    return found


def run(*arguments: object) -> str:
    done = CliRunner().invoke(app, ["results", *map(str, arguments)])
    assert done.exit_code == 0, done.output
    return done.stdout


def test_each_task_or_group_has_a_table_with_the_reported_means(folder: Path) -> None:
    history = read_history(folder, is_ranked=True)
    assert history.skipped == ()
    found = boards(history)
    assert list(found) == TOP
    for task, (board,) in found.items():
        assert board.of_lm_eval
        assert board.group == GROUPS.get(task, "")
        for standing in board.standings:
            entry = standing.entry
            reported = json.loads(results_file(folder / entry.model).read_text())["results"][task]
            assert {name if "," in name else f"{name},none": mean.value for name, mean in entry.means.items()} == {
                key: value for key, value in reported.items() if "," in key and "_stderr," not in key
            }
    (pages,) = found["local_pages"]
    values = [standing.entry.means["word_perplexity"].value or 0.0 for standing in pages.standings]
    assert values == sorted(values)


def test_differences_to_the_best_are_those_of_compare(folder: Path) -> None:
    pairs = compare_harness_columns(
        harness_columns(read_harness_tasks([folder / "strong", folder / "weak"])), "strong"
    ).pairs
    p_of = {pair.first.group: pair for pair in reversed(pairs)}
    for task, (board,) in boards(read_history(folder, is_ranked=True)).items():
        best, other = board.standings
        if BEFORE_0_4_13 and task == "local_lengths":  # reported as five documents, too few for ranks
            continue
        assert best.is_best
        if best.entry.model == "strong":
            assert (other.difference, other.p) == (p_of[task].difference.value, p_of[task].p)


def test_results_that_do_not_match_have_tables_of_their_own(folder: Path) -> None:
    change(folder / "weak", lambda content: content["versions"].update(local_pages=2.0))
    change(folder / "weak", lambda content: content["configs"]["local_repeats"].update(description="Think."))
    found = boards(read_history(folder, is_ranked=True))
    assert {task: len(tables) for task, tables in found.items() if len(tables) > 1} == {
        "local_pages": 2,
        "local_repeats": 2,
    }
    bases = {task: [table.basis for table in tables] for task, tables in found.items()}
    assert sorted(bases["local_pages"])[0] == ""
    assert "versions" in max(bases["local_pages"])
    assert "prompts" in max(bases["local_repeats"])
    page = folder / "page.html"
    run("list", folder, "--leaderboard", page)
    # The tables are sorted by their basis, so the text names the model and not a position.
    assert page.read_text().count("Not comparable with weak: ") == 2


def test_results_without_samples_are_listed_and_not_ranked(folder: Path) -> None:
    for file in (folder / "weak").rglob("samples_local_pages_2*.jsonl"):
        file.unlink()
    history = read_history(folder, is_ranked=True)
    assert {entry.model for entry in history.entries} == {"strong"}
    assert "logged samples" in " ".join(skipped.reason for skipped in history.skipped)
    text = run("list", folder)
    assert [line.split("|")[2].strip() for line in text.splitlines() if "local_" in line].count("weak") == len(TOP)
    assert "skipped" not in text


def test_show_prints_the_tasks_of_groups_too(folder: Path) -> None:
    text = run("show", folder / "weak")
    assert "# weak: local_by_size, 0-shot" in text
    assert "# weak: local_checks, 0-shot" in text
    assert "judges" not in text
    differences = CliRunner().invoke(app, ["results", "show", str(folder / "weak"), str(folder / "strong")])
    assert differences.exit_code == 0
    assert "not comparable" not in differences.stdout


def test_tasks_of_a_group_without_a_number_are_listed(folder: Path) -> None:
    change(folder / "weak", lambda content: content["results"].update(local_all={}))
    text = run("list", folder / "weak")
    assert [line.split("|")[3].strip() for line in text.splitlines() if "| local_" in line] == [
        *("local_by_task", "local_by_size", "local_endings", "local_lengths", "local_pages"),
        *("local_passes", "local_repeats"),
    ]


def test_clusters_of_a_field_widen_the_intervals(folder: Path) -> None:
    for model in ("weak", "strong"):
        change(
            folder / model,
            lambda content: content.update(configs={"local_repeats": content["configs"]["local_repeats"]}),
        )
    plain, clustered = (
        boards(read_history(folder, is_ranked=True, cluster=cluster))["local_repeats"][0].standings[0].entry
        for cluster in ("", "doc.story")
    )
    assert plain.ranking
    assert clustered.ranking
    assert len(set(plain.ranking.cluster_of.values())) == 46
    assert len(set(clustered.ranking.cluster_of.values())) == 15
    assert plain.means["exact_match,first"].low != clustered.means["exact_match,first"].low


def test_a_limit_is_shown_as_documents_and_no_score_counts_the_missing_ones(folder: Path) -> None:
    change(folder / "weak", lambda content: content["n-samples"]["local_pages"].update(original=200))
    text = run("list", folder)
    (line,) = (line for line in text.splitlines() if "local_pages" in line and "| weak " in line)
    assert "24 of 200" in line
    assert "missing" not in text
    page = folder / "page.html"
    run("list", folder, "--leaderboard", page)
    assert "24 of 200 documents" in page.read_text()


def test_predictions_without_scores_are_not_listed(folder: Path) -> None:
    def without_scores(content: dict[str, Any]) -> None:
        content["results"] = {name: {"bypass,none": 999} for name in content["results"]}

    change(folder / "weak", without_scores)
    assert "999" not in run("list", folder)

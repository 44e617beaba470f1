"""`compare` on results of lm_eval tasks of others: pairs, clusters, power, and results that are not compared."""

from __future__ import annotations

import csv
import io
import json
import math
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from typer.testing import CliRunner

from ragtasks.cli import app
from ragtasks.errors import RagtasksError
from ragtasks.reports.harness_comparison import compare_harness_columns, harness_columns, mismatch
from ragtasks.results import read_harness_tasks
from ragtasks.statistics import Comparison, holm
from tests._evaluations import results_file
from tests._harness_tasks import BEFORE_0_4_13
from tests._messages import same_message
from tests.reports.test_compare import cells


def run(*arguments: object) -> Any:
    return CliRunner().invoke(app, ["compare", *map(str, arguments)])


def refused(*arguments: object) -> str:
    """Return the message of a refused comparison, which prints no table."""
    done = run(*arguments)
    assert (done.exit_code, done.stdout) == (1, "")
    assert isinstance(done.exception, RagtasksError)
    return f"{done.stderr}{done.exception}"


def pairs_in(*folders: Path, cluster: str = "", metrics: tuple[str, ...] = ()) -> dict[tuple[str, str], Comparison]:
    found = compare_harness_columns(harness_columns(read_harness_tasks(folders, cluster=cluster), metrics))
    return {(pair.first.group, pair.first.metric): pair for pair in found.pairs}


def copied(results: Path, folder: Path, *tasks: str) -> tuple[Path, Path]:
    """Copy the results of both models with some of their tasks."""
    for model in ("weak", "strong"):
        source = results_file(results / model)
        content = json.loads(source.read_text())
        content["configs"] = {name: config for name, config in content["configs"].items() if name in tasks}
        (folder / model).mkdir()
        (folder / model / source.name).write_text(json.dumps(content))
        for task in tasks:
            (samples,) = source.parent.glob(f"samples_{task}_*.jsonl")
            shutil.copy(samples, folder / model)
    return folder / "weak", folder / "strong"


def change_results(folder: Path, change: Callable[[dict[str, Any]], Any]) -> None:
    file = results_file(folder)
    content = json.loads(file.read_text())
    change(content)
    file.write_text(json.dumps(content))


def change_samples(folder: Path, change: Callable[[list[dict[str, Any]]], Any]) -> None:
    (file,) = folder.glob("samples_*.jsonl")
    rows = [json.loads(line) for line in file.read_text().splitlines()]
    change(rows)
    file.write_text("".join(json.dumps(row) + "\n" for row in rows))


def logged(folder: Path, task: str, metric: str, filter_name: str = "none") -> dict[int, Any]:
    (file,) = folder.rglob(f"samples_{task}_2*.jsonl")
    rows = [json.loads(line) for line in file.read_text().splitlines()]
    return {row["doc_id"]: row[metric] for row in rows if row["filter"] == filter_name}


def test_differences_are_paired_by_document(harness_results: Path) -> None:
    first, second = harness_results / "weak", harness_results / "strong"
    pairs = pairs_in(first, second)
    acc = [logged(folder, "local_choices", "acc") for folder in (first, second)]
    gaps = np.array([acc[1][doc_id] - value for doc_id, value in acc[0].items()])
    pair = pairs["local_choices", "acc"]
    assert pair.difference.value == pytest.approx(gaps.mean(), abs=1e-14)
    assert pair.difference.standard_error == pytest.approx(gaps.std(ddof=1) / math.sqrt(len(gaps)), rel=1e-12)
    assert (pair.difference.n_clusters, pair.n_unshared) == (46, 0)
    # A group by tasks: the mean of independent differences.
    strict = [[logged(folder, task, "exact_match", "strict-match") for folder in (first, second)] for task in SUMS]
    changes = [np.array([b[i] - a[i] for i in a]) for a, b in strict]
    group = pairs["local_by_task", "exact_match,strict-match"].difference
    assert group.value == pytest.approx(np.mean([change.mean() for change in changes]), abs=1e-14)
    error = math.sqrt(sum(change.var(ddof=1) / len(change) for change in changes)) / 2
    assert group.standard_error == pytest.approx(error, rel=1e-12)


SUMS = ("local_sums", "local_claims")


def test_the_table_has_the_numbers_of_the_harness(harness_results: Path) -> None:
    done = run(harness_results / "weak", harness_results / "strong", "--format", "json")
    assert done.exit_code == 0
    (section,) = json.loads(done.stdout)
    means, _differences, *_ = section["tables"]
    reported = {
        model: json.loads(results_file(harness_results / model).read_text())["results"] for model in ("weak", "strong")
    }
    assert len(means["rows"]) == 50
    for row in means["rows"]:
        numbers = reported[row["model"]][row["task"]]
        metric, _, filter_name = row["metric"].removesuffix(" (lower is better)").partition(",")
        assert row["mean"]["value"] == numbers[f"{metric},{filter_name or 'none'}"]
        error = numbers[f"{metric}_stderr,{filter_name or 'none'}"]
        assert row["harness stderr"]["value"] == (None if error == "N/A" else error)
        if error != "N/A" and metric != "perplexity" and not (BEFORE_0_4_13 and row["task"] == "local_by_task"):
            assert row["stderr"]["value"] == pytest.approx(error, rel=1e-12)


def test_tasks_of_groups_are_corrected_as_a_family_of_their_own(harness_results: Path) -> None:
    pairs = pairs_in(harness_results / "weak", harness_results / "strong")
    of_groups = {"local_choices", "local_checks", "local_endings", "local_sums", "local_claims"}
    for are_members in (True, False):
        family = [pair for (task, _), pair in pairs.items() if (task in of_groups) is are_members]
        assert [pair.adjusted_p for pair in family] == holm([pair.p for pair in family])


def test_metrics_are_named_with_or_without_their_filter(harness_results: Path) -> None:
    folders = harness_results / "weak", harness_results / "strong"
    assert {metric for _, metric in pairs_in(*folders, metrics=("exact_match,maj@5", "acc,none"))} == {
        "exact_match,maj@5",
        "acc",
    }
    assert {task for task, _ in pairs_in(*folders, metrics=("exact_match",))} == {
        *SUMS,
        "local_by_task",
        "local_repeats",
    }


def test_documents_are_independent_unless_a_field_names_their_clusters(harness_results: Path, tmp_path: Path) -> None:
    folders = copied(harness_results, tmp_path, "local_sums")
    plain = run(*folders).stdout
    assert "standard error over documents, which count as independent" in plain
    assert "95 % intervals over documents" in plain
    assert "conversation" not in plain
    clustered = run(*folders, "--cluster", "doc.story").stdout
    (row, *_) = cells(clustered.partition("## Differences")[2], "local_sums")
    assert row[-4:-1] == ["46", "15", "0"]
    assert "standard error over the values of doc.story" in clustered
    pair = pairs_in(*folders, cluster="doc.story")["local_sums", "exact_match,strict-match"]
    assert pair.difference.standard_error != pytest.approx(pair.difference.independent_error, rel=1e-3)


@pytest.mark.parametrize("field", ["story", "doc.nothing"])
def test_a_field_without_values_is_an_error(harness_results: Path, tmp_path: Path, field: str) -> None:
    same_message(refused(*copied(harness_results, tmp_path, "local_sums"), "--cluster", field))


def test_the_power_of_two_results_and_of_a_planned_one(harness_results: Path) -> None:
    folders = harness_results / "weak", harness_results / "strong"
    options = ("--power", "--format", "json", "--metric", "acc")
    (both,) = json.loads(run(*folders, *options).stdout)
    rows = {row["task"]: row for row in both["tables"][0]["rows"]}
    pair = pairs_in(*folders)["local_choices", "acc"]
    assert rows["local_choices"]["detectable"]["value"] == pytest.approx(pair.detectable, rel=1e-12)
    (single,) = json.loads(run(folders[0], *options).stdout)
    planned = {row["task"]: row for row in single["tables"][0]["rows"]}["local_choices"]
    acc = np.array(list(logged(folders[0], "local_choices", "acc").values()))
    error = math.sqrt(2) * acc.std(ddof=1) / math.sqrt(len(acc))
    assert planned["second"] == "planned"
    assert planned["stderr of difference"]["value"] == pytest.approx(error, rel=1e-12)
    assert planned["detectable"]["value"] > rows["local_choices"]["detectable"]["value"]


def test_other_metrics_and_tasks_are_listed_with_the_reason(harness_results: Path, tmp_path: Path) -> None:
    folders = copied(harness_results, tmp_path, "local_choices", "local_checks")
    change_results(folders[1], lambda content: content["versions"].update(local_checks=2.0))
    done = run(*folders)
    assert done.exit_code == 0
    warnings = done.stdout.partition("## Warnings")[2].partition("## Explanations")[0]
    same_message(warnings)
    assert "local_checks" not in done.stdout.partition("## Differences")[2].partition("## Warnings")[0]


def test_a_group_is_compared_only_if_its_tasks_are(harness_results: Path, tmp_path: Path) -> None:
    folders = copied(harness_results, tmp_path, "local_choices", "local_checks")
    assert ("local_by_size", "acc") in pairs_in(*folders)
    change_results(folders[1], lambda content: content["versions"].update(local_checks=2.0))
    assert {task for task, _ in pairs_in(*folders)} == {"local_choices"}


def test_groups_of_an_earlier_version_of_the_harness_are_compared(harness_results: Path, tmp_path: Path) -> None:
    folders = copied(harness_results, tmp_path, *SUMS)
    change_results(folders[0], lambda content: content["versions"].pop("local_by_task"))
    change_results(folders[0], lambda content: content["group_subtasks"]["local_by_task"].reverse())
    assert pairs_in(*folders).keys() >= {("local_by_task", "exact_match,strict-match")}
    change_results(folders[0], lambda content: content["versions"].update(local_sums=9.0))
    assert {task for task, _ in pairs_in(*folders)} == {"local_claims"}


def test_results_of_other_versions_of_the_harness_are_compared(harness_results: Path, tmp_path: Path) -> None:
    folders = copied(harness_results, tmp_path, "local_sums")
    before = pairs_in(*folders)
    change_results(folders[0], lambda content: content.update(fewshot_as_multiturn=None))
    change_results(folders[0], lambda content: content["configs"]["local_sums"].pop("fewshot_delimiter"))
    file = results_file(folders[1])
    file.rename(file.with_name(f"run_{file.name.removeprefix('results_')}"))  # `--output_path run.json`
    assert pairs_in(*folders).keys() == before.keys()


def limited(folder: Path, limit: int = 20) -> None:
    def cut(content: dict[str, Any]) -> None:
        numbers, values = content["results"]["local_sums"], logged(folder, "local_sums", "exact_match", "strict-match")
        others = logged(folder, "local_sums", "exact_match", "flexible-extract")
        numbers["exact_match,strict-match"] = sum(list(values.values())[:limit]) / limit
        numbers["exact_match,flexible-extract"] = sum(list(others.values())[:limit]) / limit
        content["n-samples"]["local_sums"]["effective"] = limit

    change_results(folder, cut)
    change_samples(folder, lambda rows: rows.__setitem__(slice(None), [row for row in rows if row["doc_id"] < limit]))


def every(**changes: Any) -> Callable[[Path], None]:
    """Return a function that sets keys of every third sample."""
    return lambda folder: change_samples(folder, lambda rows: [row.update(changes) for row in rows[::3]])


def other_document(folder: Path) -> None:
    change_samples(folder, lambda rows: [row.update(doc_hash="0" * 64) for row in rows if row["doc_id"] == 7])


REFUSED: dict[str, Callable[[Path], Any]] = {
    "another version": lambda folder: change_results(folder, lambda c: c["versions"].update(local_sums=3.0)),
    "other prompts": every(prompt_hash="0" * 64),
    "another description": lambda folder: change_results(
        folder, lambda c: c["configs"]["local_sums"].update(description="Add the numbers.")
    ),
    "a system instruction": lambda folder: [
        change_results(
            folder, lambda c: c.update(chat_template="b", chat_template_sha="b", system_instruction_sha="s")
        ),
        change_results(folder.parent / "weak", lambda c: c.update(chat_template="a", chat_template_sha="a")),
    ],
    "other reference answers": every(target_hash="0" * 64),
    "more examples": lambda folder: change_results(folder, lambda c: c["n-shot"].update(local_sums=5)),
    "another document": other_document,
    "a limit": limited,
    "no samples": lambda folder: next(folder.glob("samples_*.jsonl")).unlink(),
    "a cut file": lambda folder: next(folder.glob("samples_*.jsonl")).write_text(
        next(folder.glob("samples_*.jsonl")).read_text()[:-50]
    ),
    "a repeated document": lambda folder: change_samples(folder, lambda rows: rows.append(rows[4])),
    "no number": lambda folder: change_results(
        folder, lambda c: c["results"]["local_sums"].update({f"exact_match,{name}": math.nan for name in FILTERS})
    ),
    "another metric": lambda folder: [
        change_results(
            folder,
            lambda c: c["results"].update(
                local_sums={
                    key.replace("exact_match", "em"): value for key, value in c["results"]["local_sums"].items()
                }
            ),
        ),
        change_samples(folder, lambda rows: [row.update(em=row.pop("exact_match")) for row in rows]),
    ],
}
FILTERS = ("strict-match", "flexible-extract")


@pytest.mark.parametrize("name", REFUSED)
def test_results_that_differ_are_not_compared(harness_results: Path, tmp_path: Path, name: str) -> None:
    folders = copied(harness_results, tmp_path, "local_sums")
    REFUSED[name](folders[1])
    text = refused(*folders)
    same_message(text)
    assert len(text) <= 1000


def test_models_with_their_own_chat_templates_are_compared(harness_results: Path, tmp_path: Path) -> None:
    folders = copied(harness_results, tmp_path, "local_sums")
    change_samples(folders[1], lambda rows: [row.update(prompt_hash="0" * 64) for row in rows])
    for folder, template in zip(folders, "ab", strict=True):
        change_results(folder, lambda c, text=template: c.update(chat_template=text, chat_template_sha=text * 64))
    done = run(*folders)
    assert done.exit_code == 0
    assert "each model has its own chat template" in done.stdout
    one, two = read_harness_tasks(folders)
    assert not mismatch(one, two)
    for folder, seed in zip(folders, (1, 2), strict=True):
        change_results(folder, lambda c, seed=seed: c["config"].update(fewshot_seed=seed))
    assert not mismatch(*read_harness_tasks(folders))  # without examples
    for folder in folders:
        change_results(folder, lambda c: c["n-shot"].update(local_sums=5))
    assert "fewshot_seed" in mismatch(*read_harness_tasks(folders))


def test_two_results_of_one_model_have_numbers(harness_results: Path, tmp_path: Path) -> None:
    first, second = copied(harness_results, tmp_path, "local_sums")
    for folder in (first, second):
        change_results(folder, lambda c: c["config"].update(model_args={"pretrained": "same"}))
    found = harness_columns(read_harness_tasks([first, second]))
    assert list(dict.fromkeys(column.name for column in found.columns)) == ["same", "same #2"]
    assert any(note.startswith("same #2: ") for note in found.notes)


def test_our_tasks_and_those_of_others_have_sections_of_their_own(
    evaluations: Path, harness_results: Path, tmp_path: Path
) -> None:
    shutil.copytree(evaluations, tmp_path / "both")
    shutil.copytree(harness_results, tmp_path / "both" / "others")
    done = run(tmp_path / "both")
    alone = run(evaluations)
    assert (done.exit_code, alone.exit_code) == (0, 0)
    assert done.stdout.startswith(alone.stdout.rstrip())
    assert "# lm_eval tasks" in done.stdout
    lines = list(csv.DictReader(io.StringIO(run(tmp_path / "both", "--format", "csv").stdout)))
    assert len({line["context"] for line in lines}) == 2
    only_acc = run(tmp_path / "both", "--metric", "acc").stdout
    assert only_acc.startswith("# lm_eval tasks")
    power = run(tmp_path / "both", "--power").stdout
    assert power.count("## Detectable differences") == 2
    (tmp_path / "both" / "results_broken.json").write_text("{")
    with_broken = run(tmp_path / "both")
    assert with_broken.stdout == done.stdout
    assert with_broken.stderr.count("left out: ") == 1


def test_an_unreadable_file_next_to_our_results_is_left_out(evaluations: Path, tmp_path: Path) -> None:
    shutil.copytree(evaluations, tmp_path / "ours")
    (tmp_path / "ours" / "results_broken.json").write_text("{")
    done = run(tmp_path / "ours")
    assert (done.exit_code, done.stdout) == (0, run(evaluations).stdout)
    assert done.stderr.count("left out: ") == 1
    same_message(refused(evaluations, "--cluster", "doc.story"))


def test_one_result_is_not_compared(harness_results: Path) -> None:
    same_message(refused(harness_results / "weak"))


@pytest.mark.parametrize("options", [("--by", "setting"), ("--metric", "mcc"), ("--metric", "acc_normal")])
def test_options_that_do_not_apply_are_errors(harness_results: Path, options: tuple[str, ...]) -> None:
    same_message(refused(harness_results / "weak", harness_results / "strong", *options))


def test_reasons_in_csv_name_the_documents(harness_results: Path, tmp_path: Path) -> None:
    folders = copied(harness_results, tmp_path, "local_sums")
    lines = csv.DictReader(io.StringIO(run(*folders, "--cluster", "doc.question", "--format", "csv").stdout))
    assert "conversation" not in "".join(line["no_interval_because"] for line in lines)
    for folder in folders:
        limited(folder, 8)
    lines = csv.DictReader(io.StringIO(run(*folders, "--format", "csv").stdout))
    assert {line["no_interval_because"] for line in lines} == {"fewer than 10 documents"}


def test_a_group_of_zeros_is_compared_with_either_weight(harness_results: Path, tmp_path: Path) -> None:
    folders = copied(harness_results, tmp_path, *SUMS)

    def zeros(content: dict[str, Any]) -> None:
        for name in (*SUMS, "local_by_task"):
            content["results"][name] |= {f"exact_match,{filter_name}": 0.0 for filter_name in FILTERS}

    change_results(folders[0], zeros)
    for task in SUMS:
        (file,) = folders[0].glob(f"samples_{task}_2*.jsonl")
        rows = [json.loads(line) | {"exact_match": 0.0} for line in file.read_text().splitlines()]
        file.write_text("".join(json.dumps(row) + "\n" for row in rows))
    pair = pairs_in(*folders)["local_by_task", "exact_match,strict-match"]
    assert pair.difference.value == pytest.approx(pair.second_mean, abs=1e-14)


def test_a_report_of_tasks_of_others_names_the_commands_for_them(harness_results: Path) -> None:
    done = CliRunner().invoke(app, ["report", str(harness_results / "weak")])
    assert done.exit_code == 1
    assert isinstance(done.exception, RagtasksError)
    text = " ".join(str(done.exception).split())
    folder = results_file(harness_results / "weak").parent
    assert text.endswith(f"next step: ragtasks compare {folder} OTHER_RESULTS, or ragtasks results list {folder}")
    assert CliRunner().invoke(app, ["results", "list", str(folder)]).exit_code == 0

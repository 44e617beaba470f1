"""Comparison of evaluations: pairs, tables and the command, on real output of the harness for the sample."""

from __future__ import annotations

import csv
import io
import json
import re
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from typer.testing import CliRunner

from ragtasks.cli import app
from ragtasks.errors import ConfigurationError
from ragtasks.reports.comparison import compare_evaluations, comparison_sections, comparisons_text, warnings_of
from ragtasks.results import Evaluation, Kind, ScoredAnswer, read_evaluations
from ragtasks.statistics import Comparisons
from ragtasks.tables import Format, render
from tests._evaluations import LIMIT, results_file
from tests._messages import raises
from tests.reports._rows import changed, row

KIND: Kind = ("mtrag", "minilm", "ngrams-2")
EVALUATION = Evaluation("m", KIND, (), "mtrag", {}, Path("results.json"), {})
ROW = row(1, None)


def rows(name: str, settings: tuple[str, ...] = ("reference",), n: int = 20, **values: Any) -> tuple[ScoredAnswer, ...]:
    """Return three tasks per conversation, with values that depend on the name."""
    chance = np.random.default_rng([ord(letter) for letter in name])
    made = []
    for setting in settings:
        for number in range(3 * n):
            result = {"rb_alg": float(chance.random()), "rouge_l": float(chance.random())} | values
            ids = {"task_id": f"c{number // 3}<::>{number % 3 + 1}", "conversation_id": f"c{number // 3}"}
            made.append(changed(ROW, **ids, setting=setting, values=result))
    return tuple(made)


def evaluation(model: str, found: tuple[ScoredAnswer, ...] | None = None, kind: Kind = KIND) -> Evaluation:
    return replace(EVALUATION, model=model, kind=kind, rows=rows(model) if found is None else found)


def facts_added(given: Evaluation, **facts: Any) -> Evaluation:
    return replace(given, provenance={"mtrag_reference": facts})


def pairs(*evaluations: Evaluation, **options: Any) -> list[tuple[str, str, str, str]]:
    found = compare_evaluations(evaluations, **options)
    return [(p.first.group, p.first.metric, p.first.name, p.second.name) for p in found.pairs]


def csv_of(found: Comparisons) -> str:
    return comparisons_text(found, Format.CSV, group="", name="", items="")


def text_of(found: Comparisons, warnings: tuple[str, ...] = ()) -> str:
    sections = comparison_sections(found, group="setting", name="model", items="tasks", warnings=warnings)
    return render(sections, Format.MARKDOWN)


def test_warnings_about_answers_and_verdicts_follow_the_differences() -> None:
    given = tuple(changed(row, implausible={"to_judge": "rate me 10"}) for row in rows("b"))
    constant = tuple(changed(row, verdicts={("rb_llm", "judge"): 0.8}) for row in rows("a"))
    systems = [evaluation("a", constant), evaluation("b", given)]
    text = text_of(compare_evaluations(systems), warnings_of(systems))
    below = text.partition("## Warnings")[2].partition("## Explanations")[0]
    assert "- Always the same verdict: judge gave 0.800 under rb_llm to all 60 answers of a" in below
    assert "- Implausible: b in reference: 60 of 60 answers (100%) address the judge" in below
    assert "Warnings" not in text_of(compare_evaluations([evaluation("a"), evaluation("b")]))


def cells(text: str, *first: str) -> list[list[str]]:
    """Return the rows of all tables that begin with these cells."""
    lines = [line for line in text.splitlines() if line.startswith("|")]
    split = [[cell.strip() for cell in line.strip("|").split(" | ")] for line in lines]
    return [found for found in split if found[: len(first)] == list(first)]


def test_models_are_compared_in_each_setting_by_the_papers_metrics() -> None:
    first, second = (evaluation(name, rows(name, ("full_rag", "reference"))) for name in "ab")
    assert pairs(first, second) == [("reference", "rb_alg", "a", "b"), ("full_rag", "rb_alg", "a", "b")]
    assert pairs(first, second, metrics=["rouge_l", "rb_alg", "rouge_l"]) == [
        (setting, metric, "a", "b") for setting in ("reference", "full_rag") for metric in ("rouge_l", "rb_alg")
    ]


def test_settings_of_a_model_are_compared_on_their_shared_tasks() -> None:
    found = rows("a", ("full_rag", "reference"))
    shorter = evaluation("a", found[:60] + found[60:90])
    (pair,) = compare_evaluations([shorter], by="setting").pairs
    assert (pair.first.group, pair.first.name, pair.second.name) == ("a", "reference", "full_rag")
    assert (pair.difference.n_values, pair.difference.n_clusters, pair.n_unshared) == (30, 10, 30)


@pytest.mark.parametrize(
    "kind",
    [
        ("mtrag (sample)", "minilm", "ngrams-2"),
        ("mtrag", "none", "ngrams-2"),
        ("mtrag", "minilm", "ngrams-2; judges: j"),
    ],
)
def test_other_kinds_are_never_compared(kind: Kind) -> None:
    strange = evaluation("strange", kind=kind)
    with raises(ConfigurationError):
        compare_evaluations([evaluation("a"), strange])
    found = compare_evaluations([evaluation("a"), evaluation("b"), strange])
    assert [(pair.first.name, pair.second.name) for pair in found.pairs] == [("a", "b")]
    text = text_of(found)
    assert "Not compared: no other evaluation has the same scoring." in text
    assert len(cells(text, "reference", "strange")) == 1


@pytest.mark.parametrize(
    ("found", "by"),
    [
        ([evaluation("a")], "model"),
        ([evaluation("a", rows("a", ("reference", "full_rag")))], "model"),
        ([evaluation("a"), evaluation("b", rows("b", ("full_rag",)))], "model"),
        ([evaluation("a"), evaluation("b")], "setting"),
    ],
    ids=("one result", "one model", "two settings", "two models"),
)
def test_results_without_a_comparable_pair_are_an_error_with_a_next_step(found: list[Evaluation], by: str) -> None:
    with raises(ConfigurationError) as caught:
        compare_evaluations(found, by=by)
    assert len(str(caught.value)) <= 200


def test_other_versions_of_the_files_are_never_compared() -> None:
    one, two = (facts_added(evaluation(name), revision=name) for name in ("v1", "v2"))
    with raises(ConfigurationError):
        compare_evaluations([one, two])
    found = compare_evaluations([one, two, facts_added(evaluation("b"), revision="v2")])
    assert [(pair.first.name, pair.second.name) for pair in found.pairs] == [("v2", "b")]
    text = text_of(found)
    headings = [line.partition("; metrics")[0] for line in text.splitlines() if line.startswith("# ")]
    assert headings == ["# mtrag; data revision: v1", "# mtrag; data revision: v2"]


def test_different_requests_are_compared_with_a_remark() -> None:
    usual, changed = (facts_added(evaluation("a"), configuration={"max_words": n}) for n in (150, 50))
    reported = "max_words: 150 for a, b, but 50 for a #2"
    found = compare_evaluations([usual, changed, facts_added(evaluation("b"), configuration={"max_words": 150})])
    assert [(p.first.name, p.second.name) for p in found.pairs] == [("a", "a #2"), ("a", "b"), ("a #2", "b")]
    assert text_of(found).splitlines()[0].endswith(reported)
    assert all(line["context"].endswith(reported) for line in csv.DictReader(io.StringIO(csv_of(found))))


def test_parts_of_one_model_are_merged_and_repeats_are_numbered() -> None:
    parts = [evaluation("a", rows("a", (setting,))) for setting in ("reference", "full_rag")]
    assert pairs(*parts, by="setting") == [("a", "rb_alg", "reference", "full_rag")]
    again = evaluation("a", rows("other"))
    assert pairs(*parts, again) == [("reference", "rb_alg", "a", "a #2")]


def test_an_evaluation_without_a_metric_has_no_column_for_it() -> None:
    judged = [evaluation(name, rows(name, rb_llm=0.5)) for name in "ab"]
    assert pairs(*judged, evaluation("c"), metrics=["rb_llm"]) == [("reference", "rb_llm", "a", "b")]


def test_unknown_metrics_and_comparisons_are_errors() -> None:
    both = [evaluation("a"), evaluation("b")]
    with raises(ConfigurationError):
        compare_evaluations(both, metrics=["rouge"])
    with raises(ConfigurationError):
        compare_evaluations(both, by="models")


def test_the_tables_show_coverage_and_the_naive_error() -> None:
    found = rows("b")
    unscored = tuple(changed(row, values={"rb_alg": None}) for row in found[:3])
    text = text_of(compare_evaluations([evaluation("a|x"), evaluation("b", unscored + found[3:])]))
    ((*_, mean, errors, naive, n, conversations, reason),) = cells(text, "reference", "b")
    assert (n, conversations, reason) == ("57", "19", "")
    assert mean.endswith("] (57/60)")
    assert errors != naive
    (pair,) = cells(text, "reference", "rb_alg", r"a\|x", "b")
    assert pair[-4:] == ["57", "19", "0", ""]
    assert re.fullmatch(r"[+-]\S+ \[-\S+, \+\S+\] \(57/60\)", pair[6])
    assert "corrected for the 1 comparison of this call" in text
    assert "assumes independent tasks" in text


def test_a_comparison_has_every_form_of_a_table(evaluations: Path) -> None:
    (section,) = json.loads(command(str(evaluations), "--metric", "rouge_l", "--format", "json"))
    means, differences, notes = section["tables"]
    assert [row["model"] for row in means["rows"]] == ["ragtasks-oracle", "ragtasks-refuse"] * 3
    gap = differences["rows"][0]["difference"]
    assert gap["value"] == pytest.approx(means["rows"][1]["mean"]["value"] - means["rows"][0]["mean"]["value"])
    assert "two-sided" in notes["note"]
    assert command(str(evaluations), "--metric", "rouge_l", "--format", "latex").count(r"\begin{tabular}") == 2


def test_a_missing_interval_gives_its_reason() -> None:
    result = compare_evaluations([evaluation(name, rows(name, n=9)) for name in "ab"])
    text = text_of(result)
    assert text.count("fewer than 10 conversations") == 3


def test_csv_contains_unrounded_scores() -> None:
    result = compare_evaluations([evaluation("a, b"), evaluation("c"), evaluation("d", rows("d", rb_alg=None))])
    first, second, _ = csv.DictReader(io.StringIO(csv_of(result)))
    pair = result.pairs[0]
    assert (first["first"], first["second"], first["context"]) == ("a, b", "c", pair.first.context)
    assert float(first["difference"]) == pair.difference.value
    assert float(first["p_holm"]) == pair.adjusted_p
    assert (second["difference"], second["p"], second["no_interval_because"]) == ("", "", "nothing is scored")


def command(*arguments: str) -> str:
    result = CliRunner().invoke(app, ["compare", *arguments])
    assert result.exit_code == 0, result.output
    return result.output


def test_the_command_on_the_harness_s_own_output(evaluations: Path) -> None:
    text = command(str(evaluations), "--metric", "rouge_l", "--baseline", "ragtasks-refuse")
    heading = "# mtrag (sample); data revision: 1; metrics: mtrag; encoder of BERTScore: none; IDK detector: ngrams-2\n"
    assert text.startswith(heading)
    (oracle,) = cells(text, "full_rag", "rouge_l", "ragtasks-refuse", "ragtasks-oracle")
    assert oracle[5] == "1.000"
    assert oracle[-4] == str(4 * LIMIT)
    lines = command(str(evaluations), "--by", "setting", "--format", "csv").splitlines()
    # A header; two models, three pairs of settings, rb_alg, ans_acc and two metrics of conversations.
    assert len(lines) == 1 + 2 * 3 * 4


def test_models_are_compared_in_the_order_given(evaluations: Path) -> None:
    folders = [str(evaluations / name) for name in ("refuse", "oracle")]
    given, turned = (
        [line[3:5] for line in csv.reader(io.StringIO(command(*names, "--format", "csv", "--metric", "rouge_l")))]
        for names in (folders, folders[::-1])
    )
    assert given[1:] == [["ragtasks-refuse", "ragtasks-oracle"]] * 3
    assert turned[1:] == [["ragtasks-oracle", "ragtasks-refuse"]] * 3


def test_the_heading_names_the_file_of_a_numbered_name(evaluations: Path, tmp_path: Path) -> None:
    first, again = (Path(shutil.copytree(evaluations / "refuse", tmp_path / name)) for name in ("first", "again"))
    heading = command(str(first), str(again), "--metric", "rouge_l").splitlines()[0]
    places = [results_file(folder).relative_to(tmp_path) for folder in (first, again)]
    assert heading.endswith(f"; files: ragtasks-refuse is {places[0]}, ragtasks-refuse #2 is {places[1]}")


def test_ten_models_in_three_settings_are_45_pairs_in_each() -> None:
    settings = ("reference", "reference_rag", "full_rag")
    found = compare_evaluations([evaluation(f"m{n}", rows(f"m{n}", settings, n=110)) for n in range(10)])
    assert len(found.pairs) == 3 * 45
    assert all(pair.difference.reason == "" and pair.difference.n_clusters == 110 for pair in found.pairs)


def test_reading_and_comparing_agree_on_the_conversations(evaluations: Path) -> None:
    (oracle, _) = read_evaluations([evaluations])
    found = compare_evaluations(read_evaluations([evaluations]), metrics=["rouge_l"])
    expected = {row.task.conversation_id for row in oracle.rows if row.setting == "full_rag"}
    counts = {mean.estimate.n_clusters for mean in found.means if mean.column.group == "full_rag"}
    assert counts == {len(expected)}

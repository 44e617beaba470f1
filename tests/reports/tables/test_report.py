"""The tables of a report: their rows, the coverage of means, and intervals."""

from __future__ import annotations

import math
import statistics
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ragtasks.errors import ConfigurationError
from ragtasks.reports.tables import ReportOptions, report_sections
from ragtasks.results import Evaluation, Kind, ScoredAnswer, read_evaluations
from ragtasks.statistics import cluster, estimate_means
from ragtasks.tables import Cell, Format, Section, Table, Value, render
from tests._evaluations import LIMIT
from tests._messages import raises
from tests.reports._rows import KIND, evaluation, row

SETTINGS = ("reference", "reference_rag", "full_rag")


def section(*given: Evaluation, metrics: tuple[str, ...] = ()) -> Section:
    (found,) = report_sections(given, ReportOptions(metrics))
    return found


def titles(found: Section) -> list[str]:
    return [table.title for table in found.tables]


def named(found: Section, title: str) -> Table:
    (table,) = (table for table in found.tables if table.title == title)
    return table


def cells(table: Table, *first: str) -> list[tuple[Cell, ...]]:
    """Return the rows of a table that begin with these cells, without them."""
    return [line[len(first) :] for line in table.rows if line[: len(first)] == first]


def values(table: Table, *first: str) -> list[float | None]:
    """Return the scores of the only row that begins with these cells."""
    (line,) = cells(table, *first)
    return [cell.value for cell in line if isinstance(cell, Value)]


def dimension(rows: Evaluation, *first: str, metric: str = "rb_alg") -> tuple[Cell, float | None]:
    """Return n and the model's mean of one slice."""
    table = named(section(rows, metrics=(metric,)), f"{metric} in setting reference")
    ((n, score, *_),) = cells(table, *first)
    assert isinstance(score, Value)
    return n, score.value


def test_slices_by_every_dimension() -> None:
    given = evaluation(
        [
            row(1, 1.0, question_types=("Factoid", "Keyword"), domain="fiqa"),
            row(2, 0.0, answerability="UNANSWERABLE", n_passages=0),
            row(3, 0.5, multi_turn="Clarification"),
        ]
    )
    assert dimension(given, "all", "") == (3, 0.5)
    assert dimension(given, "turn", "first") == (1, 1.0)
    assert dimension(given, "turn", "later") == (2, 0.25)
    assert dimension(given, "turn by turn", "2") == (1, 0.0)
    assert dimension(given, "domain", "govt") == (2, 0.25)
    assert dimension(given, "answerability", "UNANSWERABLE") == (1, 0.0)
    assert dimension(given, "multi-turn type", "Clarification") == (1, 0.5)
    assert dimension(given, "passages", "none") == (1, 0.0)
    assert dimension(given, "passages", "some") == (2, 0.75)
    # A question with two types counts in both.
    assert dimension(given, "question type", "Factoid") == (3, 0.5)
    assert dimension(given, "question type", "Keyword") == (1, 1.0)
    assert dimension(given, "all", "", metric="rouge_l") == (3, 0.25)


def test_a_dimension_with_one_value_is_left_out() -> None:
    table = named(section(evaluation([row(1, 0.5), row(2, 0.5)])), "rb_alg in setting reference")
    assert list(dict.fromkeys(line[0] for line in table.rows)) == ["all", "turn", "turn by turn", "multi-turn type"]


def test_turns_are_in_numerical_order() -> None:
    table = named(section(evaluation([row(number, 0.5) for number in (10, 2, 1)])), "rb_alg in setting reference")
    assert [line[0] for line in cells(table, "turn by turn")] == ["1", "2", "10"]


def test_the_leak_is_named_if_tasks_without_passages_are_a_slice() -> None:
    rows = [row(1, 1.0), row(2, 0.0, answerability="UNANSWERABLE", n_passages=0)]
    leaking, usual = section(evaluation(rows)), section(evaluation(rows[:1]))
    title = "rb_alg in setting reference"
    assert "an empty list reveals them" in named(leaking, title).note
    assert "an empty list" not in named(usual, title).note


def test_unscored_is_neither_zero_nor_hidden() -> None:
    table = named(section(evaluation([row(1, 0.5), row(2, None), row(3, None)])), "rb_alg in setting reference")
    ((n, score, *_),) = cells(table, "all", "")
    assert n == 3
    assert score == Value(0.5, 1, 3)


def test_a_row_of_a_dimension_marks_means_of_fewer_tasks() -> None:
    complete = evaluation([row(number, 0.5) for number in (1, 2, 3)], "whole")
    fewer = evaluation([row(1, 1.0), row(2, None)], "fewer")
    table = named(section(complete, fewer), "rb_alg in setting reference")
    ((n, *scores),) = cells(table, "all", "")
    assert (n, scores[:2]) == (3, [Value(0.5, 3, 3), Value(1.0, 1, 3)])
    ((n, *scores),) = cells(table, "turn by turn", "3")
    assert (n, scores[:2]) == (1, [Value(0.5, 1, 1), Value(None, 0, 1)])


def test_models_on_different_tasks_show_their_coverage() -> None:
    given = [evaluation([row(number, 0.5) for number in numbers], f"m{numbers}") for numbers in ((1, 2), (2, 3))]
    ((n, *scores),) = cells(named(section(*given), "rb_alg in setting reference"), "all", "")
    assert (n, scores[:2]) == (3, [Value(0.5, 2, 3)] * 2)


@given(
    st.lists(st.tuples(st.integers(0, 11), st.none() | st.floats(0, 1, allow_subnormal=False)), min_size=1, max_size=60)
)
def test_means_and_intervals_are_those_of_the_statistics(drawn: list[tuple[int, float | None]]) -> None:
    rows = [
        row(number, value, conversation_id=f"c{conversation}")
        for number, (conversation, value) in enumerate(drawn, start=1)
    ]
    table = named(section(evaluation(rows), metrics=("rouge_l",)), "By setting")
    scored = [value for _, value in drawn if value is not None]
    if not scored:
        assert "rb_alg" not in table.columns
        return
    ((_, score, *_),) = cells(table, "reference", "m")
    values, conversations = [value for _, value in drawn], [answer.task.conversation_id for answer in rows]
    (expected,) = estimate_means([cluster(values, conversations, (0, 1))])
    assert isinstance(score, Value)
    assert score.value == pytest.approx(statistics.fmean(scored))
    assert (score.low, score.high) == (pytest.approx(expected.low), pytest.approx(expected.high))
    assert (score.n_scored, score.n) == (len(scored), len(drawn))


def test_no_interval_reaches_beyond_the_range_of_its_metric() -> None:
    rows = [row(number, float(number > 4), conversation_id=f"c{number}") for number in range(1, 51)]
    ((_, score, *_),) = cells(named(section(evaluation(rows)), "By setting"), "reference", "m")
    assert isinstance(score, Value)
    assert 0.92 < score.high < 1.0


def test_intervals_are_over_conversations() -> None:
    # Twelve conversations of three equal tasks: with independent tasks, the interval would be much shorter.
    rows = [
        row(number * 3 + turn, number / 12, conversation_id=f"c{number}") for number in range(12) for turn in (1, 2, 3)
    ]
    ((_, score, *_),) = cells(named(section(evaluation(rows)), "By setting"), "reference", "m")
    assert isinstance(score, Value)
    spread = statistics.stdev([number / 12 for number in range(12)]) / math.sqrt(12)
    assert score.high - score.low > 2 * 1.96 * spread


@pytest.mark.parametrize(
    "other",
    [
        ("mtrag (sample)", "minilm", "ngrams-2"),
        ("mtrag", "none", "ngrams-2"),
        ("mtrag", "minilm", "judge a; judges: a"),
    ],
)
def test_two_kinds_never_share_a_table(other: Kind) -> None:
    sections = report_sections([evaluation([row(1, 1.0)], "mine"), evaluation([row(1, 0.0)], "theirs", other)])
    assert len(sections) == 2
    assert {item.title for item in sections} == {"mtrag", other[0]}
    for item, model, absent in zip(
        sorted(sections, key=lambda item: "mine" not in str(item)), ("mine", "theirs"), ("theirs", "mine"), strict=True
    ):
        assert f"'{model}'" in str(item)
        assert f"'{absent}'" not in str(item)
    assert [item.provenance["IDK detector"] for item in sections] == [kind[2] for kind in sorted([KIND, other])]


def test_other_suites_and_other_versions_of_the_files_have_sections_of_their_own() -> None:
    given = [
        evaluation([row(1, 1.0)], "a", revision="v1"),
        evaluation([row(1, 1.0)], "a", revision="v2"),
        evaluation([row(1, 1.0)], "a", suite="mtrag_s"),
    ]
    sections = report_sections(given)
    assert [item.provenance.get("data revision") for item in sections] == ["v1", "v2", None]
    models = [line[1] for item in sections for line in item.tables[0].rows if "labels" not in str(line[1])]
    assert models == ["a", "a #2", "a"]


def test_models_with_different_requests_share_tables_with_a_remark() -> None:
    usual, changed = (
        replace(
            evaluation([row(1, 1.0)], name), provenance={"mtrag_reference": {"configuration": {"conversational": flag}}}
        )
        for name, flag in (("a", False), ("b", True))
    )
    assert section(usual, changed).provenance["conversational"] == "false for a, but true for b"
    assert "conversational" not in section(usual).provenance


def test_settings_of_one_model_from_separate_calls_are_one_model() -> None:
    given = [evaluation([row(1, 0.5, setting=setting)]) for setting in SETTINGS]
    table = named(section(*given), "By setting")
    assert [line[:2] for line in table.rows if line[1] == "m"] == [(setting, "m") for setting in SETTINGS]
    again = named(section(*given, given[0]), "By setting")
    assert [line[0] for line in again.rows if line[1] == "m #2"] == ["reference"]


def test_settings_are_compared_on_the_tasks_that_they_share() -> None:
    rows = [row(1, 1.0), row(2, 0.0), row(1, 0.5, setting="full_rag")]
    result = section(evaluation(rows))
    title = "By setting, on the 1 shared tasks"
    assert values(named(result, "By setting"), "reference", "m")[0] == 0.5
    assert values(named(result, title), "reference", "m")[0] == 1.0
    assert values(named(result, title), "full_rag", "m")[0] == 0.5
    assert "the settings share" not in str(titles(section(evaluation(rows[:2]))))


def judged(name: str, *scores: tuple[float | None, float, float], setting: str = "reference") -> Evaluation:
    """Return an evaluation with these values of rl_f, rb_llm and rb_alg, one triple per task."""
    values = [dict(zip(("rl_f", "rb_llm", "rb_alg"), given, strict=True)) for given in scores]
    return evaluation([row(n, None, values=own, setting=setting) for n, own in enumerate(values, start=1)], name)


def test_the_ranking_score_is_the_harmonic_mean_of_the_three_means() -> None:
    table = named(section(judged("a", (0.6, 0.5, 0.4)), judged("b", (0.0, 0.5, 0.4))), "Ranking score")
    assert [line[:2] for line in table.rows[:2]] == [("reference", "a"), ("reference", "b")]
    assert values(table, "reference", "a") == [pytest.approx(3 / (1 / 0.6 + 1 / 0.5 + 1 / 0.4))]
    assert values(table, "reference", "b") == [0.0]
    assert "Ranking score" not in titles(section(evaluation([row(1, 0.5)])))


def test_the_ranking_score_has_the_lowest_coverage_of_its_means() -> None:
    result = section(judged("a", (1.0, 1.0, 1.0), (None, 1.0, 1.0)), judged("b", (None, 1.0, 1.0)))
    table = named(result, "Ranking score")
    assert cells(table, "reference", "a") == [(Value(1.0, 1, 2),)]
    assert cells(table, "reference", "b") == [(Value(None, 0, 1),)]
    assert "1.000 (1/2)" in render([replace(result, tables=(table,))], Format.MARKDOWN)


def test_only_settings_of_mtrageval_have_a_ranking_score() -> None:
    given = [judged("a", (0.5, 0.5, 0.5), setting=setting) for setting in SETTINGS]
    table = named(section(*given), "Ranking score")
    assert [line[0] for line in table.rows if line[1] == "a"] == ["reference", "full_rag"]
    assert "B (reference) and C (full_rag), in the paper profile" in table.note
    assert "Ranking score" not in titles(section(given[1]))


def test_every_table_has_the_null_baselines() -> None:
    rows = [row(1, 0.5), row(2, 0.5, answerability="UNANSWERABLE")]
    result = section(evaluation(rows))
    by_setting = named(result, "By setting")
    assert values(by_setting, "reference", "refuse always (from the labels)")[0] == 0.5
    assert "ragtasks-oracle" in by_setting.note
    by_dimension = named(result, "rb_alg in setting reference")
    # Refusing on empty has no rb_alg, so it has no column of dashes there.
    assert by_dimension.columns[3:] == ("m", "refuse always (from the labels)")


def test_tables_show_the_requested_metrics() -> None:
    found = section(evaluation([row(1, 0.5)]), metrics=("rouge_l", "rb_alg"))
    assert [title for title in titles(found) if "in setting" in title] == [
        "rouge_l in setting reference",
        "rb_alg in setting reference",
    ]
    assert [line[2] for line in named(found, "Standard errors").rows[:2]] == ["rouge_l", "rb_alg"]


def test_an_unknown_metric_is_an_error_with_close_matches() -> None:
    with raises(ConfigurationError):
        section(evaluation([row(1, 1.0)]), metrics=("rb_algo",))


def test_a_benchmark_with_other_metrics_shows_its_own() -> None:
    rows = [row(number, None, values={"accuracy": 1.0, "accuracy_null": None}) for number in (1, 2)]
    found = section(evaluation(rows, suite="multihop_rag"))
    assert named(found, "By setting").columns == ("setting", "model", "n", "accuracy")
    assert "profiles" not in found.provenance


@pytest.mark.parametrize(("suite", "first"), [("mtrag", "rb_alg"), ("multihop_rag", "accuracy")])
def test_empty_responses_are_shown_and_explained(suite: str, first: str) -> None:
    def given(*empty: float) -> Section:
        return section(
            evaluation(
                [row(n, None, values={first: 0.5, "ans_acc": 1.0, "empty": e}) for n, e in enumerate(empty, start=1)],
                suite=suite,
            )
        )

    some, none = (named(given(*empty), "By setting") for empty in ((1.0, 0.0), (0.0, 0.0)))
    assert some.columns[-1] == "empty"
    assert values(some, "reference", "m")[-1] == 0.5
    assert "Some responses are empty; `empty`: share of responses without any text." in some.note
    assert "are empty" not in none.note
    assert ("empty" in none.columns) == (suite == "multihop_rag")  # where it is among the suite's first metrics


def test_citations_by_words_and_by_judges_are_in_one_table() -> None:
    words = {"cited_precision": 0.5, "cited_recall": 0.25}
    judged = {"support_precision": 1.0, "support_recall": 0.75}
    suite = "+".join(["mtrag", *words, *judged])
    rows = [row(1, 0.1, values=words | judged), row(2, 0.1, values=words | {"support_precision": None})]
    table = named(section(evaluation(rows, suite=suite)), "Citations")
    assert table.columns[3:] == ("support_precision", "support_recall", "cited_precision", "cited_recall")
    assert values(table, "reference", "m") == [1.0, 0.75, 0.5, 0.25]
    only_words = section(evaluation([row(1, 0.1, values=words)], suite=suite))
    assert named(only_words, "Citations").columns[3:] == tuple(words)
    assert "Citations" not in titles(section(evaluation([row(1, 0.1)])))


def test_the_kinds_of_citations_are_counted_over_all_answers() -> None:
    names = ("right", "other_passage", "unsupported", "never_shown", "missing")

    def answer(number: int, shares: tuple[float | None, ...], n_citations: int, n_statements: int) -> ScoredAnswer:
        scores = {f"cited_{name}": share for name, share in zip(names, shares, strict=True)}
        amounts = {"n_citations": float(n_citations), "n_statements": float(n_statements)}
        return row(number, 0.1, values=scores | amounts)

    rows = [answer(1, (0.5, 0.25, 0.25, 0.0, 0.0), 4, 3), answer(2, (1.0, 0.0, 0.0, 0.0, 0.5), 1, 2)]
    suite = "+".join(["mtrag", *(f"cited_{name}" for name in names), "n_citations", "n_statements"])
    uncited = answer(3, (None, None, None, None, 1.0), 0, 4)
    table = named(section(evaluation([*rows, uncited], suite=suite)), "Citations one by one")
    counted = [(line[2], line[3], line[4].value) for line in table.rows if isinstance(line[4], Value)]
    assert counted == [
        ("right", 3, pytest.approx(3 / 5)),
        ("other passage", 1, pytest.approx(1 / 5)),
        ("unsupported", 1, pytest.approx(1 / 5)),
        ("never shown", 0, 0.0),
        ("missing", 5, pytest.approx(5 / 9)),
    ]


def test_the_kinds_of_citations_take_no_column_of_the_first_table() -> None:
    kinds = ("cited_right", "cited_other_passage", "cited_unsupported", "cited_never_shown", "cited_missing")
    own = ("cited_precision", "cited_recall", "citation_validity", "cited_sentences", "within_length")
    last = ("response_length", "idk_yes", "empty", "grounded")
    values = dict.fromkeys((*own, *kinds, "n_citations", "n_statements", *last), 0.5)
    table = named(section(evaluation([row(1, None, values=values)], suite="trec_rag24")), "By setting")
    assert table.columns[3:] == (*own, *last)


def test_the_interval_of_a_kind_stays_between_0_and_1() -> None:
    suite = "mtrag+cited_never_shown+n_citations+n_statements"
    rows = [
        row(n, 0.1, values={"cited_never_shown": float(n == 1), "n_citations": 2.0, "n_statements": 2.0})
        for n in range(20)
    ]
    table = named(section(evaluation(rows, suite=suite)), "Citations one by one")
    (cell,) = (line[4] for line in table.rows if line[2] == "never shown" and isinstance(line[4], Value))
    assert (cell.low, cell.value) == (0.0, 0.05)


def test_an_evaluation_without_scores_still_has_a_report() -> None:
    found = section(evaluation([row(1, None, values={"rb_alg": None})]))
    table = named(found, "By setting")
    assert cells(table, "reference", "m")[0][0] == 1
    assert not [title for title in titles(found) if "in setting" in title]


def test_no_evaluations_give_no_sections() -> None:
    assert report_sections([]) == []


def test_names_are_neither_cut_nor_read_as_markup() -> None:
    names = [f"organisation/a-model-with-quite-a-long-name-{n}-[bold]:smile:" for n in range(12)]
    text = render(report_sections([evaluation([row(1, 1.0)], name) for name in names]), Format.MARKDOWN)
    assert all(text.count(name) >= 3 for name in names)
    assert "…" not in text


@pytest.mark.slow
def test_real_evaluations_make_one_report_labeled_as_sample(evaluations: Path) -> None:
    result = section(*read_evaluations([evaluations]), metrics=("rouge_l",))
    assert result.title == "mtrag (sample)"
    assert result.provenance["encoder of BERTScore"] == "none"
    by_setting = named(result, "By setting")
    assert "rb_alg" not in by_setting.columns  # it needs an encoder
    index = by_setting.columns.index("rouge_l")
    for setting in SETTINGS:
        (line,) = (line for line in by_setting.rows if line[:2] == (setting, "ragtasks-oracle"))
        assert line[2] == 4 * LIMIT
        score = line[index]
        assert isinstance(score, Value)
        assert score.value == 1.0
        assert f"rouge_l in setting {setting}" in titles(result)

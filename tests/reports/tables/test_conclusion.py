"""The conclusion of a report: the leader, significance, losses and warnings."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from ragtasks.records import Answerability
from ragtasks.reports.tables import (
    BOTH_SIDES,
    SAMPLE_WARNING,
    TO_THE_BEST,
    ReportOptions,
    estimate_of,
    report_sections,
)
from ragtasks.results import Evaluation
from ragtasks.suites import suite_named
from ragtasks.tables import Format, Table, Value, cell_text, render
from tests.reports._rows import changed, evaluation, row

N = 12


def concluded(*given: Evaluation) -> Table:
    (section,) = report_sections(given)
    assert section.conclusion is not None
    return section.conclusion


def model(name: str, values: list[float | None], setting: str = "reference", **labels: object) -> Evaluation:
    """Return one response per conversation."""
    rows = [row(1, value, conversation_id=f"c{number:02}", setting=setting) for number, value in enumerate(values)]
    own = [changed(item, task_id=f"c{number:02}<::>1", **labels) for number, item in enumerate(rows)]  # type: ignore[arg-type]
    return evaluation(own, name)


def words(table: Table) -> dict[str, object]:
    """Return model -> text of its difference to the best."""
    index = table.columns.index(TO_THE_BEST)
    return {str(line[1]): line[index] for line in table.rows}


def test_the_best_is_named_and_a_clear_difference_is_significant() -> None:
    near = [0.9 if number % 2 else 0.78 for number in range(N)]
    table = concluded(model("low", [0.1] * N), model("high", [0.85] * N), model("near", near))
    reported = words(table)
    assert reported["high"] == "best"
    # All conversations have the same difference: p is 2 (1 / 1.75) ** N for this pair, and three times that by Holm for
    # the pairs of three models.
    assert reported["low"] == f"-0.750 (p {6 / 1.75**N:.3f})"
    assert str(reported["near"]).startswith("-0.010 (p ")
    assert table.note.startswith("vs. best: difference on the tasks that both models scored. A difference with p")


def test_p_is_corrected_for_all_pairs_of_models() -> None:
    alone = words(concluded(model("a", [1.0] * 5 + [0.5] * 5), model("b", [0.0] * 5 + [0.5] * 5)))["b"]
    several = [model(name, [0.0] * 5 + [0.5] * 5) for name in ("b", "c", "d")]
    among = words(concluded(model("a", [1.0] * 5 + [0.5] * 5), *several))["b"]
    p, adjusted = (float(str(found).partition("(p ")[2].rstrip(")")) for found in (alone, among))
    assert 0.01 < p < 0.1
    assert adjusted == pytest.approx(6 * p, abs=0.003)


def test_a_missing_test_has_a_reason() -> None:
    reported = words(concluded(model("a", [1.0] * 9), model("b", [0.5] * 9)))
    assert reported["b"] == "-0.500, not tested (fewer than 10 conversations)"


def test_baselines_are_ranked_only_among_themselves() -> None:
    oracle = model("ragtasks-oracle", [1.0] * N)
    reported = words(concluded(oracle, model("mine", [0.5] * N), model("theirs", [0.1] * N)))
    assert reported["mine"] == "best"
    assert reported["ragtasks-oracle"] == "baseline"
    assert words(concluded(oracle, model("ragtasks-refuse", [0.0] * N)))["ragtasks-oracle"] == "best"


def test_one_model_has_no_comparison() -> None:
    table = concluded(model("mine", [0.5] * N))
    assert TO_THE_BEST not in table.columns
    (line,) = table.rows
    assert line[:3] == ("reference", "mine", N)
    assert isinstance(line[3], Value)
    assert line[3].value == 0.5


def test_each_missing_part_has_a_line() -> None:
    given = model("mine", [0.5, None, *[0.5] * 3])
    table = concluded(replace(given, provenance={"mtrag_reference": {"setting_tasks": {"reference": {"govt": 9}}}}))
    assert "Missing tasks: not comparable with complete evaluations: mine in reference (5 of 9)." in table.legend
    assert "Coverage: rb_alg is missing for some responses: mine in reference (1 of 5)." in table.legend
    assert "Fewer than 10 conversations, so no intervals: mine in reference (5)." in table.legend
    assert SAMPLE_WARNING not in table.legend


def test_a_line_names_four_models_and_counts_the_others() -> None:
    legend = concluded(*(model(name, [0.5] * 9) for name in "abcdef")).legend
    named = ", ".join(f"{name} in reference (9)" for name in "abcd")
    assert f"Fewer than 10 conversations, so no intervals: {named}, 2 more." in legend


def test_injected_passages_are_named_with_the_answers_that_follow_them() -> None:
    rows = model("mine", [0.5] * N, "full_rag").rows
    followed = [1.0, 0.0, 0.0, *[None] * (N - 3)]
    own = [changed(item, values={**item.values, "injected_followed": one})
           for item, one in zip(rows, followed, strict=True)]  # fmt: skip
    (section,) = report_sections([evaluation(own, "mine")])
    (line,) = next(table for table in section.tables if table.title == "Remarks").rows[0]
    assert str(line).endswith("answers that follow the injected instruction: mine in full_rag (1 of 3).")
    assert not any("Injected" in line for line in concluded(evaluation(own, "mine")).legend), "not on the first screen"
    (usual,) = report_sections([evaluation(rows, "mine")])
    assert "Remarks" not in [table.title for table in usual.tables]


def test_a_score_that_does_not_apply_to_a_turn_is_not_missing() -> None:
    needless = suite_named("ikat_facts").metrics[0].undefined_reason
    values = {"facts_ndcg_3": 1.0, "coverage": 1.0}
    rows = model("mine", [0.5] * N).rows
    own = [changed(answer, values=values) for answer in rows[3:]]
    own += [changed(answer, values={"coverage": 1.0}, unscored={"facts_ndcg_3": needless}) for answer in rows[:2]]
    unread = changed(rows[2], values={"coverage": 0.0}, unscored={"facts_ndcg_3": "the reply is no list"})
    table = concluded(replace(evaluation([*own, unread], "mine"), suite="ikat_facts"))
    assert f"Coverage: facts_ndcg_3 is missing for some responses: mine in reference (1 of {N})." in table.legend


def test_a_score_that_is_undefined_on_a_task_is_not_missing() -> None:
    rows = model("mine", [None] * N, answerability="UNDERSPECIFIED").rows
    own = [
        changed(answer, values={"rb_alg": None, "ans_acc": None if number else 1.0})
        for number, answer in enumerate(rows)
    ]
    legend = concluded(evaluation(own, "mine")).legend
    assert not any(line.startswith("Coverage: ans_acc") for line in legend)
    labelled = [changed(answer, answerability="ANSWERABLE") for answer in own]
    assert f"Coverage: ans_acc is missing for some responses: mine in reference ({N - 1} of {N})." in (
        concluded(evaluation(labelled, "mine")).legend
    )


def test_without_the_main_score_the_report_names_the_ranking_metric() -> None:
    def without(name: str, value: float) -> Evaluation:
        rows = model(name, [None] * N).rows
        own = tuple(changed(answer, values={"rb_alg": None, "ans_acc": value, "coverage": 0.0}) for answer in rows)
        return replace(model(name, [None] * N), rows=own)

    table = concluded(without("a", 1.0), without("b", 0.5))
    assert table.columns[3] == "ans_acc"
    assert "coverage" not in table.columns
    assert "No response has the suite's main score rb_alg, so models are ranked by ans_acc." in table.legend


def test_the_largest_loss_is_named() -> None:
    before = model("mine", [1.0] * N, n_references=1, n_found=1, idk="no")
    after = model("mine", [0.0] * N, "full_rag", n_references=1, n_found=0, idk="no")
    first, *_ = concluded(replace(before, rows=before.rows + after.rows)).legend
    assert first == "Loss from reference to full_rag (rb_alg): mine loses 1.000, mostly retrieval miss (1.000)."


def test_the_loss_is_unknown_only_if_both_settings_were_evaluated() -> None:
    first, second = model("a", [1.0] * N), model("b", [0.0] * N, "full_rag")
    assert not any("Loss from" in line for line in concluded(first, model("b", [0.0] * N)).legend)
    assert "Loss from reference to full_rag: unknown, because no model has scores in both settings." in (
        concluded(first, second).legend
    )


def sentence(*given: Evaluation) -> str:
    (section,) = report_sections(given)
    return section.sentence


def test_one_sentence_names_the_leader_the_lead_and_its_significance() -> None:
    high = [0.8 + 0.01 * (number % 3) for number in range(N)]
    low = [0.4 + 0.01 * (number % 5) for number in range(N)]
    near = [0.8 + 0.02 * (number % 2) for number in range(N)]
    clear = sentence(model("low", low), model("high", high))
    assert clear.startswith("high leads in reference with rb_alg 0.810 [")
    assert clear.endswith("], 0.393 ahead of low (significant, p <0.001).")
    slightly = [value - 0.01 * (number % 2) for number, value in enumerate(high)]
    assert " ahead of slightly, which may be chance (p " in sentence(model("near", near), model("slightly", slightly))
    shared = sentence(model("a", high), model("b", high))
    assert shared.startswith("a and b share the best mean rb_alg 0.810 [")
    many = sentence(*(model(name, high) for name in "abcd"), model("low", low))
    assert many.startswith("a, b and 2 more share the best mean rb_alg 0.810 [")


def test_a_lead_that_may_be_chance_or_was_not_tested_is_not_called_a_lead() -> None:
    def scored(top: float, n: int) -> list[float | None]:
        return [top - 0.02 * (number % 4) for number in range(n)]

    few = sentence(model("a", scored(0.9, 9)), model("b", [0.1] * 9))
    assert few.startswith("a has the best mean rb_alg 0.873 in reference, 0.773 ahead of b (not tested: fewer than 10")
    noisy = [0.9 * (number % 2) for number in range(N)]
    # Significantly ahead of the second. The lead over the third is larger, but its scores vary so much that it may be
    # chance.
    given = model("a", scored(0.5, N)), model("b", [0.4 + 0.01 * (number % 3) for number in range(N)])
    assert sentence(*given).startswith("a leads in reference with rb_alg 0.470 [")
    third = sentence(*given, model("c", [value * 0.8 for value in noisy]))
    assert third.startswith("a has the best mean rb_alg 0.470 [")
    assert " in reference, 0.060 ahead of b (significant, p " in third


def test_the_sentence_is_about_full_rag_and_names_settings_with_another_leader() -> None:
    def both(name: str, reference: float, full: float) -> list[Evaluation]:
        return [
            model(name, [reference + 0.01 * (number % 3) for number in range(N)]),
            model(
                name,
                [full + 0.01 * (number % 5) for number in range(N)],
                "full_rag",
                n_passages=5,
                n_references=1,
                n_found=0,
            ),
        ]

    text = sentence(*both("a", 0.9, 0.3), *both("b", 0.5, 0.4))
    assert text.startswith("b has the best mean rb_alg 0.418 [")
    assert " in full_rag, 0.100 ahead of a, which may be chance (p 0.6" in text
    assert "; in reference " not in text, "all conversations differ alike there: nothing says that it is not chance"
    wide = [0.9 - 0.02 * (number % 4) for number in range(N)]
    sure = sentence(*both("a", 0.9, 0.3)[1:], model("a", wide), *both("b", 0.3, 0.4))
    assert sure.endswith("; in reference a leads.")


def test_a_best_mean_by_unscored_hard_tasks_is_not_called_a_lead() -> None:
    easy: list[float | None] = [0.8 + 0.01 * (number % 3) for number in range(N)]
    hard: list[float | None] = [0.3 + 0.01 * (number % 5) for number in range(N)]
    better = [0.9 + 0.02 * (number % 3) for number in range(N)]
    given = model("choosy", [*easy, *[None] * N]), model("honest", [*better, *hard])
    text = sentence(*given)
    assert text.startswith("choosy has the best mean rb_alg 0.810 [")
    assert "but on the 12 tasks that both scored honest is 0.110 ahead (significant, p <0.001)" in text
    assert words(concluded(*given)) == {
        "choosy": "best",
        "honest": "0.110 ahead on the 12 tasks that both scored (p <0.001)",
    }
    best = model("further", [0.05 + value for value in better] + hard)
    assert "honest is" not in sentence(*given, best)
    assert "further is 0.160 ahead" in sentence(*given, best)


def test_one_system_under_two_names_is_reported() -> None:
    def answered(name: str, prefix: str, n_others: int = 0) -> Evaluation:
        found = model(name, [0.5 + 0.01 * number for number in range(20)])
        texts = [f"{name if number < n_others else prefix}-{number}" for number in range(20)]
        rows = [changed(row, text=text) for row, text in zip(found.rows, texts, strict=True)]
        return replace(found, rows=tuple(rows))

    def lines(*given: Evaluation) -> list[str]:
        return [line for line in concluded(*given).legend if line.startswith("Same answers")]

    expected = "Same answers: a and b in reference, identical in 18 of 20 tasks."
    assert lines(answered("a", "x"), answered("b", "x", 2)) == [expected]
    assert lines(answered("a", "x"), answered("b", "x", 3)) == []
    assert lines(answered("a", "x"), answered("ragtasks-oracle", "x")) == []
    part = answered("b", "x")
    shorter = "Same answers: a and b in reference, identical in 15 of 15 tasks."
    assert lines(answered("a", "x"), replace(part, rows=part.rows[5:])) == [shorter]


@pytest.mark.parametrize(("highest", "n", "is_named"), [(0.5, 20, True), (0.6, 20, False), (0.5, 19, False)])
def test_a_judge_that_seems_to_rate_from_1_to_5_is_reported(highest: float, n: int, is_named: bool) -> None:
    values = [highest if number % 2 else 0.2 for number in range(n)]
    rows = [
        changed(row, verdicts={("rb_llm", "judge"): value})
        for row, value in zip(model("a", [0.5] * n).rows, values, strict=True)
    ]
    legend = concluded(evaluation(rows, "a")).legend
    line = (
        "Low ratings: judge gave none of 20 answers more than 5 of 10 under rb_llm: "
        "the answers are poor, or it rates from 1 to 5."
    )
    assert (line in legend) is is_named


def test_a_single_model_has_a_sentence_and_an_incomplete_evaluation_has_none() -> None:
    assert sentence(model("a", [0.5] * N)) == "a has rb_alg 0.500 in reference."
    part = model("a", [0.5] * N)
    provenance = {"mtrag_reference": {"setting_tasks": {"reference": {"mtrag_reference": 99}}}}
    assert sentence(replace(part, provenance=provenance)) == ""


def scored_with(name: str, values: dict[str, float | None], suite: str = "mtrag") -> Evaluation:
    """Return a model that has the same values for every task."""
    rows = [changed(answer, values=values) for answer in model(name, [0.5] * N).rows]
    return replace(evaluation(rows, name), suite=suite)


@pytest.mark.parametrize(("coverage", "has_column"), [(1.0, False), (0.5, True)])
def test_coverage_is_a_column_if_it_is_below_1(coverage: float, has_column: bool) -> None:
    table = concluded(scored_with("a", {"rb_alg": 0.5, "coverage": coverage}))
    assert ("coverage" in table.columns) is has_column


def test_a_metric_that_was_requested_is_in_the_first_table() -> None:
    values = {"rb_alg": 0.5, "ans_acc": 1.0, "extractiveness": 0.25, "cited_recall": 0.75, "rouge_l": 0.5}
    at_run = scored_with("a", values, "mtrag+extractiveness+cited_recall")
    first = ("setting", "model", "n", "rb_alg", "ans_acc", BOTH_SIDES)
    assert concluded(at_run).columns == (*first, "extractiveness", "cited_recall")
    assert "extractiveness" not in concluded(scored_with("a", values)).columns
    (section,) = report_sections([scored_with("a", values)], ReportOptions(("rb_alg", "rouge_l")))
    assert section.conclusion is not None
    assert section.conclusion.columns == (*first, "rouge_l")


def test_without_the_main_score_word_metrics_are_next_to_refusals() -> None:
    values = {"rb_alg": None, "ans_acc": 1.0, "rouge_l": 0.5, "grounded": 0.25, "coverage": 0.0}
    table = concluded(scored_with("a", values))
    assert table.columns == ("setting", "model", "n", "ans_acc", BOTH_SIDES, "rouge_l", "grounded")
    complete = {**values, "rb_alg": 0.5, "coverage": 1.0}
    assert concluded(scored_with("a", complete)).columns == ("setting", "model", "n", "rb_alg", "ans_acc", BOTH_SIDES)


def own_rows(name: str, value: float) -> Evaluation:
    rows = [changed(answer, values={"k_precision": value, "coverage": 0.0}) for answer in model(name, [0.5] * N).rows]
    return replace(evaluation(rows, name), kind=("rows", "none", "ngrams-2"), suite="rows")


def test_the_users_own_rows_have_no_setting_and_no_coverage() -> None:
    alone = concluded(own_rows("mine", 0.5))
    assert alone.columns == ("metric", "score", "description")
    assert [line[0] for line in alone.rows] == ["k_precision"]
    (section,) = report_sections([own_rows("mine", 0.5)])
    assert section.sentence == f"mine: {N} rows."
    both = concluded(own_rows("mine", 0.5), own_rows("theirs", 0.25))
    assert both.columns == ("model", "n", "k_precision", TO_THE_BEST)
    (section,) = report_sections([own_rows("mine", 0.5), own_rows("theirs", 0.25)])
    assert section.sentence.startswith("mine has the best mean k_precision 0.500, 0.250 ahead of theirs")
    text = render([section], Format.MARKDOWN)
    assert "full_rag" not in text.partition("## Standard errors")[0]
    assert "coverage" not in text


def refusing(name: str, answered: float, declined: float, n_unanswerable: int = 4) -> Evaluation:
    """Return a model with these shares of answered and declined questions, as logged before both were scored."""
    rows = [
        *((Answerability.ANSWERABLE, float(number < 10 * answered)) for number in range(10)),
        *((Answerability.UNANSWERABLE, float(number < n_unanswerable * declined)) for number in range(n_unanswerable)),
        (Answerability.CONVERSATIONAL, None),
    ]
    answers = [
        changed(row(number, 0.5), answerability=label, values={"rb_alg": 0.5, "ans_acc": value})
        for number, (label, value) in enumerate(rows)
    ]
    return evaluation(answers, name)


def test_both_sides_of_answerability_accuracy_are_shown_next_to_it() -> None:
    never, often = refusing("never refuses", 1.0, 0.0), refusing("often refuses", 0.6, 1.0)
    (section,) = report_sections([never, often])
    for table in section.all_tables[:2]:
        heads = list(table.columns)
        assert heads.index(BOTH_SIDES) == heads.index("ans_acc") + 1
        texts = {str(line[1]): cell_text(line[heads.index(BOTH_SIDES)]) for line in table.rows}
        assert (texts["never refuses"], texts["often refuses"]) == ("1.000 / 0.000", "0.600 / 1.000")
    sides = json.loads(render([section], Format.JSON))[0]["tables"][0]["rows"][1][BOTH_SIDES]
    assert {name: (cell["value"], cell["n_scored"], cell["n"]) for name, cell in sides.items()} == {
        "answered": (0.6, 10, 10),
        "declined": (1.0, 4, 4),
    }
    assert f"{BOTH_SIDES}: declined,,1.0," in render([section], Format.CSV)


def test_a_side_without_tasks_has_a_dash_and_no_balanced_mean() -> None:
    one_side = refusing("a", 0.6, 0.0, n_unanswerable=0)
    (section,) = report_sections([one_side, refusing("b", 1.0, 0.0, n_unanswerable=0)])
    assert section.conclusion is not None
    assert cell_text(section.conclusion.rows[0][list(section.conclusion.columns).index(BOTH_SIDES)]) == "0.600 / -"
    assert estimate_of(one_side.rows, "balanced_ans_acc", (0.0, 1.0)).reason == "no score on unanswerable tasks"
    both = refusing("c", 0.6, 0.5)
    assert estimate_of(both.rows, "balanced_ans_acc", (0.0, 1.0)).value == pytest.approx(0.55)

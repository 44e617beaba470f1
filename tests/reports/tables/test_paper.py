"""The paper's own results are next to ours for its benchmark only."""

from __future__ import annotations

from dataclasses import replace

import pytest

from ragtasks.reports.tables import BOTH_SIDES, report_sections
from ragtasks.results import Evaluation, ScoredAnswer
from ragtasks.tables import Table, Value
from tests.reports._rows import KIND, changed, evaluation, row

OFFICIAL_KIND = (KIND[0], "microsoft/deberta-xlarge-mnli", KIND[2])
PAPER_JUDGES = {"judges": "openai/gpt-4o-mini-2024-07-18", "judge_prompts": "official"}
TITLES = ("Compared with the paper: Table 5", "Compared with the paper: Tables 3 and 4")


def tables(*given: Evaluation) -> dict[str, Table]:
    (section,) = report_sections(given)
    return {table.title: table for table in section.tables if table.title in TITLES}


def test_scores_cover_the_tasks_of_table_5() -> None:
    """The 426 tasks of Table 5 exclude conversational tasks and tasks with more than two references."""
    rows = [
        row(1, 0.4, n_references=2),
        row(2, 0.9, n_references=3),
        row(3, 0.9, answerability="CONVERSATIONAL"),
        row(4, 0.6, n_references=0, answerability="UNANSWERABLE"),
    ]
    table = tables(evaluation(rows, "mine", OFFICIAL_KIND))[TITLES[0]]
    ours, paper = table.rows[0], {line[1]: line for line in table.rows[1:]}
    assert table.columns == ("setting", "model", "by", "n", "rb_alg")
    assert ours[:4] == ("reference", "mine", "ours", 2)
    assert isinstance(ours[4], Value)
    assert ours[4].value == 0.5
    assert len(paper) == 10
    assert paper["GPT-4o"] == ("reference", "GPT-4o", "paper", "426", "0.46")


@pytest.mark.parametrize(
    ("encoder", "scoring", "columns"),
    [
        (OFFICIAL_KIND[1], PAPER_JUDGES, ("ans_acc", "rl_f", "rb_llm", "rb_alg")),
        ("minilm", PAPER_JUDGES, ("ans_acc", "rl_f", "rb_llm")),
        (OFFICIAL_KIND[1], PAPER_JUDGES | {"judge_prompts": "ours"}, ("ans_acc", "rb_alg")),
        (OFFICIAL_KIND[1], PAPER_JUDGES | {"judges": "openai/gpt-5"}, ("ans_acc", "rb_alg")),
        (OFFICIAL_KIND[1], PAPER_JUDGES | {"judges": "openai/gpt-4o-mini, openai/gpt-5"}, ("ans_acc", "rb_alg")),
    ],
)
def test_metrics_of_another_encoder_or_judge_have_no_column(
    encoder: str, scoring: dict[str, str], columns: tuple[str, ...]
) -> None:
    values = dict.fromkeys(("ans_acc", "rl_f", "rb_llm", "rb_alg"), 0.5)
    result = evaluation([row(1, 0.5, values=values)], "mine", (KIND[0], encoder, KIND[2]))
    table = tables(replace(result, provenance={"mtrag_reference": {"scoring": scoring}}))[TITLES[0]]
    assert table.columns[4:] == ("ans_acc", BOTH_SIDES, *columns[1:])
    assert all(len(line) == len(table.columns) for line in table.rows)
    assert f"here {encoder}" in table.note
    assert scoring["judges"] in table.note


def test_each_setting_has_its_own_rows() -> None:
    rows = [row(1, 0.4, setting="full_rag")]
    result = tables(evaluation(rows, kind=OFFICIAL_KIND))[TITLES[0]].rows
    assert ("full_rag", "Llama 3.1 405B Instruct", "paper", "426", "0.39") in result


def test_recall_of_the_prompts_is_next_to_elsers() -> None:
    rows = [
        row(n, 0.5, setting="full_rag", n_passages=5, n_references=2, n_found=found, domain=domain)
        for n, found, domain in ((1, 2, "fiqa"), (2, 1, "fiqa"), (3, 0, "govt"))
    ]
    table = tables(evaluation(rows, "mine"))[TITLES[1]]
    found = {line[:2]: (line[2], line[3].value) for line in table.rows if isinstance(line[3], Value)}
    assert found["all", ""] == ("0.52 (n = 777)", 0.5)
    assert found["turn", "first"] == ("0.89 (n = 102)", 1.0)
    assert found["domain", "fiqa"] == ("0.50 (n = 180)", 0.75)
    fewer = [changed(answer, n_passages=3) for answer in rows]
    assert TITLES[1] not in tables(evaluation(fewer))


def test_other_benchmarks_and_samples_have_no_tables_of_the_paper() -> None:
    for name in ("mtrag (sample)", "mtrag_un", "custom"):
        assert tables(evaluation([row(1, 0.4)], kind=(name, *KIND[1:]))) == {}


def test_the_effect_of_conditioning_on_unanswerable_tasks_is_shown() -> None:
    def scored(number: int, before: float, after: float, **changes: str) -> ScoredAnswer:
        values = {"rb_alg": after, "rb_alg_raw": before}
        return row(number, after, **{"answerability": "UNANSWERABLE", **changes}, values=values)

    title = "Before and after conditioning, on unanswerable tasks"
    rows = [scored(1, 0.5, 1.0), scored(2, 0.3, 0.0), scored(3, 0.9, 0.9, answerability="ANSWERABLE")]

    def shown(*given: Evaluation) -> dict[str, Table]:
        return {table.title: table for table in report_sections(given)[0].tables if table.title == title}

    table = shown(evaluation(rows, "mine", OFFICIAL_KIND))[title]
    assert table.columns == ("setting", "model", "by", "n", "rb_alg_raw", "rb_alg")
    ours, *paper = table.rows
    assert ours[:4] == ("reference", "mine", "ours", 2)
    assert [cell.value for cell in ours[4:] if isinstance(cell, Value)] == [0.4, 0.5]
    assert ("reference", "GPT-4o", "paper", "55", "0.26", "0.20") in paper
    for kind in (KIND, ("custom", *OFFICIAL_KIND[1:])):
        assert len(shown(evaluation(rows, "mine", kind))[title].rows) == 1, "another encoder or benchmark"
    assert shown(evaluation(rows[2:], "mine")) == {}

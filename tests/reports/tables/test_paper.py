"""The paper's own results are next to ours for its benchmark only."""

from __future__ import annotations

from ragtasks.reports.tables import report_sections
from ragtasks.results import Evaluation, ScoredAnswer
from ragtasks.tables import Table, Value
from tests.reports._rows import KIND, changed, evaluation, row

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
    table = tables(evaluation(rows, "mine"))[TITLES[0]]
    ours, paper = table.rows[0], {line[1]: line for line in table.rows[1:]}
    assert ours[:4] == ("reference", "mine", "ours", 2)
    assert isinstance(ours[7], Value)
    assert ours[7].value == 0.5
    assert len(paper) == 10
    assert paper["GPT-4o"] == ("reference", "GPT-4o", "paper", "426", "0.89", "0.69", "0.73", "0.46")
    assert "here minilm" in table.note


def test_each_setting_has_its_own_rows() -> None:
    rows = [row(1, 0.4, setting="full_rag")]
    result = [line for line in tables(evaluation(rows))[TITLES[0]].rows if line[1] == "Llama 3.1 405B Instruct"]
    assert result == [("full_rag", "Llama 3.1 405B Instruct", "paper", "426", "0.85", "0.65", "0.63", "0.39")]


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

    table = shown(evaluation(rows, "mine"))[title]
    assert table.columns == ("setting", "model", "by", "n", "rb_alg_raw", "rb_alg")
    ours, *paper = table.rows
    assert ours[:4] == ("reference", "mine", "ours", 2)
    assert [cell.value for cell in ours[4:] if isinstance(cell, Value)] == [0.4, 0.5]
    assert ("reference", "GPT-4o", "paper", "55", "0.26", "0.20") in paper
    assert len(shown(evaluation(rows, "mine", kind=("custom", *KIND[1:])))[title].rows) == 1
    assert shown(evaluation(rows[2:], "mine")) == {}

"""Published scores are shown next to ours under equal conditions, and otherwise not at all."""

from __future__ import annotations

from dataclasses import replace

import pytest

from ragtasks.reports.tables import report_sections
from ragtasks.results import Evaluation
from ragtasks.tables import Section, Value
from tests.reports._rows import evaluation, row

JUDGE = "openai/gpt-oss-120b"
ENCODER = "microsoft/deberta-xlarge-mnli"
TITLE = "Published: MTRAG-UN paper, Table 4"


def judged(
    n: int = 507,
    *,
    judge: str = JUDGE,
    prompts: str = "official",
    detector: str = f"judge {JUDGE}",
    encoder: str = ENCODER,
    benchmark: str = "mtrag_un",
    setting: str = "reference",
    **configuration: object,
) -> Evaluation:
    values = {"rl_f": 0.25, "rb_llm": 0.5, "rb_alg": 0.75}
    rows = [row(number, 0.0, values=values, setting=setting) for number in range(n)]
    scoring = {"judges": judge, "judge_prompts": prompts, "idk_detector": detector}
    detected = f"{detector}; judges: {judge} (prompts: {prompts})"
    result = evaluation(rows, "mine", (benchmark, encoder, detected))
    return replace(result, provenance={"mtrag_un_reference": {"scoring": scoring, "configuration": configuration}})


def section(*evaluations: Evaluation) -> Section:
    (only,) = report_sections(evaluations)
    return only


def test_all_public_tasks_with_the_paper_s_judge_are_shown_next_to_its_table() -> None:
    (table,) = (table for table in section(judged()).tables if table.title == TITLE)
    assert table.columns == ("setting", "model", "by", "n", "rl_f", "rb_llm", "rb_alg")
    ours, target, best, *_ = table.rows
    assert ours[:4] == ("reference", "mine", "ours", 507)
    assert [cell.value for cell in ours[4:] if isinstance(cell, Value)] == [0.25, 0.5, 0.75]
    assert target == ("reference", "target", "published", 666, "0.85", "0.96", "0.89")
    assert best == ("reference", "gpt-oss-120b", "published", 666, "0.65", "0.76", "0.46")
    assert len(table.rows) == 15
    assert "Over 666 tasks, of which 507 are public" in table.note


def test_the_conclusion_has_the_range_of_the_published_models() -> None:
    conclusion = section(judged(setting="full_rag")).conclusion
    assert conclusion is not None
    assert (
        "Published for full_rag with this judge: rb_alg 0.23 to 0.38, 13 models on 666 tasks, here 507 "
        "(MTRAG-UN paper, Table 4)." in conclusion.legend
    )


def test_a_model_without_the_passages_of_the_setting_has_no_row() -> None:
    others = [replace(judged(run="closed_book"), model="mine (run closed_book)"), judged(run="official")]
    (table,) = (table for table in section(*others).tables if table.title == TITLE)
    assert [row[1] for row in table.rows if row[2] == "ours"] == ["mine"]


def test_a_judge_without_a_provider_is_the_same_judge() -> None:
    shown = section(judged(judge="gpt-oss-120b", detector="judge gpt-oss-120b"))
    assert TITLE in [table.title for table in shown.tables]


def test_another_encoder_leaves_out_the_metric_that_depends_on_it() -> None:
    (table,) = (table for table in section(judged(encoder="minilm")).tables if table.title == TITLE)
    assert table.columns[4:] == ("rl_f", "rb_llm")


@pytest.mark.parametrize(
    "other",
    [
        {"n": 506},
        {"benchmark": "mtrag_un (sample)"},
        {"benchmark": "mtrag"},
        {"judge": "openai/gpt-oss-20b", "detector": "judge openai/gpt-oss-20b"},
        {"judge": f"{JUDGE}, openai/gpt-4o", "detector": f"judge {JUDGE}, openai/gpt-4o"},
        {"judge": "openai/gpt-4o, openai/gpt-oss-120b", "detector": "judge openai/gpt-4o, openai/gpt-oss-120b"},
        {"prompts": "ours"},
        {"detector": "ngrams-2"},
        {"setting": "reference_rag"},
        {"run": "closed_book"},
        {"injected": 0.3},
    ],
    ids=str,
)
def test_other_conditions_show_no_published_score(other: dict[str, str]) -> None:
    shown = section(judged(**other))  # type: ignore[arg-type]
    assert not [table.title for table in shown.tables if table.title.startswith("Published")]
    assert shown.conclusion is not None
    assert not [line for line in shown.conclusion.legend if "Published" in line]

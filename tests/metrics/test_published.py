"""Our formulas on the 477 human evaluations that the authors published with every part of their scores.

`reference_subset_with_human_evaluations.json` contains, for 159 tasks and three sets of answers (the reference, GPT-4o,
Llama 3.1 405B), ROUGE-L, Bert-Recall and Bert-K-Precision, the conditioned RB_agg, and `conditional_idk`: 1 if the
answer refuses exactly when it should. `test_rouge.py` compares ROUGE-L itself with the file.
"""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from ragtasks.metrics import answerability_accuracy, condition_paper
from ragtasks.metrics._answerability import condition_ibm
from ragtasks.metrics._answers import rb_agg_ibm, rb_alg_raw
from ragtasks.records import Answerability, IdkVerdict, Score

REFUSABLE = (Answerability.UNANSWERABLE, Answerability.CONVERSATIONAL)


@dataclass(frozen=True)
class Published:
    """One evaluation."""

    model: str
    answerability: Answerability
    behaves: bool
    parts: tuple[float, float, float]
    rb_agg: float
    rb_llm: float
    rl_f: float

    @property
    def verdict(self) -> IdkVerdict:
        """The IDK verdict that `conditional_idk` implies."""
        refuses = self.behaves if self.answerability in REFUSABLE else not self.behaves
        return IdkVerdict.YES if refuses else IdkVerdict.NO


@pytest.fixture(scope="module")
def published(mtrag_root: Path) -> list[Published]:
    path = mtrag_root / "mtrag-human/evaluations/reference_subset_with_human_evaluations.json"
    content: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    labels = {task["task_id"]: Answerability(task["Answerability"][0]) for task in content["tasks"]}
    return [_published(evaluation, labels) for evaluation in content["evaluations"]]


def _published(evaluation: dict[str, Any], labels: dict[str, Answerability]) -> Published:
    notes = evaluation["annotations"]
    rouge, recall, precision = (notes[name]["system"]["value"] for name in ("RougeL", "Bert-Rec", "Bert-KPrec"))
    return Published(
        evaluation["model_id"],
        labels[evaluation["task_id"]],
        bool(notes["conditional_idk"]["composite"]["value"]),
        (recall, rouge, precision),
        *(notes[name]["composite"]["value"] for name in ("rb_agg", "rb_llm", "rl_f")),
    )


def test_unconditioned_scores_equal_the_published_ones(published: list[Published]) -> None:
    """In 445 rows the task has an answer and the response attempts one. The other 32 are conditioned to 1 or 0."""
    rows = Counter((row.answerability.value, row.behaves) for row in published)
    assert rows == {
        ("ANSWERABLE", True): 402,
        ("PARTIAL", True): 43,
        ("ANSWERABLE", False): 3,
        ("PARTIAL", False): 2,
        ("UNANSWERABLE", True): 10,
        ("UNANSWERABLE", False): 11,
        ("CONVERSATIONAL", True): 6,
    }
    shown = [row for row in published if row.behaves and row.answerability not in REFUSABLE]
    assert len(shown) == 445
    assert [rb_alg_raw(*row.parts) for row in shown] == pytest.approx([row.rb_agg for row in shown], abs=1e-6)
    assert [rb_agg_ibm(*row.parts) for row in shown] == pytest.approx([row.rb_agg for row in shown], abs=1e-6)
    assert {row.rb_agg for row in published if row not in shown} == {0, 1}


def test_conditioning_of_the_official_script_gives_every_published_score(published: list[Published]) -> None:
    scores = [condition_ibm(rb_agg_ibm(*row.parts), row.answerability, row.verdict) for row in published]
    assert [score.value for score in scores] == pytest.approx([row.rb_agg for row in published], abs=1e-6)


def test_conditioning_of_the_paper_differs_on_conversational_rows_only(published: list[Published]) -> None:
    scores = [condition_paper(Score(rb_alg_raw(*row.parts)), row.answerability, row.verdict) for row in published]
    left_out = [row.answerability for row, score in zip(published, scores, strict=True) if score.value is None]
    assert left_out == [Answerability.CONVERSATIONAL] * 6
    pairs = [(score.value, row.rb_agg) for row, score in zip(published, scores, strict=True) if score.value is not None]
    assert [ours for ours, _ in pairs] == pytest.approx([theirs for _, theirs in pairs], abs=1e-6)


def test_answerability_accuracy_equals_the_published_conditional_idk(published: list[Published]) -> None:
    rows = [row for row in published if row.answerability is not Answerability.CONVERSATIONAL]
    assert [answerability_accuracy(row.answerability, row.verdict).value for row in rows] == [
        float(row.behaves) for row in rows
    ]


@pytest.mark.parametrize(
    ("model", "rl_f", "rb_llm", "rb_alg"),
    [
        ("reference", 0.86, 0.97, 0.87),
        ("gpt-4o", 0.80, 0.80, 0.46),
        ("llama-3.1-405b-instruct", 0.78, 0.78, 0.49),
    ],
)
def test_means_over_answerable_tasks_equal_table_6_of_the_paper(
    published: list[Published], *, model: str, rl_f: float, rb_llm: float, rb_alg: float
) -> None:
    rows = [row for row in published if row.model == model and row.answerability is Answerability.ANSWERABLE]
    assert len(rows) == 135
    ours = [condition_paper(Score(rb_alg_raw(*row.parts)), row.answerability, row.verdict).value for row in rows]
    columns: list[list[Any]] = [[row.rl_f for row in rows], [row.rb_llm for row in rows], ours]
    assert [round(sum(column) / 135, 2) for column in columns] == [rl_f, rb_llm, rb_alg]

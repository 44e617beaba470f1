"""LiveRAG's suite: MTRAG's scores, and the challenge's two by judges, in our words (Carmel et al. 2025, section 4).

Correctness goes from -1 to 2, faithfulness from -1 to 1. The challenge's own prompts and judge are not public, so its
leaderboard is another scale.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial

from ragtasks.judges import Finding, Question, Rubric, VerdictOutcome, ask, read_coded_label
from ragtasks.metrics import Metric, Scores
from ragtasks.prompts import shipped_template
from ragtasks.records import Response, Score
from ragtasks.suites._mtrag import SUITE as MTRAG
from ragtasks.suites._suite import ScoringInputs, extended

CORRECTNESS = "liverag_correctness"
FAITHFULNESS = "liverag_faithfulness"
"""Names of the rubrics and of their metrics."""

LABELS: Mapping[str, Mapping[str, int]] = {
    CORRECTNESS: {"clean": 2, "padded": 1, "none": 0, "wrong": -1},
    FAITHFULNESS: {"full": 1, "partial": 0, "no": -1},
}
"""Rubric -> label -> points."""

_FORM = "Verdict CODE: LABEL"
_NO_PASSAGES = Finding(None, None, VerdictOutcome.NOT_ASKED, "no passages were shown")

METRICS = tuple(
    Metric(name, description, needs_judges=True, bounds=(min(points), max(points)), rubrics=frozenset({name}))
    for name, description, points in (
        (CORRECTNESS, "2 correct, 1 correct with what is beside the point, 0 no answer, -1 wrong, by LLM judges",
         LABELS[CORRECTNESS].values()),
        (FAITHFULNESS, "1 all of it, 0 a part of it, -1 nothing of it from the passages, by LLM judges",
         LABELS[FAITHFULNESS].values()),
    )
)  # fmt: skip
"""What LiveRAG has beyond MTRAG's metrics."""


def correctness() -> Rubric:
    """Return the rubric `liverag_correctness`: the reply against the reference answer and its direct statements."""
    prompt = shipped_template(f"judges/{CORRECTNESS}")

    def open_(response: Response) -> Question:
        task = response.task
        statements = [*task.extra["claims"]["direct"]]
        texts = {"question": task.question, "reference": task.target, "statements": statements, "answer": response.text}
        return ask(prompt, _FORM, partial(_read, CORRECTNESS), **texts)

    return Rubric(CORRECTNESS, "whether the reply is right and to the point", open_, (prompt.source,))


def faithfulness() -> Rubric:
    """Return the rubric `liverag_faithfulness`: how far the passages that the model was shown support the reply."""
    prompt = shipped_template(f"judges/{FAITHFULNESS}")

    def open_(response: Response) -> Question | Finding:
        if not response.passages:
            return _NO_PASSAGES
        passages = [passage.text for passage in response.passages]
        return ask(prompt, _FORM, partial(_read, FAITHFULNESS), passages=passages, answer=response.text)

    return Rubric(FAITHFULNESS, "how far the passages support the reply", open_, (prompt.source,))


def _read(rubric: str, reply: str, code: str) -> Finding:
    """Return the label with its points as a share of the scale: verdicts go from 0 to 1."""
    label = read_coded_label(reply, code, tuple(LABELS[rubric]))
    return Finding(label, (LABELS[rubric][label] - _lowest(rubric)) / _span(rubric))


def _lowest(rubric: str) -> int:
    return min(LABELS[rubric].values())


def _span(rubric: str) -> int:
    return max(LABELS[rubric].values()) - _lowest(rubric)


def score(inputs: ScoringInputs) -> list[Scores]:
    """Return what LiveRAG adds of each response, in order: nothing where nobody was asked."""
    verdicts = inputs.verdicts
    if verdicts is None:
        return [{} for _ in inputs.responses]
    columns = {name: [_in_points(name, score) for score in verdicts.scores(name)] for name in LABELS}
    return [{name: columns[name][index] for name in LABELS} for index in range(len(inputs.responses))]


def _in_points(rubric: str, score: Score) -> Score:
    return score if score.value is None else Score(_lowest(rubric) + score.value * _span(rubric))


def rubrics() -> Sequence[Rubric]:
    """Return what judges are asked."""
    return [*MTRAG.rubrics(), correctness(), faithfulness()]


SUITE = extended(MTRAG, METRICS, score, rubrics=rubrics)
"""What LiveRAG is scored with."""

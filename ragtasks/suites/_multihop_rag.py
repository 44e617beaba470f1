"""The suite of MultiHop-RAG: accuracy, overall and by question type (paper, section 4.2, Table 6 and Figure 3)."""

from __future__ import annotations

from collections.abc import Sequence

from ragtasks.judges import IDK, MULTIHOP_ANSWER, Rubric, multihop_answer, rubrics_named
from ragtasks.metrics import IdkLabel, Metric, Scores, accuracy, accuracy_official, idk_and_empty, null_accuracy
from ragtasks.records import Answerability, Response, Score
from ragtasks.suites._suite import ScoringInputs, Suite

QUESTION_TYPES = ("inference", "comparison", "temporal", "null")
"""Question types, without the suffix `_query` of the files."""

METRICS = (
    Metric("accuracy", "share of replies with the reference answer, normalised; on null queries, that refuse"),
    Metric(
        "accuracy_official", "share of replies that share a word with the reference answer, as in the official script"
    ),
    Metric(
        "accuracy_judged",
        "share of replies with the reference answer, by LLM judges",
        needs_judges=True,
        rubrics=frozenset({MULTIHOP_ANSWER}),
    ),
    *(
        Metric(f"accuracy_{question_type}", f"accuracy on {question_type} queries; unscored on others")
        for question_type in QUESTION_TYPES
    ),
    Metric("idk_yes", "share of responses that say that they do not know", higher_is_better=None),
    Metric("empty", "share of responses without any text", higher_is_better=False),
    Metric("coverage", "share of responses whose accuracy is scored"),
    Metric("judge_coverage", "share of requested verdicts that judges gave", needs_judges=True),
)


def score(inputs: ScoringInputs) -> list[Scores]:
    """Return the scores of each response, in order. Judged scores require verdicts."""
    scores = [_plain(*row) for row in zip(inputs.responses, inputs.labels, strict=True)]
    verdicts = inputs.verdicts
    if verdicts is None:
        return scores
    judged = verdicts.scores(MULTIHOP_ANSWER)
    return [
        {**own, "accuracy_judged": judged[index], "judge_coverage": Score(verdicts.share_answered(index))}
        for index, own in enumerate(scores)
    ]


def _plain(response: Response, label: IdkLabel) -> Scores:
    task = response.task
    is_null = task.answerability is Answerability.UNANSWERABLE
    right = null_accuracy(response.text, label) if is_null else Score(accuracy(response.text, task.target))
    return {
        "accuracy": right,
        "accuracy_official": Score(accuracy_official(response.text, task.target)),
        **{
            f"accuracy_{question_type}": _score_on_type(question_type, task.question_types, right)
            for question_type in QUESTION_TYPES
        },
        **idk_and_empty(response, label),
        "coverage": Score(float(right.value is not None)),
    }


def _score_on_type(question_type: str, question_types: Sequence[str], right: Score) -> Score:
    return right if f"{question_type}_query" in question_types else Score(None, f"no {question_type} query")


def _rubrics() -> Sequence[Rubric]:
    return [multihop_answer(), *rubrics_named([IDK])]


SUITE = Suite(metrics=METRICS, score=score, rubrics=_rubrics, uses_encoder=False)

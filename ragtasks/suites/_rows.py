"""The suite of a user's own rows: scores from question, answer and passages, and more for rows with a reference.

Scores are not conditioned on refusals, because rows have no answerability label. A score that needs a reference is left
out if no row has a reference. If only some rows have a reference, the score of the other rows is missing, with a
reason.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from ragtasks.config import SAMPLE_ENCODER
from ragtasks.judges import IDK, RB_LLM, RL_F, RL_R, Finding, Rubric, VerdictOutcome, rubrics_named
from ragtasks.metrics import (
    COUNT,
    METRICS,
    IdkLabel,
    Metric,
    Scores,
    SemanticScore,
    bert_scores,
    idk_and_empty,
    k_precision,
    rouge_l,
    token_recall,
)
from ragtasks.records import Response, Score
from ragtasks.suites._added_metrics import diagnosed
from ragtasks.suites._suite import ScoringInputs, Suite

NO_CONTEXTS = "no contexts in the row"
NO_REFERENCE = "no reference in the row"
_NO_WORDS = "the answer has no words"

_SHARED = {metric.name: metric for metric in METRICS}

METRICS_OF_ROWS = (
    _SHARED["rl_f_raw"],
    Metric(
        "rl_r_raw",
        "share of questions derived from the answer that ask what the user asked, by LLM judges",
        needs_judges=True,
        rubrics=frozenset({RL_R}),
    ),
    replace(_SHARED["rb_llm_raw"], description="rating against the reference by LLM judges, over 10"),
    Metric("k_precision", "share of the answer's words that its passages contain; unscored without passages"),
    _SHARED["bert_k_precision"],
    *(_SHARED[name] for name in ("rouge_l", "bert_recall", "idk_yes")),
    Metric("length", "characters of the answer", higher_is_better=None, bounds=COUNT),
    *(_SHARED[name] for name in ("token_recall", "bert_precision", "empty")),
    Metric("coverage", "share of answers whose k_precision is scored"),
    _SHARED["judge_coverage"],
)


def score(inputs: ScoringInputs) -> list[Scores]:
    """Return the scores of each response, in order. Judged scores require verdicts."""
    rows = [_scores(*answer, inputs.semantics.reason) for answer in inputs.answers()]
    judged = [{**row, **_judged(inputs, index)} for index, row in enumerate(rows)]
    if any(map(has_reference, inputs.responses)):
        return judged
    return [{name: value for name, value in row.items() if name not in _OF_REFERENCE} for row in judged]


def _scores(response: Response, label: IdkLabel, semantic: SemanticScore | None, reason: str) -> Scores:
    grounding = _of_contexts(response, _k_precision(response))
    bert, language = bert_scores(semantic, reason), response.task.language
    return {
        "k_precision": grounding,
        "bert_k_precision": _of_contexts(response, bert["bert_k_precision"]),
        "rouge_l": _of_reference(response, lambda target: Score(rouge_l(response.text, target, language))),
        "token_recall": _of_reference(response, lambda target: Score(token_recall(response.text, target, language))),
        "bert_recall": _of_reference(response, lambda _: bert["bert_recall"]),
        "bert_precision": _of_reference(response, lambda _: bert["bert_precision"]),
        **idk_and_empty(response, label),
        "length": Score(float(len(response.text))),
        "coverage": Score(float(grounding.value is not None)),
    }


def _k_precision(response: Response) -> Score:
    value = k_precision(response.text, [passage.text for passage in response.passages], response.task.language)
    return Score(value, "" if value is not None else _NO_WORDS)


def _of_contexts(response: Response, value: Score) -> Score:
    """Return the score, or a missing score with the reason if the row has no passages."""
    if not has_contexts(response):
        return Score(None, NO_CONTEXTS)
    return value if response.passages else Score(None, "no passages")


def _of_reference(response: Response, value: Callable[[str], Score]) -> Score:
    return value(response.task.target) if has_reference(response) else Score(None, NO_REFERENCE)


def _judged(inputs: ScoringInputs, index: int) -> Scores:
    verdicts = inputs.verdicts
    if verdicts is None:
        return {}
    named = {"rl_f_raw": RL_F, "rl_r_raw": RL_R, "rb_llm_raw": RB_LLM}
    scores = {name: verdicts.score(index, rubric) for name, rubric in named.items()}
    return {**scores, "judge_coverage": Score(verdicts.share_answered(index))}


def has_contexts(response: Response) -> bool:
    """Return whether the row has a list of passages, which may be empty."""
    return not response.task.extra.get("no_contexts")


def has_reference(response: Response) -> bool:
    """Return whether the row has a reference answer."""
    return bool(response.task.target.strip())


_OF_REFERENCE = frozenset({"rb_llm_raw", "rouge_l", "token_recall", "bert_recall", "bert_precision"})
"""Metrics that are left out if no row has a reference."""


def _rubrics() -> Sequence[Rubric]:
    """Return the rubrics. RL_F skips rows without a list of passages, RB_llm rows without a reference."""
    needs = {RL_F: (has_contexts, NO_CONTEXTS), RB_LLM: (has_reference, NO_REFERENCE)}
    rubrics = rubrics_named([RL_F, RL_R, RB_LLM, IDK])
    for index, rubric in enumerate(rubrics):
        if rubric.name in needs:
            condition, reason = needs[rubric.name]
            rubrics[index] = rubric.only_where(condition, Finding(None, None, VerdictOutcome.NOT_ASKED, reason))
    return rubrics


SUITE = diagnosed(
    Suite(metrics=METRICS_OF_ROWS, score=score, rubrics=_rubrics, uses_encoder=True, encoder=SAMPLE_ENCODER)
)

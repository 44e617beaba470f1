"""All answer metrics of one evaluation: what they are, and the one pass that computes them.

Definitions stand apart from computation. The pass takes verdicts and semantic scores as arguments, so that scoring
again needs no judge and no encoder.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from ragtasks.metrics.answerability import NO_VERDICT, IdkLabel, answerability_accuracy
from ragtasks.metrics.conditioning import condition_ibm, condition_paper
from ragtasks.metrics.lexical import rouge_l_batch, token_recall
from ragtasks.metrics.rb_alg import rb_agg_ibm, rb_alg_raw
from ragtasks.metrics.semantic import SemanticScore
from ragtasks.records import Answerability, IdkVerdict, Response, Score


@dataclass(frozen=True, slots=True)
class Metric:
    """What a figure is, whoever computes it."""

    name: str
    """Name in YAML, tables and logs."""
    description: str
    """One line for tables' legends."""
    higher_is_better: bool = True
    """Direction."""


METRICS = (
    Metric("rb_alg", "harmonic mean of Bert-Recall, ROUGE-L and Bert-K-Precision, IDK-conditioned (paper profile)"),
    Metric("rb_alg_raw", "the same, not conditioned"),
    Metric("rb_alg_ibm", "the same as the official scripts compute and condition it (ibm profile)"),
    Metric("ans_acc", "answerability accuracy: refuses exactly where it should"),
    Metric("rouge_l", "ROUGE-L F-measure against the reference answer"),
    Metric("token_recall", "share of the reference answer's words in the response"),
    Metric("bert_recall", "BERTScore recall against the reference answer"),
    Metric("bert_precision", "BERTScore precision against the reference answer"),
    Metric("bert_k_precision", "largest BERTScore precision against a passage; unscored without passages"),
    Metric("idk_yes", "share of responses that say that they do not know", higher_is_better=False),
    Metric("idk_partial", "share of responses that say so of a part", higher_is_better=False),
    Metric("empty", "share of responses without any text", higher_is_better=False),
    Metric("coverage", "share of responses whose rb_alg is scored"),
)
"""Every metric of a generation task, in the order of the harness's table."""

Scores = dict[str, Score]


@dataclass(frozen=True, slots=True)
class Semantics:
    """The semantic scores of a list of responses, or the reason why there are none."""

    scores: Sequence[SemanticScore] | None
    """One a response, or None."""
    reason: str = ""
    """Why there are none."""


def score_responses(
    responses: Sequence[Response],
    labels: Sequence[IdkLabel],
    semantics: Semantics,
    *,
    ibm_answerability: Sequence[Answerability | None],
) -> list[Scores]:
    """Return metric name -> score for each response, in their order; [] for none.

    Args:
        responses: what models answered.
        labels: one IDK label a response.
        semantics: BERTScore figures, or why they are missing: then what rests on them is unscored.
        ibm_answerability: the answerability that the official scripts see, None where they miss the label.
    """
    overlaps = rouge_l_batch([response.text for response in responses], [r.task.target for r in responses])
    found: Sequence[SemanticScore | None] = semantics.scores or [None] * len(responses)
    rows = zip(responses, labels, overlaps, found, ibm_answerability, strict=True)
    return [_score(*row, reason=semantics.reason) for row in rows]


def _score(
    response: Response,
    label: IdkLabel,
    rouge_l: float,
    semantic: SemanticScore | None,
    ibm_answerability: Answerability | None,
    *,
    reason: str,
) -> Scores:
    """Return all metrics of one response."""
    answerability = response.task.answerability
    rb_alg = _rb_alg(semantic, rouge_l, answerability, ibm_answerability, verdict=label.verdict, reason=reason)
    return {
        **rb_alg,
        "ans_acc": answerability_accuracy(answerability, label.verdict),
        "rouge_l": Score(rouge_l),
        "token_recall": Score(token_recall(response.text, response.task.target)),
        **_semantic_scores(semantic, reason),
        "idk_yes": _indicator(label, IdkVerdict.YES),
        "idk_partial": _indicator(label, IdkVerdict.PARTIAL),
        "empty": Score(float(not response.text.strip())),
        "coverage": Score(float(rb_alg["rb_alg"].value is not None)),
    }


def _rb_alg(
    semantic: SemanticScore | None,
    rouge_l: float,
    answerability: Answerability,
    ibm_answerability: Answerability | None,
    *,
    verdict: IdkVerdict | None,
    reason: str,
) -> Scores:
    """Return RB_alg raw and conditioned, in both profiles.

    Without an encoder all three are unscored, also where a refusal alone would decide: a mean over refusals only is no
    figure of the model.
    """
    if semantic is None:
        return {name: Score(None, reason) for name in ("rb_alg", "rb_alg_raw", "rb_alg_ibm")}
    parts = (semantic.bert_recall, rouge_l, semantic.bert_k_precision)
    raw = Score(rb_alg_raw(*parts))
    return {
        "rb_alg": condition_paper(raw, answerability, verdict),
        "rb_alg_raw": raw,
        "rb_alg_ibm": condition_ibm(rb_agg_ibm(*parts), ibm_answerability, verdict),
    }


def _semantic_scores(semantic: SemanticScore | None, reason: str) -> Mapping[str, Score]:
    if semantic is None:
        return {name: Score(None, reason) for name in ("bert_recall", "bert_precision", "bert_k_precision")}
    best = semantic.bert_k_precision
    return {
        "bert_recall": Score(semantic.bert_recall),
        "bert_precision": Score(semantic.bert_precision),
        "bert_k_precision": Score(best, "" if best is not None else "no passages"),
    }


def _indicator(label: IdkLabel, verdict: IdkVerdict) -> Score:
    if label.verdict is None:
        return Score(None, f"{NO_VERDICT}: {label.reason}")
    return Score(float(label.verdict is verdict))


__all__ = ["METRICS", "Metric", "Scores", "Semantics", "score_responses"]

"""The suite of INSCIT: MTRAG's scores and those of the INSCIT paper (Wu et al. 2023, section 5).

If two annotators labelled a turn, each score is the better of the two. Corpus BLEU uses both as references.
"""

from __future__ import annotations

from collections.abc import Iterable

from ragtasks.benchmarks.inscit import passage_id
from ragtasks.metrics import (
    PERCENT,
    RESCALED,
    IdkLabel,
    Metric,
    Pair,
    Scores,
    SemanticScore,
    bert_scores,
    corpus_bleu,
    token_f1,
)
from ragtasks.records import Answerability, IdkVerdict, Response, Score
from ragtasks.suites._mtrag import SUITE as MTRAG
from ragtasks.suites._suite import ScoringInputs, extended


def inscit_bleu(pairs: Iterable[Pair]) -> float:
    """Return SacreBLEU of all responses against all their references, as the official script computes it.

    Source: `eval/eval.py` at 2319fb8. Texts are lower-cased and whitespace is collapsed first.
    """
    return corpus_bleu((_plain(text), tuple(map(_plain, targets))) for text, targets in pairs)


def _plain(text: str) -> str:
    return " ".join(text.lower().split())


METRICS = (
    Metric(
        "sacrebleu", "SacreBLEU of all answers together, 0 to 100, lower case", bounds=PERCENT, aggregate=inscit_bleu
    ),
    Metric("token_f1", "F1 of normalised tokens, as in SQuAD; the official script cuts words with spaCy first"),
    Metric("bert_f1", "BERTScore F1 against the reference answer", bounds=RESCALED),
    Metric("response_type", "share of responses of the labelled type: answer, partial answer, question, refusal"),
    Metric("passage_f1", "F1 of the answer's passages against those of the label"),
)


def scores(inputs: ScoringInputs) -> list[Scores]:
    """Return INSCIT's own scores of each response, in order, without those of MTRAG."""
    return [_score(*answer, inputs.semantics.reason) for answer in inputs.answers()]


def _score(response: Response, label: IdkLabel, semantic: SemanticScore | None, reason: str) -> Scores:
    implied_type = response_type(response.text, label)
    overlap = token_f1(response.text, response.task.target)
    return {
        "sacrebleu": Score(overlap),  # only marks the answer as scored; the metric aggregates all answers
        "token_f1": Score(overlap),
        "bert_f1": bert_scores(semantic, reason)["bert_f1"],
        "response_type": Score(float(implied_type is response.task.answerability))
        if implied_type
        else Score(None, label.reason),
        "passage_f1": Score(_passage_f1(response)),
    }


def response_type(text: str, label: IdkLabel) -> Answerability | None:
    """Return the answerability that a response implies, or None if the refusal label is missing.

    A response that ends in a question mark asks for clarification. Otherwise the refusal label decides.
    """
    if text.rstrip().endswith("?"):
        return Answerability.UNDERSPECIFIED
    types = {
        IdkVerdict.YES: Answerability.UNANSWERABLE,
        IdkVerdict.PARTIAL: Answerability.PARTIAL,
        IdkVerdict.NO: Answerability.ANSWERABLE,
    }
    return types[label.verdict] if label.verdict else None


def _passage_f1(response: Response) -> float:
    """Return the largest F1 of the passages over the annotators, 0 without a common passage.

    Source: `eval_evidence_passages` of `eval/eval.py` at 2319fb8, divided by 100.
    """
    passage_ids = {passage_id(passage.passage_id) for passage in response.passages}
    labels = [set(ids) for ids in response.task.extra["evidence"]]
    return max(
        2 * len(passage_ids & ids) / (len(passage_ids) + len(ids)) if passage_ids & ids else 0.0 for ids in labels
    )


SUITE = extended(MTRAG, METRICS, scores)

"""CORAL's suite: MTRAG's scores of the answer without its citations, BLEU, and the citations (Cheng et al. 2025).

The official repository has no evaluation script. Citations are compared by passage with those of the reference answer:
what an answer cites as `[2]` is the second passage that the model was shown.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from ragtasks.benchmarks.coral import without_citations
from ragtasks.metrics import PERCENT, Metric, Pair, Scores, corpus_bleu, parse_cited, token_f1
from ragtasks.records import Response, Score
from ragtasks.suites._mtrag import SUITE as MTRAG
from ragtasks.suites._suite import ScoringInputs, extended


def bleu(pairs: Iterable[Pair]) -> float:
    """Return SacreBLEU of all answers together, without their citations."""
    return corpus_bleu((without_citations(text), targets) for text, targets in pairs)


METRICS = (
    Metric("sacrebleu", "SacreBLEU of all answers together, 0 to 100", bounds=PERCENT, aggregate=bleu),
    Metric("citation_precision", "share of the cited passages that the reference answer cites; 0 for no citation"),
    Metric("citation_recall", "share of the passages that the reference answer cites which the answer cites"),
)
"""What CORAL has beyond MTRAG's metrics."""


def score(inputs: ScoringInputs) -> list[Scores]:
    """Return what CORAL adds of each response, in order."""
    return [_score(response) for response in inputs.responses]


def _score(response: Response) -> Scores:
    cited, gold = cited_passages(response), set(response.task.extra["cited"])
    shared = len(cited & gold)
    scores = {
        "citation_precision": Score(shared / len(cited) if cited else 0.0),
        "citation_recall": Score(shared / len(gold)) if gold else Score(None, ""),
    }
    if not gold:
        scores = dict.fromkeys(scores, Score(None, "the reference answer cites no passage"))
    # The score is made of all answers; this value only says that the answer is among them.
    return {"sacrebleu": Score(token_f1(without_citations(response.text), response.task.target)), **scores}


def cited_passages(response: Response) -> set[str]:
    """Return the ids of the passages that an answer cites by their numbers."""
    sentences = parse_cited(response.text, len(response.passages))
    return {response.passages[place].passage_id for sentence in sentences for place in sentence.citations}


def _score_text(inputs: ScoringInputs) -> list[Scores]:
    plain = [replace(response, text=without_citations(response.text)) for response in inputs.responses]
    return MTRAG.score(replace(inputs, responses=plain))


SUITE = extended(replace(MTRAG, score=_score_text), METRICS, score)
"""What CORAL is scored with."""

"""The suite of TREC iKAT's fact selection (track guidelines, "PTKB statement relevance").

A response lists numbers of facts about the user, most useful first, or is `none`. Rankings are scored as in the track,
on turns with a relevant fact. On the other turns, `facts_needless` counts responses that name any.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from ragtasks.benchmarks.ikat import chosen_facts
from ragtasks.metrics import Metric, Scores
from ragtasks.records import Response, Score
from ragtasks.suites._suite import ScoringInputs, Suite

K = 3
"""Cut-off of the track's metrics."""
NO_FACT = "no fact is relevant to the turn"
UNREADABLE = "the reply is not a list of fact numbers"

METRICS = (
    *(
        Metric(name, f"{text}, on turns with a relevant fact", undefined_reason=NO_FACT)
        for name, text in (
            ("facts_ndcg_3", "nDCG@3 of the facts named"),
            ("facts_p_3", "share of the first three ranks with a relevant fact"),
            ("facts_r_3", "share of the relevant facts among the first three"),
            ("facts_mrr", "one over the rank of the first relevant fact"),
        )
    ),
    Metric("facts_needless", "share of turns without a relevant fact where the reply names any", False),
    Metric("invalid_reply", "share of replies that are not a list of fact numbers", False),
    Metric("coverage", "share of responses whose facts could be read"),
)

_RANKED = ("facts_ndcg_3", "facts_p_3", "facts_r_3", "facts_mrr")


def score(inputs: ScoringInputs) -> list[Scores]:
    """Return the scores of each response, in order."""
    return [_score(response) for response in inputs.responses]


def _score(response: Response) -> Scores:
    relevant = set(response.task.extra["relevant_facts"])
    chosen = chosen_facts(response.text, len(response.task.extra["facts"]))
    ranked = _ranked(chosen, relevant) if chosen is not None and relevant else None
    reason = UNREADABLE if chosen is None else NO_FACT
    needless = Score(float(bool(chosen))) if chosen is not None and not relevant else None
    return {
        **{name: Score(None, reason) if ranked is None else Score(ranked[name]) for name in _RANKED},
        "facts_needless": needless or Score(None, UNREADABLE if chosen is None else "a fact is relevant to the turn"),
        "invalid_reply": Score(float(chosen is None)),
        "coverage": Score(float(chosen is not None)),
    }


def _ranked(chosen: Sequence[int], relevant: set[int]) -> dict[str, float]:
    """Return the scores of a ranking with binary relevance, as in the track's judgements."""
    hits = [number in relevant for number in chosen]
    gain = sum(1 / math.log2(rank + 1) for rank, hit in enumerate(hits[:K], start=1) if hit)
    best = sum(1 / math.log2(rank + 1) for rank in range(1, min(K, len(relevant)) + 1))
    return {
        "facts_ndcg_3": gain / best,
        "facts_p_3": sum(hits[:K]) / K,
        "facts_r_3": sum(hits[:K]) / len(relevant),
        "facts_mrr": 1 / (hits.index(True) + 1) if any(hits) else 0.0,
    }


SUITE = Suite(metrics=METRICS, score=score, uses_encoder=False)

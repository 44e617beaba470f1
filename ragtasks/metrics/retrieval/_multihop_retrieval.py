"""MultiHop-RAG's retrieval scores: how much of a query's evidence is in the first chunks of a ranking.

The paper defines Hits@k as the share of the evidence that is among the first k chunks; its script counts a query as hit
if any fact is. The paper's MAP is the mean average precision; its script forgets the hits of earlier ranks. Both are
here, the script's under names with `official`. Which chunk holds which fact is the official rule in both
(`ragtasks.benchmarks.multihop_rag`), and queries without evidence have no scores.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from statistics import fmean

from ragtasks.metrics._metric import Metric
from ragtasks.records import Score

DEPTH = 10
"""Chunks of a ranking that are looked at."""

EVIDENCE_METRICS = (
    Metric("hits_4", "share of the evidence in the first 4 chunks"),
    Metric("hits_10", "share of the evidence in the first 10 chunks"),
    Metric("map_10", "precision at the rank of each fact, over all facts"),
    Metric("mrr_10", "one over the rank of the first chunk with a fact"),
    Metric("hits_official_4", "whether any fact is in the first 4 chunks"),
    Metric("hits_official_10", "whether any fact is in the first 10 chunks"),
    Metric("map_official_10", "as the official script, which forgets the hits of earlier ranks"),
    Metric("mrr_official_10", "as the official script: a chunk that stands twice takes two ranks"),
)
"""Every score, in the order of tables."""


def evidence_scores(chunks: Sequence[str], facts: Sequence[str]) -> dict[str, float]:
    """Return name -> score of one query, each from 0 to 1, higher is better.

    Args:
        chunks: texts, best first; [] gives 0 everywhere. One that stands twice takes two ranks.
        facts: the query's evidence.

    Raises:
        ValueError: no facts: the scores are not defined.
    """
    if not facts:
        raise ValueError("a query without evidence has no retrieval scores")
    held = _held(chunks[:DEPTH], facts)
    first = [
        next((rank for rank, places in enumerate(held, start=1) if place in places), None)
        for place in range(len(facts))
    ]
    return {
        "hits_4": hits(first, 4),
        "hits_10": hits(first, 10),
        "map_10": average_precision(held, first),
        "mrr_10": max((1 / rank for rank in first if rank), default=0.0),
        "hits_official_4": float(any(held[:4])),
        "hits_official_10": float(any(held[:10])),
        "map_official_10": average_precision_official(chunks[:DEPTH], facts),
        "mrr_official_10": next((1 / rank for rank, places in enumerate(held, start=1) if places), 0.0),
    }


def _held(chunks: Sequence[str], facts: Sequence[str]) -> list[set[int]]:
    """Return, for each chunk, the places of the facts that it holds."""
    from ragtasks.benchmarks.multihop_rag import compact

    wanted = [compact(fact) for fact in facts]
    return [{place for place, fact in enumerate(wanted) if fact in text} for text in map(compact, chunks)]


def hits(first_ranks: Sequence[int | None], k: int) -> float:
    """Return the share of facts that are found among the first k chunks (paper, section 2.3).

    Args:
        first_ranks: rank from 1 of the first chunk with each fact, None where none has it.
        k: chunks that count.
    """
    return sum(rank is not None and rank <= k for rank in first_ranks) / len(first_ranks)


def average_precision(held: Sequence[set[int]], first_ranks: Sequence[int | None]) -> float:
    """Return the mean over facts of the precision at the rank where each is found first; 0 for one that is not.

    Precision at a rank is the share of the chunks so far that hold a fact, so evidence on the first ranks gives 1, also
    where two facts share a chunk. Source: MAP@10 as the paper words it, section 2.3; with one fact a chunk it is the
    usual average precision, whose values trec_eval gives (tested).

    Args:
        held: places of the facts in each chunk, best chunk first.
        first_ranks: rank from 1 of the first chunk with each fact, None where none has it.
    """
    precision = [sum(map(bool, held[:rank])) / rank for rank in range(1, len(held) + 1)]
    return sum(precision[rank - 1] for rank in first_ranks if rank) / len(first_ranks)


def average_precision_official(chunks: Sequence[str], facts: Sequence[str]) -> float:
    """Return the average precision as the official script computes it, on at most ten chunks.

    At each rank it divides the facts found there for the first time by the rank, without those found before, and the
    sum by the facts (at most ten). So two facts at ranks 1 and 2 give 0.75, and a fact that stands twice in the
    evidence is found once. Source: yixuantt/MultiHop-RAG, retrieval_evaluate.py, commit 3dd4d4e.
    """
    from ragtasks.benchmarks.multihop_rag import compact

    waiting = {compact(fact) for fact in facts}
    total = 0.0
    for rank, text in enumerate(map(compact, chunks), start=1):
        new = {fact for fact in waiting if fact in text}
        waiting -= new
        total += len(new) / rank
    return total / min(len(facts), 10)


def _both(chunks: Sequence[str], facts: Sequence[str]) -> dict[str, float]:
    """Return the official scores of the chunks as they are listed, the others of the different ones."""
    listed = evidence_scores(chunks, facts)
    distinct = evidence_scores(tuple(dict.fromkeys(chunks)), facts)
    return {name: listed[name] if "official" in name else distinct[name] for name in listed}


def mean_evidence_scores(rankings: Mapping[str, Sequence[str]], facts: Mapping[str, Sequence[str]]) -> dict[str, Score]:
    """Return name -> mean over the queries with evidence; unscored where there is none.

    Args:
        rankings: query id -> chunks' texts, best first; a query that is missing here counts 0. A chunk that stands
            twice takes two ranks in the official scores, and one in the others.
        facts: query id -> evidence; a query without any (a null query) is left out.
    """
    rows = [_both(rankings.get(query_id, ()), own) for query_id, own in facts.items() if own]
    if not rows:
        return {metric.name: Score(None, "no query with evidence") for metric in EVIDENCE_METRICS}
    return {metric.name: Score(fmean(row[metric.name] for row in rows)) for metric in EVIDENCE_METRICS}


__all__ = [
    "DEPTH",
    "EVIDENCE_METRICS",
    "average_precision",
    "average_precision_official",
    "evidence_scores",
    "hits",
    "mean_evidence_scores",
]

"""A plain BM25, so that `custom_full_rag` runs on a folder that says nothing about retrieval, on the base install.

It ranks as the precompute stage's `bm25-standard` does, apart from that one's rounding of passage lengths. Only the
terms of the queries are counted, in one pass over the passages, so nothing is indexed and nothing kept.
"""

from __future__ import annotations

import heapq
import math
import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping

from ragtasks.benchmarks.custom._judged import best_first
from ragtasks.records import Passage

NAME = "bm25 (built in)"
"""What results call the run."""
K1, B = 1.2, 0.75
"""As Lucene and tantivy set them."""

_TERM = re.compile(r"[^\W_]+")


def search(queries: Mapping[str, str], passages: Iterable[Passage], k: int) -> dict[str, tuple[str, ...]]:
    """Return query id -> the best `k` passage ids, best first; a query that shares no word with any has none.

    Terms are runs of letters and digits in lower case. A term that the query repeats counts as often.

    Args:
        queries: query id -> text.
        passages: one domain's, each with its title in its text.
        k: most passages of a query.

    Source: Robertson and Zaragoza 2009, "The Probabilistic Relevance Framework", with Lucene's idf, which is never
    negative.
    """
    terms_of = {query_id: Counter(_terms(text)) for query_id, text in queries.items()}
    wanted = {term for terms in terms_of.values() for term in terms}
    lengths: dict[str, int] = {}
    postings: dict[str, dict[str, int]] = defaultdict(dict)
    for passage in passages:
        counts = Counter(_terms(passage.text))
        lengths[passage.passage_id] = counts.total()
        for term in wanted & counts.keys():
            postings[term][passage.passage_id] = counts[term]
    weights = {term: _weights(found, lengths) for term, found in postings.items()}
    return {query_id: _best(terms, weights, k) for query_id, terms in terms_of.items()}


def _terms(text: str) -> list[str]:
    return _TERM.findall(text.lower())


def _weights(found: Mapping[str, int], lengths: Mapping[str, int]) -> dict[str, float]:
    """Return passage id -> what one occurrence of a term in the query adds to the passage's score."""
    mean_length = sum(lengths.values()) / len(lengths)
    idf = math.log(1 + (len(lengths) - len(found) + 0.5) / (len(found) + 0.5))
    return {key: idf * n * (K1 + 1) / (n + K1 * (1 - B + B * lengths[key] / mean_length)) for key, n in found.items()}


def _best(terms: Mapping[str, int], weights: Mapping[str, Mapping[str, float]], k: int) -> tuple[str, ...]:
    scores: dict[str, float] = defaultdict(float)
    for term, n in terms.items():
        for key, weight in weights.get(term, {}).items():
            scores[key] += n * weight
    # Sorting is the slow part: what lies below the k-th score, by more than 32 bits can tell, cannot be among the best.
    least = min(heapq.nlargest(k, scores.values()), default=0.0) * (1 - 1e-6)
    return best_first({key: score for key, score in scores.items() if score >= least})[:k]


__all__ = ["K1", "NAME", "B", "search"]

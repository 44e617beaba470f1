"""Result files of MultiHop-RAG's retrieval script: an array with one item a query, its passages best first.

An item is {`query`, `answer`, `question_type`, `retrieval_list` [{`text`, `score`}], `gold_list`}; the order of the
list is the ranking, and the scores are not used. Items are joined to queries by the question's text.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from ragtasks.benchmarks.multihop_rag._rows import items_of, violations_of
from ragtasks.files import Violations


def read_rankings(path: Path, queries: Sequence[str]) -> dict[int, tuple[str, ...]]:
    """Return query number (from 1) -> texts, best first, one that comes twice at both ranks, for every query in order.

    Args:
        path: the result file.
        queries: the benchmark's questions. One that stands there twice takes the items of that text in their order.

    Raises:
        BenchmarkFileError: an item that is none, a query without an item, or an item of no query.
    """
    violations = violations_of(path, "MultiHop-RAG retrieval results")
    open_numbers: dict[str, list[int]] = {}
    for number, query in enumerate(queries, start=1):
        open_numbers.setdefault(query, []).append(number)
    rankings: dict[int, tuple[str, ...]] = {}
    for place, row in items_of(violations):
        texts = _texts(row.get("retrieval_list"), place, violations)
        waiting = open_numbers.get(str(row.get("query")), [])
        if waiting:
            rankings[waiting.pop(0)] = texts
        else:
            violations.add(0, "`query` of the benchmark, each once", row.get("query"), f"item {place}")
    for number in sorted(number for waiting in open_numbers.values() for number in waiting):
        violations.add(0, "an item for each query", f"no item for query {number}: {queries[number - 1]}")
    violations.raise_if_any()
    return dict(sorted(rankings.items()))


def _texts(raw: Any, place: int, violations: Violations) -> tuple[str, ...]:
    texts = [item.get("text") if isinstance(item, dict) else None for item in raw] if isinstance(raw, list) else [None]
    kept = [text for text in texts if isinstance(text, str) and text.strip()]
    if len(kept) != len(texts):
        violations.add(0, "`retrieval_list` with texts", raw, f"item {place}")
    return tuple(kept)


__all__ = ["read_rankings"]

"""Result files of MultiHop-RAG's retrieval script: an array with one item a query, its passages best first.

An item is {`query`, `answer`, `question_type`, `retrieval_list` [{`text`, `score`}], `gold_list`}; the order of the
list is the ranking, and the scores are not used. Items are joined to queries by the question's text.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from ragtasks.benchmarks.multihop_rag._rows import NULL, items_of, violations_of
from ragtasks.errors import BenchmarkFileError, clear_error
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


def read_results(path: Path) -> tuple[dict[str, tuple[str, ...]], dict[str, tuple[str, ...]]]:
    """Return (item -> texts, best first; item -> facts of its gold list) of a result file, without null queries.

    The file needs no benchmark beside it and may be of any queries, and of few. Items are named by number, from 1.

    Raises:
        BenchmarkFileError: the file is missing, an item is none, or no item has evidence.
    """
    next_step = "name a result file of the official retrieval script"
    what = "MultiHop-RAG retrieval results"
    if not path.is_file():
        message = clear_error(what, where=str(path), expected="a result file", found="no file", next_step=next_step)
        raise BenchmarkFileError(message)
    violations = Violations(path, what, next_step)
    rankings: dict[str, tuple[str, ...]] = {}
    facts: dict[str, tuple[str, ...]] = {}
    for place, row in items_of(violations):
        texts = _texts(row.get("retrieval_list"), place, violations)
        if row.get("question_type") != NULL:
            rankings[str(place)], facts[str(place)] = texts, _facts(row.get("gold_list"), place, violations)
    if not len(violations) and not facts:
        violations.add(0, "items with evidence", "none")
    violations.raise_if_any()
    return rankings, facts


def _facts(raw: Any, place: int, violations: Violations) -> tuple[str, ...]:
    facts = [item.get("fact") if isinstance(item, dict) else None for item in raw] if isinstance(raw, list) else []
    kept = [fact for fact in facts if isinstance(fact, str) and fact.strip()]
    if not kept or len(kept) != len(facts):
        violations.add(0, "`gold_list` with facts", raw, f"item {place}")
    return tuple(kept)


def _texts(raw: Any, place: int, violations: Violations) -> tuple[str, ...]:
    texts = [item.get("text") if isinstance(item, dict) else None for item in raw] if isinstance(raw, list) else [None]
    kept = [text for text in texts if isinstance(text, str) and text.strip()]
    if len(kept) != len(texts):
        violations.add(0, "`retrieval_list` with texts", raw, f"item {place}")
    return tuple(kept)


__all__ = ["read_rankings", "read_results"]

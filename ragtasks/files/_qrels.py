"""Relevance judgements as others hand them over: three cells a line as in BEIR, or four as in TREC."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from ragtasks.files._atomic import write_atomically
from ragtasks.files._json_lines import Violations, read_whole
from ragtasks.files._run_file import query_key
from ragtasks.files._trec import Misfit, qrel_lines
from ragtasks.records import Qrel

_LEAST_GRADE = -9  # TREC marks spam and the like below 0


def read_qrels(path: Path) -> tuple[Qrel, ...]:
    """Return the judgements in a file, in its order, task ids in the one form in use.

    A line has the cells query, passage and grade, or query, a column that nobody reads, passage and grade; the header
    of BEIR may stand first.

    Raises:
        BenchmarkFileError: the file cannot be read or is empty, or has lines that are no judgement: all are listed.
    """
    violations = Violations(path, "qrels", "fix these lines: query, passage and a whole number")
    text = read_whole(violations).decode("utf-8", errors="replace")
    lines = [(number, line) for number, line in enumerate(text.splitlines(), start=1) if line.strip()]
    found: dict[tuple[str, str], Qrel] = {}
    for number, judged in qrel_lines(lines, (3, 4), least=_LEAST_GRADE):
        if isinstance(judged, Misfit):
            violations.add(number, judged.expected, judged.found)
            continue
        query_id = query_key(judged.query_id)
        if (query_id, judged.passage_id) in found:
            violations.add(number, "each judgement once", judged.passage_id, query_id)
        found[query_id, judged.passage_id] = Qrel(query_id, judged.passage_id, judged.relevance)
    violations.raise_if_any()
    return tuple(found.values())


def write_qrels(path: Path, qrels: Iterable[Qrel]) -> None:
    """Write judgements as TREC has them (query, 0, passage, grade), atomically; `read_qrels` reads them back equal.

    Raises:
        CacheError: the file cannot be written.
    """
    write_atomically(path, "".join(f"{one.query_id} 0 {one.passage_id} {one.relevance}\n" for one in qrels).encode())


__all__ = ["read_qrels", "write_qrels"]

"""Rankings in the files that people hand over: TREC runs, JSON lines as in official task files, retrieval results.

The official format is JSON lines with `task_id` and `contexts`, a list of `document_id` and `score`. A query whose list
is empty is there with an empty ranking; one that the file leaves out is not there: official scripts tell them apart.
Retrieval results are JSON lines with `query` and `candidates`.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import orjson

from ragtasks.errors import CacheError
from ragtasks.files._candidates import has_candidates, retrieved_topic
from ragtasks.files._json_lines import bounded_lines
from ragtasks.files._trec import Ranked, Run, RunLine, in_rank_order, raise_for_run, read_trec, run_line
from ragtasks.ids import normalise_task_id


def read_run(path: Path) -> dict[str, tuple[Ranked, ...]]:
    """Return the run in a TREC file, official-format JSON lines or retrieval results, task ids in the one form in use.

    A file whose first character is `{` is JSON lines. In a TREC file the ranks of a query must count up from 0 or 1
    without a gap, in the order of the lines or not; the ranking itself is by score, as everywhere.

    Raises:
        CacheError: the file cannot be read, or lines that are no run (NaN, a passage twice, a gap in the ranks, a
            query twice); all of them are listed.
    """
    try:
        with path.open(encoding="utf-8-sig") as stream:
            lines = [line.removesuffix("\n") for line in bounded_lines(stream)]
    except (OSError, ValueError) as error:
        raise CacheError(f"cannot read the run {path}: {error}; next step: check the path") from error
    if next((line for line in lines if line.strip()), "").lstrip().startswith("{"):
        return _official(path, lines)
    run = read_trec(path)
    raise_for_run(f"run {path}", _gaps(lines))
    return _normalised(path, run)


def _official(path: Path, lines: Iterable[str]) -> dict[str, tuple[Ranked, ...]]:
    run: dict[str, tuple[Ranked, ...]] = {}
    violations: list[str] = []
    for number, line in enumerate(lines, start=1):
        if not line.strip():
            continue
        try:
            query_id, scores = _ranking(orjson.loads(line))
        except (ValueError, KeyError, TypeError) as error:
            expected = "task_id and contexts with document_id and score, or query and candidates with docid and score"
            violations.append(f"line {number}: expected {expected}: {error}")
            continue
        if query_id in run:
            violations.append(f"line {number}: task {query_id!r} stands twice")
        run[query_id] = in_rank_order(Ranked(*item) for item in scores.items())
    raise_for_run(f"run {path}", violations)
    return run


def _ranking(row: Any) -> tuple[str, dict[str, float]]:
    """Return task id and passage id -> score of one row, in either format.

    Raises:
        ValueError, KeyError, TypeError: it is in none.
    """
    if has_candidates(row):
        topic = retrieved_topic(row)
        return query_key(topic.topic_id), {item.passage_id: item.score for item in topic.candidates}
    return query_key(row["task_id"]), _scores(row["contexts"])


def _scores(contexts: object) -> dict[str, float]:
    """Return passage id -> score of one row.

    Raises:
        ValueError, KeyError, TypeError: not a list of these, a score that is no finite number, a passage twice.
    """
    if not isinstance(contexts, list):
        raise TypeError(f"contexts {contexts!r}")
    scores: dict[str, float] = {}
    for context in contexts:
        passage_id, score = context["document_id"], context["score"]
        if not isinstance(passage_id, str) or not passage_id:
            raise ValueError(f"document_id {passage_id!r}")
        if isinstance(score, bool) or not isinstance(score, int | float) or not math.isfinite(score):
            raise ValueError(f"score {score!r} of {passage_id!r}")
        if passage_id in scores:
            raise ValueError(f"passage {passage_id!r} twice")
        scores[passage_id] = float(score)
    return scores


def _gaps(lines: Iterable[str]) -> Iterator[str]:
    """Yield an error for each query of a TREC file whose ranks leave one out, at the line after the gap."""
    ranks: dict[str, list[tuple[int, int]]] = {}
    for number, line in enumerate(lines, start=1):
        found = run_line(line)
        if not isinstance(found, RunLine):
            continue  # `read_trec` has refused it
        if found.rank.isdecimal():
            ranks.setdefault(found.query_id, []).append((int(found.rank), number))
        else:
            yield f"line {number} ({found.query_id}): expected a rank, found {found.rank!r}"
    for query_id, places in ranks.items():
        places.sort()
        first = min(places[0][0], 1)
        for expected, (rank, number) in enumerate(places, start=first):
            if rank != expected:
                yield f"line {number} ({query_id}): expected rank {expected}, found {rank}"
                break


def _normalised(path: Path, run: Run) -> dict[str, tuple[Ranked, ...]]:
    result = {query_key(query_id): ranking for query_id, ranking in run.items()}
    if len(result) != len(run):
        raise_for_run(f"run {path}", ["the same task under two spellings of its id"])
    return result


def query_key(query_id: object) -> str:
    """Return a task id in the one form in use, any other query id as it is."""
    if not isinstance(query_id, str):
        raise TypeError(f"task_id {query_id!r}")
    try:
        return normalise_task_id(query_id)
    except ValueError:
        return query_id


__all__ = ["query_key", "read_run"]

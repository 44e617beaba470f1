"""A ranking that somebody else made, as a retriever: any TREC run, or rows in the format of the official task files.

The official format is JSON lines with `task_id` and `contexts`, a list of `document_id` and `score`. Queries are found
under any spelling of their task id; queries that the file leaves out get an empty ranking, which evaluation counts 0.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

import orjson

from ragtasks.errors import CacheError, ConfigurationError, clear_error
from ragtasks.files import Ranked, Run, bounded_lines, in_rank_order, read_trec
from ragtasks.ids import normalise_task_id
from ragtasks.records import Passage
from retrieval_cache.retrievers._protocol import Progress, no_progress

_MOST_SHOWN = 20


class RunFileRetriever:
    """The rankings of one file; its passages are checked against the corpus when they are asked for."""

    def __init__(self, path: str | Path) -> None:
        """Name the file; it is read by `index`.

        Raises:
            ConfigurationError: no file there.
        """
        self._path = Path(path)
        if not self._path.is_file():
            message = clear_error(
                "run:FILE",
                where=str(path),
                expected="a TREC run, or JSON lines with task_id and contexts",
                found="no such file",
                next_step="check the path",
            )
            raise ConfigurationError(message)
        self._corpus: frozenset[str] | None = None
        self._run: dict[str, tuple[Ranked, ...]] = {}

    @property
    def name(self) -> str:
        """`run:` and the path as given, quoted where a line of retrievers would take it apart."""
        from retrieval_cache.retrievers._canonical import written

        return f"run:{written(str(self._path))}"

    def describe(self) -> Mapping[str, Any]:
        """Return the checksum of the file; where it lies decides nothing."""
        return {"retriever": "run", "sha256": hashlib.sha256(self._path.read_bytes()).hexdigest()}

    def wanted_passages(self, queries: Mapping[str, str]) -> frozenset[str]:
        """Return the ids of all passages that the file ranks for these queries.

        Raises:
            CacheError: lines that are no run, listed by number; none of the queries.
        """
        rankings = self._rankings(read_run(self._path), queries)
        return frozenset(item.passage_id for ranking in rankings.values() for item in ranking)

    def index(self, passages: Iterable[Passage], folder: Path, progress: Progress = no_progress) -> None:
        """Read the file, and the ids of the corpus; `folder` stays empty.

        Raises:
            CacheError: lines that are no run, listed by number.
        """
        del folder
        self._run = read_run(self._path)
        self._corpus = frozenset(passage.passage_id for passage in passages)
        progress(f"read {self.name}", len(self._run), len(self._run))

    def search(self, queries: Mapping[str, str], k: int, progress: Progress = no_progress) -> Run:
        """Return the first `k` passages that the file has for each query, in rank order.

        Raises:
            CacheError: called before `index`; the file ranks passages that the corpus does not have; or it has none
                of the queries.
        """
        if self._corpus is None:
            raise CacheError(f"{self.name}: search was called before index; next step: index the corpus first")
        found = self._rankings(self._run, queries)
        corpus = self._corpus
        unknown = sorted(
            (query, item.passage_id)
            for query, ranking in found.items()
            for item in ranking
            if item.passage_id not in corpus
        )
        if unknown:
            shown = ", ".join(f"{passage!r} ({query})" for query, passage in unknown[:_MOST_SHOWN])
            raise self._refused("only passages of the corpus", f"{len(unknown)} others: {shown}")
        progress(f"search {self.name}", len(queries), len(queries))
        return {query_id: ranking[: max(k, 0)] for query_id, ranking in found.items()}

    def _rankings(self, run: Run, queries: Mapping[str, str]) -> dict[str, tuple[Ranked, ...]]:
        if queries and not any(_key(query_id) in run for query_id in queries):
            others = f"others, such as {', '.join(sorted(run)[:3])}" if run else "no query at all"
            raise self._refused("at least one of the queries", others)
        return {query_id: run.get(_key(query_id), ()) for query_id in queries}

    def _refused(self, expected: str, found: str) -> CacheError:
        return CacheError(
            clear_error(
                "run",
                where=str(self._path),
                expected=expected,
                found=found,
                next_step="give the run that was made over this corpus and these queries",
            )
        )


def read_run(path: Path) -> dict[str, tuple[Ranked, ...]]:
    """Return the run in a TREC file or in official-format JSON lines, task ids in the one form in use.

    A file whose first character is `{` is JSON lines. In a TREC file the ranks of a query must count up from 0 or 1
    without a gap, in the order of the lines or not; the ranking itself is by score, as everywhere.

    Raises:
        CacheError: the file cannot be read, or lines that are no run (NaN, a passage twice, a gap in the ranks, a
            query twice); all of them are listed.
    """
    try:
        with path.open(encoding="utf-8") as stream:
            lines = [line.removesuffix("\n") for line in bounded_lines(stream)]
    except (OSError, ValueError) as error:
        raise CacheError(f"cannot read the run {path}: {error}; next step: check the path") from error
    if next((line for line in lines if line.strip()), "").lstrip().startswith("{"):
        return _official(path, lines)
    run = read_trec(path)
    _raise(path, _gaps(lines))
    return _normalised(path, run)


def _official(path: Path, lines: Iterable[str]) -> dict[str, tuple[Ranked, ...]]:
    run: dict[str, tuple[Ranked, ...]] = {}
    violations: list[str] = []
    for number, line in enumerate(lines, start=1):
        if not line.strip():
            continue
        try:
            row = orjson.loads(line)
            query_id, scores = _key(row["task_id"]), _scores(row["contexts"])
        except (ValueError, KeyError, TypeError) as error:
            violations.append(f"line {number}: expected task_id and contexts with document_id and score, found {error}")
            continue
        if query_id in run:
            violations.append(f"line {number}: task {query_id!r} stands twice")
        run[query_id] = in_rank_order(Ranked(*item) for item in scores.items())
    _raise(path, violations)
    return run


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
        if not line.strip():
            continue
        query_id, _, _, text, _, _ = line.split()
        if text.isdecimal():
            ranks.setdefault(query_id, []).append((int(text), number))
        else:
            yield f"line {number} ({query_id}): expected a rank, found {text!r}"
    for query_id, found in ranks.items():
        found.sort()
        first = min(found[0][0], 1)
        for expected, (rank, number) in enumerate(found, start=first):
            if rank != expected:
                yield f"line {number} ({query_id}): expected rank {expected}, found {rank}"
                break


def _normalised(path: Path, run: Run) -> dict[str, tuple[Ranked, ...]]:
    result = {_key(query_id): ranking for query_id, ranking in run.items()}
    if len(result) != len(run):
        _raise(path, ["the same task under two spellings of its id"])
    return result


def _key(query_id: object) -> str:
    """Return a task id in the one form in use, any other query id as it is."""
    if not isinstance(query_id, str):
        raise TypeError(f"task_id {query_id!r}")
    try:
        return normalise_task_id(query_id)
    except ValueError:
        return query_id


def _raise(path: Path, violations: Iterable[str]) -> None:
    listed = list(violations)
    if listed:
        shown = [
            *listed[:_MOST_SHOWN],
            *([f"and {len(listed) - _MOST_SHOWN} more"] if len(listed) > _MOST_SHOWN else []),
        ]
        n_violations = f"{len(listed)} error{'s' if len(listed) > 1 else ''}"
        raise CacheError(f"run {path}: {n_violations}\n  " + "\n  ".join(shown))


__all__ = ["RunFileRetriever", "read_run"]

"""An existing ranking as a retriever: a TREC run, rows as in official task files, or retrieval results.

The official format is JSON lines with `task_id` and `contexts`, a list of `document_id` and `score`. Queries match any
spelling of their task id. Queries that the file omits get an empty ranking, which counts 0.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from ragtasks.errors import CacheError, ConfigurationError
from ragtasks.files import FileRun, Ranked, Run, file_hash, query_key, read_run
from ragtasks.progress import Progress, no_progress
from ragtasks.records import Passage
from retrieval_cache.retrievers.protocol import not_indexed, written

LEFT_OUT = "left_out"
"""Key in a run's manifest for the queries that its file omits."""

_MAX_LISTED = 20


def _is_file(path: Path) -> bool:
    try:
        return path.is_file()
    except OSError:  # OSError for a name that is too long
        return False


class RunFileRetriever:
    """The rankings in one file. Its passages are checked against the corpus when they are returned."""

    def __init__(self, path: str | Path) -> None:
        """Set the file, which is read by `index`."""
        self._path = Path(path)
        if not _is_file(self._path):
            raise ConfigurationError(
                "run:FILE",
                where=str(path),
                expected="a TREC run, JSON lines with task_id and contexts, or retrieval results",
                found="no such file",
                next_step="check the path",
            )
        self._corpus: frozenset[str] | None = None
        self._run = FileRun()
        self._left_out: list[str] = []

    @property
    def name(self) -> str:
        """`run:` and the path, quoted if it contains separators of a retriever line."""
        return f"run:{written(str(self._path))}"

    def describe(self) -> Mapping[str, Any]:
        """Return the checksum of the file; its path is irrelevant."""
        return {"retriever": "run", "sha256": file_hash(self._path)}

    def wanted_passages(self, queries: Mapping[str, str]) -> frozenset[str]:
        """Return the ids of all passages that the file ranks for these queries."""
        rankings = self._rankings(read_run(self._path), queries)
        return frozenset(ranked.passage_id for ranking in rankings.values() for ranked in ranking)

    def index(self, passages: Iterable[Passage], folder: Path, progress: Progress = no_progress) -> None:
        """Read the file and the ids of the corpus; `folder` stays empty."""
        del folder
        self._run = read_run(self._path)
        if note := self._run.order_note(self._run):
            logging.getLogger(__name__).warning("%s: %s", self.name, note)
        self._corpus = frozenset(passage.passage_id for passage in passages)
        progress(f"read {self.name}", len(self._run), len(self._run))

    def search(self, queries: Mapping[str, str], k: int, progress: Progress = no_progress) -> Run:
        """Return the first `k` passages of the file for each query, in rank order."""
        if self._corpus is None:
            raise not_indexed(self.name)
        rankings = self._rankings(self._run, queries)
        corpus = self._corpus
        unknown = sorted(
            (query, ranked.passage_id)
            for query, ranking in rankings.items()
            for ranked in ranking
            if ranked.passage_id not in corpus
        )
        if unknown:
            shown = ", ".join(f"{passage!r} ({query})" for query, passage in unknown[:_MAX_LISTED])
            raise self._refused("only passages of the corpus", f"{len(unknown)} others: {shown}")
        self._left_out += [query_id for query_id in queries if query_key(query_id) not in self._run]
        progress(f"search {self.name}", len(queries), len(queries))
        return {query_id: ranking[: max(k, 0)] for query_id, ranking in rankings.items()}

    def statistics(self) -> Mapping[str, Any]:
        """Return the searched queries that the file omits; {} if there are none."""
        return {LEFT_OUT: list(self._left_out)} if self._left_out else {}

    def _rankings(self, run: Run, queries: Mapping[str, str]) -> dict[str, tuple[Ranked, ...]]:
        if queries and not any(query_key(query_id) in run for query_id in queries):
            problem = f"others, such as {', '.join(sorted(run)[:3])}" if run else "no query at all"
            raise self._refused("at least one of the queries", problem)
        return {query_id: run.get(query_key(query_id), ()) for query_id in queries}

    def _refused(self, expected: str, found: str) -> CacheError:
        return CacheError(
            "run",
            where=str(self._path),
            expected=expected,
            found=found,
            next_step="give the run that was made over this corpus and these queries",
        )

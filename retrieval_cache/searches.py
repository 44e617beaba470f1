"""Stored searches of agentic tasks: each query is searched once per index.

    <store>/searches/<hash of corpus, retriever and depth>/made_of.json      the content of the hash
                                                           found.jsonl       one line per query, in order of search

A line truncated by a kill is removed and written again. Processes that share a store take turns.
"""

from __future__ import annotations

import os
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import orjson

from ragtasks.benchmarks import Benchmark, retrieval_side
from ragtasks.clients import Secrets, no_secrets
from ragtasks.errors import CacheError
from ragtasks.files import Ranked, canonical_hash, write_atomically
from ragtasks.progress import Progress, no_progress, progress_bars
from ragtasks.records import Passage
from ragtasks.tables import grouped
from retrieval_cache.retrievers.protocol import searched
from retrieval_cache.spec import parse
from retrieval_cache.stage import DEPTH, domain_retriever
from retrieval_cache.store import RunStore

MOST_STORED = 50
"""Passages stored per query. The ranking is computed to the depth of a stored run."""
_VERSION = 1


class StoredSearches:
    """A retriever over one corpus with stored rankings."""

    def __init__(
        self, benchmark: Benchmark, domain: str, *, line: str, store: Path, secrets: Secrets = no_secrets
    ) -> None:
        """Index the corpus, or find its index, and read the stored searches.

        Raises:
            RagtasksError: an unknown retriever, a missing corpus or library, or a store that cannot be written.
        """
        runs = RunStore(store)
        with progress_bars() as progress:
            make = partial(parse, line, secrets, runs.replies)
            self._retriever, source = domain_retriever(benchmark, domain, make, runs, progress)
        self.passages: Mapping[str, Passage] = {passage.passage_id: passage for passage in source}
        """Passage id -> passage, in the order of the corpus."""
        self._document_of = retrieval_side(benchmark.name).document_of
        self._documents = grouped(self.passages.values(), self._document)
        described = {"name": self._retriever.name, **self._retriever.describe()}
        made_of = {"version": _VERSION, "corpus": source.describe(), "retriever": described, "depth": DEPTH}
        made_of["stored"] = MOST_STORED
        self.key = canonical_hash(made_of)
        self.n_searched = 0
        """Number of queries that were not yet stored."""
        self._file = _SearchFile(runs, self.key, made_of)

    def search(self, queries: Collection[str], progress: Progress = no_progress) -> dict[str, tuple[Ranked, ...]]:
        """Return the best `MOST_STORED` passages of each query. Only queries that are not stored are searched."""
        if any(query not in self._file.found for query in queries):
            with self._file.alone():
                missing = [query for query in dict.fromkeys(queries) if query not in self._file.found]
                if missing:
                    rankings = searched(self._retriever, {query: query for query in missing}, DEPTH, progress)
                    self._file.append({query: ranking[:MOST_STORED] for query, ranking in rankings.items()})
                self.n_searched += len(missing)
        return {query: self._file.found[query] for query in queries}

    def neighbours(self, passage_id: str, n: int) -> tuple[Passage, ...]:
        """Return a passage with the `n` before and after it in its document; [] for an unknown id."""
        if passage_id not in self.passages:
            return ()
        passage = self.passages[passage_id]
        document = self._documents[self._document(passage)]
        position = document.index(passage)
        return tuple(document[max(0, position - n) : position + n + 1])

    def _document(self, passage: Passage) -> str:
        """Return the document id of a passage; else its address or title; else the passage id."""
        if self._document_of is not None:
            return self._document_of(passage.passage_id)
        return passage.url or passage.title or passage.passage_id


class _SearchFile:
    """The rankings of queries in a file of JSON lines."""

    def __init__(self, store: RunStore, key: str, made_of: Mapping[str, Any]) -> None:
        self._store, self._lock = store, canonical_hash(["searches", key])
        folder = store.folder("searches", key)
        self._path = folder / "found.jsonl"
        self._read = 0
        self.found: dict[str, tuple[Ranked, ...]] = {}
        """Query -> passages, best first."""
        with self.alone():
            if not (folder / "made_of.json").is_file():
                write_atomically(folder / "made_of.json", orjson.dumps(dict(made_of), option=orjson.OPT_SORT_KEYS))

    @contextmanager
    def alone(self) -> Iterator[None]:
        """Lock the file for the block, and read the lines that other processes have added."""
        with self._store.only_builder(self._lock):
            if self._path.exists():
                self._read_new()
            yield

    def _read_new(self) -> None:
        """Read new lines and remove a truncated last line."""
        with self._path.open("rb") as file:
            file.seek(self._read)
            new = file.read()
        complete = new.rfind(b"\n") + 1
        try:
            for row in map(orjson.loads, new[:complete].splitlines()):
                self.found[row["query"]] = tuple(Ranked(passage_id, score) for passage_id, score in row["found"])
        except (ValueError, LookupError, TypeError) as error:
            raise CacheError(
                f"{self._path} is corrupt; next step: remove it, and the queries are searched again"
            ) from error
        self._read += complete
        if complete < len(new):
            os.truncate(self._path, self._read)

    def append(self, rankings: Mapping[str, tuple[Ranked, ...]]) -> None:
        """Append rankings to the file in one write."""
        rows = (
            {"query": query, "found": [[i.passage_id, i.score] for i in items]} for query, items in rankings.items()
        )
        lines = b"".join(orjson.dumps(row) + b"\n" for row in rows)
        try:
            with self._path.open("ab") as file:
                file.write(lines)
        except OSError as error:
            raise CacheError(f"cannot write {self._path}: {error.strerror or error}") from error
        self._read += len(lines)
        self.found |= rankings

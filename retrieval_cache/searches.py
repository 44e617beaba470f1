"""Searches of a model that searches while it answers: the same query over the same index is searched once, ever.

    <store>/searches/<hash of corpus, retriever and depth>/made_of.json      what is hashed
                                                           found.jsonl       a line a query, appended as it is searched

A line is whole or, cut off by a kill, left out and written again; processes that share a store take turns.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
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
from retrieval_cache.retrievers.protocol import searched
from retrieval_cache.spec import parse
from retrieval_cache.stage import DEPTH, domain_retriever, domain_source
from retrieval_cache.store import RunStore

MOST_STORED = 50
"""Passages of a query that are stored; the ranking itself is as deep as that of a stored run."""
_VERSION = 1


class StoredSearches:
    """One retriever over one corpus, whose rankings are kept."""

    def __init__(
        self, benchmark: Benchmark, domain: str, *, line: str, store: Path, secrets: Secrets = no_secrets
    ) -> None:
        """Index the corpus, or find its index, and read what was searched before.

        Raises:
            RagtasksError: an unknown retriever, a missing corpus or library, a store that cannot be written.
        """
        runs = RunStore(store)
        with progress_bars() as progress:
            source = domain_source(benchmark, domain, runs, progress)
            make = partial(parse, line, secrets, runs.replies)
            self._retriever = domain_retriever(benchmark, domain, make, runs, progress, source=source)
        self._corpus = _Corpus(source, retrieval_side(benchmark.name).document_of)
        described = {"name": self._retriever.name, **self._retriever.describe()}
        made_of = {"version": _VERSION, "corpus": source.describe(), "retriever": described, "depth": DEPTH}
        self.made_of: Mapping[str, Any] = {**made_of, "stored": MOST_STORED}
        """What decides a ranking."""
        self.key = canonical_hash(self.made_of)
        self.n_searched = 0
        """Queries that nobody had searched for before."""
        self._file = _FoundFile(runs, self.key, self.made_of)

    def search(self, queries: Collection[str], progress: Progress = no_progress) -> dict[str, tuple[Ranked, ...]]:
        """Return the best `MOST_STORED` passages of each query; only those that nobody searched for are searched."""
        if any(query not in self._file.found for query in queries):
            with self._file.alone():
                missing = [query for query in dict.fromkeys(queries) if query not in self._file.found]
                if missing:
                    found = searched(self._retriever, {query: query for query in missing}, DEPTH, progress)
                    self._file.append({query: ranking[:MOST_STORED] for query, ranking in found.items()})
                self.n_searched += len(missing)
        return {query: self._file.found[query] for query in queries}

    @property
    def passages(self) -> Mapping[str, Passage]:
        """Passage id -> passage, in the order of the corpus."""
        return self._corpus.passages

    def neighbours(self, passage_id: str, n: int) -> tuple[Passage, ...]:
        """Return a passage and the `n` before and behind it in its document; nothing where there is none of that id."""
        return self._corpus.around(passage_id, n)


class _Corpus:
    """The passages of a corpus by id, and which stand beside each other in a document."""

    def __init__(self, passages: Iterable[Passage], document_of: Callable[[str], str] | None) -> None:
        self.passages = {passage.passage_id: passage for passage in passages}
        """Passage id -> passage, in the order of the corpus."""
        self._documents: dict[str, list[str]] = {}
        self._document_of = document_of
        for passage in self.passages.values():
            self._documents.setdefault(self._document(passage), []).append(passage.passage_id)

    def _document(self, passage: Passage) -> str:
        """Return the document of a passage; where ids do not say it, its address or title, else it stands alone."""
        if self._document_of is not None:
            return self._document_of(passage.passage_id)
        return passage.url or passage.title or passage.passage_id

    def around(self, passage_id: str, n: int) -> tuple[Passage, ...]:
        """Return a passage between its neighbours."""
        passage = self.passages.get(passage_id)
        if passage is None:
            return ()
        document = self._documents[self._document(passage)]
        place = document.index(passage_id)
        return tuple(self.passages[name] for name in document[max(0, place - n) : place + n + 1])


class _FoundFile:
    """What was found for queries, in a file of lines."""

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
        """Let no other process search while the block runs, and know what others found before."""
        with self._store.only_builder(self._lock):
            self._take_new()
            yield

    def _take_new(self) -> None:
        """Read the lines that are new; a last one that a kill cut off goes."""
        try:
            with self._path.open("rb") as file:
                file.seek(self._read)
                new = file.read()
        except FileNotFoundError:
            return
        whole = new.rfind(b"\n") + 1
        try:
            for line in new[:whole].splitlines():
                self.found |= _row(line)
        except (ValueError, LookupError, TypeError) as error:
            raise CacheError(
                f"{self._path} is corrupt; next step: remove it, and the queries are searched again"
            ) from error
        self._read += whole
        if whole < len(new):
            os.truncate(self._path, self._read)

    def append(self, found: Mapping[str, tuple[Ranked, ...]]) -> None:
        """Write what was found behind the rest, at once."""
        rows = ({"query": query, "found": [[i.passage_id, i.score] for i in items]} for query, items in found.items())
        lines = b"".join(orjson.dumps(row) + b"\n" for row in rows)
        try:
            with self._path.open("ab") as file:
                file.write(lines)
        except OSError as error:
            raise CacheError(f"cannot write {self._path}: {error.strerror or error}") from error
        self._read += len(lines)
        self.found |= found


def _row(line: bytes) -> dict[str, tuple[Ranked, ...]]:
    """Return query -> passages of a line."""
    row = orjson.loads(line)
    return {row["query"]: tuple(Ranked(passage_id, score) for passage_id, score in row["found"])}

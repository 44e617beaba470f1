"""BM25 in tantivy, the default retriever: exact, embedded, and it ranks as Lucene does.

`bm25` drops English stop words and stems; `bm25-standard` only lower-cases, nearest to the Elasticsearch defaults of
the MTRAG paper. On MTRAG's 777 questions over real passages (a subset of 42,515, so not comparable with published
scores), mean R@5 of last turn / rewrite is .258 / .309 for the first and .235 / .281 for the second.

k1 is 1.2 and b 0.75, fixed in tantivy. As in Lucene, a passage's length is kept in one byte: up to 40 terms exactly,
beyond that rounded down by at most an eighth. A term that the query repeats counts as often as it stands there. Query
text is never parsed: quotes, signs and colons separate words and do nothing else.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import partial
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ragtasks.errors import ConfigurationError, close_matches
from ragtasks.files import Ranked, Run, in_rank_order
from ragtasks.records import Passage
from retrieval_cache.retrievers._protocol import Progress, no_progress
from retrieval_cache.retrievers.bm25._analysers import ANALYSERS, encodable, text_analyser
from retrieval_cache.retrievers.bm25._stored import (
    built_whole,
    not_indexed,
    read_ids,
    searched,
    texts_with_ids,
    unwritable,
    write_ids,
)

if TYPE_CHECKING:
    import tantivy

NAMES = {"bm25": "english", "bm25-standard": "standard"}
"""Retriever name -> analyser."""

K1, B = 1.2, 0.75
"""What tantivy, and Lucene by default, set."""

_HEAP_BYTES = 128_000_000
_FOLDER = "tantivy"


class Bm25Retriever:
    """BM25 over one corpus; scores are tantivy's 32-bit floats, the same however its threads split the corpus."""

    def __init__(self, name: str = "bm25") -> None:
        """Choose one of `NAMES`.

        Raises:
            ConfigurationError: unknown name.
            MissingExtraError: tantivy is not installed.
        """
        if name not in NAMES:
            raise ConfigurationError(f"unknown BM25 variant {name!r}: {close_matches(name, NAMES)}")
        self._name = name
        self._analyser = text_analyser(NAMES[name])
        self._ids: tuple[str, ...] = ()
        self._index: tantivy.Index | None = None

    @property
    def name(self) -> str:
        """`bm25` or `bm25-standard`."""
        return self._name

    def describe(self) -> Mapping[str, Any]:
        """Return name, analyser, parameters and tantivy's version."""
        return {
            "retriever": self.name,
            "analyser": ANALYSERS[NAMES[self.name]],
            "k1": K1,
            "b": B,
            "tantivy": version("tantivy"),
        }

    def index(self, passages: Iterable[Passage], folder: Path, progress: Progress = no_progress) -> None:
        """Build the index in `folder`, or open the whole one that is there; a killed build starts anew.

        Raises:
            CacheError: the disk is full.
        """
        target = folder / _FOLDER
        ids = read_ids(target, self.describe())
        index = None if ids is None else self._opened(target, len(ids))
        if ids is None or index is None:
            with built_whole(target) as part:
                ids = self._built(passages, part, progress)
            index = self._opened(target, len(ids))
        self._ids, self._index = ids, index

    def _built(self, passages: Iterable[Passage], folder: Path, progress: Progress) -> tuple[str, ...]:
        """Write the index and its ids; only term frequencies are kept, no text and no positions."""
        from tantivy import Document, Index, SchemaBuilder

        builder = SchemaBuilder()
        builder.add_text_field("text", tokenizer_name=self.name, index_option="freq")
        builder.add_unsigned_field("row", fast=True)
        index = _on_disk(folder, partial(Index, path=str(folder)), builder.build())
        index.register_tokenizer(self.name, text_analyser(NAMES[self.name]))
        ids: list[str] = []
        writer = _on_disk(folder, index.writer, _HEAP_BYTES)
        for row, text in enumerate(texts_with_ids(passages, ids, f"index {self.name}", progress)):
            document = Document()
            document.add_text("text", text)
            document.add_unsigned("row", row)
            _on_disk(folder, writer.add_document, document)
        _on_disk(folder, writer.commit)
        _on_disk(folder, writer.wait_merging_threads)
        write_ids(folder, self.describe(), ids)
        return tuple(ids)

    def _opened(self, folder: Path, n_passages: int) -> tantivy.Index | None:
        """Return the index in a folder, or None where its files are corrupt."""
        from tantivy import Index

        try:
            index = Index.open(str(folder))
            n_found = index.searcher().num_docs
        except (ValueError, OSError):
            return None
        index.register_tokenizer(self.name, text_analyser(NAMES[self.name]))
        return index if n_found == n_passages else None

    def search(self, queries: Mapping[str, str], k: int, progress: Progress = no_progress) -> Run:
        """Return the best `k` passages of each query; a query without a term in the corpus has none.

        Raises:
            CacheError: called before `index`.
        """
        if self._index is None:
            raise not_indexed(self.name)
        searcher, schema = self._index.searcher(), self._index.schema
        return searched(self.name, queries, lambda text: self._ranked(searcher, self._query(schema, text), k), progress)

    def _query(self, schema: tantivy.Schema, text: str) -> tantivy.Query:
        """Return the OR of the text's terms; a repeated term is there repeatedly, so its score is added each time."""
        from tantivy import Occur, Query

        terms = self._analyser.analyze(encodable(text))
        return Query.boolean_query([(Occur.Should, Query.term_query(schema, "text", term, "freq")) for term in terms])

    def _ranked(self, searcher: tantivy.Searcher, query: tantivy.Query, k: int) -> tuple[Ranked, ...]:
        """Return the best `k`; tantivy cuts among equal scores by place, so ties at the cut are fetched whole."""
        if k < 1 or not self._ids:
            return ()
        limit = k + 1
        while True:
            hits = searcher.search(query, min(limit, len(self._ids)), count=False).hits
            if len(hits) < limit or hits[-1][0] < hits[k - 1][0]:
                break
            limit *= 4
        rows = searcher.fast_field_values("row", [address for _, address in hits])
        scored = zip(rows, hits, strict=True)
        return in_rank_order(Ranked(self._ids[int(row or 0)], score) for row, (score, _) in scored)[:k]


def _on_disk(folder: Path, call: Any, *arguments: object) -> Any:
    """Return what a call of tantivy returns, which reports a full disk as ValueError."""
    try:
        return call(*arguments)
    except ValueError as error:
        raise unwritable(folder, error) from error


__all__ = ["K1", "NAMES", "B", "Bm25Retriever"]

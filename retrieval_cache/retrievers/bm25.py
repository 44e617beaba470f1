"""Retrievers by words: BM25 of two libraries, over the same analysers and one way of storing an index."""

from __future__ import annotations

import os
import shutil
from array import array
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Any

import orjson

from ragtasks.errors import CacheError, ConfigurationError, close_matches
from ragtasks.files import Ranked, Run, in_rank_order, write_atomically
from ragtasks.progress import Progress, no_progress
from ragtasks.records import Passage
from ragtasks.requirements import importing
from retrieval_cache.retrievers.protocol import not_indexed

if TYPE_CHECKING:
    import numpy as np
    import tantivy


# BM25 in tantivy, the default retriever: exact, embedded, and it ranks as Lucene does.
# `bm25` drops English stop words and stems; `bm25-standard` only lower-cases, nearest to the Elasticsearch defaults
# of the MTRAG paper. On MTRAG's 777 questions over real passages (a subset of 42,515, so not comparable with
# published scores), mean R@5 of last turn / rewrite is .258 / .309 for the first and .235 / .281 for the second.
# k1 is 1.2 and b 0.75, fixed in tantivy. As in Lucene, a passage's length is kept in one byte: up to 40 terms
# exactly, beyond that rounded down by at most an eighth. A term that the query repeats counts as often as it stands
# there. Query text is never parsed: quotes, signs and colons separate words and do nothing else.

NAMES = {"bm25": "english", "bm25-standard": "standard"}
"""Retriever name -> analyser."""

K1, B = 1.2, 0.75
"""What tantivy, and Lucene by default, set."""

_HEAP_BYTES = 128_000_000
_FOLDER = "tantivy"


class Bm25Retriever:
    """BM25 over one corpus; scores are tantivy's 32-bit floats, the same however its threads split the corpus."""

    def __init__(self, name: str = "bm25", language: str = "english") -> None:
        """Choose one of `NAMES`, and for `bm25` the language of the corpus: an analyser of `ANALYSERS`."""
        if name not in NAMES:
            raise ConfigurationError(f"unknown BM25 variant {name!r}: {close_matches(name, NAMES)}")
        known = sorted({*ANALYSERS, *_UNSPACED} - {"standard"})
        if language not in known or (name != "bm25" and language != "english"):
            instead = close_matches(language, known) if name == "bm25" else "bm25 takes a language, bm25-standard none"
            raise ConfigurationError(f"{name}: unknown language {language!r}: {instead}")
        self._name = name
        self._chosen = NAMES[name] if language == "english" else _UNSPACED.get(language, language)
        self._analyser = text_analyser(self._chosen)
        self._ids: tuple[str, ...] = ()
        self._index: tantivy.Index | None = None

    @property
    def name(self) -> str:
        """`bm25` or `bm25-standard`; with the analyser where that is of another language."""
        return self._name if self._chosen == NAMES[self._name] else f"{self._name}:language={self._chosen}"

    def describe(self) -> Mapping[str, Any]:
        """Return name, analyser, parameters and tantivy's version."""
        return {
            "retriever": self._name,
            "analyser": ANALYSERS[self._chosen],
            "k1": K1,
            "b": B,
            "tantivy": version("tantivy"),
        }

    def index(self, passages: Iterable[Passage], folder: Path, progress: Progress = no_progress) -> None:
        """Build the index in `folder`, or open the whole one that is there; a killed build starts anew."""
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
        builder.add_text_field("text", tokenizer_name=self._name, index_option="freq")
        builder.add_unsigned_field("row", fast=True)
        index = _on_disk(folder, partial(Index, path=str(folder)), builder.build())
        index.register_tokenizer(self._name, text_analyser(self._chosen))
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
        index.register_tokenizer(self._name, text_analyser(self._chosen))
        return index if n_found == n_passages else None

    def search(self, queries: Mapping[str, str], k: int, progress: Progress = no_progress) -> Run:
        """Return the best `k` passages of each query; a query without a term in the corpus has none."""
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


# BM25 in bm25s, for baselines that set k1 and b, such as the 0.9 and 0.4 of TREC RAG.
# Lucene's formula with exact passage lengths. It keeps a score for every term of every passage, so building takes
# several times the time and memory of `bm25`.

_BM25S_FOLDER = "bm25s"


class Bm25sRetriever:
    """BM25 over one corpus with k1 and b as given; scores are 32-bit floats."""

    def __init__(self, k1: float = 1.2, b: float = 0.75, analyser: str = "english") -> None:
        self._k1, self._b = _checked("k1", k1, 100.0), _checked("b", b, 1.0)
        if analyser not in ANALYSERS:
            raise ConfigurationError(f"unknown analyser {analyser!r}: {close_matches(str(analyser), ANALYSERS)}")
        self._analyser = analyser
        self._terms = term_lister(analyser)
        self._ids: tuple[str, ...] = ()
        self._scorer: Any = None

    @property
    def name(self) -> str:
        """Such as `bm25s:k1=0.9,b=0.4`; the analyser is in it where it is not the default."""
        analyser = "" if self._analyser == "english" else f",analyser={self._analyser}"
        return f"bm25s:k1={self._k1!r},b={self._b!r}{analyser}"

    def describe(self) -> Mapping[str, Any]:
        """Return name, analyser, parameters and the versions of both libraries."""
        return {
            "retriever": "bm25s",
            "analyser": ANALYSERS[self._analyser],
            "k1": self._k1,
            "b": self._b,
            "bm25s": version("bm25s"),
            "tantivy": version("tantivy"),
        }

    def index(self, passages: Iterable[Passage], folder: Path, progress: Progress = no_progress) -> None:
        """Build the index in `folder`, or open the complete one that exists; a killed build starts again."""
        import bm25s

        target = folder / _BM25S_FOLDER
        ids = read_or_built(target, self.describe(), lambda part: self._built(passages, part, progress))
        # bm25s cannot store an index without any term; such a corpus has no scorer and matches nothing.
        has_terms = (target / "params.index.json").is_file()
        self._scorer = bm25s.BM25.load(str(target), mmap=True, show_progress=False) if has_terms else False
        self._ids = ids

    def _built(self, passages: Iterable[Passage], folder: Path, progress: Progress) -> tuple[str, ...]:
        """Write the index and its ids; terms are numbered in order, so equal corpora give equal files."""
        ids: list[str] = []
        numbers: dict[str, int] = {}
        rows = [
            array("i", (numbers.setdefault(term, len(numbers)) for term in self._terms(text)))
            for text in texts_with_ids(passages, ids, f"index {self.name}", progress)
        ]
        if numbers:
            import bm25s

            scorer = bm25s.BM25(k1=self._k1, b=self._b, method="lucene")
            tokenised = bm25s.tokenization.Tokenized(ids=rows, vocab=numbers)
            scorer.index(tokenised, create_empty_token=False, show_progress=False)
            scorer.save(str(folder), show_progress=False)
        write_ids(folder, self.describe(), ids)
        return tuple(ids)

    def search(self, queries: Mapping[str, str], k: int, progress: Progress = no_progress) -> Run:
        """Return the best `k` passages of each query; a query without a term in the corpus has none."""
        if self._scorer is None:
            raise not_indexed(self.name)
        return searched(self.name, queries, lambda text: self._ranked(text, k), progress)

    def _ranked(self, text: str, k: int) -> tuple[Ranked, ...]:
        numbers = self._scorer.get_tokens_ids(self._terms(text)) if self._scorer else []
        return best(self._scorer.get_scores_from_ids(numbers), self._ids, k) if numbers and k > 0 else ()


def _checked(name: str, value: object, highest: float) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value <= highest:
        raise ConfigurationError(
            "BM25",
            where=name,
            expected=f"a number from 0 to {highest:g}",
            found=repr(value),
            next_step="such as bm25s:k1=0.9,b=0.4",
        )
    return float(value)


# How lexical retrievers turn text into terms: an analyser a language, and what of a passage is indexed.
# All run in tantivy, so that an index, a query and every other lexical retriever see the same terms. `standard` is
# the nearest to the Elasticsearch defaults behind the MTRAG paper's BM25; `english` finds more (see `bm25`).

_STOPPED = (
    "danish",
    "dutch",
    "finnish",
    "french",
    "german",
    "hungarian",
    "italian",
    "norwegian",
    "portuguese",
    "russian",
    "spanish",
    "swedish",
)
_STEMMED = ("arabic", "greek", "romanian", "tamil", "turkish")  # tantivy has no stop words of these
_CJK = r"\p{Han}\p{Hiragana}\p{Katakana}\p{Hangul}"
ANALYSERS = {
    "english": "words of letters and digits, lower case, without 33 English stop words, Snowball English stems",
    "standard": "words of letters and digits, lower case",
    **{
        name: f"words of letters and digits, lower case, without tantivy's {name} stop words, Snowball {name} stems"
        for name in _STOPPED
    },
    **{name: f"words of letters and digits, lower case, Snowball {name} stems" for name in _STEMMED},
    "cjk": "every character of Chinese, Japanese and Korean; of the rest words of letters and digits, lower case",
}
"""Name -> what it makes of a text; the wording is part of every run's key."""

_UNSPACED = {"chinese": "cjk", "japanese": "cjk", "korean": "cjk"}
"""Language that is written in characters -> its analyser."""

_LONGEST_TERM = 255
"""Bytes; longer words are dropped. Lucene cuts them in pieces of this length instead."""


def text_analyser(name: str) -> tantivy.TextAnalyzer:
    """Return a new tantivy analyser by its name in `ANALYSERS`."""
    if name not in ANALYSERS:
        raise ConfigurationError(f"unknown analyser {name!r}: {close_matches(name, ANALYSERS)}")
    with importing("tantivy", "retrieval", "lexical retrieval"):
        from tantivy import Filter, TextAnalyzerBuilder, Tokenizer
    # A length of n is already too long for tantivy's filter.
    words = Tokenizer.regex(rf"[{_CJK}]|[\p{{L}}\p{{N}}--[{_CJK}]]+") if name == "cjk" else Tokenizer.simple()
    builder = TextAnalyzerBuilder(words).filter(Filter.remove_long(_LONGEST_TERM + 1)).filter(Filter.lowercase())
    if name == "english" or name in _STOPPED:
        builder = builder.filter(Filter.stopword(name))
    if name not in {"standard", "cjk"}:
        builder = builder.filter(Filter.stemmer(name))
    return builder.build()


def term_lister(name: str) -> Callable[[str], list[str]]:
    """Return a function: text -> its terms in order, repeated ones repeated, none for a text without words."""
    analyser = text_analyser(name)
    return lambda text: analyser.analyze(encodable(text))


def encodable(text: str) -> str:
    """Return the text with every half of a surrogate pair, which UTF-8 has no bytes for, as a question mark."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-8", "replace").decode()
    return text


def indexed_text(passage: Passage) -> str:
    """Return what of a passage is indexed: its text, after its title where the text does not start with that.

    MTRAG's passages start with their title already; BEIR's keep it apart, and are searched with it by convention.
    """
    title = passage.title.strip()
    if not title or passage.text.lstrip().startswith(title):
        return encodable(passage.text)
    return encodable(f"{title}\n{passage.text}")


# What the lexical retrievers keep on disk, and how: a folder that is whole or not there, with its ids beside it.
# Scores come back as row numbers; `ids.json` turns them into passage ids and says what the index was built as.

_IDS = "ids.json"
_EVERY = 5000
"""Passages between two calls of the progress callback."""


@contextmanager
def built_whole(folder: Path) -> Iterator[Path]:
    """Yield an empty folder to build in; once the block has ended well, it is `folder`.

    A killed build leaves `<folder>.part`, which the next build empties. The caller sees to it that there is one
    build at a time.
    """
    part = folder.with_name(f"{folder.name}.part")
    try:
        shutil.rmtree(part, ignore_errors=True)
        part.mkdir(parents=True)
        yield part
        shutil.rmtree(folder, ignore_errors=True)
        os.replace(part, folder)  # noqa: PTH105  Path.replace is the same call, but reads as if of a file
    except OSError as error:
        shutil.rmtree(part, ignore_errors=True)
        raise unwritable(folder, error) from error


def unwritable(folder: Path, error: Exception) -> CacheError:
    """Return the one error for a disk that takes no more."""
    return CacheError(
        "index",
        where=str(folder),
        expected="room and permission to write",
        found=str(error),
        next_step="free some space, then call again: it is built anew",
    )


def write_ids(folder: Path, description: Mapping[str, Any], ids: Sequence[str]) -> None:
    """Write the passage id of every row, and what the index was built as."""
    write_atomically(folder / _IDS, orjson.dumps({"built_as": description, "ids": ids}))


def read_ids(folder: Path, description: Mapping[str, Any]) -> tuple[str, ...] | None:
    """Return the passage id of every row, or None where there is no whole index built just like this."""
    try:
        content = orjson.loads((folder / _IDS).read_bytes())
        return tuple(content["ids"]) if content["built_as"] == description else None
    except (OSError, ValueError, KeyError, TypeError):
        return None


def read_or_built(
    folder: Path, description: Mapping[str, Any], build: Callable[[Path], tuple[str, ...]]
) -> tuple[str, ...]:
    """Return the passage id of every row of the whole index in `folder`, built first where there is none."""
    ids = read_ids(folder, description)
    if ids is None:
        with built_whole(folder) as part:
            ids = build(part)
    return ids


def searched(
    name: str, queries: Mapping[str, str], ranked: Callable[[str], tuple[Ranked, ...]], progress: Progress
) -> Run:
    """Return what `ranked` finds for the text of each query, and tell `progress` after each."""
    run: dict[str, tuple[Ranked, ...]] = {}
    for query_id, text in queries.items():
        run[query_id] = ranked(text)
        progress(f"search {name}", len(run), len(queries))
    return run


def texts_with_ids(passages: Iterable[Passage], ids: list[str], what: str, progress: Progress) -> Iterator[str]:
    """Yield the indexed text of every passage, add its id to `ids`, and tell `progress`.

    A passage without a word is kept, and matches nothing: official corpora have such, and its row counts in the
    statistics as it does in Elasticsearch.
    """
    for passage in passages:
        ids.append(passage.passage_id)
        yield indexed_text(passage)
        if len(ids) % _EVERY == 0:
            progress(what, len(ids), None)
    progress(what, len(ids), len(ids))


def best(scores: np.ndarray[Any, Any], ids: Sequence[str], k: int) -> tuple[Ranked, ...]:
    """Return the best `k` passages whose score is not 0, in rank order; the cut follows the rule for ties too."""
    import numpy as np

    rows = np.flatnonzero(scores)
    if len(rows) > k:
        cut = np.partition(scores[rows], len(rows) - k)[len(rows) - k]
        rows = rows[scores[rows] >= cut]
    return in_rank_order(Ranked(ids[row], float(scores[row])) for row in rows.tolist())[:k]

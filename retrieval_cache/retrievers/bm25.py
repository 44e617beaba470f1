"""Lexical retrievers: BM25 of three libraries, with the same analyzers and index storage."""

from __future__ import annotations

import os
import shutil
import sys
from abc import abstractmethod
from array import array
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

import orjson

from ragtasks.errors import CacheError, ConfigurationError, close_matches
from ragtasks.files import Ranked, Run, in_rank_order, write_atomically
from ragtasks.progress import Progress, no_progress
from ragtasks.records import Passage
from ragtasks.requirements import importing
from retrieval_cache.retrievers.protocol import Retriever, not_indexed

if TYPE_CHECKING:
    import numpy as np
    import tantivy
    from numpy.typing import NDArray

_IDS = "ids.json"
"""File with the passage id of every row and the parameters of the index."""
_TERMS = "terms.jsonl"
"""File with the terms of every row, for a library without an index of its own."""
_EVERY = 5000
"""Passages between two progress calls."""


class LexicalRetriever(Retriever):
    """BM25 over one corpus. Its index is a folder that is complete or missing."""

    _folder: ClassVar[str]

    def __init__(self) -> None:
        self._ids: Sequence[str] = ()
        self._index: Any = None

    def index(self, passages: Iterable[Passage], folder: Path, progress: Progress = no_progress) -> None:
        """Build the index in `folder`, or open a complete index. A killed build starts again."""
        target, built_as = folder / self._folder, self.describe()
        ids = _read_ids(target, built_as)
        index = None if ids is None else self._opened(target, len(ids))
        if ids is None or index is None:
            ids = []
            with built_whole(target) as part:
                self._build(part, self._texts(passages, ids, progress))
                write_atomically(part / _IDS, orjson.dumps({"built_as": built_as, "ids": ids}))
            index = self._opened(target, len(ids))
        self._ids, self._index = ids, index

    def _texts(self, passages: Iterable[Passage], ids: list[str], progress: Progress) -> Iterator[str]:
        """Yield the indexed text of every passage, and append its id to `ids`.

        A passage without words is kept and matches nothing. Official corpora contain such passages, and their rows
        count in the statistics as in Elasticsearch.
        """
        for passage in passages:
            ids.append(passage.passage_id)
            yield indexed_text(passage)
            if len(ids) % _EVERY == 0:
                progress(f"index {self.name}", len(ids), None)
        progress(f"index {self.name}", len(ids), len(ids))

    @abstractmethod
    def _build(self, folder: Path, texts: Iterator[str]) -> None:
        """Write the index of texts, one row each."""

    @abstractmethod
    def _opened(self, folder: Path, n_passages: int) -> Any:
        """Return the index in a folder; None if its files are corrupt."""

    def search(self, queries: Mapping[str, str], k: int, progress: Progress = no_progress) -> Run:
        """Return the best `k` passages of each query; () for a query without terms in the corpus."""
        if self._index is None:
            raise not_indexed(self.name)
        run: dict[str, tuple[Ranked, ...]] = {}
        for query_id, text in queries.items():
            run[query_id] = self._ranked(text, k) if k > 0 and self._ids else ()
            progress(f"search {self.name}", len(run), len(queries))
        return run

    @abstractmethod
    def _ranked(self, text: str, k: int) -> tuple[Ranked, ...]:
        """Return the best `k` passages of a query; `k` and the size of the corpus are at least 1."""


# BM25 in tantivy, the default retriever: exact, embedded, with Lucene's ranking. `bm25` removes English stop words and
# stems; `bm25-standard` only lower-cases, closest to the Elasticsearch defaults of the MTRAG paper. On MTRAG's 777
# questions over real passages (a subset of 42,515, so not comparable with published scores), mean R@5 of last turn /
# rewrite is .258 / .309 for the first and .235 / .281 for the second. k1 is 1.2 and b 0.75, fixed in tantivy. As in
# Lucene, a passage's length is stored in one byte: up to 40 terms exactly, beyond that rounded down by at most an
# eighth. A repeated term of the query counts once per occurrence. Query text is never parsed: quotes, signs and colons
# only separate words.

NAMES = {"bm25": "english", "bm25-standard": "standard"}
"""Retriever name -> analyzer."""

K1, B = 1.2, 0.75
"""Defaults of tantivy and Lucene."""

_HEAP_BYTES = 128_000_000


class Bm25Retriever(LexicalRetriever):
    """BM25 over one corpus. Scores are tantivy's 32-bit floats, equal for every build of the index."""

    _folder = "tantivy"

    def __init__(self, name: str = "bm25", language: str = "english") -> None:
        """Set one of `NAMES`, and for `bm25` the language of the corpus: a name in `ANALYSERS`."""
        if name not in NAMES:
            raise ConfigurationError(f"unknown BM25 variant {name!r}: {close_matches(name, NAMES)}")
        analysers = sorted({*ANALYSERS, *_UNSPACED} - {"standard"})
        if language not in analysers or (name != "bm25" and language != "english"):
            instead = (
                close_matches(language, analysers)
                if name == "bm25"
                else "bm25 accepts a language, bm25-standard does not"
            )
            raise ConfigurationError(f"{name}: unknown language {language!r}: {instead}")
        self._name = name
        self._chosen = NAMES[name] if language == "english" else _UNSPACED.get(language, language)
        self._analyser = text_analyser(self._chosen)
        super().__init__()

    @property
    def name(self) -> str:
        """`bm25` or `bm25-standard`, with the analyzer if it is of another language."""
        return self._name if self._chosen == NAMES[self._name] else f"{self._name}:language={self._chosen}"

    def describe(self) -> Mapping[str, Any]:
        """Return name, analyzer, parameters and tantivy's version."""
        return {
            "retriever": self._name,
            "analyser": ANALYSERS[self._chosen],
            "k1": K1,
            "b": B,
            "tantivy": version("tantivy"),
        }

    def _build(self, folder: Path, texts: Iterator[str]) -> None:
        """Write the index with term frequencies only, without text and positions."""
        from tantivy import Document, Index, SchemaBuilder

        builder = SchemaBuilder()
        builder.add_text_field("text", tokenizer_name=self._name, index_option="freq")
        builder.add_unsigned_field("row", fast=True)
        index = _on_disk(folder, partial(Index, path=str(folder)), builder.build())
        index.register_tokenizer(self._name, text_analyser(self._chosen))
        # One thread: tantivy before 0.27 adds the scores of terms in an order that depends on its threads.
        writer = _on_disk(folder, index.writer, _HEAP_BYTES, 1)
        for row, text in enumerate(texts):
            document = Document()
            document.add_text("text", text)
            document.add_unsigned("row", row)
            _on_disk(folder, writer.add_document, document)
        _on_disk(folder, writer.commit)
        _on_disk(folder, writer.wait_merging_threads)

    def _opened(self, folder: Path, n_passages: int) -> tantivy.Index | None:
        from tantivy import Index

        try:
            index = Index.open(str(folder))
            n_found = index.searcher().num_docs
        except (ValueError, OSError):
            return None
        index.register_tokenizer(self._name, text_analyser(self._chosen))
        return index if n_found == n_passages else None

    def _ranked(self, text: str, k: int) -> tuple[Ranked, ...]:
        """Return the best `k`. tantivy orders equal scores by position, so all ties at the cut are fetched."""
        from tantivy import Occur, Query

        searcher, schema = self._index.searcher(), self._index.schema
        # A repeated term is searched repeatedly, so its score is added each time.
        terms = self._analyser.analyze(encodable(text))
        query = Query.boolean_query([(Occur.Should, Query.term_query(schema, "text", term, "freq")) for term in terms])
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
    """Return the result of a tantivy call. Raises CacheError for a full disk, which tantivy reports as ValueError."""
    try:
        return call(*arguments)
    except ValueError as error:
        raise unwritable(folder, error) from error


# BM25 in bm25s, for baselines that set k1 and b, such as the 0.9 and 0.4 of TREC RAG. Lucene's formula with exact
# passage lengths. It stores a score for every term of every passage, so building takes several times the time and
# memory of `bm25`.


class Bm25sRetriever(LexicalRetriever):
    """BM25 over one corpus with configurable k1 and b; scores are 32-bit floats."""

    _folder = "bm25s"

    def __init__(self, k1: float = 1.2, b: float = 0.75, analyser: str = "english") -> None:
        self._k1, self._b = _checked("k1", k1, 100.0), _checked("b", b, 1.0)
        self._analyser = analyser
        self._terms = term_lister(analyser)
        super().__init__()

    @property
    def name(self) -> str:
        """Such as `bm25s:k1=0.9,b=0.4`, with the analyzer if it is not the default."""
        analyser = "" if self._analyser == "english" else f",analyser={self._analyser}"
        return f"bm25s:k1={self._k1!r},b={self._b!r}{analyser}"

    def describe(self) -> Mapping[str, Any]:
        """Return name, analyzer, parameters and the versions of both libraries."""
        return {
            "retriever": "bm25s",
            "analyser": ANALYSERS[self._analyser],
            "k1": self._k1,
            "b": self._b,
            "bm25s": version("bm25s"),
            "tantivy": version("tantivy"),
        }

    def _build(self, folder: Path, texts: Iterator[str]) -> None:
        """Write the index. Terms are numbered in order, so equal corpora give equal files."""
        numbers: dict[str, int] = {}
        rows = [array("i", (numbers.setdefault(term, len(numbers)) for term in self._terms(text))) for text in texts]
        if numbers:  # bm25s cannot store an index without terms
            import bm25s

            scorer = bm25s.BM25(k1=self._k1, b=self._b, method="lucene")
            tokenised = bm25s.tokenization.Tokenized(ids=rows, vocab=numbers)
            scorer.index(tokenised, create_empty_token=False, show_progress=False)
            scorer.save(str(folder), show_progress=False)

    def _opened(self, folder: Path, n_passages: int) -> Any:
        """Return the scorer in a folder; False for a corpus without terms, which matches nothing."""
        import bm25s

        has_terms = (folder / "params.index.json").is_file()
        return has_terms and bm25s.BM25.load(str(folder), mmap=True, show_progress=False)

    def _ranked(self, text: str, k: int) -> tuple[Ranked, ...]:
        numbers = self._index.get_tokens_ids(self._terms(text)) if self._index else []
        return _best(self._index.get_scores_from_ids(numbers), self._ids, k) if numbers else ()


def _best(scores: NDArray[np.float32], ids: Sequence[str], k: int) -> tuple[Ranked, ...]:
    """Return the best `k` passages with a nonzero score. The cut follows the rule for ties."""
    import numpy as np

    rows = np.flatnonzero(scores)
    if len(rows) > k:
        cut = np.partition(scores[rows], len(rows) - k)[len(rows) - k]
        rows = rows[scores[rows] >= cut]
    return in_rank_order(Ranked(ids[row], float(scores[row])) for row in rows.tolist())[:k]


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


# BM25 in rank_bm25, plain Python for small corpora. Its `BM25Okapi` is Robertson's formula without Lucene's 1 + in the
# idf: a term in more than half of the passages gets `epsilon` times the mean idf, so in a tiny corpus scores can be
# negative. Every search reads every passage once per query term, and the counted terms of all passages are in memory.

_OKAPI = {"k1": 1.5, "b": 0.75, "epsilon": 0.25}
"""Defaults of the library."""


class RankBm25Retriever(LexicalRetriever):
    """BM25Okapi over one corpus, with the library's defaults; scores are rounded to 32-bit floats."""

    _folder = "rank_bm25"

    def __init__(self, analyser: str = "standard") -> None:
        with importing("rank-bm25", "retrieval", "the retriever rank_bm25"):
            from rank_bm25 import BM25Okapi
        self._scorer_class = BM25Okapi
        self._analyser = analyser
        self._terms = term_lister(analyser)
        super().__init__()

    @property
    def name(self) -> str:
        """`rank_bm25`, with the analyzer if it is not the default."""
        return "rank_bm25" if self._analyser == "standard" else f"rank_bm25:analyser={self._analyser}"

    def describe(self) -> Mapping[str, Any]:
        """Return name, analyzer, parameters and the versions of both libraries."""
        return {
            "retriever": "rank_bm25",
            "analyser": ANALYSERS[self._analyser],
            **_OKAPI,
            "rank-bm25": version("rank-bm25"),
            "tantivy": version("tantivy"),
        }

    def _build(self, folder: Path, texts: Iterator[str]) -> None:
        """Write the terms of each passage; the library itself stores nothing."""
        with (folder / _TERMS).open("wb") as file:
            file.writelines(orjson.dumps(self._terms(text), option=orjson.OPT_APPEND_NEWLINE) for text in texts)

    def _opened(self, folder: Path, n_passages: int) -> Any:
        """Return the scorer of the stored terms; False for a corpus without terms, which matches nothing."""
        try:
            with (folder / _TERMS).open("rb") as lines:
                rows = [list(map(sys.intern, orjson.loads(line))) for line in lines]  # equal terms share memory
        except (OSError, ValueError):
            return None
        if len(rows) != n_passages:
            return None
        return any(rows) and self._scorer_class(rows, **_OKAPI)

    def _ranked(self, text: str, k: int) -> tuple[Ranked, ...]:
        scores = self._index.get_scores(self._terms(text)).astype("float32") if self._index else None
        return () if scores is None else _best(scores, self._ids, k)


# Analyzers of lexical retrievers by language, and the indexed text of a passage. All run in tantivy, so that an index,
# a query and every other lexical retriever use the same terms. `standard` is closest to the Elasticsearch defaults
# behind the MTRAG paper's BM25; `english` has higher recall (see `bm25`).

_STOPPED = (
    *("danish", "dutch", "finnish", "french", "german", "hungarian"),
    *("italian", "norwegian", "portuguese", "russian", "spanish", "swedish"),
)
_STEMMED = ("arabic", "greek", "romanian", "tamil", "turkish")  # tantivy has no stop words for these
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
"""Name -> description of its terms. The wording is part of every run's key."""

_UNSPACED = {"chinese": "cjk", "japanese": "cjk", "korean": "cjk"}
"""Language written without word boundaries -> its analyzer."""

_LONGEST_TERM = 255
"""Maximum bytes of a word; longer words are dropped. Lucene splits them at this length instead."""


def text_analyser(name: str) -> tantivy.TextAnalyzer:
    """Return a new tantivy analyzer by its name in `ANALYSERS`."""
    if name not in ANALYSERS:
        raise ConfigurationError(f"unknown analyser {name!r}: {close_matches(str(name), ANALYSERS)}")
    with importing("tantivy", "retrieval", "lexical retrieval"):
        from tantivy import Filter, TextAnalyzerBuilder, Tokenizer
    # tantivy's filter already drops a length of n.
    words = Tokenizer.regex(rf"[{_CJK}]|[\p{{L}}\p{{N}}--[{_CJK}]]+") if name == "cjk" else Tokenizer.simple()
    builder = TextAnalyzerBuilder(words).filter(Filter.remove_long(_LONGEST_TERM + 1)).filter(Filter.lowercase())
    if name == "english" or name in _STOPPED:
        builder = builder.filter(Filter.stopword(name))
    if name not in {"standard", "cjk"}:
        builder = builder.filter(Filter.stemmer(name))
    return builder.build()


def term_lister(name: str) -> Callable[[str], list[str]]:
    """Return a function: text -> its terms in order, with repetitions; [] for a text without words."""
    analyser = text_analyser(name)
    return lambda text: analyser.analyze(encodable(text))


def encodable(text: str) -> str:
    """Return the text with unpaired surrogates, which UTF-8 cannot encode, replaced by question marks."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-8", "replace").decode()
    return text


def indexed_text(passage: Passage) -> str:
    """Return the indexed text of a passage: its text, preceded by its title if the text does not start with it.

    MTRAG's passages already start with their title. BEIR stores it separately, and by convention it is searched too.
    """
    title = passage.title.strip()
    if not title or passage.text.lstrip().startswith(title):
        return encodable(passage.text)
    return encodable(f"{title}\n{passage.text}")


@contextmanager
def built_whole(folder: Path) -> Iterator[Path]:
    """Yield an empty folder for a build. If the block succeeds, the folder is renamed to `folder`.

    A killed build leaves `<folder>.part`, which the next build empties. The caller must prevent concurrent builds.
    """
    part = folder.with_name(f"{folder.name}.part")
    try:
        shutil.rmtree(part, ignore_errors=True)
        part.mkdir(parents=True)
        yield part
        shutil.rmtree(folder, ignore_errors=True)
        os.replace(part, folder)  # noqa: PTH105 (Path.replace is equivalent, but suggests a file)
    except OSError as error:
        shutil.rmtree(part, ignore_errors=True)
        raise unwritable(folder, error) from error


def unwritable(folder: Path, error: Exception) -> CacheError:
    """Return the error for a disk that cannot be written."""
    return CacheError(
        "index",
        where=str(folder),
        expected="room and permission to write",
        found=str(error),
        next_step="free some space and call again; the index is rebuilt",
    )


def _read_ids(folder: Path, built_as: Mapping[str, Any]) -> list[str] | None:
    """Return the passage id of every row; None without a complete index of these parameters."""
    try:
        content = orjson.loads((folder / _IDS).read_bytes())
        return list(content["ids"]) if content["built_as"] == built_as else None
    except (OSError, ValueError, KeyError, TypeError):
        return None

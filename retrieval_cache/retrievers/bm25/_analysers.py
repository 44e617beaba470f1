"""How lexical retrievers turn text into terms: two analysers, and what of a passage is indexed.

Both run in tantivy, so that an index, a query and every other lexical retriever see the same terms. `standard` is the
nearest to the Elasticsearch defaults behind the MTRAG paper's BM25; `english` finds more (see `bm25`).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from ragtasks.errors import ConfigurationError, MissingExtraError, close_matches
from ragtasks.records import Passage

if TYPE_CHECKING:
    import tantivy

ANALYSERS = {
    "english": "words of letters and digits, lower case, without 33 English stop words, Snowball English stems",
    "standard": "words of letters and digits, lower case",
}
"""Name -> what it makes of a text; the wording is part of every run's key."""

_LONGEST_TERM = 255
"""Bytes; longer words are dropped. Lucene cuts them in pieces of this length instead."""


def text_analyser(name: str) -> tantivy.TextAnalyzer:
    """Return a new tantivy analyser by its name in `ANALYSERS`.

    Raises:
        ConfigurationError: unknown name.
        MissingExtraError: tantivy is not installed.
    """
    if name not in ANALYSERS:
        raise ConfigurationError(f"unknown analyser {name!r}: {close_matches(name, ANALYSERS)}")
    try:
        from tantivy import Filter, TextAnalyzerBuilder, Tokenizer
    except ImportError as error:
        raise MissingExtraError("tantivy", "retrieval", "lexical retrieval") from error
    # A length of n is already too long for tantivy's filter.
    builder = TextAnalyzerBuilder(Tokenizer.simple()).filter(Filter.remove_long(_LONGEST_TERM + 1))
    builder = builder.filter(Filter.lowercase())
    if name == "english":
        builder = builder.filter(Filter.stopword("english")).filter(Filter.stemmer("english"))
    return builder.build()


def term_lister(name: str) -> Callable[[str], list[str]]:
    """Return a function: text -> its terms in order, repeated ones repeated, none for a text without words.

    Raises:
        ConfigurationError, MissingExtraError: as `text_analyser`.
    """
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


__all__ = ["ANALYSERS", "encodable", "indexed_text", "term_lister", "text_analyser"]

"""MultiHop-RAG's articles cut into chunks of at most 256 tokens, each with title, source and date before its text.

A chunk is as many whole sentences as fit; a longer sentence is cut between tokens. Tokens are words and single
punctuation marks. Known differences from the official pipeline (LlamaIndex's splitter at its defaults): it counts word
pieces, takes the metadata out of the 256, and lets neighbours overlap, which multiplies the chunks and lets one
sentence fill several ranks. So retrieval scores on these chunks are near the paper's, not equal to them.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Any

from ragtasks.benchmarks.multihop_rag._rows import Article

CHUNK_TOKENS = 256
"""Most tokens in a chunk (paper, section 4.1)."""
RULE = 1
"""Raised when the same articles would be cut otherwise."""

_TOKEN = re.compile(r"\w{1,16}|[^\w\s]")
_SENTENCE_END = re.compile(r"[.!?][\"'\u2019\u201d)\]]*\s+|\s*\n\s*")


def chunk_rows(articles: Sequence[Article]) -> Iterator[dict[str, Any]]:
    """Yield the chunks of all articles as corpus rows, in order; ids hold the article's number and the offsets."""
    for article in articles:
        for start, end in spans(article.body):
            yield {
                "_id": f"{article.article_id}-{start}-{end}",
                "title": article.title,
                "text": with_header(article.title, article.source, article.published_at, article.body[start:end]),
                "url": article.url,
            }


def with_header(title: str, source: str, published_at: str, text: str) -> str:
    """Return a text below the lines that say where and when it was published."""
    return f"{title}\nSource: {source}\nPublished: {published_at}\n\n{text}"


def spans(text: str, size: int = CHUNK_TOKENS) -> Iterator[tuple[int, int]]:
    """Yield where chunks start and end (character offsets, the end excluded): in order, apart, without outer blanks.

    Args:
        text: an article.
        size: most tokens in a chunk.
    """
    start, end, n_tokens = 0, 0, 0
    for left, right, count in _pieces(text, size):
        if n_tokens and n_tokens + count > size:
            yield start, end
            n_tokens = 0
        if not n_tokens:
            start = left
        end, n_tokens = right, n_tokens + count
    if n_tokens:
        yield start, end


def _pieces(text: str, size: int) -> Iterator[tuple[int, int, int]]:
    """Yield (start, end, tokens) of each sentence, of each part of one that is longer than a chunk."""
    for left, right in _sentences(text):
        tokens = [match.span() for match in _TOKEN.finditer(text, left, right)]
        for first in range(0, len(tokens), size):
            part = tokens[first : first + size]
            yield part[0][0], part[-1][1], len(part)


def _sentences(text: str) -> Iterator[tuple[int, int]]:
    start = 0
    for match in _SENTENCE_END.finditer(text):
        yield start, match.end()
        start = match.end()
    yield start, len(text)


__all__ = ["CHUNK_TOKENS", "RULE", "chunk_rows", "spans", "with_header"]

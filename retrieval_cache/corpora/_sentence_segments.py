"""Documents cut into windows of sentences, in the records of MS MARCO V2.1's segmented corpus (10 sentences, every 5).

A record has `docid`, `url`, `title`, `headings`, `segment`, and `start_char` and `end_char`, which are offsets into the
document's text, so that the segment is exactly what stands there. Its id is `<document>#<n>_<offset>`: number of the
segment from 0, and byte offset of its line in the file. Where sentences end is our own rule (the track's splitter is
not published): line ends alone end none.

Source: TREC RAG 2024, guidelines and files.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import orjson

from ragtasks.errors import ConfigurationError
from ragtasks.metrics import sentence_ends
from ragtasks.records import Passage

SENTENCES = 10
STRIDE = 5


def segment_lines(
    documents: Iterable[tuple[Passage, Mapping[str, Any]]], size: int = SENTENCES, stride: int = STRIDE
) -> Iterator[bytes]:
    """Yield the lines of a file of segments; a document of white space only has none.

    Args:
        documents: each with the row that it was read from, for its headings.
        size: most sentences in a segment; all but a document's last have exactly so many.
        stride: sentences from the start of one to that of the next, 1 to `size`.

    Raises:
        ConfigurationError: sizes that do not fit each other.
    """
    if not 1 <= stride <= size:
        raise ConfigurationError(f"segmenting needs 1 <= stride <= sentences, found stride {stride}, sentences {size}")
    offset = 0
    for document, row in documents:
        for number, (start, end) in enumerate(sentence_windows(document.text, size, stride)):
            record = {
                "docid": f"{document.passage_id}#{number}_{offset}",
                "url": document.url,
                "title": document.title,
                "headings": str(row.get("headings") or ""),
                "segment": document.text[start:end],
                "start_char": start,
                "end_char": end,
            }
            line = orjson.dumps(record) + b"\n"
            offset += len(line)
            yield line


def sentence_windows(text: str, size: int, stride: int) -> Iterator[tuple[int, int]]:
    """Yield where segments of a text start and end, white space at their ends left out, see `segment_lines`."""
    sentences = list(sentence_spans(text))
    for first in range(0, len(sentences), stride):
        last = min(first + size, len(sentences))
        yield sentences[first][0], sentences[last - 1][1]
        if last == len(sentences):
            return


def sentence_spans(text: str) -> Iterator[tuple[int, int]]:
    """Yield where the sentences of a text start and end, white space at their ends left out."""
    starts = [0, *sentence_ends(text)]
    for start, end in zip(starts, [*starts[1:], len(text)], strict=True):
        piece = text[start:end]
        if piece.strip():
            yield start + len(piece) - len(piece.lstrip()), start + len(piece.rstrip())


__all__ = ["SENTENCES", "STRIDE", "segment_lines", "sentence_spans", "sentence_windows"]

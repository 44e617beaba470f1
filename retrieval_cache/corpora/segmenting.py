"""Documents cut into overlapping passages, as in the corpora of MTRAG (512 tokens, 100 of them shared; section 3).

A passage's id contains its position: `<document id>-<start>-<end>`, character offsets into the document, end exclusive.
Its text is the title, a line break, and the document from start to end, as in the official corpora.

A tokenizer is a function from a text to the spans of its tokens. Passages begin at a token and end where the next token
after them begins (white space stripped), so that characters ignored by a tokenizer are not lost.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import accumulate
from pathlib import Path
from typing import Any, TypeAlias

import orjson

from ragtasks.errors import ConfigurationError
from ragtasks.metrics import sentence_ends
from ragtasks.records import Passage
from ragtasks.requirements import importing

Span: TypeAlias = tuple[int, int]
"""Character offsets, end exclusive."""
Tokenizer: TypeAlias = Callable[[str], Sequence[Span]]
"""Text -> spans of its tokens, in order."""

_LONGEST_TOKEN = 16
_CJK = "\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uac00-\ud7af\uf900-\ufaff"
WORD = re.compile(rf"[{_CJK}]|[^\W{_CJK}]{{1,{_LONGEST_TOKEN}}}")
"""A word: letters, digits and underscores, at most 16; Chinese, Japanese and Korean characters count singly."""
_TOKEN = re.compile(rf"{WORD.pattern}|[^\w\s]")


def plain_tokenizer(text: str) -> list[Span]:
    """Return the spans of words (`WORD`) and punctuation marks. Fast, without a model or vocabulary.

    The corpora of MTRAG have 4 to 14 % fewer of these than word pieces (MiniLM's). Use an encoder's own tokenizer
    (`encoder_tokenizer`) if passages must fit its window.
    """
    return [match.span() for match in _TOKEN.finditer(text)]


def encoder_tokenizer(name: str) -> Tokenizer:
    """Return the tokenizer of an encoder, without special tokens and length limit."""
    with importing("tokenizers", "dense", "segmenting with an encoder's tokeniser"):
        from tokenizers import Tokenizer as Loaded
    path = Path(name)
    try:
        loaded = Loaded.from_file(str(path / "tokenizer.json" if path.is_dir() else path)) if path.exists() else None
        tokenizer = loaded or Loaded.from_pretrained(name)
    except Exception as error:  # the library raises nothing more specific
        raise ConfigurationError(
            "tokeniser", where=name, expected="a tokenizer.json", found=str(error), next_step="check name and network"
        ) from error
    # Files often contain the window of the trained model (MiniLM: 128), which would truncate documents.
    tokenizer.no_truncation()
    tokenizer.no_padding()

    def spans(text: str) -> Sequence[Span]:
        offsets: Sequence[Span] = tokenizer.encode(text, add_special_tokens=False).offsets
        return offsets

    return spans


def segment(
    document: Passage,
    size: int,
    overlap: int,
    tokenizer: Tokenizer = plain_tokenizer,
    *,
    title_in_text: bool = True,
) -> Iterator[Passage]:
    """Yield the passages of a document in order; a document of white space only has none."""
    if not 0 <= overlap < size:
        raise ConfigurationError(f"segmenting needs 0 <= overlap < size, found overlap {overlap}, size {size}")
    for start, end in _windows(document.text, tokenizer(document.text), size, size - overlap):
        text = document.text[start:end]
        yield Passage(
            f"{document.passage_id}-{start}-{end}",
            f"{document.title}\n{text}" if title_in_text else text,
            document.title,
            document.url,
        )


def _windows(text: str, tokens: Sequence[Span], size: int, stride: int) -> Iterator[Span]:
    """Yield the spans of passages: stripped, not empty, not repeated."""
    if not text.strip():
        return
    # Byte-level tokenizers may split a character into several tokens; a start that moves back would lose text.
    starts = list(accumulate((start for start, _ in tokens), max))
    edges = [0, *starts[1:], len(text)] if starts else [0, len(text)]
    n_tokens = len(edges) - 1
    previous: Span | None = None
    for first in range(0, n_tokens, stride):
        last = min(first + size, n_tokens)
        span = _stripped(text, edges[first], edges[last])
        if span is not None and span != previous:
            yield span
            previous = span
        if last == n_tokens:
            return


def _stripped(text: str, start: int, end: int) -> Span | None:
    """Return the span without outer white space; None if nothing remains."""
    part = text[start:end]
    left = start + len(part) - len(part.lstrip())
    right = start + len(part.rstrip())
    return (left, right) if left < right else None


# Documents cut into windows of sentences, in the records of MS MARCO V2.1's segmented corpus (10 sentences, every 5). A
# record has `docid`, `url`, `title`, `headings`, `segment`, and `start_char` and `end_char`, which are offsets into the
# document's text; the segment is exactly the text between them. Its id is `<document>#<n>_<offset>`: number of the
# segment from 0, and byte offset of its line in the file. The rule for sentence ends is our own (the track's splitter
# is not published): line breaks alone do not end a sentence. Source: TREC RAG 2024, guidelines and files.


def segment_lines(documents: Iterable[tuple[Passage, Mapping[str, Any]]], size: int, stride: int) -> Iterator[bytes]:
    """Yield the lines of a file of segments; a document of white space only has none."""
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
    """Yield the spans of a text's segments, without outer white space, see `segment_lines`."""
    sentences = list(sentence_spans(text))
    for first in range(0, len(sentences), stride):
        last = min(first + size, len(sentences))
        yield sentences[first][0], sentences[last - 1][1]
        if last == len(sentences):
            return


def sentence_spans(text: str) -> Iterator[tuple[int, int]]:
    """Yield the spans of a text's sentences, without outer white space."""
    starts = [0, *sentence_ends(text)]
    for start, end in zip(starts, [*starts[1:], len(text)], strict=True):
        if span := _stripped(text, start, end):
            yield span

"""MultiHop-RAG's files read into records: articles and queries, each file checked whole, every error at once.

Both files are one JSON array, so an error is named by the item's number, from 1. Neither has ids: an article's and a
query's id is its number, which the checksums of the official files keep fixed. Only what scoring rests on is checked:
who wrote an article, and its address, may be missing.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Any

from pydantic import TypeAdapter

from ragtasks.errors import BenchmarkFileError, clear_error
from ragtasks.files import Problems, broken_statistics, json_array, sample_statistics

QUERY_FILE = "dataset/MultiHopRAG.json"
CORPUS_FILE = "dataset/corpus.json"
NULL = "null_query"
"""The type of the queries that nothing in the corpus answers."""
QUESTION_TYPES = ("inference_query", "comparison_query", "temporal_query", NULL)

_NEXT_STEP = "delete the file and run `ragtasks data fetch multihop_rag`"
_ARTICLE_KEYS = ("title", "source", "published_at", "category", "body")
_EVIDENCE_KEYS = ("fact", "title", "source", "published_at")


@dataclass(frozen=True, slots=True, kw_only=True)
class Counts:
    """How many records a complete copy has; loading fails where a file differs."""

    articles: int
    """Articles of the corpus."""
    by_type: Mapping[str, int]
    """Queries of each type."""


@dataclass(frozen=True, slots=True)
class Article:
    """One news article."""

    article_id: str
    """`article-` and its number in the file, from 1."""
    title: str
    """Headline."""
    source: str
    """Who published it."""
    published_at: str
    """When, in ISO 8601, as in the file."""
    category: str
    """Such as `technology`."""
    body: str
    """The text."""
    url: str = ""
    """Address; empty where the file has none."""


@dataclass(frozen=True, slots=True)
class Query:
    """One question with what its answer rests on."""

    number: int
    """Place in the file, from 1."""
    query: str
    """The question."""
    answer: str
    """`Yes`, `No`, `before`, an entity, or that information is insufficient."""
    question_type: str
    evidence: tuple[dict[str, str], ...] = field(hash=False)
    """Pieces of evidence with the keys fact, title, source, published_at; none for a null query."""


def edition_of(root: Path, commit: str, counts: Counts) -> tuple[bool, str, Counts]:
    """Return (is sample, revision, counts) of the copy under `root`; only a sample brings its own statistics."""
    statistics = sample_statistics(root)
    if statistics is None:
        return False, commit, counts
    try:
        Counts(**statistics["counts"])  # refuses what it does not know, as the next line does other types
        return True, statistics["version"], TypeAdapter(Counts).validate_python(statistics["counts"])
    except (LookupError, TypeError, ValueError) as error:
        raise broken_statistics(root, "version, counts", error) from error


def read_articles(root: Path, counts: Counts) -> tuple[Article, ...]:
    """Return the articles of the corpus, in the order of the file."""
    problems = problems_of(root / CORPUS_FILE, "MultiHop-RAG corpus")
    articles: list[Article] = []
    for number, row in items_of(problems):
        before = len(problems)
        texts = _texts(row, _ARTICLE_KEYS, problems, number)
        _check_date(texts.get("published_at"), problems, number)
        url = row.get("url")
        if len(problems) == before:
            article_id = f"article-{number:03d}"
            articles.append(Article(article_id=article_id, **texts, url=url if isinstance(url, str) else ""))
    if not len(problems) and len(articles) != counts.articles:
        problems.add(0, f"{counts.articles} articles", len(articles))
    problems.raise_if_any()
    return tuple(articles)


def read_queries(root: Path, counts: Counts) -> tuple[Query, ...]:
    """Return the queries, in the order of the file."""
    problems = problems_of(root / QUERY_FILE, "MultiHop-RAG queries")
    queries: list[Query] = []
    for number, row in items_of(problems):
        before = len(problems)
        texts = _texts(row, ("query", "answer", "question_type"), problems, number)
        question_type = texts.get("question_type")
        if question_type and question_type not in QUESTION_TYPES:
            problems.add(0, f"`question_type` as one of {', '.join(QUESTION_TYPES)}", question_type, f"item {number}")
        evidence = _evidence(row, question_type == NULL, problems, number)
        if len(problems) == before:
            queries.append(Query(number, **texts, evidence=evidence))
    by_type = dict(Counter(query.question_type for query in queries))
    if not len(problems) and by_type != dict(counts.by_type):
        problems.add(0, f"queries by type {dict(counts.by_type)}", by_type)
    problems.raise_if_any()
    return tuple(queries)


def problems_of(path: Path, what: str) -> Problems:
    """Return the errors of a file that is there."""
    if path.is_file():
        return Problems(path, what, _NEXT_STEP)
    message = clear_error(
        "MultiHop-RAG data",
        where=str(path),
        expected="the official file",
        found="no file",
        next_step="run `ragtasks data fetch multihop_rag`, or name another folder with RAGTASKS_DATA or "
        "--metadata '{\"data\": ...}'",
    )
    raise BenchmarkFileError(message)


def items_of(problems: Problems) -> list[tuple[int, dict[str, Any]]]:
    """Return (number from 1, object) of a file that is one JSON array; items that are no objects are noted."""
    numbered = list(enumerate(json_array(problems), start=1))
    for number, row in numbered:
        if not isinstance(row, dict):
            problems.add(0, "an object", row, f"item {number}")
    return [(number, row) for number, row in numbered if isinstance(row, dict)]


def _texts(
    row: Mapping[str, Any], keys: Sequence[str], problems: Problems, number: int, where: str = ""
) -> dict[str, str]:
    """Return the named fields that are texts with something in them, after noting the others."""
    found = {key: value for key in keys if isinstance(value := row.get(key), str) and value.strip()}
    for key in keys:
        if key not in found:
            problems.add(0, f"`{where}{key}` with a text", row.get(key), f"item {number}")
    return found


def _check_date(text: str | None, problems: Problems, number: int, where: str = "") -> None:
    if text is None:
        return
    try:
        # Python 3.10 does not read the Z that 3.11 does.
        datetime.fromisoformat(text.replace("Z", "+00:00"))
    except ValueError:
        problems.add(0, f"`{where}published_at` as ISO 8601", text, f"item {number}")


def _evidence(row: Mapping[str, Any], is_null: bool, problems: Problems, number: int) -> tuple[dict[str, str], ...]:
    raw = row.get("evidence_list")
    if not isinstance(raw, list) or is_null == bool(raw):
        expected = "`evidence_list` empty for a null query" if is_null else "`evidence_list` with some evidence"
        problems.add(0, expected, raw, f"item {number}")
        return ()
    pieces = []
    for index, item in enumerate(raw):
        where = f"evidence_list[{index}]."
        piece = _texts(item if isinstance(item, dict) else {}, _EVIDENCE_KEYS, problems, number, where)
        _check_date(piece.get("published_at"), problems, number, where)
        pieces.append(piece)
    return tuple(pieces)


# MultiHop-RAG's articles cut into chunks of at most 256 tokens, each with title, source and date before its text.
# A chunk is as many whole sentences as fit; a longer sentence is cut between tokens. Tokens are words and single
# punctuation marks. Known differences from the official pipeline (LlamaIndex's splitter at its defaults): it counts
# word pieces, takes the metadata out of the 256, and lets neighbours overlap, which multiplies the chunks and lets
# one sentence fill several ranks. So retrieval scores on these chunks are near the paper's, not equal to them.

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
    """Yield where chunks start and end (character offsets, the end excluded): in order, apart, without outer blanks."""
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


# Which passages hold a fact: the rule that MultiHop-RAG calls a passage relevant by, and a fast search with it.
# A passage holds a fact if the fact's text, without blanks and line ends, stands in the passage's text, without
# blanks and line ends, letter for letter. Other white space (a tab, a no-break space) counts as a sign, as in the
# official script (yixuantt/MultiHop-RAG, retrieval_evaluate.py, commit 3dd4d4e).

_KEY_LENGTH = 12
_REMOVED = str.maketrans("", "", " \n")


def compact(text: str) -> str:
    """Return a text without blanks and line ends, the form in which texts are compared."""
    return text.translate(_REMOVED)


def holds(passage: str, fact: str) -> bool:
    """Return whether a passage's text holds a fact. An empty fact is in every passage, as officially."""
    return compact(fact) in compact(passage)


def facts_by_passage(passages: Iterable[tuple[str, str]], facts: Sequence[str]) -> Iterator[tuple[str, list[int]]]:
    """Yield (passage id, places of the facts that it holds, ascending), for passages that hold one.

    One pass: every place of a passage is looked up in a table of the facts' first signs, so that the time does not
    grow with passages times facts.
    """
    by_start, short = _table(facts)
    for passage_id, text in passages:
        compacted = compact(text)
        found = {place for fact, places in short.items() if fact in compacted for place in places}
        for start in range(len(compacted) - _KEY_LENGTH + 1):
            key = compacted[start : start + _KEY_LENGTH]
            if key in by_start:
                found.update(
                    place
                    for fact, places in by_start[key].items()
                    if compacted.startswith(fact, start)
                    for place in places
                )
        if found:
            yield passage_id, sorted(found)


def _table(facts: Sequence[str]) -> tuple[Mapping[str, Mapping[str, list[int]]], Mapping[str, list[int]]]:
    """Return (first signs -> fact -> its places), and the facts that are too short for that."""
    by_start: dict[str, dict[str, list[int]]] = {}
    short: dict[str, list[int]] = {}
    for place, fact in enumerate(facts):
        text = compact(fact)
        group = short if len(text) < _KEY_LENGTH else by_start.setdefault(text[:_KEY_LENGTH], {})
        group.setdefault(text, []).append(place)
    return by_start, short

"""MultiHop-RAG's files read into records: articles and queries, each file checked whole, every error at once.

Both files are one JSON array, so an error is named by the item's number, from 1. Neither has ids: an article's and a
query's id is its number, which the checksums of the official files keep fixed. Only what scoring rests on is checked:
who wrote an article, and its address, may be missing.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Any

from pydantic import TypeAdapter

from ragtasks.errors import BenchmarkFileError, clear_error
from ragtasks.files import Violations, broken_statistics, json_array, sample_statistics

QUERY_FILE = "dataset/MultiHopRAG.json"
CORPUS_FILE = "dataset/corpus.json"
NULL = "null_query"
"""The type of the queries that nothing in the corpus answers."""
QUESTION_TYPES = ("inference_query", "comparison_query", "temporal_query", NULL)

_NEXT_STEP = "delete the file and run `ragtasks fetch multihop_rag`"
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
    """One of `QUESTION_TYPES`."""
    evidence: tuple[dict[str, str], ...] = field(hash=False)
    """Pieces of evidence with the keys fact, title, source, published_at; none for a null query."""


def edition_of(root: Path, commit: str, counts: Counts) -> tuple[bool, str, Counts]:
    """Return (is sample, revision, counts) of the copy under `root`; only a sample brings its own statistics.

    Raises:
        BenchmarkFileError: the statistics of a sample are broken.
    """
    statistics = sample_statistics(root)
    if statistics is None:
        return False, commit, counts
    try:
        Counts(**statistics["counts"])  # refuses what it does not know, as the next line does other types
        return True, statistics["version"], TypeAdapter(Counts).validate_python(statistics["counts"])
    except (LookupError, TypeError, ValueError) as error:
        raise broken_statistics(root, "version, counts", error) from error


def read_articles(root: Path, counts: Counts) -> tuple[Article, ...]:
    """Return the articles of the corpus, in the order of the file.

    Raises:
        BenchmarkFileError: the file is missing, broken (such as an article without a date), or has another number of
            articles than `counts`.
    """
    violations = violations_of(root / CORPUS_FILE, "MultiHop-RAG corpus")
    articles: list[Article] = []
    for number, row in items_of(violations):
        before = len(violations)
        texts = _texts(row, _ARTICLE_KEYS, violations, number)
        _check_date(texts.get("published_at"), violations, number)
        url = row.get("url")
        if len(violations) == before:
            article_id = f"article-{number:03d}"
            articles.append(Article(article_id=article_id, **texts, url=url if isinstance(url, str) else ""))
    if not len(violations) and len(articles) != counts.articles:
        violations.add(0, f"{counts.articles} articles", len(articles))
    violations.raise_if_any()
    return tuple(articles)


def read_queries(root: Path, counts: Counts) -> tuple[Query, ...]:
    """Return the queries, in the order of the file.

    Raises:
        BenchmarkFileError: the file is missing, broken (such as a null query with evidence, or another one without),
            or has other numbers of queries than `counts`.
    """
    violations = violations_of(root / QUERY_FILE, "MultiHop-RAG queries")
    queries: list[Query] = []
    for number, row in items_of(violations):
        before = len(violations)
        texts = _texts(row, ("query", "answer", "question_type"), violations, number)
        question_type = texts.get("question_type")
        if question_type and question_type not in QUESTION_TYPES:
            violations.add(0, f"`question_type` as one of {', '.join(QUESTION_TYPES)}", question_type, f"item {number}")
        evidence = _evidence(row, question_type == NULL, violations, number)
        if len(violations) == before:
            queries.append(Query(number, **texts, evidence=evidence))
    by_type = dict(Counter(query.question_type for query in queries))
    if not len(violations) and by_type != dict(counts.by_type):
        violations.add(0, f"queries by type {dict(counts.by_type)}", by_type)
    violations.raise_if_any()
    return tuple(queries)


def violations_of(path: Path, what: str) -> Violations:
    """Return the errors of a file that is there.

    Raises:
        BenchmarkFileError: it is not.
    """
    if path.is_file():
        return Violations(path, what, _NEXT_STEP)
    message = clear_error(
        "MultiHop-RAG data",
        where=str(path),
        expected="the official file",
        found="no file",
        next_step="run `ragtasks fetch multihop_rag`, or name another folder with RAGTASKS_DATA or "
        "--metadata '{\"data\": ...}'",
    )
    raise BenchmarkFileError(message)


def items_of(violations: Violations) -> list[tuple[int, dict[str, Any]]]:
    """Return (number from 1, object) of a file that is one JSON array; items that are no objects are noted.

    Raises:
        BenchmarkFileError: it is no such file.
    """
    numbered = list(enumerate(json_array(violations), start=1))
    for number, row in numbered:
        if not isinstance(row, dict):
            violations.add(0, "an object", row, f"item {number}")
    return [(number, row) for number, row in numbered if isinstance(row, dict)]


def _texts(
    row: Mapping[str, Any], keys: Sequence[str], violations: Violations, number: int, where: str = ""
) -> dict[str, str]:
    """Return the named fields that are texts with something in them, after noting the others."""
    found = {key: value for key in keys if isinstance(value := row.get(key), str) and value.strip()}
    for key in keys:
        if key not in found:
            violations.add(0, f"`{where}{key}` with a text", row.get(key), f"item {number}")
    return found


def _check_date(text: str | None, violations: Violations, number: int, where: str = "") -> None:
    if text is None:
        return
    try:
        # Python 3.10 does not read the Z that 3.11 does.
        datetime.fromisoformat(text.replace("Z", "+00:00"))
    except ValueError:
        violations.add(0, f"`{where}published_at` as ISO 8601", text, f"item {number}")


def _evidence(row: Mapping[str, Any], is_null: bool, violations: Violations, number: int) -> tuple[dict[str, str], ...]:
    raw = row.get("evidence_list")
    if not isinstance(raw, list) or is_null == bool(raw):
        expected = "`evidence_list` empty for a null query" if is_null else "`evidence_list` with some evidence"
        violations.add(0, expected, raw, f"item {number}")
        return ()
    pieces = []
    for index, item in enumerate(raw):
        where = f"evidence_list[{index}]."
        piece = _texts(item if isinstance(item, dict) else {}, _EVIDENCE_KEYS, violations, number, where)
        _check_date(piece.get("published_at"), violations, number, where)
        pieces.append(piece)
    return tuple(pieces)


__all__ = [
    "CORPUS_FILE",
    "NULL",
    "QUERY_FILE",
    "QUESTION_TYPES",
    "Article",
    "Counts",
    "Query",
    "edition_of",
    "items_of",
    "read_articles",
    "read_queries",
    "violations_of",
]

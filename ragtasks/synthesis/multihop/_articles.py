"""Articles: one's own, in MultiHop-RAG's `corpus.json`, or documents of a folder with what can be known of them."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

from ragtasks.clients import Progress, no_progress
from ragtasks.errors import BenchmarkFileError, clear_error
from ragtasks.files import Violations, json_array
from ragtasks.synthesis.documents import LeftOut, read_documents

_KEYS = ("title", "source", "published_at", "category", "body")


@dataclass(frozen=True, slots=True)
class Article:
    """One article, as in MultiHop-RAG's corpus."""

    title: str
    """Headline."""
    author: str
    """Who wrote it; may be empty."""
    source: str
    """Who published it."""
    published_at: str
    """When, in ISO 8601."""
    category: str
    """Such as `technology`."""
    url: str
    """Where it stands; each article's own."""
    body: str
    """What it says."""

    def row(self) -> dict[str, str]:
        """Return the article as a row of `corpus.json`."""
        return asdict(self)


def read_articles(location: Path, progress: Progress = no_progress) -> tuple[list[Article], list[LeftOut]]:
    """Return articles and what could not be read.

    Args:
        location: a file in the format of MultiHop-RAG's `corpus.json`; or a folder of documents, where the folder that
            a document stands in is its source and category, and the time of its file when it was published.
        progress: told of every file.

    Raises:
        BenchmarkFileError: a corpus that breaks the format; every error is named.
        ConfigurationError: a folder without documents.
    """
    if location.is_file():
        return _of_corpus(location), []
    found = read_documents(location, folders_are_domains=True, progress=progress)
    articles = []
    for document in found.documents:
        changed = _changed(location, document.document_id)
        articles.append(
            Article(document.title, "", document.domain, changed, document.domain, document.document_id, document.text)
        )
    return articles, list(found.left_out)


def _changed(root: Path, name: str) -> str:
    """Return when a document's file was changed; of one whose name had white space, when its folder was."""
    path = root / name
    stamp = (path if path.exists() else root).stat().st_mtime
    return datetime.fromtimestamp(stamp, timezone.utc).isoformat(timespec="seconds")


def _of_corpus(path: Path) -> list[Article]:
    violations = Violations(path, "articles", "write each as MultiHop-RAG's corpus.json has it")
    articles: dict[str, Article] = {}
    for number, row in enumerate(json_array(violations), start=1):
        texts = _texts(row)
        if texts is None:
            violations.add(0, f"an object with the texts {', '.join(_KEYS)}", row, f"item {number}")
            continue
        url = row.get("url") if isinstance(row.get("url"), str) and row["url"] else f"article-{number}"
        author = row.get("author") if isinstance(row.get("author"), str) else ""
        if url in articles:
            violations.add(0, "each url once", url, f"item {number}")
        articles[url] = Article(author=author, url=url, **texts)
    violations.raise_if_any()
    if not articles:
        message = clear_error(
            "articles", where=str(path), expected="at least two articles", found="none", next_step="name another file"
        )
        raise BenchmarkFileError(message)
    return list(articles.values())


def _texts(row: Any) -> dict[str, str] | None:
    found = {key: row.get(key) for key in _KEYS} if isinstance(row, dict) else {}
    if not found or not all(isinstance(value, str) and value.strip() for value in found.values()):
        return None
    try:
        datetime.fromisoformat(str(found["published_at"]).replace("Z", "+00:00"))
    except ValueError:
        return None
    return {key: str(value) for key, value in found.items()}


__all__ = ["Article", "read_articles"]

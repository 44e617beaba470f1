"""Articles: the user's own, in MultiHop-RAG's `corpus.json`, or the documents of a folder with their known fields."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

from ragtasks.errors import BenchmarkFileError
from ragtasks.files import Problems, json_array
from ragtasks.progress import Progress, no_progress
from ragtasks.synthesis.documents import LeftOut, read_documents

_KEYS = ("title", "source", "published_at", "category", "body")


@dataclass(frozen=True, slots=True)
class SourceArticle:
    """One article, as in MultiHop-RAG's corpus."""

    title: str
    author: str
    source: str
    published_at: str
    category: str
    url: str
    """Where it stands; each article's own."""
    body: str

    def row(self) -> dict[str, str]:
        """Return the article as a row of `corpus.json`."""
        return asdict(self)


def read_articles(location: Path, progress: Progress = no_progress) -> tuple[list[SourceArticle], list[LeftOut]]:
    """Return articles and what could not be read."""
    if location.is_file():
        return _of_corpus(location), []
    found = read_documents(location, folders_are_domains=True, progress=progress)
    articles = []
    for document in found.documents:
        path = location / document.document_id
        stamp = (path if path.exists() else location).stat().st_mtime
        changed = datetime.fromtimestamp(stamp, timezone.utc).isoformat(timespec="seconds")
        articles.append(
            SourceArticle(
                document.title, "", document.domain, changed, document.domain, document.document_id, document.text
            )
        )
    return articles, list(found.left_out)


def _of_corpus(path: Path) -> list[SourceArticle]:
    problems = Problems(path, "articles", "write each as MultiHop-RAG's corpus.json has it")
    articles: dict[str, SourceArticle] = {}
    for number, row in enumerate(json_array(problems), start=1):
        texts = _texts(row)
        if texts is None:
            problems.add(0, f"an object with the texts {', '.join(_KEYS)}", row, f"item {number}")
            continue
        url = row.get("url") if isinstance(row.get("url"), str) and row["url"] else f"article-{number}"
        author = row.get("author") if isinstance(row.get("author"), str) else ""
        if url in articles:
            problems.add(0, "each url once", url, f"item {number}")
        articles[url] = SourceArticle(author=author, url=url, **texts)
    problems.raise_if_any()
    if not articles:
        raise BenchmarkFileError(
            "articles", where=str(path), expected="at least two articles", found="none", next_step="name another file"
        )
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

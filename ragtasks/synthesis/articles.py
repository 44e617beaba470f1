"""Articles: the user's own, in MultiHop-RAG's `corpus.json`, or the documents of a folder with their known fields."""

from __future__ import annotations

from datetime import datetime, timezone
from pathlib import Path

from ragtasks.benchmarks import once, typed_items
from ragtasks.benchmarks.multihop_rag import Article
from ragtasks.files import Problems
from ragtasks.progress import Progress, no_progress
from ragtasks.synthesis.documents import LeftOut, read_documents


def read_articles(location: Path, progress: Progress = no_progress) -> tuple[list[Article], list[LeftOut]]:
    """Return articles, each with a URL of its own, and what could not be read."""
    if location.is_file():
        problems = Problems(location, "articles", "write each as MultiHop-RAG's corpus.json has it")
        named = [(row.url or f"article-{number}", row) for number, row in typed_items(problems, Article)]
        found_rows = once(problems, ((0, url, row) for url, row in named), "url")
        if not named and not len(problems):
            problems.add(0, "at least two articles", "none")
        problems.raise_if_any()
        return [row.model_copy(update={"url": url}) for url, row in found_rows.items()], []
    found = read_documents(location, folders_are_domains=True, progress=progress)
    articles = []
    for document in found.documents:
        path = location / document.document_id
        stamp = (path if path.exists() else location).stat().st_mtime
        articles.append(
            Article(
                title=document.title,
                source=document.domain,
                published_at=datetime.fromtimestamp(stamp, timezone.utc).isoformat(timespec="seconds"),
                category=document.domain,
                url=document.document_id,
                body=document.text,
            )
        )
    return articles, list(found.left_out)

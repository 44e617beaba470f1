"""Questions over several articles: from articles to MultiHop-RAG's two files, so that its harness tasks run on them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

import orjson

from ragtasks.benchmarks import once, typed_items
from ragtasks.benchmarks.multihop_rag import Article
from ragtasks.clients import Client, Price
from ragtasks.errors import ConfigurationError
from ragtasks.files import SAMPLE_STATISTICS, Problems, canonical_hash
from ragtasks.progress import Progress, no_progress
from ragtasks.synthesis.asking import Asker
from ragtasks.synthesis.documents import LeftOut, read_documents
from ragtasks.synthesis.evidence import find_bridges, find_claims
from ragtasks.synthesis.folder import SynthesisReport, make_once, outcome_lines, prompt_hashes, publish_folder
from ragtasks.synthesis.multihop_questions import MultihopQuery, write_null_queries, write_queries

_VERSION = 1
"""Raised when the same replies come to other questions."""
_PROMPTS = ("again", "claims", "multihop", "multihop_check", "null_query")
_INDENTED = orjson.OPT_INDENT_2


@dataclass(frozen=True, slots=True)
class MultihopSettings:
    """How articles become questions."""

    null_share: float = 0.12
    """Null queries among all questions; MultiHop-RAG has 0.12."""
    most_bridges: int | None = None
    """Sets of claims that questions are written from; None for all."""

    def __post_init__(self) -> None:
        """Refuse shares that cannot be."""
        if not 0 <= self.null_share < 1:
            raise ConfigurationError(f"null queries are a share from 0 to below 1, found {self.null_share}")


def synthesize_multihop(
    location: Path,
    folder: Path,
    client: Client,
    settings: MultihopSettings,
    *,
    price: Price | None = None,
    progress: Progress = no_progress,
) -> SynthesisReport:
    """Make a benchmark in MultiHop-RAG's format out of articles; otherwise as `synthesize`."""
    articles, unread = read_articles(location, progress)
    made_by = {
        "version": _VERSION,
        "kind": "multihop",
        "settings": asdict(settings),
        "client": dict(client.describe()),
        "prompts": prompt_hashes(_PROMPTS),
        "articles": canonical_hash([article.model_dump() for article in articles]),
    }

    def make(asker: Asker) -> Iterator[str]:
        claims, unasked, counts = find_claims(articles, asker)
        bridges = find_bridges(claims)[: settings.most_bridges]
        queries, dropped = write_queries(bridges, asker)
        if not queries:
            raise ConfigurationError(_no_question(len(articles), len(claims), len(bridges), counts + dropped))
        n_null = round(len(queries) * settings.null_share / (1 - settings.null_share))
        null, null_dropped = write_null_queries(articles, claims, n_null, asker)
        everything = [*queries, *null]
        totals = Counter({"articles": len(articles), "claims": len(claims), "bridges": len(bridges)})
        totals.update(query.question_type for query in everything)
        totals += counts + dropped + null_dropped
        left_out = [*unread, *unasked]
        publish_folder(folder, _official(articles, everything), made_by, left_out, totals)
        return outcome_lines(folder, totals, left_out)

    return make_once(folder, made_by, lambda: Asker(client, price, progress), make)


def _no_question(n_articles: int, n_claims: int, n_bridges: int, dropped: Counter[str]) -> str:
    reasons = "; ".join(f"{what}: {n}" for what, n in dropped.most_common(3)) or "nothing shared"
    return (
        f"no question over several articles could be made of {n_articles} articles, {n_claims} claims and "
        f"{n_bridges} bridges ({reasons}). Nothing was written. Next step: more articles about the same things, "
        "or another model"
    )


def _official(articles: list[Article], queries: list[MultihopQuery]) -> dict[str, list[bytes]]:
    """Return the official files, and beside them what tells the loader that these are not the official data."""
    by_type = Counter(query.question_type for query in queries)
    rows: list[dict[str, Any]] = [article.model_dump() for article in articles]
    questions = [query.row() for query in queries]
    version = canonical_hash([rows, questions])[:12]
    facts = {"version": version, "counts": {"articles": len(articles), "by_type": dict(by_type)}}
    return {
        "dataset/corpus.json": [orjson.dumps(rows, option=_INDENTED)],
        "dataset/MultiHopRAG.json": [orjson.dumps(questions, option=_INDENTED)],
        SAMPLE_STATISTICS: [orjson.dumps(facts, option=_INDENTED)],
    }


# Articles: the user's own, in MultiHop-RAG's `corpus.json`, or the documents of a folder with their known fields.


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

"""From articles to MultiHop-RAG's two files, so that its harness tasks run on one's own news."""

from __future__ import annotations

from collections import Counter
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import orjson

from ragtasks.clients import Client, Price, Progress, Usage, no_progress
from ragtasks.errors import ConfigurationError
from ragtasks.files import SAMPLE_STATISTICS, canonical_hash
from ragtasks.synthesis._folder import DETAILS, Outcome, is_made, prompt_hashes, publish_folder
from ragtasks.synthesis.asking import Asker
from ragtasks.synthesis.multihop._articles import Article, read_articles
from ragtasks.synthesis.multihop._claims import find_bridges, find_claims
from ragtasks.synthesis.multihop._queries import MultihopQuery, write_null_queries, write_queries

_VERSION = 1
"""Raised when the same replies come to other questions."""
_PROMPTS = ("again", "claims", "multihop", "multihop_check", "null_query")
_INDENTED = orjson.OPT_INDENT_2
_MOST_SHOWN = 10


@dataclass(frozen=True, slots=True)
class MultihopSettings:
    """How articles become questions."""

    null_share: float = 0.12
    """Null queries among all questions; MultiHop-RAG has 0.12."""
    most_bridges: int | None = None
    """Sets of claims that questions are written from; None for all."""

    def __post_init__(self) -> None:
        """Refuse shares that cannot be.

        Raises:
            ConfigurationError: a share below 0, or one that leaves room for nothing else.
        """
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
) -> Outcome:
    """Make a benchmark in MultiHop-RAG's format out of articles; otherwise as `synthesize`.

    Args:
        location: see `read_articles`.
        folder: where the benchmark goes; not there, or empty.
        client: who writes.
        settings: how.
        price: what the client's tokens cost.
        progress: told of every step.

    Raises:
        ConfigurationError: no two articles that speak of the same, or a folder that holds something else.
        RagtasksError: as `read_articles`, and as the client.
    """
    articles, unread = read_articles(location, progress)
    made_by = {
        "version": _VERSION,
        "kind": "multihop",
        "settings": asdict(settings),
        "client": dict(client.describe()),
        "prompts": prompt_hashes(_PROMPTS),
        "articles": canonical_hash([article.row() for article in articles]),
    }
    if is_made(folder, made_by):
        return Outcome((f"{folder} is there already: the same articles, settings and model made it",), Usage())
    asker = Asker(client, price, progress)
    claims, unasked, counts = find_claims(articles, asker)
    bridges = find_bridges(claims)[: settings.most_bridges]
    queries, dropped = write_queries(bridges, asker)
    if not queries:
        reasons = "; ".join(f"{what}: {n}" for what, n in (counts + dropped).most_common(3)) or "nothing shared"
        raise ConfigurationError(
            f"no question over several articles could be made of {len(articles)} articles, {len(claims)} claims and "
            f"{len(bridges)} bridges ({reasons}). Nothing was written. Next step: more articles about the same things, "
            "or another model"
        )
    n_null = round(len(queries) * settings.null_share / (1 - settings.null_share))
    null, null_dropped = write_null_queries(articles, claims, n_null, asker)
    left_out = [*unread, *unasked]
    everything = [*queries, *null]
    told = Counter({"articles": len(articles), "claims": len(claims), "bridges": len(bridges)})
    told.update(query.question_type for query in everything)
    told += counts + dropped + null_dropped
    reasons_file = [orjson.dumps({"what": item.what, "reason": item.reason}) + b"\n" for item in left_out]
    files = {**_official(articles, everything), f"{DETAILS}/left_out.jsonl": reasons_file}
    publish_folder(folder, files, made_by, counts=dict(told))
    lines = [f"{folder}: " + ", ".join(f"{n:,} {what}" for what, n in told.items())]
    lines += [f"left out: {item.what}: {item.reason}" for item in left_out[:_MOST_SHOWN]]
    return Outcome(tuple(lines), asker.usage)


def _official(articles: list[Article], queries: list[MultihopQuery]) -> dict[str, list[bytes]]:
    """Return the official files, and beside them what tells the loader that these are not the official data."""
    by_type = Counter(query.question_type for query in queries)
    rows: list[dict[str, Any]] = [article.row() for article in articles]
    questions = [query.row() for query in queries]
    version = canonical_hash([rows, questions])[:12]
    facts = {"version": version, "counts": {"articles": len(articles), "by_type": dict(by_type)}}
    return {
        "dataset/corpus.json": [orjson.dumps(rows, option=_INDENTED)],
        "dataset/MultiHopRAG.json": [orjson.dumps(questions, option=_INDENTED)],
        SAMPLE_STATISTICS: [orjson.dumps(facts, option=_INDENTED)],
    }


__all__ = ["MultihopSettings", "synthesize_multihop"]

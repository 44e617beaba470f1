"""One judging of many responses: judges, a reply cache on disk, and the rubrics of an evaluation."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from ragtasks.clients import (
    CachedClient,
    Client,
    Endpoint,
    OpenAIClient,
    Progress,
    ReplyCache,
    Secrets,
    credentials_for,
    no_progress,
)
from ragtasks.judges._panel import judge
from ragtasks.judges._question import Rubric
from ragtasks.judges._verdicts import Verdicts
from ragtasks.records import Response


def judge_responses(
    responses: Sequence[Response],
    judges: Sequence[Endpoint | Client],
    *,
    secrets: Secrets,
    cache_file: Path,
    rubrics: Sequence[Rubric],
    progress: Progress = no_progress,
) -> Verdicts:
    """Return the verdicts of all judges on all responses; what is in the cache is not asked again.

    Args:
        responses: what models answered.
        judges: endpoints, or clients that are ready to be asked.
        secrets: variable -> key; each endpoint gets its own, see `credentials_for`.
        cache_file: SQLite file of replies, shared by several processes.
        rubrics: what is asked.
        progress: told of all judges together.

    Raises:
        ConfigurationError: an endpoint names a key that is not set.
        JudgeError: no judge answered to the end.
        CacheError: the cache cannot be used.
        MissingExtraError: the extra `judge` is not installed.
    """
    with ReplyCache(cache_file) as cache:
        ready = [_client(item, secrets) if isinstance(item, Endpoint) else item for item in judges]
        clients = [CachedClient(client, cache) for client in ready]
        prices = {item.model: item.price for item in judges if isinstance(item, Endpoint) and item.price}
        return judge(responses, rubrics, clients, prices=prices, progress=progress)


def _client(endpoint: Endpoint, secrets: Secrets) -> Client:
    return OpenAIClient(endpoint, credentials_for(endpoint, secrets))


__all__ = ["judge_responses"]

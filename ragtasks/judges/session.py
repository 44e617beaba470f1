"""One judging of many responses: judges, a reply cache on disk, and the rubrics of an evaluation."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from ragtasks.clients.endpoint import Endpoint
from ragtasks.clients.openai_client import OpenAIClient
from ragtasks.clients.protocol import Client, Progress, no_progress
from ragtasks.clients.reply_cache import CachedClient, ReplyCache
from ragtasks.judges.faithfulness import RL_F
from ragtasks.judges.panel import judge
from ragtasks.judges.question import Rubric
from ragtasks.judges.rubrics import RB_LLM, rubrics_named
from ragtasks.judges.verdicts import CLARIFICATION, IDK, VerdictOutcome, Verdicts
from ragtasks.metrics.suite import Judged
from ragtasks.records import Response, Score

RUBRICS = (RB_LLM, RL_F, IDK, CLARIFICATION)
"""What an evaluation asks its judges."""


def judge_responses(
    responses: Sequence[Response],
    judges: Sequence[Endpoint | Client],
    *,
    key: str | None,
    cache_file: Path,
    rubrics: Sequence[Rubric] | None = None,
    progress: Progress = no_progress,
) -> Verdicts:
    """Return the verdicts of all judges on all responses; what is in the cache is not asked again.

    Args:
        responses: what models answered.
        judges: endpoints, or clients that are ready to be asked.
        key: key of the endpoints; goes nowhere else.
        cache_file: SQLite file of replies, shared by several processes.
        rubrics: what is asked; default: those named in `RUBRICS`.
        progress: told of all judges together.

    Raises:
        JudgeError: no judge could be had to the end.
        CacheError: the cache cannot be used.
        MissingExtraError: the extra `judge` is not installed.
    """
    with ReplyCache(cache_file) as cache:
        ready = [OpenAIClient(item, key) if isinstance(item, Endpoint) else item for item in judges]
        clients = [CachedClient(client, cache) for client in ready]
        return judge(responses, rubrics or rubrics_named(RUBRICS), clients, progress=progress)


def judged(verdicts: Verdicts) -> Judged:
    """Return the figures that the metrics take."""
    indexes = range(len(verdicts.responses))
    shares = [_share_given(verdicts, index) for index in indexes]
    return Judged(verdicts.scores(RB_LLM), verdicts.scores(RL_F), verdicts.clarifications(), shares)


def nobody_judged(n_responses: int, reason: str) -> Judged:
    """Return figures without values, for where no judge could be had."""
    missing = [Score(None, reason)] * n_responses
    return Judged(missing, missing, [None] * n_responses, [0.0] * n_responses)


def _share_given(verdicts: Verdicts, index: int) -> float:
    rows = [verdicts.verdict(index, rubric, name) for rubric in verdicts.rubrics for name in verdicts.judges]
    asked = [row for row in rows if row.outcome is not VerdictOutcome.NOT_ASKED]
    return sum(row.is_answered for row in asked) / len(asked) if asked else 1.0


__all__ = ["RUBRICS", "judge_responses", "judged", "nobody_judged"]

"""The scores of one response, and what a log notes beside them."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

from ragtasks.judges import Verdicts
from ragtasks.metrics import (
    IdkLabel,
    Scores,
)


@dataclass(frozen=True, slots=True)
class ScoredResponse:
    """All scores of one response, and what a reader of the logs wants beside them."""

    scores: Scores
    """Metric name -> score."""
    notes: dict[str, Any]
    """IDK verdict with its reason; metric name -> reason for what is unscored."""


def notes_of(scores: Scores, label: IdkLabel, verdicts: list[dict[str, Any]]) -> dict[str, Any]:
    return {
        "idk": label.verdict.value if label.verdict else None,
        "idk_reason": label.reason,
        "unscored": {name: score.reason for name, score in scores.items() if score.value is None},
        **({"verdicts": verdicts} if verdicts else {}),
    }


def verdict_rows(verdicts: Verdicts | None, n_responses: int) -> list[list[dict[str, Any]]]:
    """Return every verdict on each response as JSON values: judge, label, reason, raw replies, tokens."""
    if verdicts is None:
        return [[] for _ in range(n_responses)]
    return [
        [
            {**asdict(row), "outcome": row.outcome.value, "replies": list(row.replies)}
            for rubric in verdicts.rubrics
            for row in (verdicts.verdict(index, rubric, name) for name in verdicts.judges)
        ]
        for index in range(n_responses)
    ]


__all__ = ["ScoredResponse", "notes_of", "verdict_rows"]

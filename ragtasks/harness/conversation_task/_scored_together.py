"""One pass of scoring over the answers of several harness tasks: an encoder or a judge sees all of them at once."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import Protocol

from ragtasks.records import Response
from ragtasks.scoring import ResponseScorer, ScoredResponse

_LOGGER = logging.getLogger(__name__)


class AnsweredTask(Protocol):
    """A harness task whose answers are there."""

    scorer: ResponseScorer

    @property
    def task_name(self) -> str:
        """Name of the harness task."""

    def responses(self) -> list[Response]:
        """Return the answers."""

    def take_results(self, results: Sequence[ScoredResponse], responses: Sequence[Response]) -> None:
        """Keep the scores of the answers."""


def score_together(tasks: Sequence[AnsweredTask]) -> None:
    """Score the answers of tasks that share a scorer in one pass and hand each task its own."""
    answers = [(task, task.responses()) for task in sorted(tasks, key=lambda task: task.task_name)]
    _LOGGER.info("scoring %d answers of %d tasks", sum(len(responses) for _, responses in answers), len(answers))
    results = iter(answers[0][0].scorer.score([response for _, responses in answers for response in responses]))
    for task, responses in answers:
        task.take_results([next(results) for _ in responses], responses)


__all__ = ["AnsweredTask", "score_together"]

"""One pass of scoring over the answers of several harness tasks: an encoder or a judge sees all of them at once."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import Protocol

from ragtasks.benchmarks import Benchmark
from ragtasks.config import EvaluationConfig
from ragtasks.files import OFFICIAL
from ragtasks.harness.answering import model_in_use
from ragtasks.records import Response, Setting
from ragtasks.scoring import ResponseScorer, ScoredResponse, check_together, record_checked

_LOGGER = logging.getLogger(__name__)


class AnsweredTask(Protocol):
    """A harness task whose answers are there."""

    scorer: ResponseScorer
    benchmark: Benchmark
    evaluation: EvaluationConfig

    @property
    def task_name(self) -> str:
        """Name of the harness task."""

    @property
    def setting(self) -> str:
        """The setting's name, and whose history it is."""

    def responses(self) -> list[Response]:
        """Return the answers."""

    def replies(self) -> list[str]:
        """Return what the model gave, thinking text included."""

    def take_results(self, results: Sequence[ScoredResponse], responses: Sequence[Response]) -> None:
        """Keep the scores of the answers."""


def score_together(tasks: Sequence[AnsweredTask]) -> None:
    """Score the answers of tasks that share a scorer in one pass and hand each task its own.

    Which of them cannot be answers is looked at by setting, noted with the scores, logged and remembered.
    """
    answers = [(task, task.responses()) for task in sorted(tasks, key=lambda task: task.task_name)]
    _LOGGER.info("scoring %d answers of %d tasks", sum(len(responses) for _, responses in answers), len(answers))
    results = iter(answers[0][0].scorer.score([response for _, responses in answers for response in responses]))
    scored = [(task, responses, [next(results) for _ in responses]) for task, responses in answers]
    if not getattr(model_in_use(), "is_baseline", False):
        _check(scored)
    for task, responses, own in scored:
        task.take_results(own, responses)


def _check(scored: Sequence[tuple[AnsweredTask, list[Response], list[ScoredResponse]]]) -> None:
    groups: dict[str, list[tuple[AnsweredTask, list[Response], list[ScoredResponse]]]] = {}
    for item in scored:
        groups.setdefault(item[0].setting, []).append(item)
    for setting, items in groups.items():
        first = items[0][0]
        checked = check_together(
            f"{first.benchmark.label} in {setting}",
            [response for _, responses, _ in items for response in responses],
            [reply for task, _, _ in items for reply in task.replies()],
            [result.notes for _, _, results in items for result in results],
            setting=Setting(setting.partition(",")[0]),
            benchmark=first.benchmark if first.evaluation.run == OFFICIAL else None,
        )
        for line in checked.lines:
            _LOGGER.warning("%s: %s", checked.where, line)
        record_checked(checked, first.evaluation.max_implausible)


__all__ = ["AnsweredTask", "score_together"]

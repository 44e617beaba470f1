"""The scores of one harness task, as the harness asks for them: document by document, then together."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from lm_eval.api.metrics import mean

from ragtasks.harness.conversation_task._averaging import mean_of_scored
from ragtasks.metrics import Metric, Pair
from ragtasks.records import Response
from ragtasks.scoring import ScoredResponse, plausibility_of


class TaskScores:
    """Keeps what responses scored, until the harness asks."""

    def __init__(self, metrics: Mapping[str, Metric]) -> None:
        """Take the declared metrics by name."""
        self._metrics = metrics
        self._results: dict[str, ScoredResponse] = {}

    def __len__(self) -> int:
        return len(self._results)

    def forget(self) -> None:
        """Begin anew: other requests are asked."""
        self._results = {}

    def take(self, results: Sequence[ScoredResponse], responses: Sequence[Response]) -> None:
        """Keep the scores of responses by their task."""
        self._results = {item.task.task_id: result for item, result in zip(responses, results, strict=True)}

    def plausibility(self) -> dict[str, Any]:
        """Return what results say of answers that cannot be answers; {} where nothing was checked."""
        return plausibility_of({task_id: result.notes for task_id, result in self._results.items()})

    def notes(self, task_id: str) -> dict[str, Any]:
        """Return what a log says beside the scores of a document."""
        return self._results[task_id].notes

    def values(self, task_id: str, pair: Pair) -> dict[str, Any]:
        """Return metric -> value of one document, NaN where it is unscored.

        Args:
            task_id: the document.
            pair: response and reference answer, which stand for a score of all responses together.
        """
        scores = self._results[task_id].scores
        values = {name: math.nan if score.value is None else score.value for name, score in scores.items()}
        scored = [name for name, value in values.items() if not math.isnan(value)]
        return values | {name: pair for name in scored if self._together(name)}

    def aggregations(self, names: Iterable[str], *, is_distributed: bool) -> dict[str, Callable[..., float]]:
        """Return metric -> what makes one number of its values: the mean over the scored documents, or its own way.

        Where every document is scored this is the harness's own `mean`, which comes with a standard error. Another
        rank's documents are not known here, so with several ranks it never is.
        """
        return {name: self._together(name) or self._mean(name, is_distributed) for name in names}

    def _together(self, name: str) -> Callable[[Iterable[Pair | float]], float] | None:
        aggregate = self._metrics[name].aggregate
        return None if aggregate is None else lambda pairs: aggregate(item for item in pairs if isinstance(item, tuple))

    def _mean(self, name: str, is_distributed: bool) -> Callable[[Iterable[float]], float]:
        all_scored = all(result.scores[name].value is not None for result in self._results.values())
        return mean if all_scored and not is_distributed else mean_of_scored


__all__ = ["TaskScores"]

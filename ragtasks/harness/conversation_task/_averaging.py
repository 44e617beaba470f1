"""Means over what is scored, for a task and for the groups that it stands in.

The harness knows one number of documents a task, and makes the score of a group by
`sum(mean * n for each task) / sum(n)` (`lm_eval.api.metrics.aggregate_subtask_metrics`). Where a document of a task is
unscored, that weighs the task by too many. A group's `aggregation` in its YAML is checked by the harness and never
called (0.4.13), so the mean itself knows how many documents it is over, and takes part in this formula accordingly:
a group has the mean over all its scored documents, whichever tasks they are of.
"""

from __future__ import annotations

import math
from collections.abc import Iterable


class MeanOfScored(float):
    """A mean over the scored documents of a task, NaN without any; a float like others but for a group's formula."""

    n_scored: int
    """Documents that it is over."""
    n_unscored: int
    """The task's other documents."""

    def __mul__(self, size: float) -> float:
        """Return the product; by the task's number of documents, a sum that knows how many of them are scored."""
        product = float(self) * size
        if size != self.n_scored + self.n_unscored:
            return product
        return _weighted(product, float(self) * self.n_scored if self.n_scored else 0.0, self.n_unscored)


class _Weighted(float):
    """Means times numbers of documents, added up: what the harness takes it for, and what the scored ones add up to."""

    of_scored: float
    """Sum over the scored documents."""
    n_unscored: int
    """Documents that the harness counts and that have no part in it."""

    def __add__(self, other: float) -> float:
        """Return both together; a plain float is of a task whose every document is scored."""
        of_scored, n_unscored = (other.of_scored, other.n_unscored) if isinstance(other, _Weighted) else (other, 0)
        return _weighted(float(self) + float(other), self.of_scored + of_scored, self.n_unscored + n_unscored)

    __radd__ = __add__

    def __truediv__(self, size: float) -> float:
        """Return the mean over the scored ones of `size` documents; NaN where none is."""
        n_scored = size - self.n_unscored
        return self.of_scored / n_scored if n_scored else math.nan


def _weighted(value: float, of_scored: float, n_unscored: int) -> _Weighted:
    made = _Weighted(value)
    made.of_scored, made.n_unscored = of_scored, n_unscored
    return made


def mean_of_scored(values: Iterable[float]) -> MeanOfScored:
    """Return the mean of the values that are numbers; NaN where none is.

    The harness's own `nanmean` gives the same score, but bootstraps its standard error 100,000 times for each metric
    of each task, which takes minutes. Items of one conversation are not independent, so that error is too small anyway.
    """
    given = list(values)
    scored = [value for value in given if not math.isnan(value)]
    found = MeanOfScored(sum(scored) / len(scored) if scored else math.nan)
    found.n_scored, found.n_unscored = len(scored), len(given) - len(scored)
    return found


__all__ = ["MeanOfScored", "mean_of_scored"]

"""Declaration of a metric: name, description, direction and bounds. Other modules compute its values."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from statistics import fmean
from typing import Any

from ragtasks.records import Answerability, Score

Scores = dict[str, Score]
"""Metric name -> score of one response."""

Pair = tuple[str, tuple[str, ...]]
"""A response and its reference answers."""
Sides = tuple[float, float]
"""The value of a response in a balanced mean: on an answerable task, on an unanswerable task; NaN for the other."""

RESCALED = (-math.inf, 1.0)
"""Bounds of a BERTScore score. With a baseline, a response that matches less than unrelated text scores below 0."""
PERCENT = (0.0, 100.0)
"""Bounds of a score in percent."""
COUNT = (0.0, math.inf)
"""Bounds of a word count, and of a ratio of two counts."""


@dataclass(frozen=True, slots=True)
class Metric:
    """Declaration of a metric."""

    name: str
    """Name in YAML, tables and logs."""
    description: str
    """One line for the legends of tables."""
    higher_is_better: bool | None = True
    """None if neither direction is better."""
    needs_judges: bool = False
    """Whether the score requires LLM judges."""
    needs_official_prompts: bool = False
    """Whether the judges must also use the official prompts."""
    bounds: tuple[float, float] = (0.0, 1.0)
    """Smallest and largest value of one response."""
    aggregate: Callable[[Iterable[Pair]], float] | None = None
    """Function from pairs to one score of all responses, such as corpus BLEU. None: the mean over responses."""
    is_balanced: bool = False
    """Whether the mean gives answerable and unanswerable tasks equal weight, whatever their number."""
    in_groups: bool = True
    """Whether the harness's table for a group of tasks shows the metric."""
    undefined_on: frozenset[Answerability] = frozenset()
    """Labels of tasks on which the metric is undefined. A missing score there does not count as lost."""
    undefined_reason: str = ""
    """Reason of unscored responses on which the metric is undefined: they do not count as lost."""
    rubrics: frozenset[str] = frozenset()
    """Judge rubrics that the score depends on. Empty: any rubric of the suite, so all of them are judged."""

    @property
    def of_all(self) -> Callable[[Iterable[Any]], float] | None:
        """Function from the logged values of all responses to their score; None for the plain mean."""
        return balanced_mean if self.is_balanced else self.aggregate

    def is_given(self, *, judges: bool, official_prompts: bool) -> bool:
        """Return whether responses get this score, depending on whether judges run and use the official prompts."""
        return (judges or not self.needs_judges) and (official_prompts or not self.needs_official_prompts)


def balanced_mean(pairs: Iterable[Sides]) -> float:
    """Return the mean of the means of the two sides; NaN if a side has no value."""
    sides = zip(*pairs, strict=True)
    scored = [[value for value in side if not math.isnan(value)] for side in sides]
    return fmean(map(fmean, scored)) if scored and all(scored) else math.nan

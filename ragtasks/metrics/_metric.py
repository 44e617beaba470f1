"""What a score is, whoever computes it: definitions stand apart from computation."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass

from ragtasks.records import Answerability, Score

Scores = dict[str, Score]
"""Metric name -> score of one response."""

Pair = tuple[str, tuple[str, ...]]
"""A response and its reference answers."""

RESCALED = (-math.inf, 1.0)
"""Bounds of a BERTScore score: with a baseline it is below 0 where a response is less like than chance."""
PERCENT = (0.0, 100.0)
"""Bounds of a score in percent."""
COUNT = (0.0, math.inf)
"""Bounds of a number of words, and of a ratio of two."""


@dataclass(frozen=True, slots=True)
class Metric:
    """What a score is, whoever computes it."""

    name: str
    """Name in YAML, tables and logs."""
    description: str
    """One line for tables' legends."""
    higher_is_better: bool | None = True
    """Direction; None where neither is better."""
    needs_judges: bool = False
    """Whether the score exists only where LLM judges were asked."""
    needs_official_prompts: bool = False
    """Whether, beyond that, they must have been asked in the official words."""
    bounds: tuple[float, float] = (0.0, 1.0)
    """Smallest and largest value that one response can have."""
    aggregate: Callable[[Iterable[Pair]], float] | None = None
    """For a score of all responses together, such as corpus BLEU: pairs -> score. None: the mean over responses."""
    in_groups: bool = True
    """Whether the harness's table of a group of tasks shows it."""
    undefined_on: frozenset[Answerability] = frozenset()
    """Tasks on which it has no meaning: that they lack it is no loss."""
    undefined_reason: str = ""
    """Reason of a response without a value on which it has no meaning either; empty: every such reason is a loss."""
    rubrics: frozenset[str] = frozenset()
    """Rubrics of judges that it rests on; empty: any of its suite's, so where it decides they are all asked."""

    def is_given(self, *, judges: bool, official_prompts: bool) -> bool:
        """Return whether the score exists where there are judges or none, asked in the official words or in ours."""
        return (judges or not self.needs_judges) and (official_prompts or not self.needs_official_prompts)

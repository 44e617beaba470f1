"""What a figure is, whoever computes it: definitions stand apart from computation."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from ragtasks.records import Score

Scores = dict[str, Score]
"""Metric name -> score of one response."""

Pair = tuple[str, str]
"""A response and its reference answer."""


@dataclass(frozen=True, slots=True)
class Metric:
    """What a figure is, whoever computes it."""

    name: str
    """Name in YAML, tables and logs."""
    description: str
    """One line for tables' legends."""
    higher_is_better: bool = True
    """Direction."""
    needs_judges: bool = False
    """Whether the figure exists only where LLM judges were asked."""
    aggregate: Callable[[Iterable[Pair]], float] | None = None
    """For a figure of all responses together, such as corpus BLEU: pairs -> figure. None: the mean over responses."""


__all__ = ["Metric", "Pair", "Scores"]

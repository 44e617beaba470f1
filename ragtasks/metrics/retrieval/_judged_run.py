"""A run with its scores by query, as tables and files take it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from ragtasks.records import Score


@dataclass(frozen=True, slots=True)
class JudgedRun:
    """The scores of one run over all judged queries."""

    name: str
    """What tables call it."""
    values: Mapping[str, Mapping[str, float | None]]
    """Query id -> metric name -> value, for every judged query; None where the judgements do not apply."""
    domain_of: Mapping[str, str] = field(default_factory=dict)
    """Query id -> domain, for every judged query; {} where there are no domains."""
    notes: tuple[str, ...] = ()
    """What a reader must know before the scores: queries left out, empty, or not judged."""

    def mean(self, metric: str, domain: str | None = None) -> Score:
        """Return the mean of a metric over the judged queries of a domain, None: of all; unscored for none."""
        rows = [row for query, row in self.values.items() if domain is None or self.domain_of.get(query) == domain]
        values = [value for row in rows if (value := row[metric]) is not None]
        if not values or len(values) < len(rows):
            return Score(None, "the judgements do not apply" if rows else "no judged queries")
        return Score(sum(values) / len(values))

    def n_queries(self, domain: str | None = None) -> int:
        """Return how many judged queries a domain has, None: all of them."""
        return sum(domain is None or self.domain_of.get(query) == domain for query in self.values)


__all__ = ["JudgedRun"]

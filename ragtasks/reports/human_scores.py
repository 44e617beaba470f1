"""Human scores of the answers in MTRAG's human evaluation, and those of the paper's Table 6."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Mapping, Sequence
from enum import Enum
from types import MappingProxyType

from ragtasks.benchmarks.mtrag import FANC, PUBLISHED_METRICS, REFERENCE_MODEL, WIN_RATE, RatedResponse

HUMAN = (WIN_RATE, *FANC)
"""Rated properties, in the order of Table 6."""
ALL = "all"
"""Harmonic mean of the four properties, computed for each rater."""
PAPER_TABLE_6: Mapping[str, Mapping[str, float]] = MappingProxyType(
    {
        model: MappingProxyType(dict(zip((*HUMAN, ALL, *PUBLISHED_METRICS), scores, strict=True)))
        for model, scores in {
            REFERENCE_MODEL: (59.3, 3.8, 3.8, 4.0, 3.9, 3.8, 0.86, 0.97, 0.87),
            "gpt-4o": (47.8, 3.5, 3.8, 4.0, 3.7, 3.6, 0.80, 0.80, 0.46),
            "llama-3.1-405b-instruct": (47.4, 3.5, 3.9, 3.9, 3.7, 3.6, 0.78, 0.78, 0.49),
        }.items()
    }
)
"""Model -> column -> score of the MTRAG paper's Table 6."""


class Consolidation(str, Enum):
    """Statistic that combines several raters' scores."""

    MEDIAN = "median"
    """Mean of the two middle ratings if a rater is missing. The paper states only the median."""
    MEDIAN_HIGH = "upper median"
    """The higher of the two middle ratings."""
    MEDIAN_LOW = "lower median"
    """The lower of the two middle ratings."""
    MEAN = "mean"


def consolidated(row: RatedResponse, name: str, consolidation: Consolidation) -> float:
    """Return one human score of an answer: a name of `HUMAN`, or `all`.

    `all` is each rater's harmonic mean of the four properties, consolidated over the raters with all four.
    """
    if name != ALL:
        return _CONSOLIDATE[consolidation](list(row.ratings[name].values()))
    raters = [rater for rater in row.ratings[FANC[0]] if all(rater in row.ratings[each] for each in FANC)]
    means = [statistics.harmonic_mean([row.ratings[each][rater] for each in FANC]) for rater in raters]
    return _CONSOLIDATE[consolidation](means)


_CONSOLIDATE: Mapping[Consolidation, Callable[[Sequence[float]], float]] = {
    Consolidation.MEDIAN: statistics.median,
    Consolidation.MEDIAN_HIGH: statistics.median_high,
    Consolidation.MEDIAN_LOW: statistics.median_low,
    Consolidation.MEAN: statistics.fmean,
}

"""One metric with its computation: how a metric joins a suite that is there, from this package or from another."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial

from ragtasks.errors import ConfigurationError
from ragtasks.judges import Rubric
from ragtasks.metrics import Metric, Scores
from ragtasks.records import Score
from ragtasks.suites._suite import ScoringInputs, Suite, no_rubrics


@dataclass(frozen=True, slots=True)
class SuiteMetric:
    """A metric that can be added to a suite; `--metadata '{"metrics": [NAME]}'` does.

    Raises:
        ConfigurationError: a field of another kind.
    """

    metric: Metric
    """Its declaration."""
    score: Callable[[ScoringInputs], Sequence[Score]]
    """Scoring inputs -> one score a response, in order. Called only where there are verdicts if it needs judges."""
    suites: tuple[str, ...] = ()
    """Suites that it makes sense in; none: any."""
    rubrics: Callable[[], Sequence[Rubric]] = no_rubrics
    """What judges are asked for it beside what its suite asks, in our words: there are no others."""

    def __post_init__(self) -> None:
        callables = callable(self.score) and callable(self.rubrics)
        if not isinstance(self.metric, Metric) or not callables or not isinstance(self.suites, tuple):
            fields = "metric: Metric, score: callable, suites: tuple of names, rubrics: callable"
            raise ConfigurationError(f"SuiteMetric({fields})")


def verdict_scores(rubric: str, inputs: ScoringInputs) -> Sequence[Score]:
    """Return what judges said under a rubric as one score a response."""
    assert inputs.verdicts is not None
    return inputs.verdicts.scores(rubric)


def metric_of_rubric(rubric: Rubric) -> SuiteMetric:
    """Return the metric that a rubric is by itself: what judges said of each response, not conditioned."""
    metric = Metric(rubric.name, f"{rubric.description}, by LLM judges", needs_judges=True)
    return SuiteMetric(metric, partial(verdict_scores, rubric.name), rubrics=lambda: [rubric])


def with_metric(suite: Suite, name: str, added: SuiteMetric) -> Suite:
    """Return a suite with one more metric.

    Args:
        suite: which stays as it is.
        name: of the suite.
        added: what joins it.

    Raises:
        ConfigurationError: the suite has a metric of that name, or is none that it makes sense in.
    """
    metric = added.metric.name
    if metric in {own.name for own in suite.metrics}:
        raise ConfigurationError(f"metric {metric!r} stands in the suite {name!r} already; leave it out")
    if added.suites and name not in added.suites:
        raise ConfigurationError(f"metric {metric!r} is none of the suite {name!r}, only of {', '.join(added.suites)}")
    official = suite.official_rubrics
    return replace(
        suite,
        metrics=(*suite.metrics, added.metric),
        score=partial(_score, suite, added),
        rubrics=lambda: _joined(suite.rubrics(), added.rubrics()),
        official_rubrics=(lambda benchmark: _joined(official(benchmark), added.rubrics())) if official else None,
    )


def _joined(own: Sequence[Rubric], more: Sequence[Rubric]) -> list[Rubric]:
    """Return rubrics of different names: one that is asked already is not asked twice."""
    names = {rubric.name for rubric in own}
    return [*own, *(rubric for rubric in more if rubric.name not in names)]


def _score(suite: Suite, added: SuiteMetric, inputs: ScoringInputs) -> list[Scores]:
    scores = suite.score(inputs)
    if added.metric.needs_judges and inputs.verdicts is None:
        return scores
    own = list(added.score(inputs))
    if len(own) != len(scores) or not all(isinstance(score, Score) for score in own):
        raise ConfigurationError(f"metric {added.metric.name!r}: not one Score for each of {len(scores)} responses")
    return [{**others, added.metric.name: score} for others, score in zip(scores, own, strict=True)]


__all__ = ["SuiteMetric", "metric_of_rubric", "verdict_scores", "with_metric"]

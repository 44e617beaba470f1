"""Two systems, or two runs, compared: differences with intervals and tests over conversations."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from ragtasks.api._results import Results, read_results
from ragtasks.api._runs import RunEvaluation, bounds_of
from ragtasks.errors import ConfigurationError, close_matches
from ragtasks.logs import Evaluation
from ragtasks.reports.comparison import compare_evaluations, render_comparisons
from ragtasks.statistics import Column, Comparison, Comparisons, compare_columns


@dataclass(frozen=True, repr=False)
class Differences:
    """What two systems, or two runs, differ by; printed, it is what `ragtasks compare` prints."""

    comparisons: Comparisons
    """Means and pairs."""
    of_runs: bool
    """Whether runs were compared, not answers."""

    @property
    def pairs(self) -> tuple[Comparison, ...]:
        """One a metric and setting: `difference` (second less first, with `low` and `high`), `p`, `adjusted_p`."""
        return self.comparisons.pairs

    def __repr__(self) -> str:
        """Return each metric with its difference."""
        found = ", ".join(f"{pair.first.metric} {pair.difference.value}" for pair in self.pairs)
        return f"<{type(self).__name__}: {found}>"

    def __str__(self) -> str:
        """Return means, differences, and how to read them."""
        group, name, items = ("queries", "run", "queries") if self.of_runs else ("setting", "model", "tasks")
        return render_comparisons(self.comparisons, group=group, name=name, items=items)


Side = Results | RunEvaluation | str | Path
"""Scores, an evaluated run, or where results lie."""


def compare(a: Side, b: Side, *, metric: str | Sequence[str] = ()) -> Differences:
    """Return how the second differs from the first, on the tasks or queries that both scored.

    Args:
        a: from `score` or `read_results`, or the path of results; or from `evaluate_run`.
        b: the same of another system or run. Where both have one name they are told apart as first and second.
        metric: one or several; default: the paper's that both have, or of runs every measure that both have.

    Raises:
        ConfigurationError: an unknown metric, or nothing that was scored alike.
        BenchmarkFileError: results that cannot be read.
    """
    metrics = [metric] if isinstance(metric, str) else list(metric)
    if isinstance(a, RunEvaluation) and isinstance(b, RunEvaluation):
        return Differences(compare_columns([*_columns(a, b, metrics)]), of_runs=True)
    if isinstance(a, RunEvaluation) or isinstance(b, RunEvaluation):
        raise ConfigurationError("comparison: expected two of a kind, found a run and answers")
    first, second = ((side if isinstance(side, Results) else read_results(side)).evaluations for side in (a, b))
    shared = {item.model for item in first} & {item.model for item in second}
    named = [*_told_apart(first, shared, "first"), *_told_apart(second, shared, "second")]
    return Differences(compare_evaluations(named, metrics=metrics), of_runs=False)


def _told_apart(evaluations: Sequence[Evaluation], shared: set[str], place: str) -> Iterator[Evaluation]:
    for item in evaluations:
        yield replace(item, model=f"{item.model} ({place})") if item.model in shared else item


def _columns(a: RunEvaluation, b: RunEvaluation, metrics: Sequence[str]) -> Iterator[Column]:
    known = [name for name in a.means if name in b.means]
    for name in metrics:
        if name not in known:
            raise ConfigurationError(f"unknown measure {name!r}: {close_matches(name, known)}")
    names = (a.name, b.name) if a.name != b.name else (f"{a.name} (first)", f"{b.name} (second)")
    for item, name in zip((a, b), names, strict=True):
        for measure in metrics or known:
            yield Column(
                context=f"{item.context}; judgements: {item.judgements}",
                group="all",
                metric=measure,
                name=name,
                values={query_id: row[measure] for query_id, row in item.values.items()},
                cluster_of=item.conversation_of,
                bounds=bounds_of(measure),
            )


__all__ = ["Differences", "compare"]

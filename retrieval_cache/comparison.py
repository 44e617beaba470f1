"""Retrieval runs compared in pairs, query by query: the same statistics as for answers, over the same conversations."""

from __future__ import annotations

from collections.abc import Sequence

from ragtasks.errors import ConfigurationError, close_matches
from ragtasks.metrics import RETRIEVAL_METRICS
from ragtasks.statistics import Column, Comparisons, compare_columns
from retrieval_cache.service import Place, evaluate_stored
from retrieval_cache.store import RunStore

ALL, BY_DOMAIN = "all", "domain"
DEFAULT_METRICS = ("recall_5", "ndcg_5")
"""What is compared where nothing is named: what the passages shown to a model rest on (MTRAG paper, Table 3)."""


def compare_runs(
    place: Place, names: Sequence[str], *, metrics: Sequence[str] = (), by: str = ALL, baseline: str | None = None
) -> Comparisons:
    """Return every run's mean over the judged queries, and the difference of every pair."""
    known = [metric.name for metric in RETRIEVAL_METRICS]
    for metric in metrics:
        if metric not in known:
            raise ConfigurationError(f"unknown metric {metric!r}: {close_matches(metric, known)}")
    if by not in {ALL, BY_DOMAIN}:
        raise ConfigurationError(f"unknown way to compare {by!r}: {close_matches(by, (ALL, BY_DOMAIN))}")
    if len(set(names)) < 2:
        raise ConfigurationError(f"runs to compare: expected at least two, `official` may be one; found {names[:1]}")
    benchmark, store = place.open(), RunStore(place.store)
    conversation_of = {task.task_id: task.conversation_id for task in benchmark.tasks}
    columns = []
    for name in dict.fromkeys(names):
        evaluation = evaluate_stored(benchmark, store, name)
        results = evaluation.results
        groups = dict.fromkeys(result.domain for result in results) if by == BY_DOMAIN else {ALL: None}
        columns += [
            Column(
                context=benchmark.label,
                group=group,
                metric=metric,
                name=name,
                values={r.query_id: r.values[metric] for r in results if group in {ALL, r.domain}},
                cluster_of=conversation_of,
                bounds=(0.0, 1.0),
                note=evaluation.fallbacks,
            )
            for group in groups
            for metric in dict.fromkeys(metrics or DEFAULT_METRICS)
        ]
    return compare_columns(columns, baseline)

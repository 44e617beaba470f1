"""The means of an evaluation, saved with its provenance, so that a folder is listed without reading samples.

For each harness task, a results file contains sums and counts by metric, and a hash of the task ids. All of these add
up over harness tasks, so a setting of several domains needs no samples either. Results of several processes do not have
them: their samples are summed in the same form.
"""

from __future__ import annotations

import hashlib
import math
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from typing import Any

from ragtasks.results._scored_answer import ScoredAnswer
from ragtasks.tables import grouped

UNKNOWN = "-"
"""Text for a fact that the results do not contain."""
SUMMARY = "summary"
"""Key of a harness task's summary in the provenance of its results."""
_MODULUS = 2**256


@dataclass(frozen=True, slots=True)
class MetricSummary:
    """Scores of some responses by one metric."""

    total: float
    n_scored: int
    unscored: Mapping[str, int]
    """Reason -> responses without a value."""

    @property
    def n(self) -> int:
        """Number of responses that the metric was computed for."""
        return self.n_scored + sum(self.unscored.values())

    @property
    def mean(self) -> float | None:
        """Mean of the values, or None without values."""
        return self.total / self.n_scored if self.n_scored else None


@dataclass(frozen=True, slots=True)
class Summary:
    """The responses of one setting in numbers."""

    setting: str
    n: int
    tasks: str
    """Hash of the task ids in any order. Hashes of separate tasks add up (`merged_summaries`)."""
    metrics: Mapping[str, MetricSummary]
    """Metric -> scores of the responses, without metrics over all responses together."""


def summaries_of(rows: Iterable[ScoredAnswer]) -> dict[str, Summary]:
    """Return setting -> summary of its rows, settings in the order of their first row."""
    return {setting: _summary(setting, own) for setting, own in grouped(rows, lambda row: row.setting).items()}


def saved_summary(rows: Iterable[ScoredAnswer]) -> dict[str, Any]:
    """Return the summary of one harness task as saved in its results. {} if its rows are of several settings."""
    summaries = list(summaries_of(rows).values())
    return {SUMMARY: asdict(summaries[0])} if len(summaries) == 1 else {}


def read_summary(provenance: Mapping[str, Any], n_samples: int) -> Summary | None:
    """Return the summary in a harness task's provenance; None without one of `n_samples` samples."""
    saved = provenance.get(SUMMARY)
    if saved is None or saved["n"] != n_samples:
        return None
    metrics = {name: MetricSummary(**values) for name, values in saved["metrics"].items()}
    return Summary(saved["setting"], saved["n"], saved["tasks"], metrics)


def merged_summaries(summaries: Iterable[Summary]) -> dict[str, Summary]:
    """Return setting -> the sum of its summaries."""
    by_setting = grouped(summaries, lambda summary: summary.setting)
    return {setting: _merged(setting, own) for setting, own in by_setting.items()}


def _summary(setting: str, rows: list[ScoredAnswer]) -> Summary:
    names = dict.fromkeys(name for row in rows for name in row.values)
    metrics = {name: _metric(name, rows) for name in names}
    return Summary(setting, len(rows), _hash(row.task.task_id for row in rows), metrics)


def _metric(name: str, rows: Iterable[ScoredAnswer]) -> MetricSummary:
    with_metric = [row for row in rows if name in row.values]
    scored = [value for row in with_metric if (value := row.values[name]) is not None]
    reasons = Counter(str(row.unscored.get(name, UNKNOWN)) for row in with_metric if row.values[name] is None)
    return MetricSummary(math.fsum(scored), len(scored), dict(reasons))


def _merged(setting: str, summaries: list[Summary]) -> Summary:
    names = dict.fromkeys(name for summary in summaries for name in summary.metrics)
    metrics = {
        name: _merged_metric([summary.metrics[name] for summary in summaries if name in summary.metrics])
        for name in names
    }
    tasks = _added_hashes(int(summary.tasks, 16) for summary in summaries)
    return Summary(setting, sum(summary.n for summary in summaries), tasks, metrics)


def _merged_metric(metrics: list[MetricSummary]) -> MetricSummary:
    reasons: Counter[str] = Counter()
    for metric in metrics:
        reasons.update(metric.unscored)
    return MetricSummary(
        math.fsum(metric.total for metric in metrics), sum(metric.n_scored for metric in metrics), dict(reasons)
    )


def _hash(task_ids: Iterable[str]) -> str:
    """Return one hash of task ids: the sum of their hashes, which is independent of order and additive."""
    return _added_hashes(int.from_bytes(hashlib.sha256(task_id.encode()).digest(), "big") for task_id in task_ids)


def _added_hashes(hashes: Iterable[int]) -> str:
    return f"{sum(hashes) % _MODULUS:064x}"

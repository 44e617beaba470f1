"""The two standard errors of a mean side by side: over conversations, and by the harness's own formula."""

from __future__ import annotations

from collections.abc import Sequence

from ragtasks.logs import Evaluation
from ragtasks.records import Setting
from ragtasks.reports.tables._whole import missing_from, offered_tasks
from ragtasks.statistics import Estimate, cluster, estimate_means
from ragtasks.tables import Table, Value

_COLUMNS = ("setting", "model", "metric", "mean", "stderr", "harness stderr", "conversations", "no interval because")
_NOTE = (
    "stderr: over conversations. harness stderr: by the formula of lm_eval, which takes tasks for independent: too "
    "small where the tasks of one conversation are alike."
)


def error_table(evaluations: Sequence[Evaluation], metrics: Sequence[str]) -> Table:
    """Return setting, model and metric by mean and standard errors; what has no value is left out.

    Args:
        evaluations: of one kind, one a model.
        metrics: names.
    """
    places = []
    columns = []
    missing = []
    offered = offered_tasks(evaluations)
    for setting in Setting:
        for evaluation in evaluations:
            rows = [row for row in evaluation.rows if row.setting == setting.value]
            for metric in metrics:
                if any(row.values.get(metric) is not None for row in rows):
                    places.append((setting.value, evaluation.model, metric))
                    values = [row.values.get(metric) for row in rows]
                    missing.append(missing_from(rows, offered.get((evaluation.model, setting.value))))
                    columns.append(cluster(values, [row.conversation_id for row in rows]))
    known = zip(places, estimate_means(columns), missing, strict=True)
    lines = [(*place, *_cells(found, n_tasks)) for place, found, n_tasks in known]
    return Table("Standard errors", _COLUMNS, tuple(lines), _NOTE)


def _cells(found: Estimate, n_tasks: int | None) -> tuple[Value, Value, Value, int, str]:
    n = found.n_values
    mean = Value(found.value, n, n + found.n_unscored, n_tasks=n_tasks)
    over_conversations, harness = (Value(value, n, n) for value in (found.standard_error, found.independent_error))
    return mean, over_conversations, harness, found.n_clusters, found.reason


__all__ = ["error_table"]

"""Turn errors: the share of each kind by model, and by dimension of the tasks."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import partial

from ragtasks.metrics import TurnErrorKind
from ragtasks.records import Setting
from ragtasks.reports.tables._losses import N_EXAMPLES, of_first_models
from ragtasks.reports.tables._scores import by_setting, is_baseline, mean_of, row_slices
from ragtasks.results import Evaluation, ScoredAnswer
from ragtasks.tables import Cell, Table, table_of

TITLE = "Turn errors"
_SHARE = (0.0, 1.0)
_MOST_MODELS = 3  # with a table of dimensions
_MOST_KINDS = 2  # in a model's sentence
_LEAST_NAMED = 0.005  # shares that round to 0 % are left out of the sentence
_LABELS = {kind.value: kind.label for kind in TurnErrorKind}
_NOTE = (
    "Share of turns with 95 % intervals over conversations. A turn has at most one error: the first match in the order "
    "of the rows. Errors are detected from labels and words, without a judge. Use them to choose answers to read, not "
    "to rank systems."
)


def turn_error_tables(evaluations: Sequence[Evaluation]) -> list[Table]:
    """Return the errors by model for each setting, then by dimension if there are at most three models."""
    tables = []
    for setting, systems in _systems(evaluations).items():
        title = f"{TITLE} in setting {setting}"
        kinds = {row.turn_error_kind for rows in systems.values() for row in rows}
        means = {name: partial(mean_of, metric=name, bounds=_SHARE) for name in _LABELS if name in kinds}
        models = {model: rows for model, rows in systems.items() if not is_baseline(model)}
        if means:
            lines: list[tuple[Cell, ...]] = [
                (name, _LABELS[name], *map(mean, systems.values())) for name, mean in means.items()
            ]
            lines.append(("turns", "examined", *map(len, systems.values())))
            legend = tuple(_examples(models, means))
            tables.append(Table(title, ("kind", "error", *systems), tuple(lines), _NOTE, legend))
        for model, rows in models.items() if means and len(models) <= _MOST_MODELS else ():
            parts = (((part.dimension, part.value), part.of(rows)) for part in row_slices(rows))
            tables.append(table_of(f"{title}: {model}", ("dimension", "value"), parts, {"n": len, **means}))
    return tables


def _systems(evaluations: Sequence[Evaluation]) -> dict[str, dict[str, list[ScoredAnswer]]]:
    """Return setting -> model -> examined rows."""
    systems: dict[str, dict[str, list[ScoredAnswer]]] = {}
    for (setting, model), rows in by_setting(evaluations, lambda row: row.turn_error_kind is not None):
        systems.setdefault(setting, {})[model] = rows
    return systems


def turn_error_sentence(evaluations: Sequence[Evaluation]) -> str:
    """Return one line with the most frequent turn errors in full RAG, else in the last setting; empty without any."""
    systems = _systems([evaluation for evaluation in evaluations if not is_baseline(evaluation.model)])
    if not systems:
        return ""
    setting = Setting.FULL_RAG.value if Setting.FULL_RAG in systems else list(systems)[-1]
    phrases = [text for model, rows in systems[setting].items() if (text := _most(model, rows))]
    name = "" if evaluations[0].has_own_rows else f" ({setting})"
    return f"Most frequent errors{name}: {of_first_models(phrases)}." if phrases else ""


def _most(model: str, rows: Sequence[ScoredAnswer]) -> str:
    """Return a model's most frequent errors with their share of turns, or an empty string."""
    parts = []
    shares = [(mean_of(rows, kind.value, _SHARE), kind.label) for kind in TurnErrorKind]
    for share, label in sorted(shares, key=lambda pair: -(pair[0].value or 0.0))[:_MOST_KINDS]:
        if (share.value or 0.0) >= _LEAST_NAMED:
            has_ends = share.low is not None and share.high is not None
            interval = f" [{share.low:.0%}, {share.high:.0%}]" if has_ends else ""
            parts.append(f"{label} in {share.value:.0%}{interval}")
    return f"{model}: {' and '.join(parts)} of {len(rows)} turns" if parts else ""


def _examples(models: Mapping[str, Sequence[ScoredAnswer]], names: Iterable[str]) -> Iterator[str]:
    for name in names:
        for model, rows in models.items():
            tasks = [row.task.task_id for row in rows if row.turn_error_kind == name]
            if tasks:
                more = f" and {len(tasks) - N_EXAMPLES} more" if len(tasks) > N_EXAMPLES else ""
                yield f"{name}, {model}: {', '.join(tasks[:N_EXAMPLES])}{more}"

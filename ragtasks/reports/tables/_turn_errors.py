"""What went wrong in turns: the share of each kind, by model, and by part of the tasks."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import partial

from ragtasks.metrics import TurnErrorKind
from ragtasks.records import Setting
from ragtasks.reports.tables._losses import N_EXAMPLES
from ragtasks.reports.tables._scores import by_setting, is_baseline, mean_of, row_slices
from ragtasks.results import Evaluation, ScoredAnswer
from ragtasks.tables import Cell, Table, table_of

TITLE = "What went wrong"
_SHARE = (0.0, 1.0)
_MOST_MODELS = 3  # whose parts are shown
_MOST_KINDS = 2  # in the sentence of a model
_LEAST_NAMED = 0.005  # what rounds to 0 % is not worth a sentence
_SAYS = {kind.value: kind.says for kind in TurnErrorKind}
_NOTE = (
    "Share of turns of each kind with 95 % intervals over conversations; a turn is of one kind at most, the first that "
    "holds. Read off labels and words, without a judge: a reason to open an answer, no score to rank by "
    "(docs/grounding.md says how often each kind is right)."
)


def turn_error_tables(evaluations: Sequence[Evaluation]) -> list[Table]:
    """Return the kinds by model for each setting, then by part for few models; none where no turn was looked at."""
    tables = []
    for setting, systems in _systems(evaluations).items():
        title = f"{TITLE} in setting {setting}"
        kinds = {row.turn_error_kind for rows in systems.values() for row in rows}
        means = {name: partial(mean_of, metric=name, bounds=_SHARE) for name in _SAYS if name in kinds}
        models = {model: rows for model, rows in systems.items() if not is_baseline(model)}
        if means:
            lines: list[tuple[Cell, ...]] = [
                (name, _SAYS[name], *map(mean, systems.values())) for name, mean in means.items()
            ]
            lines.append(("turns", "looked at", *map(len, systems.values())))
            legend = tuple(_examples(models, means))
            tables.append(Table(title, ("kind", "the answer", *systems), tuple(lines), _NOTE, legend))
        for model, rows in models.items() if means and len(models) <= _MOST_MODELS else ():
            parts = (((part.dimension, part.value), part.of(rows)) for part in row_slices(rows))
            tables.append(table_of(f"{title}: {model}", ("dimension", "value"), parts, {"n": len, **means}))
    return tables


def _systems(evaluations: Sequence[Evaluation]) -> dict[str, dict[str, list[ScoredAnswer]]]:
    """Return setting -> model -> rows that were looked at."""
    systems: dict[str, dict[str, list[ScoredAnswer]]] = {}
    for (setting, model), rows in by_setting(evaluations, lambda row: row.turn_error_kind is not None):
        systems.setdefault(setting, {})[model] = rows
    return systems


def turn_error_sentence(evaluations: Sequence[Evaluation]) -> str:
    """Return one line with the most frequent turn errors in full RAG, else in the last setting; empty without any."""
    systems = _systems([item for item in evaluations if not is_baseline(item.model)])
    if not systems:
        return ""
    setting = Setting.FULL_RAG.value if Setting.FULL_RAG in systems else list(systems)[-1]
    found = [text for model, rows in systems[setting].items() if (text := _most(model, rows))]
    more = f"; {len(found) - _MOST_MODELS} more models" if len(found) > _MOST_MODELS else ""
    where = "" if evaluations[0].has_own_rows else f" ({setting})"
    return f"Went wrong most{where}: {'; '.join(found[:_MOST_MODELS])}{more}." if found else ""


def _most(model: str, rows: Sequence[ScoredAnswer]) -> str:
    """Return the kinds that a model has most often, each with its share of turns; empty where none is worth naming."""
    parts = []
    shares = [(mean_of(rows, kind.value, _SHARE), kind.says) for kind in TurnErrorKind]
    for share, says in sorted(shares, key=lambda item: -(item[0].value or 0.0))[:_MOST_KINDS]:
        if (share.value or 0.0) >= _LEAST_NAMED:
            has_ends = share.low is not None and share.high is not None
            interval = f" [{share.low:.0%}, {share.high:.0%}]" if has_ends else ""
            parts.append(f"{says} in {share.value:.0%}{interval}")
    return f"{model}: {' and '.join(parts)} of {len(rows)} turns" if parts else ""


def _examples(models: Mapping[str, Sequence[ScoredAnswer]], names: Iterable[str]) -> Iterator[str]:
    for name in names:
        for model, rows in models.items():
            found = [row.task.task_id for row in rows if row.turn_error_kind == name]
            if found:
                more = f" and {len(found) - N_EXAMPLES} more" if len(found) > N_EXAMPLES else ""
                yield f"{name}, {model}: {', '.join(found[:N_EXAMPLES])}{more}"

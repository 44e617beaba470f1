"""What went wrong in turns: the share of each kind, by model, and by part of the tasks."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from ragtasks.metrics import TurnErrorKind
from ragtasks.records import Setting
from ragtasks.reports.tables._scores import is_baseline, mean_of, row_slices
from ragtasks.results import Evaluation, ScoredAnswer
from ragtasks.tables import Cell, Table, Value

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


def turn_error_tables(evaluations: Sequence[Evaluation], *, n_examples: int = 5) -> list[Table]:
    """Return the kinds by model for each setting, then by part for few models; none where no turn was looked at."""
    tables = []
    for setting in Setting:
        systems = [(item.model, rows) for item in evaluations if (rows := _rows(item, setting))]
        names = [name for name in _SAYS if any(row.turn_error_kind == name for _, rows in systems for row in rows)]
        if names:
            tables.append(_by_model(setting, systems, names, n_examples))
            models = [(model, rows) for model, rows in systems if not is_baseline(model)]
            if len(models) <= _MOST_MODELS:
                tables += [_by_part(setting, model, rows, names) for model, rows in models]
    return tables


def turn_error_sentence(evaluations: Sequence[Evaluation]) -> str:
    """Return one line with the most frequent turn errors in full RAG, else in the last setting; empty without any."""
    models = [item for item in evaluations if not is_baseline(item.model)]
    settings = [setting for setting in Setting if any(_rows(item, setting) for item in models)]
    if not settings:
        return ""
    setting = Setting.FULL_RAG if Setting.FULL_RAG in settings else settings[-1]
    found = [text for item in models if (text := _most(item.model, _rows(item, setting)))]
    more = f"; {len(found) - _MOST_MODELS} more models" if len(found) > _MOST_MODELS else ""
    return f"Went wrong most ({setting.value}): {'; '.join(found[:_MOST_MODELS])}{more}." if found else ""


def _most(model: str, rows: Sequence[ScoredAnswer]) -> str:
    """Return the kinds that a model has most often, each with its share of turns; empty where none is worth naming."""
    shares = [(mean_of(rows, kind.value, _SHARE), kind.says) for kind in TurnErrorKind]
    named = [(share.value, share, says) for share, says in shares if (share.value or 0.0) >= _LEAST_NAMED]
    most = sorted(named, key=lambda item: -(item[0] or 0.0))[:_MOST_KINDS]
    parts = [f"{says} in {_percent(share)}" for _, share, says in most]
    return f"{model}: {' and '.join(parts)} of {len(rows)} turns" if parts else ""


def _percent(share: Value) -> str:
    interval = f" [{share.low:.0%}, {share.high:.0%}]" if share.low is not None and share.high is not None else ""
    return f"{share.value:.0%}{interval}"


def _rows(evaluation: Evaluation, setting: Setting) -> list[ScoredAnswer]:
    return [row for row in evaluation.rows if row.setting == setting.value and row.turn_error_kind is not None]


def _by_model(
    setting: Setting, systems: Sequence[tuple[str, Sequence[ScoredAnswer]]], names: Sequence[str], n_examples: int
) -> Table:
    lines: list[tuple[Cell, ...]] = [
        (name, _SAYS[name], *(mean_of(rows, name, _SHARE) for _, rows in systems)) for name in names
    ]
    lines.append(("turns", "looked at", *(len(rows) for _, rows in systems)))
    heads = ("kind", "the answer", *(model for model, _ in systems))
    legend = tuple(_examples(systems, names, n_examples)) if n_examples else ()
    return Table(f"{TITLE} in setting {setting.value}", heads, tuple(lines), _NOTE, legend)


def _examples(systems: Sequence[tuple[str, Sequence[ScoredAnswer]]], names: Sequence[str], n: int) -> Iterator[str]:
    for name in names:
        for model, rows in systems:
            found = [row.task.task_id for row in rows if row.turn_error_kind == name]
            if found and not is_baseline(model):
                yield f"{name}, {model}: {', '.join(found[:n])}" + (f" and {len(found) - n} more" if found[n:] else "")


def _by_part(setting: Setting, model: str, rows: Sequence[ScoredAnswer], names: Sequence[str]) -> Table:
    lines: list[tuple[Cell, ...]] = []
    for part in row_slices(rows):
        chosen = [row for row in rows if part.holds(row)]
        lines.append((part.dimension, part.value, len(chosen), *(mean_of(chosen, name, _SHARE) for name in names)))
    return Table(f"{TITLE} in setting {setting.value}: {model}", ("dimension", "value", "n", *names), tuple(lines))

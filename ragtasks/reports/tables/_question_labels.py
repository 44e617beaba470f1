"""What judges say of questions: how many of each kind, and how far that agrees with a benchmark's labels."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from ragtasks.records import Task
from ragtasks.tables import Table, Value

_DRAWS = 2000
_COLUMNS = ("kind", "questions", "share", "labelled before", "both", "F1", "kappa")
_NOTE = (
    "F1 and Cohen's kappa of the judges beside the labels that the questions had, each kind against the rest, over the "
    "questions that have both. Intervals draw whole conversations again."
)
_Numbers = NDArray[np.float64]


def question_labels_table(
    tasks: Sequence[Task], labels: Mapping[str, tuple[str, ...]], kinds: Sequence[str], *, compared: bool
) -> Table:
    """Return how many questions judges gave each kind; `compared`, beside the labels that questions had before."""
    n_labelled = len(labels)
    both = [task for task in tasks if compared and task.question_types and task.task_id in labels]
    rows = []
    for kind in kinds:
        n_given = sum(kind in given for given in labels.values())
        share = Value(n_given / n_labelled, n_labelled, len(tasks)) if n_labelled else "-"
        rows.append((kind, n_given, share, *_agreement(both, labels, kind)))
    n_columns = len(_COLUMNS) if both else 3
    cells = tuple(row[:n_columns] for row in rows)
    return Table("Kinds of questions", _COLUMNS[:n_columns], cells, _NOTE if both else "")


def _agreement(
    both: Sequence[Task], labels: Mapping[str, tuple[str, ...]], kind: str
) -> tuple[int, int, str | Value, str | Value]:
    places = {name: place for place, name in enumerate(dict.fromkeys(task.conversation_id for task in both))}
    counts = np.zeros((len(places), 4))  # a conversation: both, only before, only judges, neither
    for task in both:
        before, now = kind in task.question_types, kind in labels[task.task_id]
        counts[places[task.conversation_id], (0 if now else 1) if before else (2 if now else 3)] += 1
    total = counts.sum(axis=0)
    n_before, n_both = int(total[0] + total[1]), int(total[0])
    return n_before, n_both, _estimated(counts, _f1, len(both)), _estimated(counts, _kappa, len(both))


def _estimated(counts: _Numbers, measure: Callable[[_Numbers], _Numbers], n: int) -> str | Value:
    """Return a measure of counts by conversation with its interval; a dash where it is not defined."""
    (value,) = measure(counts.sum(axis=0, keepdims=True))
    if np.isnan(value):
        return "-"
    drawn = np.random.default_rng(0).multinomial(len(counts), np.full(len(counts), 1 / len(counts)), _DRAWS)
    found = measure(drawn @ counts)
    found = found[~np.isnan(found)]
    if len(counts) < 2 or len(found) < 0.9 * _DRAWS:
        return Value(float(value), n, n)
    low, high = np.quantile(found, [0.025, 0.975])
    if low == high:  # nothing varies: a kind that no judge gave, say
        return Value(float(value), n, n)
    return Value(float(value), n, n, float(low), float(high))


def _f1(counts: _Numbers) -> _Numbers:
    both, before, now, _ = counts.T
    return _share(2 * both, 2 * both + before + now)


def _kappa(counts: _Numbers) -> _Numbers:
    both, before, now, neither = counts.T
    return _share(
        2 * (both * neither - before * now), (both + before) * (before + neither) + (both + now) * (now + neither)
    )


def _share(part: _Numbers, whole: _Numbers) -> _Numbers:
    return np.divide(part, whole, out=np.full_like(whole, np.nan), where=whole > 0)

"""Evaluations of one model put together: settings are often run one by one."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import TypeVar

from ragtasks.logs._evaluations import Evaluation
from ragtasks.logs._origin import Kind
from ragtasks.logs._provenance import asked_with, scored_on

Group = tuple[Kind, str, tuple[tuple[str, str], ...]]
"""Kind, suite and the fields of `scored_on` of evaluations: what may be compared."""

_Value = TypeVar("_Value")


def merge_evaluations(evaluations: Sequence[Evaluation]) -> list[Evaluation]:
    """Return one evaluation for each kind, suite and name of a model (see `model_names`).

    What is put together keeps all rows, provenance and samples: a harness task that stands in several of its
    evaluations is called `TASK #2` and so on from the second.
    """
    merged: dict[tuple[Kind, str, str], Evaluation] = {}
    for evaluation, name in zip(evaluations, model_names(evaluations), strict=True):
        key = (evaluation.kind, evaluation.suite, name)
        merged[key] = _together(merged.get(key), evaluation, name)
    return list(merged.values())


def model_names(evaluations: Sequence[Evaluation]) -> list[str]:
    """Return the name of each evaluation's model in tables, in the order given.

    Evaluations of one model that were asked and scored alike and have no task of a setting in common share its name;
    others are called `NAME #2` and so on (`asked_otherwise` says which files these are).
    """
    taken: dict[tuple[Kind, str, str], tuple[object, set[tuple[str, str]]]] = {}
    names = []
    for evaluation in evaluations:
        alike = (scored_on(evaluation), asked_with(evaluation))
        own = {(row.setting, row.task_id) for row in evaluation.rows}
        for name in _numbered(evaluation.model):
            others, places = taken.setdefault((evaluation.kind, evaluation.suite, name), (alike, set()))
            if others == alike and places.isdisjoint(own):
                places.update(own)
                names.append(name)
                break
    return names


def comparable_evaluations(evaluations: Sequence[Evaluation]) -> list[list[Evaluation]]:
    """Return the evaluations put together (see `merge_evaluations`), those whose scores compare in one list.

    They share their `group_of`, by which the lists are in order; in a list they are in the order given.
    """
    alike: dict[Group, list[Evaluation]] = {}
    for item in merge_evaluations(evaluations):
        alike.setdefault(group_of(item), []).append(item)
    return [alike[key] for key in sorted(alike)]


def group_of(evaluation: Evaluation) -> Group:
    """Return what an evaluation shares with all that its scores compare with."""
    return evaluation.kind, evaluation.suite, tuple(scored_on(evaluation).items())


def _together(before: Evaluation | None, evaluation: Evaluation, name: str) -> Evaluation:
    if before is None:
        return replace(evaluation, model=name)
    return replace(
        before,
        rows=before.rows + evaluation.rows,
        provenance=_joined(before.provenance, evaluation.provenance),
        samples=_joined(before.samples, evaluation.samples),
        files=before.files + evaluation.files,
    )


def _joined(before: Mapping[str, _Value], more: Mapping[str, _Value]) -> dict[str, _Value]:
    """Return the values of harness tasks, first one then the other; no value takes the place of another."""
    joined = dict(before)
    for task, value in more.items():
        joined[next(name for name in _numbered(task) if name not in joined)] = value
    return joined


def _numbered(name: str) -> Iterator[str]:
    """Yield `NAME`, `NAME #2`, `NAME #3` and so on."""
    yield name
    yield from (f"{name} #{number}" for number in itertools.count(2))


__all__ = ["Group", "comparable_evaluations", "group_of", "merge_evaluations", "model_names"]

"""Evaluations of one model put together: settings are often run one by one."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import replace

from ragtasks.reports.results import Evaluation, Kind


def merge_evaluations(evaluations: Sequence[Evaluation]) -> list[Evaluation]:
    """Return one evaluation for each model and kind.

    Evaluations of one model on one version of the files that have no task of a setting in common are put together;
    others are called `NAME #2` and so on, in the order given.
    """
    merged: dict[tuple[Kind, str, str], Evaluation] = {}
    for evaluation in evaluations:
        for number in itertools.count(1):
            name = evaluation.model if number == 1 else f"{evaluation.model} #{number}"
            key = (evaluation.kind, evaluation.suite, name)
            before = merged.get(key)
            if before is None or _fit(before, evaluation):
                merged[key] = _together(before, evaluation, name)
                break
    return list(merged.values())


def _fit(before: Evaluation, evaluation: Evaluation) -> bool:
    return before.revision == evaluation.revision and _places(before).isdisjoint(_places(evaluation))


def _places(evaluation: Evaluation) -> set[tuple[str, str]]:
    return {(row.setting, row.task_id) for row in evaluation.rows}


def _together(before: Evaluation | None, evaluation: Evaluation, name: str) -> Evaluation:
    if before is None:
        return replace(evaluation, model=name)
    return replace(
        before,
        rows=before.rows + evaluation.rows,
        facts={**before.facts, **evaluation.facts},
        samples={**before.samples, **evaluation.samples},
    )


__all__ = ["merge_evaluations"]

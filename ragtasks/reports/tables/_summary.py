"""The few values that a system of one's own is told by: main score, answerability accuracy, coverage."""

from __future__ import annotations

from dataclasses import replace

from ragtasks.logs import Evaluation
from ragtasks.reports.tables._conclusion import unscored_main, unscored_sentence
from ragtasks.reports.tables._scores import Slot, draft, fill, slot
from ragtasks.tables import Cell, Section

_BESIDE = ("ans_acc", "coverage", "judge_coverage")


def summary_section(evaluation: Evaluation, n_answered: int, n_tasks: int) -> Section:
    """Return one line: setting, system, answered of all tasks, the suite's first metric that has values, and coverage.

    Where no response has the main score, a sentence below says so in the place of a coverage of 0.

    Args:
        evaluation: the answers to one setting.
        n_answered: tasks with an answer.
        n_tasks: tasks that the setting has.
    """
    rows = evaluation.rows
    valued = {name for row in rows for name, value in row.values.items() if value is not None}
    present = {metric.name: metric for metric in evaluation.metrics if metric.name in valued}
    main = [name for name in present if name not in _BESIDE][:1]
    lacking = unscored_main([evaluation], present)
    names = [*main, *(name for name in _BESIDE if name in present and not (lacking and name == "coverage"))]
    cells = [slot(rows, name, present[name].bounds) for name in names]
    line: list[Cell | Slot] = [rows[0].setting, evaluation.model, f"{n_answered} of {n_tasks}", *cells]
    found = draft("Scores", ["setting", "system", "answered", *names], [line])
    if lacking:
        found = replace(found, table=replace(found.table, legend=(f"{unscored_sentence(evaluation, lacking)}.",)))
    return Section(evaluation.kind[0], {}, tuple(fill([found])))


__all__ = ["summary_section"]

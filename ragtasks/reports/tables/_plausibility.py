"""Answers that cannot be answers, beside the scores that count them: a line in the conclusion and a table."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from ragtasks.logs import Evaluation
from ragtasks.records import Setting
from ragtasks.scoring import CheckedAnswers
from ragtasks.tables import Cell, Table, fixed

_NOTE = (
    "Checks of whether answers can be answers at all (docs/metrics.md, Plausibility), by model and setting. The scores "
    "count these answers as they are."
)


def implausible_lines(evaluations: Sequence[Evaluation]) -> Iterator[str]:
    """Yield one line for each check that found anything, with an example, and one for checks that were not made."""
    for checked in _checked(evaluations):
        yield from (f"Implausible: {checked.where}: {item}." for item in checked.summary)
    for names in dict.fromkeys(item.unchecked for item in evaluations if item.unchecked):
        models = ", ".join(item.model for item in evaluations if item.unchecked == names)
        yield (
            f"Not checked: {', '.join(names)} of {models}: saved without these checks, and logs do not say where "
            "passages are from. `ragtasks judge` checks it."
        )


def plausibility_table(evaluations: Sequence[Evaluation]) -> list[Table]:
    """Return what the checks found, a row a check; none where they found nothing."""
    rows: list[tuple[Cell, ...]] = [
        (setting, model, item.name, item.count, item.n, fixed(item.share), item.example, item.excerpt)
        for (setting, model), checked in zip(_groups(evaluations), _checked(evaluations), strict=True)
        for item in checked.summary
    ]
    columns = ("setting", "model", "check", "answers", "n", "share", "example", "excerpt")
    return [Table("Plausibility", columns, tuple(rows), _NOTE)] if rows else []


def _groups(evaluations: Sequence[Evaluation]) -> list[tuple[str, str]]:
    settings = [setting.value for setting in Setting]
    present = {(row.setting, item.model) for item in evaluations for row in item.rows if row.implausible is not None}
    return [(setting, item.model) for setting in settings for item in evaluations if (setting, item.model) in present]


def _checked(evaluations: Sequence[Evaluation]) -> list[CheckedAnswers]:
    rows_of = {item.model: item.rows for item in evaluations}
    return [
        CheckedAnswers(
            f"{model} in {setting}",
            tuple(
                (row.task_id, row.implausible)
                for row in rows_of[model]
                if row.setting == setting and row.implausible is not None
            ),
        )
        for setting, model in _groups(evaluations)
    ]


__all__ = ["implausible_lines", "plausibility_table"]

"""Tables that a report has where a user asks for them by name: one of ours, and those that other packages add."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol, runtime_checkable

from ragtasks.logs import Evaluation
from ragtasks.plugins import ExtensionPoint
from ragtasks.tables import Table


@runtime_checkable
class ReportTable(Protocol):
    """What makes a table of a report: a function, as a rule."""

    def __call__(self, evaluations: Sequence[Evaluation], /) -> Table:
        """Return one table.

        Args:
            evaluations: those of one section, whose scores compare, at least one.
        """


TABLES = ExtensionPoint(
    "ragtasks.tables",
    "table",
    ReportTable,  # type: ignore[type-abstract]  # a protocol: whatever can be called
    {"idk-detectors": "ragtasks.reports.tables._judging:detectors_table"},
)
"""Tables by name."""


def added_tables(names: Sequence[str], evaluations: Sequence[Evaluation]) -> list[Table]:
    """Return the tables of these names, in order.

    Raises:
        ConfigurationError: an unknown name; or what a package adds cannot be used, or makes no table with rows as long
            as its heads.
    """
    return [_table(name, evaluations) for name in names]


def _table(name: str, evaluations: Sequence[Evaluation]) -> Table:
    table = TABLES.made(name, Table, lambda make: make(evaluations))
    if any(len(row) != len(table.columns) for row in table.rows):
        raise TABLES.refused(name, f"{len(table.columns)} cells a row, as there are heads", "rows of another length")
    return table


__all__ = ["TABLES", "ReportTable", "added_tables"]

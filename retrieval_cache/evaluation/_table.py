"""The report on evaluated runs, and how it reads as Markdown."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from ragtasks.tables import Table, markdown_table


@dataclass(frozen=True, slots=True)
class RetrievalReport:
    """All tables of some runs on one benchmark."""

    benchmark: str
    """Its label, which says `sample` where it is one."""
    notes: tuple[str, ...]
    """What a reader must know before any score."""
    tables: tuple[Table, ...]
    """In the order of the report."""


def render_report(report: RetrievalReport) -> str:
    """Return a report as Markdown."""
    parts = [f"# Retrieval on {report.benchmark or 'unnamed data'}", _bullets(report.notes)]
    for table in report.tables:
        parts += [
            f"## {table.title}",
            table.note,
            "\n".join(markdown_table(table.columns, table.rows)),
            _bullets(table.legend),
        ]
    return "\n\n".join(part for part in parts if part) + "\n"


def _bullets(lines: Sequence[str]) -> str:
    return "\n".join(f"- {line}" for line in lines)


__all__ = ["RetrievalReport", "render_report"]

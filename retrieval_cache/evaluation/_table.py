"""The tables of evaluated runs as records, apart from how they are written; and as Markdown."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class RetrievalTable:
    """One table."""

    title: str
    """Heading."""
    heads: tuple[str, ...]
    """Heads of the columns."""
    rows: tuple[tuple[str, ...], ...]
    """Cells, one a column; scores as they are printed."""
    note: str = ""
    """What a reader must know before the scores; empty where the title says it all."""
    legend: tuple[str, ...] = ()
    """What columns are and cells lack, a line each."""


@dataclass(frozen=True, slots=True)
class RetrievalReport:
    """All tables of some runs on one benchmark."""

    benchmark: str
    """Its label, which says `sample` where it is one."""
    notes: tuple[str, ...]
    """What a reader must know before any score."""
    tables: tuple[RetrievalTable, ...]
    """In the order of the report."""


def render_report(report: RetrievalReport) -> str:
    """Return a report as Markdown."""
    parts = [f"# Retrieval on {report.benchmark or 'unnamed data'}", _bullets(report.notes)]
    for table in report.tables:
        parts += [f"## {table.title}", table.note, _grid(table), _bullets(table.legend)]
    return "\n\n".join(part for part in parts if part) + "\n"


def _bullets(lines: Sequence[str]) -> str:
    return "\n".join(f"- {line}" for line in lines)


def _grid(table: RetrievalTable) -> str:
    """Return a Markdown table padded so that it reads as plain text too."""
    lines = [[cell.replace("|", r"\|") for cell in line] for line in [table.heads, *table.rows]]
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    padded = [
        "| " + " | ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)) + " |" for line in lines
    ]
    return "\n".join([padded[0], "|" + "|".join("-" * (width + 2) for width in widths) + "|", *padded[1:]])


__all__ = ["RetrievalReport", "RetrievalTable", "render_report"]

"""The one place that writes a table: Markdown, CSV, LaTeX, HTML."""

from ragtasks.reports.rendering._renderers import Format, coded, render
from ragtasks.reports.rendering._table import Cell, Figure, Section, Table, csv_text, fixed, plain

__all__ = [
    "Cell",
    "Figure",
    "Format",
    "Section",
    "Table",
    "coded",
    "csv_text",
    "fixed",
    "plain",
    "render",
]

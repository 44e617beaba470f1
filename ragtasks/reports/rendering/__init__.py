"""The one place that writes a table: Markdown, CSV, LaTeX, HTML."""

from ragtasks.reports.rendering._renderers import Format, coded, render
from ragtasks.reports.rendering._table import Cell, Section, Table, Value, csv_text, fixed, plain

__all__ = [
    "Cell",
    "Format",
    "Section",
    "Table",
    "Value",
    "coded",
    "csv_text",
    "fixed",
    "plain",
    "render",
]

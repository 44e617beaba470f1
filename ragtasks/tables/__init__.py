"""The record of a table, and how it reads as Markdown: what every part that shows scores writes them with."""

from ragtasks.tables._markdown import markdown_table, shown
from ragtasks.tables._notes import notes_once
from ragtasks.tables._table import Cell, Section, Table, Value, csv_text, fixed, plain

__all__ = ["Cell", "Section", "Table", "Value", "csv_text", "fixed", "markdown_table", "notes_once", "plain", "shown"]

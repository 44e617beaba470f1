"""The one place that writes a report: Markdown, CSV, LaTeX."""

from ragtasks.reports.rendering._renderers import Format, coded, render

__all__ = ["Format", "coded", "render"]

"""Pictures of a report's tables."""

from ragtasks.reports.plots._drawing import plot_sections

__all__ = ["plot_sections"]

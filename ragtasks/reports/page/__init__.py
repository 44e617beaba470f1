"""One HTML page of a report: tables that sort, plots, and every conversation with all that was said and scored."""

from ragtasks.reports.page.drawing import drawn_meanwhile
from ragtasks.reports.page.writing import write_page

__all__ = ["drawn_meanwhile", "write_page"]

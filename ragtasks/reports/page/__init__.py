"""One HTML page of a report: tables that sort, plots, and every conversation with all that was said and scored."""

from ragtasks.reports.page._drawing import drawn_meanwhile
from ragtasks.reports.page._policy import content_policy, own_text
from ragtasks.reports.page._writing import write_page

__all__ = [
    "content_policy",
    "drawn_meanwhile",
    "own_text",
    "write_page",
]

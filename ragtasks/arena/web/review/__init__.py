"""The review of a benchmark's pairs: decisions and pages."""

from ragtasks.arena.web.review._desk import ReviewDesk
from ragtasks.arena.web.review._pages import review_application

__all__ = ["ReviewDesk", "review_application"]

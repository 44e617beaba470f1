"""Evaluations compared in pairs."""

from ragtasks.reports.comparison._compare import compare_evaluations
from ragtasks.reports.comparison._tables import comparisons_csv, render_comparisons

__all__ = [
    "compare_evaluations",
    "comparisons_csv",
    "render_comparisons",
]

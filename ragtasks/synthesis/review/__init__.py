"""People accept, edit or reject the pairs of a benchmark; what they leave is a benchmark again."""

from ragtasks.synthesis.review._agreement import review_section
from ragtasks.synthesis.review._decision import (
    CHOICES,
    LONGEST_NOTE,
    LONGEST_TEXT,
    Choice,
    Decision,
    DecisionError,
    Review,
    decide,
    read_reviews,
    write_reviews,
)
from ragtasks.synthesis.review._export import export_reviewed
from ragtasks.synthesis.review._pair import Pair, read_pairs

__all__ = [
    "CHOICES",
    "LONGEST_NOTE",
    "LONGEST_TEXT",
    "Choice",
    "Decision",
    "DecisionError",
    "Pair",
    "Review",
    "decide",
    "export_reviewed",
    "read_pairs",
    "read_reviews",
    "review_section",
    "write_reviews",
]

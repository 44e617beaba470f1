"""Documents made into benchmarks by a model: dialogues, multi-hop questions, and what they train.

Prompts are ours; a client answers them and keeps its replies, so that a killed synthesis pays for nothing twice. What a
model writes is read, checked against the documents and counted; nothing is filled in.
"""

from ragtasks.synthesis._folder import Outcome
from ragtasks.synthesis._pipeline import UNITS, Settings, synthesize
from ragtasks.synthesis.documents import Cut
from ragtasks.synthesis.multihop import MultihopSettings, synthesize_multihop
from ragtasks.synthesis.quality import PAPER_FORMS, QRelScore, has_dialogues, quality_section
from ragtasks.synthesis.review import (
    LONGEST_NOTE,
    LONGEST_TEXT,
    DecisionError,
    Pair,
    Review,
    decide,
    export_reviewed,
    read_pairs,
    read_reviews,
    review_section,
    write_reviews,
)
from ragtasks.synthesis.training import Fitting, read_qrecc, train_retriever, train_rewriter

__all__ = [
    "LONGEST_NOTE",
    "LONGEST_TEXT",
    "PAPER_FORMS",
    "UNITS",
    "Cut",
    "DecisionError",
    "Fitting",
    "MultihopSettings",
    "Outcome",
    "Pair",
    "QRelScore",
    "Review",
    "Settings",
    "decide",
    "export_reviewed",
    "has_dialogues",
    "quality_section",
    "read_pairs",
    "read_qrecc",
    "read_reviews",
    "review_section",
    "synthesize",
    "synthesize_multihop",
    "train_retriever",
    "train_rewriter",
    "write_reviews",
]

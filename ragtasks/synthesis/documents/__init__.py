"""From files to passages: text of every format, each document once, passages without near-duplicates."""

from ragtasks.synthesis.documents._documents import (
    DOMAIN,
    MOST_BYTES,
    Document,
    Documents,
    LeftOut,
    read_documents,
)
from ragtasks.synthesis.documents._passages import THRESHOLD, Cut, DocumentPassage, cut_documents

__all__ = [
    "DOMAIN",
    "MOST_BYTES",
    "THRESHOLD",
    "Cut",
    "Document",
    "DocumentPassage",
    "Documents",
    "LeftOut",
    "cut_documents",
    "read_documents",
]

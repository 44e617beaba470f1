"""The tasks of MTRAGEval, apart from what checks them: options name them before anything else is loaded."""

from __future__ import annotations

from enum import Enum


class SubmissionTask(str, Enum):
    """The tasks of MTRAGEval (SemEval-2026 task 8)."""

    A = "A"
    """Retrieval."""
    B = "B"
    """Answers from the reference passages."""
    C = "C"
    """Retrieval and answers."""

"""Files to hand in to MTRAGEval: built from runs and results, and checked by more than the official rules."""

from ragtasks.submissions._tasks import SubmissionTask

__all__ = ["SubmissionTask"]

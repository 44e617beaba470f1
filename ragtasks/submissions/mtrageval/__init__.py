"""Files to hand in to MTRAGEval: built from runs and results, and checked by more than the official rules."""

from ragtasks.submissions.mtrageval._build import Submission, check, submit

__all__ = ["Submission", "check", "submit"]

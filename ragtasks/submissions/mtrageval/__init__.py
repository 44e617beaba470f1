"""Submission files for MTRAGEval: built from runs and results, with checks beyond the official rules."""

from ragtasks.submissions.mtrageval._build import Submission, check, submit

__all__ = ["Submission", "check", "submit"]

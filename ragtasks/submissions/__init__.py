"""Submission files for MTRAGEval, TREC RAG and TREC iKAT: built from runs and results, and checked."""

from ragtasks.submissions._findings import Diagnostic, Report, Severity, SubmissionTask, render_json, render_text
from ragtasks.submissions._forms import FileForm, form_of_file

__all__ = [
    "Diagnostic",
    "FileForm",
    "Report",
    "Severity",
    "SubmissionTask",
    "form_of_file",
    "render_json",
    "render_text",
]

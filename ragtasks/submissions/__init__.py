"""Files for MTRAGEval and TREC RAG: built from runs and results, and checked by more than the official rules."""

from ragtasks.submissions._findings import Finding, Report, Severity, SubmissionTask, render_json, render_text

__all__ = ["Finding", "Report", "Severity", "SubmissionTask", "render_json", "render_text"]

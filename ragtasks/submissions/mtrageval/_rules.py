"""The rules of a submission as a table: how grave a violation is, and what the official side makes of it.

Source: format_checker.py and run_retrieval_eval.py of IBM/mt-rag-benchmark at cc5b1d4. The checks themselves are
functions in `line_rules` (one line at a time) and `checking` (the file as a whole).
"""

from __future__ import annotations

from dataclasses import dataclass

from ragtasks.submissions._tasks import SubmissionTask
from ragtasks.submissions.mtrageval._findings import Finding, Severity, shown

MAX_CONTEXTS = 10
"""Contexts that a task may have."""
RECOMMENDED_CONTEXTS = 5
"""Contexts that the organisers recommend for task C."""
MAX_BYTES = 20 * 1024 * 1024
"""Size that a file may have."""

_REJECTS = "the official checker rejects it"
_STOPS = "the official checker stops at it"


@dataclass(frozen=True, slots=True)
class Rule:
    """One thing that a submission must keep to."""

    name: str
    """Name in reports."""
    severity: Severity
    """How grave a violation is."""
    consequence: str
    """What the official side makes of it."""
    noted_for: str = ""
    """Letters of the tasks for which it is a note only."""

    def finding(self, line: int, task_id: str, task: SubmissionTask, expected: str, found: object) -> Finding:
        """Return a violation against this rule in a submission for a task."""
        severity = Severity.NOTE if task.value in self.noted_for else self.severity
        return Finding(line, task_id, self.name, severity, expected, shown(found), self.consequence)


_TABLE = (
    # The file.
    Rule("file_name", Severity.VIOLATION, _REJECTS),
    Rule("file_size", Severity.VIOLATION, _REJECTS),
    Rule("no_tasks", Severity.VIOLATION, "the numbers of tasks differ: " + _REJECTS),
    Rule("missing_task", Severity.VIOLATION, _REJECTS),
    Rule("unknown_task", Severity.VIOLATION, _REJECTS),
    Rule("task_spelling", Severity.VIOLATION, "ids are compared as texts: " + _REJECTS),
    Rule("duplicate_task", Severity.VIOLATION, "the official checker sees only that the numbers of tasks differ"),
    # A line.
    Rule("line_end", Severity.VIOLATION, "read as the end of the line: " + _REJECTS),
    Rule("carriage_returns", Severity.WARNING, "passed; the official evaluation ends lines at line feeds only"),
    Rule("utf8", Severity.VIOLATION, _STOPS),
    Rule("json", Severity.VIOLATION, _REJECTS),
    Rule("json_limit", Severity.VIOLATION, _STOPS),
    Rule("object", Severity.VIOLATION, _STOPS),
    Rule("required_field", Severity.VIOLATION, _REJECTS),
    Rule("field_type", Severity.VIOLATION, _REJECTS),
    Rule("duplicate_key", Severity.WARNING, "only the last value is read"),
    Rule("encoding", Severity.WARNING, "half of a surrogate pair: no request to a judge can carry it"),
    # Contexts.
    Rule("too_many_contexts", Severity.VIOLATION, _REJECTS),
    Rule("context_object", Severity.VIOLATION, _REJECTS),
    Rule("document_id", Severity.VIOLATION, _REJECTS),
    Rule("score", Severity.VIOLATION, _REJECTS),
    Rule("score_boolean", Severity.WARNING, "passed as 1 or 0"),
    Rule("score_not_finite", Severity.WARNING, "passed; as a 32-bit number it has no place in a ranking"),
    Rule("scores_unordered", Severity.WARNING, "ranked by score, not by place: others count as the first", "BC"),
    Rule("scores_tied", Severity.WARNING, "equal as 32-bit numbers: ranked by document id, descending", "BC"),
    Rule("duplicate_document", Severity.WARNING, "one place is lost; the last score counts"),
    Rule("blank_document_id", Severity.WARNING, "passed; matches no document"),
    Rule("unknown_document", Severity.WARNING, "passed; never relevant"),
    Rule("context_text", Severity.WARNING, "passed; the generation metrics read the text"),
    Rule("no_contexts", Severity.NOTE, "scores 0 where the task is judged; the official checker warns"),
    Rule("many_contexts", Severity.NOTE, f"{RECOMMENDED_CONTEXTS} are recommended"),
    # Predictions.
    Rule("prediction_object", Severity.VIOLATION, _REJECTS),
    Rule("prediction_text", Severity.VIOLATION, _REJECTS),
    Rule("n_predictions", Severity.WARNING, "passed; the evaluation scores one prediction"),
    Rule("empty_prediction", Severity.WARNING, "passed; scores next to nothing"),
    Rule("thinking_text", Severity.NOTE, "judged as part of the answer"),
    # What goes along.
    Rule("task_id_shape", Severity.WARNING, "passed; names no conversation and turn"),
    Rule("conversation_id", Severity.WARNING, "passed; contradicts the task id"),
    Rule("turn", Severity.WARNING, "passed; contradicts the task id"),
    Rule("collection", Severity.WARNING, "passed; the retrieval evaluation finds no judgements for it"),
    Rule("message", Severity.WARNING, "passed; judges are shown the conversation"),
    Rule("other_input", Severity.WARNING, "passed; judged by another question than was asked"),
    Rule("other_contexts", Severity.WARNING, "passed; task B answers from the passages that it is given"),
    Rule("other_context_text", Severity.WARNING, "passed; judged by another text than was given"),
)

RULES = {rule.name: rule for rule in _TABLE}
"""Rule name -> rule."""

__all__ = ["MAX_BYTES", "MAX_CONTEXTS", "RECOMMENDED_CONTEXTS", "RULES", "Rule"]

"""Output of a check as text and JSON: equal findings are combined, notes come after problems."""

from __future__ import annotations

import json

from ragtasks.submissions import Diagnostic, Report, Severity, render_json, render_text
from tests._messages import same_message


def finding(line: int, rule: str, severity: Severity, expected: str, task: str = "") -> Diagnostic:
    return Diagnostic(line, task, rule, severity, expected, "9", "it stops")


PROBLEM, WARNING, NOTE = Severity
REPORT = Report(
    "run.jsonl",
    "task B",
    14,
    (
        finding(0, "missing", PROBLEM, "all tasks"),
        *(finding(line, "score", WARNING, f"contexts[{line}] with a score", f"t{line}") for line in range(2, 14)),
        finding(3, "empty", NOTE, "an answer", "t\n3"),
        finding(4, "empty", NOTE, "a text", "t4"),
    ),
    ("whether the passages exist",),
)


def test_equal_findings_are_combined_and_listed_on_request() -> None:
    same_message("\n".join(render_text(REPORT)))
    same_message("\n".join(render_text(REPORT, every=True)))
    assert str(REPORT.findings[-2]).startswith(r"line 3 (t\n3): note empty")


def test_json_output_contains_every_finding() -> None:
    report = json.loads(json.dumps(render_json(REPORT)))
    assert {name: value for name, value in report.items() if name != "findings"} == {
        "file": "run.jsonl",
        "form": "task B",
        "n_lines": 14,
        "passes": False,
        "counts": {"problem": 1, "warning": 12, "note": 2},
        "unchecked": ["whether the passages exist"],
    }
    assert len(report["findings"]) == 15
    assert report["findings"][1] == {
        "line": 2,
        "task_id": "t2",
        "rule": "score",
        "severity": "warning",
        "expected": "contexts[2] with a score",
        "found": "9",
        "consequence": "it stops",
    }

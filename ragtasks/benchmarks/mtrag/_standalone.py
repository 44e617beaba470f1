"""Which questions can be understood without the conversation, as far as somebody says so.

Nothing is derived here. MTRAG's task file labels seven tasks; the paper's own split of the later turns (555 and 120)
is not published; a rewriter that follows the paper's contract gives a class to each question that it is asked.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from ragtasks.files import Violations, json_lines, labels_of
from ragtasks.ids import normalise_task_id

_TASK_FILE = "mtrag-human/generation_tasks/reference.jsonl"
_STANDALONE = {"Standalone": True, "Non-standalone": False}


@dataclass(frozen=True, slots=True)
class StandaloneLabels:
    """Labels and who gave them."""

    source: str
    """Where the labels come from, for tables."""
    labels: Mapping[str, bool]
    """Query id -> whether it stands alone; queries without a label are missing."""


NO_LABELS = StandaloneLabels("no labels", {})


def read_standalone_labels(root: Path) -> StandaloneLabels:
    """Return the labels in MTRAG's task file (`Standalone Type`: seven tasks of the official one).

    Args:
        root: folder with the benchmark's files.

    Raises:
        BenchmarkFileError: the file is missing or broken, or a label is neither `Standalone` nor `Non-standalone`.
    """
    violations = Violations(root / _TASK_FILE, "MTRAG file", "delete the file and run `ragtasks fetch mtrag`")
    labels: dict[str, bool] = {}
    for line, row in json_lines(violations):
        for label in labels_of(row.get("Standalone Type")):
            task_id = row.get("task_id")
            if label in _STANDALONE and isinstance(task_id, str):
                labels[normalise_task_id(task_id)] = _STANDALONE[label]
            else:
                violations.add(line, f"a task id and a `Standalone Type` of {sorted(_STANDALONE)}", (task_id, label))
    violations.raise_if_any()
    return StandaloneLabels("the benchmark's task file", labels)


__all__ = ["NO_LABELS", "StandaloneLabels", "read_standalone_labels"]

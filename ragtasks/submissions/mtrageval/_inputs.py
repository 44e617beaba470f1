"""The official input: the tasks that a submission must answer, and what goes along with each of them.

A benchmark's own task file has the format of an input file, so both are read the same way. Of a task only what a
participant is given is kept: no target and no label can get from here into a submission.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ragtasks.benchmarks import Benchmark
from ragtasks.benchmarks.mtrag import domain_of, unique_rows
from ragtasks.errors import ConfigurationError, close_matches
from ragtasks.files import Violations, json_lines, passage_of
from ragtasks.ids import normalise_task_id
from ragtasks.records import Passage

_TASK_FILES = {
    "mtrag": "mtrag-human/generation_tasks/reference.jsonl",
    "mtrag_un": "mtragun-human/generation_tasks/reference.jsonl",
}
_ALONG = ("conversation_id", "task_type", "turn", "dataset")


@dataclass(frozen=True, slots=True)
class InputTask:
    """One task as participants are given it."""

    task_id: str
    """Id as the file writes it: official files differ in the separator, and the official checker compares texts."""
    collection: str
    """Name of the corpus, as the file writes it."""
    domain: str | None
    """Short name of the corpus; None for one that is not known."""
    messages: tuple[tuple[str, str], ...]
    """(speaker, text) of the conversation."""
    contexts: tuple[Passage, ...] | None
    """The passages that task B gives; None where the file gives none to any task."""
    along: Mapping[str, Any]
    """Further fields that official files have beside these."""


Inputs = Mapping[str, InputTask]
"""Task id in the one form in use (`ragtasks.ids`) -> task, in the order of the file."""


def benchmark_inputs(benchmark: Benchmark) -> Inputs:
    """Return the input of a benchmark: all its tasks.

    Raises:
        BenchmarkFileError: its task file is missing or broken.
        ConfigurationError: a benchmark that MTRAGEval does not use.
    """
    if benchmark.name not in _TASK_FILES:
        hint = close_matches(benchmark.name, _TASK_FILES)
        raise ConfigurationError(f"MTRAGEval has no tasks of benchmark {benchmark.name!r}: {hint}")
    return read_inputs(benchmark.root / _TASK_FILES[benchmark.name])


def read_inputs(path: Path) -> Inputs:
    """Return the tasks of an official input file.

    Raises:
        BenchmarkFileError: the file is missing or broken; all its violations by line.
    """
    violations = Violations(path, "input of MTRAGEval", "take the input file that the organisers published")
    rows = unique_rows(list(json_lines(violations)), violations)
    found = [task for line, row in rows if (task := _input_task(line, row, violations))]
    violations.raise_if_any()
    return {normalise_task_id(task.task_id): task for task in found}


def _input_task(line: int, row: Mapping[str, Any], violations: Violations) -> InputTask | None:
    """Return the task of one line, or None after noting what is wrong with it."""
    before = len(violations)
    task_id = row.get("task_id")
    try:
        normalise_task_id(task_id if isinstance(task_id, str) else "")
    except ValueError:
        violations.add(line, "`task_id` such as <conversation><::><turn>", task_id)
    messages = messages_of(row.get("input"))
    if not messages:
        violations.add(line, "`input` with speakers and texts", row.get("input"), str(task_id))
    raw = row.get("contexts", [])
    contexts = [passage_of(item, "document_id") for item in raw] if isinstance(raw, list) else [None]
    if None in contexts:
        violations.add(line, "`contexts` with texts as `document_id` and `text`", raw, str(task_id))
    if len(violations) > before:
        return None
    collection = row.get("Collection", row.get("collection"))
    return InputTask(
        task_id=str(task_id),
        collection=collection if isinstance(collection, str) else "",
        domain=domain_of(collection),
        messages=messages,
        contexts=tuple(item for item in contexts if item) if "contexts" in row else None,
        along={key: row[key] for key in _ALONG if key in row},
    )


def messages_of(value: object) -> tuple[tuple[str, str], ...]:
    """Return (speaker, text) of the messages of an `input`; () where it is no list of messages."""
    if not isinstance(value, list) or not all(isinstance(item, dict) for item in value):
        return ()
    pairs = [(item.get("speaker"), item.get("text")) for item in value]
    kept = tuple((speaker, text) for speaker, text in pairs if isinstance(speaker, str) and isinstance(text, str))
    return kept if len(kept) == len(pairs) else ()


__all__ = ["InputTask", "Inputs", "benchmark_inputs", "messages_of", "read_inputs"]

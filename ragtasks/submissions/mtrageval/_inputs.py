"""Official input of MTRAGEval: the tasks of a submission, with their other fields.

A benchmark's task file has the format of an input file, so one reader handles both. It reads only the fields that
participants receive, so targets and labels cannot reach a submission.
"""

from __future__ import annotations

import io
import zipfile
import zlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

from ragtasks.benchmarks import Benchmark, retrieval_side, unique_rows
from ragtasks.benchmarks.mtrag import domain_of
from ragtasks.errors import BenchmarkFileError, ConfigurationError, close_matches
from ragtasks.files import Problems, bounded_lines, json_lines, parse_json, passage_of
from ragtasks.records import Passage, normalise_task_id

_TASK_FILES = {
    "mtrag": "mtrag-human/generation_tasks/reference.jsonl",
    "mtrag_un": "mtragun-human/generation_tasks/reference.jsonl",
}
_FURTHER_FIELDS = ("conversation_id", "task_type", "turn", "dataset")


@dataclass(frozen=True, slots=True)
class InputTask:
    """A task as participants receive it."""

    task_id: str
    """Id as in the file. Official files use different separators, and the official checker compares strings."""
    collection: str
    """Name of the corpus, as in the file."""
    domain: str | None
    """Short name of the corpus; None if it is unknown."""
    messages: tuple[tuple[str, str], ...]
    """(speaker, text) of each message."""
    contexts: tuple[Passage, ...] | None
    """Passages for task B; None if the file contains no passages."""
    further_fields: Mapping[str, Any]


Inputs = Mapping[str, InputTask]
"""Normalized task id -> task, in file order."""


def benchmark_inputs(benchmark: Benchmark) -> Inputs:
    """Return the input of a benchmark: all its tasks."""
    if benchmark.name not in _TASK_FILES:
        hint = close_matches(benchmark.name, _TASK_FILES)
        raise ConfigurationError(f"MTRAGEval has no tasks of benchmark {benchmark.name!r}: {hint}")
    return read_inputs(benchmark.root / _TASK_FILES[benchmark.name])


def read_inputs(path: Path) -> Inputs:
    """Return the tasks of an official input file."""
    problems = Problems(path, "input of MTRAGEval", "use the input file published by the organizers")
    tasks = ((line, _input_task(line, row, problems)) for line, row in json_lines(problems))
    tasks_by_id = unique_rows(
        problems, ((line, normalise_task_id(task.task_id), task) for line, task in tasks if task), "task"
    )
    problems.raise_if_any()
    return tasks_by_id


def _input_task(line: int, row: Mapping[str, Any], problems: Problems) -> InputTask | None:
    """Return the task of a line. For an invalid line, add the problems and return None."""
    before = len(problems)
    task_id = row.get("task_id")
    try:
        normalise_task_id(task_id if isinstance(task_id, str) else "")
    except ValueError:
        problems.add(line, "`task_id` such as <conversation><::><turn>", task_id)
    messages = messages_of(row.get("input"))
    if not messages:
        problems.add(line, "`input` with speakers and texts", row.get("input"), str(task_id))
    raw = row.get("contexts", [])
    contexts = [passage_of(context, "document_id") for context in raw] if isinstance(raw, list) else [None]
    if None in contexts:
        problems.add(line, "`contexts` with texts as `document_id` and `text`", raw, str(task_id))
    if len(problems) > before:
        return None
    collection = row.get("Collection", row.get("collection"))
    return InputTask(
        task_id=str(task_id),
        collection=collection if isinstance(collection, str) else "",
        domain=domain_of(collection),
        messages=messages,
        contexts=tuple(context for context in contexts if context) if "contexts" in row else None,
        further_fields={key: row[key] for key in _FURTHER_FIELDS if key in row},
    )


def messages_of(value: object) -> tuple[tuple[str, str], ...]:
    """Return (speaker, text) of the messages of an `input`; () for an invalid list."""
    if not isinstance(value, list) or not all(isinstance(message, dict) for message in value):
        return ()
    pairs = [(message.get("speaker"), message.get("text")) for message in value]
    messages = tuple((speaker, text) for speaker, text in pairs if isinstance(speaker, str) and isinstance(text, str))
    return messages if len(messages) == len(pairs) else ()


# Document ids of a benchmark's corpora, if they are on this machine.

_BLOCK = 1 << 20  # read-ahead: zipfile's own readline with a limit is slow

Documents = Mapping[str, frozenset[str]]
"""Short name of a corpus -> ids of its documents."""


def document_ids_by_domain(benchmark: Benchmark) -> Documents:
    """Return the document ids of every corpus that the benchmark's tasks search."""
    side = retrieval_side(benchmark.name)
    domains = {task.domain for task in benchmark.tasks}
    files = {domain: side.corpus_file(benchmark.root, domain) for domain in side.domains if domain in domains}
    return {domain: frozenset(document_ids(path)) for domain, path in files.items()}


def document_ids(path: Path) -> Iterator[str]:
    """Yield the document ids of a zipped corpus, read as a stream."""
    number = 0
    # `number` is used after the loop: the error reports how far the file was read.
    try:
        with zipfile.ZipFile(path) as archive, archive.open(archive.namelist()[0]) as member:
            lines = io.BufferedReader(cast(io.RawIOBase, member), _BLOCK)
            for number, line in enumerate(bounded_lines(lines), start=1):  # noqa: B007
                if line.strip():
                    yield str(parse_json(line)["_id"])
    # Errors of damaged streams. zipfile raises RuntimeError for a password or an unknown method.
    except (zipfile.BadZipFile, zlib.error, EOFError, OSError, RuntimeError, ValueError, LookupError, TypeError) as e:
        raise BenchmarkFileError(
            "corpus",
            where=f"{path}, line {number}",
            expected="a zip with one file of JSON lines with `_id`",
            found=f"{type(e).__name__}: {e}",
            next_step="fetch the corpora again, or leave documents unchecked with --no-documents",
        ) from e

"""Docs: flat dictionaries of a task and its passages for templates, models and logs.

A doc contains only lists, numbers and text, so that it survives the harness's dataset, its JSON logs and its process
boundaries. Fields that only one benchmark has are stored in `extra` as a JSON text, since a dataset has one type per
field. `response_of` converts a doc and an answer back to records for scoring.
"""

from __future__ import annotations

import functools
import json
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from pydantic import TypeAdapter

from ragtasks.benchmarks._definition import Benchmark
from ragtasks.benchmarks._registry import DEFAULT_BENCHMARK, SAMPLE
from ragtasks.errors import CacheError, ConfigurationError, RagtasksError, close_matches
from ragtasks.files import CLOSED_BOOK, MANIFEST, OFFICIAL, canonical_hash, read_contexts, read_manifest, run_folder
from ragtasks.records import (
    Answerability,
    Contexts,
    Message,
    Passage,
    Response,
    Role,
    Setting,
    Task,
    Trajectory,
)

Doc = dict[str, Any]


def build_docs(
    benchmark: Benchmark, setting: Setting, domain: str | None, *, conversational: bool, contexts: Contexts
) -> list[Doc]:
    """Return the docs of a harness task, in the order of the benchmark."""
    tasks = [
        task
        for task in benchmark.tasks
        if domain in {None, task.domain}
        and task.task_id in contexts.passages
        and (conversational or task.answerability is not Answerability.CONVERSATIONAL)
    ]
    return [build_doc(benchmark, task, setting, contexts.run, contexts.passages[task.task_id]) for task in tasks]


def build_doc(benchmark: Benchmark, task: Task, setting: Setting, run: str, passages: tuple[Passage, ...]) -> Doc:
    """Return the doc of a task with its passages."""
    return {
        "benchmark": benchmark.name,
        "is_sample": benchmark.is_sample,
        "task_id": task.task_id,
        "conversation_id": task.conversation_id,
        "turn": task.turn,
        "domain": task.domain,
        "setting": setting.value,
        "run": run,
        "answerability": task.answerability.value,
        "question_types": list(task.question_types),
        "multi_turn": task.multi_turn,
        "history": [{"role": message.role.value, "content": message.text} for message in task.messages[:-1]],
        "question": task.question,
        "passages": passage_rows(passages),
        "references": [passage.passage_id for passage in task.references],
        "target": task.target,
        "extra": json.dumps(dict(task.extra), ensure_ascii=False),
    }


def passage_rows(passages: Iterable[Passage]) -> list[dict[str, str]]:
    """Return passages in the format of a doc."""
    return [{"passage_id": passage.passage_id, "title": passage.title, "text": passage.text} for passage in passages]


def response_of(doc: Mapping[str, Any], text: str) -> Response:
    """Return the response `text` to a doc as a record. The doc's `no_answer` is the reason for a missing response.

    Metrics read the text without surrounding blanks. `Response.verbatim` keeps the original for display. The reference
    passages of the record contain ids only, because a doc does not contain their texts.
    """
    messages = tuple(Message(_ROLES[row["role"]], row["content"]) for row in doc["history"])
    task = Task(
        task_id=doc["task_id"],
        conversation_id=doc["conversation_id"],
        turn=doc["turn"],
        domain=doc["domain"],
        messages=(*messages, Message(Role.USER, doc["question"])),
        target=doc["target"],
        answerability=Answerability(doc["answerability"]),
        question_types=tuple(doc["question_types"]),
        multi_turn=doc["multi_turn"],
        references=tuple(Passage(passage_id, "") for passage_id in doc["references"]),
        extra=json.loads(doc.get("extra", "{}")),  # missing in answers saved by earlier versions
    )
    passages = tuple(Passage(row["passage_id"], row["text"], row["title"]) for row in doc["passages"])
    bare = text.strip()
    return Response(
        task,
        passages,
        bare,
        str(doc.get("no_answer") or ""),
        verbatim=None if bare == text else text,
        trajectory=_trajectories().validate_python(doc["trajectory"]) if doc.get("trajectory") else None,
    )


_ROLES = {role.value: role for role in Role}


@functools.cache
def _trajectories() -> TypeAdapter[Trajectory]:
    return TypeAdapter(Trajectory)


def trajectory_row(trajectory: Trajectory) -> dict[str, Any]:
    """Return a trajectory in the format of a doc. Steps omit default values."""
    row = _trajectories().dump_python(trajectory, mode="json")
    short = _trajectories().dump_python(trajectory, mode="json", exclude_defaults=True)
    return {**row, "steps": short.get("steps", [])}


# The passages of a setting's tasks: published, from a stored run, or none.


def tasks_checksum(tasks: Iterable[Task]) -> str:
    """Return a hash of ids and questions, which identifies the tasks of a run."""
    return canonical_hash([[task.task_id, task.question] for task in tasks])


def contexts_for(benchmark: Benchmark, setting: Setting, run: str, store: Path) -> Contexts:
    """Return the passages of each task in a setting."""
    if run == CLOSED_BOOK or setting is Setting.AGENTIC:
        task_ids = [task.task_id for task in benchmark.tasks if benchmark.belongs(task, setting)]
        return Contexts(run, setting, dict.fromkeys(task_ids, ()))
    if run == OFFICIAL or setting is Setting.REFERENCE:
        return benchmark.read_contexts(setting)
    return contexts_of_run(store, run, benchmark, setting)


def published_passages(benchmark: Benchmark) -> Mapping[str, tuple[Passage, ...]]:
    """Return task id -> retrieved passages that the benchmark publishes, best first: the run `OFFICIAL`."""
    try:
        return benchmark.read_contexts(Setting.FULL_RAG).passages
    except ConfigurationError as error:
        command = f"ragtasks retrieve --retriever bm25 --benchmark {benchmark.name}"
        raise ConfigurationError(
            f"run {OFFICIAL!r}",
            where=benchmark.label,
            expected="retrieved passages that the benchmark publishes",
            found=f"none ({str(error).splitlines()[0]})",
            next_step=f"name your own run; `{command}` creates one",
        ) from error


_LONGEST_METHOD, _LONGEST_DATA = 50, 16  # characters in a default name; a key may follow


def default_run_name(method: str, benchmark: Benchmark) -> str:
    """Return the default name of a run: retriever and query form (`method`), and the data."""
    return f"{_slug(method, _LONGEST_METHOD) or 'run'}{_data_suffix(benchmark)}"


def stored_name(store: Path, name: str, benchmark: Benchmark) -> str:
    """Return the full name of a stored run. The given name may omit the suffix for the data.

    A run of exactly this name takes precedence, unless it was made for other data.
    """
    folder, full = run_folder(store, name), f"{name}{_data_suffix(benchmark)}"
    if not (folder.with_name(full) / MANIFEST).is_file():
        return name
    spec = read_manifest(folder).spec if (folder / MANIFEST).is_file() else {}
    is_of_data = (spec.get("benchmark"), spec.get("is_sample")) == (benchmark.name, benchmark.is_sample)
    return name if is_of_data else full


def _data_suffix(benchmark: Benchmark) -> str:
    """Return the suffix of a run name for the data; empty for the default benchmark."""
    names = [benchmark.name] if benchmark.name != DEFAULT_BENCHMARK else []
    names += [benchmark.copy] if benchmark.copy else []
    names += [SAMPLE] if benchmark.is_sample else []
    return "".join(f".{slug}" for name in names if (slug := _slug(name, _LONGEST_DATA)))


def _slug(text: str, longest: int) -> str:
    safe = "".join(sign if (sign.isascii() and sign.isalnum()) or sign in "._-" else "-" for sign in text)
    return safe.strip("-.")[:longest]


def contexts_of_run(store: Path, name: str, benchmark: Benchmark, setting: Setting) -> Contexts:
    """Return the passages of a stored run for the tasks of a setting. The run must be made for this benchmark."""
    name = stored_name(store, name, benchmark)
    folder = run_folder(store, name)
    if not (folder / MANIFEST).is_file():
        names = sorted(path.parent.name for path in (store / "runs").glob(f"*/{MANIFEST}"))
        hint = close_matches(name, [*names, OFFICIAL, CLOSED_BOOK])
        retriever = f"run:{name} --name {Path(name).stem}" if Path(name).is_file() else "bm25"
        data = " --data sample" if benchmark.is_sample else ""
        step = f"make one with `ragtasks retrieve --benchmark {benchmark.name}{data} --retriever {retriever}`"
        raise CacheError(f"no run {name!r} in {store / 'runs'}: {step}; {hint}")
    spec = read_manifest(folder).spec
    expected = {
        "benchmark": benchmark.name,
        "is_sample": benchmark.is_sample,
        "revision": benchmark.revision,
        "tasks": tasks_checksum(benchmark.tasks),
    }
    differing = [
        f"{key}: run {spec.get(key)!r}, here {value!r}" for key, value in expected.items() if spec.get(key) != value
    ]
    if differing:
        raise CacheError(f"run {name!r} was made for other data than {benchmark.label}: " + "; ".join(differing))
    return read_contexts(folder, setting)


# Tasks for users' own systems, without anything that reveals the answer.


def exported_tasks(
    benchmark: Benchmark, contexts: Contexts, *, conversational: bool = False, with_contexts: bool = True
) -> Iterator[dict[str, Any]]:
    """Yield one object per task of a setting, in benchmark order: `id`, `domain`, `messages`, `contexts`.

    Reference answers, reference passages and labels are omitted, unless the setting provides the passages.
    """
    for task in benchmark.tasks:
        is_counted = conversational or task.answerability is not Answerability.CONVERSATIONAL
        if is_counted and task.task_id in contexts.passages:
            yield exported_task(task, contexts.passages[task.task_id] if with_contexts else None)


def contexts_to_export(benchmark: Benchmark, setting: Setting, run: str, store: Path, *, is_needed: bool) -> Contexts:
    """Return the passages of a setting's tasks. In `full_rag` they are empty if unavailable and not needed."""
    try:
        return contexts_for(benchmark, setting, run, store)
    except RagtasksError:
        if is_needed or setting is not Setting.FULL_RAG:
            raise
        return Contexts(run, setting, {task.task_id: () for task in benchmark.tasks})


def exported_task(task: Task, passages: tuple[Passage, ...] | None) -> dict[str, Any]:
    """Return the input of a system for one task; `contexts` only if passages are provided."""
    row: dict[str, Any] = {
        "id": task.task_id,
        "domain": task.domain,
        "messages": [{"role": message.role.value, "content": message.text} for message in task.messages],
    }
    if passages is not None:
        row["contexts"] = [
            {"id": passage.passage_id, "title": passage.title, "text": passage.text} for passage in passages
        ]
    return row

"""Tasks as a system of one's own is asked them: what it may see, and nothing that gives the answer away."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from ragtasks.benchmarks._benchmark import Benchmark
from ragtasks.benchmarks._contexts import contexts_for
from ragtasks.errors import RagtasksError
from ragtasks.records import Answerability, Contexts, Passage, Setting, Task


def exported_tasks(
    benchmark: Benchmark, contexts: Contexts, *, conversational: bool = False, with_contexts: bool = True
) -> Iterator[dict[str, Any]]:
    """Yield one object a task of a setting, in the order of the benchmark: `id`, `domain`, `messages`, `contexts`.

    Neither reference answers nor reference passages nor labels are in it, unless the setting gives the passages.

    Args:
        benchmark: where the tasks come from.
        contexts: task id -> passages that the setting gives.
        conversational: whether conversational tasks take part.
        with_contexts: whether `contexts` is there: not for a system that retrieves for itself.
    """
    for task in benchmark.tasks:
        is_counted = conversational or task.answerability is not Answerability.CONVERSATIONAL
        if is_counted and task.task_id in contexts.passages:
            yield exported_task(task, contexts.passages[task.task_id] if with_contexts else None)


def contexts_to_export(benchmark: Benchmark, setting: Setting, run: str, store: Path, *, is_needed: bool) -> Contexts:
    """Return the passages of a setting's tasks; a system that retrieves for itself needs none of full RAG.

    Args:
        benchmark: where the tasks come from.
        setting: decides which tasks there are.
        run: the run that gives the passages.
        store: folder of the stored runs.
        is_needed: whether the passages are to be exported.

    Raises:
        BenchmarkFileError, CacheError, ConfigurationError: as `contexts_for`.
    """
    try:
        return contexts_for(benchmark, setting, run, store)
    except RagtasksError:
        if is_needed or setting is not Setting.FULL_RAG:
            raise
        return Contexts(run, setting, {task.task_id: () for task in benchmark.tasks})


def exported_task(task: Task, passages: tuple[Passage, ...] | None) -> dict[str, Any]:
    """Return what a system is shown of one task; `contexts` only where there are passages to be given."""
    shown: dict[str, Any] = {
        "id": task.task_id,
        "domain": task.domain,
        "messages": [{"role": message.role.value, "content": message.text} for message in task.messages],
    }
    if passages is not None:
        shown["contexts"] = [{"id": item.passage_id, "title": item.title, "text": item.text} for item in passages]
    return shown


__all__ = ["contexts_to_export", "exported_task", "exported_tasks"]

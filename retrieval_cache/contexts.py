"""From a ranking to what a model is shown: the passages of each setting, task by task (MTRAG paper, section 6.1)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from ragtasks.files import Run
from ragtasks.records import Passage, Setting, Task

N_PASSAGES = 5
"""Passages a task of MTRAG is given (paper, section 6); another benchmark may say another number."""
MAX_REFERENCES = 2
"""`reference_rag` keeps the tasks with at most this many reference passages."""


def needed_passages(run: Run, n_passages: int = N_PASSAGES) -> frozenset[str]:
    """Return the ids of all passages that some task could be given."""
    return frozenset(item.passage_id for ranking in run.values() for item in ranking[:n_passages])


def contexts_of_setting(
    tasks: Sequence[Task], setting: Setting, run: Run, texts: Mapping[str, Passage], n_passages: int = N_PASSAGES
) -> dict[str, tuple[Passage, ...]]:
    """Return task id -> passages of a setting, for the tasks that belong to it.

    `full_rag`: the first of the ranking. `reference_rag`: the reference passages, then the ranking's best others until
    there are `n_passages`. A task whose query found nothing has no retrieved passage.

    Args:
        tasks: all tasks of the benchmark.
        setting: `full_rag` or `reference_rag`.
        run: rankings.
        texts: passage id -> passage, for at least `needed_passages(run, n_passages)`.
        n_passages: how many passages a task is given.
    """
    if setting is Setting.FULL_RAG:
        return {task.task_id: _retrieved(task, run, texts, n_passages) for task in tasks}
    few = [task for task in tasks if len(task.references) <= MAX_REFERENCES]
    return {task.task_id: _filled(task, _retrieved(task, run, texts, n_passages), n_passages) for task in few}


def _retrieved(task: Task, run: Run, texts: Mapping[str, Passage], n_passages: int) -> tuple[Passage, ...]:
    return tuple(texts[item.passage_id] for item in run.get(task.task_id, ())[:n_passages])


def _filled(task: Task, retrieved: tuple[Passage, ...], n_passages: int) -> tuple[Passage, ...]:
    known = {passage.passage_id for passage in task.references}
    others = [passage for passage in retrieved if passage.passage_id not in known]
    return (*task.references, *others)[:n_passages]


__all__ = ["MAX_REFERENCES", "N_PASSAGES", "contexts_of_setting", "needed_passages"]

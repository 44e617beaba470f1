"""Which passages given answers rest on: those that the system says it used, else those of the setting."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from ragtasks.benchmarks import Benchmark, contexts_for
from ragtasks.errors import ConfigurationError, RagtasksError, clear_error
from ragtasks.files import OFFICIAL
from ragtasks.logs._given_answers import GivenAnswer
from ragtasks.records import Contexts, Passage, Setting

OWN_CONTEXTS = "file"
"""Stands for the run where the answers themselves say which passages they rest on."""

_MOST_SHOWN = 5


def contexts_of_answers(
    given: Mapping[str, GivenAnswer], benchmark: Benchmark, setting: Setting, run: str, store: Path
) -> Contexts:
    """Return the passages that each task of a setting was given, as far as its answer does not say otherwise.

    Its run is `OWN_CONTEXTS` where every answer has passages of its own, and they are not those of the setting.

    Args:
        given: task id -> answer.
        benchmark: what was answered.
        setting: whose passages answers without their own were given; decides which tasks there are.
        run: the run that gave them.
        store: folder of the stored runs.

    Raises:
        BenchmarkFileError, CacheError: as `ragtasks.benchmarks.contexts_for`.
        ConfigurationError: the setting has no passages and an answer has none either, or an answer to a task that is
            not one of the setting.
    """
    own = {task_id: answer.passages for task_id, answer in given.items() if answer.passages is not None}
    is_own = bool(own) and all(item.passages is not None or item.no_answer for item in given.values())
    try:
        published = contexts_for(benchmark, setting, run, store).passages
    except RagtasksError as error:
        if not is_own or run != OFFICIAL or setting is Setting.REFERENCE_RAG:
            raise _no_passages(benchmark, setting, len(given) - len(own), error) if not is_own else error from error
        published = {task.task_id: () for task in benchmark.tasks}
    if outside := [task_id for task_id in given if task_id not in published]:
        raise _outside(benchmark, setting, outside)
    differs = any(_key(passages) != _key(published[task_id]) for task_id, passages in own.items())
    return Contexts(OWN_CONTEXTS if is_own and differs else run, setting, {**published, **own})


def _key(passages: Sequence[Passage]) -> list[tuple[str, str]]:
    return [(passage.passage_id, passage.text) for passage in passages]


def _no_passages(benchmark: Benchmark, setting: Setting, n: int, error: RagtasksError) -> RagtasksError:
    if not isinstance(error, ConfigurationError):
        return error
    return ConfigurationError(
        clear_error(
            "answers",
            where=f"to {benchmark.label} in setting {setting.value}",
            expected="`contexts` in every answer, as the setting has no passages of its own",
            found=f"{n} answers without ({str(error).splitlines()[0]})",
            next_step="write what each answer rests on as `contexts`, or name a stored run with --run",
        )
    )


def _outside(benchmark: Benchmark, setting: Setting, ids: Sequence[str]) -> ConfigurationError:
    more = f" and {len(ids) - _MOST_SHOWN} more" if len(ids) > _MOST_SHOWN else ""
    return ConfigurationError(
        clear_error(
            "answers",
            where=f"to {benchmark.label}",
            expected=f"tasks of the setting {setting.value}",
            found=f"{len(ids)} answers to others: {', '.join(ids[:_MOST_SHOWN])}{more}",
            next_step="name the setting that was answered; `ragtasks export-tasks` lists its tasks",
        )
    )


__all__ = ["OWN_CONTEXTS", "contexts_of_answers"]

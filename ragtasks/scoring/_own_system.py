"""Scores the answers of a system of one's own, in the one pass and into the one layout of every evaluation."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ragtasks.benchmarks import Benchmark
from ragtasks.config import EvaluationConfig, config_from_options
from ragtasks.errors import ConfigurationError
from ragtasks.logs import GivenAnswer, answers_evaluation, contexts_of_answers
from ragtasks.records import Answerability, Contexts, Setting, Task
from ragtasks.scoring._asking import unfinished_file
from ragtasks.scoring._failures import take_failures
from ragtasks.scoring._judge import Place, open_named, require_leave, score_tasks
from ragtasks.scoring._plausibility import CheckedAnswers, require_plausible
from ragtasks.scoring._ready_judge import LocalJudge
from ragtasks.scoring._results_layout import write_results

_NOT_IN_NAMES = re.compile(r"[^A-Za-z0-9.-]+")

Answering = Callable[[Benchmark, EvaluationConfig, Path], Mapping[str, GivenAnswer]]
"""(benchmark, configuration, results file that will be written) -> task id -> answer."""


@dataclass(frozen=True, slots=True)
class OwnSystem:
    """Whose answers are scored, and to what."""

    name: str
    """Name for tables and files."""
    benchmark: str
    """Name of the benchmark."""
    setting: Setting | None
    """Whose passages it was given; None where it retrieved for itself, which is full RAG."""
    source: Path
    """Where its answers come from: a file, or the folder of what an endpoint replied."""


@dataclass(frozen=True, slots=True)
class OwnScores:
    """What was scored and written."""

    file: Path
    """The results file; the samples lie beside it."""
    n_tasks: int
    """Tasks that the setting has, conversational ones only where they count."""
    missing: Mapping[str, int]
    """Domain -> its tasks without an answer; empty where there are none."""
    n_own_contexts: int
    """Answers that say what they rest on."""
    n_without: int
    """Answers that rest on no passage at all, as far as is known."""
    n_answers: int
    """Answers in the results."""
    n_failed: int
    """Requests that brought none; they are in the results, unscored."""
    problems: tuple[str, ...]
    """What failed on the way; everything is saved."""
    checked: tuple[CheckedAnswers, ...] = ()
    """Which answers cannot be answers; one setting, none of a baseline."""
    max_implausible: float = 1.0
    """Share of them up to which the command ends well."""

    def require_plausible(self) -> None:
        """Refuse answers of which too many cannot be answers.

        Raises:
            ImplausibleError: they are more than the configuration allows.
        """
        require_plausible(self.checked, self.max_implausible, f"everything is saved in {self.file}")


def score_own(
    system: OwnSystem,
    answering: Answering,
    options: Mapping[str, Any],
    output: Path,
    place: Place,
    *,
    may_replace: Callable[[Sequence[Path]], bool] = lambda _: False,
    local_judge: LocalJudge | None = None,
) -> OwnScores:
    """Return what was scored, and written below `output` as the harness writes its results.

    Args:
        system: whose answers, and to what.
        answering: gives the answers; called once everything else is known to be usable.
        options: keys of `EvaluationConfig`.
        output: a folder.
        place: where benchmarks and runs are.
        may_replace: asked, before anything is answered or scored, with the results that would be replaced.
        local_judge: loads judges that are models of this process; None: there are none.

    Raises:
        BenchmarkFileError: the benchmark's files are missing or broken, or answers with errors, by line.
        ConfigurationError: an option that cannot be used, answers without passages in a setting that has none, or
            results that may not be replaced.
        CacheError: the output cannot be written.
    """
    take_failures()  # what an earlier evaluation left in this process
    config = config_from_options(options)
    benchmark = open_named(system.benchmark, config.data, place)
    time = _file_name(system, benchmark)
    file = output / _slug(system.name) / f"results_{time}.json"
    if not unfinished_file(file).exists():  # else these results are to be completed
        require_leave(output, [file], may_replace)
    given = answering(benchmark, config, file)
    setting = system.setting or _own_setting(given)
    contexts = contexts_of_answers(given, benchmark, setting, config.run, place.run_store)
    evaluation = answers_evaluation(
        given,
        benchmark,
        contexts,
        config=config,
        source=system.source,
        folder=file.parent,
        name=system.name,
        time=time,
    )
    checked = write_results(evaluation, file, list(score_tasks(evaluation.tasks, place, local_judge)))
    problems = tuple(take_failures())
    if not problems:
        unfinished_file(file).unlink(missing_ok=True)
    asked = [task for task in benchmark.tasks if _counts(task, contexts, config)]
    missing = Counter(task.domain for task in asked if task.task_id not in given)
    found = [given[task.task_id] for task in asked if task.task_id in given]
    answered = [answer for answer in found if not answer.no_answer]
    return OwnScores(
        file,
        n_tasks=len(asked),
        missing=missing,
        n_own_contexts=sum(answer.passages is not None for answer in answered),
        n_answers=len(answered),
        n_without=sum(answer.passages == () for answer in answered),
        n_failed=len(found) - len(answered),
        problems=problems,
        checked=tuple(checked),
        max_implausible=config.max_implausible,
    )


def _counts(task: Task, contexts: Contexts, config: EvaluationConfig) -> bool:
    is_counted = config.conversational or task.answerability is not Answerability.CONVERSATIONAL
    return is_counted and task.task_id in contexts.passages


def _own_setting(given: Mapping[str, GivenAnswer]) -> Setting:
    bare = [task_id for task_id, answer in given.items() if answer.passages is None and not answer.no_answer]
    if bare:
        raise ConfigurationError(
            f"{len(bare)} of {len(given)} answers have no `contexts`. Next step: give --setting "
            f"({', '.join(setting.value for setting in Setting)}), whose passages they were given, or `contexts`"
        )
    return Setting.FULL_RAG


def _file_name(system: OwnSystem, benchmark: Benchmark) -> str:
    """Return what tells the files of one setting of one benchmark from others of the same system."""
    setting = system.setting or Setting.FULL_RAG
    parts = (system.name, system.benchmark, setting.value, *(["sample"] if benchmark.is_sample else []))
    return "-".join(_slug(part) for part in parts)


def _slug(text: str) -> str:
    """Return a text as part of a file's name; the name of a file of samples is taken apart at `_`."""
    return _NOT_IN_NAMES.sub("-", text).strip("-.") or "system"


__all__ = ["OwnScores", "OwnSystem", "score_own"]

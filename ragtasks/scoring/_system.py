"""Scoring of the answers of a user's system, in the same pass and layout as every evaluation."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from ragtasks.benchmarks import ROWS, Benchmark, Doc, contexts_to_export, exported_tasks
from ragtasks.clients import (
    CachedClient,
    ChatMessage,
    Endpoint,
    EndpointError,
    Journal,
    Outcome,
    Prompt,
    Reply,
    Secrets,
    SystemClient,
    SystemProtocol,
    calls_of,
)
from ragtasks.config import EvaluationConfig, config_from_options
from ragtasks.errors import ConfigurationError, ModelError
from ragtasks.progress import progress_bars
from ragtasks.records import Answerability, Contexts, Setting, Task
from ragtasks.results import GivenAnswer, OwnRows, SavedEvaluation, answers_evaluation, contexts_of_answers
from ragtasks.scoring._failures import record_unanswered, take_failures
from ragtasks.scoring._judge import (
    Folders,
    mark_unfinished,
    open_named,
    require_replaceable,
    score_tasks,
    unfinished_file,
)
from ragtasks.scoring._judging import LocalJudge
from ragtasks.scoring._plausibility import CheckedAnswers, require_plausible
from ragtasks.scoring._results_layout import write_results

_NOT_IN_NAMES = re.compile(r"[^A-Za-z0-9.-]+")

Answering = Callable[[Benchmark, EvaluationConfig, Path], Mapping[str, GivenAnswer]]
"""(benchmark, configuration, future results file) -> task id -> answer."""


@dataclass(frozen=True, slots=True)
class ScoredSystem:
    """A system, and the benchmark and setting it answered."""

    name: str
    """Name for tables and files."""
    benchmark: str
    setting: Setting | None
    """Setting whose passages it received; None if it retrieved its own, which is full RAG."""
    source: Path
    """Source of its answers: a file, or the folder of an endpoint's replies."""


@dataclass(frozen=True, slots=True)
class SystemScores:
    """Summary of the scored and written answers."""

    file: Path
    n_tasks: int
    """Tasks of the setting; conversational ones only if they count."""
    missing: Mapping[str, int]
    """Domain -> number of its tasks without an answer."""
    n_own_contexts: int
    """Answers that name their passages."""
    n_without: int
    """Answers known to have no passages."""
    n_searched: int
    """Answers that list their searches."""
    is_agentic: bool
    """Whether searches are scored: in the setting `agentic`, and for the user's own rows."""
    n_answers: int
    n_failed: int
    """Failed requests; they are in the results, unscored."""
    problems: tuple[str, ...]
    """Failures during scoring; everything is saved."""
    checked: tuple[CheckedAnswers, ...] = ()
    """Plausibility checks of the setting; empty for a baseline."""
    max_implausible: float = 1.0
    """Maximum share of implausible answers for a successful exit."""
    n_left_out: int = 0
    """Answers to conversational tasks, which do not count."""
    is_own_rows: bool = False
    """Whether the questions are from the user's own rows, not a benchmark."""

    def require_plausible(self) -> None:
        """Raise ImplausibleError if too many answers are implausible."""
        require_plausible(self.checked, self.max_implausible, f"everything is saved in {self.file}")


@dataclass(frozen=True, slots=True)
class SystemAnswers:
    """The requests to a system and its answers, ready for scoring."""

    benchmark: Benchmark
    contexts: Contexts
    config: EvaluationConfig
    by_task: Mapping[str, GivenAnswer]
    evaluation: SavedEvaluation
    """The answers, as if logged by the harness."""
    file: Path


def system_to_score(
    system: ScoredSystem,
    answering: Answering,
    options: Mapping[str, Any],
    output: Path,
    folders: Folders,
    *,
    may_replace: Callable[[Sequence[Path]], bool] = lambda _: False,
) -> SystemAnswers:
    """Return the answers to a benchmark, read or requested; their results are written below `output` later."""
    take_failures()  # left by an earlier evaluation in this process
    config = config_from_options(options)
    benchmark = open_named(system.benchmark, config.data, folders)
    file = output / _slug(system.name) / f"results_{_file_name(system, benchmark)}.json"
    require_replaceable(output, [file], may_replace)
    answers = answering(benchmark, config, file)
    setting = system.setting or _setting_of(answers)
    contexts = contexts_of_answers(answers, benchmark, setting, config.run, folders.run_store)
    return _to_score(system.name, system.source, (benchmark, contexts, config, answers), file)


def rows_to_score(
    rows: OwnRows,
    options: Mapping[str, Any],
    output: Path,
    *,
    name: str,
    source: Path,
    may_replace: Callable[[Sequence[Path]], bool],
) -> SystemAnswers:
    """Return the answers in the user's own rows; their results are written below `output` later."""
    take_failures()
    config = config_from_options(options)
    file = output / _slug(name) / f"results_{_slug(name)}-{ROWS}.json"
    require_replaceable(output, [file], may_replace)
    return _to_score(name, source, (rows.benchmark, rows.contexts, config, rows.answers), file)


def _to_score(
    name: str,
    source: Path,
    inputs: tuple[Benchmark, Contexts, EvaluationConfig, Mapping[str, GivenAnswer]],
    file: Path,
) -> SystemAnswers:
    benchmark, contexts, config, answers = inputs
    evaluation = answers_evaluation(
        answers,
        benchmark,
        contexts,
        config=config,
        source=source,
        folder=file.parent,
        name=name,
        time=file.stem.removeprefix("results_"),
    )
    return SystemAnswers(*inputs, evaluation, file)


def score_answers(
    answers: SystemAnswers,
    folders: Folders,
    local_judge: LocalJudge | None = None,
    notes: Mapping[str, Any] | None = None,
) -> SystemScores:
    """Score answers and write them in the harness's layout, with `notes` as further entries."""
    config, by_task, file = answers.config, answers.by_task, answers.file
    evaluation = replace(answers.evaluation, results={**answers.evaluation.results, **(notes or {})})
    checked = write_results(evaluation, file, list(score_tasks(evaluation.tasks, folders, local_judge)))
    problems = tuple(take_failures())
    mark_unfinished(file, bool(problems))
    tasks = [task for task in answers.benchmark.tasks if _is_counted(task, answers.contexts, config)]
    missing = Counter(task.domain for task in tasks if task.task_id not in by_task)
    task_answers = [by_task[task.task_id] for task in tasks if task.task_id in by_task]
    answered = [answer for answer in task_answers if not answer.no_answer]
    return SystemScores(
        file,
        n_tasks=len(tasks),
        missing=missing,
        n_own_contexts=sum(answer.passages is not None for answer in answered),
        n_answers=len(answered),
        n_without=sum(answer.passages == () for answer in answered),
        n_searched=sum(answer.trajectory is not None for answer in answered),
        is_agentic=answers.contexts.setting is Setting.AGENTIC or answers.benchmark.name == ROWS,
        n_failed=len(task_answers) - len(answered),
        problems=problems,
        checked=tuple(checked),
        max_implausible=config.max_implausible,
        n_left_out=len(by_task) - len(task_answers),
        is_own_rows=answers.benchmark.name == ROWS,
    )


def _is_counted(task: Task, contexts: Contexts, config: EvaluationConfig) -> bool:
    is_counted = config.conversational or task.answerability is not Answerability.CONVERSATIONAL
    return is_counted and task.task_id in contexts.passages


def _setting_of(answers: Mapping[str, GivenAnswer]) -> Setting:
    bare = [task_id for task_id, answer in answers.items() if answer.passages is None and not answer.no_answer]
    if bare:
        raise ConfigurationError(
            f"{len(bare)} of {len(answers)} answers have no `contexts`. Next step: give --setting "
            f"({', '.join(setting.value for setting in Setting)}), the source of their passages, or add `contexts`"
        )
    return Setting.FULL_RAG


def _file_name(system: ScoredSystem, benchmark: Benchmark) -> str:
    setting = system.setting or Setting.FULL_RAG
    parts = (system.name, system.benchmark, setting.value, *(["sample"] if benchmark.is_sample else []))
    return "-".join(_slug(part) for part in parts)


def _slug(text: str) -> str:
    """Return a text as part of a file name; names of sample files are split at `_`."""
    return _NOT_IN_NAMES.sub("-", text).strip("-.") or "system"


# Requests to a RAG system behind HTTP for every task of a setting; replies are kept until everything is saved.


class System:
    """One RAG system, and the requests for a setting."""

    def __init__(self, endpoint: Endpoint, protocol: SystemProtocol, secrets: Secrets) -> None:
        """Create the client."""
        self._client, self._protocol = SystemClient(endpoint, protocol, secrets), protocol
        self._price = endpoint.price

    def gives_passages(self, setting: Setting) -> bool:
        """Return whether the system is sent passages; in full RAG and agentic settings, it retrieves its own.

        Raises:
            ConfigurationError: the protocol has no field for the setting's passages.
        """
        if setting in {Setting.FULL_RAG, Setting.AGENTIC}:
            return False
        if self._protocol is SystemProtocol.PLAIN:
            return True
        raise ConfigurationError(
            "endpoint",
            where=f"protocol openai in setting {setting.value}",
            expected="setting full_rag or agentic: a chat request has no field for the setting's passages",
            found=f"setting {setting.value}",
            next_step="use --protocol plain; or evaluate the model behind it: `ragtasks run --model "
            "local-chat-completions`, which puts the passages into the system message",
        )

    def ask(
        self,
        tasks: Sequence[Mapping[str, Any]],
        journal: Journal | None = None,
        cache: Path | None = None,
    ) -> list[GivenAnswer]:
        """Return one answer per task, in order; a missing answer has a reason."""
        prompts = [_prompt(task) for task in tasks]
        try:
            with progress_bars() as progress:
                if cache is None:
                    replies = self._client.answer(prompts, progress, journal)
                else:
                    replies = CachedClient(self._client, cache).answer(prompts, progress, journal)
        except EndpointError as error:
            raise ModelError(str(error)) from error
        return [self.answer_in(reply, "contexts" in task) for reply, task in zip(replies, tasks, strict=True)]

    def answer_in(self, reply: Reply, had_passages: bool) -> GivenAnswer:
        """Return the answer in a reply; without passages in request and reply, the answer has none."""
        calls = [call.json_values for call in calls_of(reply, self._price)]
        usage = {**({"calls": calls} if calls else {}), **self._client.usage(reply)}
        if reply.outcome is not Outcome.ANSWERED or reply.text is None:
            return GivenAnswer("", no_answer=reply.reason or "no reply", usage=usage)
        passages, trajectory = self._client.used(reply)
        if passages is None and not had_passages:
            passages = ()
        return GivenAnswer(reply.text, passages, usage=usage, trajectory=trajectory)


def _prompt(task: Mapping[str, Any]) -> Prompt:
    messages = tuple(ChatMessage(message["role"], message["content"]) for message in task["messages"])
    return Prompt(messages, body={key: task[key] for key in ("id", "contexts") if key in task}, kind="answer")


def request_body(doc: Doc, *, with_passages: bool) -> dict[str, Any]:
    """Return the request for a doc, in the form of exported tasks."""
    question = {"role": "user", "content": doc["question"]}
    body = {"id": doc["task_id"], "messages": [*doc["history"], question]}
    if with_passages:
        keys = {"id": "passage_id", "title": "title", "text": "text"}
        body["contexts"] = [{name: passage[key] for name, key in keys.items()} for passage in doc["passages"]]
    return body


def ask_endpoint(
    system: System, setting: Setting, store: Path
) -> Callable[[Benchmark, EvaluationConfig, Path], Mapping[str, GivenAnswer]]:
    """Return the function that requests an answer to every task of a setting, for `system_to_score`."""
    sends_passages = system.gives_passages(setting)

    def answering(benchmark: Benchmark, config: EvaluationConfig, file: Path) -> Mapping[str, GivenAnswer]:
        contexts = contexts_to_export(benchmark, setting, config.run, store, is_needed=sends_passages)
        rows = exported_tasks(benchmark, contexts, conversational=config.conversational, with_contexts=sends_passages)
        tasks = list(rows)
        file.parent.mkdir(parents=True, exist_ok=True)
        answers = system.ask(tasks, cache=unfinished_file(file))
        record_unanswered([answer.no_answer for answer in answers if answer.no_answer], len(answers))
        return {task["id"]: answer for task, answer in zip(tasks, answers, strict=True)}

    return answering

"""Answers of a system of one's own, from a file or as records, as if the harness had logged them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from ragtasks.benchmarks import Benchmark, build_doc, response_of
from ragtasks.config import EvaluationConfig
from ragtasks.logs._answer_contexts import contexts_of_answers
from ragtasks.logs._given_answers import GivenAnswer, read_answers
from ragtasks.logs._saved_answers import SavedEvaluation, SavedTask, unusable
from ragtasks.metrics import answer_text
from ragtasks.records import Answerability, Contexts, Setting
from ragtasks.suites import suite_with

_FILTER, _SAMPLE_FILTER = "none", "sample"


def answers_evaluation(
    given: Mapping[str, GivenAnswer],
    benchmark: Benchmark,
    contexts: Contexts,
    *,
    config: EvaluationConfig,
    source: Path,
    folder: Path,
    name: str,
    time: str,
) -> SavedEvaluation:
    """Return the answers of a system of one's own, as if the harness had logged them.

    Conversational tasks are left out unless the configuration counts them, as in a run of the harness.

    Args:
        given: task id -> answer.
        benchmark: where targets and labels come from.
        contexts: the setting, and the passages that each answer rests on (`contexts_of_answers`).
        config: what to score with.
        source: the file that the answers come from.
        folder: where they belong below an output folder.
        name: the system's name in tables.
        time: what stands in the names of the files that are written, in the place of a time.

    Raises:
        BenchmarkFileError: no answer is left.
    """
    setting, config = contexts.setting, config.model_copy(update={"run": contexts.run})
    rows = [
        _row(
            build_doc(benchmark, task, setting, config.run, contexts.passages[task.task_id]),
            given[task.task_id],
            config.end_of_thinking,
        )
        for task in benchmark.tasks
        if task.task_id in given and (config.conversational or task.answerability is not Answerability.CONVERSATIONAL)
    ]
    if not rows:
        raise unusable("answers", source, "an answer to a task that counts", "none: all tasks are conversational")
    provenance = {
        "benchmark": benchmark.label,
        "suite": suite_with(benchmark.suite, config.metrics),
        "revision": benchmark.revision,
        "setting_tasks": {setting.value: _tasks_to_answer(benchmark, setting, config, rows)},
        "fingerprint": None,
    }
    tasks = tuple(_tasks_of(rows, benchmark, setting, config, provenance))
    return SavedEvaluation(source, folder, time, _results_of(name, benchmark, setting, tasks), tasks, {})


def read_predictions(
    file: Path, folder: Path, benchmark: Benchmark, setting: Setting, *, config: EvaluationConfig, store: Path
) -> SavedEvaluation:
    """Return the answers in a file, as if the harness had logged them; the system has the file's name.

    Args:
        file: answers, as `read_answers` reads them; those without passages were given the setting's.
        folder: where they belong below an output folder.
        benchmark: what was answered.
        setting: in which setting.
        config: what to score with; names the run that gave the setting's passages.
        store: folder of the stored runs.

    Raises:
        BenchmarkFileError: all errors of the file by line.
        ConfigurationError, CacheError: as `contexts_of_answers`.
    """
    given = read_answers(file, benchmark)
    contexts = contexts_of_answers(given, benchmark, setting, config.run, store)
    time = file.stem.replace("_", "-")
    return answers_evaluation(
        given, benchmark, contexts, config=config, source=file, folder=folder, name=file.stem, time=time
    )


def _row(doc: dict[str, Any], answer: GivenAnswer, end_of_thinking: str) -> dict[str, Any]:
    """Return an answer as a logged sample; its prompt is not known."""
    kind = _SAMPLE_FILTER if doc["is_sample"] else _FILTER
    return {
        "doc": {**doc, "no_answer": answer.no_answer} if answer.no_answer else doc,
        "target": doc["target"],
        "arguments": {},
        "resps": [[answer.text]],
        "filtered_resps": [answer_text(answer.text, end_of_thinking)],
        "filter": kind,
        "metrics": [],
    }


def _tasks_of(
    rows: Sequence[dict[str, Any]],
    benchmark: Benchmark,
    setting: Setting,
    config: EvaluationConfig,
    provenance: Mapping[str, Any],
) -> Iterator[SavedTask]:
    """Yield the rows of each domain as a harness task."""
    for domain in dict.fromkeys(row["doc"]["domain"] for row in rows):
        chosen = [row for row in rows if row["doc"]["domain"] == domain]
        numbered = tuple({"doc_id": number, **row} for number, row in enumerate(chosen))
        responses = tuple(response_of(row["doc"], row["filtered_resps"][0]) for row in chosen)
        name = f"{benchmark.name}_{setting.value}_{domain}"
        yield SavedTask(name, benchmark.name, config, provenance, {}, numbered, responses)


def _tasks_to_answer(
    benchmark: Benchmark, setting: Setting, config: EvaluationConfig, rows: Sequence[dict[str, Any]]
) -> dict[str, int]:
    domains = {row["doc"]["domain"] for row in rows}
    return benchmark.count_tasks(setting, domains, conversational=config.conversational)


def _results_of(name: str, benchmark: Benchmark, setting: Setting, tasks: Sequence[SavedTask]) -> dict[str, Any]:
    """Return what the harness would say of the origin of answers, as far as it is known."""
    names = [task.name for task in tasks]
    sizes = {task.name: {"original": len(task.rows), "effective": len(task.rows)} for task in tasks}
    return {
        "group_subtasks": {f"{benchmark.name}_{setting.value}": names},
        "configs": {name: {"task": name} for name in names},
        "n-samples": sizes,
        "config": {"model": "answers", "model_args": {"model": name}},
        "model_source": "answers",
        "model_name": name,
    }


__all__ = ["answers_evaluation", "read_predictions"]

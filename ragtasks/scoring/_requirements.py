"""Requirements of an evaluation: data, runs, the encoder, judges, and space for the results."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path

from ragtasks.benchmarks import SAMPLE, Benchmark, contexts_for
from ragtasks.clients import endpoint_requirements
from ragtasks.config import EvaluationConfig
from ragtasks.config.environment import secret
from ragtasks.errors import RagtasksError
from ragtasks.files import disk_space, writable_folder
from ragtasks.records import Passage, Setting, Task
from ragtasks.requirements import Requirement
from ragtasks.scoring._encoding import Encoding
from ragtasks.scoring._judge import Folders, open_named
from ragtasks.scoring._judging import Judging
from ragtasks.scoring._live_retrieval import check_retrieval
from ragtasks.scoring._refusals import Refusals
from ragtasks.suites import suite_named, suite_with

Parts = Sequence[tuple[str, Setting]]
"""Benchmarks with their settings."""

# Bytes of a logged answer and its part of the page, measured on the samples. Each text is written to the doc, the
# prompt, the log of unfinished answers and the page.
_COPIES = 6
_BYTES_OF_SCORES = 8_000
_BYTES_OF_VERDICTS = 6_000


def evaluation_requirements(
    parts: Parts,
    config: EvaluationConfig,
    output: Path | None,
    folders: Folders,
    *,
    opened: Sequence[Benchmark] = (),
    suites: Mapping[str, str] | None = None,
    needs_passages: bool = True,
) -> list[Requirement]:
    """Return the requirements of answers to benchmarks: data, scores, late options, space for the results.

    Args:
        parts: benchmarks with their settings.
        config: the configuration.
        output: folder for the results, None if nothing is saved.
        folders: folders of fetched benchmarks and stored runs.
        opened: benchmarks made from the user's own rows.
        suites: benchmark -> suite used instead of its own.
        needs_passages: whether the passages of the settings are read; a system may retrieve its own.
    """
    return [
        *data_requirements(parts, config, folders, needs_passages=needs_passages),
        *_encoders(parts, config, folders, opened, suites or {}),
        *Refusals.requirements(config),
        *Judging.requirements(config),
        *_late_options(config, folders),
        *([writable_folder(folders.run_store, "cached replies")] if config.judges or config.rewriter else []),
        *_output(output, parts, config, folders, opened=opened, needs_passages=needs_passages),
    ]


def data_requirements(
    parts: Parts, config: EvaluationConfig, folders: Folders, *, needs_passages: bool
) -> list[Requirement]:
    """Return the requirements of benchmarks: their files, and the runs with the passages of their settings."""

    def check(name: str) -> str:
        benchmark = open_named(name, config.data, folders)
        for setting in [setting for part, setting in parts if part == name and needs_passages]:
            contexts_for(benchmark, setting, config.run, folders.run_store)
        return f"{benchmark.label} in {benchmark.root}"

    names = dict.fromkeys(name for name, _ in parts)
    return [Requirement("data", f"data of {name}", partial(check, name)) for name in names]


def _output(
    output: Path | None,
    parts: Parts,
    config: EvaluationConfig,
    folders: Folders,
    *,
    opened: Sequence[Benchmark],
    needs_passages: bool,
) -> list[Requirement]:
    """Return the requirements that the output folder is writable, and that the results fit on its disk."""

    def n_bytes() -> float:
        answers: list[tuple[Task, Sequence[Passage]]] = [
            (task, task.references) for benchmark in opened for task in benchmark.tasks
        ]
        for name, setting in dict.fromkeys(parts):
            try:
                answers += _answers(open_named(name, config.data, folders), setting, config, folders, needs_passages)
            except RagtasksError:  # reported by the requirement of the data
                continue
        judgings = len(config.judges) * (1 + (config.repeats - 1) * config.repeat_share)
        texts = [message.text for task, _ in answers for message in task.messages]
        texts += [passage.text for _, passages in answers for passage in passages]
        return _COPIES * sum(map(len, texts)) + len(answers) * (_BYTES_OF_SCORES + judgings * _BYTES_OF_VERDICTS)

    return [] if output is None else [writable_folder(output, "results"), disk_space(output, "results", n_bytes)]


def _answers(
    benchmark: Benchmark, setting: Setting, config: EvaluationConfig, folders: Folders, needs_passages: bool
) -> list[tuple[Task, Sequence[Passage]]]:
    """Return each task of a setting with the passages that its answer is logged with."""
    if not needs_passages:
        return [(task, task.references) for task in benchmark.tasks]
    passages = contexts_for(benchmark, setting, config.run, folders.run_store).passages
    n_searched = config.search_calls * config.search_k if setting is Setting.AGENTIC else 0
    return [
        (task, [*passages[task.task_id], *(task.references[:1] * n_searched)])
        for task in benchmark.tasks
        if task.task_id in passages
    ]


def _encoders(
    parts: Parts, config: EvaluationConfig, folders: Folders, opened: Sequence[Benchmark], suites: Mapping[str, str]
) -> list[Requirement]:
    """Return the requirement of the encoder; the user's own rows require one only if the configuration names it."""
    own = [(benchmark, benchmark.is_sample, True) for benchmark in opened]
    named = [_opened_or_sample(name, config, folders) for name in dict.fromkeys(name for name, _ in parts)]
    for benchmark, is_sample, is_own in [*own, *((*pair, False) for pair in named if pair)]:
        suite = suite_named(suite_with(suites.get(benchmark.name, benchmark.suite), config))
        requirements = Encoding(suite, config, is_sample=is_sample).requirements(
            "BERTScore" if is_own else "the main score rb_alg"
        )
        if requirements and (config.encoder or not is_own):
            return requirements
    return []


def _opened_or_sample(name: str, config: EvaluationConfig, folders: Folders) -> tuple[Benchmark, bool] | None:
    """Return a benchmark, and whether a sample is evaluated; None if neither its data nor its sample can be opened.

    If its data are missing, its sample replaces it, which has the same suite.
    """
    try:
        benchmark = open_named(name, config.data, folders)
    except RagtasksError:
        with suppress(RagtasksError):
            return open_named(name, SAMPLE, folders), False
        return None
    return benchmark, benchmark.is_sample


def _late_options(config: EvaluationConfig, folders: Folders) -> list[Requirement]:
    """Return the requirements of options that are used only after the first answers: retriever, queries, rewriter."""

    def check() -> str:
        check_retrieval(config, folders.run_store, secret)
        return config.retriever

    requirements = (
        [Requirement("retriever", "retrieval", check)] if config.model_fields_set & {"retriever", "queries"} else []
    )
    return [*requirements, *(endpoint_requirements(config.rewriter, "rewriter", secret) if config.rewriter else ())]

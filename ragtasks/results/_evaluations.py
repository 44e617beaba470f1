"""Results that lm_eval wrote with `--output_path --log_samples`, as evaluations.

The harness writes one results file, and one sample file per harness task with the same time in its name. An evaluation
is such a set of files: the rows of a model, with the provenance that decides which evaluations are comparable.
"""

from __future__ import annotations

import gc
import math
import os
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, TypeVar

from ragtasks.benchmarks import ROWS
from ragtasks.errors import BenchmarkFileError, ConfigurationError, missing_path_error, shortened_list
from ragtasks.files import OFFICIAL, parse_json
from ragtasks.metrics import TURN_ERROR_NAMES, Metric
from ragtasks.records import Passage, Response, Task
from ragtasks.results._given_answers import CONTEXTS_OF_FILE
from ragtasks.results._saved import (
    LoggedSamples,
    logged_samples,
    n_logged,
    provenance_of_answers,
    saved_answers,
    time_of,
    unusable_error,
    value_at,
)
from ragtasks.results._scored_answer import USAGE_METRICS, ScoredAnswer
from ragtasks.results._summary import Summary, merged_summaries, read_summary, summaries_of
from ragtasks.suites import suite_named, without_agentic
from ragtasks.tables import grouped

_Read = TypeVar("_Read")
_DISTINCTION = re.compile(r" \((run|own history)\b.*\)( #\d+)?$| #\d+$", re.DOTALL)


@dataclass(frozen=True, slots=True)
class Evaluation:
    """One model on one benchmark."""

    model: str
    kind: Kind
    """Benchmark and scoring. Only rows of the same kind are comparable."""
    rows: tuple[ScoredAnswer, ...]
    suite: str
    provenance: Mapping[str, Mapping[str, Any]]
    """Harness task -> data, run, configuration, prompts and scoring as recorded in the results.

    The key `harness` has the options of the harness for the task.
    """
    source: Path
    samples: Mapping[str, Path]
    """Harness task -> its file of logged samples. `rows` follow the same order."""
    files: tuple[str, ...] = field(default=(), compare=False)
    """Its results files, relative to the paths that were read. Merged evaluations have several."""
    judge_drift: str = ""
    """Change of the judges since the first of the compared evaluations. Empty if no change is known."""
    recalibrated: tuple[str, ...] = ()
    """One line per rubric whose scores were mapped to the scale of an earlier judge. Empty without recalibration."""

    @property
    def has_own_rows(self) -> bool:
        """Whether the evaluation scores the user's own rows, which have no setting and no labels of a benchmark."""
        return self.kind[0] == ROWS

    @property
    def metrics(self) -> tuple[Metric, ...]:
        """The metrics of the suite in the order of tables, followed by the usage metrics."""
        return (*suite_named(self.suite).metrics, *USAGE_METRICS)

    def answers(self) -> Iterator[tuple[ScoredAnswer, Response]]:
        """Yield each row with its response, for tables of other packages."""
        yield from ((row, row.response) for row in self.rows)

    @property
    def spending(self) -> dict[str, list[Mapping[str, Any]]]:
        """Purpose -> usage of replies that belong to no row, such as those about anchors, rewriters and rerankers.

        Tasks that were scored together record the same replies, which count once.
        """
        spending: dict[str, list[Mapping[str, Any]]] = {}
        for provenance in self.provenance.values():
            for saved in (value_at(provenance, "spending"), value_at(provenance, "scoring", "spending")):
                for name, calls in saved.items() if isinstance(saved, Mapping) else ():
                    new = [call for call in calls if isinstance(call, Mapping) and call not in spending.get(name, ())]
                    spending.setdefault(str(name), []).extend(new)
        return spending

    @property
    def revision(self) -> str:
        """Version of the benchmark's files. Empty if the results have none."""
        return ", ".join(
            sorted({str(metadata["revision"]) for metadata in self.provenance.values() if "revision" in metadata})
        )

    def tasks_in(self, setting: str) -> list[str]:
        """Return the harness tasks of a setting, or all of them if none declares the setting."""
        declared = {task: provenance.get("setting_tasks", {}) for task, provenance in self.provenance.items()}
        return [task for task, settings in declared.items() if setting in settings] or list(declared)

    @property
    def n_tasks(self) -> dict[str, int]:
        """Setting -> number of tasks in the benchmark, answered or not. Settings of unknown size are left out."""
        counts_of: dict[str, dict[str, int]] = {}
        for provenance in self.provenance.values():
            for setting, counts in provenance.get("setting_tasks", {}).items():
                counts_of.setdefault(setting, {}).update(counts)
        return {setting: sum(counts.values()) for setting, counts in counts_of.items()}


def read_evaluations(
    paths: Sequence[Path], *, left_out: Callable[[str], None] | None = None, skip_others: bool = False
) -> list[Evaluation]:
    """Return the evaluations at the paths, in the given order. Those of one folder are sorted by name.

    Args:
        paths: folders of results, or results files. A file that several paths lead to is read once.
        left_out: receives a line about each unreadable file in a folder. Without it, such a file raises an error.
        skip_others: whether files with tasks of others only are no error (see `read_harness_tasks`).

    Raises:
        BenchmarkFileError: a path is missing, or a named file is unreadable, or no file in a folder is readable.
    """
    shared: _SharedObjects = {}

    def read(file: Path, shown: Path) -> list[Evaluation]:
        with _paused_collector():
            return _evaluations(file, shown, shared, skip_others=skip_others)

    return read_each(paths, read, left_out)


def read_each(
    paths: Sequence[Path], read: Callable[[Path, Path], list[_Read]], left_out: Callable[[str], None] | None
) -> list[_Read]:
    """Return what a function reads from each results file at the paths. See `read_evaluations`.

    The function receives the file, and its path relative to the common folder of all paths.
    """
    files: dict[Path, Path] = {}
    for path in paths:
        for file in _results_files(path):
            files.setdefault(file.resolve(), file)
    folders = [(path if path.is_dir() else path.parent).absolute() for path in paths]
    folder = os.path.commonpath(folders) if folders else ""
    named = {path.resolve() for path in paths if path.is_file()}
    found: list[_Read] = []
    errors: list[BenchmarkFileError] = []
    for real_path, file in files.items():
        try:
            found += read(file, Path(os.path.relpath(file, folder)))
        except BenchmarkFileError as error:
            if left_out is None or real_path in named:
                raise
            errors.append(error)
    if errors and len(errors) == len(files):
        raise errors[0]
    for unreadable in errors:
        if left_out is not None:
            left_out(" ".join(str(unreadable).split()))
    return found


@contextmanager
def _paused_collector() -> Iterator[None]:
    """Pause the garbage collector: records have no cycles, and scanning them takes a third of the reading time."""
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()


def evaluation_of(model: str, provenance: Mapping[str, Any], task: str, answers: Iterable[ScoredAnswer]) -> Evaluation:
    """Return the evaluation of answers that were scored in this process and are not saved."""
    rows = tuple(replace(answer, sample={}) for answer in answers)
    return Evaluation(model, kind_of(provenance), rows, provenance["suite"], {task: provenance}, Path(model), {})


def read_summaries(file: Path) -> list[tuple[Evaluation, dict[str, Summary]]]:
    """Return the evaluations of a results file without rows, each with setting -> summary.

    A file with tasks of others only has no evaluations. The summaries are read from the results file. Results of
    several processes have none, so their samples are read.
    """
    evaluations = _evaluations(file, Path(file.name), skip_others=True)
    results = parse_json(file.read_bytes())
    saved = [_saved_summaries(evaluation, results) for evaluation in evaluations]
    if all(saved):
        return [
            (evaluation, merged_summaries(summaries)) for evaluation, summaries in zip(evaluations, saved, strict=True)
        ]
    return [(evaluation, summaries_of(evaluation.rows)) for evaluation in read_evaluations([file])]


def _saved_summaries(evaluation: Evaluation, results: Mapping[str, Any]) -> list[Summary]:
    """Return the summaries of all harness tasks, or [] if a task has none."""
    summaries = [
        read_summary(provenance, n_logged(evaluation.source, results, task))
        for task, provenance in evaluation.provenance.items()
    ]
    saved = [summary for summary in summaries if summary is not None]
    return saved if len(saved) == len(summaries) else []


def _results_files(path: Path) -> list[Path]:
    files = [path] if path.suffix == ".json" else []
    if path.is_dir():
        files = sorted(file for file in path.rglob("*.json") if time_of(file))
    if not path.exists():
        raise missing_path_error("results", path, "a folder of results, or a results file")
    if files:
        return files
    raise BenchmarkFileError(
        "results",
        where=str(path),
        expected="a results file of an evaluation (results_*.json), or a folder with one",
        found="another file" if path.is_file() else "none",
        next_step=f"score rows or answers first: ragtasks score {path}"
        if path.is_file()
        else "name a folder written by `ragtasks eval`, `run` or `score`: `ragtasks results list` lists results",
    )


_SCORE_AGAIN = "score the answers again: `ragtasks score RESULTS --output FOLDER`"
_RESTORE = f"restore its samples, or {_SCORE_AGAIN}"
_KNOWN_ERRORS = f"one of the turn errors {', '.join(sorted(TURN_ERROR_NAMES))}"
_EACH_ONCE = "each task once in a setting (harness tasks over the same questions require separate calls)"


_SharedObjects = dict[Task | Passage, Any]
"""Tasks and passages read so far. Settings and models share most of them, so each is kept in memory once."""


def _scored_answers(samples: Iterable[LoggedSamples], shared: _SharedObjects) -> Iterator[ScoredAnswer]:
    """Yield the samples of one evaluation. A repeated task in a setting is an error: both answers would count."""
    first_of: dict[tuple[str, str], tuple[Path, int]] = {}
    for logged in samples:
        for number, logged_answer, problems in saved_answers(logged):
            answer = _with_shared_texts(logged_answer, shared)
            location = (logged.path, number)
            first = first_of.setdefault((answer.setting, answer.task.task_id), location)
            if first != location:
                problems.add(number, _EACH_ONCE, f"the task of line {first[1]} of {first[0].name}", answer.task.task_id)
            if answer.turn_error_kind and answer.turn_error_kind not in TURN_ERROR_NAMES:
                invalid = f"{answer.turn_error_kind!r} in line {number}"
                raise unusable_error("results", logged.path, _KNOWN_ERRORS, invalid, _SCORE_AGAIN)
            yield answer


def _with_shared_texts(answer: ScoredAnswer, shared: _SharedObjects) -> ScoredAnswer:
    """Return an answer without its sample, with tasks and passages replaced by equal ones that were read before."""
    task, passages = shared.setdefault(answer.task, answer.task), answer.response.passages
    shared_passages = tuple(shared.setdefault(passage, passage) for passage in passages)
    return replace(answer, response=replace(answer.response, task=task, passages=shared_passages), sample={})


def _evaluations(
    file: Path, display_path: Path, shared: _SharedObjects | None = None, *, skip_others: bool = False
) -> list[Evaluation]:
    """Return the evaluations of a results file: one per kind, as a call may have run several benchmarks.

    `shared` contains the tasks and passages of earlier files. If it is None, samples are not read and evaluations have
    no rows.
    """
    try:
        results = parse_json(file.read_bytes())
        model, provenance = model_of(results), provenance_in(results)
        tasks_of = grouped(sorted(provenance), lambda task: _origin(provenance[task]))
    except (OSError, ValueError, LookupError, TypeError, AttributeError) as error:
        raise unusable_error(
            "results", file, "a results file of the harness", f"{type(error).__name__}: {error}"
        ) from error
    if not tasks_of and results.get("configs"):
        if skip_others:
            return []
        found = f"lm_eval tasks of others ({shortened_list(list(results['configs']), 3)})"
        next_step = f"ragtasks compare {file.parent} OTHER_RESULTS, or ragtasks results list {file.parent}"
        raise unusable_error("results", file, "tasks of ragtasks", found, next_step)
    for _, _, suite, _ in tasks_of:
        _require_suite(file, suite)
    samples = logged_samples(file, results, [task for names in tasks_of.values() for task in names])
    evaluations = [
        Evaluation(
            model=_label(model, run, history),
            kind=kind,
            rows=() if shared is None else tuple(_scored_answers((samples[task] for task in names), shared)),
            suite=max((str(provenance[task]["suite"]) for task in names), key=len),
            provenance={task: provenance[task] for task in names},
            source=file,
            samples={task: samples[task].path for task in names},
            files=(display_path.as_posix(),),
        )
        for (run, history, suite, kind), names in tasks_of.items()
    ]
    for evaluation in evaluations:
        if evaluation.rows and (summaries := _saved_summaries(evaluation, results)):
            _require_same_scores(file, evaluation.rows, merged_summaries(summaries))
    return evaluations


def _require_suite(file: Path, name: str) -> None:
    try:
        suite_named(name)
    except ConfigurationError as error:
        next_step = f"install the package that adds it, or {_SCORE_AGAIN}"
        raise unusable_error("results", file, "metrics that are installed", str(error), next_step) from error


_ROUNDING = 1e-6


def _require_same_scores(file: Path, rows: Sequence[ScoredAnswer], saved: Mapping[str, Summary]) -> None:
    """Raise BenchmarkFileError if the logged samples have other tasks or scores than their results file."""
    for setting, summary in summaries_of(rows).items():
        saved_summary = saved.get(setting)
        if saved_summary is None or saved_summary.tasks != summary.tasks:
            expected = f"logged samples of the same tasks in {setting}"
            raise unusable_error("results", file, expected, "other tasks", _RESTORE)
        for name, metric in saved_summary.metrics.items():
            logged = summary.metrics.get(name, metric)
            is_same = math.isclose(logged.total, metric.total, rel_tol=_ROUNDING, abs_tol=_ROUNDING)
            if not is_same or logged.n_scored != metric.n_scored:
                sums, found = (f"{name}: {each.n_scored} that add up to {each.total:.6g}" for each in (metric, logged))
                raise unusable_error("results", file, f"samples with the same scores ({sums})", found, _RESTORE)


def _label(model: str, run: str, history: str) -> str:
    """Return the model's name, followed by its stored run and `own history` if they apply."""
    label = model if run in {OFFICIAL, CONTEXTS_OF_FILE} else f"{model} (run {run})"
    return f"{label} ({history})" if history else label


def has_own_history(evaluation: Evaluation) -> bool:
    """Return whether each turn saw the model's own answers to earlier turns."""
    return f" ({OWN_HISTORY}" in evaluation.model


def bare_model_name(evaluation: Evaluation) -> str:
    """Return the model's name without the run, the history and the number that distinguish its evaluations."""
    return _DISTINCTION.sub("", evaluation.model)


def _origin(provenance: Mapping[str, Any]) -> tuple[str, str, str, Kind]:
    """Return run, own history, suite and kind of a harness task, which all tasks of an evaluation share."""
    run, suite = provenance["configuration"]["run"], without_agentic(provenance["suite"])
    return run, own_history(provenance), suite, kind_of(provenance)


# Origin of the answers in a results file: the model, its history, the kind of evaluation.

_OUR_PROMPTS = "ours"
OWN_HISTORY = "own history"
Kind = tuple[str, str, str]
"""Benchmark (with `sample` for a sample), encoder, and IDK detector with any judges of an evaluation."""


def own_history(provenance: Mapping[str, Any]) -> str:
    """Return `own history` with the settings of its searches, or an empty text for the benchmark's history."""
    if value_at(provenance, "history", "answers") != "own":
        return ""
    fields = (value_at(provenance, "history", key) for key in ("retriever", "queries", "rewriter", "searches"))
    return ", ".join([OWN_HISTORY, *(text for text in fields if isinstance(text, str))])


def provenance_in(results: Mapping[str, Any]) -> dict[str, Mapping[str, Any]]:
    """Return the ragtasks harness tasks that generate answers -> their provenance in the results."""
    return {
        task: {**provenance, "harness": _harness_options(results, task)}
        for task, provenance in provenance_of_answers(results.get("configs", {})).items()
    }


def _harness_options(results: Mapping[str, Any], task: str) -> dict[str, Any]:
    """Return the version of a task, and the options of the harness that change its prompts.

    The number of few-shot examples is left out: ragtasks uses none, whatever number the harness records.
    """
    # For a chat endpoint, which applies its own template, the harness records an empty text.
    is_templated = results["chat_template"] is not None if "chat_template" in results else None
    return {
        "version": value_at(results, "versions", task),
        "system_instruction_sha": value_at(results, "system_instruction_sha"),
        "has_chat_template": is_templated,
        "generation_kwargs": value_at(results, "configs", task, "generation_kwargs"),
    }


def kind_of(provenance: Mapping[str, Any]) -> Kind:
    return provenance["benchmark"], provenance["scoring"]["encoder"], _judging(provenance["scoring"])


def _judging(scoring: Mapping[str, Any]) -> str:
    """Return the IDK detector, followed by the judges if there are any."""
    judges, prompts = scoring.get("judges"), scoring.get("judge_prompts") or _OUR_PROMPTS
    if not judges:
        return str(scoring["idk_detector"])
    words = "" if prompts == _OUR_PROMPTS else f" (prompts: {prompts})"
    return f"{scoring['idk_detector']}; judges: {judges}{words}"


def model_of(results: Mapping[str, Any]) -> str:
    """Return the model's name in its arguments, or else the harness's name for the model type."""
    config = results.get("config", {})
    arguments = config.get("model_args") or {}
    names = [arguments[key] for key in ("model", "pretrained") if isinstance(arguments, dict) and key in arguments]
    return str(names[0]) if names else str(config.get("model", "unknown"))

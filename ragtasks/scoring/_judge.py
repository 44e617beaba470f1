"""Scoring of saved answers, with or without judges, and without the model that wrote them.

Answering and judging can thus happen at different times and on different machines. The output has the layout of the
harness, so every reader of an evaluation can read it. Input files are not changed.
"""

from __future__ import annotations

import functools
import logging
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from pathlib import Path
from typing import Any

from ragtasks.benchmarks import ROWS, Benchmark, benchmark_folder, open_benchmark, rows_benchmark
from ragtasks.config import EvaluationConfig, config_from_options
from ragtasks.errors import BenchmarkFileError, ConfigurationError, RagtasksError
from ragtasks.metrics import Metric
from ragtasks.records import Setting
from ragtasks.results import (
    SavedEvaluation,
    SavedTask,
    evaluation_files,
    read_predictions,
    read_results,
    unused_note,
)
from ragtasks.scoring._failures import take_failures
from ragtasks.scoring._judging import LocalJudge
from ragtasks.scoring._plausibility import CheckedAnswers, require_plausible
from ragtasks.scoring._results_layout import ScoredTask, write_results
from ragtasks.scoring._scoring import ResponseScorer, shared_scorer

_LOGGER = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Folders:
    """Folders of data and runs, set by the outermost layer."""

    data_folder: Path
    run_store: Path


def rescore(
    paths: Sequence[Path],
    options: Mapping[str, Any],
    output: Path,
    folders: Folders,
    *,
    benchmark: str | None = None,
    setting: str | None = None,
    may_replace: Callable[[Sequence[Path]], bool] = lambda _: False,
    local_judge: LocalJudge | None = None,
    before: Callable[[Sequence[SavedEvaluation]], bool] = lambda _: True,
) -> list[str]:
    """Score saved answers, and return one line per results file written below `output`.

    `before` receives the evaluations before scoring; if it returns False, nothing is scored. All answers of one
    benchmark and configuration are scored in one pass, so that judges work on all of them at once.

    Raises:
        ConfigurationError: the output would replace results, or the input.
        RagtasksError: a part of the scoring failed; everything else is saved.
        ImplausibleError: too many answers are implausible; everything is saved.
    """
    take_failures()  # left by an earlier evaluation in this process
    evaluations = [saved for path in paths for saved in read_saved(path, options, folders, benchmark, setting)]
    files = [results_file(output, evaluation) for evaluation in evaluations]
    refuse_replacing(paths, output, evaluations, files)
    require_replaceable(output, files, may_replace)
    _show_unused(evaluations)
    if not before(evaluations):
        return []
    tasks = [task for evaluation in evaluations for task in evaluation.tasks]
    scored = score_tasks(tasks, folders, local_judge)
    lines = []
    checked: list[CheckedAnswers] = []
    for evaluation, file in zip(evaluations, files, strict=True):
        done = [next(scored) for _ in evaluation.tasks]
        written = write_results(evaluation, file, done)
        for line in (line for checks in written for line in checks.lines):
            _LOGGER.warning("%s: %s", file.name, line)
        checked += written
        lines.append(f"wrote {file} ({sum(len(task.answers) for task in evaluation.tasks)} answers)")
    problems = take_failures()
    for file in files:
        mark_unfinished(file, bool(problems))
    if problems:
        raise RagtasksError(f"everything is saved in {output}, and the scoring failed:\n" + "\n".join(problems))
    require_plausible(checked, config_from_options(options).max_implausible, f"everything is saved in {output}")
    return lines


def read_saved(
    path: Path, options: Mapping[str, Any], folders: Folders, benchmark: str | None, setting: str | None
) -> Iterator[SavedEvaluation]:
    """Yield every evaluation at a path; each has a separate folder below the output."""
    base = path.resolve()
    results, predictions = evaluation_files(base)
    top = base if base.is_dir() else base.parent
    for file in results:
        yield read_results(file, Path(top.name) / file.parent.relative_to(top), options)
    if not predictions:
        return
    if not benchmark or not setting:
        step = "add --benchmark and --setting, or name a folder with results only"
        raise ConfigurationError(f"{predictions[0]}: answers without the name of their benchmark. Next step: {step}")
    if setting not in {member.value for member in Setting}:
        names = ", ".join(member.value for member in Setting)
        raise ConfigurationError(f"unknown setting {setting!r}; known: {names}")
    config = config_from_options(options)
    opened = open_named(benchmark, config.data, folders)
    for file in predictions:
        folder = Path(top.name) / file.parent.relative_to(top) if base.is_dir() else Path(file.stem)
        yield read_predictions(file, folder, opened, Setting(setting), config=config, store=folders.run_store)


def _show_unused(evaluations: Sequence[SavedEvaluation]) -> None:
    """Warn about settings in results that are not used, since the user did not name them; once per text."""
    sources: dict[str, list[Path]] = {}
    for evaluation in evaluations:
        if evaluation.unused:
            sources.setdefault(unused_note(evaluation.unused), []).append(evaluation.source)
    for text, files in sources.items():
        more = f" (and {len(files) - 1} more)" if len(files) > 1 else ""
        _LOGGER.warning("%s%s %s", files[0], more, text)


def open_named(name: str, data: str | None, folders: Folders) -> Benchmark:
    """Return a benchmark, from the sample, a folder, or the data folder."""
    return open_benchmark(name, benchmark_folder(name, data, folders.data_folder).resolve())


def results_file(output: Path, evaluation: SavedEvaluation) -> Path:
    """Return the output path of a rescored evaluation."""
    return output.resolve() / evaluation.folder / f"results_{evaluation.time}.json"


def refuse_replacing(
    paths: Sequence[Path], output: Path, evaluations: Sequence[SavedEvaluation], files: Sequence[Path]
) -> None:
    """Refuse an output that contains the input, or two evaluations with one output path."""
    target = output.resolve()
    for path in paths:
        inside = path.is_dir() and (target == path.resolve() or path.resolve() in target.parents)
        if inside or any(evaluation.source == file for evaluation, file in zip(evaluations, files, strict=True)):
            raise ConfigurationError(f"--output {output} is inside the input {path}; name another folder")
    sources: dict[Path, Path] = {}
    for evaluation, file in zip(evaluations, files, strict=True):
        if sources.setdefault(file, evaluation.source) != evaluation.source:
            raise ConfigurationError(
                f"{sources[file]} and {evaluation.source} would both be written to {file}; score one at a time"
            )


def require_replaceable(output: Path, files: Sequence[Path], may_replace: Callable[[Sequence[Path]], bool]) -> None:
    """Refuse to replace results without permission, unless they are incomplete."""
    existing = [file for file in dict.fromkeys(files) if file.exists() and not unfinished_file(file).exists()]
    if not existing or may_replace(existing):
        return
    more = f" and {len(existing) - 1} more" if len(existing) > 1 else ""
    raise ConfigurationError(
        "output folder",
        where=str(output),
        expected="a folder without these results, which were scored before",
        found=f"{existing[0]}{more}",
        next_step="name another folder with --output, or replace them with --force (judge replies are cached)",
    )


def unfinished_file(results: Path) -> Path:
    """Return the file next to incomplete results; it may contain the answers so far."""
    return results.with_name(f"unfinished_{results.stem.removeprefix('results_')}.sqlite")


def mark_unfinished(results: Path, is_unfinished: bool) -> None:
    """Create or remove the file next to incomplete results: the same command may replace such results."""
    if is_unfinished:
        unfinished_file(results).touch()
    else:
        unfinished_file(results).unlink(missing_ok=True)


def score_tasks(
    tasks: Sequence[SavedTask], folders: Folders, local_judge: LocalJudge | None, deciding: Metric | None = None
) -> Iterator[ScoredTask]:
    """Score all tasks, and return an iterator of pairs in order: the task with its new scores, and its scorer."""
    parts: dict[ResponseScorer, list[int]] = {}
    for index, task in enumerate(tasks):
        parts.setdefault(_scorer_of(task, folders, local_judge, deciding), []).append(index)
    done: dict[int, ScoredTask] = {}
    for scorer, indexes in parts.items():
        results = iter(scorer.score([answer for index in indexes for answer in tasks[index].answers]))
        for index in indexes:
            answers = tuple(islice(results, len(tasks[index].answers)))
            done[index] = replace(tasks[index], answers=answers), scorer
    return iter([done[index] for index in range(len(tasks))])


def _scorer_of(
    task: SavedTask, folders: Folders, local_judge: LocalJudge | None, deciding: Metric | None
) -> ResponseScorer:
    suite = task.provenance.get("suite")
    if task.benchmark == ROWS:
        return _rows_scorer(task.config, suite or ROWS, local_judge, deciding)
    benchmark = open_named(task.benchmark, task.config.data, folders)
    if benchmark.label != task.provenance["benchmark"]:
        raise _other_data(task, benchmark)
    return shared_scorer(benchmark.name, benchmark.root, task.config, suite, local_judge, deciding=deciding)


@functools.lru_cache(maxsize=8)
def _rows_scorer(
    config: EvaluationConfig, suite: str, local_judge: LocalJudge | None, deciding: Metric | None
) -> ResponseScorer:
    """Return the shared scorer of the user's own rows, which contain all that their scores need."""
    return ResponseScorer(rows_benchmark(()), config, suite, local_judge, deciding)


def _other_data(task: SavedTask, benchmark: Benchmark) -> BenchmarkFileError:
    return BenchmarkFileError(
        "saved answers",
        where=task.name,
        expected=f"the benchmark of the answers, {task.provenance['benchmark']}",
        found=f"{benchmark.label} in {benchmark.root}",
        next_step="give its folder as `data` in the metadata",
    )

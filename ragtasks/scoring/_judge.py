"""Scores saved answers again, with judges or without, and without the model that gave them.

Answering and judging can so be days and machines apart. What is written has the layout of the harness, so that
whatever reads an evaluation reads this too; nothing that was read is changed.
"""

from __future__ import annotations

import json
import logging
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ragtasks.benchmarks import Benchmark, benchmark_folder, contexts_for, open_benchmark
from ragtasks.config import config_from_options
from ragtasks.errors import BenchmarkFileError, ConfigurationError, RagtasksError, clear_error
from ragtasks.files import parse_json, write_atomically
from ragtasks.logs import (
    DEFAULT_SUITE,
    OWN_CONTEXTS,
    SavedEvaluation,
    SavedTask,
    evaluation_files,
    read_predictions,
    read_results,
    say_unused,
)
from ragtasks.metrics import Metric
from ragtasks.records import Setting
from ragtasks.scoring._failures import take_failures
from ragtasks.scoring._scoring import LocalJudge, ResponseScorer, ScoredResponse, shared_scorer
from ragtasks.suites import suite_named

_LOGGER = logging.getLogger(__name__)
_PER_TASK = ("configs", "versions", "n-shot", "n-samples", "task_hashes")


@dataclass(frozen=True, slots=True)
class Place:
    """Where things are found, as the outermost layer knows it."""

    data_folder: Path
    """Where fetched benchmarks are."""
    run_store: Path
    """Where stored runs are."""


def rescore(
    paths: Sequence[Path],
    metadata: str,
    output: Path,
    place: Place,
    *,
    benchmark: str | None = None,
    setting: str | None = None,
    may_replace: Callable[[Sequence[Path]], bool] = lambda _: False,
    local_judge: LocalJudge | None = None,
) -> list[str]:
    """Return one line a results file that was written below `output`.

    All answers of one benchmark and configuration are scored in one pass, so that judges work on all of them at once.

    Args:
        paths: folders that the harness wrote with `--log_samples`, predictions files, or folders of either.
        metadata: a JSON object with the keys of `EvaluationConfig`. A key that is not there keeps a saved evaluation's
            value only where `ragtasks.logs` finds it harmless; a warning shows the others.
        output: a folder that holds none of what is read.
        place: where benchmarks and runs are.
        benchmark: name; for predictions only, which do not say it.
        setting: `reference`, `reference_rag` or `full_rag`; for predictions only.
        may_replace: asked once, before anything is scored, with the results that are there and would be replaced.
        local_judge: loads judges that are models of this process; None: there are none.

    Raises:
        BenchmarkFileError: a file cannot be read, or has errors: all of them, by line.
        ConfigurationError: an option that cannot be used, or an output that would replace what is read, or other
            results without leave.
        CacheError: the output cannot be written.
        RagtasksError: a part of the scoring failed, or judges gave too few verdicts; raised after everything is saved.
    """
    take_failures()  # what an earlier evaluation left in this process
    given = _parsed(metadata)
    evaluations = [found for path in paths for found in _read(path, given, place, benchmark, setting)]
    files = [_results_file(output, evaluation) for evaluation in evaluations]
    _refuse_replacing(paths, output, evaluations, files)
    there = [file for file in dict.fromkeys(files) if file.exists()]
    if there and not may_replace(there):
        raise ConfigurationError(_would_replace(output, there))
    _show_unused(evaluations)
    scored = _score([task for evaluation in evaluations for task in evaluation.tasks], place, local_judge)
    lines = []
    for evaluation, file in zip(evaluations, files, strict=True):
        done = [next(scored) for _ in evaluation.tasks]
        _write(evaluation, file, done)
        lines.append(f"wrote {file} ({sum(len(task.rows) for task in evaluation.tasks)} answers)")
    problems = take_failures()
    if problems:
        raise RagtasksError(f"everything is saved in {output}, and the scoring failed:\n" + "\n".join(problems))
    return lines


def _parsed(metadata: str) -> dict[str, Any]:
    try:
        given = parse_json(metadata.encode())
    except ValueError as error:
        raise ConfigurationError(f"--metadata is not JSON: {error}") from error
    if not isinstance(given, dict):
        raise ConfigurationError('--metadata must be a JSON object, such as {"judges": ["openai/gpt-4o-mini"]}')
    return given


def _read(
    path: Path, given: Mapping[str, Any], place: Place, benchmark: str | None, setting: str | None
) -> Iterator[SavedEvaluation]:
    """Yield every evaluation at a path; its folder below the output is what tells it from the path's others."""
    base = path.resolve()
    results, predictions = evaluation_files(base)
    top = base if base.is_dir() else base.parent
    for file in results:
        yield read_results(file, Path(top.name) / file.parent.relative_to(top), given)
    if not predictions:
        return
    if not benchmark or not setting:
        raise ConfigurationError(f"{predictions[0]}: predictions do not say what they answer: give benchmark, setting")
    if setting not in {item.value for item in Setting}:
        known = ", ".join(item.value for item in Setting)
        raise ConfigurationError(f"unknown setting {setting!r}; known: {known}")
    config = config_from_options({"run": OWN_CONTEXTS, **given})
    opened = _open(benchmark, config.data, place)
    own = config.run == OWN_CONTEXTS
    contexts = None if own else contexts_for(opened, Setting(setting), config.run, place.run_store)
    for file in predictions:
        folder = Path(top.name) / file.parent.relative_to(top) if base.is_dir() else Path(file.stem)
        yield read_predictions(file, folder, opened, Setting(setting), config=config, contexts=contexts)


def _show_unused(evaluations: Sequence[SavedEvaluation]) -> None:
    """Say once what results name and what is not used, as the user did not name it."""
    sources: dict[str, list[Path]] = {}
    for evaluation in evaluations:
        if evaluation.unused:
            sources.setdefault(say_unused(evaluation.unused), []).append(evaluation.source)
    for text, files in sources.items():
        others = f" (and {len(files) - 1} more)" if len(files) > 1 else ""
        _LOGGER.warning("%s%s %s", files[0], others, text)


def _open(name: str, data: str | None, place: Place) -> Benchmark:
    return open_benchmark(name, benchmark_folder(name, data, place.data_folder).resolve())


def _results_file(output: Path, evaluation: SavedEvaluation) -> Path:
    return output.resolve() / evaluation.folder / f"results_{evaluation.time}.json"


def _refuse_replacing(
    paths: Sequence[Path], output: Path, evaluations: Sequence[SavedEvaluation], files: Sequence[Path]
) -> None:
    """Refuse an output that holds what is read, or two evaluations under one name."""
    target = output.resolve()
    for path in paths:
        inside = path.is_dir() and (target == path.resolve() or path.resolve() in target.parents)
        if inside or any(evaluation.source == file for evaluation, file in zip(evaluations, files, strict=True)):
            raise ConfigurationError(f"--output_path {output} lies in what is read ({path}); name another folder")
    sources: dict[Path, Path] = {}
    for evaluation, file in zip(evaluations, files, strict=True):
        if sources.setdefault(file, evaluation.source) != evaluation.source:
            raise ConfigurationError(
                f"{sources[file]} and {evaluation.source} would both be written to {file}; score one at a time"
            )


def _would_replace(output: Path, there: Sequence[Path]) -> str:
    more = f" and {len(there) - 1} more" if len(there) > 1 else ""
    return clear_error(
        "output folder",
        where=str(output),
        expected="a folder without these results, which were scored before",
        found=f"{there[0]}{more}",
        next_step="name another folder with --output-path, or replace them with --force (what judges replied is kept "
        "and not asked again)",
    )


def _score(
    tasks: Sequence[SavedTask], place: Place, local_judge: LocalJudge | None
) -> Iterator[tuple[list[ScoredResponse], ResponseScorer]]:
    """Return an iterator over each task's scores with their scorer, in order; all is scored when it is returned."""
    parts: dict[ResponseScorer, list[int]] = {}
    for index, task in enumerate(tasks):
        benchmark = _open(task.benchmark, task.config.data, place)
        if benchmark.label != task.facts["benchmark"]:
            raise BenchmarkFileError(_other_data(task, benchmark))
        scorer = shared_scorer(benchmark.name, benchmark.root, task.config, task.facts.get("suite"), local_judge)
        parts.setdefault(scorer, []).append(index)
    done: dict[int, tuple[list[ScoredResponse], ResponseScorer]] = {}
    for scorer, indexes in parts.items():
        results = iter(scorer.score([response for index in indexes for response in tasks[index].responses]))
        for index in indexes:
            done[index] = ([next(results) for _ in tasks[index].responses], scorer)
    return iter([done[index] for index in range(len(tasks))])


def _other_data(task: SavedTask, benchmark: Benchmark) -> str:
    return clear_error(
        "saved answers",
        where=task.name,
        expected=f"the benchmark that was answered, {task.facts['benchmark']}",
        found=f"{benchmark.label} in {benchmark.root}",
        next_step="give its folder as `data` in the metadata",
    )


def _write(
    evaluation: SavedEvaluation, file: Path, done: Sequence[tuple[list[ScoredResponse], ResponseScorer]]
) -> None:
    """Write samples first, results last: where the results are, everything is."""
    rows: dict[str, list[dict[str, Any]]] = {}
    facts: dict[str, dict[str, Any]] = {}
    for task, (scores, scorer) in zip(evaluation.tasks, done, strict=True):
        rows[task.name] = [scored_row(row, result) for row, result in zip(task.rows, scores, strict=True)]
        configuration = {**json.loads(task.config.model_dump_json()), **task.recorded}
        facts[task.name] = {**task.facts, "configuration": configuration, "scoring": scorer.provenance()}
        lines = [json.dumps(row, ensure_ascii=False) + "\n" for row in rows[task.name]]
        samples = file.with_name(f"samples_{task.name}_{evaluation.time}.jsonl")
        write_atomically(samples, "".join(lines).encode())
    results = _results(evaluation.results, rows, facts)
    write_atomically(file, json.dumps(results, ensure_ascii=False, indent=2).encode())


def scored_row(row: Mapping[str, Any], result: ScoredResponse) -> dict[str, Any]:
    """Return a logged sample with its new scores in place of the old ones; NaN is the harness's unscored."""
    own = set(row.get("metrics", ()))
    kept = {key: value for key, value in row.items() if key not in own}
    values = {name: math.nan if score.value is None else score.value for name, score in result.scores.items()}
    return {**kept, "doc": {**row["doc"], "scoring": result.notes}, "metrics": list(values), **values}


def _results(
    saved: Mapping[str, Any], rows: Mapping[str, list[dict[str, Any]]], facts: Mapping[str, dict[str, Any]]
) -> dict[str, Any]:
    """Return the content of a results file: what was saved of the model, and scores of our tasks only."""
    subtasks = saved.get("group_subtasks", {})
    members = {name: own for name in subtasks if (own := _members(name, subtasks, rows))}
    # A group of several settings has no scores of its own: the harness lists it without.
    groups = {name: members[name] for name in saved.get("groups", members) if name in members}
    tables = {name: _scores(name, own, saved, facts[name]) for name, own in rows.items()}
    group_tables = {
        name: _scores(name, [row for task in own for row in rows[task]], saved, facts[own[0]])
        for name, own in groups.items()
    }
    bare = {name: saved["results"][name] for name in members if name in saved.get("results", {})}
    known = {**rows, **members}
    per_task = {
        key: {name: value for name, value in saved[key].items() if name in known} for key in _PER_TASK if key in saved
    }
    per_task["configs"] = {name: _config(saved["configs"][name], rows[name], facts[name]) for name in rows}
    directions = {name: _directions(facts[name]) for name in rows}
    per_task["higher_is_better"] = directions | {name: directions[own[0]] for name, own in members.items()}
    per_task["group_subtasks"] = {name: own for name, own in subtasks.items() if name in known}
    return {**saved, **per_task, "results": {**bare, **tables, **group_tables}, "groups": group_tables}


def _members(group: str, subtasks: Mapping[str, Sequence[str]], rows: Mapping[str, Any]) -> list[str]:
    """Return the tasks of ours in a group, those of groups inside it included."""
    found = [
        name
        for member in subtasks.get(group, ())
        for name in ([member] if member in rows else _members(member, subtasks, rows))
    ]
    return list(dict.fromkeys(found))


def _metrics(facts: Mapping[str, Any]) -> tuple[Metric, ...]:
    """Return the metrics of the suite that a task was scored with."""
    return suite_named(facts.get("suite", DEFAULT_SUITE)).metrics


def _directions(facts: Mapping[str, Any]) -> dict[str, bool | None]:
    return {metric.name: metric.higher_is_better for metric in _metrics(facts)}


def _scores(
    name: str, rows: Sequence[Mapping[str, Any]], saved: Mapping[str, Any], facts: Mapping[str, Any]
) -> dict[str, Any]:
    """Return the means over the scored rows, and the scores of all rows together, in the harness's form.

    Without standard errors: rows of one conversation are not independent, which would make them too small.
    """
    filter_name = rows[0]["filter"]
    alias = saved.get("results", {}).get(name, {}).get("alias", name)
    row: dict[str, Any] = {"name": name, "alias": alias, "sample_len": len(rows)}
    for metric in rows[0]["metrics"]:
        scored = [row[metric] for row in rows if not math.isnan(row[metric])]
        row[f"{metric},{filter_name}"] = sum(scored) / len(scored) if scored else math.nan
        row[f"{metric}_stderr,{filter_name}"] = "N/A"
    for definition in _metrics(facts):
        if definition.aggregate:
            chosen = [row for row in rows if not math.isnan(row[definition.name])]
            pairs = [(row["filtered_resps"][0], row["doc"]["target"]) for row in chosen]
            row[f"{definition.name},{filter_name}"] = definition.aggregate(pairs)
    return row


def _config(saved: Mapping[str, Any], rows: Sequence[Mapping[str, Any]], facts: Mapping[str, Any]) -> dict[str, Any]:
    directions = _directions(facts)
    metrics = [{"metric": name, "higher_is_better": directions[name]} for name in rows[0]["metrics"]]
    return {**saved, "metric_list": metrics, "metadata": {**(saved.get("metadata") or {}), "ragtasks": dict(facts)}}


__all__ = ["Place", "rescore", "scored_row"]

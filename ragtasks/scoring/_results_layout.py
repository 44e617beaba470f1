"""Scores in the harness's layout: a results file, and next to it a file of samples for each harness task.

Every reader of the harness's evaluations can read these files.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import islice
from pathlib import Path
from typing import Any

from ragtasks.clients import Price, priced
from ragtasks.files import OFFICIAL, write_atomically
from ragtasks.metrics import Metric
from ragtasks.results import (
    CONTEXTS_OF_FILE,
    SavedEvaluation,
    SavedTask,
    ScoredAnswer,
    model_of,
    rewritten_sample,
    saved_summary,
)
from ragtasks.scoring._plausibility import (
    EXEMPT,
    CheckedAnswers,
    check_answers,
    plausibility_of,
    with_turn_error,
)
from ragtasks.scoring._scoring import ResponseScorer
from ragtasks.suites import suite_named
from ragtasks.tables import grouped

_PER_TASK = ("configs", "versions", "n-shot", "n-samples", "task_hashes")


ScoredTask = tuple[SavedTask, ResponseScorer]
"""A harness task with its scored answers, and their scorer."""


def write_results(evaluation: SavedEvaluation, file: Path, done: Sequence[ScoredTask]) -> list[CheckedAnswers]:
    """Write the samples first and the results last: a results file implies complete samples.

    Args:
        evaluation: the evaluation before scoring; its other fields are written unchanged.
        file: the results file.
        done: the tasks of the evaluation with new scores.

    Returns:
        The plausibility checks of each setting, which the files also contain; [] for a baseline.
    """
    checked, tasks = _check_settings(evaluation, done)
    rows: dict[str, list[dict[str, Any]]] = {}
    provenance: dict[str, dict[str, Any]] = {}
    for task, (_, scorer) in zip(tasks, done, strict=True):
        answers = [_priced_answer(answer, task.config.price) for answer in task.answers]
        rows[task.name] = [rewritten_sample(answer) for answer in answers]
        provenance[task.name] = {
            **task.provenance,
            "configuration": {**json.loads(task.config.model_dump_json()), **task.recorded},
            "scoring": scorer.provenance(),
            **plausibility_of(answers),
            **saved_summary(answers),
        }
        lines = [json.dumps(row, ensure_ascii=False) + "\n" for row in rows[task.name]]
        samples = file.with_name(f"samples_{task.name}_{evaluation.time}.jsonl")
        write_atomically(samples, "".join(lines).encode())
    results = _results(evaluation.results, rows, provenance)
    write_atomically(file, json.dumps(results, ensure_ascii=False, indent=2).encode())
    return checked


def _check_settings(
    evaluation: SavedEvaluation, done: Sequence[ScoredTask]
) -> tuple[list[CheckedAnswers], list[SavedTask]]:
    """Check the answers of each setting together, and return the checks and the marked tasks."""
    if model_of(evaluation.results) in EXEMPT:
        return [], [replace(task, answers=tuple(map(with_turn_error, task.answers))) for task, _ in done]
    checked: list[CheckedAnswers] = []
    marked: dict[str, SavedTask] = {}
    groups = grouped(
        done, lambda scored_task: f"{scored_task[0].provenance['benchmark']} in {scored_task[0].answers[0].setting}"
    )
    for label, group in groups.items():
        first, scorer = group[0]
        benchmark = scorer.benchmark if _names_passages(first) else None
        checks, answers = check_answers(label, [answer for task, _ in group for answer in task.answers], benchmark)
        checked.append(checks)
        remaining = iter(answers)
        marked |= {task.name: replace(task, answers=tuple(islice(remaining, len(task.answers)))) for task, _ in group}
    return checked, [marked[task.name] for task, _ in done]


def _names_passages(task: SavedTask) -> bool:
    """Return whether passages are published or named by the answers; a stored run may have passages of any corpus."""
    run = task.recorded.get("run", task.config.run)
    return run in {OFFICIAL, CONTEXTS_OF_FILE}


def _priced_answer(answer: ScoredAnswer, price: Price | None) -> ScoredAnswer:
    """Return an answer with its cost at a price, if its tokens are known and its cost is not."""
    return answer if price is None or not answer.usage else replace(answer, usage=priced(answer.usage, price))


def _results(
    saved: Mapping[str, Any], rows: Mapping[str, list[dict[str, Any]]], provenance: Mapping[str, dict[str, Any]]
) -> dict[str, Any]:
    """Return the content of a results file: the saved fields of the model, and scores of our tasks only."""
    subtasks = saved.get("group_subtasks", {})
    members = {name: names for name in subtasks if (names := _members(name, subtasks, rows))}
    # A group of several settings has no scores of its own: the harness lists it without scores.
    groups = {name: members[name] for name in saved.get("groups", members) if name in members}
    tables = {name: _scores(name, names, saved, provenance[name]) for name, names in rows.items()}
    group_tables = {
        name: _scores(name, [row for task in names for row in rows[task]], saved, provenance[names[0]])
        for name, names in groups.items()
    }
    bare = {name: saved["results"][name] for name in members if name in saved.get("results", {})}
    all_rows = {**rows, **members}
    per_task = {
        key: {name: value for name, value in saved[key].items() if name in all_rows}
        for key in _PER_TASK
        if key in saved
    }
    per_task["configs"] = {name: _config(saved["configs"][name], rows[name], provenance[name]) for name in rows}
    directions = {name: _directions(provenance[name]) for name in rows}
    per_task["higher_is_better"] = directions | {name: directions[names[0]] for name, names in members.items()}
    per_task["group_subtasks"] = {name: names for name, names in subtasks.items() if name in all_rows}
    return {**saved, **per_task, "results": {**bare, **tables, **group_tables}, "groups": group_tables}


def _members(group: str, subtasks: Mapping[str, Sequence[str]], rows: Mapping[str, Any]) -> list[str]:
    names = [
        name
        for member in subtasks.get(group, ())
        for name in ([member] if member in rows else _members(member, subtasks, rows))
    ]
    return list(dict.fromkeys(names))


def _metrics(provenance: Mapping[str, Any]) -> tuple[Metric, ...]:
    return suite_named(provenance["suite"]).metrics


def _directions(provenance: Mapping[str, Any]) -> dict[str, bool | None]:
    return {metric.name: metric.higher_is_better for metric in _metrics(provenance)}


def _scores(
    name: str, rows: Sequence[Mapping[str, Any]], saved: Mapping[str, Any], provenance: Mapping[str, Any]
) -> dict[str, Any]:
    """Return the means over the scored rows, and the corpus-level scores, in the harness's form.

    Standard errors are left out: rows of one conversation are not independent, so they would be too small.
    """
    filter_name = rows[0]["filter"]
    alias = saved.get("results", {}).get(name, {}).get("alias", name)
    scores: dict[str, Any] = {"name": name, "alias": alias, "sample_len": len(rows)}
    aggregates = {metric.name: metric.of_all for metric in _metrics(provenance) if metric.of_all}
    for metric in rows[0]["metrics"]:
        scored = [row[metric] for row in rows if isinstance(row[metric], tuple) or not math.isnan(row[metric])]
        mean = aggregates.get(metric, _mean)
        scores[f"{metric},{filter_name}"] = mean(scored) if scored else math.nan
        scores[f"{metric}_stderr,{filter_name}"] = "N/A"
    return scores


def _mean(values: Sequence[float]) -> float:
    return sum(values) / len(values)


def _config(
    saved: Mapping[str, Any], rows: Sequence[Mapping[str, Any]], provenance: Mapping[str, Any]
) -> dict[str, Any]:
    directions = _directions(provenance)
    metrics = [{"metric": name, "higher_is_better": directions[name]} for name in rows[0]["metrics"]]
    return {
        **saved,
        "metric_list": metrics,
        "metadata": {**(saved.get("metadata") or {}), "ragtasks": dict(provenance)},
    }

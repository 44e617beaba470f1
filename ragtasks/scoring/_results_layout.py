"""Scores in the harness's layout: a results file, and beside it a file of samples for each harness task.

Whatever reads an evaluation of the harness reads this too.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence, Set
from pathlib import Path
from typing import Any

from ragtasks.benchmarks import targets_of
from ragtasks.clients import Price, priced
from ragtasks.files import OFFICIAL, write_atomically
from ragtasks.metrics import Metric
from ragtasks.records import Setting
from ragtasks.results import (
    CONTEXTS_OF_FILE,
    SavedEvaluation,
    SavedTask,
    ScoredAnswer,
    model_of,
    saved_summary,
    scored_answer,
)
from ragtasks.scoring._plausibility import (
    EXEMPT,
    CheckedAnswers,
    check_together,
    note_turn_errors,
    plausibility_of,
    replies_in,
)
from ragtasks.scoring._scoring import ResponseScorer, ScoredResponse
from ragtasks.suites import suite_named

_PER_TASK = ("configs", "versions", "n-shot", "n-samples", "task_hashes")


def write_results(
    evaluation: SavedEvaluation, file: Path, done: Sequence[tuple[list[ScoredResponse], ResponseScorer]]
) -> list[CheckedAnswers]:
    """Write samples first, results last: where the results are, everything is.

    Returns what the checks of plausibility found in each setting, which the files hold too; [] for a baseline.
    """
    checked = _checked(evaluation, done)
    rows: dict[str, list[dict[str, Any]]] = {}
    provenance: dict[str, dict[str, Any]] = {}
    for task, (scores, scorer) in zip(evaluation.tasks, done, strict=True):
        together = {metric.name for metric in _metrics(task.provenance) if metric.aggregate}
        known = (_priced(answer.sample, task.config.price) for answer in task.answers)
        scored = (scored_row(row, result) for row, result in zip(known, scores, strict=True))
        rows[task.name] = [_with_pairs(row, together) for row in scored]
        configuration = {**json.loads(task.config.model_dump_json()), **task.recorded}
        provenance[task.name] = {
            **task.provenance,
            "configuration": configuration,
            "scoring": scorer.provenance(),
            **plausibility_of(
                {answer.task.task_id: item.notes for answer, item in zip(task.answers, scores, strict=True)}
            ),
            **saved_summary(map(scored_answer, rows[task.name])),
        }
        lines = [json.dumps(row, ensure_ascii=False) + "\n" for row in rows[task.name]]
        samples = file.with_name(f"samples_{task.name}_{evaluation.time}.jsonl")
        write_atomically(samples, "".join(lines).encode())
    results = _results(evaluation.results, rows, provenance)
    write_atomically(file, json.dumps(results, ensure_ascii=False, indent=2).encode())
    return checked


def _checked(
    evaluation: SavedEvaluation, done: Sequence[tuple[list[ScoredResponse], ResponseScorer]]
) -> list[CheckedAnswers]:
    """Check the answers of each setting together, and note at each scored response what was found."""
    if model_of(evaluation.results) in EXEMPT:
        for task, (scores, _) in zip(evaluation.tasks, done, strict=True):
            note_turn_errors(task.responses, [result.notes for result in scores])
        return []
    groups: dict[tuple[str, str], list[tuple[SavedTask, ScoredAnswer, ScoredResponse, ResponseScorer]]] = {}
    for task, (scores, scorer) in zip(evaluation.tasks, done, strict=True):
        for answer, result in zip(task.answers, scores, strict=True):
            key = (str(task.provenance["benchmark"]), answer.setting)
            groups.setdefault(key, []).append((task, answer, result, scorer))
    return [
        check_together(
            f"{benchmark} in {setting}",
            [answer.response for _, answer, _, _ in items],
            replies_in(answer.sample for _, answer, _, _ in items),
            [result.notes for _, _, result, _ in items],
            setting=Setting(setting),
            benchmark=items[0][3].benchmark if _names_passages(items[0][0]) else None,
        )
        for (benchmark, setting), items in groups.items()
    ]


def _names_passages(task: SavedTask) -> bool:
    """Return whether passages are published or named by the answers: a stored run's may be of any corpus."""
    run = task.recorded.get("run", task.config.run)
    return run in {OFFICIAL, CONTEXTS_OF_FILE}


def _priced(row: Mapping[str, Any], price: Price | None) -> Mapping[str, Any]:
    """Return a sample with what its answer costs at a price, where its tokens are known and no cost is."""
    usage = row["doc"].get("usage")
    return row if price is None or not usage else {**row, "doc": {**row["doc"], "usage": priced(usage, price)}}


def scored_row(row: Mapping[str, Any], result: ScoredResponse) -> dict[str, Any]:
    """Return a logged sample with its new scores in place of the old ones; NaN is the harness's unscored."""
    metrics = set(row.get("metrics", ()))
    rest = {key: value for key, value in row.items() if key not in metrics}
    values = {name: math.nan if score.value is None else score.value for name, score in result.scores.items()}
    return {**rest, "doc": {**row["doc"], "scoring": result.notes}, "metrics": list(values), **values}


def _with_pairs(row: dict[str, Any], together: Set[str]) -> dict[str, Any]:
    """Return a sample with response and references in the place of what is no score of one response, as the harness."""
    pair = [row["filtered_resps"][0].strip(), list(targets_of(row["doc"]))]
    names = [name for name in row["metrics"] if name in together and not math.isnan(row[name])]
    return {**row, **dict.fromkeys(names, pair)}


def _results(
    saved: Mapping[str, Any], rows: Mapping[str, list[dict[str, Any]]], provenance: Mapping[str, dict[str, Any]]
) -> dict[str, Any]:
    """Return the content of a results file: what was saved of the model, and scores of our tasks only."""
    subtasks = saved.get("group_subtasks", {})
    members = {name: names for name in subtasks if (names := _members(name, subtasks, rows))}
    # A group of several settings has no scores of its own: the harness lists it without.
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
    """Return the tasks of ours in a group, those of groups inside it included."""
    found = [
        name
        for member in subtasks.get(group, ())
        for name in ([member] if member in rows else _members(member, subtasks, rows))
    ]
    return list(dict.fromkeys(found))


def _metrics(provenance: Mapping[str, Any]) -> tuple[Metric, ...]:
    """Return the metrics of the suite that a task was scored with."""
    return suite_named(provenance["suite"]).metrics


def _directions(provenance: Mapping[str, Any]) -> dict[str, bool | None]:
    return {metric.name: metric.higher_is_better for metric in _metrics(provenance)}


def _scores(
    name: str, rows: Sequence[Mapping[str, Any]], saved: Mapping[str, Any], provenance: Mapping[str, Any]
) -> dict[str, Any]:
    """Return the means over the scored rows, and the scores of all rows together, in the harness's form.

    Without standard errors: rows of one conversation are not independent, which would make them too small.
    """
    filter_name = rows[0]["filter"]
    alias = saved.get("results", {}).get(name, {}).get("alias", name)
    row: dict[str, Any] = {"name": name, "alias": alias, "sample_len": len(rows)}
    aggregates = {metric.name: metric.aggregate for metric in _metrics(provenance) if metric.aggregate}
    for metric in rows[0]["metrics"]:
        scored = [row[metric] for row in rows if isinstance(row[metric], list) or not math.isnan(row[metric])]
        mean = aggregates.get(metric, _mean)
        row[f"{metric},{filter_name}"] = mean(scored) if scored else math.nan
        row[f"{metric}_stderr,{filter_name}"] = "N/A"
    return row


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

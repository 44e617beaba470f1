"""Evaluations in the format that InspectorRAGet reads."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import orjson

from ragtasks.errors import ConfigurationError
from ragtasks.files import write_atomically
from ragtasks.results import (
    Evaluation,
    Row,
    merge_evaluations,
    model_names,
    request_differences,
    samples_of,
    scored_on,
)
from ragtasks.tables import heading

# Writes evaluations as one file for InspectorRAGet, in version 2 of its format.
# That viewer takes a task away from every model where one model has no result or no value for one metric. So the
# choice is made here, and told: a metric that many tasks lack is left out, and then the tasks that lack any of the
# others. One file holds evaluations that were scored alike, and a task in several settings counts as several; where
# they were asked otherwise, the file's name for the viewer says whose.
# Source of the format: IBM/InspectorRAGet at 2542139, `src/validators.ts`, `src/processor.ts`, `src/types.ts`.

SCHEMA_VERSION = 2
_SYSTEM = "system"  # the viewer's name for an annotator that is no person
_JUDGES = "judges_"  # before a rubric's name: a metric whose annotators are the judges
_SPEAKERS = {"user": "user", "assistant": "agent"}
_FILTERS = ("Setting", "Domain", "Answerability", "Question Type", "Multi-Turn", "Turn")
_BINS = 10


@dataclass(frozen=True, slots=True)
class Exported:
    """What stands in a written file, and what does not."""

    path: Path
    models: tuple[str, ...]
    metrics: tuple[str, ...]
    n_tasks: int
    """Tasks; one in several settings counts as several."""
    n_results: int
    n_documents: int
    left_out: tuple[str, ...]

    def describe(self) -> list[str]:
        """Return lines that say all of it."""
        counts = f"{len(self.models)} models, {self.n_tasks} tasks, {self.n_results} results"
        return [
            f"wrote {self.path}: {counts}, {self.n_documents} documents",
            f"metrics: {', '.join(self.metrics)}",
            *(f"left out: {line}" for line in self.left_out),
        ]


class _Documents:
    """The passages, each once, under ids of their own."""

    def __init__(self) -> None:
        self.lines: list[bytes] = []
        self._ids: dict[str, dict[tuple[str, str], str]] = {}

    def id_of(self, passage: Mapping[str, Any]) -> str:
        """Return a passage's id; texts that share one, as other passages of other runs may, get a number."""
        passage_id, content = passage["passage_id"], (passage["title"], passage["text"])
        ids = self._ids.setdefault(passage_id, {})
        if content not in ids:
            ids[content] = f"{passage_id} ({len(ids) + 1})" if ids else passage_id
            line = {"document_id": ids[content], "text": passage["text"], "title": passage["title"]}
            self.lines.append(orjson.dumps(line))
        return ids[content]


def export_inspector(
    evaluations: Sequence[Evaluation], path: Path, *, setting: str | None = None, most_unscored: float = 0.05
) -> Exported:
    """Write one file with all models, atomically, and return what stands in it."""
    if not 0 <= most_unscored <= 1:
        raise ConfigurationError(f"largest unscored share {most_unscored}: it must be between 0 and 1")
    _require_alike(evaluations)
    labels = model_names(evaluations)
    table = _scores(evaluations, labels, setting)
    chosen = choose(table, most_unscored)
    settings = list(dict.fromkeys(key[0] for key in chosen.keys))
    documents, tasks, results = _Documents(), dict[Key, bytes](), list[bytes]()
    for evaluation, label in zip(evaluations, labels, strict=True):
        for sample in _samples(evaluation):
            key = (sample["doc"]["setting"], sample["doc"]["task_id"])
            if key in chosen.keys:
                task_id = key[1] if len(settings) == 1 else "/".join(key)
                contexts = [{"document_id": documents.id_of(item)} for item in sample["doc"]["passages"]]
                tasks.setdefault(key, orjson.dumps(_task(task_id, sample["doc"], contexts)))
                found = {name: table.cells[label][key][name] for name in chosen.metrics}
                results.append(orjson.dumps(_result(task_id, label, sample, contexts, found)))
    models = [*table.cells]
    head = {
        "schema_version": SCHEMA_VERSION,
        "name": heading(
            "; ".join([evaluations[0].kind[0], *settings]), request_differences(merge_evaluations(evaluations))
        ),
        "models": [_model(name) for name in models],
        "metrics": [_metric(name, evaluations[0], table, chosen.keys) for name in chosen.metrics],
        "filters": list(_FILTERS),
    }
    write_atomically(path, _joined(head, documents=documents.lines, tasks=tasks.values(), results=results))
    counts = (len(tasks), len(results), len(documents.lines))
    return Exported(path, tuple(models), tuple(chosen.metrics), *counts, tuple(chosen.left_out))


def _require_alike(evaluations: Sequence[Evaluation]) -> None:
    found = sorted({heading(evaluation.kind[0], scored_on(evaluation)) for evaluation in evaluations})
    if len(found) != 1:
        lines = "\n  ".join(found) or "none"
        raise ConfigurationError(f"one file holds evaluations that were scored alike; found:\n  {lines}")


def _scores(evaluations: Sequence[Evaluation], labels: Sequence[str], setting: str | None) -> ScoreTable:
    """Return every score that there is, and the names of the metrics in order: the suite's, then the judges'."""
    cells: dict[str, dict[Key, Scores]] = {}
    names: dict[str, None] = {}
    rubrics: dict[str, None] = {}
    for evaluation, label in zip(evaluations, labels, strict=True):
        values = cells.setdefault(label, {})
        for row in evaluation.rows:
            if setting not in {None, row.setting}:
                continue
            values[row.setting, row.task_id] = _scores_of(row)
            names.update(dict.fromkeys(row.values))
            rubrics.update((_JUDGES + rubric, None) for rubric, _ in row.verdicts)
    suite = [metric.name for metric in evaluations[0].metrics if metric.name in names]
    return ScoreTable(cells, (*suite, *rubrics))


def _scores_of(row: Row) -> Scores:
    found: Scores = {name: {_SYSTEM: value} for name, value in row.values.items() if value is not None}
    for (rubric, judge), value in row.verdicts.items():
        if value is not None:
            found.setdefault(_JUDGES + rubric, {})[judge] = value
    return found


def _samples(evaluation: Evaluation) -> Iterator[dict[str, Any]]:
    for path in evaluation.samples.values():
        yield from (line.sample for line in samples_of(path))


def _task(task_id: str, doc: Mapping[str, Any], contexts: list[dict[str, str]]) -> dict[str, Any]:
    messages = [*doc["history"], {"role": "user", "content": doc["question"]}]
    return {
        "task_id": task_id,
        "task_type": "qa",
        "input": [{"speaker": _SPEAKERS.get(item["role"], item["role"]), "text": item["content"]} for item in messages],
        "contexts": contexts,
        "targets": [{"type": "text", "value": doc["target"]}] if doc["target"] else [],
        "Setting": doc["setting"],
        "Domain": doc["domain"],
        "Answerability": doc["answerability"],
        "Question Type": doc["question_types"],
        "Multi-Turn": doc["multi_turn"],
        "Turn": str(doc["turn"]),
        "Conversation": doc["conversation_id"],
    }


def _result(
    task_id: str, model: str, sample: Mapping[str, Any], contexts: list[dict[str, str]], scores: Scores
) -> dict[str, Any]:
    idk = sample["doc"].get("scoring", {}).get("idk")
    return {
        "task_id": task_id,
        "model_id": model,
        "output": [{"role": "assistant", "content": str(sample["filtered_resps"][0])}],
        "scores": {name: {who: {"value": value} for who, value in values.items()} for name, values in scores.items()},
        "contexts": contexts,
        **({"labels": {"idk": idk}} if idk else {}),
    }


def _model(name: str) -> dict[str, str]:
    owner, slash, _ = name.partition("/")
    return {"model_id": name, "name": name, "owner": owner if slash and owner else "unknown"}


def _metric(name: str, evaluation: Evaluation, table: ScoreTable, keys: Iterable[Key]) -> dict[str, Any]:
    """Return a metric's definition, with a range that holds every value of it."""
    found = next((metric for metric in evaluation.metrics if metric.name == name), None)
    direction = "; lower is better" if found is not None and found.higher_is_better is False else ""
    description = f"each judge's own, under {name.removeprefix(_JUDGES)}" if found is None else found.description
    values = [value for cells in table.cells.values() for key in keys for value in cells[key][name].values()]
    low, high = min(0, math.floor(min(values))), max(1, math.ceil(max(values)))
    return {
        "name": name,
        "display_name": name,
        "description": description + direction,
        "author": "algorithm",
        "type": "numerical",
        "aggregator": "mean",
        "range": [low, high, (high - low) / _BINS],
    }


def _joined(head: Mapping[str, Any], **lists: Iterable[bytes]) -> bytes:
    """Return one JSON object: the head's fields, then lists whose items are JSON already."""
    parts = [b",\n%s:[\n%s\n]" % (orjson.dumps(name), b",\n".join(items)) for name, items in lists.items()]
    return b"%s%s}\n" % (orjson.dumps(head)[:-1], b"".join(parts))


# Which metrics and tasks fit into a file whose viewer wants a value in every cell.
# A task must have a result of every model, and every result a value of every metric. What does not fit is left out
# here, with a line that says so, instead of by the viewer without a word.

Key = tuple[str, str]
"""Setting and task id."""
Scores = dict[str, dict[str, float]]
"""Metric -> annotator -> value; without the metrics that have no value."""


@dataclass(frozen=True, slots=True)
class ScoreTable:
    """Every score that there is."""

    cells: Mapping[str, Mapping[Key, Scores]]
    """Model -> task -> its scores."""
    metrics: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Choice:
    """What fits."""

    metrics: Sequence[str]
    keys: Mapping[Key, None]
    """Tasks in the order of the first model, as a mapping for fast look-ups."""
    left_out: Sequence[str]


def choose(table: ScoreTable, most_unscored: float) -> Choice:
    """Return the metrics and tasks that make a table without a gap."""
    first, *others = table.cells.values()
    every = {key for cells in table.cells.values() for key in cells}
    shared = [key for key in first if all(key in cells for cells in others)]
    left_out = [f"{len(every) - len(shared)} tasks that not every model answered"] if len(shared) < len(every) else []
    lacking = {name: _lacking(table, name, shared) for name in table.metrics}
    most = min(most_unscored * len(shared), len(shared) - 1)
    metrics = [name for name in table.metrics if len(lacking[name]) <= most]
    left_out += [
        f"metric {name}: no value in {len(lacking[name])} of {len(shared)} tasks"
        for name in table.metrics
        if len(lacking[name]) > most
    ]
    gaps = {key for name in metrics for key in lacking[name]}
    if gaps:
        names = [f"{name} ({len(lacking[name])})" for name in metrics if lacking[name]]
        left_out.append(f"{len(gaps)} tasks without a value of {', '.join(names)}")
    keys = {key: None for key in shared if key not in gaps}
    if not keys or not metrics:
        raise ConfigurationError(
            "nothing that every model answered and every metric scored: " + ("; ".join(left_out) or "no task")
        )
    return Choice(metrics, keys, left_out)


def _lacking(table: ScoreTable, name: str, keys: Sequence[Key]) -> list[Key]:
    """Return the tasks where a model has no value of a metric."""
    return [key for key in keys if any(name not in cells[key] for cells in table.cells.values())]

"""Export of results: Every Eval Ever, model cards of the Hugging Face hub, and rows."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import orjson

from ragtasks.errors import ConfigurationError
from ragtasks.files import canonical_hash, write_atomically, written_lines
from ragtasks.reports.history import Entry
from ragtasks.results import DECISIVE, UNKNOWN
from ragtasks.tables import csv_lines, grouped

# Evaluations in the schema of Every Eval Ever: one record per model and benchmark of a results file. Source of the
# format: evaleval/every_eval_ever at 9bce413, `every_eval_ever/schemas/eval.schema.json`, version 0.3.0. The format
# requires a better direction and two bounds. Metrics without them are left out.

SCHEMA_VERSION = "0.3.0"
_INTERVAL = (
    "over conversations: Wilson's score interval, each end extended to Hall's skewness-corrected end if that is wider"
)
_UNSAFE = re.compile(r"[^\w.-]+")


def every_eval_ever(entries: Sequence[Entry], organization: str, relationship: str) -> list[dict[str, Any]]:
    """Return one record per results file, model and benchmark."""
    groups = grouped(entries, lambda entry: (entry.source, entry.model, entry.title))
    source = {"source_name": "ragtasks", "source_type": "evaluation_run", "source_organization_name": organization}
    return [_record(own, source | {"evaluator_relationship": relationship}) for own in groups.values()]


def write_every_eval_ever(records: Sequence[dict[str, Any]], folder: Path) -> list[Path]:
    """Write each record below a folder as BENCHMARK/DEVELOPER/MODEL/ID.json, and return the files."""
    written = []
    for record in records:
        benchmark = record["evaluation_id"].split("/")[0]
        developer, _, model = record["model_info"]["id"].rpartition("/")
        name = canonical_hash(record)[:16]
        path = folder.joinpath(*map(_safe, (benchmark, developer or "unknown", model)), f"{name}.json")
        write_atomically(path, orjson.dumps(record, option=orjson.OPT_INDENT_2))
        written.append(path)
    return written


def _record(entries: Sequence[Entry], source: dict[str, str]) -> dict[str, Any]:
    first = entries[0]
    results = [result for entry in entries for result in _results(entry)]
    stamp = str(int(first.time.timestamp())) if first.time else "0"
    developer, _, _ = first.model.rpartition("/")
    record: dict[str, Any] = {
        "schema_version": SCHEMA_VERSION,
        "evaluation_id": f"{_safe(first.title)}/{first.model}/{stamp}",
        "retrieved_timestamp": stamp,
        "source_metadata": source,
        "eval_library": {
            "name": "lm_eval",
            "version": _provenance_field(first, "harness version") or "unknown",
            "additional_details": {
                "plugin": "ragtasks",
                "plugin_version": _provenance_field(first, "ragtasks version") or "unknown",
            },
        },
        "model_info": {
            "name": first.model,
            "id": first.model,
            **({"developer": developer} if developer else {}),
            "additional_details": {"deployment_type": "unknown", "model_availability": "unknown"},
        },
        "evaluation_results": results,
    }
    return record | ({"evaluation_timestamp": stamp} if first.time else {})


def _results(entry: Entry) -> Iterator[dict[str, Any]]:
    basis = {name: entry.provenance[name] for name in DECISIVE if entry.provenance[name] != UNKNOWN}
    for metric in entry.metrics:
        mean = entry.means[metric.name]
        if mean.value is None or metric.higher_is_better is None or any(map(math.isinf, metric.bounds)):
            continue
        details: dict[str, Any] = {
            "score": mean.value,
            "details": {"n_scored": str(mean.n_scored), "n": str(mean.n), "n_tasks": str(entry.n_tasks or entry.n)},
        }
        if mean.low is not None and mean.high is not None:
            ends = {"lower": mean.low, "upper": mean.high, "confidence_level": 0.95, "method": _INTERVAL}
            details["uncertainty"] = {"confidence_interval": ends, "num_samples": mean.n_scored}
        yield {
            "evaluation_name": f"{entry.title}, {entry.setting}: {metric.name}",
            "source_data": {"dataset_name": entry.benchmark, "source_type": "other", "additional_details": basis},
            "metric_config": {
                "evaluation_description": metric.description,
                "lower_is_better": not metric.higher_is_better,
                "score_type": "continuous",
                "min_score": metric.bounds[0],
                "max_score": metric.bounds[1],
            },
            "score_details": details,
        }


def _provenance_field(entry: Entry, field: str) -> str | None:
    """Return a field of an evaluation's provenance, or None if it is unknown."""
    text = entry.provenance.get(field, UNKNOWN)
    return None if text == UNKNOWN else text


def _safe(text: str) -> str:
    """Return a text as a folder name: no separators, and never `.` or `..`."""
    return _UNSAFE.sub("-", text).strip(".-") or "unknown"


# Scores as `model-index`, the metadata of a model card that the Hugging Face hub displays as results.

_TASK = "text-generation"


def model_card(entries: Sequence[Entry]) -> str:
    """Return the YAML between the `---` lines of a model's README.md: its main scores by setting.

    Raises:
        ConfigurationError: the entries are not of exactly one model.
    """
    from huggingface_hub import EvalResult, ModelCardData

    models = list(dict.fromkeys(entry.model for entry in entries))
    if len(models) != 1:
        listed = ", ".join(models) or "none"
        raise ConfigurationError(
            f"a model card requires exactly one model, found {listed}. Next step: name one with --model"
        )
    results = [
        EvalResult(
            task_type=_TASK,
            task_name="Multi-turn retrieval-augmented generation",
            dataset_type=entry.benchmark,
            dataset_name=f"{entry.title}, {entry.setting}",
            dataset_config=entry.setting,
            dataset_revision=_provenance_field(entry, "data revision"),
            metric_type=metric.name,
            metric_name=metric.name,
            metric_value=round(mean.value, 4),
        )
        for entry in entries
        for metric in entry.main_metrics
        if (mean := entry.means[metric.name]).value is not None
    ]
    return f"{ModelCardData(model_name=models[0], eval_results=results).to_yaml()}\n"


# One row per score of each evaluation, for pandas, a spreadsheet or a database.

_PROVENANCE = ("data revision", "encoder", "judges", "run", "harness version", "ragtasks version")


def rows_of(entries: Sequence[Entry]) -> list[dict[str, Any]]:
    """Return one row per metric with a value: names, mean, interval, counts and provenance."""
    return [
        {
            "model": entry.model,
            "benchmark": entry.benchmark,
            "setting": entry.setting,
            "metric": metric.name,
            "value": mean.value,
            "low": mean.low,
            "high": mean.high,
            "n_scored": mean.n_scored,
            "n": mean.n,
            "n_tasks": entry.n_tasks or entry.n,
            "higher_is_better": metric.higher_is_better,
            "time": entry.time.isoformat() if entry.time else None,
            **{name.replace(" ", "_"): _provenance_field(entry, name) for name in _PROVENANCE},
        }
        for entry in entries
        for metric in entry.metrics
        if (mean := entry.means[metric.name]).value is not None
    ]


def written(rows: Sequence[Mapping[str, Any]], ending: str) -> str:
    """Return rows as text: `.csv`, `.json` (a list) or `.jsonl` (an object per line)."""
    if ending == ".jsonl":
        return written_lines(rows).decode()
    if ending == ".json":
        return json.dumps(rows, ensure_ascii=False, indent=1) + "\n"
    if ending != ".csv":
        raise ConfigurationError(f"supported endings are .csv, .json and .jsonl, found {ending or 'no ending'}")
    columns = list(dict.fromkeys(name for row in rows for name in row))
    return csv_lines(columns, ([row.get(name) for name in columns] for row in rows))

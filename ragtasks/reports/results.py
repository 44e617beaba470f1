"""Reads what the harness wrote with `--output_path --log_samples`.

The harness writes one results file and one sample file a task, with the same time in their names. An evaluation here
is one such set: a model's rows, with the facts that decide whether two evaluations may stand in one table.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ragtasks.benchmarks._rows import Faults, json_lines, parse_json
from ragtasks.errors import BenchmarkFileError, clear_error
from ragtasks.judges.verdicts import VerdictOutcome
from ragtasks.metrics.metric import Metric
from ragtasks.runs import OFFICIAL
from ragtasks.saved_answers import DEFAULT_SUITE, facts_of_answers
from ragtasks.suites.suite import suite_named

_TIME = re.compile(r"results_(?P<time>.+)\.json")
_OUR_PROMPTS = "ours"
_NEXT_STEP = "run the evaluation again with --output_path DIR --log_samples"
_ONCE = "each task once in a setting (harness tasks over the same questions need calls of their own)"


Kind = tuple[str, str, str]
"""Benchmark (says `sample` where it is one), encoder, and IDK detector with any judges of an evaluation."""


@dataclass(frozen=True, slots=True)
class Row:
    """One scored response."""

    task_id: str
    """Task."""
    conversation_id: str
    """The conversation that the task was cut from: tasks of one are not independent."""
    turn: int
    """User turn, from 1."""
    domain: str
    """Short name of the corpus."""
    setting: str
    """`reference`, `reference_rag` or `full_rag`."""
    answerability: str
    """Label of the task."""
    question_types: tuple[str, ...]
    """Labels of the question."""
    multi_turn: str
    """Label of the turn."""
    n_passages: int
    """Passages that the model was shown."""
    n_references: int
    """Passages that the reference answer rests on."""
    n_found: int
    """Of these, how many the model was shown."""
    idk: str | None
    """Whether the response says that it does not know: `yes`, `partial`, `no`; None without a verdict."""
    values: Mapping[str, float | None]
    """Metric -> value, None where unscored."""
    unscored: Mapping[str, str]
    """Metric -> why it has no value."""
    verdicts: Mapping[tuple[str, str], float | None]
    """(Rubric, judge) -> what that judge made of it, 0 to 1; None where it was asked and gave no value."""


@dataclass(frozen=True, slots=True)
class Evaluation:
    """One model on one benchmark."""

    model: str
    """Name for the tables."""
    kind: Kind
    """What it was scored on and with: rows of other kinds do not compare."""
    rows: tuple[Row, ...]
    """All responses, every setting and domain."""
    suite: str
    """Name of the suite of metrics."""
    facts: Mapping[str, Mapping[str, Any]]
    """Harness task -> what its results say of data, run, configuration, prompts and scoring; under `harness`, what the
    harness itself says of how the task was asked.
    """
    source: Path
    """The results file."""
    samples: Mapping[str, Path]
    """Harness task -> the file with its logged samples; `rows` are theirs, in this order."""

    @property
    def metrics(self) -> tuple[Metric, ...]:
        """The metrics of its suite, in the order of tables."""
        return suite_named(self.suite).metrics

    @property
    def revision(self) -> str:
        """Version of the benchmark's files; empty where the results do not say."""
        return ", ".join(sorted({str(facts["revision"]) for facts in self.facts.values() if "revision" in facts}))


def read_evaluations(paths: Sequence[Path]) -> list[Evaluation]:
    """Return the evaluations found below the paths, in order of their names.

    Args:
        paths: folders that the harness wrote to, or results files in them.

    Raises:
        BenchmarkFileError: no results, no logged samples, a broken file, or a task more than once in a setting.
    """
    files = sorted({file for path in paths for file in _results_files(path)})
    return [evaluation for file in files for evaluation in _evaluations(file)]


def _results_files(path: Path) -> list[Path]:
    files = sorted(path.rglob("results_*.json")) if path.is_dir() else [path] if path.is_file() else []
    if files:
        return files
    raise _error(str(path), "a results file of the harness (results_*.json)", "none")


def _evaluations(file: Path) -> list[Evaluation]:
    """Return one evaluation for each kind in a results file: a call may have run several benchmarks."""
    match = _TIME.fullmatch(file.name)
    try:
        results = parse_json(file.read_bytes())
        kinds = _kinds(results)
    except (OSError, ValueError, LookupError, TypeError, AttributeError) as error:
        raise _error(str(file), "a results file of the harness", f"{type(error).__name__}: {error}") from error
    samples = sorted(file.parent.glob(f"samples_*_{match['time']}.jsonl")) if match else []
    task_of = {sample.name.removeprefix("samples_").rpartition("_")[0]: sample for sample in samples}
    parts: dict[tuple[str, str, Kind], dict[str, Path]] = {}
    for task, sample in task_of.items():
        if task in kinds:
            parts.setdefault(kinds[task], {})[task] = sample
    if not parts:
        raise _error(str(file), "logged samples of a ragtasks task beside it (samples_*.jsonl)", "none")
    model, facts = _model_name(results), _facts(results)
    return [
        Evaluation(
            model=_label(model, run),
            kind=kind,
            rows=tuple(_rows(own.values())),
            suite=suite,
            facts={task: facts[task] for task in own},
            source=file,
            samples=own,
        )
        for (run, suite, kind), own in parts.items()
    ]


def _label(model: str, run: str) -> str:
    """Return the model's name with the run that it was given, where that is not the benchmark's own."""
    return model if run == OFFICIAL else f"{model} (run {run})"


def _facts(results: Mapping[str, Any]) -> dict[str, Mapping[str, Any]]:
    """Return our harness tasks of a results file that ask for answers -> what it says of them."""
    return {
        task: {**facts, "harness": _asked_by_harness(results, task)}
        for task, facts in facts_of_answers(results.get("configs", {})).items()
    }


def _asked_by_harness(results: Mapping[str, Any], task: str) -> dict[str, Any]:
    """Return what a call of the harness may change in how a task is asked, and the version of the task.

    The number of few-shot examples is not among it: our tasks take none, whatever the harness notes.
    """
    # Of a chat endpoint, which applies its template itself, the harness notes the empty text.
    is_templated = results["chat_template"] is not None if "chat_template" in results else None
    return {
        "version": value_at(results, "versions", task),
        "system_instruction_sha": value_at(results, "system_instruction_sha"),
        "has_chat_template": is_templated,
        "generation_kwargs": value_at(results, "configs", task, "generation_kwargs"),
    }


def _kinds(results: Mapping[str, Any]) -> dict[str, tuple[str, str, Kind]]:
    """Return our harness tasks of a results file -> run, suite and kind of evaluation that each says it is."""
    return {
        name: (
            facts.get("configuration", {}).get("run", OFFICIAL),
            facts.get("suite", DEFAULT_SUITE),
            (facts["benchmark"], facts["scoring"]["encoder"], _judging(facts["scoring"])),
        )
        for name, facts in _facts(results).items()
    }


def _judging(scoring: Mapping[str, Any]) -> str:
    """Return who decided on refusals, and the judges where there were any."""
    judges, prompts = scoring.get("judges"), scoring.get("judge_prompts") or _OUR_PROMPTS
    if not judges:
        return str(scoring["idk_detector"])
    words = "" if prompts == _OUR_PROMPTS else f" (prompts: {prompts})"
    return f"{scoring['idk_detector']}; judges: {judges}{words}"


def _model_name(results: Mapping[str, Any]) -> str:
    """Return the model's own name where its arguments give one, else the harness's name for its kind."""
    config = results.get("config", {})
    arguments = config.get("model_args") or {}
    named = [arguments[key] for key in ("model", "pretrained") if isinstance(arguments, dict) and key in arguments]
    return str(named[0]) if named else str(config.get("model", "unknown"))


def _rows(paths: Iterable[Path]) -> Iterator[Row]:
    """Yield the samples of one evaluation, each task once in a setting: else its answers would share one mean."""
    places: dict[tuple[str, str], tuple[Path, int]] = {}
    for path in paths:
        faults = Faults(path, "logged samples", _NEXT_STEP)
        for line, sample in json_lines(faults):
            try:
                row = _row(sample)
                first = places.setdefault((row.setting, row.task_id), (path, line))
            except (LookupError, TypeError, AttributeError) as error:
                faults.add(line, "a sample of a ragtasks task", f"{type(error).__name__}: {error}")
                continue
            if first != (path, line):
                faults.add(line, _ONCE, f"one that line {first[1]} of {first[0].name} has", row.task_id)
            yield row
        faults.raise_if_any()


def _row(sample: Mapping[str, Any]) -> Row:
    doc = sample["doc"]
    notes = doc.get("scoring", {})
    references = set(doc["references"])
    verdicts = [item for item in notes.get("verdicts", ()) if item.get("outcome") != VerdictOutcome.NOT_ASKED.value]
    return Row(
        task_id=doc["task_id"],
        conversation_id=doc["conversation_id"],
        turn=doc["turn"],
        domain=doc["domain"],
        setting=doc["setting"],
        answerability=doc["answerability"],
        question_types=tuple(doc["question_types"]),
        multi_turn=doc["multi_turn"],
        n_passages=len(doc["passages"]),
        n_references=len(references),
        n_found=len(references.intersection(passage["passage_id"] for passage in doc["passages"])),
        idk=notes.get("idk"),
        values={name: _number(sample[name]) for name in sample["metrics"] if not _is_pair(sample[name])},
        unscored=notes.get("unscored", {}),
        verdicts={(item["rubric"], item["judge"]): item["value"] for item in verdicts},
    )


def value_at(found: Any, *keys: str) -> Any:
    """Return what stands in nested JSON objects under some keys; None where there is nothing."""
    for key in keys:
        found = found.get(key) if isinstance(found, Mapping) else None
    return found


def _is_pair(value: Any) -> bool:
    """Return whether a metric has no value of one response: what stands there are response and reference answer."""
    return isinstance(value, list) and [type(part) for part in value] == [str, str]


def _number(value: Any) -> float | None:
    """Return a number; None for NaN, which the harness's JSON has as NaN and the reader as None."""
    return None if value is None or math.isnan(value) else float(value)


def _error(where: str, expected: str, found: str) -> BenchmarkFileError:
    return BenchmarkFileError(clear_error("results", where=where, expected=expected, found=found, next_step=_NEXT_STEP))


__all__ = ["Evaluation", "Kind", "Row", "read_evaluations", "value_at"]

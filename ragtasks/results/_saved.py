"""Answers that were saved before, as the harness's logged samples.

They are read into the same records as a file of answers (`_predictions`), tasks of the harness with one row an answer,
so that scoring them again does not care which it was. A file is checked whole before anything is said about it.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from ragtasks.config import (
    DEFAULT_ENCODER,
    MODEL_KEYS,
    NO_ENCODER,
    SAMPLE_ENCODER,
    EvaluationConfig,
    config_from_options,
)
from ragtasks.errors import BenchmarkFileError, ConfigurationError, misfits, missing_path_error
from ragtasks.files import Problems, json_lines, parse_json
from ragtasks.records import Response
from ragtasks.results._scored_answer import SAMPLE, ScoredAnswer, parsed_sample, saved_answer
from ragtasks.suites import added_metric_names, suite_with

_ANSWERS = "generate_until"


@dataclass(frozen=True, slots=True)
class SavedTask:
    """The answers to one harness task."""

    name: str
    benchmark: str
    config: EvaluationConfig
    """What its answers are to be scored with."""
    provenance: Mapping[str, Any]
    """What the results say of the task's origin."""
    recorded: Mapping[str, Any]
    """What the results say of how its answers were made, where the configuration does not."""
    answers: tuple[ScoredAnswer, ...]
    """In the order of the file, each with its sample."""

    @property
    def responses(self) -> list[Response]:
        """The responses of the answers."""
        return [answer.response for answer in self.answers]


@dataclass(frozen=True, slots=True)
class SavedEvaluation:
    """One model's answers, as one results file and its samples."""

    source: Path
    folder: Path
    """Where they belong below an output folder."""
    time: str
    """What stands in the names of the files that go together."""
    results: Mapping[str, Any]
    tasks: tuple[SavedTask, ...]
    unused: Mapping[str, Any]
    """Settings that it names and that are not used, as nobody asked for them (see `ragtasks.results`)."""


def evaluation_files(path: Path) -> tuple[list[Path], list[Path]]:
    """Return (results files of the harness, predictions files) at a path or below it, in order of their names."""
    if not path.exists():
        raise missing_path_error("saved answers", path, "a folder of results, a results file, or predictions (*.jsonl)")
    files = [path] if path.is_file() else [file for file in sorted(path.rglob("*")) if file.is_file()]
    results = [file for file in files if time_of(file)]
    predictions = [file for file in files if file.suffix == ".jsonl" and not file.name.startswith("samples_")]
    if results or predictions:
        return results, predictions
    raise unusable("saved answers", path, "results_*.json with samples_*.jsonl, or predictions (*.jsonl)", "neither")


def provenance_of_answers(configs: Mapping[str, Any]) -> dict[str, Mapping[str, Any]]:
    """Return our harness tasks that ask for answers -> what the results say of them; likelihood tasks have none."""
    asking = {name: config for name, config in configs.items() if config.get("output_type", _ANSWERS) == _ANSWERS}
    own = {name: (config.get("metadata") or {}).get("ragtasks") for name, config in asking.items()}
    found = {name: provenance for name, provenance in own.items() if provenance}
    for name, provenance in found.items():
        require_origin(name, provenance)
    return found


def read_results(file: Path, folder: Path, given: Mapping[str, Any]) -> SavedEvaluation:
    """Return the answers in a results file of the harness, which belong in `folder` of an output, and its samples.

    Of the options in the file only harmless ones are used unasked; `given` are the user's.
    """
    time = time_of(file)
    assert time, "evaluation_files chose it"
    try:
        results = parse_json(file.read_bytes())
        by_task = {name: dict(provenance) for name, provenance in provenance_of_answers(results["configs"]).items()}
        saved = {name: dict(provenance["configuration"]) for name, provenance in by_task.items()}
        configs = {name: _merged(file, saved[name], given) for name in by_task}
        for name, provenance in by_task.items():
            provenance["suite"] = suite_with(provenance["suite"], configs[name])
    except (OSError, ValueError, LookupError, TypeError, AttributeError) as error:
        raise unusable("results", file, "a results file of the harness", f"{type(error).__name__}: {error}") from error
    samples = logged_samples(file, results, configs)
    tasks = tuple(
        _read_task(name, logged, by_task[name], configs[name], recorded(saved[name]))
        for name, logged in samples.items()
    )
    unasked = {key: value for settings in saved.values() for key, value in unused(settings, given).items()}
    return SavedEvaluation(file, folder, time, results, tasks, unasked)


def _merged(file: Path, saved: Mapping[str, Any], given: Mapping[str, Any]) -> EvaluationConfig:
    changed = [key for key in RECORDED if key in given and given[key] != saved.get(key, given[key])]
    if changed:
        raise ConfigurationError(
            f"{file}: its answers were made with other values of {', '.join(changed)} than the metadata gives; "
            "leave these keys out, or run the evaluation again"
        )
    return config_from_options({**harmless(saved), **given})


def _read_task(
    name: str,
    logged: LoggedSamples,
    provenance: Mapping[str, Any],
    config: EvaluationConfig,
    made_by: Mapping[str, Any],
) -> SavedTask:
    answers = [answer for _, answer, _ in saved_answers(logged)]
    benchmarks = sorted({str(answer.sample["doc"].get("benchmark")) for answer in answers})
    if len(benchmarks) > 1:
        raise unusable("logged samples", logged.path, "samples of one benchmark", ", ".join(benchmarks))
    return SavedTask(name, benchmarks[0], config, provenance, made_by, tuple(answers))


# The files of one evaluation of the harness: results, and beside them a file of logged samples for each task.
# A samples file that is missing or shortened would change every mean without a word, so all of them have to be
# there, with as many lines as the results say.

RUN_AGAIN = "run the evaluation again, by `ragtasks eval` or by lm_eval with --output_path DIR --log_samples"
"""The next step where files cannot be fixed."""


def unusable(what: str, where: Path, expected: str, found: str, next_step: str = RUN_AGAIN) -> BenchmarkFileError:
    """Return the error for results or answers that cannot be read."""
    return BenchmarkFileError(what, where=str(where), expected=expected, found=found, next_step=next_step)


_TIME = re.compile(r"results_(?P<time>.+)\.json")
_BRING_ALL = f"bring all files that the evaluation wrote into one folder, or {RUN_AGAIN}"


@dataclass(frozen=True, slots=True)
class LoggedSamples:
    """The logged samples of one harness task."""

    path: Path
    n: int
    """Samples that the results say were logged."""


def time_of(file: Path) -> str | None:
    """Return what stands in the names of the files of one evaluation; None where this is no results file."""
    match = _TIME.fullmatch(file.name)
    return match["time"] if match else None


def logged_samples(file: Path, results: Mapping[str, Any], tasks: Iterable[str]) -> dict[str, LoggedSamples]:
    """Return harness task -> its logged samples beside the results file."""
    time = time_of(file)
    found = {
        task: LoggedSamples(file.with_name(f"samples_{task}_{time}.jsonl"), n_logged(file, results, task))
        for task in tasks
    }
    missing = [samples for samples in found.values() if not samples.path.is_file()]
    if time is None or len(missing) == len(found):
        raise unusable("results", file, "logged samples of a ragtasks task beside it (samples_*.jsonl)", "none")
    if missing:
        named = ", ".join(f"no {item.path.name} (lines: {item.n})" for item in missing)
        raise unusable("results", file, "the logged samples of all its ragtasks tasks beside it", named, _BRING_ALL)
    return found


def value_at(found: Any, *keys: str) -> Any:
    """Return what stands in nested JSON objects under some keys; None where there is nothing."""
    for key in keys:
        found = found.get(key) if isinstance(found, Mapping) else None
    return found


def n_logged(file: Path, results: Mapping[str, Any], task: str) -> int:
    """Return the number of logged samples of a harness task, from its results file."""
    number = value_at(results, "n-samples", task, "effective")
    if not isinstance(number, int):
        raise unusable("results", file, f"the number of logged samples of {task}, under n-samples", "none")
    return number


# Which settings of a results file are used where nobody asked for them: the one list, an explicit one.
# Results come from other people, and what a file says is data. A judge that it names would be sent the user's key;
# an encoder, a template, a retriever or a data folder that it names would be loaded or read. So a setting is taken
# from the user's own command line or environment, unless it stands here with the reason why nobody can do harm by
# it. The others are shown, so that the user can name them.

HARMLESS: Mapping[str, Callable[[Any], bool]] = {
    # The sample lies inside the package. A folder is the user's to name; else the data folder is searched.
    "data": lambda value: value == "sample",
    # What is loaded anyway where nothing is named, or nothing at all. Any other name makes transformers open a folder
    # or ask a hub.
    "encoder": lambda value: value in (NO_ENCODER, SAMPLE_ENCODER, DEFAULT_ENCODER),
    # Weights of this package. Judges decide only where the user names some, and do so without this.
    "idk": lambda value: value in ("ngrams", "encoder"),
    # Wordings that the package has, or that lie in the user's own data folder; they are sent to the user's judges only.
    "prompts": lambda value: value in ("ours", "official"),
    # What the user has installed.
    "metrics": lambda value: isinstance(value, list) and all(name in added_metric_names() for name in value),
}
"""Setting -> whether a value of it may be used unasked. Of every other setting, no value may."""

RECORDED = ("run", "conversational", "end_of_thinking", *MODEL_KEYS)
"""How the answers were made: scoring them again opens and uses none of it, and the new results say it as the old do."""

_DEFAULTS: Mapping[str, Any] = json.loads(EvaluationConfig().model_dump_json())
_MAX_LENGTH = 400


def harmless(saved: Mapping[str, Any]) -> dict[str, Any]:
    """Return the settings of a file that are used unasked."""
    return {key: saved[key] for key, allows in HARMLESS.items() if key in saved and allows(saved[key])}


def unused(saved: Mapping[str, Any], given: Mapping[str, Any]) -> dict[str, Any]:
    """Return the settings of a file that would change the scoring, and are not used as nobody asked for them."""
    kept = harmless(saved)
    return {
        key: saved[key]
        for key, default in _DEFAULTS.items()
        if key in saved and key not in RECORDED and key not in given and key not in kept and saved[key] != default
    }


def recorded(saved: Mapping[str, Any]) -> dict[str, Any]:
    """Return what a file says of how its answers were made."""
    return {key: saved[key] for key in RECORDED if key in saved}


def unused_note(settings: Mapping[str, Any]) -> str:
    """Return one line on settings that are not used, safe to print, with what would use them."""
    # In ASCII: what a file holds could else move the cursor, or look like another name.
    text = json.dumps(dict(settings))
    excerpt = text if len(text) <= _MAX_LENGTH else f"{text[:_MAX_LENGTH]}... ({len(text)} characters)"
    who = "judged" if "judges" in settings else "scored"
    return f"was {who} by {excerpt}, which is not used; name them with --metadata to use them"


# What a results file says of the origin of its answers, in the types that its writer gives it.

_TASK_NAME = re.compile(r"[^/\\\0\n]{1,180}")


class _Recorded(BaseModel):
    """A part of what is logged; what else stands there is left alone."""

    model_config = ConfigDict(strict=True, extra="ignore", hide_input_in_errors=True)


class _Scoring(_Recorded):
    scored_by: str
    encoder: str
    idk_detector: str
    judges: str | None = None
    judge_prompts: str | None = None


class _Configuration(_Recorded):
    run: str


class _MetricSummary(_Recorded):
    total: float = Field(allow_inf_nan=False)
    n_scored: int = Field(ge=0)
    unscored: dict[str, int]


class _Summary(_Recorded):
    setting: str
    n: int
    tasks: str = Field(pattern=r"^[0-9a-f]{64}$")
    metrics: dict[str, _MetricSummary]


class _Origin(_Recorded):
    benchmark: str
    suite: str
    revision: str | None = None
    setting_tasks: dict[str, dict[str, int]]
    configuration: _Configuration
    scoring: _Scoring
    summary: _Summary | None = None


def require_origin(task: str, said: object) -> None:
    """Refuse what a results file says of the origin of a harness task's scores, or the name of the task."""
    if not _TASK_NAME.fullmatch(task):
        raise ValueError(f"harness task {task[:80]!r}: no name of a task, as its samples are a file of that name")
    try:
        _Origin.model_validate(said)
    except ValidationError as error:
        raise ValueError("; ".join(misfits(error))) from error
    if value_at(said, "history", "user") is not None:
        raise ValueError(f"harness task {task}: a simulated user asked the questions in place of the benchmark's own")
    if value_at(said, "best_of") is not None:
        raise ValueError(f"harness task {task}: a judge picked each answer as the best of several")


# The one reader of files of logged samples: a line at a time, and one error for all that is wrong in a file.


def saved_answers(logged: LoggedSamples) -> Iterator[tuple[int, ScoredAnswer, Problems]]:
    """Yield (line number, answer, errors of the file) of each sample; the errors are raised behind the last one."""
    problems = Problems(logged.path, "logged samples", RUN_AGAIN)
    n_found = 0
    for number, sample in json_lines(problems, parsed_sample):
        n_found += 1
        try:
            answer = saved_answer(sample)
        except (LookupError, TypeError, ValueError, OverflowError, RecursionError) as error:
            reason = str(error) if isinstance(error, ValueError) else f"{type(error).__name__}: {error}"
            problems.add(number, SAMPLE, reason)
        else:
            yield number, answer, problems
    problems.raise_if_any()
    if n_found != logged.n:
        expected = f"{logged.n} lines, as its results file says"
        raise unusable("results", logged.path, expected, str(n_found), _BRING_ALL)

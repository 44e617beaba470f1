"""Answers that were saved before, as logged samples of the harness.

They are read into the same records as a file of answers (`_given_answers`): harness tasks with one row per answer. A
second scoring treats both the same. A complete file is checked before any error is reported.
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
    problems_of_options,
    select_prompts,
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
    """Configuration for scoring the answers."""
    provenance: Mapping[str, Any]
    """Provenance of the task as recorded in the results."""
    recorded: Mapping[str, Any]
    """Recorded settings of the generation that the configuration does not contain."""
    answers: tuple[ScoredAnswer, ...]
    """In the order of the file, each with its sample."""

    @property
    def responses(self) -> list[Response]:
        return [answer.response for answer in self.answers]


@dataclass(frozen=True, slots=True)
class SavedEvaluation:
    """The answers of one model: a results file and its samples."""

    source: Path
    folder: Path
    """Folder below the output folder for the new results."""
    time: str
    """Time in the names of the files that belong together."""
    results: Mapping[str, Any]
    tasks: tuple[SavedTask, ...]
    unused: Mapping[str, Any]
    """Settings in the file that are not used, because the user did not name them (see `HARMLESS`)."""


def evaluation_files(path: Path) -> tuple[list[Path], list[Path]]:
    """Return (results files of the harness, predictions files) at a path or below it, sorted by name."""
    if not path.exists():
        raise missing_path_error("saved answers", path, "a folder of results, a results file, or predictions (*.jsonl)")
    files = [path] if path.is_file() else [file for file in sorted(path.rglob("*")) if file.is_file()]
    results = [file for file in files if time_of(file)]
    predictions = [file for file in files if file.suffix == ".jsonl" and not file.name.startswith("samples_")]
    if results or predictions:
        return results, predictions
    raise unusable_error(
        "saved answers", path, "results_*.json with samples_*.jsonl, or predictions (*.jsonl)", "neither"
    )


def provenance_of_answers(configs: Mapping[str, Any]) -> dict[str, Mapping[str, Any]]:
    """Return the ragtasks harness tasks that generate answers -> their provenance. Likelihood tasks are left out."""
    generating = {name: config for name, config in configs.items() if config.get("output_type", _ANSWERS) == _ANSWERS}
    metadata = {name: (config.get("metadata") or {}).get("ragtasks") for name, config in generating.items()}
    provenance_of = {name: provenance for name, provenance in metadata.items() if provenance}
    for name, provenance in provenance_of.items():
        require_origin(name, provenance)
    return provenance_of


def read_results(file: Path, folder: Path, user_settings: Mapping[str, Any]) -> SavedEvaluation:
    """Return the answers in a results file of the harness and its samples.

    Args:
        file: the results file.
        folder: folder below an output folder for the new results.
        user_settings: settings of the user. Of the settings in the file, only harmless ones are used without the user's
            consent.
    """
    time = time_of(file)
    assert time, "evaluation_files chose it"
    try:
        results = parse_json(file.read_bytes())
        by_task = {name: dict(provenance) for name, provenance in provenance_of_answers(results["configs"]).items()}
        saved = {name: dict(provenance["configuration"]) for name, provenance in by_task.items()}
        configs = {name: _merged_config(file, saved[name], user_settings) for name in by_task}
        for name, provenance in by_task.items():
            provenance["suite"] = suite_with(provenance["suite"], configs[name])
    except (OSError, ValueError, LookupError, TypeError, AttributeError) as error:
        raise unusable_error(
            "results", file, "a results file of the harness", f"{type(error).__name__}: {error}"
        ) from error
    samples = logged_samples(file, results, configs)
    tasks = tuple(
        _read_task(name, logged, by_task[name], configs[name], recorded(saved[name]))
        for name, logged in samples.items()
    )
    unused_settings = {
        key: value for settings in saved.values() for key, value in unused(settings, user_settings).items()
    }
    return SavedEvaluation(file, folder, time, results, tasks, unused_settings)


def _merged_config(file: Path, saved: Mapping[str, Any], user_settings: Mapping[str, Any]) -> EvaluationConfig:
    differing = [
        key for key in RECORDED if key in user_settings and user_settings[key] != saved.get(key, user_settings[key])
    ]
    if differing:
        raise ConfigurationError(
            f"{file}: answers were generated with other values of {', '.join(differing)} than those in the metadata; "
            "leave these keys out, or run the evaluation again"
        )
    kept = dict(harmless(saved))
    if select_prompts(user_settings.get("judges")):
        kept.pop("prompts", None)
    return config_from_options({**kept, **user_settings})


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
        raise unusable_error("logged samples", logged.path, "samples of one benchmark", ", ".join(benchmarks))
    return SavedTask(name, benchmarks[0], config, provenance, made_by, tuple(answers))


# The files of one evaluation of the harness: results, and a file of logged samples per task in the same folder. A
# missing or truncated samples file would silently change every mean. So all files must exist, with as many lines as the
# results record.

RUN_AGAIN = "run the evaluation again, by `ragtasks eval` or by lm_eval with --output_path DIR --log_samples"
"""The next step if files cannot be repaired."""


def unusable_error(what: str, where: Path, expected: str, found: str, next_step: str = RUN_AGAIN) -> BenchmarkFileError:
    """Return the error for unreadable results or answers."""
    return BenchmarkFileError(what, where=str(where), expected=expected, found=found, next_step=next_step)


_TIME = re.compile(
    r"(?:.+(?=_\d{4}-\d\d-\d\dT\d\d-)|results)_(?P<time>.+)\.json"
)  # `--output_path NAME.json`: NAME_TIME
_RESTORE_ALL = "copy all files of the evaluation into one folder"


@dataclass(frozen=True, slots=True)
class LoggedSamples:
    """The logged samples of one harness task."""

    path: Path
    n: int
    """Number of samples according to the results file."""


def time_of(file: Path) -> str | None:
    """Return the time in the names of an evaluation's files, or None if this is not a results file."""
    match = _TIME.fullmatch(file.name)
    return match["time"] if match else None


def samples_file(file: Path, task: str) -> Path:
    """Return the path of a task's logged samples, in the folder of the results file."""
    return file.with_name(f"samples_{task}_{time_of(file)}.jsonl")


def logged_samples(
    file: Path,
    results: Mapping[str, Any],
    tasks: Iterable[str],
    of: str = "a ragtasks task",
    run_again: str = RUN_AGAIN,
) -> dict[str, LoggedSamples]:
    """Return harness task -> its logged samples in the folder of the results file.

    `of` and `run_again` are the words of errors for the tasks and the next step.
    """
    samples_of = {task: LoggedSamples(samples_file(file, task), n_logged(file, results, task)) for task in tasks}
    missing = [samples for samples in samples_of.values() if not samples.path.is_file()]
    if len(missing) == len(samples_of):
        expected = f"logged samples of {of} in the same folder (samples_*.jsonl)"
        raise unusable_error("results", file, expected, "none", run_again)
    if missing:
        expected = f"the logged samples of all its {of.partition(' ')[2]}s in the same folder"
        found = ", ".join(f"no {samples.path.name} (lines: {samples.n})" for samples in missing)
        raise unusable_error("results", file, expected, found, f"{_RESTORE_ALL}, or {run_again}")
    return samples_of


def value_at(value: Any, *keys: str) -> Any:
    """Return the value under a path of keys in nested JSON objects, or None if it is missing."""
    for key in keys:
        value = value.get(key) if isinstance(value, Mapping) else None
    return value


def n_logged(file: Path, results: Mapping[str, Any], task: str) -> int:
    """Return the number of logged samples of a harness task, from its results file."""
    number = value_at(results, "n-samples", task, "effective")
    if not isinstance(number, int):
        raise unusable_error("results", file, f"the number of logged samples of {task}, under n-samples", "none")
    return number


# Settings of a results file that are used without the user naming them. Results come from other people, and a file is
# data. A judge in it would receive the user's key. An encoder, a template, a retriever or a data folder in it would be
# loaded or read. So a setting is taken from the user's own command line or environment, unless this table lists it with
# the reason why it is harmless. Other settings are printed, so that the user can name them.

HARMLESS: Mapping[str, Callable[[Any], bool]] = {
    # The sample is inside the package. A folder must be named by the user; otherwise the data folder is searched.
    "data": lambda value: value == "sample",
    # The encoders that are loaded by default, or no encoder. For any other name, transformers would open a folder or
    # send a request to a hub.
    "encoder": lambda value: value in (NO_ENCODER, SAMPLE_ENCODER, DEFAULT_ENCODER),
    # Weights of this package. Judges decide only if the user names some, and then without this setting.
    "idk": lambda value: value in ("ngrams", "encoder"),
    # Wordings in the package or in the user's own data folder. They are sent to the user's judges only.
    "prompts": lambda value: value in ("ours", "official"),
    # Metrics that the user has installed.
    "metrics": lambda value: isinstance(value, list) and all(name in added_metric_names() for name in value),
    # A name and a number for tables.
    "failed_turn": lambda value: not problems_of_options({"failed_turn": value}),
}
"""Setting -> whether a value may be used without the user naming it. Values of other settings are never used."""

RECORDED = ("run", "conversational", "end_of_thinking", *MODEL_KEYS)
"""Settings of the generation. A second scoring does not use them, and copies them into the new results."""

_DEFAULTS: Mapping[str, Any] = json.loads(EvaluationConfig().model_dump_json())
_MAX_LENGTH = 400


def harmless(saved: Mapping[str, Any]) -> dict[str, Any]:
    """Return the settings of a file that are used without the user naming them."""
    return {key: saved[key] for key, allows in HARMLESS.items() if key in saved and allows(saved[key])}


def unused(saved: Mapping[str, Any], user_settings: Mapping[str, Any]) -> dict[str, Any]:
    """Return the settings of a file that would change the scoring, and that the user did not name."""
    used = {*RECORDED, *user_settings, *harmless(saved)}
    return {
        key: saved[key]
        for key, default in _DEFAULTS.items()
        if key in saved and key not in used and saved[key] != default
    }


def recorded(saved: Mapping[str, Any]) -> dict[str, Any]:
    """Return the settings in a file that describe how its answers were generated."""
    return {key: saved[key] for key in RECORDED if key in saved}


def unused_note(settings: Mapping[str, Any]) -> str:
    """Return one line about unused settings and how to use them, safe to print."""
    # In ASCII: other characters could move the cursor or imitate another name.
    text = json.dumps(dict(settings))
    excerpt = text if len(text) <= _MAX_LENGTH else f"{text[:_MAX_LENGTH]}... ({len(text)} characters)"
    verb = "judged" if "judges" in settings else "scored"
    return f"was {verb} by {excerpt}, which is not used; name them with --metadata to use them"


# Origin of the answers in a results file, with strict types.

_TASK_NAME = re.compile(r"[^/\\\0\n]{1,180}")


class _LoggedPart(BaseModel):
    """A part of the logged provenance. Other keys are ignored."""

    model_config = ConfigDict(strict=True, extra="ignore", hide_input_in_errors=True)


class _Scoring(_LoggedPart):
    scored_by: str
    encoder: str
    idk_detector: str
    judges: str | None = None
    judge_prompts: str | None = None


class _Configuration(_LoggedPart):
    run: str


class _MetricSummary(_LoggedPart):
    total: float = Field(allow_inf_nan=False)
    n_scored: int = Field(ge=0)
    unscored: dict[str, int]


class _Summary(_LoggedPart):
    setting: str
    n: int
    tasks: str = Field(pattern=r"^[0-9a-f]{64}$")
    metrics: dict[str, _MetricSummary]


class _Origin(_LoggedPart):
    benchmark: str
    suite: str
    revision: str | None = None
    setting_tasks: dict[str, dict[str, int]]
    configuration: _Configuration
    scoring: _Scoring
    summary: _Summary | None = None


def require_task_name(task: str) -> None:
    """Raise ValueError for a name that is no part of a file name."""
    if not _TASK_NAME.fullmatch(task):
        raise ValueError(f"harness task {task[:80]!r}: not a valid name of a task, as its samples file has this name")


def require_origin(task: str, provenance: object) -> None:
    """Check the recorded origin of a harness task's scores, and the name of the task.

    Raises:
        ValueError: a field is missing or has the wrong type, or the answers are not the model's own to the benchmark's
            questions.
    """
    require_task_name(task)
    try:
        _Origin.model_validate(provenance)
    except ValidationError as error:
        raise ValueError("; ".join(misfits(error))) from error
    if value_at(provenance, "history", "user") is not None:
        raise ValueError(f"harness task {task}: a simulated user asked the questions instead of the benchmark")
    if value_at(provenance, "best_of") is not None:
        raise ValueError(f"harness task {task}: a judge picked each answer as the best of several")


# The only reader of sample files: a line at a time, and one error for all problems of a file.


def saved_answers(logged: LoggedSamples) -> Iterator[tuple[int, ScoredAnswer, Problems]]:
    """Yield (line number, answer, errors of the file) of each sample. The errors are raised after the last sample."""
    problems = Problems(logged.path, "logged samples", RUN_AGAIN)
    n_samples = 0
    for number, sample in json_lines(problems, parsed_sample):
        n_samples += 1
        try:
            answer = saved_answer(sample)
        except (LookupError, TypeError, ValueError, OverflowError, RecursionError) as error:
            reason = str(error) if isinstance(error, ValueError) else f"{type(error).__name__}: {error}"
            problems.add(number, SAMPLE, reason)
        else:
            yield number, answer, problems
    problems.raise_if_any()
    if n_samples != logged.n:
        expected = f"{logged.n} lines according to its results file"
        raise unusable_error("results", logged.path, expected, str(n_samples), f"{_RESTORE_ALL}, or {RUN_AGAIN}")

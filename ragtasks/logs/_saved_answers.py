"""Answers that were saved before, as the harness's logged samples.

They are read into the same records as a file of answers (`_predictions`), tasks of the harness with one row an answer,
so that scoring them again does not care which it was. A file is checked whole before anything is said about it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ragtasks.benchmarks import response_of
from ragtasks.config import EvaluationConfig, config_from_options
from ragtasks.errors import BenchmarkFileError, ConfigurationError, clear_error
from ragtasks.files import parse_json
from ragtasks.logs._logged_samples import require_origin, require_sample
from ragtasks.logs._sample_lines import sample_lines
from ragtasks.logs._saved_results import RUN_AGAIN, LoggedSamples, logged_samples, time_of
from ragtasks.logs._saved_settings import RECORDED, harmless, recorded, unused
from ragtasks.records import Response
from ragtasks.suites import suite_with

DEFAULT_SUITE = "mtrag"
"""The suite of evaluations that do not name theirs: they were made when there was only one."""

_ANSWERS = "generate_until"


@dataclass(frozen=True, slots=True)
class SavedTask:
    """The answers to one harness task."""

    name: str
    """Name of the harness task."""
    benchmark: str
    """Name of the benchmark."""
    config: EvaluationConfig
    """What its answers are to be scored with."""
    provenance: Mapping[str, Any]
    """What the results say of the task's origin."""
    recorded: Mapping[str, Any]
    """What the results say of how its answers were made, where the configuration does not."""
    rows: tuple[Mapping[str, Any], ...]
    """Logged samples, in the order of the file."""
    responses: tuple[Response, ...]
    """The answers in them, one a row."""


@dataclass(frozen=True, slots=True)
class SavedEvaluation:
    """One model's answers, as one results file and its samples."""

    source: Path
    """The file that they were read from."""
    folder: Path
    """Where they belong below an output folder."""
    time: str
    """What stands in the names of the files that go together."""
    results: Mapping[str, Any]
    """Content of the results file."""
    tasks: tuple[SavedTask, ...]
    """Our tasks in it."""
    unused: Mapping[str, Any]
    """Settings that it names and that are not used, as nobody asked for them (see `ragtasks.logs`)."""


def evaluation_files(path: Path) -> tuple[list[Path], list[Path]]:
    """Return (results files of the harness, predictions files) at a path or below it, in order of their names.

    Raises:
        BenchmarkFileError: there is neither.
    """
    files = [path] if path.is_file() else [file for file in sorted(path.rglob("*")) if file.is_file()]
    results = [file for file in files if time_of(file)]
    predictions = [file for file in files if file.suffix == ".jsonl" and not file.name.startswith("samples_")]
    if results or predictions:
        return results, predictions
    raise unusable("saved answers", path, "results_*.json with samples_*.jsonl, or predictions (*.jsonl)", "neither")


def provenance_of_answers(configs: Mapping[str, Any]) -> dict[str, Mapping[str, Any]]:
    """Return our harness tasks that ask for answers -> what the results say of them; likelihood tasks have none.

    Args:
        configs: harness task -> its configuration, as in a results file.

    Raises:
        ValueError, TypeError, AttributeError: it is no such mapping, or something in it has another type.
    """
    asking = {name: config for name, config in configs.items() if config.get("output_type", _ANSWERS) == _ANSWERS}
    own = {name: (config.get("metadata") or {}).get("ragtasks") for name, config in asking.items()}
    found = {name: provenance for name, provenance in own.items() if provenance}
    for name, provenance in found.items():
        require_origin(name, provenance)
    return found


def read_results(file: Path, folder: Path, given: Mapping[str, Any]) -> SavedEvaluation:
    """Return the answers in a results file of the harness and the samples beside it.

    Args:
        file: the results file.
        folder: where they belong below an output folder.
        given: options of the new scoring, by the user. Of those in the file only harmless ones are used unasked.

    Raises:
        BenchmarkFileError: a broken file, with all its errors by line, or logged samples that are not all there.
        ConfigurationError: an unknown option, or one that would change how the answers were made.
    """
    time = time_of(file)
    assert time, "evaluation_files chose it"
    try:
        results = parse_json(file.read_bytes())
        own = {name: dict(provenance) for name, provenance in provenance_of_answers(results["configs"]).items()}
        saved = {name: dict(provenance["configuration"]) for name, provenance in own.items()}
        configs = {name: _merged(file, saved[name], given) for name in own}
        for name, provenance in own.items():
            provenance["suite"] = suite_with(provenance.get("suite", DEFAULT_SUITE), configs[name].metrics)
    except (OSError, ValueError, LookupError, TypeError, AttributeError) as error:
        raise unusable("results", file, "a results file of the harness", f"{type(error).__name__}: {error}") from error
    samples = logged_samples(file, results, configs)
    tasks = tuple(
        _read_task(name, logged, own[name], configs[name], recorded(saved[name])) for name, logged in samples.items()
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
    rows: list[Mapping[str, Any]] = []
    responses: list[Response] = []
    for line in sample_lines(logged):
        row = line.sample
        try:
            text = row["filtered_resps"][0]
            if not isinstance(text, str):
                raise TypeError("filtered_resps holds no text")
            require_sample(row)
            responses.append(response_of(row["doc"], text))
            rows.append(row)
        except (LookupError, TypeError, ValueError, RecursionError) as error:
            line.refuse(error)
    benchmarks = sorted({str(row["doc"].get("benchmark")) for row in rows})
    if len(benchmarks) > 1:
        raise unusable("logged samples", logged.path, "samples of one benchmark", ", ".join(benchmarks))
    return SavedTask(name, benchmarks[0], config, provenance, made_by, tuple(rows), tuple(responses))


def unusable(what: str, where: Path, expected: str, found: str) -> BenchmarkFileError:
    """Return the error for answers that cannot be scored again."""
    return BenchmarkFileError(clear_error(what, where=str(where), expected=expected, found=found, next_step=RUN_AGAIN))


__all__ = [
    "DEFAULT_SUITE",
    "SavedEvaluation",
    "SavedTask",
    "evaluation_files",
    "provenance_of_answers",
    "read_results",
    "unusable",
]

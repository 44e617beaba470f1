"""Answers that were saved before: the harness's logged samples, or the official predictions format.

Both are read into the same records, tasks of the harness with one row an answer, so that scoring them again does not
care which it was. A file is checked whole before anything is said about it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ragtasks.benchmarks import Benchmark, build_doc, response_of
from ragtasks.config import EvaluationConfig, config_from_options
from ragtasks.errors import BenchmarkFileError, ConfigurationError, clear_error
from ragtasks.files import Violations, json_lines, parse_json, passage_of
from ragtasks.ids import normalise_task_id
from ragtasks.logs._logged_samples import require_origin, require_sample
from ragtasks.logs._sample_lines import sample_lines
from ragtasks.logs._saved_results import RUN_AGAIN, LoggedSamples, logged_samples, time_of
from ragtasks.logs._saved_settings import RECORDED, harmless, recorded, unused
from ragtasks.metrics import answer_text
from ragtasks.records import Answerability, Contexts, Passage, Response, Setting, Task
from ragtasks.suites import suite_with

OWN_CONTEXTS = "file"
"""Stands for the run where the predictions file itself says which passages the model was shown."""

DEFAULT_SUITE = "mtrag"
"""The suite of evaluations that do not name theirs: they were made when there was only one."""

_FILTER, _SAMPLE_FILTER = "none", "sample"
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
    facts: Mapping[str, Any]
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
    raise _error("saved answers", path, "results_*.json with samples_*.jsonl, or predictions (*.jsonl)", "neither")


def facts_of_answers(configs: Mapping[str, Any]) -> dict[str, Mapping[str, Any]]:
    """Return our harness tasks that ask for answers -> what the results say of them; likelihood tasks have none.

    Args:
        configs: harness task -> its configuration, as in a results file.

    Raises:
        ValueError, TypeError, AttributeError: it is no such mapping, or something in it has another type.
    """
    asking = {name: config for name, config in configs.items() if config.get("output_type", _ANSWERS) == _ANSWERS}
    own = {name: (config.get("metadata") or {}).get("ragtasks") for name, config in asking.items()}
    found = {name: facts for name, facts in own.items() if facts}
    for name, facts in found.items():
        require_origin(name, facts)
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
        own = {name: dict(facts) for name, facts in facts_of_answers(results["configs"]).items()}
        saved = {name: dict(facts["configuration"]) for name, facts in own.items()}
        configs = {name: _merged(file, saved[name], given) for name in own}
        for name, facts in own.items():
            facts["suite"] = suite_with(facts.get("suite", DEFAULT_SUITE), configs[name].metrics)
    except (OSError, ValueError, LookupError, TypeError, AttributeError) as error:
        raise _error("results", file, "a results file of the harness", f"{type(error).__name__}: {error}") from error
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
    facts: Mapping[str, Any],
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
        raise _error("logged samples", logged.path, "samples of one benchmark", ", ".join(benchmarks))
    return SavedTask(name, benchmarks[0], config, facts, made_by, tuple(rows), tuple(responses))


def read_predictions(
    file: Path,
    folder: Path,
    benchmark: Benchmark,
    setting: Setting,
    *,
    config: EvaluationConfig,
    contexts: Contexts | None,
) -> SavedEvaluation:
    """Return the answers in a predictions file, as if the harness had logged them.

    Conversational tasks are left out unless the configuration counts them, as in a run of the harness.

    Args:
        file: JSON lines with `task_id`, `predictions` [{`text`}] and `contexts` [{`document_id`, `text`}].
        folder: where they belong below an output folder.
        benchmark: where targets and labels come from.
        setting: where the model's passages came from.
        config: what to score with.
        contexts: the passages that the model was shown; None: those in the file.

    Raises:
        BenchmarkFileError: all errors of the file by line, among them unknown tasks and tasks that stand twice.
    """
    violations = Violations(file, "predictions", "fix these lines; each needs task_id, predictions, contexts")
    reader = _Predictions(benchmark, contexts, violations)
    found = [item for line, row in json_lines(violations) if (item := reader.read(line, row))]
    violations.raise_if_any()
    rows = [
        _row(build_doc(benchmark, task, setting, config.run, passages), answer_text(text, config.end_of_thinking), text)
        for task, passages, text in found
        if config.conversational or task.answerability is not Answerability.CONVERSATIONAL
    ]
    if not rows:
        raise _error("predictions", file, "an answer to a task that counts", "none: all tasks are conversational")
    facts = {
        "benchmark": benchmark.label,
        "suite": suite_with(benchmark.suite, config.metrics),
        "revision": benchmark.revision,
        "setting_tasks": {setting.value: _tasks_to_answer(benchmark, setting, config, rows)},
        "fingerprint": None,
    }
    tasks = tuple(_tasks_of(rows, benchmark, setting, config, facts))
    return SavedEvaluation(
        file, folder, file.stem.replace("_", "-"), _results_of(file, benchmark, setting, tasks), tasks, {}
    )


class _Predictions:
    """Reads the rows of one predictions file."""

    def __init__(self, benchmark: Benchmark, contexts: Contexts | None, violations: Violations) -> None:
        self._tasks = {task.task_id: task for task in benchmark.tasks}
        self._label, self._contexts, self._violations = benchmark.label, contexts, violations
        self._line_of: dict[str, int] = {}

    def read(self, line: int, row: Mapping[str, Any]) -> tuple[Task, tuple[Passage, ...], str] | None:
        """Return task, passages and answer of a row; None where it has an error, which is noted."""
        n_before = len(self._violations)
        task = self._task(line, row.get("task_id"))
        name = str(row.get("task_id", ""))
        text = _only_text(row.get("predictions"))
        if text is None:
            self._violations.add(line, "predictions: one object with a text `text`", row.get("predictions"), name)
        passages = self._passages(line, row, task, name)
        if task is None or text is None or len(self._violations) > n_before:
            return None
        return task, passages, text

    def _task(self, line: int, written: object) -> Task | None:
        try:
            task_id = normalise_task_id(written) if isinstance(written, str) else ""
        except ValueError:
            task_id = ""
        if task_id not in self._tasks:
            self._violations.add(line, f"task_id: a task of {self._label}", written)
            return None
        first = self._line_of.setdefault(task_id, line)
        if first != line:
            self._violations.add(line, "each task once", f"a task that stands in line {first} already", task_id)
        return self._tasks[task_id]

    def _passages(self, line: int, row: Mapping[str, Any], task: Task | None, name: str) -> tuple[Passage, ...]:
        if self._contexts is not None:
            if task is not None and task.task_id not in self._contexts.passages:
                self._violations.add(
                    line, f"a task of the setting {self._contexts.setting.value}", "another task", name
                )
            return self._contexts.passages.get(task.task_id, ()) if task else ()
        contexts = row.get("contexts")
        if not isinstance(contexts, list):
            self._violations.add(line, "contexts: a list (or give `run` for the passages of a run)", contexts, name)
            return ()
        passages = [passage_of(item, "document_id") for item in contexts]
        if None in passages:
            self._violations.add(line, "contexts: objects with texts `document_id` and `text`", contexts, name)
        return tuple(passage for passage in passages if passage is not None)


def _only_text(predictions: object) -> str | None:
    if not isinstance(predictions, list) or len(predictions) != 1 or not isinstance(predictions[0], dict):
        return None
    text = predictions[0].get("text")
    return text if isinstance(text, str) else None


def _row(doc: dict[str, Any], answer: str, raw: str) -> dict[str, Any]:
    """Return an answer as a logged sample; its prompt is not known."""
    kind = _SAMPLE_FILTER if doc["is_sample"] else _FILTER
    return {
        "doc": doc,
        "target": doc["target"],
        "arguments": {},
        "resps": [[raw]],
        "filtered_resps": [answer],
        "filter": kind,
        "metrics": [],
    }


def _tasks_of(
    rows: Sequence[dict[str, Any]],
    benchmark: Benchmark,
    setting: Setting,
    config: EvaluationConfig,
    facts: Mapping[str, Any],
) -> Iterator[SavedTask]:
    """Yield the rows of each domain as a harness task."""
    for domain in dict.fromkeys(row["doc"]["domain"] for row in rows):
        chosen = [row for row in rows if row["doc"]["domain"] == domain]
        numbered = tuple({"doc_id": number, **row} for number, row in enumerate(chosen))
        responses = tuple(response_of(row["doc"], row["filtered_resps"][0]) for row in chosen)
        name = f"{benchmark.name}_{setting.value}_{domain}"
        yield SavedTask(name, benchmark.name, config, facts, {}, numbered, responses)


def _tasks_to_answer(
    benchmark: Benchmark, setting: Setting, config: EvaluationConfig, rows: Sequence[dict[str, Any]]
) -> dict[str, int]:
    domains = {row["doc"]["domain"] for row in rows}
    return benchmark.count_tasks(setting, domains, conversational=config.conversational)


def _results_of(file: Path, benchmark: Benchmark, setting: Setting, tasks: Sequence[SavedTask]) -> dict[str, Any]:
    """Return what the harness would say of the origin of predictions, as far as it is known."""
    names = [task.name for task in tasks]
    sizes = {task.name: {"original": len(task.rows), "effective": len(task.rows)} for task in tasks}
    return {
        "group_subtasks": {f"{benchmark.name}_{setting.value}": names},
        "configs": {name: {"task": name} for name in names},
        "n-samples": sizes,
        "config": {"model": "predictions", "model_args": {"model": file.stem}},
        "model_source": "predictions",
        "model_name": file.stem,
    }


def _error(what: str, where: Path, expected: str, found: str) -> BenchmarkFileError:
    return BenchmarkFileError(clear_error(what, where=str(where), expected=expected, found=found, next_step=RUN_AGAIN))


__all__ = [
    "DEFAULT_SUITE",
    "OWN_CONTEXTS",
    "SavedEvaluation",
    "SavedTask",
    "evaluation_files",
    "facts_of_answers",
    "read_predictions",
    "read_results",
]

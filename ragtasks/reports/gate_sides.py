"""Sides of a gate: the scores of one system and their basis, from results or from a saved baseline.

A saved baseline is a fixed copy of the data that a gate needs.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from pathlib import Path
from typing import Any, Literal

import orjson
from pydantic import ConfigDict, TypeAdapter, ValidationError, with_config
from typing_extensions import TypedDict

from ragtasks.config import EvaluationConfig
from ragtasks.errors import (
    BenchmarkFileError,
    ConfigurationError,
    close_matches,
    misfits,
    missing_path,
    shortened_list,
)
from ragtasks.files import canonical_hash, write_atomically
from ragtasks.judges import stored_cards
from ragtasks.metrics import TURN_ERROR_METRICS, Metric
from ragtasks.records import Passage, Response
from ragtasks.reports.harness_gate import metrics_of_tasks
from ragtasks.reports.tables import checked_answers, warnings_and_remarks
from ragtasks.results import (
    CAUSES,
    REQUEST_FIELDS,
    UNKNOWN,
    Evaluation,
    JudgeAnchors,
    ScoredAnswer,
    TaskResults,
    anchors_in,
    cards_in,
    files_of,
    merge_evaluations,
    provenance_of,
    read_evaluations,
    read_harness_tasks,
    summaries_of,
    value_at,
)
from ragtasks.suites import suite_named
from ragtasks.tables import grouped

FOLDER = "baselines"
"""Folder of named baselines, below the data folder."""

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}")
_MAX_LISTED = 3  # problems in one line

SYSTEM_FIELDS: Mapping[str, tuple[str, ...]] = {
    "prompts": ("system prompt", "plain prompt", "system instruction", "max_words"),
    "retriever": ("retriever", "run key", "search retriever"),
}
"""Fields of the system that a change may alter on purpose. They may differ if `may_differ` names their key."""
_BY_SYSTEM = {name for names in SYSTEM_FIELDS.values() for name in names}
_MUST_MATCH = (
    *(name for names in CAUSES.values() for name in names if name not in _BY_SYSTEM),
    "harness task version",
)
MENTIONED = tuple(name for name in REQUEST_FIELDS if name not in {*_MUST_MATCH, *_BY_SYSTEM})
"""Fields that may differ, which a note then reports."""
FIELDS = (*_MUST_MATCH, *sorted(_BY_SYSTEM), *MENTIONED)
"""Fields that a gate compares."""
_SAVED_FIELDS = (*FIELDS, "ragtasks version")


@dataclass(frozen=True, slots=True)
class GatedSystem:
    """The data of one system for a gate: its scores by task and their basis."""

    name: str
    suite: str
    fields: Mapping[str, Mapping[str, str]]
    """Setting -> field of `provenance_of` -> text."""
    rows: Mapping[str, tuple[ScoredAnswer, ...]]
    anchors: Mapping[str, JudgeAnchors] = field(default_factory=dict)
    """Judge -> its verdicts on the anchors. Empty if no anchors were judged."""
    cards: tuple[Mapping[str, Any], ...] = ()
    """Cards of its judges, as JSON values."""
    warnings: tuple[str, ...] = ()
    """Warnings about its answers or verdicts. Empty for a saved baseline."""
    implausible: Mapping[str, str] = field(default_factory=dict)
    """Setting -> remark on implausible answers, if there are more than the evaluation allowed."""
    harness: tuple[TaskResults, ...] = ()
    """Results of lm_eval tasks of others. Such a system has no rows."""

    @property
    def metrics(self) -> dict[str, Metric]:
        """Metric name -> metric, for metrics of single responses with a better direction."""
        if self.harness:
            return metrics_of_tasks(self.harness)
        metrics = (*suite_named(self.suite).metrics, *TURN_ERROR_METRICS)
        return {
            metric.name: metric
            for metric in metrics
            if metric.aggregate is None and metric.higher_is_better is not None
        }

    @property
    def judges(self) -> set[str]:
        """The judges that scored the system."""
        texts = {fields.get("judges", UNKNOWN) for fields in self.fields.values()}
        return {name.strip() for text in texts - {UNKNOWN} for name in text.split(",")}

    @property
    def is_idk_judged(self) -> bool:
        """Whether a judge decided on refusals."""
        return any(fields.get("idk detector", "").startswith("judge ") for fields in self.fields.values())

    def is_judged(self, metric: Metric) -> bool:
        """Return whether a score depends on judges, as a judged metric or because a judge decided on refusals."""
        return metric.needs_judges or self.is_idk_judged


def side_of(evaluation: Evaluation) -> GatedSystem:
    """Return an evaluation as a side of a gate."""
    rows = grouped(evaluation.rows, lambda row: row.setting)
    fields = {
        setting: provenance_of(evaluation, evaluation.tasks_in(setting), summary, {})
        for setting, summary in summaries_of(evaluation.rows).items()
    }
    limits = [value_at(provenance, "configuration", "max_implausible") for provenance in evaluation.provenance.values()]
    numbers = [value for value in limits if isinstance(value, int | float)]
    limit = max(numbers, default=EvaluationConfig().max_implausible)
    checked = {setting: checked_answers(rows_of_setting, setting) for setting, rows_of_setting in rows.items()}
    return GatedSystem(
        name=evaluation.model,
        suite=evaluation.suite,
        fields={setting: {name: texts[name] for name in _SAVED_FIELDS} for setting, texts in fields.items()},
        rows={setting: tuple(rows_of_setting) for setting, rows_of_setting in rows.items()},
        anchors=anchors_in(evaluation),
        cards=tuple(card.json_values for card in cards_in([evaluation])),
        warnings=tuple(warnings_and_remarks([evaluation])),
        implausible={setting: str(answers) for setting, answers in checked.items() if answers.estimated_share > limit},
    )


def read_side(path: Path, benchmark: str | None = None, cluster: str = "") -> GatedSystem:
    """Return the one system in a folder of results, in a results file, or in a baseline file.

    `benchmark` selects from results of several benchmarks, or one lm_eval task. A baseline file has only one benchmark.
    `cluster` is the field of the documents of lm_eval tasks that names their clusters.
    """
    if path.is_file() and not path.name.startswith("results_"):
        saved = _read_baseline(path)
        chosen_tasks = tuple(task for task in saved.harness if benchmark in (None, task.name))
        return replace(saved, harness=chosen_tasks) if chosen_tasks else saved
    evaluations = merge_evaluations(read_evaluations([path], skip_others=True))
    names = sorted({_name(evaluation) for evaluation in evaluations})
    is_of_ours = benchmark in names if benchmark else bool(evaluations)
    if not is_of_ours and (tasks := read_harness_tasks([path], cluster=cluster, only=benchmark)):
        return _harness_side(path, tasks)
    if cluster:
        raise ConfigurationError(
            f"--cluster {cluster}: {path} has tasks of ragtasks, which have conversations as clusters. Next step: "
            "leave it out"
        )
    chosen = [evaluation for evaluation in evaluations if benchmark in (None, _name(evaluation))]
    if len(chosen) == 1:
        return side_of(chosen[0])
    listed = [f"{evaluation.model} on {evaluation.kind[0]} ({files_of(evaluation)})" for evaluation in evaluations]
    expected = f"the results of one system on {benchmark or 'one benchmark'}, each task once"
    is_open = benchmark not in names and len(names) > 1
    next_step = f"name one benchmark with --benchmark: {', '.join(names)}" if is_open else "name one results file"
    raise side_error(str(path), expected, "; ".join(listed) or "no such benchmark or lm_eval task", next_step)


def with_stored_cards(side: GatedSystem, folder: Path, judges: Collection[str] = ()) -> GatedSystem:
    """Return a side with the cards in a folder of its judges, and of more judges."""
    stored = [card.json_values for judge in sorted({*side.judges, *judges}) for card in stored_cards(folder, judge)]
    return replace(side, cards=(*side.cards, *stored))


def _harness_side(path: Path, tasks: Sequence[TaskResults]) -> GatedSystem:
    """Return the lm_eval tasks of one model."""
    if len({task.model for task in tasks}) == 1 and len({task.name for task in tasks}) == len(tasks):
        return GatedSystem(name=tasks[0].model, suite="", fields={}, rows={}, harness=tuple(tasks))
    found = [f"{task.name} of {task.model} ({task.source.name})" for task in tasks]
    expected = "the lm_eval tasks of one model, each task once"
    raise side_error(str(path), expected, shortened_list(found, _MAX_LISTED, "; "), "name one results file")


def _name(evaluation: Evaluation) -> str:
    return evaluation.kind[0].removesuffix(" (sample)")


def baseline_file(named: str, folder: Path) -> Path:
    """Return the path of a baseline, which may be missing: a path unchanged, a name below the folder of baselines."""
    path = Path(named)
    if path.exists() or path.suffix == ".json" or len(path.parts) > 1:
        return path
    if not _NAME.fullmatch(named):
        raise ConfigurationError(
            f"baseline {named[:120]!r}: expected a name of letters, digits, `.`, `_`, `-`, or a path"
        )
    return folder / f"{named}.json"


def named_side(named: str, folder: Path, benchmark: str | None = None, cluster: str = "") -> GatedSystem:
    """Return a baseline by its name, or by a path of results or of a baseline file."""
    path = baseline_file(named, folder)
    if path.exists():
        return read_side(path, benchmark, cluster)
    if path.parent != folder:
        problem, next_step = missing_path(path)
        raise ConfigurationError(
            f"--baseline {named}: {problem}. Next step: ragtasks gate RESULTS --save-baseline {named} writes it; or "
            f"{next_step}"
        )
    saved = sorted(file.stem for file in folder.glob("*.json"))
    hint = close_matches(named, saved) if saved else f"no baseline is saved in {folder}"
    raise ConfigurationError(f"no baseline {named!r}: {hint}. Next step: ragtasks gate RESULTS --save-baseline {named}")


@with_config(ConfigDict(strict=True, extra="forbid", hide_input_in_errors=True))
class _BaselineFile(TypedDict):
    """The file of a saved baseline."""

    format: Literal["ragtasks baseline 3"]
    n_answers: int
    checksum: str
    """Checksum of the settings and the answers, in their order."""
    system: GatedSystem


@cache
def _baseline_files() -> TypeAdapter[_BaselineFile]:
    return TypeAdapter(_BaselineFile)


def _content(saved: _BaselineFile) -> dict[str, Any]:
    """Return a baseline as JSON values, with the correct checksum."""
    content = _baseline_files().dump_python(saved, mode="json", exclude_defaults=True)
    system = content["system"]
    scores = [list(saved["system"].fields), system["rows"], *([system["harness"]] if "harness" in system else [])]
    return {**content, "checksum": canonical_hash(scores)}


def save_baseline(system: GatedSystem, path: Path) -> None:
    """Write the data of a system that a gate needs to a file that later results do not change."""
    rows = {setting: tuple(map(_without_texts, record)) for setting, record in system.rows.items()}
    anchors = {judge: replace(record, baseline=None) for judge, record in system.anchors.items()}
    harness = tuple(replace(task, source=Path()) for task in system.harness)
    kept = replace(system, rows=rows, anchors=anchors, warnings=(), implausible={}, harness=harness)
    n_answers = _n_answers(rows, harness)
    saved = _BaselineFile(format="ragtasks baseline 3", n_answers=n_answers, checksum="", system=kept)
    write_atomically(path, orjson.dumps(_content(saved), option=orjson.OPT_INDENT_2) + b"\n")


def _n_answers(rows: Mapping[str, Sequence[ScoredAnswer]], tasks: Sequence[TaskResults]) -> int:
    return sum(map(len, rows.values())) + sum(len(task.documents) for task in tasks)


def _without_texts(row: ScoredAnswer) -> ScoredAnswer:
    """Return an answer with its scores and hash, without its texts."""
    task = replace(row.task, messages=(), target="", references=(), extra={})
    response = Response(task, (Passage("", ""),) * len(row.response.passages), "")
    return ScoredAnswer(response, row.setting, row.values, saved_hash=row.answer_hash)


def _read_baseline(path: Path) -> GatedSystem:
    content, expected = path.read_bytes(), "a baseline that `ragtasks gate --save-baseline` wrote"
    # No command in the message replaces a file that is not a baseline.
    step = "name a folder of results, or a baseline"
    if b"ragtasks baseline" in content[:100]:
        step = f"save it again: ragtasks gate RESULTS --save-baseline {path} --force"
    try:
        saved = _baseline_files().validate_json(content, strict=True)
    except ValidationError as problem:
        other_formats = [
            f"format {mismatch['input']!r}"
            for mismatch in problem.errors()
            if (mismatch["type"], mismatch["loc"]) == ("literal_error", ("format",))
        ]
        found = shortened_list(other_formats or misfits(problem), _MAX_LISTED, "; ")
        raise side_error(str(path), expected, found, step) from None
    system = saved["system"]
    for setting, fields in system.fields.items():
        foreign = [f"{name}: {text}" for name, text in fields.items() if name not in _SAVED_FIELDS and text != UNKNOWN]
        if foreign:
            expected = "conditions of this version"
            raise side_error(f"{path}, {setting}", expected, shortened_list(foreign, _MAX_LISTED), step)
    if saved["checksum"] != _content(saved)["checksum"]:
        n = _n_answers(system.rows, system.harness)
        found = "changed answers" if n == saved["n_answers"] else f"{n} answers"
        raise side_error(str(path), f"the {saved['n_answers']} answers that were saved", found, step)
    return system


def side_error(where: str, expected: str, found: str, next_step: str) -> BenchmarkFileError:
    """Return the error of a side that no gate can use."""
    return BenchmarkFileError("gate", where=where, expected=expected, found=found, next_step=next_step)

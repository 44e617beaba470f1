"""The responses of one model in one setting as columns, which a browser filters and sorts without unpacking texts."""

from __future__ import annotations

import base64
import re
import zlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import zip_longest
from typing import Any

import orjson

from ragtasks.judges import UNASKED, VerdictOutcome
from ragtasks.metrics import (
    TURN_ERROR_NAMES,
    GroundedAnswer,
    GroundedSentence,
    Metric,
    Source,
    TurnErrorKind,
    k_precision,
)
from ragtasks.records import IdkVerdict, Setting, Task, Trajectory
from ragtasks.reports.tables import NOT_USED, loss_class, valued_metrics
from ragtasks.results import UNKNOWN, Evaluation, Group, ScoredAnswer, group_of, model_names
from ragtasks.tables import grouped

# Failures of a response, which the page filters by: the classes of the loss tables, missing scores, missing verdicts.

UNSCORED = "unscored"
"""The main metric has no value."""
NO_VERDICT = "missing verdict"
"""A verdict was requested and is missing; other judges may have given theirs."""

_NO_PROBLEM = {outcome.value for outcome in (VerdictOutcome.GIVEN, VerdictOutcome.NO_STATEMENTS, *UNASKED)}


FAILURES = (*(kind.label for kind in TurnErrorKind), NOT_USED, UNSCORED, NO_VERDICT)
"""Names of all failures in display order. Only the last two may occur together with another one."""


def explained(metric: str) -> dict[str, str]:
    """Return failure -> definition, in the order of `FAILURES`."""
    return {
        **{kind.label: kind.meaning for kind in TurnErrorKind},
        NOT_USED: f"no error, a reference passage was shown, and {metric} is worse than in setting reference",
        UNSCORED: f"{metric} has no value; the table of metrics shows the reason",
        NO_VERDICT: "at least one requested verdict is missing",
    }


def failures_of(row: ScoredAnswer, metric: str, loss: float | None, outcomes: Iterable[str | None]) -> list[str]:
    """Return the names of a response's failures, in the order of `FAILURES`."""
    failures = {loss_class(row, loss)}
    if row.values.get(metric) is None:
        failures.add(UNSCORED)
    if any(outcome not in _NO_PROBLEM for outcome in outcomes):
        failures.add(NO_VERDICT)
    return [name for name in FAILURES if name in failures]


_DIGITS = 4  # digits of a score on the page; the logs have all digits
_VERDICT = ("rubric", "judge", "outcome", "label", "value", "reason", "replies", "attempts")
_BITS = {name: 1 << place for place, name in enumerate(FAILURES)}


class PagePart:
    """Collector of the responses of one model in one setting."""

    def __init__(self, group: Group, model: str, setting: str, metric: str) -> None:
        self.group = group
        self.model = model
        self.setting = setting
        self.metric = metric
        self._columns: dict[str, list[Any]] = {
            name: [] for name in ("task", "answer", "shown", "idk", "idk_reason", "failures", "why")
        }
        self._support = Stream()
        self._values: dict[str, list[float | None]] = {}
        self._reasons: dict[str, dict[str, str]] = {}
        self._trajectories: dict[str, dict[str, Any]] = {}
        self._verdicts = Stream()
        self._has_verdicts = False

    @property
    def failures(self) -> set[str]:
        """The kinds of failure of any response."""
        bits = set(self._columns["failures"])
        return {name for name, bit in _BITS.items() if any(bit & failure_bits for failure_bits in bits)}

    def __len__(self) -> int:
        """Return the number of responses."""
        return len(self._columns["task"])

    def add(self, row: ScoredAnswer, text_store: TextStore, loss: float | None) -> None:
        """Append one response, and add its task and passages to the store."""
        index = len(self)
        outcomes = [verdict.get("outcome") for verdict in row.verdicts]
        failures = sum(_BITS[name] for name in failures_of(row, self.metric, loss, outcomes))
        task, passages = text_store.task(row.task), text_store.passages(row)
        why = (row.turn_error or {}).get("reason", "")
        cells = (task, row.response.as_given, passages, row.idk, row.idk_reason, failures, why)
        self._support.add(_support(row))
        for column, cell in zip(self._columns.values(), cells, strict=True):
            column.append(cell)
        for name in row.values.keys() - self._values.keys() - TURN_ERROR_NAMES:
            self._values[name] = [None] * index
        for name, values in self._values.items():
            value = row.values.get(name)
            values.append(None if value is None else round(value, _DIGITS))
        for name, reason in row.unscored.items():
            self._reasons.setdefault(name, {})[str(index)] = reason
        if row.response.trajectory is not None:
            self._trajectories[str(index)] = _trajectory_cells(row, row.response.trajectory)
        self._verdicts.add([[verdict.get(key) for key in _VERDICT] for verdict in row.verdicts])
        self._has_verdicts = self._has_verdicts or bool(row.verdicts)

    def pack_scores(self, order: Sequence[str]) -> str:
        """Return the block of all columns except the verdicts, with the metrics in the given order."""
        names = [*(name for name in order if name in self._values), *sorted(self._values.keys() - set(order))]
        values = {name: self._values[name] for name in names}
        trajectories = {"trajectories": self._trajectories} if self._trajectories else {}
        return packed({**self._columns, "values": values, "unscored": self._reasons, **trajectories})

    def pack_support(self) -> str:
        """Return the block of the support of each answer's sentences."""
        return self._support.finish()

    def pack_verdicts(self) -> str | None:
        """Return the block of the verdicts on each response, or None without verdicts."""
        return self._verdicts.finish() if self._has_verdicts else None


def _trajectory_cells(row: ScoredAnswer, trajectory: Trajectory) -> dict[str, Any]:
    """Return the page's view of a trajectory: calls with results, and the share of words from each passage.

    A passage is identified by its index among the passages of the answer, or else by its id.
    """
    passages = row.response.passages
    index_of = {passage.passage_id: index for index, passage in enumerate(passages)}
    shares = [k_precision(row.response.as_given, [passage.text]) for passage in passages]
    steps = [
        {
            "tool": step.tool,
            "text": " ".join(str(value) for name, value in step.arguments.items() if name != "k"),
            "passages": [index_of.get(name, name) for name in step.passages],
            "problem": step.problem,
            "repeat": step.is_repeat,
        }
        for step in trajectory.steps
    ]
    return {
        "steps": steps,
        "ending": trajectory.ending,
        "relevant": [index_of.get(name, name) for name in trajectory.seen if name in row.relevant],
        "n_relevant": len(row.relevant),
        "shares": [None if share is None else round(share, 2) for share in shares],
    }


_WORD = re.compile(r"\w+")
_SOURCES = {source: place for place, source in enumerate(Source)}


def _support(row: ScoredAnswer) -> list[list[Any]]:
    """Return one row per sentence: start, end, percent, source, [passage, start, end], unsupported words, flipped.

    A refusal is based on no passage and has no rows. The same holds for the refusing sentence of a partial refusal.
    """
    answer, passages = row.response.as_given, row.response.passages
    if not answer or not passages or row.idk == IdkVerdict.YES:
        return []
    rows: list[list[Any]] = []
    sentences = GroundedAnswer(answer, passages, row.task.messages).sentences
    for sentence in _without_refusal(sentences, row) if row.idk == IdkVerdict.PARTIAL else sentences:
        best = [sentence.best.passage, sentence.best.span.start, sentence.best.span.end] if sentence.best else None
        share = None if sentence.share_with_conversation is None else round(100 * sentence.share_with_conversation)
        from_conversation = set(sentence.from_conversation)
        nowhere = [[span.start, span.end] for span in sentence.not_found if span not in from_conversation]
        flipped = [sentence.flipped.start, sentence.flipped.end] if sentence.flipped else None
        rows.append([sentence.span.start, sentence.span.end, share, _SOURCES[sentence.source], best, nowhere, flipped])
    return rows


def _without_refusal(sentences: Sequence[GroundedSentence], row: ScoredAnswer) -> Iterator[GroundedSentence]:
    """Yield the sentences of a partial refusal except the refusing one, which the detector's reason quotes."""
    refusal = " ".join(_WORD.findall(row.idk_reason.partition(": ")[2].lower()))
    for sentence in sentences:
        if not refusal or f" {refusal} " not in f" {' '.join(_WORD.findall(sentence.text.lower()))} ":
            yield sentence


def collect_parts(
    evaluations: Sequence[Evaluation], metrics: Sequence[str] = ()
) -> tuple[list[PagePart], dict[str, TextStore]]:
    """Return the parts of evaluations with logged samples, and benchmark -> its tasks and passages."""
    by_model = grouped(name_evaluations(evaluations, metrics), lambda named: (named.group, named.model))
    text_stores = {evaluation.kind[0]: TextStore() for evaluation in evaluations if evaluation.samples}
    parts: dict[tuple[Group, str], dict[str, PagePart]] = {model: {} for model in by_model}
    for named, row in _in_turn(list(by_model.values())):
        of_setting = parts[named.group, named.model]
        if row.setting not in of_setting:
            metric = named.metric.name if named.metric else ""
            of_setting[row.setting] = PagePart(named.group, named.model, row.setting, metric)
        of_setting[row.setting].add(row, text_stores[named.evaluation.kind[0]], named.loss(row))
    return [part for of_setting in parts.values() for part in of_setting.values()], text_stores


def _in_turn(models: Sequence[Sequence[Named]]) -> Iterator[tuple[Named, ScoredAnswer]]:
    """Yield one response of each model in turn, so that a task's passages are still cached."""
    rows_of = (((named, row) for named in evaluations for row in named.evaluation.rows) for evaluations in models)
    for responses in zip_longest(*rows_of):
        yield from filter(None, responses)


# Assignment of evaluations to parts of the page, with their names and the scores that losses are measured from.

_WORDS = {"benchmark": "", "metrics": "suite", "encoder of BERTScore": "encoder"}


@dataclass(frozen=True, slots=True)
class Named:
    """An evaluation with logged samples, and its name on the page."""

    evaluation: Evaluation
    model: str
    group: Group
    metric: Metric | None
    """Metric of the losses: the first requested metric with values in the group, or else the suite's first.

    None without any.
    """
    references: Mapping[str, float | None]
    """Task id -> the model's score in the setting `reference`. Empty without that setting."""

    def loss(self, row: ScoredAnswer) -> float | None:
        """Return how much worse a response is than the model's response with reference passages, or None if unknown."""
        before, after = self.references.get(row.task.task_id), row.values.get(self.metric.name) if self.metric else None
        if self.metric is None or self.metric.higher_is_better is None or before is None or after is None:
            return None
        return before - after if self.metric.higher_is_better else after - before


def name_evaluations(evaluations: Sequence[Evaluation], metrics: Sequence[str] = ()) -> list[Named]:
    """Return the evaluations with logged samples, named as in the tables (`model_names`), in the given order."""
    names_of = zip(evaluations, model_names(evaluations), strict=True)
    named = [(evaluation, name, group_of(evaluation)) for evaluation, name in names_of if evaluation.samples]
    members = grouped([evaluation for evaluation, *_ in named], group_of)
    first = {group: _first_metric(evaluations_of, metrics) for group, evaluations_of in members.items()}
    references: dict[tuple[Group, str], dict[str, float | None]] = {}
    for evaluation, name, group in named:
        metric, evaluations_of = first[group], references.setdefault((group, name), {})
        if metric is not None:
            rows = [row for row in evaluation.rows if row.setting == Setting.REFERENCE.value]
            evaluations_of.update((row.task.task_id, row.values.get(metric.name)) for row in rows)
    return [Named(evaluation, name, group, first[group], references[group, name]) for evaluation, name, group in named]


def group_labels(groups: Sequence[Group]) -> dict[Group, str]:
    """Return the differences between groups, in words. Empty for a single group."""
    provenance = {group: {"benchmark": group[0][0], **dict(group[2])} for group in groups}
    names = dict.fromkeys(name for fields in provenance.values() for name in fields)
    differing = [name for name in names if len({fields.get(name) for fields in provenance.values()}) > 1]
    return {
        group: "; ".join(f"{_WORDS.get(name, name)} {fields.get(name, UNKNOWN)}".strip() for name in differing)
        for group, fields in provenance.items()
    }


def _first_metric(evaluations: Sequence[Evaluation], metrics: Sequence[str]) -> Metric | None:
    valued = valued_metrics(row for evaluation in evaluations for row in evaluation.rows)
    present = {metric.name: metric for metric in evaluations[0].metrics if metric.name in valued}
    return next((present[name] for name in (*metrics, *present) if name in present), None)


# JSON inside a page: compressed, in base64, and unpacked by the browser on demand. The alphabet of base64 has no `<`,
# so no text of a model can end the element that contains it.

_LEVEL = 4  # 6 is a tenth smaller and takes twice as long


class Stream:
    """A JSON array that is compressed while it grows, because judges' replies are large and numerous."""

    def __init__(self) -> None:
        self._packer = zlib.compressobj(_LEVEL)
        self._chunks: list[bytes] = []
        self._n = 0

    def add(self, member: Any) -> None:
        """Append one member of plain JSON values."""
        self._chunks.append(self._packer.compress((b"," if self._n else b"[") + orjson.dumps(member)))
        self._n += 1

    def finish(self) -> str:
        """Return the array as base64 of a zlib stream. No member can be added afterwards."""
        tail = self._packer.compress(b"]" if self._n else b"[]") + self._packer.flush()
        return base64.b64encode(b"".join([*self._chunks, tail])).decode("ascii")


def packed(value: Any) -> str:
    """Return plain JSON values as base64 of a zlib stream. The same values give the same text."""
    return base64.b64encode(zlib.compress(orjson.dumps(value), _LEVEL)).decode("ascii")


# The tasks and passages of one benchmark, each stored once for all models. Lists of tasks need one block. The long
# texts (passages, earlier turns) have one block per domain.

Passage = tuple[str, str, str]
"""Id, title and text. An id alone may have different texts in different runs."""


@dataclass(slots=True)
class _Texts:
    """The long texts of a domain."""

    passages: dict[Passage, int] = field(default_factory=dict)
    """Passage -> its index."""
    histories: dict[tuple[tuple[str, str], ...], int] = field(default_factory=dict)
    """Earlier messages (role, text) of a task -> their index."""


class TextStore:
    """Collector of tasks and passages."""

    def __init__(self) -> None:
        self._tasks: dict[tuple[Any, ...], int] = {}
        self._texts: dict[str, _Texts] = {}

    def task(self, task: Task) -> int:
        """Return the index of a task. A known task with the same texts keeps its index."""
        texts = self._texts.setdefault(task.domain, _Texts())
        history = tuple((message.role.value, message.text) for message in task.messages[:-1])
        record = (
            task.task_id,
            task.conversation_id,
            task.turn,
            task.domain,
            task.answerability,
            task.question_types,
            task.multi_turn,
            task.question,
            task.target,
            tuple(passage.passage_id for passage in task.references),
            texts.histories.setdefault(history, len(texts.histories)),
        )
        return self._tasks.setdefault(record, len(self._tasks))

    def passages(self, row: ScoredAnswer) -> list[int]:
        """Return the indices of a response's passages among those of its domain, in order."""
        texts = self._texts.setdefault(row.task.domain, _Texts())
        records = [(passage.passage_id, passage.title, passage.text) for passage in row.response.passages]
        return [texts.passages.setdefault(record, len(texts.passages)) for record in records]

    def pack_tasks(self) -> str:
        """Return the block of tasks: one array per task, in the order of the fields in `task`."""
        return packed(list(self._tasks))

    def pack_texts(self) -> dict[str, str]:
        """Return domain -> the block of its passages and histories."""
        return {
            domain: packed({"passages": list(texts.passages), "histories": list(texts.histories)})
            for domain, texts in self._texts.items()
        }

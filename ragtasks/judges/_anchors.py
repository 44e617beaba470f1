"""Anchors: a frozen set of answers that every judging run includes, to detect changes of a judge.

The model behind a name may change without notice: another version, another quantization, another system prompt. The
evaluated answers cannot show it, since they differ between evaluations. The anchors are always the same. If a judge's
verdicts on them have moved by more than chance over conversations, scores before and after are not comparable.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import orjson
from numpy.typing import NDArray
from pydantic import Field, TypeAdapter, ValidationError

from ragtasks.errors import BenchmarkFileError, ConfigurationError
from ragtasks.files import canonical_hash, parse_json, write_atomically
from ragtasks.judges._verdicts import Verdicts
from ragtasks.records import Answerability, Message, Passage, Response, Role, Task
from ragtasks.statistics import LEVEL, Estimate, cluster, estimate_means, holm, p_of_signs

FEWEST = 10
"""Minimum number of conversations in a set: with fewer, drift cannot be tested."""
_NEXT_STEP = "create a new set with `ragtasks judges anchors --output FILE`; its drift is measured from then on"
_DIGITS = 16
_BOUNDS = (-1.0, 1.0)


@dataclass(frozen=True, slots=True)
class Anchors:
    """A frozen set of answers."""

    source: str
    """Description of the origin."""
    responses: tuple[Response, ...]

    @property
    def name(self) -> str:
        """Hash of all texts: another or an edited set has another name."""
        return canonical_hash([_row(response) for response in self.responses])[:_DIGITS]

    @property
    def conversations(self) -> list[int]:
        """Conversation of each answer, numbered from 0 in the order of the set."""
        numbers: dict[str, int] = {}
        return [numbers.setdefault(response.task.conversation_id, len(numbers)) for response in self.responses]


def choose_anchors(answers: Iterable[tuple[Response, Hashable]], n: int, source: str) -> Anchors:
    """Return `n` answers, or all if there are fewer, spread over their labels and conversations.

    The choice depends only on the input. A label is, for example, the task's answerability with a rating by people.

    Raises:
        ConfigurationError: the chosen answers are from fewer than ten conversations.
    """
    strata: dict[Hashable, list[Response]] = {}
    for response, label in answers:
        strata.setdefault(label, []).append(response)
    for stratum in strata.values():
        stratum.sort(key=lambda answer: canonical_hash(_row(answer)))
    chosen: list[Response] = []
    n_of: dict[str, int] = {}
    while len(chosen) < n and any(strata.values()):
        for stratum in strata.values():
            if stratum and len(chosen) < n:
                # The conversation with the fewest answers first: a test of drift counts conversations.
                index = min(range(len(stratum)), key=lambda index: n_of.get(stratum[index].task.conversation_id, 0))
                chosen.append(stratum.pop(index))
                name = chosen[-1].task.conversation_id
                n_of[name] = n_of.get(name, 0) + 1
    if len(n_of) < FEWEST:
        raise _too_few(source, len(n_of))
    return Anchors(source, tuple(chosen))


def _too_few(source: str, n: int) -> ConfigurationError:
    return ConfigurationError(
        "anchors",
        where=source,
        expected=f"answers of at least {FEWEST} conversations, to test drift over them",
        found=f"{n}",
        next_step="name results with more conversations, or no results, for the built-in set",
    )


def write_anchors(path: Path, anchors: Anchors) -> None:
    """Write a set as JSON lines: a header with its name, then one answer per line."""
    head = {"anchors": anchors.name, "source": anchors.source, "n": len(anchors.responses)}
    lines = [head, *(_row(response) for response in anchors.responses)]
    write_atomically(path, b"".join(orjson.dumps(line) + b"\n" for line in lines))


def read_anchors(path: Path) -> Anchors:
    """Return a set from its file.

    Raises:
        BenchmarkFileError: the file cannot be read, or was edited: an edited set would look like a judge's drift.
    """
    try:
        head, *rows = [parse_json(line) for line in path.read_bytes().splitlines() if line.strip()]
        anchors = Anchors(str(head["source"]), tuple(map(_response, rows)))
        frozen = head["anchors"]
    except OSError as error:
        raise _error(path, "a file that can be read", error.strerror or str(error)) from error
    except (ValueError, LookupError, TypeError, AttributeError) as error:
        problem = f"{type(error).__name__}: {error}"
        raise _error(path, "a set written by `ragtasks judges anchors`", problem) from error
    if anchors.name != frozen:
        raise _error(path, f"the frozen answers (hash {frozen})", f"edited answers (hash {anchors.name})")
    return anchors


def _error(path: Path, expected: str, found: str) -> BenchmarkFileError:
    return BenchmarkFileError("anchors", where=str(path), expected=expected, found=found, next_step=_NEXT_STEP)


def _row(response: Response) -> dict[str, Any]:
    """Return an answer as JSON values, with all fields that rubrics read."""
    task = response.task
    return {
        "task_id": task.task_id,
        "conversation_id": task.conversation_id,
        "turn": task.turn,
        "domain": task.domain,
        "messages": [{"role": message.role.value, "content": message.text} for message in task.messages],
        "target": task.target,
        "answerability": task.answerability.value,
        "passages": [{"passage_id": passage.passage_id, "text": passage.text} for passage in response.passages],
        "answer": response.text,
    }


def _response(row: Mapping[str, Any]) -> Response:
    task = Task(
        task_id=row["task_id"],
        conversation_id=row["conversation_id"],
        turn=row["turn"],
        domain=row["domain"],
        messages=tuple(Message(Role(message["role"]), message["content"]) for message in row["messages"]),
        target=row["target"],
        answerability=Answerability(row["answerability"]),
    )
    return Response(
        task, tuple(Passage(passage["passage_id"], passage["text"]) for passage in row["passages"]), row["answer"]
    )


# Verdicts of one judge on a set at one time, stored on this machine and in the results of the evaluation.


@dataclass(frozen=True, slots=True)
class AnchorVerdicts:
    """One judge's verdicts on a set of anchors."""

    judge: str
    anchors: str
    time: str
    """Time of judging, as `2026-11-23T12:00:00`."""
    rubrics: Mapping[str, str]
    """Rubric -> fingerprint of its prompts."""
    conversations: tuple[int, ...]
    values: Mapping[str, tuple[Annotated[float, Field(ge=0, le=1)] | None, ...]]
    """Rubric -> value of each anchor, None without a verdict."""
    served: Mapping[str, int] = field(default_factory=dict)
    """Model named by the server -> number of verdicts; empty if it names none."""

    @property
    def json_values(self) -> dict[str, Any]:
        """The record as stored in results and on this machine."""
        values: dict[str, Any] = _VERDICTS.dump_python(self, mode="json")
        return values

    @classmethod
    def of_json(cls, saved: Any) -> AnchorVerdicts | None:
        """Return the record in JSON values, or None if they are invalid."""
        try:
            record = _VERDICTS.validate_python(saved)
        except ValidationError:
            return None
        n = len(record.conversations)
        return record if all(len(values) == n for values in record.values.values()) else None


_VERDICTS = TypeAdapter(AnchorVerdicts)


def anchor_verdicts(
    verdicts: Verdicts, judge: str, anchors: Anchors, fingerprints: Mapping[str, str], time: str
) -> AnchorVerdicts:
    """Return one judge's verdicts on a set as a record."""
    judged = [verdict for verdict in verdicts.all() if verdict.judge == judge]
    names = [verdict.served_model for verdict in judged if verdict.served_model]
    return AnchorVerdicts(
        judge=judge,
        anchors=anchors.name,
        time=time,
        rubrics={name: fingerprints[name] for name in verdicts.rubrics},
        conversations=tuple(anchors.conversations),
        values={
            name: tuple(
                None if score.value is None else round(score.value, 6) for score in verdicts.judge_scores(name, judge)
            )
            for name in verdicts.rubrics
        },
        served={name: names.count(name) for name in dict.fromkeys(names)},
    )


# Drift: verdicts of the same judge, set and prompts at two times.


@dataclass(frozen=True, slots=True)
class Drift:
    """Change of one judge's verdicts under one rubric between two times."""

    judge: str
    rubric: str
    before: str
    """Time of the first verdicts."""
    after: str
    """Time of the second verdicts."""
    difference: Estimate
    """Mean of second minus first, over the anchors with both verdicts."""
    p: float | None
    """Two-sided p of the hypothesis "no drift", corrected by Holm over the rubrics; None if it cannot be tested."""

    @property
    def is_drift(self) -> bool:
        """Whether the judge changed by more than chance."""
        return self.is_drift_among(1)

    def is_drift_among(self, n: int) -> bool:
        """Return whether the judge changed by more than chance, with Bonferroni's correction for `n` tests."""
        return self.p is not None and self.p <= LEVEL / n

    @property
    def text(self) -> str:
        """Rubric, difference and p as text."""
        p = "not tested" if self.p is None else f"p {'<0.001' if self.p < 0.001 else f'{self.p:.3f}'}"
        gap = self.difference.value
        return f"{self.rubric} {'no shared verdict' if gap is None else f'{gap:+.3f}'} ({p})"


def comparable(first: AnchorVerdicts, second: AnchorVerdicts) -> bool:
    """Return whether two records have the same judge and set, and a rubric with the same prompts."""
    return (first.judge, first.anchors, first.conversations) == (
        second.judge,
        second.anchors,
        second.conversations,
    ) and any(second.rubrics.get(name) == words for name, words in first.rubrics.items())


def drift_of(first: AnchorVerdicts, second: AnchorVerdicts) -> list[Drift]:
    """Return the drift of a judge between two times, for each rubric with equal prompts."""
    names = [name for name, words in first.rubrics.items() if second.rubrics.get(name) == words]
    names = [name for name in names if name in first.values and name in second.values]
    clusters = [str(number) for number in first.conversations]
    columns = []
    for name in names:
        pairs = zip(first.values[name], second.values[name], strict=True)
        gaps = [None if before is None or after is None else after - before for before, after in pairs]
        columns.append(cluster(gaps, clusters, _BOUNDS))
    estimates = estimate_means(columns, tested=0.0)
    corrected = holm([p_of_signs(estimate) for estimate in estimates])
    return [
        Drift(first.judge, name, first.time, second.time, estimate, p)
        for name, estimate, p in zip(names, estimates, corrected, strict=True)
    ]


# Recalibration: mapping the values of a changed judge to the scale of its earlier verdicts, by the anchors.


@dataclass(frozen=True, slots=True)
class Recalibration:
    """Linear map of one judge's present values under one rubric to its earlier scale."""

    judge: str
    rubric: str
    constant: float
    slope: float
    left_out: tuple[tuple[float, float], ...]
    """Constant and slope without each conversation of the anchors in turn."""

    def of(self, value: float) -> float:
        """Return a present value on the earlier scale; it may be outside the scale's range."""
        return self.constant + self.slope * value

    def moves(self, value: float) -> tuple[float, ...]:
        """Return the changes of the mapped value, one for each conversation of the anchors that is left out."""
        mapped = self.of(value)
        return tuple(constant + slope * value - mapped for constant, slope in self.left_out)

    @property
    def text(self) -> str:
        """Judge, rubric and map as text."""
        return f"{self.judge}: {self.rubric} {self.constant:+.3f} {self.slope:+.3f} times its value"


def recalibration_of(before: AnchorVerdicts, now: AnchorVerdicts, rubric: str) -> Recalibration | str:
    """Return the map that gives the present anchor values the earlier mean and spread, or the reason for having none.

    Source: M. J. Kolen and R. L. Brennan, Test Equating, Scaling, and Linking (3rd ed., 2014), linear equating. Its
    error is a jackknife over conversations. A regression is unsuitable: noise in single verdicts flattens its slope.
    """
    triples = zip(before.conversations, before.values[rubric], now.values[rubric], strict=True)
    pairs = [
        (name, earlier, present) for name, earlier, present in triples if earlier is not None and present is not None
    ]
    names = np.array([name for name, _, _ in pairs])
    first, second = (np.array([pair[position] for pair in pairs], dtype=np.float64) for position in (1, 2))
    if len(set(names.tolist())) < FEWEST:
        return f"fewer than {FEWEST} conversations have anchors with both verdicts"
    # Every conversation of the set, even without verdicts, so that all maps from one set have the same jackknife
    # replicates.
    masks = [names != name for name in sorted(set(before.conversations))]
    if not all(column[mask].std() > 0 for column in (first, second) for mask in masks):
        return "the judge gives all anchors the same value"
    constant, slope = _line(first, second)
    left_out = tuple(_line(first[mask], second[mask]) for mask in masks)
    return Recalibration(now.judge, rubric, constant, slope, left_out)


def _line(first: NDArray[np.float64], second: NDArray[np.float64]) -> tuple[float, float]:
    """Return constant and slope of the line that gives the second array the mean and spread of the first."""
    slope = float(first.std() / second.std())
    return float(first.mean()) - slope * float(second.mean()), slope


# Records of all judges in one file of JSON lines; the first record of a judge is its baseline.


def stored_verdicts(path: Path) -> list[AnchorVerdicts]:
    """Return all records of the file, in order of time; invalid lines are skipped."""
    if not path.is_file():
        return []
    records = []
    for line in path.read_bytes().splitlines():
        try:
            record = AnchorVerdicts.of_json(parse_json(line))
        except ValueError:
            record = None  # an incomplete line of a killed process
        if record is not None:
            records.append(record)
    return records


def store_verdicts(path: Path, records: Sequence[AnchorVerdicts]) -> None:
    """Append records to the file."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("ab") as file:
        file.write(b"".join(b"\n" + orjson.dumps(record.json_values) for record in records) + b"\n")


def baseline_of(stored: Sequence[AnchorVerdicts], now: AnchorVerdicts) -> AnchorVerdicts | None:
    """Return the first record of this judge with these anchors and prompts, or None."""
    return next((record for record in stored if comparable(record, now) and record.rubrics == now.rubrics), None)

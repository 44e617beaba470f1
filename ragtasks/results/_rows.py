"""Rows of an evaluation: what tables need of each response that the harness logged."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ragtasks.files import canonical_hash
from ragtasks.judges import UNASKED
from ragtasks.metrics import COUNT, TURN_ERROR_NAMES, Metric
from ragtasks.results._saved import LoggedSamples, require_sample, sample_lines, unusable

_KINDS = f"turn errors of the kinds {', '.join(sorted(TURN_ERROR_NAMES))}"
_ONCE = "each task once in a setting (harness tasks over the same questions need calls of their own)"


@dataclass(frozen=True, slots=True)
class Row:
    """One scored response."""

    task_id: str
    conversation_id: str
    """The conversation that the task was cut from: tasks of one are not independent."""
    turn: int
    """User turn, from 1."""
    domain: str
    """Short name of the corpus."""
    setting: str
    """`reference`, `reference_rag` or `full_rag`."""
    answerability: str
    question_types: tuple[str, ...]
    """Labels of the question."""
    multi_turn: str
    n_passages: int
    n_references: int
    """Passages that the reference answer rests on."""
    n_found: int
    """Of these, how many the model was shown."""
    idk: str | None
    """Whether the response says that it does not know: `yes`, `partial`, `no`; None without a verdict."""
    values: Mapping[str, float | None]
    unscored: Mapping[str, str]
    """Metric -> why it has no value."""
    verdicts: Mapping[tuple[str, str], float | None]
    """(Rubric, judge) -> what that judge made of it, 0 to 1; None where it was asked and gave no value."""
    implausible: Mapping[str, str] | None = None
    """Check -> what shows that this can be no answer; None where nothing was checked, as of a baseline."""
    turn_error: str | None = None
    """What went wrong in the turn, a `TurnErrorKind`; empty where nothing is seen, None where nobody looked."""
    answer_hash: str = ""
    """Of the answer and the passages that it rests on; empty where they are not there."""
    again: tuple[Mapping[str, float | None], ...] = ()
    """Metric -> value in each further judging, where judges were asked about this response again; None if unscored."""
    spending: Mapping[str, tuple[Mapping[str, Any], ...]] = field(default_factory=dict)
    """Who was asked (`model`, `judge NAME`) -> what each reply took, useless or not."""
    served: tuple[tuple[str, str], ...] = ()
    """(Judge, model that its server named) of the verdicts, each once; none where servers name no model."""
    recall_after: tuple[float, ...] = ()
    """Share of the relevant passages that the model had seen after each of its calls, the first for none; () where no
    passage is relevant, or the model could not search."""
    moves: Mapping[str, tuple[float, ...]] = field(default_factory=dict)
    """Metric that was recalibrated -> how far its value moves without each conversation of the anchors in turn."""


def read_rows(samples: Iterable[LoggedSamples]) -> Iterator[Row]:
    """Yield the samples of one evaluation, each task once in a setting: else its answers would share one mean."""
    places: dict[tuple[str, str], tuple[Path, int]] = {}
    for logged in samples:
        for line in sample_lines(logged):
            try:
                require_sample(line.sample)
                row = row_of(line.sample)
            except (LookupError, TypeError, ValueError, OverflowError) as error:
                line.refuse(error)
                continue
            place = (logged.path, line.number)
            first = places.setdefault((row.setting, row.task_id), place)
            if first != place:
                found = f"one that line {first[1]} of {first[0].name} has"
                line.problems.add(line.number, _ONCE, found, row.task_id)
            if row.turn_error and row.turn_error not in TURN_ERROR_NAMES:
                found = f"{row.turn_error!r} in line {line.number}"
                raise unusable("results", logged.path, _KINDS, found, "score the answers again with `ragtasks score`")
            yield row


_UNASKED = {outcome.value for outcome in UNASKED}


def row_of(sample: Mapping[str, Any]) -> Row:
    doc = sample["doc"]
    notes = doc.get("scoring", {})
    references = set(doc["references"])
    verdicts = [item for item in notes.get("verdicts", ()) if item.get("outcome") not in _UNASKED]
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
        values={
            **{name: _number(sample[name]) for name in sample["metrics"] if not _is_pair(sample[name])},
            **_usage_values(doc.get("usage", {}), [item.get("calls", ()) for item in verdicts]),
            **_turn_error_values(notes),
        },
        unscored=notes.get("unscored", {}),
        verdicts={(item["rubric"], item["judge"]): item["value"] for item in verdicts},
        implausible=notes.get("implausible"),
        turn_error=notes[TURN_ERROR].get("kind", "") if TURN_ERROR in notes else None,
        answer_hash=_answer_hash(sample.get("filtered_resps"), doc["passages"]),
        spending=_spending(doc, notes),
        again=tuple(_numbers(item["values"]) for item in notes.get("repeats", ())),
        recall_after=_recall_after(doc.get("trajectory")),
        served=tuple(sorted({(item["judge"], name) for item in verdicts if (name := item.get("served_model"))})),
    )


def _recall_after(trajectory: Mapping[str, Any] | None) -> tuple[float, ...]:
    relevant = set(trajectory.get("relevant", ())) if trajectory else set()
    if trajectory is None or not relevant:
        return ()
    seen: set[str] = set()
    found = [0.0]
    for step in trajectory["steps"]:
        seen |= relevant.intersection(step.get("passages", ()))
        found.append(len(seen) / len(relevant))
    return tuple(found)


TURN_ERROR = "turn_error"
"""Key of what went wrong in a turn, in the notes of a scored response: kind and reason, {} where nothing is seen."""


def _turn_error_values(notes: Mapping[str, Any]) -> dict[str, float]:
    """Return kind -> 1 for what went wrong and 0 for all else; {} where nobody looked."""
    if TURN_ERROR not in notes:
        return {}
    return {name: float(name == notes[TURN_ERROR].get("kind")) for name in sorted(TURN_ERROR_NAMES)}


# What an answer took, and what judging it did. A sample holds it under `usage` of its doc, amounts by name or a
# server's replies under `calls`, and under `calls` of each verdict; a score counts the replies that could be used.

MODEL = "model"
"""Who was asked for the answer, in the spending of a row."""
_AMOUNTS = ("seconds", "input_tokens", "output_tokens", "cached_tokens", "dollars")
_DESCRIBED = {
    "seconds": "seconds until the whole answer was there",
    "first_token_seconds": "seconds until the answer's first word was there",
    "retriever_seconds": "seconds that searching took",
    "tokens": "tokens of the model's prompt and answer",
    "input_tokens": "tokens of the model's prompt",
    "output_tokens": "tokens of the answer, thinking included",
    "cached_tokens": "tokens of the prompt that the model's server had cached",
    "cost_per_1000": "dollars that 1,000 such answers cost",
    "judge_seconds": "seconds of all judges' replies about the answer, one after the other",
    "judge_tokens": "tokens of all judges' prompts and replies about the answer",
    "judge_cost_per_1000": "dollars that judging 1,000 such answers costs",
}
USAGE_METRICS = tuple(
    Metric(name, text, higher_is_better=None if "cached" in name else False, bounds=COUNT)
    for name, text in _DESCRIBED.items()
)
"""What any answer may have taken, whatever its suite; a row has those that somebody counted."""
USAGE_NAMES = frozenset(_DESCRIBED)


def joined_usage(parts: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Return what several replies took that belong to one answer; an amount that one of them lacks is not known."""
    known = [name for name in _AMOUNTS if parts and all(name in part for part in parts)]
    calls = [call for part in parts for call in part.get("calls", ())]
    return {**{name: math.fsum(part[name] for part in parts) for name in known}, **({"calls": calls} if calls else {})}


def _usage_values(usage: Mapping[str, Any], verdicts: Sequence[Sequence[Mapping[str, Any]]]) -> dict[str, float]:
    """Return metric -> amount, of what is known in full: a sum that lacks a part is none."""
    own = {name: float(usage[name]) for name in (*_DESCRIBED, "dollars") if name in usage}
    answered = _as_scores({**_sums(usage.get("calls", ())), **own})
    judged = _as_scores(_sums([call for calls in verdicts for call in calls]))
    return answered | {name: value for key, value in judged.items() if (name := f"judge_{key}") in _DESCRIBED}


def _as_scores(amounts: Mapping[str, float]) -> dict[str, float]:
    found = {name: value for name, value in amounts.items() if name != "dollars"}
    if "dollars" in amounts:
        found["cost_per_1000"] = 1000 * amounts["dollars"]
    if "input_tokens" in amounts and "output_tokens" in amounts:
        found["tokens"] = amounts["input_tokens"] + amounts["output_tokens"]
    return found


def _sums(calls: Iterable[Mapping[str, Any]]) -> dict[str, float]:
    used = [call for call in calls if call.get("is_used", True)]
    return {
        name: math.fsum(call[name] for call in used)
        for name in _AMOUNTS
        if used and all(call.get(name) is not None for call in used)
    }


def _spending(doc: Mapping[str, Any], notes: Mapping[str, Any]) -> dict[str, tuple[Mapping[str, Any], ...]]:
    """Return who was asked -> what each reply took, of all judgings."""
    found: dict[str, list[Mapping[str, Any]]] = {MODEL: list(doc.get("usage", {}).get("calls", ()))}
    judgings = [notes, *notes.get("repeats", ())]
    for item in (item for judging in judgings for item in judging.get("verdicts", ())):
        found.setdefault(f"judge {item['judge']}", []).extend(item.get("calls", ()))
    return {name: tuple(calls) for name, calls in found.items() if calls}


def _answer_hash(answers: Any, passages: Sequence[Mapping[str, Any]]) -> str:
    """Return a hash by which the same answer on the same passages is known again; empty without an answer."""
    return canonical_hash([answers[0], [passage.get("text", "") for passage in passages]])[:16] if answers else ""


def _is_pair(value: Any) -> bool:
    """Return whether a metric has no value of one response: what stands there are response and reference answers."""
    return isinstance(value, list) and len(value) == 2 and isinstance(value[0], str)


def _numbers(values: Any) -> dict[str, float | None]:
    return {name: _number(value) for name, value in dict(values).items()}


def _number(value: Any) -> float | None:
    """Return a number; None for NaN, which the harness's JSON has as NaN and the reader as None."""
    if value is None or math.isnan(value):
        return None
    if math.isinf(value):
        raise ValueError("a score that is not finite")
    return float(value)

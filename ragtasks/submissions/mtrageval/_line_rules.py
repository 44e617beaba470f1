"""The rules for a line of a submission: functions that yield problems, and the list of them.

Tasks A, B and C share most rules; `_FIELDS` lists the required fields of each task. A rule examines only parts of the
right type, so that each problem is reported once.
"""

from __future__ import annotations

import ctypes
import itertools
import math
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from ragtasks.benchmarks.mtrag import domain_of
from ragtasks.records import split_task_id
from ragtasks.submissions._findings import Problem, SubmissionTask, Words
from ragtasks.submissions.mtrageval._inputs import Documents, InputTask, messages_of

# Scores as in the official evaluation: 32-bit floats, ties ordered by document id descending. Different scores may be
# equal as 32-bit floats, so written scores must decrease strictly as 32-bit floats.


def single(score: float) -> float:
    """Return a score as trec_eval stores it, the nearest 32-bit float; infinite if out of range, NaN for NaN."""
    try:
        return ctypes.c_float(score).value
    except OverflowError:  # an integer too large for any float
        return math.inf if score > 0 else -math.inf


def falls_strictly(scores: Sequence[float]) -> bool:
    """Return whether scores are finite and strictly decreasing as 32-bit floats; True for an empty list."""
    values = [single(score) for score in scores]
    return all(map(math.isfinite, values)) and all(first > second for first, second in itertools.pairwise(values))


def rank_scores(n: int) -> tuple[float, ...]:
    """Return n, n - 1, ..., 1: scores that only encode the rank."""
    return tuple(float(n - index) for index in range(n))


def official_scores(scores: Sequence[float]) -> tuple[float, ...]:
    """Return scores that rank a list in its own order officially: the given ones if they do, else rank scores."""
    return tuple(map(float, scores)) if falls_strictly(scores) else rank_scores(len(scores))


MAX_CONTEXTS = 10
"""Maximum contexts of a task."""
RECOMMENDED_CONTEXTS = 5
"""Number of contexts that the organizers recommend for task C."""

_FIELDS: tuple[tuple[str, str, type, str], ...] = (
    ("task_id", "ABC", str, "a text"),
    ("Collection", "AC", str, "a text"),
    ("input", "BC", list, "a list of messages"),
    ("contexts", "ABC", list, "a list of objects"),
    ("predictions", "BC", list, "a list of objects"),
)
_SPEAKERS = ("user", "agent")
_THINKING = re.compile(r"</?think>", re.IGNORECASE)
_ABSENT = Words("no such field")


@dataclass(frozen=True, slots=True)
class Line:
    """A line, with the data for checking its task."""

    task: SubmissionTask
    row: Mapping[str, Any]
    given: InputTask | None
    """The task as participants receive it; None if it is unknown."""
    documents: Documents | None
    """Existing documents; None if they are unknown."""

    @property
    def objects(self) -> list[tuple[int, dict[str, Any]]]:
        """(index, content) of the contexts that are objects."""
        contexts = self.row.get("contexts")
        found = enumerate(contexts if isinstance(contexts, list) else [])
        return [(index, item) for index, item in found if isinstance(item, dict)]

    @property
    def scores(self) -> list[tuple[int, float]]:
        """(index, value) of the scores that are numbers."""
        pairs = [(index, item.get("score")) for index, item in self.objects]
        return [(i, value) for i, value in pairs if isinstance(value, (int, float)) and not isinstance(value, bool)]

    @property
    def document_ids(self) -> list[tuple[int, str]]:
        """(index, value) of the document ids that are strings."""
        pairs = [(index, item.get("document_id")) for index, item in self.objects]
        return [(index, value) for index, value in pairs if isinstance(value, str)]

    @property
    def answers(self) -> bool:
        """Whether the task requires answers."""
        return self.task is not SubmissionTask.A


def fields(line: Line) -> Iterator[Problem]:
    """Yield required fields that are missing or of the wrong type."""
    for name, tasks, kind, described in _FIELDS:
        if line.task.value not in tasks:
            continue
        if name not in line.row:
            near = [key for key in line.row if key.lower() == name.lower()]
            found = Words(f"no such field, but {near[0]!r}") if near else _ABSENT
            yield "required_field", f"the field {name!r}", found
        elif not isinstance(line.row[name], kind):
            yield "field_type", f"{name!r} to be {described}", line.row[name]


def number_of_contexts(line: Line) -> Iterator[Problem]:
    """Yield a problem if there are no contexts, or more than allowed."""
    contexts = line.row.get("contexts")
    if not isinstance(contexts, list):
        return
    if len(contexts) > MAX_CONTEXTS:
        yield "too_many_contexts", f"at most {MAX_CONTEXTS} contexts", len(contexts)
    elif line.task is SubmissionTask.C and len(contexts) > RECOMMENDED_CONTEXTS:
        yield "many_contexts", f"{RECOMMENDED_CONTEXTS} contexts or fewer", len(contexts)
    elif line.task is not SubmissionTask.B and not contexts:
        yield "no_contexts", "contexts", Words("no contexts")


def shape_of_contexts(line: Line) -> Iterator[Problem]:
    """Yield contexts that are no objects, or without a document id, a score or (tasks B and C) a text."""
    contexts = line.row.get("contexts")
    for index, item in enumerate(contexts if isinstance(contexts, list) else []):
        if not isinstance(item, dict):
            yield "context_object", f"contexts[{index}] to be an object", item
            continue
        if not isinstance(item.get("document_id"), str):
            yield "document_id", f"a text as contexts[{index}].document_id", item.get("document_id", _ABSENT)
        if not isinstance(item.get("score"), (int, float)):
            yield "score", f"a number as contexts[{index}].score", item.get("score", _ABSENT)
        text = item.get("text", _ABSENT)
        if line.answers and (text is _ABSENT or not isinstance(text, str) or not text.strip()):
            yield "context_text", f"a text that says something as contexts[{index}].text", text


def values_of_scores(line: Line) -> Iterator[Problem]:
    """Yield scores that are booleans, or not finite as 32-bit floats."""
    for index, item in line.objects:
        if isinstance(item.get("score"), bool):
            yield "score_boolean", f"a number as contexts[{index}].score", item["score"]
    for index, score in line.scores:
        if not math.isfinite(single(score)):
            yield "score_not_finite", f"a finite 32-bit number as contexts[{index}].score", score


def order_of_scores(line: Line) -> Iterator[Problem]:
    """Yield scores that do not decrease as 32-bit floats: the first tie and the first increase."""
    found: dict[str, Problem] = {}
    for (_, before), (index, score) in itertools.pairwise(line.scores):
        if single(score) >= single(before):
            rule = "scores_unordered" if single(score) > single(before) else "scores_tied"
            expected = f"contexts[{index}].score below the one before it"
            found.setdefault(rule, (rule, expected, f"{score!r} after {before!r}"))
    yield from found.values()


def documents(line: Line) -> Iterator[Problem]:
    """Yield documents that are repeated, have a blank id, or do not exist."""
    first: dict[str, int] = {}
    domain = line.given.domain if line.given else domain_of(line.row.get("Collection"))
    listed = line.documents.get(domain or "") if line.documents else None
    for index, document_id in line.document_ids:
        if first.setdefault(document_id, index) != index:
            expected = f"contexts[{index}] to be another document than contexts[{first[document_id]}]"
            yield "duplicate_document", expected, document_id
        elif not document_id.strip():
            yield "blank_document_id", f"an id as contexts[{index}].document_id", document_id
        elif listed is not None and document_id not in listed:
            yield "unknown_document", f"a document of {domain} as contexts[{index}].document_id", document_id


def predictions(line: Line) -> Iterator[Problem]:
    """Yield a problem unless there is one prediction, an object with a text that is not blank."""
    found = line.row.get("predictions")
    if not line.answers or not isinstance(found, list):
        return
    if len(found) != 1:
        yield "n_predictions", "one prediction", f"{len(found)} predictions"
    for index, item in enumerate(found):
        text = item.get("text", _ABSENT) if isinstance(item, dict) else None
        if not isinstance(item, dict):
            yield "prediction_object", f"predictions[{index}] to be an object", item
        elif text is _ABSENT or not isinstance(text, str):
            yield "prediction_text", f"a text as predictions[{index}].text", text
        elif not text.strip():
            yield "empty_prediction", f"an answer as predictions[{index}].text", text
        elif _THINKING.search(text):
            yield "thinking_text", f"predictions[{index}].text without the model's thinking", text


def identity(line: Line) -> Iterator[Problem]:
    """Yield a conversation id or turn that contradicts the task id."""
    task_id = line.row.get("task_id")
    if not isinstance(task_id, str):
        return
    try:
        conversation_id, turn = split_task_id(task_id)
    except ValueError:
        yield "task_id_shape", "a task id such as <conversation><::><turn>", task_id
        return
    if line.row.get("conversation_id", conversation_id) != conversation_id:
        yield "conversation_id", f"'conversation_id' {conversation_id!r}", line.row["conversation_id"]
    written = line.row.get("turn", turn)
    if not isinstance(written, (str, int)) or str(written) != str(turn):
        yield "turn", f"'turn' {turn}", written


def collection(line: Line) -> Iterator[Problem]:
    """Yield a collection other than the task's or, without the task's, an unknown collection."""
    name = line.row.get("Collection")
    if not isinstance(name, str):
        return
    if line.given and line.given.collection:
        if name != line.given.collection:
            yield "collection", f"the task's own collection {line.given.collection!r}", name
    elif domain_of(name) is None:
        yield "collection", "a collection of MTRAG", name


def conversation(line: Line) -> Iterator[Problem]:
    """Yield a conversation with invalid messages, or that differs from the input."""
    raw = line.row.get("input")
    if not isinstance(raw, list):
        return
    messages = messages_of(raw)
    if not messages or any(speaker not in _SPEAKERS for speaker, _ in messages):
        bad: object = Words("no messages")
        with suppress(StopIteration):
            bad = next(item for item in raw if not messages_of([item]) or item["speaker"] not in _SPEAKERS)
        yield "message", "messages with a speaker, user or agent, and a text", bad
    elif line.given and messages != line.given.messages:
        yield "other_input", "the conversation of the input file", messages[-1][1]


def given_contexts(line: Line) -> Iterator[Problem]:
    """Yield contexts of task B that differ from the input. A subset must have `MAX_CONTEXTS` contexts."""
    if line.task is not SubmissionTask.B or line.given is None or line.given.contexts is None:
        return
    theirs = {passage.passage_id for passage in line.given.contexts}
    ours = {document_id for _, document_id in line.document_ids}
    if ours - theirs or (theirs - ours and len(ours) < MAX_CONTEXTS):
        found = [*sorted(ours - theirs), *(f"without {document_id}" for document_id in sorted(theirs - ours))]
        yield "other_contexts", f"the {len(theirs)} contexts of the input file", found


def given_texts(line: Line) -> Iterator[Problem]:
    """Yield texts of contexts in task B that differ from the input."""
    given = line.given.contexts if line.task is SubmissionTask.B and line.given else None
    theirs = {passage.passage_id: passage.text for passage in given or ()}
    for index, item in line.objects:
        document_id, text = item.get("document_id"), item.get("text")
        known = theirs.get(document_id) if isinstance(document_id, str) else None
        if known is not None and isinstance(text, str) and text.strip() and _words(text) != _words(known):
            same = sum(1 for _ in itertools.takewhile(bool, map(str.__eq__, text, known)))
            expected = f"contexts[{index}].text as in the input file, from character {same + 1} on too"
            yield "other_context_text", expected, text[same:]


def _words(text: str) -> list[str]:
    """Return the words of a text without case, which IBM's sample and its input file write differently."""
    return text.casefold().split()


LINE_RULES: tuple[Callable[[Line], Iterator[Problem]], ...] = (
    fields,
    identity,
    collection,
    conversation,
    number_of_contexts,
    shape_of_contexts,
    values_of_scores,
    order_of_scores,
    documents,
    given_contexts,
    given_texts,
    predictions,
)
"""Every check of a line."""

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
    """Return scores that keep the order of a list in the official evaluation.

    These are the given scores if they decrease strictly as 32-bit floats, otherwise `rank_scores`.
    """
    return tuple(map(float, scores)) if falls_strictly(scores) else rank_scores(len(scores))


MAX_CONTEXTS = 10
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
    input_task: InputTask | None
    """The task as participants receive it; None if it is unknown."""
    documents: Documents | None
    """Existing documents; None if they are unknown."""

    @property
    def objects(self) -> list[tuple[int, dict[str, Any]]]:
        """(index, content) of the contexts that are objects."""
        contexts = self.row.get("contexts")
        rows = enumerate(contexts if isinstance(contexts, list) else [])
        return [(index, context) for index, context in rows if isinstance(context, dict)]

    @property
    def scores(self) -> list[tuple[int, float]]:
        """(index, value) of the scores that are numbers."""
        pairs = [(index, context.get("score")) for index, context in self.objects]
        return [(i, value) for i, value in pairs if isinstance(value, (int, float)) and not isinstance(value, bool)]

    @property
    def document_ids(self) -> list[tuple[int, str]]:
        """(index, value) of the document ids that are strings."""
        pairs = [(index, context.get("document_id")) for index, context in self.objects]
        return [(index, value) for index, value in pairs if isinstance(value, str)]

    @property
    def answers(self) -> bool:
        """Whether the task requires answers."""
        return self.task is not SubmissionTask.A


def fields(line: Line) -> Iterator[Problem]:
    """Yield required fields that are missing or of the wrong type."""
    for name, tasks, field_type, description in _FIELDS:
        if line.task.value not in tasks:
            continue
        if name not in line.row:
            similar = [key for key in line.row if key.lower() == name.lower()]
            problem = Words(f"no such field, but {similar[0]!r}") if similar else _ABSENT
            yield "required_field", f"the field {name!r}", problem
        elif not isinstance(line.row[name], field_type):
            yield "field_type", f"{name!r} to be {description}", line.row[name]


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
    """Yield contexts that are not objects, or that have no document id, score or (tasks B and C) text."""
    contexts = line.row.get("contexts")
    for index, context in enumerate(contexts if isinstance(contexts, list) else []):
        if not isinstance(context, dict):
            yield "context_object", f"contexts[{index}] to be an object", context
            continue
        if not isinstance(context.get("document_id"), str):
            yield "document_id", f"a text as contexts[{index}].document_id", context.get("document_id", _ABSENT)
        if not isinstance(context.get("score"), (int, float)):
            yield "score", f"a number as contexts[{index}].score", context.get("score", _ABSENT)
        text = context.get("text", _ABSENT)
        if line.answers and (text is _ABSENT or not isinstance(text, str) or not text.strip()):
            yield "context_text", f"a text that is not blank as contexts[{index}].text", text


def values_of_scores(line: Line) -> Iterator[Problem]:
    """Yield scores that are booleans, or not finite as 32-bit floats."""
    for index, context in line.objects:
        if isinstance(context.get("score"), bool):
            yield "score_boolean", f"a number as contexts[{index}].score", context["score"]
    for index, score in line.scores:
        if not math.isfinite(single(score)):
            yield "score_not_finite", f"a finite 32-bit number as contexts[{index}].score", score


def order_of_scores(line: Line) -> Iterator[Problem]:
    """Yield scores that do not decrease as 32-bit floats: the first tie and the first increase."""
    problem_of: dict[str, Problem] = {}
    for (_, before), (index, score) in itertools.pairwise(line.scores):
        if single(score) >= single(before):
            rule = "scores_unordered" if single(score) > single(before) else "scores_tied"
            expected = f"contexts[{index}].score below the previous score"
            problem_of.setdefault(rule, (rule, expected, f"{score!r} after {before!r}"))
    yield from problem_of.values()


def documents(line: Line) -> Iterator[Problem]:
    """Yield documents that are repeated, have a blank id, or do not exist."""
    first: dict[str, int] = {}
    domain = line.input_task.domain if line.input_task else domain_of(line.row.get("Collection"))
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
    predictions_list = line.row.get("predictions")
    if not line.answers or not isinstance(predictions_list, list):
        return
    if len(predictions_list) != 1:
        yield "n_predictions", "one prediction", f"{len(predictions_list)} predictions"
    for index, prediction in enumerate(predictions_list):
        text = prediction.get("text", _ABSENT) if isinstance(prediction, dict) else None
        if not isinstance(prediction, dict):
            yield "prediction_object", f"predictions[{index}] to be an object", prediction
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
    row_turn = line.row.get("turn", turn)
    if not isinstance(row_turn, (str, int)) or str(row_turn) != str(turn):
        yield "turn", f"'turn' {turn}", row_turn


def collection(line: Line) -> Iterator[Problem]:
    """Yield a collection that differs from the task's or, if that is unknown, is not a collection of MTRAG."""
    name = line.row.get("Collection")
    if not isinstance(name, str):
        return
    if line.input_task and line.input_task.collection:
        if name != line.input_task.collection:
            yield "collection", f"the task's own collection {line.input_task.collection!r}", name
    elif domain_of(name) is None:
        yield "collection", "a collection of MTRAG", name


def conversation(line: Line) -> Iterator[Problem]:
    """Yield a conversation that has invalid messages or differs from the input."""
    raw = line.row.get("input")
    if not isinstance(raw, list):
        return
    messages = messages_of(raw)
    if not messages or any(speaker not in _SPEAKERS for speaker, _ in messages):
        invalid: object = Words("no messages")
        with suppress(StopIteration):
            invalid = next(
                message for message in raw if not messages_of([message]) or message["speaker"] not in _SPEAKERS
            )
        yield "message", "messages with a speaker, user or agent, and a text", invalid
    elif line.input_task and messages != line.input_task.messages:
        yield "other_input", "the conversation of the input file", messages[-1][1]


def changed_contexts(line: Line) -> Iterator[Problem]:
    """Yield contexts of task B that differ from the input. A subset is accepted if it has `MAX_CONTEXTS` contexts."""
    if line.task is not SubmissionTask.B or line.input_task is None or line.input_task.contexts is None:
        return
    expected_ids = {passage.passage_id for passage in line.input_task.contexts}
    document_ids = {document_id for _, document_id in line.document_ids}
    if document_ids - expected_ids or (expected_ids - document_ids and len(document_ids) < MAX_CONTEXTS):
        differences = [
            *sorted(document_ids - expected_ids),
            *(f"without {document_id}" for document_id in sorted(expected_ids - document_ids)),
        ]
        yield "other_contexts", f"the {len(expected_ids)} contexts of the input file", differences


def changed_texts(line: Line) -> Iterator[Problem]:
    """Yield texts of contexts in task B that differ from the input."""
    input_contexts = line.input_task.contexts if line.task is SubmissionTask.B and line.input_task else None
    text_of = {passage.passage_id: passage.text for passage in input_contexts or ()}
    for index, context in line.objects:
        document_id, text = context.get("document_id"), context.get("text")
        expected_text = text_of.get(document_id) if isinstance(document_id, str) else None
        if (
            expected_text is not None
            and isinstance(text, str)
            and text.strip()
            and _words(text) != _words(expected_text)
        ):
            n_equal = sum(1 for _ in itertools.takewhile(bool, map(str.__eq__, text, expected_text)))
            expected = f"contexts[{index}].text as in the input file, from character {n_equal + 1} on too"
            yield "other_context_text", expected, text[n_equal:]


def _words(text: str) -> list[str]:
    """Return the words of a text in lower case. IBM's sample and its input file differ in case."""
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
    changed_contexts,
    changed_texts,
    predictions,
)

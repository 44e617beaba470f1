"""From dialogues to tasks: every user turn that an agent answers is one, as in the official preparation.

Two differences, both stated. The official task leaves out answers that say there is no solution; here they are
`UNANSWERABLE` tasks, so that a refusal can be right, and the metrics that compare texts leave them out. And utterances
that one speaker makes in a row are one message, since chat models want speakers in turn; the task is then asked after
the last of them.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

from ragtasks.benchmarks.doc2dial._dialogues import Dialogue, Turn
from ragtasks.benchmarks.doc2dial._documents import Document
from ragtasks.benchmarks.doc2dial._passages import gold_passages
from ragtasks.ids import task_id
from ragtasks.records import Answerability, Message, Passage, Role, Task

NO_SOLUTION = "respond_no_solution"
"""The act of an agent who says that the documents hold no answer."""

_ROLES = {"user": Role.USER, "agent": Role.ASSISTANT}


def tasks_of(
    dialogues: Sequence[Dialogue],
    documents: Mapping[str, Document],
    passages: Mapping[str, tuple[Passage, ...]] | None,
) -> tuple[Task, ...]:
    """Return the tasks of all dialogues, in the order of the file.

    Their `extra` holds `official_id` (`<dialogue>_<turn>`), `document_id`, `grounding`, `user_act` and `agent_act`.

    Args:
        dialogues: what to cut.
        documents: document id -> document.
        passages: document id -> passages, of which those with the grounding become the references; None for units
            without known gold.
    """
    return tuple(_task(moment, documents, passages) for dialogue in dialogues for moment in _moments(dialogue))


@dataclass(frozen=True, slots=True)
class _Moment:
    """A dialogue up to a user turn, and the reply."""

    dialogue: Dialogue
    messages: tuple[Message, ...]
    turn: Turn
    reply: Turn


def _moments(dialogue: Dialogue) -> Iterator[_Moment]:
    messages: list[Message] = []
    for turn, reply in pairwise(dialogue.turns):
        _say(messages, turn)
        if turn.role == "user" and reply.role == "agent":
            yield _Moment(dialogue, tuple(messages), turn, reply)


def _say(messages: list[Message], turn: Turn) -> None:
    """Add an utterance, to the last message where the same speaker goes on."""
    role = _ROLES[turn.role]
    if messages and messages[-1].role is role:
        messages[-1] = Message(role, f"{messages[-1].text}\n{turn.text}")
    else:
        messages.append(Message(role, turn.text))


def _task(
    moment: _Moment, documents: Mapping[str, Document], passages: Mapping[str, tuple[Passage, ...]] | None
) -> Task:
    dialogue, turn, reply = moment.dialogue, moment.turn, moment.reply
    number = sum(message.role is Role.USER for message in moment.messages)
    is_answered = reply.act != NO_SOLUTION
    document_id, grounding = _grounding(reply, documents) if is_answered else ("", "")
    candidates = passages[document_id] if passages is not None and grounding else ()
    return Task(
        task_id=task_id(dialogue.dialogue_id, number),
        conversation_id=dialogue.dialogue_id,
        turn=number,
        domain=dialogue.domain,
        messages=moment.messages,
        target=reply.text,
        answerability=Answerability.ANSWERABLE if is_answered else Answerability.UNANSWERABLE,
        question_types=(turn.act,),
        multi_turn="N/A",
        references=gold_passages(grounding, candidates),
        extra={
            "official_id": f"{dialogue.dialogue_id}_{turn.turn_id}",
            "document_id": document_id,
            "grounding": grounding,
            "user_act": turn.act,
            "agent_act": reply.act,
        },
    )


def _grounding(reply: Turn, documents: Mapping[str, Document]) -> tuple[str, str]:
    """Return (document id, text from the first referenced span's start to the last one's end); ("", "") for none.

    Where a reply refers to several documents, the first one's spans count: the official script, too, looks into one.
    """
    if not reply.references:
        return "", ""
    document_id = reply.references[0][0]
    document = documents[document_id]
    spans = [document.spans[span_id] for name, span_id in reply.references if name == document_id]
    return document_id, document.text[min(span.start for span in spans) : max(span.end for span in spans)]


__all__ = ["NO_SOLUTION", "tasks_of"]

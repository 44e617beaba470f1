"""Conversations that go on with a model's own answers."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from ragtasks.benchmarks import Doc
from ragtasks.records import Role

Turn = tuple[str, int]
"""(conversation id, user turn from 1)."""


class OwnHistories:
    """What a model answered so far in each conversation, and the docs that its next turns are made of.

    A turn that failed ends its conversation: there is no answer that later turns could follow, and the benchmark's or
    an empty one in its place would be one that the model did not give. An empty answer is an answer.
    """

    def __init__(self, docs: Iterable[Doc], scored: Iterable[Doc]) -> None:
        """Choose the turns to ask: those that are scored, and all turns before them.

        Args:
            docs: every turn of the benchmark's conversations that can be asked.
            scored: those that are scored.
        """
        self.scored = {doc["task_id"] for doc in scored}
        known = list(docs)
        last: dict[str, int] = {}
        for doc in known:
            if doc["task_id"] in self.scored:
                last[doc["conversation_id"]] = max(doc["turn"], last.get(doc["conversation_id"], 0))
        self.docs: dict[str, Doc] = {
            doc["task_id"]: doc for doc in known if doc["turn"] <= last.get(doc["conversation_id"], 0)
        }
        """Task id -> doc of each turn that is asked, with the benchmark's history."""
        self._answers: dict[Turn, str] = {}
        self._failed: dict[str, int] = {}

    def turns(self) -> list[int]:
        """Return the turns that are asked in any conversation, in order."""
        return sorted({doc["turn"] for doc in self.docs.values()})

    def at(self, turn: int) -> list[Doc]:
        """Return the docs of one turn, with the model's own answers in the history."""
        return [{**doc, "history": self._history(doc)} for doc in self.docs.values() if doc["turn"] == turn]

    def _history(self, doc: Doc) -> list[dict[str, str]]:
        """Return the conversation before a question; a turn that the benchmark has no task for keeps its reply."""
        messages, own = [], None
        turn = 0
        for message in doc["history"]:
            if message["role"] == Role.USER.value:
                turn += 1
                own = self._answers.get((doc["conversation_id"], turn))
                messages.append(dict(message))
                if own is not None:
                    messages.append({"role": Role.ASSISTANT.value, "content": own})
            elif own is None:
                messages.append(dict(message))
        return messages

    def take(self, doc: Doc, answer: str) -> None:
        """Keep the answer to a turn."""
        self._answers[doc["conversation_id"], doc["turn"]] = answer

    def fail(self, doc: Doc) -> None:
        """End a conversation: this turn of it got no answer."""
        self._failed.setdefault(doc["conversation_id"], doc["turn"])

    def failed_turn(self, doc: Doc) -> int | None:
        """Return the turn before a question at which its conversation ended, None where it goes on."""
        turn = self._failed.get(doc["conversation_id"])
        return turn if turn is not None and turn < doc["turn"] else None


def whole_conversations(conversations: Sequence[str], limit: int | None) -> int | None:
    """Return the smallest number of docs, not under a limit, that are whole conversations; None for no limit.

    Args:
        conversations: conversation id of each doc, in order.
        limit: docs wanted.
    """
    if not limit:
        return None
    last = {name: place + 1 for place, name in enumerate(conversations)}
    n, reach = 0, 0
    while n < min(max(limit, reach), len(conversations)):
        reach = max(reach, last[conversations[n]])
        n += 1
    return n


__all__ = ["OwnHistories", "whole_conversations"]

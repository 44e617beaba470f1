"""Requests that wait for earlier answers: the harness asks for one turn of all conversations at a time.

The harness puts the requests of all its tasks together by their type and calls a model's method of that name once a
type, in the order in which the types came up. So every turn is a type of its own, `generate_round_1` and so on, and
models are given a method for each: it makes the prompts of its turn out of the answers before, and hands them to
`generate_until`. Nothing of a model is replaced, so this works for every model of the harness, behind its cache and
behind our own keeping of answers.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from lm_eval.api.instance import Instance
from lm_eval.api.model import LM, CachingLM

from ragtasks.harness.answering import KeptAnswers

_TYPE = "generate_round_{number}"
_ASKED = (LM, CachingLM, KeptAnswers)
"""What the harness may call: a model, or what stands before one. Each keeps its own way of answering."""


class Conversations(Protocol):
    """The conversations of one harness task."""

    def turns_until(self, turn: int) -> Sequence[int]:
        """Return the turns up to this one that were not begun, in order."""

    def begin(self, turn: int) -> Sequence[WaitingRequest]:
        """Return the requests of a turn that can be asked, with their prompts."""

    def take(self, request: WaitingRequest, reply: str) -> None:
        """Keep what a request was answered."""

    def reply_to(self, request: WaitingRequest) -> str:
        """Return what a request was answered, or why it could not be asked."""


@dataclass(eq=False)
class WaitingRequest(Instance):
    """A request whose prompt is made when the turns before it are answered."""

    conversations: Conversations | None = field(default=None, repr=False)
    """Where it belongs."""

    @property
    def turn(self) -> int:
        """The user turn that it asks, from 1."""
        return int(self.doc["turn"])


def round_type(number: int) -> str:
    """Return the type of the requests of a round, counted from 1; every model has a method of that name then."""
    name = _TYPE.format(number=number)
    for kind in _ASKED:
        if not hasattr(kind, name):
            setattr(kind, name, _ask)
    return name


def _ask(model: Any, requests: Sequence[WaitingRequest]) -> list[str]:
    """Return the answers to the requests of a round; turns before them that nobody scores are asked on the way."""
    wanted = {request.conversations: request.turn for request in requests if request.conversations is not None}
    turns = {each: each.turns_until(turn) for each, turn in wanted.items()}
    for turn in sorted({turn for own in turns.values() for turn in own}):
        due = [request for each, own in turns.items() if turn in own for request in each.begin(turn)]
        replies = model.generate_until(due) if due else []
        for request, reply in zip(due, replies, strict=True):
            if request.conversations is not None:
                request.conversations.take(request, reply)
    return [request.conversations.reply_to(request) for request in requests if request.conversations is not None]


__all__ = ["WaitingRequest", "round_type"]

"""Votes and answers that tests make up."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from ragtasks.arena import Vote, VotedAnswer
from ragtasks.arena.battles import Answer
from ragtasks.records import Answerability, Message, Passage, Response, Role, Task

Tournament = tuple[list[tuple[str, str, float]], list[str]]


def side(system: str, n_words: int = 10, *, refuses: bool = False) -> VotedAnswer:
    return VotedAnswer(system=system, version="v", n_words=n_words, refuses=refuses)


def vote(first: str, second: str, preference: Any = "first", /, **changed: Any) -> Vote:
    """Return a vote of `ann` on a battle in conversation `c`."""
    defaults: dict[str, Any] = {
        "vote_id": f"{first} {second} {changed.get('battle_id', '')} {changed.get('rater', '')}",
        "battle_id": "b",
        "benchmark": "mtrag (sample)",
        "setting": "full_rag",
        "task_id": "c<::>1",
        "conversation_id": "c",
        "first": side(first),
        "second": side(second),
        "preference": preference,
        "rater": "ann",
        "kind": "human",
    }
    return Vote(**{**defaults, **changed})


def tournament(
    strengths: Sequence[float], *, nu: float, n_conversations: int, n_votes: int, spread: float = 0.0, seed: int = 0
) -> Tournament:
    """Return votes sampled from Davidson's model, with the conversation of each.

    Args:
        strengths: of the systems `s0`, `s1`, ...
        nu: propensity of ties.
        n_conversations: number of clusters.
        n_votes: votes per conversation.
        spread: standard deviation of the change in strengths per conversation.
        seed: seed of the random numbers.
    """
    chance = np.random.default_rng(seed)
    votes, conversations = [], []
    for conversation in range(n_conversations):
        own = np.asarray(strengths) + chance.normal(0, spread, len(strengths))
        for _ in range(n_votes):
            first, second = chance.choice(len(own), 2, replace=False)
            half = (own[first] - own[second]) / 2
            weights = np.array([np.exp(half), np.exp(-half), nu])
            share = (1.0, 0.0, 0.5)[chance.choice(3, p=weights / weights.sum())]
            votes.append((f"s{first}", f"s{second}", share))
            conversations.append(f"c{conversation:03}")
    return votes, conversations


def answer(system: str, text: str, *, conversation: str = "c", turn: int = 1, **changed: Any) -> Answer:
    """Return a system's answer to one turn of a conversation about a ferry."""
    task = Task(
        task_id=f"{conversation}<::>{turn}",
        conversation_id=conversation,
        turn=turn,
        domain="govt",
        messages=(
            Message(Role.USER, "Is there a ferry?"),
            Message(Role.ASSISTANT, "Yes."),
            Message(Role.USER, f"When does it run in part {turn}?"),
        ),
        target="From April.",
        answerability=Answerability.ANSWERABLE,
        question_types=("Factoid",),
        multi_turn="Follow-up",
        references=(),
    )
    passages = (Passage("p1", "The ferry runs from April.", "Ferry"), Passage("p2", "Tickets are cheap.", "Tickets"))
    made = Answer(system, "mtrag (sample)", "full_rag", Response(task, passages, text), False, {})
    return replace(made, **changed)

"""Battles and votes behind the pages and the API."""

from __future__ import annotations

import json
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from ragtasks.arena.battles import LIVE, Answer, AnswerPool, Battle, shuffled
from ragtasks.arena.store import LEASE_SECONDS, Assignment, Queue, VoteStore
from ragtasks.arena.votes import LONGEST_REASON, Preference, Vote
from ragtasks.benchmarks import passage_rows, response_of
from ragtasks.errors import ConfigurationError
from ragtasks.files import canonical_hash
from ragtasks.metrics import CitedSentence, parse_cited
from ragtasks.records import Message, Passage, Response
from ragtasks.submissions.trec_rag import answer_of
from ragtasks.tables import grouped


class Arena:
    """The battles and votes of a server. It may be used by several threads."""

    def __init__(
        self,
        store: VoteStore,
        pool: AnswerPool | None,
        raters_per_battle: int = 1,
        *,
        lease_seconds: float = LEASE_SECONDS,
    ) -> None:
        """Set up the queue with the votes in the database."""
        self.store, self.pool = store, pool
        self.raters_per_battle, self.lease_seconds = raters_per_battle, lease_seconds
        battles = pool.battles if pool else ()
        self._battles = {battle.battle_id: battle for battle in battles}
        self._of_item: dict[tuple[str, ...], list[Battle]] = grouped(battles, lambda battle: battle.first.item)
        open_questions = shuffled(battle_id for battle_id, battle in self._battles.items() if not battle.is_equal)
        self.queue = Queue(
            store, open_questions, raters_per_battle, lease_seconds=lease_seconds, related=self._related_battles
        )

    def _related_battles(self, battle_id: str) -> tuple[str, ...]:
        """Return the other battles that contain one of the answers of a battle."""
        battle = self._battles.get(battle_id)
        if battle is None:
            return ()
        others = [other for other in self.battles_of(battle.first.item) if other.battle_id != battle_id]
        return tuple(other.battle_id for other in others if _texts(battle) & _texts(other))

    @property
    def systems(self) -> tuple[str, ...]:
        """Systems with saved answers."""
        return self.pool.systems if self.pool else ()

    def battle(self, battle_id: str) -> Battle | None:
        """Return a battle of saved or live answers; None if it is unknown."""
        battle = self._battles.get(battle_id)
        if battle is None and (text := self.store.live(battle_id)) is not None:
            return battle_of(text)
        return battle

    def open_for(self, rater: str, assignment_id: str) -> tuple[Assignment, Battle] | None:
        """Return a rater's assignment with its battle; None if it does not exist."""
        assignment = self.queue.renew(assignment_id, rater)
        battle = self.battle(assignment.battle_id) if assignment else None
        return (assignment, battle) if assignment and battle else None

    def assign_chosen(self, rater: str, battle_id: str) -> Assignment | None:
        """Return the assignment of a battle that the rater chose with visible names; None if it is unknown."""
        return self.queue.assign(rater, battle_id, "side_by_side") if self.battle(battle_id) else None

    def save_live(self, battle: Battle, rater: str, view: str, *, is_turned: bool) -> Assignment:
        """Store a live battle, and return its assignment in the displayed order."""
        self.store.save_live(battle.battle_id, battle_text(battle))
        return self.queue.assign(rater, battle.battle_id, view, is_turned=is_turned)

    def vote(self, assignment: Assignment, battle: Battle, preference: Preference, reason: str) -> Vote:
        """Store a vote, and return it with the rater's knowledge of the names."""
        at = time.time()
        vote_id = canonical_hash([assignment.assignment_id, at])[:16]
        details = {"rater": assignment.rater, "kind": "human", "reason": reason.strip()[:LONGEST_REASON], "time": at}
        vote = battle.vote(vote_id, preference, is_turned=assignment.is_turned, **details)
        return self.queue.vote(assignment, vote)

    @staticmethod
    def names(assignment: Assignment, battle: Battle) -> tuple[str, str]:
        """Return the systems in display order, for pages that display names."""
        return (battle.systems[1], battle.systems[0]) if assignment.is_turned else battle.systems

    @staticmethod
    def displayed(assignment: Assignment, battle: Battle) -> DisplayedBattle:
        """Return a battle as displayed to raters, in the order of its assignment, without the systems' names."""
        answers = (battle.second, battle.first) if assignment.is_turned else (battle.first, battle.second)
        displayed = tuple(
            DisplayedAnswer(label, answer.response) for label, answer in zip(LABELS, answers, strict=False)
        )
        return DisplayedBattle(battle.first.response.task.messages, displayed)

    def battles_of(self, item: Sequence[str]) -> tuple[Battle, ...]:
        """Return the battles of saved answers to an item."""
        return tuple(self._of_item.get(tuple(item), ()))


def _texts(battle: Battle) -> set[str]:
    return {battle.first.response.text, battle.second.response.text}


# Display of a battle: two answers as sentences with citations, in random order, without names.

LABELS = "ABCDEFGHIJKLMNOPQRSTUVWXYZ"
"""Names of answers while their systems are hidden."""
_CACHE_SIZE = 1_000


@dataclass(frozen=True, slots=True)
class DisplayedAnswer:
    """A displayed answer."""

    label: str
    response: Response

    @property
    def lines(self) -> tuple[tuple[CitedSentence, ...], ...]:
        """Paragraphs of sentences with their citations."""
        return _lines(self.response.text, len(self.response.passages))

    @property
    def passages(self) -> tuple[Passage, ...]:
        """The passages in the system's prompt."""
        return self.response.passages

    @property
    def trec(self) -> str:
        """The answer as JSON in the format of TREC RAG, named by its letter, or an error message."""
        try:
            return json.dumps(answer_of(self.response, self.label).row(), indent=2, ensure_ascii=False)
        except ConfigurationError as error:
            return str(error)


@dataclass(frozen=True, slots=True)
class DisplayedBattle:
    """A conversation and answers to its last message."""

    conversation: tuple[Message, ...]
    """The last message is the question."""
    answers: tuple[DisplayedAnswer, ...]
    """In display order."""


@lru_cache(maxsize=_CACHE_SIZE)
def _lines(text: str, n_passages: int) -> tuple[tuple[CitedSentence, ...], ...]:
    """Return the paragraphs of an answer. A line with only citations belongs to the previous paragraph."""
    lines: list[tuple[CitedSentence, ...]] = []
    pending = ""
    for line in text.splitlines():
        if line.strip() and parse_cited(line, 0):
            lines.append(parse_cited(pending + line, n_passages))
            pending = ""
        elif line.strip() and lines:
            sentences = (
                sentence.text + "".join(f" [{number + 1}]" for number in sentence.citations) for sentence in lines[-1]
            )
            lines[-1] = parse_cited(" ".join([*sentences, line]), n_passages) or lines[-1]
        elif line.strip():
            pending = line
    return tuple(lines)


def battle_text(battle: Battle) -> str:
    """Return a live battle as JSON for the database."""
    return json.dumps({"first": _answer_fields(battle.first), "second": _answer_fields(battle.second)})


def battle_of(text: str) -> Battle:
    """Return the live battle in JSON from `battle_text`."""
    content = json.loads(text)
    return Battle(_answer(content["first"]), _answer(content["second"]))


def _answer_fields(answer: Answer) -> Mapping[str, Any]:
    task = answer.response.task
    return {
        "system": answer.system,
        "refuses": answer.refuses,
        "benchmark": answer.benchmark,
        "text": answer.response.text,
        "doc": {
            "task_id": task.task_id,
            "conversation_id": task.conversation_id,
            "turn": task.turn,
            "domain": task.domain,
            "history": [{"role": m.role.value, "content": m.text} for m in task.messages[:-1]],
            "question": task.question,
            "target": "",
            "answerability": task.answerability.value,
            "question_types": [],
            "multi_turn": task.multi_turn,
            "references": [],
            "passages": passage_rows(answer.response.passages),
        },
    }


def _answer(fields: Mapping[str, Any]) -> Answer:
    response = response_of(fields["doc"], fields["text"])
    return Answer(fields["system"], fields["benchmark"], LIVE, response, fields["refuses"], {})

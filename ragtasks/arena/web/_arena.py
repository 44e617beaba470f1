"""The arena behind pages and interface: who compares what, what a vote becomes, what is shown after it."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass

from ragtasks.arena._vote import LONGEST_REASON, Preference, Side, Vote
from ragtasks.arena.battles import AnswerPool, Battle, shuffled
from ragtasks.arena.votes import LEASE_SECONDS, Assignment, Queue, VoteStore
from ragtasks.arena.web._shown import ShownBattle, battle_of, battle_text, show
from ragtasks.files import canonical_hash


@dataclass(frozen=True, slots=True)
class Revealed:
    """What a rater learns after the vote."""

    systems: tuple[str, str]
    """In the order shown."""
    vote: Vote
    """The vote."""


class Arena:
    """One server's battles and votes; may be used by several threads."""

    def __init__(
        self,
        store: VoteStore,
        pool: AnswerPool | None,
        raters_per_battle: int = 1,
        *,
        lease_seconds: float = LEASE_SECONDS,
    ) -> None:
        """Take up where the database stands.

        Args:
            store: where votes are.
            pool: saved answers to compare; None where only pipelines are asked.
            raters_per_battle: how many raters each battle gets.
            lease_seconds: how long a pair that was opened waits for its vote.
        """
        self.store, self.pool = store, pool
        self.raters_per_battle, self.lease_seconds = raters_per_battle, lease_seconds
        battles = pool.battles if pool else ()
        self._battles = {battle.battle_id: battle for battle in battles}
        self._of_item: dict[tuple[str, ...], list[Battle]] = {}
        for battle in battles:
            self._of_item.setdefault(tuple(battle.first.item), []).append(battle)
        open_questions = shuffled(battle_id for battle_id, battle in self._battles.items() if not battle.is_equal)
        self.queue = Queue(
            store, open_questions, raters_per_battle, lease_seconds=lease_seconds, related=self._with_an_answer_of
        )

    def _with_an_answer_of(self, battle_id: str) -> tuple[str, ...]:
        """Return the other battles that show one of the answers of a battle."""
        named = self._battles.get(battle_id)
        texts = _texts(named) if named else set()
        others = self.battles_of(named.first.item) if named else ()
        return tuple(one.battle_id for one in others if one.battle_id != battle_id and texts & _texts(one))

    @property
    def systems(self) -> tuple[str, ...]:
        """Systems with saved answers."""
        return self.pool.systems if self.pool else ()

    def battle(self, battle_id: str) -> Battle | None:
        """Return a battle of saved answers, or one that was fought live; None for an unknown one."""
        found = self._battles.get(battle_id)
        if found is None and (text := self.store.live(battle_id)) is not None:
            return battle_of(text)
        return found

    def open_for(self, rater: str, assignment_id: str) -> tuple[Assignment, Battle] | None:
        """Return an assignment of this rater with its battle; None where there is no such one.

        Raises:
            VoteRefusedError: it was open for too long, and went to others.
        """
        assignment = self.queue.look(assignment_id, rater)
        battle = self.battle(assignment.battle_id) if assignment else None
        return (assignment, battle) if assignment and battle else None

    def chosen_by_hand(self, rater: str, battle_id: str) -> Assignment | None:
        """Return the assignment of a battle that the rater chose with the names in view; None for an unknown one.

        Raises:
            VoteRefusedError: the pair has all the raters that it gets.
        """
        return self.queue.assign(rater, battle_id, "side_by_side") if self.battle(battle_id) else None

    def keep_live(self, battle: Battle, rater: str, view: str, *, is_turned: bool) -> Assignment:
        """Keep a battle that pipelines fought, and return its assignment in the order that was shown."""
        self.store.keep_live(battle.battle_id, battle_text(battle))
        return self.queue.assign(rater, battle.battle_id, view, is_turned=is_turned)

    def vote(self, assignment: Assignment, battle: Battle, preference: Preference, reason: str) -> Revealed:
        """Keep a vote, and return the names.

        Raises:
            VoteRefusedError: the assignment is not open any more.
        """
        first, second = self._sides(assignment, battle)
        task = battle.first.response.task
        at = time.time()
        vote = Vote(
            vote_id=canonical_hash([assignment.assignment_id, at])[:16],
            battle_id=battle.battle_id,
            benchmark=battle.first.benchmark,
            setting=battle.first.setting,
            task_id=task.task_id,
            conversation_id=task.conversation_id,
            answerability="" if battle.first.setting == "live" else task.answerability.value,
            first=first,
            second=second,
            preference=preference,
            rater=assignment.rater,
            kind="human",
            reason=reason.strip()[:LONGEST_REASON],
            time=at,
        )
        return Revealed((first.system, second.system), self.queue.vote(assignment, vote))

    def revealed(self, assignment: Assignment, battle: Battle) -> Revealed | None:
        """Return the names of an assignment that has its vote; None for one that has none."""
        vote = self.queue.vote_of(assignment)
        first, second = self._sides(assignment, battle)
        return Revealed((first.system, second.system), vote) if vote else None

    @staticmethod
    def names(assignment: Assignment, battle: Battle) -> tuple[str, str]:
        """Return the systems in the order shown: for pages that show them before the vote."""
        return (battle.systems[1], battle.systems[0]) if assignment.is_turned else battle.systems

    @staticmethod
    def shown(assignment: Assignment, battle: Battle) -> ShownBattle:
        """Return a battle in the order of its assignment."""
        return show(battle, is_turned=assignment.is_turned)

    @staticmethod
    def _sides(assignment: Assignment, battle: Battle) -> tuple[Side, Side]:
        sides = battle.first.side, battle.second.side
        return (sides[1], sides[0]) if assignment.is_turned else sides

    def battles_of(self, item: Sequence[str]) -> tuple[Battle, ...]:
        """Return the battles of saved answers to one item."""
        return tuple(self._of_item.get(tuple(item), ()))


def _texts(battle: Battle) -> set[str]:
    return {battle.first.response.text, battle.second.response.text}


__all__ = ["Arena", "Revealed"]

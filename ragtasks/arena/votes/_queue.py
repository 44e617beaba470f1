"""Who votes on what next: raters work through battles so that each gets as many raters as wanted.

Battles that somebody voted on already come first: agreement needs the same battle by several raters. A rater with an
open assignment gets it again, in whichever tab.
"""

from __future__ import annotations

import threading
from collections.abc import Sequence
from dataclasses import dataclass

from ragtasks.arena.votes._database import Assignment, VoteStore

_BLINDED = "blinded"


@dataclass(frozen=True, slots=True)
class Standing:
    """How far a rater, and everybody, has come."""

    n_voted: int
    """Battles that this rater voted on."""
    n_skipped: int
    """Battles that this rater skipped."""
    n_left: int
    """Battles that this rater may still be given."""
    n_votes: int
    """Votes of all raters."""
    n_wanted: int
    """Votes that there will be when all is done."""


class BattleQueue:
    """Gives raters their next battle; one a server."""

    def __init__(self, store: VoteStore, battle_ids: Sequence[str], raters_per_battle: int) -> None:
        """Take up where the database stands.

        Args:
            store: where assignments are.
            battle_ids: in the order in which they are to be voted on.
            raters_per_battle: how many raters each battle gets.
        """
        self._store, self._ids, self._wanted = store, tuple(battle_ids), raters_per_battle
        self._lock = threading.Lock()
        self._counts = dict.fromkeys(self._ids, 0)
        self._of: dict[str, dict[str, str]] = {}
        self._n_votes = 0
        for assignment in store.assignments(_BLINDED):
            self._note(assignment.rater, assignment.battle_id, assignment.state)
        self._begun = {battle_id: None for battle_id in self._ids if 0 < self._counts[battle_id] < self._wanted}
        self._fresh = dict.fromkeys(battle_id for battle_id in self._ids if not self._counts[battle_id])

    def _note(self, rater: str, battle_id: str, state: str) -> None:
        """Count an assignment, whose state may have changed."""
        own = self._of.setdefault(rater, {})
        before = own.get(battle_id, "skipped")
        own[battle_id] = state
        if battle_id in self._counts:
            self._n_votes += (state == "voted") - (before == "voted")
            self._counts[battle_id] += (state != "skipped") - (before != "skipped")

    def next_for(self, rater: str) -> Assignment | None:
        """Return a rater's open assignment, or the next one; None where nothing is left for this rater."""
        with self._lock:
            own = self._of.setdefault(rater, {})
            battle_id = next((one for one, state in own.items() if state == "open" and one in self._counts), None)
            if battle_id is None:
                battle_id = next((one for one in self._begun if one not in own), None)
            if battle_id is None:
                battle_id = next((one for one in self._fresh if one not in own), None)
            if battle_id is None:
                return None
            assignment = self._store.assign(rater, battle_id, _BLINDED)
            self._note(rater, battle_id, assignment.state)
            self._place(battle_id)
            return assignment

    def changed(self, assignment: Assignment, state: str) -> None:
        """Note that an assignment was voted on, skipped, or opened again."""
        if assignment.view == _BLINDED:
            with self._lock:
                self._note(assignment.rater, assignment.battle_id, state)
                self._place(assignment.battle_id)

    def _place(self, battle_id: str) -> None:
        """Put a battle among those that are begun, or not, or done."""
        count = self._counts.get(battle_id)
        if count is None:
            return
        self._begun.pop(battle_id, None)
        self._fresh.pop(battle_id, None)
        if count == 0:
            self._fresh[battle_id] = None
        elif count < self._wanted:
            self._begun[battle_id] = None

    def standing(self, rater: str) -> Standing:
        """Return how far a rater has come."""
        with self._lock:
            own = {one: state for one, state in self._of.get(rater, {}).items() if one in self._counts}
            states = list(own.values())
            n_seen = sum(one in self._begun or one in self._fresh for one in own)
            return Standing(
                n_voted=states.count("voted"),
                n_skipped=states.count("skipped"),
                n_left=len(self._begun) + len(self._fresh) - n_seen + states.count("open"),
                n_votes=self._n_votes,
                n_wanted=len(self._ids) * self._wanted,
            )


__all__ = ["BattleQueue", "Standing"]

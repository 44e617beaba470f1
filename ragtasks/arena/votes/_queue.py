"""Who votes on what next: every pair goes to as many raters as wanted, for a limited time each.

An assignment is a lease: whoever votes or skips in time closes it, and after that the pair may go to somebody else. Who
comes late may still vote where nobody took the place. Whoever gets an item is counted in the database, in the
transaction that gives it, so that several servers share one queue. Pairs that somebody began come first: agreement
needs the same pair by several raters.

A rater votes on a pair once. Whether the names were shown before is noted for good, and a vote after that says so. A
name that is shown names the same answer in other pairs too: these are noted with it, and come last.
"""

from __future__ import annotations

import itertools
import secrets
import sqlite3
import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass

from ragtasks.arena._vote import Vote
from ragtasks.arena.votes._store import VoteStore
from ragtasks.arena.votes._takers import Takers
from ragtasks.errors import RagtasksError

LEASE_SECONDS = 30 * 60.0
"""How long a pair that was opened waits for its vote, unless said otherwise."""
_COLUMNS = "assignment_id, rater, battle_id, view, is_turned, state, until"
_TAKEN = "(state = 'voted' OR (state = 'open' AND until > ?))"


def _none(battle_id: str) -> Sequence[str]:
    """Return no pairs, whatever the pair."""
    return ()


class VoteRefusedError(RagtasksError):
    """A vote that cannot be taken: the pair has it already, was skipped, or went to others."""


@dataclass(frozen=True, slots=True)
class Assignment:
    """One pair, or form, for one rater."""

    assignment_id: str
    """Drawn by chance, so that it says nothing."""
    rater: str
    """Who votes."""
    battle_id: str
    """What about."""
    view: str
    """`blinded`, `side_by_side` or `form`."""
    is_turned: bool
    """Whether the second answer of the pair is shown first."""
    state: str
    """`open`, `voted` or `skipped`."""
    until: float
    """When it goes to others, if it is still open; seconds since 1970."""


@dataclass(frozen=True, slots=True)
class Standing:
    """How far a rater has come."""

    n_done: int
    """Items that this rater is done with."""
    n_left: int
    """Items that this rater may still be given."""
    n_skipped: int = 0
    """Items that this rater skipped."""


class Queue:
    """Hands out the pairs, or forms, of one server."""

    def __init__(
        self,
        store: VoteStore,
        items: Sequence[str],
        raters_per_item: int,
        *,
        lease_seconds: float = LEASE_SECONDS,
        view: str = "blinded",
        related: Callable[[str], Sequence[str]] = _none,
    ) -> None:
        """Take what there is to hand out.

        Args:
            store: where assignments are.
            items: numbers of the pairs, in the order in which they are to be voted on; others may be assigned, and
                those have no limit.
            raters_per_item: how many raters each of them gets.
            lease_seconds: how long each has for it.
            view: what raters see where nothing else is said.
            related: number of a pair -> other pairs with one of its answers, which its names give away.
        """
        self._database, self._view, self._related = store.database, view, related
        self._items = {item: place for place, item in enumerate(dict.fromkeys(items))}
        self._wanted, self._lease = raters_per_item, lease_seconds
        self._takers = Takers(self._items, raters_per_item)

    def next_for(self, rater: str) -> Assignment | None:
        """Return a rater's open assignment, or the next one; None where nothing is left for this rater."""
        with self._database.transaction(is_on_disk=False) as connection:
            now, own = time.time(), self._own(connection, rater)
            waiting = self._waiting(connection, own, now)
            in_turn = _in_turn(waiting, _named(connection, rater))
            for item in itertools.chain(self._begun(connection, rater, own, now), in_turn):
                if self._has_room(connection, rater, item, now):
                    return self._assign(connection, rater, item, self._view)
            return None

    def _begun(
        self, connection: sqlite3.Connection, rater: str, own: dict[str, set[tuple[str, str]]], now: float
    ) -> list[str]:
        """Return what a rater has open and may still vote on."""
        opened = [item for item, found in own.items() if found == {(self._view, "open")} and item in self._items]
        free = [item for item in opened if self._has_room(connection, rater, item, now)]
        return sorted(free, key=self._items.__getitem__)

    def _waiting(
        self, connection: sqlite3.Connection, own: dict[str, set[tuple[str, str]]], now: float
    ) -> dict[str, int]:
        """Return what else a rater may get, with the number of others that have it."""
        free = self._takers.free(connection, now)
        return {item: n for item, n in free.items() if item not in own}

    @staticmethod
    def _own(connection: sqlite3.Connection, rater: str) -> dict[str, set[tuple[str, str]]]:
        """Return (view, state) of a rater's assignments by item."""
        found: dict[str, set[tuple[str, str]]] = {}
        query = "SELECT battle_id, view, state FROM assignments WHERE rater = ?"
        for battle_id, view, state in connection.execute(query, (rater,)):
            found.setdefault(battle_id, set()).add((view, state))
        return found

    def standing(self, rater: str) -> Standing:
        """Return how far a rater has come."""
        with self._database.reading() as connection:
            now, own = time.time(), self._own(connection, rater)
            n_left = len(self._begun(connection, rater, own, now)) + len(self._waiting(connection, own, now))
        states = [{state for _, state in found} for one, found in own.items() if one in self._items]
        n_done = sum("voted" in found for found in states)
        return Standing(n_done, n_left, sum(found == {"skipped"} for found in states))

    def assign(self, rater: str, battle_id: str, view: str, *, is_turned: bool | None = None) -> Assignment:
        """Return a rater's assignment of a pair that was chosen or asked for; names are noted as shown side by side.

        Args:
            rater: who votes.
            battle_id: what about.
            view: what the rater sees; who has seen the names does not see the pair blinded again.
            is_turned: the order that was shown; None: it is drawn.

        Raises:
            VoteRefusedError: the pair has all the raters that it gets.
        """
        with self._database.transaction(is_on_disk=False) as connection:
            return self._assign(connection, rater, battle_id, view, is_turned=is_turned)

    def _assign(
        self,
        connection: sqlite3.Connection,
        rater: str,
        battle_id: str,
        view: str,
        *,
        is_turned: bool | None = None,
    ) -> Assignment:
        found = _first(connection, "rater = ? AND battle_id = ? ORDER BY state != 'voted', view DESC", rater, battle_id)
        if found and found.state == "voted":
            return found
        now = time.time()
        self._require_room(connection, rater, battle_id, now)
        if found is None:
            turned = secrets.randbelow(2) if is_turned is None else int(is_turned)
            made = (secrets.token_hex(12), rater, battle_id, view, turned, "open", now, 0.0)
            connection.execute("INSERT INTO assignments VALUES (?, ?, ?, ?, ?, ?, ?, ?)", made)
            found = Assignment(made[0], rater, battle_id, view, bool(turned), "open", 0.0)
        shown = "side_by_side" if "side_by_side" in {view, found.view} else view
        turned = found.is_turned if is_turned is None else is_turned
        query = "UPDATE assignments SET view = ?, is_turned = ? WHERE assignment_id = ?"
        connection.execute(query, (shown, int(turned), found.assignment_id))
        self._open(connection, found, now)
        if shown == "side_by_side":
            self._note_names(connection, found, now)
        return _assignment(connection, found.assignment_id)

    def _require_room(self, connection: sqlite3.Connection, rater: str, battle_id: str, now: float) -> None:
        """Check that fewer others than wanted have an item.

        Raises:
            VoteRefusedError: they have it.
        """
        if battle_id in self._items and not self._has_room(connection, rater, battle_id, now):
            raise VoteRefusedError("this pair went to as many other raters as it needs")

    def _has_room(self, connection: sqlite3.Connection, rater: str, battle_id: str, now: float) -> bool:
        query = f"SELECT count(DISTINCT rater) FROM assignments WHERE battle_id = ? AND rater != ? AND {_TAKEN}"
        return bool(connection.execute(query, (battle_id, rater, now)).fetchone()[0] < self._wanted)

    def _open(self, connection: sqlite3.Connection, assignment: Assignment, now: float) -> None:
        query = "UPDATE assignments SET state = 'open', until = ? WHERE assignment_id = ?"
        connection.execute(query, (now + self._lease, assignment.assignment_id))
        if assignment.until <= now:
            _note(connection, "given", assignment, now)

    def look(self, assignment_id: str, rater: str) -> Assignment | None:
        """Return a rater's assignment, with its time from now on where it is open; None where it is not this rater's.

        Raises:
            VoteRefusedError: its time is over, and the pair went to others.
        """
        with self._database.transaction(is_on_disk=False) as connection:
            found = _first(connection, "assignment_id = ? AND rater = ?", assignment_id, rater)
            if found and found.state == "open":
                self._require_time(connection, found)
                self._open(connection, found, time.time())
            return found

    def _require_time(self, connection: sqlite3.Connection, assignment: Assignment) -> None:
        now = time.time()
        if assignment.until <= now:
            self._require_room(connection, assignment.rater, assignment.battle_id, now)

    def vote(self, assignment: Assignment, vote: Vote) -> Vote:
        """Keep the vote of an assignment, and return it with what the rater knew; on disk when this returns.

        Raises:
            VoteRefusedError: the assignment is not open any more, or the pair went to others.
        """
        with self._database.transaction() as connection:
            found = self._close(connection, assignment, "voted")
            knew = "side_by_side" if found.view == "side_by_side" else "revealed" if _knows(connection, found) else None
            kept = vote.model_copy(update={"view": knew or "blinded"})
            row = (kept.vote_id, found.assignment_id, kept.rater, kept.model_dump_json())
            connection.execute("INSERT INTO votes (vote_id, assignment_id, rater, vote) VALUES (?, ?, ?, ?)", row)
            _note(connection, "voted", found, time.time(), kept.vote_id)
            self._note_names(connection, found, time.time())
        return kept

    def _note_names(self, connection: sqlite3.Connection, assignment: Assignment, now: float) -> None:
        """Note that a rater learnt the names of a pair, and with them those of its answers in other pairs."""
        _note(connection, "names_shown", assignment, now)
        named = _named(connection, assignment.rater)
        for battle_id in self._related(assignment.battle_id):
            if battle_id not in named:
                _note(connection, "names_shown", _assignment_on(connection, assignment.rater, battle_id), now)

    def skip(self, assignment: Assignment) -> None:
        """Close an assignment without a vote.

        Raises:
            VoteRefusedError: it is not open any more.
        """
        with self._database.transaction() as connection:
            _note(connection, "skipped", self._close(connection, assignment, "skipped"), time.time())

    def keep_form(self, rater: str, item: str, content: str) -> None:
        """Keep one rater's form on an item; a second one takes the place of the first. On disk when this returns.

        Raises:
            VoteRefusedError: the item went to others.
        """
        with self._database.transaction() as connection:
            found = self._assign(connection, rater, item, self._view)
            if found.state == "open":
                self._close(connection, found, "voted")
            now = time.time()
            connection.execute("INSERT OR REPLACE INTO forms VALUES (?, ?, ?, ?)", (rater, item, content, now))
            _note(connection, "voted", found, now)

    def _close(self, connection: sqlite3.Connection, assignment: Assignment, state: str) -> Assignment:
        """Close an assignment, and return it as it was."""
        found = _assignment(connection, assignment.assignment_id)
        if found.state != "open":
            raise VoteRefusedError("this pair has your vote already, or was skipped")
        if state == "voted":
            self._require_time(connection, found)
        connection.execute("UPDATE assignments SET state = ? WHERE assignment_id = ?", (state, found.assignment_id))
        return found

    def undo(self, rater: str) -> Assignment:
        """Undo a rater's last vote or skip, and return its assignment, open again.

        Raises:
            VoteRefusedError: there is none, or the pair that was skipped went to others.
        """
        with self._database.transaction() as connection:
            query = (
                "SELECT a.assignment_id, e.vote_id FROM events e JOIN assignments a USING (assignment_id) "
                "WHERE e.rater = ? AND a.rater = e.rater AND e.event = a.state AND a.view != 'form' "
                "ORDER BY e.place DESC LIMIT 1"
            )
            row = connection.execute(query, (rater,)).fetchone()
            if row is None:
                raise VoteRefusedError("there is no vote or skip of yours to undo")
            found, now = _assignment(connection, row[0]), time.time()
            if found.state == "skipped":
                self._require_room(connection, rater, found.battle_id, now)
            undone = "UPDATE votes SET undone = ? WHERE assignment_id = ? AND rater = ? AND undone IS NULL"
            connection.execute(undone, (now, found.assignment_id, rater))
            _note(connection, "undone", found, now, row[1])
            self._open(connection, found, now)
            return _assignment(connection, found.assignment_id)

    def note_names(self, rater: str, battle_ids: Sequence[str]) -> None:
        """Note that a rater learnt the names of pairs in another way than by voting on them."""
        with self._database.transaction() as connection:
            for battle_id in battle_ids:
                _note(connection, "names_shown", _assignment_on(connection, rater, battle_id), time.time())

    def knows_names(self, assignment: Assignment) -> bool:
        """Return whether a rater was shown the names of a pair before."""
        with self._database.reading() as connection:
            return _knows(connection, assignment)

    def vote_of(self, assignment: Assignment) -> Vote | None:
        """Return the vote that counts for an assignment; None without one."""
        query = "SELECT vote FROM votes WHERE assignment_id = ? AND undone IS NULL"
        rows = self._database.parsed(query, lambda row: Vote.model_validate_json(str(row[0])), assignment.assignment_id)
        return rows[0] if rows else None


def _in_turn(waiting: Mapping[str, int], named: Collection[str]) -> Iterator[str]:
    """Yield items, begun by others before fresh ones, and last those that the rater knows the names of."""
    for is_named, is_fresh in itertools.product((False, True), (False, True)):
        for item, n in waiting.items():
            if (n == 0) is is_fresh and (item in named) is is_named:
                yield item


def _first(connection: sqlite3.Connection, condition: str, *values: object) -> Assignment | None:
    row = connection.execute(f"SELECT {_COLUMNS} FROM assignments WHERE {condition} LIMIT 1", values).fetchone()
    if row is None:
        return None
    assignment_id, rater, battle_id, view, is_turned, state, until = row
    return Assignment(assignment_id, rater, battle_id, view, bool(is_turned), state, until)


def _assignment(connection: sqlite3.Connection, assignment_id: str) -> Assignment:
    found = _first(connection, "assignment_id = ?", assignment_id)
    assert found
    return found


def _assignment_on(connection: sqlite3.Connection, rater: str, battle_id: str) -> Assignment:
    """Return a rater's assignment of a pair, or one without a number where the rater was not given the pair."""
    unasked = Assignment("", rater, battle_id, view="", is_turned=False, state="", until=0)
    return _first(connection, "rater = ? AND battle_id = ?", rater, battle_id) or unasked


def _note(
    connection: sqlite3.Connection, event: str, assignment: Assignment, at: float, vote_id: str | None = None
) -> None:
    query = "INSERT INTO events (time, event, assignment_id, rater, battle_id, vote_id) VALUES (?, ?, ?, ?, ?, ?)"
    connection.execute(query, (at, event, assignment.assignment_id, assignment.rater, assignment.battle_id, vote_id))


def _knows(connection: sqlite3.Connection, assignment: Assignment) -> bool:
    query = "SELECT 1 FROM events WHERE rater = ? AND battle_id = ? AND event = 'names_shown' LIMIT 1"
    return connection.execute(query, (assignment.rater, assignment.battle_id)).fetchone() is not None


def _named(connection: sqlite3.Connection, rater: str) -> set[str]:
    """Return the pairs whose names a rater was shown."""
    query = "SELECT DISTINCT battle_id FROM events WHERE rater = ? AND event = 'names_shown'"
    return {battle_id for (battle_id,) in connection.execute(query, (rater,))}

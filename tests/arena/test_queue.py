"""The queue of raters and its records: counts, leases, known names, undo, two servers."""

from __future__ import annotations

import itertools
import random
import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from ragtasks.arena import Vote
from ragtasks.arena import store as _queue
from ragtasks.arena.store import Assignment, Queue, VoteRefusedError, VoteStore
from tests.arena._made import vote

IDS = ("one", "two", "three")
numbers = itertools.count()


class Clock:
    """A clock that tests set."""

    def __init__(self) -> None:
        self.now = 1000.0

    def time(self) -> float:
        return self.now


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    made = Clock()
    monkeypatch.setattr(_queue, "time", made)
    return made


@pytest.fixture
def store(tmp_path: Path) -> Iterator[VoteStore]:
    made = VoteStore(tmp_path / "arena.sqlite")
    yield made
    made.close()


def given(queue: Queue, rater: str) -> Assignment:
    assignment = queue.next_for(rater)
    assert assignment
    return assignment


def voted(queue: Queue, assignment: Assignment, preference: Any = "first") -> Vote:
    fields = {"rater": assignment.rater, "battle_id": assignment.battle_id, "vote_id": f"v{next(numbers)}"}
    return queue.vote(assignment, vote("x", "y", preference, **fields))


def test_a_vote_after_the_names_were_displayed_is_marked_revealed(store: VoteStore) -> None:
    queue = Queue(store, IDS, 1)
    first = given(queue, "ann")
    assert voted(queue, first).view == "blinded"
    again = queue.undo("ann")
    assert again.assignment_id == first.assignment_id
    assert queue.knows_names(again)
    assert voted(queue, again, "second").view == "revealed"
    assert [vote.view for vote in store.votes()] == ["revealed"]
    assert voted(queue, given(queue, "ann")).view == "blinded", "other pairs are as blinded as before"


def test_displayed_names_count_for_other_pairs_with_the_same_answers_which_come_last(store: VoteStore) -> None:
    """Three systems answered one task, and two systems another."""
    related = {"ab": ("ac", "bc"), "ac": ("ab", "bc"), "bc": ("ab", "ac")}
    queue = Queue(store, ("ab", "ac", "bc", "other"), 2, related=lambda battle_id: related.get(battle_id, ()))
    assert voted(queue, given(queue, "ann")).view == "blinded"
    last = [given(queue, "ann")]
    assert last[0].battle_id == "other", "nothing of it is known"
    assert voted(queue, last[0]).view == "blinded"
    for battle_id in ("ac", "bc"):
        last.append(given(queue, "ann"))
        assert last[-1].battle_id == battle_id
        assert queue.knows_names(last[-1])
        assert voted(queue, last[-1]).view == "revealed"
    assert [vote.view for vote in store.votes()] == ["blinded", "blinded", "revealed", "revealed"]
    assert voted(queue, given(queue, "bob")).view == "blinded", "another rater knows nothing"


def test_names_side_by_side_count_for_an_open_pair(store: VoteStore) -> None:
    queue = Queue(store, ("ab", "ac"), 1, related=lambda battle_id: {"ab": ("ac",), "ac": ("ab",)}[battle_id])
    opened = given(queue, "ann")
    assert opened.battle_id == "ab"
    queue.assign("ann", "ac", "side_by_side")
    assert voted(queue, opened).view == "revealed"


def test_a_long_running_queue_agrees_with_the_database(tmp_path: Path, clock: Clock) -> None:
    """Two servers and a newly started server agree after every step."""
    stores = [VoteStore(tmp_path / "arena.sqlite") for _ in range(2)]
    chance, ids = random.Random(3), [f"pair {n}" for n in range(12)]
    queues = [Queue(store, ids, 2, lease_seconds=60) for store in stores]
    raters = ("ann", "bob", "cem", "dan")
    for _ in range(300):
        queue, rater = chance.choice(queues), chance.choice(raters)
        step = chance.choice(("vote", "vote", "skip", "leave", "look", "undo", "choose", "wait"))
        clock.now += chance.choice((0, 1, 40)) if step == "wait" else 0
        with suppress(VoteRefusedError):
            if step == "undo":
                queue.undo(rater)
            elif step == "choose":
                queue.assign(rater, chance.choice(ids), "side_by_side")
            elif step != "wait" and (assignment := queue.next_for(rater)):
                if step == "vote":
                    voted(queue, assignment)
                elif step == "skip":
                    queue.skip(assignment)
                elif step == "look":
                    queue.renew(assignment.assignment_id, rater)
        fresh = Queue(stores[0], ids, 2, lease_seconds=60)
        for each_rater in raters:
            assert [running.progress_of(each_rater) for running in queues] == [fresh.progress_of(each_rater)] * 2
    raters_of = Counter(vote.battle_id for vote in stores[0].votes())
    assert max(raters_of.values()) == 2
    for store in stores:
        store.close()


def test_the_database_decides_the_view_of_a_vote(store: VoteStore) -> None:
    queue = Queue(store, IDS, 1)
    claimed = vote("x", "y", view="revealed")
    assert queue.vote(given(queue, "ann"), claimed).view == "blinded"


def test_a_skip_reveals_nothing_and_can_be_undone(store: VoteStore) -> None:
    queue = Queue(store, IDS, 1)
    voted(queue, given(queue, "ann"))
    skipped = given(queue, "ann")
    queue.skip(skipped)
    assert queue.progress_of("ann").n_skipped == 1
    assert given(queue, "ann").battle_id != skipped.battle_id
    back = queue.undo("ann")
    assert (back.assignment_id, back.state) == (skipped.assignment_id, "open"), "the last thing, not the last vote"
    assert not queue.knows_names(back)
    assert voted(queue, back).view == "blinded"


def test_a_pair_opened_side_by_side_is_never_offered_blinded(store: VoteStore) -> None:
    queue = Queue(store, ("one",), 2)
    chosen = queue.assign("ann", "one", "side_by_side")
    assert queue.next_for("ann") is None, "seen, though there is no vote yet"
    assert voted(queue, chosen).view == "side_by_side"
    assert queue.next_for("ann") is None
    assert queue.assign("ann", "one", "blinded").state == "voted", "one vote a rater and pair"


def test_opening_a_blinded_pair_side_by_side_unblinds_it(store: VoteStore) -> None:
    queue = Queue(store, ("one",), 1)
    blinded = given(queue, "ann")
    assert queue.assign("ann", "one", "side_by_side").assignment_id == blinded.assignment_id
    assert voted(queue, blinded).view == "side_by_side", "the tab that was opened before knows it too"


def test_side_by_side_votes_count_for_the_number_of_raters(store: VoteStore) -> None:
    queue = Queue(store, ("one",), 1)
    voted(queue, queue.assign("ann", "one", "side_by_side"))
    with pytest.raises(VoteRefusedError, match="enough other raters"):
        queue.assign("bob", "one", "side_by_side")
    assert queue.next_for("bob") is None
    assert queue.assign("bob", "asked live", "side_by_side").state == "open", "no pair of the queue: no limit"


def test_started_pairs_come_before_new_pairs(store: VoteStore) -> None:
    queue = Queue(store, IDS, 2)
    voted(queue, given(queue, "ann"))
    queue.skip(given(queue, "ann"))
    voted(queue, given(queue, "ann"))
    assert given(queue, "bob").battle_id == "one"
    assert given(queue, "cem").battle_id == "three", "one has two raters now; three was begun, two is fresh"
    assert given(queue, "dan").battle_id == "two"


def test_an_abandoned_pair_goes_to_other_raters_after_its_lease(store: VoteStore, clock: Clock) -> None:
    queue = Queue(store, IDS, 1, lease_seconds=60)
    left = [given(queue, name) for name in ("ann", "bob", "cem")]
    assert {assignment.battle_id for assignment in left} == set(IDS)
    assert queue.next_for("dan") is None
    assert queue.progress_of("dan").n_left == 0
    clock.now += 61
    assert queue.progress_of("dan").n_left == 3
    taken = given(queue, "dan")
    late = next(assignment for assignment in left if assignment.battle_id == taken.battle_id)
    for late_step in (lambda: voted(queue, late), lambda: queue.renew(late.assignment_id, late.rater)):
        with pytest.raises(VoteRefusedError, match="enough other raters"):
            late_step()
    assert voted(queue, taken).rater == "dan"
    assert [vote.rater for vote in store.votes()] == ["dan"]


def test_a_late_vote_counts_if_the_pair_still_needs_a_rater(store: VoteStore, clock: Clock) -> None:
    queue = Queue(store, ("one",), 1, lease_seconds=60)
    left = given(queue, "ann")
    clock.now += 61
    assert given(queue, "ann").assignment_id == left.assignment_id, "the same pair in the same order"
    clock.now += 61
    assert voted(queue, left).view == "blinded"


def test_viewing_a_page_renews_its_lease(store: VoteStore, clock: Clock) -> None:
    queue = Queue(store, ("one",), 1, lease_seconds=60)
    left = given(queue, "ann")
    clock.now += 50
    assert queue.renew(left.assignment_id, "ann")
    clock.now += 50
    assert queue.next_for("bob") is None
    assert queue.renew(left.assignment_id, "bob") is None, "an assignment is its rater's"


def test_a_skip_cannot_be_undone_if_the_pair_has_enough_raters(store: VoteStore) -> None:
    queue = Queue(store, ("one",), 1)
    queue.skip(given(queue, "ann"))
    voted(queue, given(queue, "bob"))
    with pytest.raises(VoteRefusedError, match="enough other raters"):
        queue.undo("ann")
    assert [vote.rater for vote in store.votes()] == ["bob"]


def test_undo_only_affects_the_rater_s_own_vote(store: VoteStore) -> None:
    queue = Queue(store, IDS, 2)
    for name in ("ann", "bob", "ann"):
        voted(queue, given(queue, name))
    assert queue.undo("bob").rater == "bob"
    assert [vote.rater for vote in store.votes()] == ["ann", "ann"]
    for name in ("bob", "nobody"):
        with pytest.raises(VoteRefusedError, match="no vote or skip to undo"):
            queue.undo(name)
    assert queue.undo("ann").battle_id == "two"
    assert [vote.battle_id for vote in store.votes()] == ["one"]


def test_all_events_can_be_read(store: VoteStore, clock: Clock) -> None:
    queue = Queue(store, IDS, 1)
    first = given(queue, "ann")
    voted(queue, first)
    clock.now += 1
    voted(queue, queue.undo("ann"), "tie")
    queue.skip(given(queue, "ann"))
    queue.note_names("ann", ["three"])
    identified = {"time", "event", "rater", "battle_id", "assignment_id", "view", "vote_id"}
    assert all(identified <= event.keys() <= identified | {"preference", "reason"} for event in store.events())
    events = [(event["event"], event["battle_id"], event.get("preference"), event["view"]) for event in store.events()]
    assert events == [
        ("given", "one", None, "blinded"),
        ("voted", "one", "first", "blinded"),
        ("names_shown", "one", None, "blinded"),
        ("undone", "one", None, "blinded"),
        ("voted", "one", "tie", "revealed"),
        ("names_shown", "one", None, "blinded"),
        ("given", "two", None, "blinded"),
        ("skipped", "two", None, "blinded"),
        ("names_shown", "three", None, None),
    ]
    assert voted(queue, given(queue, "ann")).view == "revealed", "the names came another way"


def test_forms_are_leases_too(store: VoteStore, clock: Clock) -> None:
    queue = Queue(store, ("item",), 1, lease_seconds=60, view="form")
    assert given(queue, "ann").battle_id == "item"
    assert queue.next_for("bob") is None
    clock.now += 61
    assert given(queue, "bob").battle_id == "item"
    with pytest.raises(VoteRefusedError, match="enough other raters"):
        queue.save_form("ann", "item", "{}")
    queue.save_form("bob", "item", "{}")
    queue.save_form("bob", "item", '{"again": 1}')
    assert [row[:3] for row in store.forms()] == [("bob", "item", '{"again": 1}')]
    assert queue.progress_of("bob").n_done == 1
    assert [event["rater"] for event in store.events() if event["event"] == "voted"] == ["bob", "bob"]


def test_two_servers_on_one_file_give_each_pair_to_one_rater(tmp_path: Path) -> None:
    ids = [f"battle {number}" for number in range(60)]
    stores = [VoteStore(tmp_path / "arena.sqlite") for _ in range(2)]

    def work(store: VoteStore, rater: str) -> None:
        queue = Queue(store, ids, 1)
        while (assignment := queue.next_for(rater)) is not None:
            voted(queue, assignment)

    raters = [threading.Thread(target=work, args=(stores[n % 2], f"rater {n}")) for n in range(4)]
    for rater in raters:
        rater.start()
    for rater in raters:
        rater.join(60)
    counts = Counter(vote.battle_id for vote in stores[0].votes())
    assert counts == Counter(ids), "one vote each, none left out"
    for store in stores:
        store.close()


def test_an_invitation_admits_one_rater_until_the_next_invitation(store: VoteStore) -> None:
    rater, token = store.invite("  Ann\n Lee ")
    assert rater == "Ann Lee"
    assert store.invited(token) == "Ann Lee"
    assert [store.invited(wrong_token) for wrong_token in ("", token[:-1], token.lower() + "x")] == [None, None, None]
    _, newer = store.invite("Ann Lee")
    assert store.invited(token) is None
    assert store.invited(newer) == "Ann Lee"
    assert token.encode() not in store.path.read_bytes()

"""The file of votes: on disk before anything is acknowledged, older versions, the secret, copies to read."""

from __future__ import annotations

import os
import random
import sqlite3
import threading
from contextlib import closing, suppress
from pathlib import Path

import pytest

from ragtasks.arena.store import Queue, VoteStore
from ragtasks.arena.votes import write_events, write_votes
from ragtasks.errors import CacheError
from tests.arena._made import vote

FIRST_VERSION = """
PRAGMA application_id = 0x41524E41;
PRAGMA journal_mode = WAL;
CREATE TABLE secret (value TEXT NOT NULL);
CREATE TABLE assignments (
    assignment_id TEXT PRIMARY KEY, rater TEXT NOT NULL, battle_id TEXT NOT NULL, view TEXT NOT NULL,
    is_turned INTEGER NOT NULL, state TEXT NOT NULL, time REAL NOT NULL, UNIQUE (rater, battle_id, view)
);
CREATE TABLE votes (
    place INTEGER PRIMARY KEY, vote_id TEXT NOT NULL UNIQUE, assignment_id TEXT, rater TEXT NOT NULL,
    vote TEXT NOT NULL, undone REAL
);
CREATE UNIQUE INDEX one_vote ON votes (assignment_id) WHERE undone IS NULL;
CREATE TABLE live (battle_id TEXT PRIMARY KEY, content TEXT NOT NULL);
CREATE TABLE forms (
    rater TEXT NOT NULL, item TEXT NOT NULL, content TEXT NOT NULL, time REAL NOT NULL, PRIMARY KEY (rater, item)
);
CREATE TABLE reviews (
    place INTEGER PRIMARY KEY, reviewer TEXT NOT NULL, pair TEXT NOT NULL, content TEXT NOT NULL, time REAL NOT NULL
);
INSERT INTO secret VALUES ('5e0c5e0c5e0c5e0c5e0c5e0c5e0c5e0c5e0c5e0c5e0c5e0c5e0c5e0c5e0c5e0c');
INSERT INTO assignments VALUES
    ('a1', 'ann', 'plain', 'blinded', 0, 'voted', 1),
    ('a2', 'ann', 'turned back', 'blinded', 1, 'voted', 2),
    ('a3', 'ann', 'chosen', 'side_by_side', 0, 'voted', 3),
    ('a4', 'ann', 'chosen', 'blinded', 0, 'voted', 4),
    ('a5', 'ann', 'skipped', 'blinded', 0, 'skipped', 5),
    ('a6', 'ann', 'left', 'blinded', 0, 'open', 6);
INSERT INTO forms VALUES ('ann', 'item', '{}', 7);
INSERT INTO reviews (reviewer, pair, content, time) VALUES ('ann', 'pair', '{}', 8);
"""


def first_version(path: Path) -> Path:
    """Write a file as the first version of the database wrote it, with what its rater knew unmarked."""
    votes = (
        (vote("x", "y", vote_id="v1", battle_id="plain", time=10.0), "a1", None),
        (vote("x", "y", vote_id="v2", battle_id="turned back", time=11.0), "a2", 12.0),
        (vote("x", "y", "second", vote_id="v3", battle_id="turned back", time=13.0), "a2", None),
        (vote("x", "y", vote_id="v4", battle_id="chosen", time=14.0, view="side_by_side"), "a3", None),
        (vote("x", "y", vote_id="v5", battle_id="chosen", time=15.0), "a4", None),
        (vote("x", "y", vote_id="v6", battle_id="judged", kind="judge"), None, None),
    )
    with closing(sqlite3.connect(path)) as connection:
        connection.executescript(FIRST_VERSION)
        for one, assignment_id, undone in votes:
            row = (one.vote_id, assignment_id, one.rater, one.model_dump_json(), undone)
            query = "INSERT INTO votes (vote_id, assignment_id, rater, vote, undone) VALUES (?, ?, ?, ?, ?)"
            connection.execute(query, row)
        connection.commit()
    return path


class Disk:
    """Takes what is written when it is told to, and counts how often."""

    def __init__(self) -> None:
        self.n_writes = 0
        self.is_asked, self.goes_on = threading.Event(), threading.Event()

    def write(self, _: int) -> None:
        self.n_writes += 1
        self.is_asked.set()
        assert self.goes_on.wait(20)


def test_votes_that_wait_together_share_one_write(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store, disk = VoteStore(tmp_path / "arena.sqlite"), Disk()
    monkeypatch.setattr(os, "fsync", disk.write)
    done: list[int] = []

    def keep(number: int) -> None:
        store.keep_review(f"rater {number}", "pair", "{}", 0.0)
        done.append(number)

    raters = [threading.Thread(target=keep, args=(number,)) for number in range(6)]
    raters[0].start()
    assert disk.is_asked.wait(20)
    for rater in raters[1:]:
        rater.start()
    while len(store.reviews()) < len(raters):
        pass
    assert not done, "nobody is told before the disk has it"
    disk.goes_on.set()
    for rater in raters:
        rater.join(20)
    assert sorted(done) == list(range(6))
    assert disk.n_writes == 2, "one that was under way, and one for all who came meanwhile"
    store.close()


def test_a_disk_that_takes_no_more_acknowledges_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(_: int) -> None:
        raise OSError(28, "No space left on device")

    store = VoteStore(tmp_path / "arena.sqlite")
    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", fail)
        with pytest.raises(OSError, match="No space"):
            store.keep_review("rater", "pair", "{}", 0.0)
    store.keep_review("rater", "pair", "{}", 1.0)
    store.close()


def test_a_file_of_the_first_version_keeps_every_vote_and_says_which_came_after_names(tmp_path: Path) -> None:
    store = VoteStore(first_version(tmp_path / "arena.sqlite"))
    assert {vote.vote_id: vote.view for vote in store.votes()} == {
        "v1": "blinded",
        "v3": "revealed",
        "v4": "side_by_side",
        "v5": "revealed",
        "v6": "blinded",
    }
    assert [(row[0], row[1]) for row in store.forms()] == [("ann", "item")]
    assert len(store.reviews()) == 1
    happened = [(event["event"], event["battle_id"]) for event in store.events() if event["event"] != "names_shown"]
    assert happened[:6] == [
        *(("given", name) for name in ("plain", "turned back", "chosen", "chosen", "skipped")),
        ("skipped", "skipped"),
    ]
    assert ("undone", "turned back") in happened
    queue = Queue(store, ["left"], 1)
    given = queue.next_for("bob")
    assert given, "what was left open by the first version goes to others"
    assert given.battle_id == "left"
    assert queue.undo("ann").battle_id == "chosen", "the last thing that was done"
    assert Queue(store, ["item"], 1, view="form").next_for("bob") is None, "forms count as before"
    store.close()
    store = VoteStore(tmp_path / "arena.sqlite")
    assert len(store.votes()) == 4, "a second start changes nothing"
    store.close()


def test_reading_a_file_of_the_first_version_changes_nothing_in_it(tmp_path: Path) -> None:
    path = first_version(tmp_path / "arena.sqlite")
    before = path.read_bytes()
    store = VoteStore(path, is_read_only=True)
    assert [vote.view for vote in store.votes()].count("revealed") == 2
    store.close()
    assert path.read_bytes() == before
    assert not (tmp_path / "arena.sqlite.secret").exists()


def test_a_newer_file_another_program_s_and_a_damaged_one_are_refused(tmp_path: Path) -> None:
    newer, other, damaged = (tmp_path / name for name in ("newer", "other", "damaged"))
    VoteStore(newer).close()
    for path, statement in ((newer, "PRAGMA user_version = 99"), (other, "CREATE TABLE mine (x)")):
        with closing(sqlite3.connect(path)) as connection:
            connection.execute(statement)
            connection.commit()
    damaged.write_bytes(newer.read_bytes()[:4096] + b"x" * 9000)
    for path, found in ((newer, "newer ragtasks"), (other, "no database of votes"), (damaged, "found: ")):
        for is_read_only in (False, True):
            before = path.read_bytes()
            with pytest.raises(CacheError, match=found):
                VoteStore(path, is_read_only=is_read_only)
            assert path.read_bytes() == before


def test_the_secret_is_in_no_file_with_votes_and_outlives_a_restart(tmp_path: Path) -> None:
    old = first_version(tmp_path / "arena.sqlite")
    assert b"5e0c5e0c" in old.read_bytes()
    store = VoteStore(old)
    secret = store.secret
    store.close()
    kept = [path for path in tmp_path.iterdir() if path.name != "arena.sqlite.secret"]
    for path in kept:
        assert b"5e0c5e0c" not in path.read_bytes(), "the old one is gone from the file, not only from its tables"
        assert secret not in path.read_bytes()
        assert secret.hex().encode() not in path.read_bytes()
    assert (tmp_path / "arena.sqlite.secret").stat().st_mode & 0o077 == 0
    store = VoteStore(old)
    assert store.secret == secret
    store.close()


def test_a_copy_holds_votes_and_events_and_lets_nobody_in_or_vote(tmp_path: Path) -> None:
    store = VoteStore(tmp_path / "arena.sqlite")
    queue = Queue(store, ["b"], 1)
    _, token = store.invite("ann")
    given = queue.next_for("ann")
    assert given
    queue.vote(given, vote("x", "y"))
    copy = tmp_path / "copy.sqlite"
    store.database.copy_to(copy)
    assert store.invited(token) == "ann"
    assert copy.stat().st_mode & 0o222 == 0
    read = VoteStore(copy, is_read_only=True)
    assert read.votes() == store.votes()
    assert read.events() == store.events()
    assert read.invited(token) is None
    with pytest.raises(CacheError, match="a copy to read"):
        VoteStore(copy)
    before = copy.read_bytes()
    with pytest.raises(CacheError, match="there is a file already"):
        store.database.copy_to(copy)
    assert copy.read_bytes() == before
    assert sorted(path.name for path in tmp_path.iterdir() if "copy" in path.name) == ["copy.sqlite"]
    store.close()


def used(path: Path) -> bytes:
    """Return the bytes of a database with votes, events, a form, a review and an invitation."""
    store = VoteStore(path)
    queue = Queue(store, [f"b{n}" for n in range(20)], 1)
    for number in range(12):
        given = queue.next_for("ann")
        assert given
        queue.vote(given, vote("x", "y", vote_id=f"v{number}", reason="a reason " * 20))
    queue.keep_form("ann", "item", "{}")
    store.keep_review("ann", "pair", "{}", 1.0)
    store.invite("bob")
    store.close()
    return path.read_bytes()


def test_a_file_that_is_damaged_anywhere_is_read_or_refused_in_one_error(tmp_path: Path) -> None:
    whole = used(tmp_path / "arena.sqlite")
    chance = random.Random(1)
    path, refusals = tmp_path / "damaged.sqlite", list[str]()
    for _ in range(200):
        damaged = bytearray(whole)
        for _ in range(chance.choice((3, 30, 300, 3000))):
            damaged[chance.randrange(100, len(damaged))] = chance.randrange(256)
        path.write_bytes(damaged)
        try:
            store = VoteStore(path, is_read_only=True)
            write_votes(tmp_path / "votes", store.votes())
            write_events(tmp_path / "events", store.events())
            store.forms(), store.reviews(), store.invited("token")
        except CacheError as error:
            refusals.append(str(error))
        path.with_name("copy").unlink(missing_ok=True)
        with suppress(CacheError):
            VoteStore(path, is_read_only=True).database.copy_to(path.with_name("copy"))
    assert len(refusals) > 100
    assert all(str(path) in refusal for refusal in refusals)


@pytest.mark.parametrize(
    "statement",
    [
        "UPDATE votes SET vote = '{\"broken' WHERE place = 2",
        "UPDATE votes SET vote = CAST(x'ff' AS TEXT) WHERE place = 2",
        "UPDATE events SET time = 'noon' WHERE place = 2",
        "UPDATE forms SET time = 'noon'",
        "UPDATE reviews SET time = x'ff'",
    ],
)
def test_a_row_that_is_damaged_is_one_error_with_the_file(tmp_path: Path, statement: str) -> None:
    path = tmp_path / "arena.sqlite"
    used(path)
    with closing(sqlite3.connect(path)) as connection:
        connection.execute(statement)
        connection.commit()
    store = VoteStore(path, is_read_only=True)
    with pytest.raises(CacheError, match=r"arena\.sqlite[\s\S]*a damaged file"):
        store.votes(), store.events(), store.forms(), store.reviews()

"""The file of votes: durable before acknowledgement, other versions, the secret, read-only copies."""

from __future__ import annotations

import random
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from ragtasks.arena.store import Queue, VoteStore
from ragtasks.arena.votes import write_events, write_votes
from ragtasks.errors import CacheError
from tests._commands import run_command
from tests.arena._made import vote


@pytest.mark.parametrize("version", [0, 1, 99])
def test_a_file_of_another_version_is_one_error_with_the_file_and_a_next_step(tmp_path: Path, version: int) -> None:
    path = tmp_path / "arena.sqlite"
    used(path)
    with closing(sqlite3.connect(path)) as connection:
        connection.execute(f"PRAGMA user_version = {version}")
    before = path.read_bytes()
    for line in (
        ["arena", "ratings", path, "--save", tmp_path / "people.jsonl"],
        ["arena", "invite", "Ann", "--database", path],
    ):
        done = run_command(*line)
        assert done.status == 1
        assert f"{path}\n" in done.err
        assert f"format version {version}; this ragtasks only reads version 2" in done.err
        assert "name another file with --database, which will be created" in done.err
    assert path.read_bytes() == before
    assert list(tmp_path.glob("arena.sqlite-*")) == [], "no log is left next to it"


def test_another_program_s_file_and_a_damaged_one_are_refused(tmp_path: Path) -> None:
    ours, other, damaged = (tmp_path / name for name in ("ours", "other", "damaged"))
    VoteStore(ours).close()
    with closing(sqlite3.connect(other)) as connection:
        connection.execute("CREATE TABLE mine (x)")
        connection.commit()
    damaged.write_bytes(ours.read_bytes()[:4096] + b"x" * 9000)
    for path, found in ((other, "not a database of votes"), (damaged, "found: ")):
        for is_read_only in (False, True):
            before = path.read_bytes()
            with pytest.raises(CacheError, match=found):
                VoteStore(path, is_read_only=is_read_only)
            assert path.read_bytes() == before


def test_a_full_disk_acknowledges_nothing_and_loses_nothing(tmp_path: Path) -> None:
    store = VoteStore(tmp_path / "arena.sqlite")
    assert store._writer.execute("PRAGMA synchronous").fetchone() == (2,), "FULL: on disk before the commit returns"
    store.save_review("rater", "pair", "{}", 0.0)
    (n_pages,) = store._writer.execute("PRAGMA page_count").fetchone()
    store._writer.execute(f"PRAGMA max_page_count = {n_pages}")
    with pytest.raises(sqlite3.OperationalError, match="full"):
        store.save_review("rater", "pair", "x" * 100_000, 1.0)
    store._writer.execute("PRAGMA max_page_count = 1000000")
    store.save_review("rater", "pair", "{}", 2.0)
    store.close()
    store = VoteStore(tmp_path / "arena.sqlite")
    assert [time for *_, time in store.reviews()] == [0.0, 2.0]
    store.close()


def test_the_secret_is_stored_apart_from_votes_and_survives_a_restart(tmp_path: Path) -> None:
    file = tmp_path / "arena.sqlite"
    store = VoteStore(file)
    secret = store.secret
    store.close()
    kept = [path for path in tmp_path.iterdir() if path.name != "arena.sqlite.secret"]
    for path in kept:
        assert secret not in path.read_bytes()
        assert secret.hex().encode() not in path.read_bytes()
    assert (tmp_path / "arena.sqlite.secret").stat().st_mode & 0o077 == 0
    store = VoteStore(file)
    assert store.secret == secret
    store.close()


def used(path: Path) -> bytes:
    """Return the bytes of a database with votes, events, a form, a review and an invitation."""
    store = VoteStore(path)
    queue = Queue(store, [f"b{n}" for n in range(20)], 1)
    for number in range(12):
        given = queue.next_for("ann")
        assert given
        queue.vote(given, vote("x", "y", vote_id=f"v{number}", reason="a reason " * 20))
    queue.save_form("ann", "item", "{}")
    store.save_review("ann", "pair", "{}", 1.0)
    store.invite("bob")
    store.close()
    return path.read_bytes()


def test_a_damaged_file_is_read_or_refused_with_one_error(tmp_path: Path) -> None:
    content = used(tmp_path / "arena.sqlite")
    chance = random.Random(1)
    path, refusals = tmp_path / "damaged.sqlite", list[str]()
    for _ in range(200):
        damaged = bytearray(content)
        for _ in range(chance.choice((3, 30, 300, 3000))):
            damaged[chance.randrange(100, len(damaged))] = chance.randrange(256)
        path.write_bytes(damaged)
        try:
            with closing(VoteStore(path, is_read_only=True)) as store:
                write_votes(tmp_path / "votes", store.votes())
                write_events(tmp_path / "events", store.events())
                store.forms(), store.reviews(), store.invited("token")
        except CacheError as error:
            refusals.append(str(error))
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
def test_a_damaged_row_is_one_error_with_the_file(tmp_path: Path, statement: str) -> None:
    path = tmp_path / "arena.sqlite"
    used(path)
    with closing(sqlite3.connect(path)) as connection:
        connection.execute(statement)
        connection.commit()
    with (
        closing(VoteStore(path, is_read_only=True)) as store,
        pytest.raises(CacheError, match=r"arena\.sqlite[\s\S]*a damaged file"),
    ):
        store.votes(), store.events(), store.forms(), store.reviews()

"""The write-ahead log of votes: nothing is acknowledged before it is on disk, and those that wait share one write."""

from __future__ import annotations

import os
import threading
from pathlib import Path

import pytest

from ragtasks.arena.votes import VoteStore


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

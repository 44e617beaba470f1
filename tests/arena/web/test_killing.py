"""kill -9 while raters vote: every acknowledged vote is stored exactly once."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections import Counter
from http.client import HTTPException
from pathlib import Path

import pytest

from ragtasks.arena.store import VoteStore
from tests.arena.web._served import Visitor

ROOT = Path(__file__).resolve().parents[3]
N_RATERS = 4


class Rater(threading.Thread):
    """Votes until it is stopped, through restarts of the server, and records the acknowledged votes."""

    def __init__(self, port: int, name: str) -> None:
        super().__init__(daemon=True)
        self.visitor, self.rater = Visitor(port), name
        self.acknowledged: list[str] = []
        self.ends = False

    def run(self) -> None:
        while not self.ends:
            try:
                if not self.visitor.cookie:
                    self.visitor.enter(self.rater)
                address, shown = self.visitor.next()
                done = self.visitor.post(f"{address}/vote", preference="first", form_token=shown.form_token)
                if done.status == 303:
                    self.acknowledged.append(address.rpartition("/")[2])
            except (OSError, HTTPException, KeyError, AssertionError):
                time.sleep(0.02)  # no server, or disconnected


def free_port() -> int:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return int(listener.getsockname()[1])


def kill_while_voting(folder: Path, n_kills: int) -> tuple[Counter[str], Counter[str]]:
    """Return the acknowledged votes per assignment, and its stored votes."""
    port = free_port()
    raters = [Rater(port, f"rater {number}") for number in range(N_RATERS)]
    for rater in raters:
        rater.start()
    for kill in range(n_kills):
        command = [sys.executable, "-m", "tests.arena.web._killing", str(folder), str(port)]
        with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True) as server:
            assert server.stdout.readline().startswith("http://")
            before = sum(len(rater.acknowledged) for rater in raters)
            wanted = 5 + kill % 7
            while sum(len(rater.acknowledged) for rater in raters) < before + wanted:
                time.sleep(0.005)
            os.kill(server.pid, signal.SIGKILL)
    for rater in raters:
        rater.ends = True
        rater.join(30)
    store = VoteStore(folder / "arena.sqlite")
    kept = Counter(store.parsed("SELECT assignment_id FROM votes WHERE undone IS NULL", lambda row: str(row[0])))
    assert len(store.votes()) == kept.total()
    store.close()
    return Counter(assignment for rater in raters for assignment in rater.acknowledged), kept


@pytest.mark.slow
def test_no_acknowledged_vote_is_lost_by_a_kill(tmp_path: Path) -> None:
    acknowledged, kept = kill_while_voting(tmp_path, 1)
    assert acknowledged.keys() <= kept.keys()
    assert set(kept.values()) == set(acknowledged.values()) == {1}


@pytest.mark.long
def test_a_hundred_kills_lose_no_acknowledged_vote(tmp_path: Path) -> None:
    acknowledged, kept = kill_while_voting(tmp_path, 100)
    assert acknowledged.keys() <= kept.keys()
    assert set(kept.values()) == set(acknowledged.values()) == {1}
    assert acknowledged.total() >= 500

"""A synthesis killed at any moment and restarted ends with the same bytes and pays for no reply twice."""

from __future__ import annotations

import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

from tests.clients._server import Action, ChatServer, chat_server
from tests.synthesis._documents import write_towns
from tests.synthesis._making import content, make
from tests.synthesis._scripted import script

SLOTS = 2
"""Concurrent requests, the most that a kill can lose."""


class Killer:
    """Server that kills a process with its reply to the n-th request."""

    def __init__(self) -> None:
        self.process: subprocess.Popen[bytes] | None = None
        self.left = 0

    def __call__(self, prompt: str, n_before: int) -> Action:
        self.left -= 1
        if self.left == 0 and self.process:
            self.process.kill()
        return script(prompt, n_before)


def killed_and_begun_again(folder: Path, moments: list[int]) -> tuple[ChatServer, int]:
    """Return the server, and the number of processes needed."""
    write_towns(folder / "docs", 4)
    killer, n_processes = Killer(), 0
    with chat_server(killer) as server:
        while not (folder / "out").exists():
            assert n_processes <= len(moments), "the last process is not killed"
            killer.left = moments[n_processes] if n_processes < len(moments) else 0
            command = [sys.executable, "-m", "tests.synthesis._killable", server.base_url, str(folder)]
            killer.process = subprocess.Popen(command, stderr=subprocess.DEVNULL)
            killer.process.wait()
            n_processes += 1
    return server, n_processes


def check(folder: Path, moments: list[int]) -> None:
    server, n_processes = killed_and_begun_again(folder, moments)
    with chat_server(script) as second_server:
        uninterrupted = folder / "whole"
        write_towns(uninterrupted / "docs", 4)
        make(second_server.base_url, uninterrupted, unanswerable=0.1)
        n_needed = len(second_server.asked)
    ours, theirs = content(folder / "out"), content(uninterrupted / "out")
    assert ours == theirs
    assert not (folder / ".out.part").exists()
    twice = sum(count - 1 for count in Counter(server.asked).values())
    assert twice <= SLOTS * (n_processes - 1), "only requests in flight at a kill are sent again"
    assert len(server.asked) == n_needed + twice


@pytest.mark.engine
def test_a_killed_synthesis_resumes(tmp_path: Path) -> None:
    check(tmp_path, [14])


@pytest.mark.long
def test_twenty_kills_of_one_synthesis(tmp_path: Path) -> None:
    check(tmp_path, [1, 1, 2, 2, 3, 1, 2, 3, 1, 2, 4, 1, 2, 3, 1, 5, 2, 1, 3, 2])

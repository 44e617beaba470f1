"""A training killed at any file change and restarted ends with the same weights and leaves nothing incomplete."""

from __future__ import annotations

import signal
from pathlib import Path

import pytest

from tests.synthesis._killable_training import train_and_kill
from tests.synthesis._making import content
from tests.synthesis._tiny import words_of, write_dialogues, write_encoder, write_t5

pytestmark = pytest.mark.long
N_KILLS = 10


def base_of(kind: str, folder: Path, root: Path) -> Path:
    return (write_t5 if kind == "rewriter" else write_encoder)(folder, words_of(root))


@pytest.mark.parametrize("kind", ["rewriter", "retriever"])
def test_a_killed_training_ends_with_the_same_weights(kind: str, tmp_path: Path) -> None:
    root = write_dialogues(tmp_path / "b")
    base = base_of(kind, tmp_path / "base", root)
    uninterrupted = tmp_path / "whole" / "made"
    uninterrupted.parent.mkdir()
    assert train_and_kill(kind, root, base, uninterrupted) == 0
    n_changes = int((uninterrupted.parent / "changes").read_text("utf-8"))
    assert n_changes > 2 * N_KILLS
    for number in range(N_KILLS):
        folder = tmp_path / str(number) / "made"
        folder.parent.mkdir()
        moment = 1 + number * (n_changes - 1) // (N_KILLS - 1)
        assert train_and_kill(kind, root, base, folder, moment) == -signal.SIGKILL
        if not folder.exists():
            assert train_and_kill(kind, root, base, folder) == 0, f"restarted after a kill at change {moment}"
            assert not (folder.parent / ".made.training").exists()
        assert content(folder) == content(uninterrupted), f"killed at change {moment} of {n_changes}"

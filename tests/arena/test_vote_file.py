"""Files of votes: what is written comes back, whatever the rater knew of the systems."""

from __future__ import annotations

from pathlib import Path

import pytest

from ragtasks.arena.votes import read_votes, write_votes
from tests.arena._made import vote


@pytest.mark.parametrize("view", ["blinded", "side_by_side", "revealed"])
def test_what_the_rater_knew_comes_back_from_a_file(tmp_path: Path, view: str) -> None:
    votes = [vote("one", "two", view=view)]
    write_votes(tmp_path / "votes.jsonl", votes)
    assert read_votes([tmp_path / "votes.jsonl"]) == votes

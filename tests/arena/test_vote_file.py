"""Files of votes: written votes read back equal with every view, and invalid votes are named."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from ragtasks.arena.votes import read_votes, write_votes
from ragtasks.errors import BenchmarkFileError
from tests.arena._made import vote


@pytest.mark.parametrize("view", ["blinded", "side_by_side", "revealed"])
def test_the_view_of_a_vote_is_read_back_from_a_file(tmp_path: Path, view: str) -> None:
    votes = [vote("one", "two", view=view)]
    write_votes(tmp_path / "votes.jsonl", votes)
    assert read_votes([tmp_path / "votes.jsonl"]) == votes


def test_every_invalid_line_is_named_in_one_error(tmp_path: Path) -> None:
    right = vote("one", "two").model_dump(mode="json")
    rows = [
        right,
        {**right, "vote_id": "2", "wieght": 2},
        {**right, "vote_id": "3", "rater": ""},
        {**right, "vote_id": "4", "first": {**right["first"], "n_words": -1, "modle": "m"}},
        {**right, "preference": "second"},
        {**right, "vote_id": "6", "second": right["first"]},
        right,
    ]
    file = tmp_path / "votes.jsonl"
    file.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    with pytest.raises(BenchmarkFileError) as caught:
        read_votes([file])
    text = str(caught.value)
    assert "5 errors" in text
    for line, words in (
        (2, "wieght"),
        (3, "rater"),
        (4, "first.n_words"),
        (4, "first.modle"),
        (5, "each vote once"),
        (6, "two systems"),
    ):
        assert any(f"line {line}: expected" in one and words in one for one in text.splitlines()), text

"""Votes as JSON lines: what `ragtasks arena` exports, imports and rates."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from pydantic import ValidationError

from ragtasks.arena._vote import Vote
from ragtasks.errors import misfits
from ragtasks.files import Violations, json_lines, write_atomically

_NEXT_STEP = "take a file with votes that `ragtasks arena battle` or `ragtasks arena export` wrote"


def read_votes(paths: Sequence[Path]) -> list[Vote]:
    """Return the votes of some files, in their order; a vote that stands in several is taken once.

    Raises:
        BenchmarkFileError: a file is missing or broken, with all its errors by line.
    """
    found: dict[str, Vote] = {}
    for path in paths:
        violations = Violations(path, "votes", _NEXT_STEP)
        for line, row in json_lines(violations):
            try:
                vote = Vote.model_validate(row)
            except ValidationError as error:
                violations.add(line, "a vote", "; ".join(misfits(error)))
                continue
            if found.setdefault(vote.vote_id, vote) != vote:
                violations.add(line, "each vote once", f"another vote with the id {vote.vote_id}")
            if vote.first.system == vote.second.system:
                violations.add(line, "two systems", f"one: {vote.first.system}")
        violations.raise_if_any()
    return list(found.values())


def write_votes(path: Path, votes: Sequence[Vote]) -> None:
    """Write votes as JSON lines, atomically.

    Raises:
        CacheError: the file cannot be written.
    """
    lines = "".join(vote.model_dump_json() + "\n" for vote in votes)
    write_atomically(path, lines.encode("utf-8", errors="replace"))


def write_events(path: Path, events: Iterable[Mapping[str, object]]) -> int:
    """Write what happened in a database as JSON lines, atomically, and return how many lines there are.

    Raises:
        CacheError: the file cannot be written.
    """
    lines = [json.dumps(event, ensure_ascii=False) + "\n" for event in events]
    write_atomically(path, "".join(lines).encode("utf-8", errors="replace"))
    return len(lines)


__all__ = ["read_votes", "write_events", "write_votes"]

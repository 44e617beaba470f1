"""A vote: a rater's preference between two answers, and their display order.

It contains everything that ratings need (systems, conversation, lengths, refusals), so a file of votes is sufficient.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from ragtasks.errors import misfits
from ragtasks.files import Problems, json_lines, write_atomically, written_lines

Preference = Literal["first", "second", "tie", "both_bad"]
"""The preferred answer in display order. `both_bad` counts as a tie in ratings and has its own column in tables."""
RaterKind = Literal["human", "judge"]
"""Votes of people and of judges never share a table."""
View = Literal["blinded", "side_by_side", "revealed"]
"""The rater's knowledge of the systems when voting.

`side_by_side`: the rater chose to see the names. `revealed`: the rater saw the names after an earlier vote on the pair,
which was undone. Blinded tables contain only `blinded` votes.
"""

VALUES: dict[Preference, float] = {"first": 1.0, "second": 0.0, "tie": 0.5, "both_bad": 0.5}
"""Preference -> share of the answer displayed first."""
LONGEST_REASON = 2_000
"""Maximum characters of a reason."""


class VotedAnswer(BaseModel):
    """An answer in a vote."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    system: str = Field(min_length=1)
    version: str
    """Hash of the answer and its passages, which identifies the compared text."""
    n_words: int = Field(ge=0)
    refuses: bool
    """Whether `NgramIdk` detects a refusal."""


class Vote(BaseModel):
    """A preference, as stored, exported and rated."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    vote_id: str = Field(min_length=1)
    """Unique. An import ignores repeated ids."""
    battle_id: str = Field(min_length=1)
    """Equal for all votes on these two answers, in either order."""
    benchmark: str
    """Label of the benchmark, with a mark for samples."""
    setting: str
    """Setting of both answers; `live` for live systems."""
    task_id: str
    conversation_id: str
    """Conversation of the task, the unit of resampling."""
    answerability: str = ""
    """Answerability label of the task; empty without a label."""
    first: VotedAnswer
    """The answer displayed first."""
    second: VotedAnswer
    preference: Preference
    rater: str = Field(min_length=1)
    """Name of the person or the judge."""
    kind: RaterKind
    view: View = "blinded"
    reason: str = Field(default="", max_length=LONGEST_REASON)
    time: float | None = None
    """Seconds since 1970; None for judges, so that the same replies give the same file."""
    orders: tuple[Preference, ...] = ()
    """A judge's preferences in both orders, both relative to this vote's `first` and `second`."""

    @property
    def systems(self) -> tuple[str, str]:
        """Systems of the first and the second answer."""
        return self.first.system, self.second.system

    @property
    def value(self) -> float:
        """Share of the first answer: 1, 0.5 or 0."""
        return VALUES[self.preference]

    def value_of(self, system: str) -> float:
        """Return the share of a system."""
        return self.value if system == self.first.system else 1 - self.value


# Votes as JSON lines, for export, import and ratings.

_NEXT_STEP = "use a file with votes that `ragtasks arena battle` or `ragtasks arena ratings --save` wrote"


def read_votes(paths: Sequence[Path]) -> list[Vote]:
    """Return the votes in files, in order. A vote that occurs in several files is included once."""
    votes: dict[str, Vote] = {}
    for path in paths:
        problems = Problems(path, "votes", _NEXT_STEP)
        for line, row in json_lines(problems):
            try:
                vote = Vote.model_validate(row)
            except ValidationError as error:
                problems.add(line, "a vote", "; ".join(misfits(error)))
                continue
            if votes.setdefault(vote.vote_id, vote) != vote:
                problems.add(line, "each vote once", f"another vote with the id {vote.vote_id}")
            if vote.first.system == vote.second.system:
                problems.add(line, "two systems", f"one: {vote.first.system}")
        problems.raise_if_any()
    return list(votes.values())


def write_votes(path: Path, votes: Sequence[Vote]) -> None:
    """Write votes as JSON lines, atomically."""
    write_atomically(path, "".join(vote.model_dump_json() + "\n" for vote in votes).encode())


def write_events(path: Path, events: Iterable[Mapping[str, object]]) -> int:
    """Write the events of a database as JSON lines, atomically, and return their number."""
    rows = list(events)
    write_atomically(path, written_lines(rows))
    return len(rows)

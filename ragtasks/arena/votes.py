"""A vote: one rater's preference between two answers, and the order of their display.

It holds all that ratings need (systems, conversation, lengths, refusals), so that a file of votes is enough for them.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from ragtasks.errors import misfits
from ragtasks.files import Problems, json_lines, write_atomically, written_lines

Preference = Literal["first", "second", "tie", "both_bad"]
"""Which answer is preferred, as they were shown; `both_bad` is a tie to ratings and counted apart."""
RaterKind = Literal["human", "judge"]
"""Whose votes never share a table with the other's."""
View = Literal["blinded", "side_by_side", "revealed"]
"""What a rater knew of the systems when voting: nothing, their names by choice, or their names from an earlier vote on
the same pair that was undone. Only `blinded` votes belong into blinded tables."""

VALUES: dict[Preference, float] = {"first": 1.0, "second": 0.0, "tie": 0.5, "both_bad": 0.5}
"""Preference -> share of the answer that was shown first."""
LONGEST_REASON = 2_000
"""Characters of a reason."""


class VotedAnswer(BaseModel):
    """One answer of a vote."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    system: str = Field(min_length=1)
    version: str
    """Hash of the answer and its passages: what exactly was compared."""
    n_words: int = Field(ge=0)
    refuses: bool
    """Whether `NgramIdk` reads the answer as a refusal."""


class Vote(BaseModel):
    """One preference, as it is stored, exported and rated."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    vote_id: str = Field(min_length=1)
    """Unique; an import takes each once."""
    battle_id: str = Field(min_length=1)
    """The same for everybody who compared these two answers, in whichever order."""
    benchmark: str
    """Label of the benchmark, which says `sample` where it is one."""
    setting: str
    """Setting of both answers; `live` where pipelines were asked."""
    task_id: str
    conversation_id: str
    """Conversation of the task: intervals draw these again."""
    answerability: str = ""
    """Label of the task, empty where there is none."""
    first: VotedAnswer
    """The answer that was shown first."""
    second: VotedAnswer
    preference: Preference
    rater: str = Field(min_length=1)
    """Who voted: a person's name, or a judge's."""
    kind: RaterKind
    view: View = "blinded"
    reason: str = Field(default="", max_length=LONGEST_REASON)
    time: float | None = None
    """Seconds since 1970; None for judges, so that the same replies give the same file."""
    orders: tuple[Preference, ...] = ()
    """A judge's preference in either order, both written for this vote's `first` and `second`."""

    @property
    def value(self) -> float:
        """Share of the first answer: 1, 0.5 or 0."""
        return VALUES[self.preference]

    def value_of(self, system: str) -> float:
        """Return the share of one of the two systems."""
        return self.value if system == self.first.system else 1 - self.value


# Votes as JSON lines: what `ragtasks arena` exports, imports and rates.

_NEXT_STEP = "take a file with votes that `ragtasks arena battle` or `ragtasks arena ratings --save` wrote"


def read_votes(paths: Sequence[Path]) -> list[Vote]:
    """Return the votes of some files, in their order; a vote that stands in several is taken once."""
    found: dict[str, Vote] = {}
    for path in paths:
        problems = Problems(path, "votes", _NEXT_STEP)
        for line, row in json_lines(problems):
            try:
                vote = Vote.model_validate(row)
            except ValidationError as error:
                problems.add(line, "a vote", "; ".join(misfits(error)))
                continue
            if found.setdefault(vote.vote_id, vote) != vote:
                problems.add(line, "each vote once", f"another vote with the id {vote.vote_id}")
            if vote.first.system == vote.second.system:
                problems.add(line, "two systems", f"one: {vote.first.system}")
        problems.raise_if_any()
    return list(found.values())


def write_votes(path: Path, votes: Sequence[Vote]) -> None:
    """Write votes as JSON lines, atomically."""
    write_atomically(path, "".join(vote.model_dump_json() + "\n" for vote in votes).encode())


def write_events(path: Path, events: Iterable[Mapping[str, object]]) -> int:
    """Write what happened in a database as JSON lines, atomically, and return how many lines there are."""
    rows = list(events)
    write_atomically(path, written_lines(rows))
    return len(rows)

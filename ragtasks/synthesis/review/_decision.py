"""What one reviewer said of one pair, and when; a later decision on the same pair takes the place of an earlier one."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, cast, get_args

import orjson
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from ragtasks.errors import RagtasksError
from ragtasks.files import write_atomically
from ragtasks.synthesis.review._pair import Pair

Choice = Literal["accept", "edit", "reject"]
"""What becomes of a pair."""
CHOICES: tuple[str, ...] = get_args(Choice)
LONGEST_TEXT = 20_000
"""Characters of a question or an answer."""
LONGEST_NOTE = 2_000
"""Characters of a note."""

_NAMES = {"question": "the question", "standalone": "the standalone question", "answer": "the answer"}


class DecisionError(RagtasksError):
    """A decision that cannot be taken: no choice, or a text that is empty or too long."""


class Decision(BaseModel):
    """What becomes of a pair."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    choice: Choice
    """`accept`, `edit` or `reject`."""
    texts: dict[str, str] = Field(default_factory=dict)
    """`question`, `standalone` and `answer` as they were edited; empty without an edit."""
    note: str = Field(default="", max_length=LONGEST_NOTE)
    """Why, in the reviewer's words."""
    version: str
    """Hash of the pair that was shown."""


@dataclass(frozen=True, slots=True)
class Review:
    """A decision with who took it."""

    reviewer: str
    """Who."""
    pair_id: str
    """On what."""
    decision: Decision
    """What was decided."""
    time: float
    """Seconds since 1970."""

    @property
    def keeps(self) -> bool:
        """Whether the pair stays, as it is or edited."""
        return self.decision.choice != "reject"


def decide(pair: Pair, choice: str, texts: Mapping[str, str], note: str = "") -> Decision:
    """Return the decision of what a page sent; an edit that changes nothing accepts the pair.

    Args:
        pair: what it is about.
        choice: `accept`, `edit` or `reject`.
        texts: with an edit: `question`, `standalone` and `answer`.
        note: why; what is over the limit is cut off.

    Raises:
        DecisionError: another choice, or a text that is empty or too long.
    """
    if choice not in CHOICES:
        raise DecisionError(f"A decision is one of: {', '.join(CHOICES)}.")
    edited: dict[str, str] = {}
    if choice == "edit":
        edited = {name: texts.get(name, "").replace("\r\n", "\n").strip() for name in _NAMES}
        for name, text in edited.items():
            if not 0 < len(text) <= LONGEST_TEXT:
                problem = f"has more than {LONGEST_TEXT:,} characters" if text else "is empty"
                raise DecisionError(f"Not saved: {_NAMES[name]} {problem}.")
        if edited == pair.texts:
            choice, edited = "accept", {}
    return Decision(choice=cast(Choice, choice), texts=edited, note=note.strip()[:LONGEST_NOTE], version=pair.version)


def read_reviews(pairs: Sequence[Pair], rows: Sequence[tuple[str, str, str, float]]) -> tuple[list[Review], int]:
    """Return each reviewer's last decision on each of these very pairs, and how many rows are about other texts.

    Args:
        pairs: those of the benchmark as it is.
        rows: (reviewer, pair id, content, time), oldest first, as `VoteStore.reviews` gives them.
    """
    versions = {pair.pair_id: pair.version for pair in pairs}
    found: dict[tuple[str, str], Review] = {}
    n_others = 0
    for reviewer, pair_id, content, time in rows:
        try:
            decision = Decision.model_validate_json(content)
        except ValidationError:
            n_others += 1
            continue
        if versions.get(pair_id) == decision.version:
            found[reviewer, pair_id] = Review(reviewer, pair_id, decision, time)
        else:
            n_others += 1
    place = {pair.pair_id: pair.number for pair in pairs}
    return sorted(found.values(), key=lambda one: (place[one.pair_id], one.time)), n_others


def review_row(review: Review) -> dict[str, Any]:
    """Return a decision as it is exported."""
    return {
        "task_id": review.pair_id,
        "reviewer": review.reviewer,
        "time": review.time,
        **review.decision.model_dump(exclude_defaults=True),
    }


def write_reviews(path: Path, reviews: Sequence[Review]) -> None:
    """Write decisions as JSON lines, the whole file or nothing.

    Raises:
        CacheError: it cannot be written.
    """
    write_atomically(path, b"".join(orjson.dumps(review_row(one)) + b"\n" for one in reviews))


__all__ = [
    "CHOICES",
    "LONGEST_NOTE",
    "LONGEST_TEXT",
    "Choice",
    "Decision",
    "DecisionError",
    "Review",
    "decide",
    "read_reviews",
    "review_row",
    "write_reviews",
]

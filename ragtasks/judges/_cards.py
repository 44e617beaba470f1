"""A judge's card: agreement of its verdicts with people's labels, repeatability, and cost. Cards are stored by time."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any, Literal

import orjson
from pydantic import ConfigDict, TypeAdapter, ValidationError, with_config

from ragtasks.files import canonical_hash, parse_json, write_atomically

_STRICT = ConfigDict(extra="forbid", allow_inf_nan=False)

AGREEMENT = "agreement"
KAPPA = "kappa"
WEIGHTED_KAPPA = "weighted kappa"
UNDECIDED = "undecided"
"""Measures of a card: equal labels, equal labels corrected for chance, and cases whose repeated verdicts differ."""


@with_config(_STRICT)
@dataclass(frozen=True, slots=True)
class CardRow:
    """One measure of a judge."""

    rubric: str
    """Name of the rubric; empty for a measure of the judge as a whole."""
    measure: str
    """Such as `kappa`."""
    value: float | None
    """Value of the measure; None without data."""
    low: float | None = None
    """Lower end of the 95 % interval over conversations; None without an interval."""
    high: float | None = None
    n: int = 0
    """Number of rows or verdicts."""


@with_config(_STRICT)
@dataclass(frozen=True, slots=True)
class JudgeCard:
    """Measures of one judge."""

    judge: str
    time: str
    """Time of creation, as `2026-11-23T12:00:00`."""
    data: str
    """Description of the labelled rows."""
    rubrics: Mapping[str, str]
    """Rubric -> fingerprint of its prompts."""
    rows: tuple[CardRow, ...]
    confusion: Mapping[str, Mapping[str, int]] = field(default_factory=dict)
    """Label of people -> label of the judge -> number of people's labels."""
    version: Literal[3] = 3
    """Version of the measures; cards of other versions are not shown."""

    def measure(self, *names: str) -> CardRow | None:
        """Return the row of the first measure with one of these names, such as `KAPPA`; None without it."""
        return next((row for row in self.rows if row.measure in names), None)

    @property
    def is_of_verdicts(self) -> bool:
        """Whether the judge gave enough verdicts to measure any agreement with people."""
        agreement = self.measure(AGREEMENT)
        return agreement is not None and agreement.value is not None

    def with_cost_of(self, earlier: JudgeCard | None) -> JudgeCard:
        """Return the card with the cost rows of an earlier card if it has none: all its verdicts were cached."""
        if earlier is None or any(not row.rubric for row in self.rows):
            return self
        return replace(self, rows=(*self.rows, *(row for row in earlier.rows if not row.rubric)))

    @property
    def json_values(self) -> dict[str, Any]:
        """The card as stored in results and in its file."""
        return {**asdict(self), "rows": [asdict(row) for row in self.rows]}

    @classmethod
    def of_json(cls, saved: Any) -> JudgeCard | None:
        """Return the card in JSON values, or None if they are invalid or of another version."""
        try:
            return _CARD.validate_python(saved)
        except ValidationError:
            return None


_CARD = TypeAdapter(JudgeCard)


def store_card(folder: Path, card: JudgeCard) -> Path:
    """Write a card to the folder, next to earlier cards, and return its path."""
    path = folder / f"{_prefix(card.judge)}_{card.time.replace(':', '-')}_{canonical_hash(dict(card.rubrics))[:8]}.json"
    write_atomically(path, orjson.dumps(card.json_values, option=orjson.OPT_INDENT_2) + b"\n")
    return path


def latest_card(folder: Path, judge: str, rubrics: Mapping[str, str]) -> JudgeCard | None:
    """Return the newest card of a judge with at least one of these rubrics and prompts, or None."""
    return next((card for card in stored_cards(folder, judge) if card.rubrics.items() & rubrics.items()), None)


def stored_cards(folder: Path, judge: str) -> Iterator[JudgeCard]:
    """Yield the cards of a judge in a folder, the newest first."""
    for path in sorted(folder.glob(f"{_prefix(judge)}_*.json"), reverse=True):
        try:
            card = JudgeCard.of_json(parse_json(path.read_bytes()))
        except (OSError, ValueError):
            continue
        if card is not None and card.judge == judge:
            yield card


def _prefix(judge: str) -> str:
    """Return a file name prefix for a judge: its letters, and a hash to distinguish equal letters."""
    letters = "".join(letter if letter.isascii() and letter.isalnum() else "-" for letter in judge)
    return f"{letters[:50]}_{canonical_hash(judge)[:8]}"

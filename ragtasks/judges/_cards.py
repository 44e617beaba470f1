"""A judge's card: how far its verdicts agree with people's, how far they repeat, and what they cost. Stored by time."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, Literal

import orjson
from pydantic import ConfigDict, TypeAdapter, ValidationError, with_config

from ragtasks.files import canonical_hash, parse_json, write_atomically

_STRICT = ConfigDict(extra="forbid", allow_inf_nan=False)

PAIRS = "pairs as people"
"""How the measures of agreement on pairs begin."""


@with_config(_STRICT)
@dataclass(frozen=True, slots=True)
class CardRow:
    """One measure of a judge."""

    rubric: str
    """What the judge was asked; empty where the measure is of the judge as a whole."""
    measure: str
    """Such as `pairs as people: faithfulness`."""
    value: float | None
    """The measure; None where there is nothing to measure it on."""
    low: float | None = None
    """Lower end of the 95 % interval over conversations; None where there is none."""
    high: float | None = None
    n: int = 0
    """Answers, pairs or verdicts that it rests on."""


@with_config(_STRICT)
@dataclass(frozen=True, slots=True)
class JudgeCard:
    """What is known of a judge."""

    judge: str
    time: str
    """When it was made, as `2026-11-23T12:00:00`."""
    data: str
    """The rated answers, in words."""
    rubrics: Mapping[str, str]
    """Rubric -> fingerprint of its words."""
    rows: tuple[CardRow, ...]
    version: Literal[2] = 2
    """Of what a card measures: cards of other versions are not shown."""

    @property
    def is_of_verdicts(self) -> bool:
        """Whether the judge gave enough verdicts for any agreement with people."""
        return any(row.value is not None for row in self.rows if row.measure.startswith(PAIRS))

    def with_cost_of(self, earlier: JudgeCard | None) -> JudgeCard:
        """Return the card with an earlier one's cost where it has none itself: all its verdicts were in the cache."""
        if earlier is None or any(not row.rubric for row in self.rows):
            return self
        return replace(self, rows=(*self.rows, *(row for row in earlier.rows if not row.rubric)))

    @property
    def json_values(self) -> dict[str, Any]:
        """The card as results and its file hold it."""
        return {**asdict(self), "rows": [asdict(row) for row in self.rows]}

    @classmethod
    def of_json(cls, saved: Any) -> JudgeCard | None:
        """Return the card in JSON values; None where they are none of this version, whoever wrote them."""
        try:
            return _CARD.validate_python(saved)
        except ValidationError:
            return None


_CARD = TypeAdapter(JudgeCard)


def store_card(folder: Path, card: JudgeCard) -> Path:
    """Write a card beside the earlier ones, and return its file."""
    path = folder / f"{_prefix(card.judge)}_{card.time.replace(':', '-')}.json"
    write_atomically(path, orjson.dumps(card.json_values, option=orjson.OPT_INDENT_2) + b"\n")
    return path


def latest_card(folder: Path, judge: str, rubrics: Mapping[str, str]) -> JudgeCard | None:
    """Return the newest card of a judge that was asked in some of these words; None without any."""
    for path in sorted(folder.glob(f"{_prefix(judge)}_*.json"), reverse=True):
        try:
            card = JudgeCard.of_json(parse_json(path.read_bytes()))
        except (OSError, ValueError):
            continue
        if card is not None and card.judge == judge and card.rubrics.items() & rubrics.items():
            return card
    return None


def _prefix(judge: str) -> str:
    """Return a file's name for any judge: its letters, and a hash that tells it from the next one."""
    letters = "".join(letter if letter.isascii() and letter.isalnum() else "-" for letter in judge)
    return f"{letters[:60]}_{canonical_hash(judge)[:8]}"

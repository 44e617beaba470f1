"""A dialogue during its synthesis: turns in both forms, their units, and removed pairs."""

from __future__ import annotations

from dataclasses import dataclass

from ragtasks.records import Answerability
from ragtasks.synthesis.propositions import Unit


@dataclass(frozen=True, slots=True)
class Turn:
    """A user question with the system's answer."""

    decontextualized: str
    """The stand-alone form of the question."""
    answer: str
    question_types: tuple[str, ...] = ()
    """Its type, if the model gave one of the offered types."""
    contextualized: str = ""
    """The conversational form of the question; empty until it is written."""
    units: tuple[Unit, ...] = ()
    """Units that support the answer; empty until the check, and for an unanswerable question."""
    answerability: Answerability = Answerability.ANSWERABLE
    """ANSWERABLE, or UNANSWERABLE after its passages are removed from the corpus."""


@dataclass(frozen=True, slots=True)
class Removed:
    """A pair removed from a dialogue."""

    question: str
    """The stand-alone form of the question."""
    answer: str
    reason: str


@dataclass(frozen=True, slots=True)
class Dialogue:
    """A dialogue over a list of units."""

    dialogue_id: str
    """`d` and the number of its list, from 1."""
    domain: str
    units: tuple[Unit, ...]
    turns: tuple[Turn, ...] = ()
    removed: tuple[Removed, ...] = ()

"""A dialogue during its synthesis: its turns in both forms, their passages, and the pairs that were removed."""

from __future__ import annotations

from dataclasses import dataclass

from ragtasks.records import Answerability
from ragtasks.synthesis.propositions import Unit


@dataclass(frozen=True, slots=True)
class Turn:
    """One question of the user with the system's answer."""

    decontextualized: str
    """The question as it can be understood alone."""
    answer: str
    question_types: tuple[str, ...] = ()
    """Its label, where the model gave one that was offered."""
    contextualized: str = ""
    """The question as it is asked in the dialogue; empty before that step."""
    units: tuple[Unit, ...] = ()
    """What the answer rests on; empty before that step, and where it is unanswerable."""
    answerability: Answerability = Answerability.ANSWERABLE
    """ANSWERABLE, or UNANSWERABLE once its passages are out of the corpus."""


@dataclass(frozen=True, slots=True)
class Removed:
    """A pair that was taken out of a dialogue."""

    question: str
    """The question as it can be understood alone."""
    answer: str
    reason: str


@dataclass(frozen=True, slots=True)
class Dialogue:
    """One dialogue over a list of units."""

    dialogue_id: str
    """`d` and the number of its list, from 1."""
    domain: str
    units: tuple[Unit, ...]
    turns: tuple[Turn, ...] = ()
    removed: tuple[Removed, ...] = ()

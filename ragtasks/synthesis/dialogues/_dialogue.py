"""A dialogue while it is made: its turns in both forms, what they rest on, and what was taken out of it."""

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
    """What the system says."""
    question_types: tuple[str, ...] = ()
    """Its label, where the model gave one that was offered."""
    contextualized: str = ""
    """The question as it is asked in the dialogue; empty before that step."""
    units: tuple[Unit, ...] = ()
    """What the answer rests on; empty before that step, and where it is unanswerable."""
    answerability: Answerability = Answerability.ANSWERABLE
    """ANSWERABLE, or UNANSWERABLE once its passages are out of the corpus."""

    @property
    def needs_rewriting(self) -> bool:
        """Whether the question as asked is not the one that can be understood alone."""
        return self.contextualized != self.decontextualized


@dataclass(frozen=True, slots=True)
class Removed:
    """A pair that was taken out of a dialogue."""

    question: str
    """The question as it can be understood alone."""
    answer: str
    """The answer that was written."""
    reason: str
    """Why."""


@dataclass(frozen=True, slots=True)
class Dialogue:
    """One dialogue over a list of units."""

    dialogue_id: str
    """`d` and the number of its list, from 1."""
    domain: str
    """The corpus of its units."""
    units: tuple[Unit, ...]
    """The list that it was written from."""
    turns: tuple[Turn, ...] = ()
    """What stays, in order."""
    removed: tuple[Removed, ...] = ()
    """What does not."""


__all__ = ["Dialogue", "Removed", "Turn"]

"""Settings of a synthesis, in one frozen object."""

from __future__ import annotations

from dataclasses import dataclass, field

from ragtasks.errors import ConfigurationError, close_matches
from ragtasks.synthesis.cutting import Cut
from ragtasks.synthesis.dialogues import QUESTION_TYPES
from ragtasks.synthesis.documents import MOST_BYTES

UNITS = ("propositions", "sentences", "passages")
POOLS = ("passages", "propositions")
COLLECTIONS = ("clapnq", "cloud", "fiqa", "govt")
"""The corpora that MTRAG-S's format knows."""


@dataclass(frozen=True, slots=True)
class Settings:
    """How documents become dialogues."""

    cut: Cut = field(default_factory=Cut)
    unit: str = "propositions"
    """What dialogues are written from: `propositions`, `sentences` of the documents, or `passages` as they are."""
    list_size: int = 30
    """Units that one dialogue is written from."""
    turns: int = 8
    """Most turns of a dialogue; MTRAG-S has as many, since more repeat themselves."""
    question_types: tuple[str, ...] = QUESTION_TYPES
    unanswerable: float = 0.0
    """Share of the questions that are to lose what they rest on, 0 to 1."""
    pool: str = "passages"
    """What is searched in the end: `passages`, or the units themselves (`propositions`)."""
    folders_are_domains: bool = False
    """Whether each folder of documents is a corpus of its own."""
    most_bytes: int = MOST_BYTES
    mtrag_s: str = ""
    """Corpus of MTRAG that the documents stand for, where dialogues are written in MTRAG-S's format; else empty."""
    most_dialogues: int | None = None
    """Lists that dialogues are written from, the first ones of each domain in turn; None for all."""

    def __post_init__(self) -> None:
        """Refuse what cannot be done."""
        _check_name("unit", self.unit, UNITS)
        _check_name("pool", self.pool, POOLS)
        if self.mtrag_s:
            _check_name("corpus of MTRAG-S", self.mtrag_s, COLLECTIONS)
        for name, least in {"list_size": 1, "turns": 1, "most_bytes": 1}.items():
            if getattr(self, name) < least:
                raise ConfigurationError(f"synthesis: {name} must be at least {least}, found {getattr(self, name)}")
        if not 0 <= self.unanswerable <= 1:
            raise ConfigurationError(f"synthesis: unanswerable is a share from 0 to 1, found {self.unanswerable}")


def _check_name(option: str, name: str, known: tuple[str, ...]) -> None:
    if name not in known:
        raise ConfigurationError(f"synthesis: {option} {name!r}: {close_matches(name, known)}")

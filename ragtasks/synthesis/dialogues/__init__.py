"""Dialogues over lists of propositions or sentences, and questions among them that nothing answers any more."""

from ragtasks.synthesis.dialogues._dialogue import Dialogue, Removed, Turn
from ragtasks.synthesis.dialogues._unanswerable import NO_ANSWER, Pool, make_unanswerable
from ragtasks.synthesis.dialogues._write import QUESTION_TYPES, Written, closest_units, write_dialogues

__all__ = [
    "NO_ANSWER",
    "QUESTION_TYPES",
    "Dialogue",
    "Pool",
    "Removed",
    "Turn",
    "Written",
    "closest_units",
    "make_unanswerable",
    "write_dialogues",
]

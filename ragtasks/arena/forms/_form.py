"""One rater's form on one task: four properties of every answer, and which of every two is better.

The properties, their scale from 1 to 4 and the comparison are those of MTRAG's human evaluation (paper, sections 3.2
and 7); several raters see the same answers without names, in an order of their own.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from pydantic import BaseModel, ConfigDict, ValidationError

from ragtasks.arena.battles import AnswerPool, ItemKey, shuffled
from ragtasks.benchmarks.mtrag import FANC
from ragtasks.errors import RagtasksError

QUESTIONS: Mapping[str, str] = {
    "faithfulness": "Everything that it says is in the passages or the conversation.",
    "appropriateness": "It gives what the user asked for, and nothing beside it.",
    "naturalness": "It reads like a helpful person in this conversation.",
    "completeness": "It holds all that the user needs, as far as the passages hold it.",
}
"""Property -> the statement that raters agree with."""
SCALE: Mapping[int, str] = {1: "no", 2: "mostly no", 3: "mostly yes", 4: "yes"}
"""Rating -> its word, as in the official file."""

_Choice = Literal["first", "second", "tie"]


class FormError(RagtasksError):
    """A form that leaves something out, or holds what was not asked."""


class Form(BaseModel):
    """What one rater said of one item."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    ratings: dict[str, dict[str, int]]
    """System -> each property -> 1 to 4."""
    preferences: list[tuple[str, str, _Choice]]
    """Every two systems, and which is better."""
    versions: dict[str, str]
    """System -> hash of the answer that was rated."""
    seconds: float
    """How long the form was open."""


@dataclass(frozen=True, slots=True)
class Rated:
    """A form with who filled it in."""

    rater: str
    """Who."""
    item: ItemKey
    """What about."""
    form: Form
    """What was said."""
    time: float
    """Seconds since 1970."""


def order_for(pool: AnswerPool, item: ItemKey, rater: str, secret: bytes) -> list[str]:
    """Return the systems that answered an item in the order of one rater's form."""
    return shuffled(pool.answers_to(item), f"{secret.hex()} {rater} {item}")


def read_form(
    pool: AnswerPool, item: ItemKey, systems: Sequence[str], fields: Mapping[str, str], seconds: float
) -> Form:
    """Return the form of what a page sent.

    Args:
        pool: the answers.
        item: what was rated.
        systems: in the order shown: field names count them from 0.
        fields: `rating-PLACE-PROPERTY` -> 1 to 4, `pair-PLACE-PLACE` -> first, second or tie.
        seconds: how long it took.

    Raises:
        FormError: something is left out; the message names all of it by the letters shown.
    """
    letters = "ABCDEFGH"
    missing = [
        f"{name} of {letters[place]}"
        for place, name in itertools.product(range(len(systems)), FANC)
        if fields.get(f"rating-{place}-{name}") not in {str(value) for value in SCALE}
    ]
    pairs = list(itertools.combinations(range(len(systems)), 2))
    missing += [
        f"{letters[one]} or {letters[other]}"
        for one, other in pairs
        if fields.get(f"pair-{one}-{other}") not in {"first", "second", "tie"}
    ]
    if missing:
        raise FormError(f"still to be said: {', '.join(missing)}")
    answers = pool.answers_to(item)
    return Form.model_validate(
        {
            "ratings": {
                system: {name: int(fields[f"rating-{place}-{name}"]) for name in FANC}
                for place, system in enumerate(systems)
            },
            "preferences": [(systems[a], systems[b], fields[f"pair-{a}-{b}"]) for a, b in pairs],
            "versions": {system: answers[system].version for system in systems},
            "seconds": seconds,
        }
    )


def read_forms(pool: AnswerPool, rows: Sequence[tuple[str, str, str, float]]) -> tuple[list[Rated], int]:
    """Return the forms on these very answers, and how many were about others.

    Args:
        pool: the answers.
        rows: (rater, item, content, time), as `VoteStore.forms` gives them.
    """
    found: list[Rated] = []
    for rater, item, content, time in rows:
        key = tuple(item.split("\t"))
        try:
            form = Form.model_validate_json(content)
        except ValidationError:
            continue
        if len(key) == 3 and _is_about(pool, (key[0], key[1], key[2]), form):
            found.append(Rated(rater, (key[0], key[1], key[2]), form, time))
    return found, len(rows) - len(found)


def _is_about(pool: AnswerPool, item: ItemKey, form: Form) -> bool:
    answers = pool.answers_to(item)
    return {system: answer.version for system, answer in answers.items()} == form.versions


__all__ = ["QUESTIONS", "SCALE", "Form", "FormError", "Rated", "order_for", "read_form", "read_forms"]

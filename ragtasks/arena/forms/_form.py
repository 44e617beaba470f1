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


def distinct_answers(pool: AnswerPool, item: ItemKey) -> dict[str, tuple[str, ...]]:
    """Return the first system of each answer to an item -> all that gave it, passages included."""
    systems: dict[str, list[str]] = {}
    for system, answer in pool.answers_to(item).items():
        systems.setdefault(answer.version, []).append(system)
    return {own[0]: tuple(own) for own in systems.values()}


def order_for(pool: AnswerPool, item: ItemKey, rater: str, secret: bytes) -> list[str]:
    """Return the systems whose answers one rater's form shows, in its order; of equal answers the first system's."""
    return shuffled(distinct_answers(pool, item), f"{secret.hex()} {rater} {item}")


def compared(pool: AnswerPool, item: ItemKey, systems: Sequence[str]) -> list[tuple[int, int]]:
    """Return the places of every two systems whose texts differ: equal ones are a tie, and nobody is asked."""
    texts = [pool.answers_to(item)[system].response.text for system in systems]
    return [(one, other) for one, other in itertools.combinations(range(len(texts)), 2) if texts[one] != texts[other]]


def read_form(
    pool: AnswerPool, item: ItemKey, systems: Sequence[str], fields: Mapping[str, str], seconds: float
) -> Form:
    """Return the form of what a page sent; what was said of an answer is said of every system that gave it.

    Args:
        pool: the answers.
        item: what was rated.
        systems: in the order shown, as `order_for` gives them: field names count them from 0.
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
    pairs = compared(pool, item, systems)
    missing += [
        f"{letters[one]} or {letters[other]}"
        for one, other in pairs
        if fields.get(f"pair-{one}-{other}") not in {"first", "second", "tie"}
    ]
    if missing:
        raise FormError(f"still to be said: {', '.join(missing)}")
    answers, givers = pool.answers_to(item), distinct_answers(pool, item)
    place_of = {giver: place for place, system in enumerate(systems) for giver in givers[system]}
    choices = {(a, b): fields[f"pair-{a}-{b}"] for a, b in pairs}
    return Form.model_validate(
        {
            "ratings": {
                system: {name: int(fields[f"rating-{place}-{name}"]) for name in FANC}
                for system, place in place_of.items()
            },
            "preferences": [
                (one, other, choices.get((place_of[one], place_of[other]), "tie"))
                for one, other in itertools.combinations(place_of, 2)
            ],
            "versions": {system: answers[system].version for system in place_of},
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


__all__ = [
    "QUESTIONS",
    "SCALE",
    "Form",
    "FormError",
    "Rated",
    "compared",
    "distinct_answers",
    "order_for",
    "read_form",
    "read_forms",
]

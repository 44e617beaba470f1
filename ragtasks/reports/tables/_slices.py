"""Parts of the tasks: one value of one dimension each, as in the MTRAG paper's Table 16 and Figures 3, 9 and 10."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from ragtasks.logs import Row

_MOST_TURNS = 30  # longer dialogues would make a table of turns that nobody reads

ALL = "all"
"""The dimension of the one slice that has every task."""


@dataclass(frozen=True, slots=True)
class Slice:
    """A part of the tasks: one value of one dimension."""

    dimension: str
    """Such as `domain`."""
    value: str
    """Such as `fiqa`; empty for all tasks."""
    holds: Callable[[Row], bool]
    """Whether a row belongs to it."""


def slices_of(rows: Sequence[Row]) -> Iterator[Slice]:
    """Yield all tasks, then every slice of each dimension in which the rows differ.

    The split by whether any passage is given matters where a benchmark gives none to exactly its unanswerable tasks:
    there an empty list alone tells what to refuse.
    """
    yield Slice(ALL, "", lambda _: True)
    yield from _labelled("answerability", rows, lambda row: (row.answerability,))
    yield from _turns(rows)
    yield from _labelled("domain", rows, lambda row: (row.domain,))
    yield from _labelled("question type", rows, lambda row: row.question_types)
    yield from _labelled("multi-turn type", rows, lambda row: (row.multi_turn,))
    yield from _labelled("passages", rows, lambda row: ("some" if row.n_passages else "none",))


def turn_slices(rows: Sequence[Row]) -> Iterator[Slice]:
    """Yield all tasks, first and later turns, then each turn."""
    yield Slice(ALL, "", lambda _: True)
    yield from _turns(rows)


def _turns(rows: Sequence[Row]) -> Iterator[Slice]:
    yield from _labelled("turn", rows, lambda row: ("first" if row.turn == 1 else "later",))
    if len({row.turn for row in rows}) <= _MOST_TURNS:
        yield from _numbered("turn by turn", rows, lambda row: row.turn)


def _labelled(dimension: str, rows: Sequence[Row], labels: Callable[[Row], tuple[str, ...]]) -> Iterator[Slice]:
    """Yield one slice for each label, none where all rows have the same; a row with several labels is in several."""

    def having(label: str) -> Slice:
        return Slice(dimension, label, lambda row: label in labels(row))

    found = sorted({label for row in rows for label in labels(row)})
    yield from (having(label) for label in found if len(found) > 1)


def _numbered(dimension: str, rows: Sequence[Row], number: Callable[[Row], int]) -> Iterator[Slice]:
    def at(place: int) -> Slice:
        return Slice(dimension, str(place), lambda row: number(row) == place)

    found = sorted({number(row) for row in rows})
    yield from (at(place) for place in found if len(found) > 1)


__all__ = ["ALL", "Slice", "slices_of", "turn_slices"]

"""What differs between two evaluations: their provenance first, then their means.

A difference of means says something only where both rest on the same data, encoder, judges and prompts; where they do
not, the causes are named. What else answers were asked with may be what a comparison is about: it is named too.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from ragtasks.errors import ConfigurationError
from ragtasks.logs import ASKED, causes_of
from ragtasks.reports.history._entries import Entry, Mean


@dataclass(frozen=True, slots=True)
class FieldDifference:
    """A field of provenance that differs."""

    name: str
    """Field."""
    first: str
    """What it is in the first evaluation."""
    second: str
    """What it is in the second."""


@dataclass(frozen=True, slots=True)
class MeanDifference:
    """The means of one metric."""

    metric: str
    """Name."""
    first: Mean | None
    """In the first evaluation; None where it does not have the metric."""
    second: Mean | None
    """In the second."""

    @property
    def difference(self) -> float | None:
        """Second minus first; None unless both have a value."""
        if self.first is None or self.second is None or self.first.value is None or self.second.value is None:
            return None
        return self.second.value - self.first.value


@dataclass(frozen=True, slots=True)
class Difference:
    """What differs between two entries."""

    first: Entry
    """One."""
    second: Entry
    """The other."""
    fields: tuple[FieldDifference, ...]
    """The fields of provenance that differ."""
    means: tuple[MeanDifference, ...]
    """Every metric that either has."""

    @property
    def causes(self) -> list[str]:
        """Why the scores do not compare: `data`, `encoder`, `retriever`, `judges`, `prompts`; empty where they do."""
        return causes_of(field.name for field in self.fields)

    @property
    def asked(self) -> list[str]:
        """The fields of `ASKED` that differ: the scores compare, but their answers were asked for otherwise."""
        return [field.name for field in self.fields if field.name in ASKED]


@dataclass(frozen=True, slots=True)
class Differences:
    """What differs between two results files."""

    pairs: tuple[Difference, ...]
    """Benchmarks and settings that both have; if each has one only, these two."""
    only_first: tuple[Entry, ...]
    """What the second file lacks."""
    only_second: tuple[Entry, ...]
    """What the first file lacks."""

    @property
    def comparable(self) -> bool:
        """Whether every score compares with its counterpart."""
        return not any(pair.causes for pair in self.pairs)


def diff_entries(first: Sequence[Entry], second: Sequence[Entry]) -> Differences:
    """Return what differs between the entries of two results files.

    Raises:
        ConfigurationError: they have no benchmark and setting in common, and more than one each could be meant.
    """
    ours, theirs = ({_place(entry): entry for entry in entries} for entries in (first, second))
    shared = [place for place in ours if place in theirs]
    if len(ours) == len(theirs) == 1:
        return Differences((_difference(first[0], second[0]),), (), ())
    if not shared:
        raise ConfigurationError(f"no benchmark and setting in common: {_places(first)} against {_places(second)}")
    return Differences(
        tuple(_difference(ours[place], theirs[place]) for place in shared),
        tuple(entry for place, entry in ours.items() if place not in theirs),
        tuple(entry for place, entry in theirs.items() if place not in ours),
    )


def _place(entry: Entry) -> tuple[str, str, str]:
    return (entry.benchmark, entry.provenance["suite"], entry.setting)


def _places(entries: Iterable[Entry]) -> str:
    return ", ".join(f"{entry.title} {entry.setting}" for entry in entries)


def _difference(first: Entry, second: Entry) -> Difference:
    fields = [FieldDifference(name, first.provenance[name], second.provenance[name]) for name in first.provenance]
    names = dict.fromkeys([*first.means, *second.means])
    means = [MeanDifference(name, first.means.get(name), second.means.get(name)) for name in names]
    return Difference(first, second, tuple(field for field in fields if field.first != field.second), tuple(means))


__all__ = ["Difference", "Differences", "FieldDifference", "MeanDifference", "diff_entries"]

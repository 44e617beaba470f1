"""What the page opens with: the conclusion's scores as marks with intervals, and where the loss is as stacked bars.

Only what stands in a table is drawn. All places are in percent of one axis, so that a browser draws them as wide as the
screen is, in the colours of the theme.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from ragtasks.metrics import Metric
from ragtasks.reports.tables import CLASSES, NO_LOSS, is_baseline
from ragtasks.tables import Section, Table, Value, fixed

N_COLOURS = 6
_SETTING, _MODEL, _N, _MAIN = range(4)


@dataclass(frozen=True, slots=True)
class Mark:
    """One model in one setting."""

    model: str
    """Name for the tables."""
    colour: str
    """Class of its colour: a number, or `grey` for a baseline beside models."""
    n: int
    """Responses."""
    score: Value
    """The main score, which has a value."""
    x: float
    """Its place on the axis, in percent."""
    low: float
    """Lower end of its interval there; `x` where it has none."""
    width: float
    """How wide the interval is there; 0 where it has none."""


@dataclass(frozen=True, slots=True)
class Piece:
    """What one class of losses contributes."""

    name: str
    """The class."""
    kind: int
    """Number of its colour."""
    value: float
    """Contribution to the mean loss, above 0."""
    x: float
    """Where it begins on the axis, in percent."""
    width: float
    """How wide it is there."""


@dataclass(frozen=True, slots=True)
class Opening:
    """The two pictures of a section."""

    metric: str
    """The main metric."""
    axis: tuple[str, str]
    """What the ends of the first picture's axis are."""
    groups: Mapping[str, tuple[Mark, ...]]
    """Setting -> its models."""
    alt: str
    """What the first picture shows, in words."""
    bars: Mapping[str, tuple[Piece, ...]]
    """Model -> what it loses, class by class; empty where no model has both settings."""
    loss: str
    """What the second picture shows, in words."""


def opening(section: Section) -> Opening | None:
    """Return the pictures of a section's conclusion, None where it has none."""
    table = section.conclusion
    if table is None:
        return None
    groups = _groups(table)
    values = [one.score for marks in groups.values() for one in marks]
    ends = _ends([end for one in values for end in (one.value, one.low, one.high) if end is not None])
    metric = table.columns[_MAIN]
    placed = {name: tuple(_placed(one, ends) for one in marks) for name, marks in groups.items()}
    loss = next((line for line in table.legend if line.startswith("Where the loss is")), "")
    return Opening(metric, (f"{ends[0]:g}", f"{ends[1]:g}"), placed, _finding(metric, placed), _bars(section), loss)


def best_cells(table: Table, metrics: Mapping[str, Metric]) -> frozenset[tuple[int, int]]:
    """Return row and column of the best scores of each setting: equal scores are all best.

    Args:
        table: any; without a column of settings and one of models nothing is marked.
        metrics: by name; of one that is not here, or of which neither direction is better, nothing is marked.
    """
    if table.columns[:2] != ("setting", "model"):
        return frozenset()
    has_models = any(not is_baseline(str(row[_MODEL])) for row in table.rows)
    found = set()
    for column, name in enumerate(table.columns):
        direction = metrics[name].higher_is_better if name in metrics else None
        sign = 0 if direction is None else 1 if direction else -1
        by_setting: dict[object, dict[int, float]] = {}
        for place, row in enumerate(table.rows):
            cell = row[column]
            is_ranked = not (has_models and is_baseline(str(row[_MODEL])))
            if sign and is_ranked and isinstance(cell, Value) and cell.value is not None and not cell.missing:
                by_setting.setdefault(row[_SETTING], {})[place] = sign * float(fixed(cell.value))
        for scores in by_setting.values():
            if len(set(scores.values())) > 1:
                found |= {(place, column) for place, value in scores.items() if value == max(scores.values())}
    return frozenset(found)


def _groups(table: Table) -> dict[str, list[Mark]]:
    colours = _colours(list(dict.fromkeys(str(row[_MODEL]) for row in table.rows)))
    groups: dict[str, list[Mark]] = {}
    for row in table.rows:
        score, n = row[_MAIN], row[_N]
        if isinstance(score, Value) and score.value is not None and isinstance(n, int):
            model = str(row[_MODEL])
            groups.setdefault(str(row[_SETTING]), []).append(Mark(model, colours[model], n, score, 0.0, 0.0, 0.0))
    return groups


def _colours(models: Sequence[str]) -> dict[str, str]:
    """Return model -> colour; baselines are grey where there are models to tell from them."""
    coloured = [model for model in models if not is_baseline(model)] or list(models)
    return {model: str(coloured.index(model) % N_COLOURS) if model in coloured else "grey" for model in models}


def _ends(values: Sequence[float]) -> tuple[float, float]:
    """Return the ends of the one axis of all settings: 0 to 1, or as far as scores beyond these reach."""
    return min(0.0, *values, 0.0), max(1.0, *values, 1.0)


def _placed(mark: Mark, ends: tuple[float, float]) -> Mark:
    low, high = mark.score.low, mark.score.high

    def place(value: float) -> float:
        return round(100 * (value - ends[0]) / (ends[1] - ends[0]), 2)

    x = place(mark.score.value or 0.0)
    left, right = (x, x) if low is None or high is None else (place(low), place(high))
    return Mark(mark.model, mark.colour, mark.n, mark.score, x, left, round(right - left, 2))


def _finding(metric: str, groups: Mapping[str, Sequence[Mark]]) -> str:
    """Return the largest and the smallest score of each setting, in words."""
    found = []
    for setting, marks in groups.items():
        ordered = sorted(marks, key=lambda one: -(one.score.value or 0.0))
        ends = [ordered[0], *([ordered[-1]] if len(ordered) > 1 else [])]
        found.append(f"{setting}: {' down to '.join(f'{one.model} {fixed(one.score.value or 0.0)}' for one in ends)}")
    return f"{metric} by setting. {'; '.join(found)}."


def _bars(section: Section) -> dict[str, tuple[Piece, ...]]:
    lost = dict(_lost(section))
    longest = max((sum(parts.values()) for parts in lost.values()), default=0.0)
    return {model: tuple(_pieces(parts, longest)) for model, parts in lost.items()} if longest else {}


def _lost(section: Section) -> Iterator[tuple[str, dict[str, float]]]:
    """Yield each model with what its classes contribute to the loss, those above 0, from the section's own tables."""
    metric = section.conclusion.columns[_MAIN] if section.conclusion else ""
    head = f"Where the loss is: {metric}, "
    for table in section.tables:
        if table.title.startswith(head) and "contribution" in table.columns:
            place = table.columns.index("contribution")
            cells = {str(row[0]): row[place] for row in table.rows}
            yield (
                table.title.removeprefix(head),
                {
                    name: cell.value
                    for name in CLASSES
                    if name != NO_LOSS and isinstance(cell := cells.get(name), Value) and cell.value and cell.value > 0
                },
            )


def _pieces(parts: Mapping[str, float], longest: float) -> Iterator[Piece]:
    x = 0.0
    for name, value in parts.items():
        width = 100 * value / longest
        yield Piece(name, CLASSES.index(name), value, round(x, 2), round(width, 2))
        x += width


__all__ = ["N_COLOURS", "Mark", "Opening", "Piece", "best_cells", "opening"]

"""What is drawn of a report's tables: panels with groups along an axis and a series of scores a model."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from ragtasks.reports.tables import is_baseline
from ragtasks.tables import Cell, Section, Table, Value, fixed

_MANY_GROUPS = 9  # labels below so many groups are printed smaller
_LABEL_SIZE, _SMALL_LABEL_SIZE = 8.0, 6.5
_ROW_SLOTS = 80  # bars or points of one row of panels that can still be told apart
_LETTER_SLOTS = 0.58  # what a letter of a label is wide, capitals included
_SETTINGS_HEADS, _DIMENSION_HEADS = ("setting", "model", "n"), ("dimension", "value", "n")
_WHISKERS = "lines: 95 % intervals over conversations"
_PALE = "pale: over fewer tasks than the setting has, not to be ranked with the others"
_RESTS_ON = ("encoder of BERTScore", "IDK detector")


@dataclass(frozen=True, slots=True)
class Panel:
    """One pair of axes."""

    title: str
    """A metric, or a dimension."""
    groups: tuple[str, ...]
    """Labels along the axis."""
    series: Mapping[str, Mapping[str, Value]]
    """Model -> group -> score that has a value; a model may lack a group."""
    is_of_settings: bool
    """Whether the groups are settings; else they are the values of a dimension."""


@dataclass(frozen=True, slots=True)
class Picture:
    """One file."""

    name: str
    """Its name, without the ending."""
    caption: str
    """Titles of its section and its table."""
    finding: str
    """What it shows, in words."""
    title: str
    """What stands above the panels: the caption, and what the scores rest on."""
    rows: tuple[tuple[Panel, ...], ...]
    """Panels, row by row."""
    models: tuple[str, ...]
    """All models of the panels, in the order of the table."""


def pictures_of(sections: Sequence[Section]) -> Iterator[Picture]:
    """Yield every picture; two sections of one title still have names of their own."""
    for number, section in enumerate(sections, start=1):
        known = section.provenance
        provenance = "; ".join(f"{name}: {known[name]}" for name in _RESTS_ON if name in known)
        for table in section.tables:
            panels = [panel for panel in _panels(table) if panel.series]
            if panels:
                name = re.sub(r"[^a-z0-9]+", "_", f"{number} {section.title} {table.title}".lower()).strip("_")
                whiskers = _WHISKERS if any(map(_has_interval, panels)) else ""
                caption = f"{section.title}: {table.title}"
                pale = _PALE if any(map(_has_missing, panels)) else ""
                title = "\n".join(line for line in (caption, provenance, whiskers, pale) if line)
                models = tuple(dict.fromkeys(model for panel in panels for model in panel.series))
                yield Picture(name, caption, _finding(panels), title, tuple(_rows(panels)), models)


def _panels(table: Table) -> Iterator[Panel]:
    """Yield a panel a metric, or a panel a dimension; nothing for a table of another shape."""
    if table.columns[:3] == _SETTINGS_HEADS:
        for place, metric in enumerate(table.columns[3:], start=3):
            counted = _counted(table)
            cells = [(f"{row[0]}\nn={counted[str(row[0])]}", str(row[1]), row[place]) for row in table.rows]
            if not metric.endswith("coverage"):
                yield _panel(metric, cells, is_of_settings=True)
    if table.columns[:3] == _DIMENSION_HEADS:
        models = table.columns[3:]
        for dimension in dict.fromkeys(str(row[0]) for row in table.rows):
            rows = [row for row in table.rows if row[0] == dimension]
            cells = [
                (f"{row[1] or 'tasks'}\nn={row[2]}", model, cell)
                for row in rows
                for model, cell in zip(models, row[3:], strict=True)
            ]
            yield _panel(dimension, cells, is_of_settings=False)


def _panel(title: str, cells: Sequence[tuple[str, str, Cell]], *, is_of_settings: bool) -> Panel:
    """Return a panel of (group, model, cell); what has no value leaves a gap: a bar of no height would read as 0."""
    series: dict[str, dict[str, Value]] = {}
    for group, model, cell in cells:
        if isinstance(cell, Value) and cell.value is not None:
            series.setdefault(model, {})[group] = cell
    return Panel(title, tuple(dict.fromkeys(group for group, *_ in cells)), series, is_of_settings)


def _counted(table: Table) -> dict[str, str]:
    """Return setting -> responses of each model, the fewest and the most of them where they differ."""
    counts: dict[str, list[int]] = {}
    for row in table.rows:
        if isinstance(row[2], int):
            counts.setdefault(str(row[0]), []).append(row[2])
    ends = {setting: (min(own), max(own)) for setting, own in counts.items()}
    return {setting: f"{low}" if low == high else f"{low} to {high}" for setting, (low, high) in ends.items()}


def _finding(panels: Sequence[Panel]) -> str:
    """Return the highest and the lowest score: of the settings' first metric, or of a dimension by the first model."""
    first = _without_baselines(panels[0])
    if first.is_of_settings:
        found = []
        for group in first.groups:
            means = {model: own[group].value or 0.0 for model, own in first.series.items() if group in own}
            found += [f"{group.split(chr(10))[0]}: {_ends(means)}"] if means else []
        return f"{first.title} by setting. {'; '.join(found)}."
    model, scores = max(first.series.items(), key=lambda item: max(score.value or 0.0 for score in item[1].values()))
    said = [f"{model}: {first.title} {fixed(next(iter(scores.values())).value or 0.0)}"]
    for panel in panels[1:]:
        own = panel.series.get(model, {})
        if len(own) > 1:
            said.append(
                f"{panel.title}: {_ends({group.split(chr(10))[0]: one.value or 0.0 for group, one in own.items()})}"
            )
    return f"{'; '.join(said)}."


def _without_baselines(panel: Panel) -> Panel:
    models = {model: scores for model, scores in panel.series.items() if not is_baseline(model)}
    return replace(panel, series=models or panel.series)


def _ends(scores: Mapping[str, float]) -> str:
    ordered = sorted(scores, key=lambda name: -scores[name])
    ends = [ordered[0], *([ordered[-1]] if len(ordered) > 1 else [])]
    return " down to ".join(f"{name} {fixed(scores[name])}" for name in ends)


def _has_interval(panel: Panel) -> bool:
    return any(score.low is not None for scores in panel.series.values() for score in scores.values())


def _has_missing(panel: Panel) -> bool:
    return any(score.missing for scores in panel.series.values() for score in scores.values())


def _rows(panels: Sequence[Panel]) -> list[tuple[Panel, ...]]:
    """Return the panels in rows, each panel in the first that has room for it."""
    rows: list[list[Panel]] = []
    for panel in panels:
        room = (row for row in rows if sum(map(slots, row)) + slots(panel) <= _ROW_SLOTS)
        row = next(room, None)
        if row is None:
            rows.append(row := [])
        row.append(panel)
    return [tuple(row) for row in rows]


def slots(panel: Panel) -> float:
    """Return the room that a panel needs: for its bars or points, and for the labels below them."""
    longest = max(len(line) for group in panel.groups for line in group.split("\n"))
    label = (longest + 1) * _LETTER_SLOTS * label_size(panel) / _LABEL_SIZE
    return len(panel.groups) * max(3, len(panel.series) + 1, label)


def label_size(panel: Panel) -> float:
    """Return the size of a panel's labels: smaller where there are many."""
    return _LABEL_SIZE if len(panel.groups) < _MANY_GROUPS else _SMALL_LABEL_SIZE


__all__ = ["Panel", "Picture", "label_size", "pictures_of", "slots"]

"""Charts of a report's tables: panels with groups along an axis and one series of scores per model."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from ragtasks.reports.tables import COSTS, FRONT, ON_FRONT, SURVIVAL, SURVIVAL_HEADS, is_baseline
from ragtasks.tables import Cell, Section, Table, Value, fixed

_SETTINGS_HEADS = (("setting", "model", "n"), ("benchmark", "run", "n"))
_DIMENSION_HEADS = ("dimension", "value", "n")


@dataclass(frozen=True, slots=True)
class Panel:
    """One pair of axes."""

    title: str
    """A metric, or a dimension."""
    groups: tuple[str, ...]
    series: Mapping[str, Mapping[str, Value]]
    """Model -> group -> score with a value. A model may have no value for a group."""
    is_of_settings: bool
    """Whether the groups are settings; otherwise they are the values of a dimension."""
    on_front: tuple[str, ...] = ()
    """For quality against cost: the models that no other model beats. The groups are then the cost and the quality."""
    is_survival: bool = False
    """Whether the scores are survival curves. The groups are then the turns, each with its conversations at risk."""


@dataclass(frozen=True, slots=True)
class Picture:
    """The panels of one table."""

    section: Section
    table: Table
    panels: tuple[Panel, ...]

    @property
    def caption(self) -> str:
        """Titles of the section and the table."""
        return f"{self.section.title}: {self.table.title}"

    @property
    def models(self) -> tuple[str, ...]:
        """All models of the panels, in the order of the table."""
        return tuple(dict.fromkeys(model for panel in self.panels for model in panel.series))


def pictures_of(sections: Sequence[Section]) -> Iterator[Picture]:
    """Yield a picture for each table that can be drawn."""
    for section in sections:
        for table in section.tables:
            if panels := panels_of(table):
                yield Picture(section, table, panels)


def panels_of(table: Table) -> tuple[Panel, ...]:
    """Return one panel per metric, per dimension, or per setting for a front. () for a table of another shape."""
    return tuple(panel for panel in _panels(table) if panel.series)


def _panels(table: Table) -> Iterator[Panel]:
    if table.columns[-1:] == (FRONT,):
        for setting in dict.fromkeys(str(row[0]) for row in table.rows):
            yield from _front_panel(table, setting)
    if table.columns[:2] == SURVIVAL_HEADS and SURVIVAL in table.columns:
        curve = table.columns.index(SURVIVAL)
        counted = _counted(table)
        reached = [row for row in table.rows if row[2]]  # else there is no share
        cells = [(f"{row[0]}\n{counted[str(row[0])]}", str(row[1]), row[curve]) for row in reached]
        yield replace(_panel(f"share of conversations with {SURVIVAL}", cells, is_of_settings=False), is_survival=True)
    if table.columns[:2] == _SETTINGS_HEADS[0][1:]:  # the user's own rows have no setting
        own = tuple(("your rows", *row) for row in table.rows)
        table = replace(table, columns=("setting", *table.columns), rows=own)
    if table.columns[:3] in _SETTINGS_HEADS:
        counted = _counted(table)
        for index, metric in enumerate(table.columns[3:], start=3):
            cells = [(f"{row[0]}\nn={counted[str(row[0])]}", str(row[1]), row[index]) for row in table.rows]
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


def _front_panel(table: Table, setting: str) -> Iterator[Panel]:
    """Yield the systems of a setting by quality and by the first cost that all of them have."""
    rows = {str(row[1]): row for row in table.rows if row[0] == setting and row[-1] != "-"}
    quality = table.columns[2]
    for cost in (name for name in COSTS if name in table.columns):
        index = table.columns.index(cost)
        series = {
            model: {cost: x, quality: y}
            for model, row in rows.items()
            if isinstance(x := row[index], Value) and isinstance(y := row[2], Value) and x.value is not None
        }
        if series and len(series) == len(rows):
            best = tuple(model for model, row in rows.items() if row[-1] == ON_FRONT)
            yield Panel(f"{quality} in {setting}", (cost, quality), series, is_of_settings=False, on_front=best)
            return


def _panel(title: str, cells: Sequence[tuple[str, str, Cell]], *, is_of_settings: bool) -> Panel:
    """Return a panel of (group, model, cell). A missing value leaves a gap, as a bar without height would read as 0."""
    series: dict[str, dict[str, Value]] = {}
    for group, model, cell in cells:
        if isinstance(cell, Value) and cell.value is not None:
            series.setdefault(model, {})[group] = cell
    return Panel(title, tuple(dict.fromkeys(group for group, *_ in cells)), series, is_of_settings)


def _counted(table: Table) -> dict[str, str]:
    """Return setting or turn -> number of responses or conversations per model, as a range if it differs."""
    counts: dict[str, list[int]] = {}
    for row in table.rows:
        if isinstance(row[2], int):
            counts.setdefault(str(row[0]), []).append(row[2])
    ends = {setting: (min(values), max(values)) for setting, values in counts.items()}
    return {setting: f"{low}" if low == high else f"{low} to {high}" for setting, (low, high) in ends.items()}


def finding(panels: Sequence[Panel]) -> str:
    """Return the highest and the lowest score: by setting for the first metric, or by dimension for the first model."""
    if panels[0].on_front:
        return " ".join(
            f"{panel.title} against {panel.groups[0]}, on the front: {', '.join(panel.on_front)}." for panel in panels
        )
    if panels[0].is_survival:
        last = {model: list(scores.items())[-1] for model, scores in panels[0].series.items()}
        shares = (
            f"{model} {fixed(cell.value or 0.0)} after turn {group.split(chr(10))[0]}"
            for model, (group, cell) in last.items()
        )
        return f"{panels[0].title}: {', '.join(shares)}."
    models = {model: scores for model, scores in panels[0].series.items() if not is_baseline(model)}
    first = replace(panels[0], series=models or panels[0].series)
    if first.is_of_settings:
        texts = []
        for group in first.groups:
            means = {model: values[group].value or 0.0 for model, values in first.series.items() if group in values}
            texts += [f"in {group.split(chr(10))[0]} {ends_of(means)}"] if means else []
        return f"{first.title}: {'; '.join(texts)}."
    model, scores = max(first.series.items(), key=lambda pair: max(score.value or 0.0 for score in pair[1].values()))
    sentences = [f"{model}: {first.title} {fixed(next(iter(scores.values())).value or 0.0)}"]
    for panel in panels[1:]:
        values = panel.series.get(model, {})
        if len(values) > 1:
            means = {group.split("\n")[0]: score.value or 0.0 for group, score in values.items()}
            sentences.append(f"{panel.title}: {ends_of(means)}")
    return f"{'; '.join(sentences)}."


def ends_of(scores: Mapping[str, float]) -> str:
    """Return the highest and the lowest score with their names, in words."""
    ordered = sorted(scores, key=lambda name: -scores[name])
    ends = [ordered[0], *([ordered[-1]] if len(ordered) > 1 else [])]
    return " down to ".join(f"{name} {fixed(scores[name])}" for name in ends)

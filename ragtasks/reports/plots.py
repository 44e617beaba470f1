"""Pictures of a report's tables."""

from __future__ import annotations

import itertools
import math
import re
import textwrap
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ragtasks.errors import ConfigurationError
from ragtasks.files import canonical_hash
from ragtasks.reports.panels import Panel, Picture, finding, pictures_of
from ragtasks.reports.tables import is_baseline
from ragtasks.requirements import importing
from ragtasks.tables import Section, Value

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure as Canvas


# Pictures of a report's tables: settings side by side as bars, dimensions as points, turn by turn as lines, survival as
# steps. Only cells of a table are drawn, with their intervals, and no mean is computed here. Baselines are grey next to
# models. Scores between 0 and 1 share one scale, and no line passes through a score of one task. Drawing does not use
# pyplot, so it needs no window system and does not change the caller's state.

# Okabe and Ito's palette, which is safe for color-blind readers. Marks distinguish models with equal colors.
_COLOURS = ("#0072B2", "#E69F00", "#009E73", "#CC79A7", "#56B4E9", "#D55E00")
_GREYS = ("#8a8a8a", "#bbbbbb", "#5a5a5a", "#d5d5d5")
_MARKS = ("o", "s", "^", "D", "v", "P")
_HATCHES = ("", "//", "..", "xx")
_DASHES = ("-", "--", ":", "-.")
_GROUP_WIDTH = 0.8
_ROW_INCHES, _LINE_INCHES = 3.2, 0.22
_PANEL_INCHES, _BELOW_INCHES = 2.4, 0.45  # of a row's height; a panel's own title is above it
_SCALE_INCHES, _MARGIN_INCHES = 0.55, 0.1  # left of each panel, and right of the last one
_LEGEND_COLUMNS, _LEGEND_INCHES, _LEGEND_LETTER_INCHES = 3, 0.75, 0.085  # maximum columns, and the width of an entry
_TITLE_LETTER_INCHES = 0.095
_STYLE: dict[Any, Any] = {
    "font.size": 9,
    "axes.edgecolor": "#444444",
    "axes.grid": True,
    "axes.grid.axis": "y",
    "axes.axisbelow": True,
    "axes.titley": 1.0,  # the default place; without it, each picture is laid out twice
    "axes.spines.top": False,
    "axes.spines.right": False,
    "grid.color": "#dddddd",
    "grid.linewidth": 0.6,
    "hatch.color": "white",
    "svg.hashsalt": "ragtasks",
    "text.parse_math": False,  # a model's name is the user's own text: dollar signs in it are no formula
}
_TURNS = "turn by turn"
_WIDTH, _DOTS_PER_INCH = 12.0, 100  # inches
_ROW_SLOTS = 80  # maximum bars or points of one row of panels
_MANY_GROUPS = 9  # from this number of groups on, labels are smaller
_LABEL_SIZE, _SMALL_LABEL_SIZE = 8.0, 6.5
_LETTER_SLOTS = 0.58  # width of a letter of a label, for capitals
_WHISKERS = "lines: 95 % intervals over conversations"
_BANDS = "bands: 95 % intervals; below each turn: conversations without a failure before it"
_DOTTED = "dotted: the front of quality against cost"
_PALE = "pale: tasks are missing, so the score is not comparable"
_RESTS_ON = ("encoder of BERTScore", "IDK detector")
_WIDE_RANGE = 10  # from this ratio of costs on, their scale is logarithmic
_FRONT_SLOTS = 26.0
_PALENESS = 0.35
_LONGEST_NAME = 100  # characters of a picture's file name
_BEYOND = 0.06  # margin above 1, for points on it


_Looks = Mapping[str, tuple[str, str, str]]
"""Model -> (color, mark, hatch), equal in all panels of a picture."""


def plot_sections(sections: Sequence[Section], folder: Path) -> list[Path]:
    """Draw the tables as PNG files into a folder, and return their paths; [] without suitable tables.

    There is one picture per table of settings or dimensions. The same tables give the same bytes. Each file also
    contains a description as text. Existing files with these names are replaced.
    """
    paths = [
        (picture, folder / f"{_file_name(number, picture)}.png")
        for number, section in enumerate(sections, start=1)
        for picture in pictures_of([section])
    ]
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise _unsaved(folder, error) from error
    return [draw_picture(picture, path) for picture, path in paths]


PICTURE_FORMATS = (".png", ".svg", ".pdf")
"""File name endings of supported formats."""


def draw_picture(picture: Picture, path: Path) -> Path:
    """Draw a picture and return `path`. The title comes first, then the legend, then the panels.

    Raises:
        ConfigurationError: an unsupported file name ending, or an unwritable path.
    """
    if path.suffix.lower() not in PICTURE_FORMATS:
        raise ConfigurationError(
            "drawing a picture",
            where=str(path),
            expected=f"a file name that ends in {', '.join(PICTURE_FORMATS)}",
            found=path.name,
            next_step="choose another name",
        )
    with importing("matplotlib", "report", "a picture of scores"):
        import matplotlib as mpl
        from matplotlib.backends.backend_agg import FigureCanvasAgg
    defaults = dict[Any, Any](mpl.rcParamsDefault)
    defaults.pop("backend", None)  # setting it loads pyplot
    with mpl.rc_context({**defaults, **_STYLE}):
        canvas = _canvas(picture)
        try:
            if path.suffix.lower() == ".png":
                # Not `savefig`, which first draws everything once more: this layout needs no trial.
                agg: Any = FigureCanvasAgg(canvas)  # its method is not typed
                agg.print_png(path, metadata={"Software": "ragtasks", "Description": finding(picture.panels)})
            else:
                canvas.savefig(path, metadata={"Date": None} if path.suffix.lower() == ".svg" else None)
        except OSError as error:
            raise _unsaved(path, error) from error
    return path


def _unsaved(path: Path, error: OSError) -> ConfigurationError:
    return ConfigurationError(
        "drawing a picture",
        where=str(error.filename or path),
        expected="a folder to write to",
        found=error.strerror or str(error),
        next_step="name another path",
    )


def _file_name(number: int, picture: Picture) -> str:
    """Return a file name that is unique even if two sections have the same title."""
    text = f"{number} {picture.section.title} {picture.table.title}"
    name = re.sub(r"[^a-z0-9]+", "_", text.lower()).strip("_")
    return name if len(name) <= _LONGEST_NAME else f"{name[:_LONGEST_NAME]}_{canonical_hash(name)[:8]}"


def _title(picture: Picture) -> str:
    """Return the text above the panels: the caption, the basis of the scores, and explanations of signs."""
    fields, panels = picture.section.provenance, picture.panels
    scores = [score for panel in panels for values in panel.series.values() for score in values.values()]
    lines = [picture.caption, "; ".join(f"{name}: {fields[name]}" for name in _RESTS_ON if name in fields)]
    if panels[0].is_survival:
        lines += [_BANDS]
    elif any(score.low is not None for score in scores):
        lines += [_WHISKERS]
    lines += [_DOTTED] * any(panel.on_front for panel in panels)
    lines += [_PALE] * any(score.missing for score in scores)
    return "\n".join(part for line in lines if line for part in textwrap.wrap(line, int(_WIDTH / _TITLE_LETTER_INCHES)))


def _canvas(picture: Picture) -> Canvas:
    from matplotlib.figure import Figure as Canvas

    title, rows = _title(picture), _rows(picture.panels)
    # The legend has as many columns as fit.
    entry = _LEGEND_INCHES + _LEGEND_LETTER_INCHES * max(map(len, picture.models))
    n_columns = max(1, min(_LEGEND_COLUMNS, len(picture.models), int(_WIDTH / entry)))
    head = _LINE_INCHES * (title.count("\n") + 1.5)
    top = head + _LINE_INCHES * (-(-len(picture.models) // n_columns) + 0.5)
    height = top + _ROW_INCHES * len(rows)
    canvas = Canvas(figsize=(_WIDTH, height), dpi=_DOTS_PER_INCH, facecolor="white")
    looks, handles = _looks(picture.models), dict[str, Any]()
    for number, row in enumerate(rows, start=1):
        bottom = height - top - number * _ROW_INCHES + _BELOW_INCHES
        for panel, (left, panel_width) in zip(row, _widths(row), strict=True):
            box = (left / _WIDTH, bottom / height, panel_width / _WIDTH, _PANEL_INCHES / height)
            handles |= _draw_panel(canvas.add_axes(box), panel, looks)
    _align(canvas.get_axes())
    canvas.suptitle(title, fontsize=11, y=1 - _LINE_INCHES / 2 / height)
    # Created by hand: a legend that is made of labels leaves out names that begin with an underscore.
    drawn = [handles[model] for model in picture.models]
    anchor: dict[str, Any] = {"loc": "upper center", "bbox_to_anchor": (0.5, 1 - head / height), "borderaxespad": 0.0}
    canvas.legend(drawn, picture.models, ncols=n_columns, frameon=False, **anchor)
    return canvas


def _widths(row: Sequence[Panel]) -> Iterator[tuple[float, float]]:
    """Yield left edge and width of each panel in inches, in proportion to its bars or points."""
    room = _WIDTH - _MARGIN_INCHES - _SCALE_INCHES * len(row)
    left = 0.0
    for panel in row:
        left += _SCALE_INCHES
        width = room * _slots(panel) / sum(map(_slots, row))
        yield left, width
        left += width


def _looks(models: Sequence[str]) -> _Looks:
    """Return the style of each model. If colors run out, they repeat with another mark and hatch."""
    looks = {}
    coloured = [model for model in models if not is_baseline(model)] or list(models)
    for colours, chosen in ((_COLOURS, coloured), (_GREYS, [model for model in models if model not in coloured])):
        for index, model in enumerate(chosen):
            again = index // len(colours)
            looks[model] = (colours[index % len(colours)], _MARKS[again % len(_MARKS)], _HATCHES[again % len(_HATCHES)])
    return looks


def _draw_front(axes: Axes, panel: Panel, looks: _Looks) -> dict[str, Any]:
    """Draw quality over cost: one point per system with both intervals, and a line through the front."""
    handles = {}
    for model, scores in panel.series.items():
        colour, mark, _ = looks[model]
        cost, quality = scores[panel.groups[0]], scores[panel.groups[1]]
        style: dict[str, Any] = {"color": colour, "marker": mark, "markersize": 6, "linestyle": "none", "capsize": 2.0}
        handles[model] = axes.errorbar(
            [cost.value or 0.0], [quality.value or 0.0], xerr=_reaches([cost]), yerr=_reaches([quality]), **style
        )
    best = [panel.series[model] for model in panel.on_front]
    points = sorted((values[panel.groups[0]].value or 0.0, values[panel.groups[1]].value or 0.0) for values in best)
    axes.plot([x for x, _ in points], [y for _, y in points], color="#444444", linestyle=":", linewidth=1.0, zorder=0)
    costs = [scores[panel.groups[0]].value or 0.0 for scores in panel.series.values()]
    if min(costs) > 0 and max(costs) > _WIDE_RANGE * min(costs):
        axes.set_xscale("log", subs=[2, 5])
        axes.xaxis.set_major_formatter("{x:g}")
        axes.xaxis.set_minor_formatter("{x:g}")
    else:
        axes.set_xlim(left=0.0)
    axes.set_title(panel.title, loc="left", fontsize=10)
    axes.set_xlabel(f"{panel.groups[0]} (lower is better)", fontsize=_LABEL_SIZE, labelpad=1)
    axes.tick_params(axis="x", which="both", labelsize=_LABEL_SIZE)
    return handles


def _draw_survival(axes: Axes, panel: Panel, looks: _Looks) -> dict[str, Any]:
    """Draw a step at each turn, from the share 1 before the first turn, with the intervals as bands."""
    handles = {}
    dashes = dict(zip(looks, itertools.cycle(_DASHES), strict=False))
    for model, scores in panel.series.items():
        colour, mark, _ = looks[model]
        steps = list(scores.values())
        positions = [-0.5, *range(len(steps)), len(steps) - 0.5]
        shares = [step.value or 0.0 for step in steps]
        style: dict[str, Any] = {"color": colour, "marker": mark, "markersize": 4, "markevery": slice(1, -1)}
        (handles[model],) = axes.step(
            positions, [1.0, *shares, *shares[-1:]], where="post", linewidth=1.4, linestyle=dashes[model], **style
        )
        lows = [math.nan if step.low is None else step.low for step in steps]
        highs = [math.nan if step.high is None else step.high for step in steps]
        band: dict[str, Any] = {"step": "post", "color": colour, "alpha": 0.14, "linewidth": 0}
        axes.fill_between(positions[1:], [*lows, lows[-1]], [*highs, highs[-1]], **band)
    every = math.ceil(_slots(panel) / _ROW_SLOTS)
    axes.set_title(panel.title, loc="left", fontsize=10)
    axes.set_xticks(range(0, len(panel.groups), every), panel.groups[::every], fontsize=_label_size(panel))
    axes.set_xlim(-0.5, len(panel.groups) - 0.5)
    return handles


def _draw_panel(axes: Axes, panel: Panel, looks: _Looks) -> dict[str, Any]:
    """Draw a panel, and return model -> its handle in the legend."""
    if panel.on_front:
        return _draw_front(axes, panel, looks)
    if panel.is_survival:
        return _draw_survival(axes, panel, looks)
    handles = {}
    width = _GROUP_WIDTH / len(panel.series)
    for index, (model, scores) in enumerate(panel.series.items()):
        shift = (index + 0.5) * width - _GROUP_WIDTH / 2
        points = {position + shift: scores[group] for position, group in enumerate(panel.groups) if group in scores}
        handles[model] = _draw_series(axes, panel, model, points, looks[model])
    axes.set_title(panel.title, loc="left", fontsize=10)
    axes.set_xticks(range(len(panel.groups)), panel.groups, fontsize=_label_size(panel))
    axes.set_xlim(-0.5, len(panel.groups) - 0.5)
    return handles


def _draw_series(
    axes: Axes, panel: Panel, model: str, points: Mapping[float, Value], look: tuple[str, str, str]
) -> Any:
    colour, mark, hatch = look
    positions, values = list(points), [score.value or 0.0 for score in points.values()]
    whiskers: dict[str, Any] = {"elinewidth": 1.0, "capsize": 2.0}
    reaches = _reaches(points.values())
    if panel.is_of_settings:
        width = 0.92 * _GROUP_WIDTH / len(panel.series)
        axes.errorbar(positions, values, yerr=reaches, fmt="none", ecolor="#222222", **whiskers)
        bars = axes.bar(positions, values, width, color=colour, hatch=hatch, label=model)
        for bar, score in zip(bars, points.values(), strict=True):
            bar.set_alpha(_PALENESS if score.missing else None)
        return bars
    line = "-" if panel.title == _TURNS else "none"
    style: dict[str, Any] = {"color": colour, "marker": mark, "markersize": 4, "linestyle": line, "linewidth": 1.0}
    if any(score.missing for score in points.values()):
        style["alpha"] = _PALENESS
    drawn = axes.errorbar(positions, values, yerr=reaches, label=model, **style | {"linestyle": "none"}, **whiskers)
    joined = [position for position, score in points.items() if score.n_scored > 1]
    if line == "-" and len(joined) > 1:
        axes.plot(joined, [points[position].value or 0.0 for position in joined], **style | {"marker": ""})
    return drawn


def _align(panels: Sequence[Axes]) -> None:
    """Extend every axis to 0, and give scores between 0 and 1 the same scale."""
    ends = [axes.get_ylim() for axes in panels]
    for axes, (low, high) in zip(panels, ends, strict=True):
        is_share = low >= -_BEYOND and high <= 1 + _BEYOND
        bottom = 0.0 if axes.patches else -_BEYOND / 2  # a point on the axis would be cut in half
        axes.set_ylim(*((bottom, 1 + _BEYOND) if is_share else (min(0.0, low), high)))


def _reaches(scores: Iterable[Value]) -> list[list[float]]:
    """Return the distances of each interval's ends from its mean. 0, which draws nothing, without an interval."""
    below, above = [], []
    for score in scores:
        value, low, high = score.value, score.low, score.high
        reach = None if value is None or low is None or high is None else (value - low, high - value)
        below.append(reach[0] if reach else 0.0)
        above.append(reach[1] if reach else 0.0)
    return [below, above]


def _rows(panels: Sequence[Panel]) -> list[list[Panel]]:
    """Return the panels in rows, each panel in the first row with space for it."""
    rows: list[list[Panel]] = []
    for panel in panels:
        room = (row for row in rows if sum(map(_slots, row)) + _slots(panel) <= _ROW_SLOTS)
        row = next(room, None)
        if row is None:
            rows.append(row := [])
        row.append(panel)
    return rows


def _slots(panel: Panel) -> float:
    """Return the width of a panel in slots, for its bars or points and their labels."""
    if panel.on_front:
        return _FRONT_SLOTS
    longest = max(len(line) for group in panel.groups for line in group.split("\n"))
    label = (longest + 1) * _LETTER_SLOTS * _label_size(panel) / _LABEL_SIZE
    return len(panel.groups) * max(3, len(panel.series) + 1, label)


def _label_size(panel: Panel) -> float:
    return _LABEL_SIZE if len(panel.groups) < _MANY_GROUPS else _SMALL_LABEL_SIZE

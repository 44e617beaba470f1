"""A calibration as a picture: one panel a weighting, one group of bars a human value, one bar a column.

Drawn on a score of its own, without pyplot, so that no window system and no state of the caller is involved.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from ragtasks.errors import ConfigurationError, MissingExtraError, clear_error
from ragtasks.reports.calibration._records import HUMAN, PAPER_TABLE_7, PUBLISHED, Calibration, Correlation, Weighting

if TYPE_CHECKING:
    from matplotlib.axes import Axes

PICTURE_FORMATS = (".png", ".svg", ".pdf")
"""File name endings that can be drawn."""

# Okabe and Ito's palette, which colour-blind readers can tell apart too; black is kept for the paper's scores.
_COLOURS = ("#0072B2", "#E69F00", "#009E73", "#CC79A7", "#56B4E9", "#D55E00", "#F0E442", "#999999")
_HATCHES = ("", "//", "..", "xx")
_GROUP_WIDTH = 0.8
_PAPER = "the paper's Table 7"
_ROOM_OF_A_SCORE = 0.07  # height of a written score, in units of the correlation
_STYLE: dict[Any, Any] = {
    "font.size": 10,
    "axes.facecolor": "white",
    "axes.edgecolor": "#444444",
    "svg.hashsalt": "ragtasks",
}


def plot_calibration(calibration: Calibration, path: Path, *, with_reference: bool = True) -> Path:
    """Return `path` after drawing the correlations there, on a light background.

    Columns without a correlation leave a gap. The paper's win-rate scores are drawn as black lines over its own
    columns, where the reference answers are included as in its Table 7.

    Args:
        calibration: what to draw.
        path: a file ending in one of `PICTURE_FORMATS`; an existing one is replaced, its folder must exist.
        with_reference: whether the rows with the reference answers are drawn, or those without.

    Raises:
        ConfigurationError: another ending, or a folder that cannot be written to.
        MissingExtraError: matplotlib is not installed.
    """
    if path.suffix.lower() not in PICTURE_FORMATS:
        raise _error(path, "a name that ends in " + ", ".join(PICTURE_FORMATS), path.name, "choose another name")
    try:
        import matplotlib as mpl
        from matplotlib.figure import Figure
    except ImportError as error:
        raise MissingExtraError("matplotlib", "report", "a picture of the calibration") from error
    with mpl.rc_context({**mpl.rcParamsDefault, **_STYLE}):
        canvas = Figure(figsize=(10, 3.2 * len(Weighting)), dpi=150, facecolor="white", layout="constrained")
        panels = canvas.subplots(len(Weighting), 1, sharex=True, sharey=True)
        for panel, weighting in zip(panels, Weighting, strict=True):
            _draw(panel, calibration, weighting, with_reference=with_reference)
        _label(canvas, panels, calibration, with_reference=with_reference)
        try:
            canvas.savefig(path, metadata={"Date": None} if path.suffix.lower() == ".svg" else None)
        except OSError as error:
            raise _error(path, "a file that can be written", error.strerror or str(error), "name another") from error
    return path


def _draw(panel: Axes, calibration: Calibration, weighting: Weighting, *, with_reference: bool) -> None:
    columns = list(dict.fromkeys((cell.metric, cell.source) for cell in calibration.correlations))
    width = _GROUP_WIDTH / len(columns)
    for index, column in enumerate(columns):
        cells = [
            cell
            for cell in calibration.correlations
            if (cell.metric, cell.source, cell.weighting, cell.with_reference) == (*column, weighting, with_reference)
        ]
        offset = (index + 0.5) * width - _GROUP_WIDTH / 2
        places = [HUMAN.index(cell.human) + offset for cell in cells]
        # A missing correlation is NaN here, which draws nothing: a bar of no height would read as 0.
        heights = [float("nan") if cell.score.value is None else cell.score.value for cell in cells]
        colour, hatch = _COLOURS[index % len(_COLOURS)], _HATCHES[index // len(_COLOURS) % len(_HATCHES)]
        label = f"{column[0]} ({column[1]})"
        panel.bar(places, heights, width * 0.92, color=colour, hatch=hatch, edgecolor="white", label=label)
        if len(columns) * len(HUMAN) <= 30:  # more scores than this would run into each other
            _write_scores(panel, places, cells)
        for place, cell in zip(places, cells, strict=True):
            if (line := _line_of(cell)) is not None:
                panel.hlines(line, place - width / 2, place + width / 2, "black", linewidth=2.5, label=_PAPER)
    panel.axhline(0, color="#444444", linewidth=0.8)
    panel.set_title(weighting.value, loc="left", fontsize=11)
    panel.grid(axis="y", color="#dddddd", linewidth=0.6)
    panel.set_axisbelow(True)


def _write_scores(panel: Axes, places: list[float], cells: list[Correlation]) -> None:
    """Write each correlation at the end of its bar, clear of the paper's line."""
    for place, cell in zip(places, cells, strict=True):
        value = cell.score.value
        if value is None:
            continue
        line = _line_of(cell)
        end = line if line is not None and 0 <= line - value < _ROOM_OF_A_SCORE else value
        side = 1 if value >= 0 else -1
        panel.annotate(
            f"{value:.2f}",
            (place, end),
            xytext=(0, 3 * side),
            textcoords="offset points",
            ha="center",
            va="bottom" if side > 0 else "top",
            fontsize=8,
        )


def _line_of(cell: Correlation) -> float | None:
    """Return the paper's score for a bar: its own columns, the win-rate, the reference answers included."""
    is_paper = cell.with_reference and cell.source == PUBLISHED and cell.human == HUMAN[0]
    return PAPER_TABLE_7.get(cell.metric) if is_paper else None


def _label(canvas: Any, panels: Any, calibration: Calibration, *, with_reference: bool) -> None:
    n_answers = next((c.n_answers for c in calibration.correlations if c.with_reference == with_reference), 0)
    rows = "with" if with_reference else "without"
    canvas.suptitle(
        f"Spearman correlation of metrics with people: {n_answers} ANSWERABLE answers, {rows} the reference answers\n"
        f"(human values: {calibration.consolidation.value} of the raters)",
        fontsize=12,
    )
    panels[-1].set_xticks(range(len(HUMAN)), [name.replace("_", "-") for name in HUMAN])
    for panel in panels:
        panel.set_ylabel("correlation")
        panel.margins(y=0.15)
    # One entry for all of the paper's lines, and that after the bars.
    handles = dict(sorted(zip(*reversed(panels[0].get_legend_handles_labels()), strict=True), key=_is_paper))
    canvas.legend(
        handles.values(), handles.keys(), loc="outside lower center", ncols=min(4, len(handles)), frameon=False
    )


def _is_paper(entry: tuple[str, Any]) -> bool:
    return entry[0] == _PAPER


def _error(path: Path, expected: str, found: str, next_step: str) -> ConfigurationError:
    message = clear_error("drawing a picture", where=str(path), expected=expected, found=found, next_step=next_step)
    return ConfigurationError(message)


__all__ = ["PICTURE_FORMATS", "plot_calibration"]

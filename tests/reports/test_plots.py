"""Pictures of tables: the drawn tables, the ends of intervals, and gaps for missing values."""

from __future__ import annotations

import itertools
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from ragtasks.errors import ConfigurationError, MissingExtraError
from ragtasks.reports.plots import plot_sections
from ragtasks.tables import Cell, Section, Table, Value

pytest.importorskip("matplotlib")
import numpy as np
from matplotlib import rcParams
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure as Canvas

FACTS = {"encoder of BERTScore": "minilm", "IDK detector": "ngrams-2"}
NOTHING = Value(None, 0, 5)


def score(value: float) -> Value:
    return Value(value, 5, 5, value - 0.1, value + 0.2)


def settings(*rows: tuple[Cell, ...], metrics: tuple[str, ...] = ("rb_alg",)) -> Table:
    return Table("By setting", ("setting", "model", "n", *metrics), rows)


def dimensions(*rows: tuple[Cell, ...], models: tuple[str, ...] = ("a", "b")) -> Table:
    return Table("rb_alg in setting reference", ("dimension", "value", "n", *models), rows)


@pytest.fixture
def drawn(monkeypatch: pytest.MonkeyPatch) -> list[Canvas]:
    """The canvases that were saved."""
    saved: list[Canvas] = []
    save = FigureCanvasAgg.print_png

    def keep(canvas: FigureCanvasAgg, *given: Any, **options: Any) -> None:
        saved.append(canvas.figure)
        save(canvas, *given, **options)

    monkeypatch.setattr(FigureCanvasAgg, "print_png", keep)
    return saved


def panel(canvas: Canvas, title: str) -> Axes:
    (found,) = (axes for axes in canvas.get_axes() if axes.get_title(loc="left") == title)
    return found


def whiskers(axes: Axes) -> list[tuple[float, float]]:
    """Return the ends of all intervals, in the order in which they were drawn."""
    return [
        (float(segment[0][1]), float(segment[1][1]))
        for lines in axes.collections
        for segment in lines.get_segments()  # type: ignore[attr-defined]
    ]


def test_settings_are_bars_with_the_heights_of_the_table(tmp_path: Path, drawn: list[Canvas]) -> None:
    table = settings(
        ("reference", "a", 5, score(0.5), score(0.9)),
        ("full_rag", "a", 5, score(0.25), score(0.8)),
        ("full_rag", "b", 5, NOTHING, score(0.7)),
        metrics=("rb_alg", "coverage"),
    )
    (path,) = plot_sections([Section("mtrag (sample)", FACTS, (table,))], tmp_path / "new")
    assert path == tmp_path / "new" / "1_mtrag_sample_by_setting.png"
    assert path.read_bytes().startswith(b"\x89PNG")
    (canvas,) = drawn
    # Coverage is not a score of a model, and a missing value is a gap: neither is drawn or named.
    (axes,) = canvas.get_axes()
    assert axes.get_title(loc="left") == "rb_alg"
    assert [bar.get_height() for bar in axes.patches] == [0.5, 0.25]  # type: ignore[attr-defined]
    assert whiskers(axes) == [pytest.approx((0.4, 0.7)), pytest.approx((0.15, 0.45))]
    assert [text.get_text() for text in axes.get_xticklabels()] == ["reference\nn=5", "full_rag\nn=5"]
    assert axes.get_ylim()[0] == 0
    title = canvas.get_suptitle()
    assert "mtrag (sample): By setting" in title
    assert "encoder of BERTScore: minilm; IDK detector: ngrams-2" in title
    assert "95 % intervals over conversations" in title


def test_dimensions_are_points_and_turns_are_lines_on_one_scale(tmp_path: Path, drawn: list[Canvas]) -> None:
    table = dimensions(
        ("all", "", 9, score(0.5), score(0.6)),
        ("turn by turn", "1", 5, score(0.4), NOTHING),
        ("turn by turn", "2", 4, score(0.6), Value(-0.5, 4, 4)),
        ("domain", "fiqa", 9, NOTHING, NOTHING),
    )
    plot_sections([Section("mtrag", FACTS, (table,))], tmp_path)
    (canvas,) = drawn
    assert [axes.get_title(loc="left") for axes in canvas.get_axes()] == ["all", "turn by turn"]
    turns = panel(canvas, "turn by turn")
    assert [text.get_text() for text in turns.get_xticklabels()] == ["1\nn=5", "2\nn=4"]
    a, b = (container.lines[0] for container in turns.containers)  # type: ignore[attr-defined]
    assert list(a.get_ydata()) == [0.4, 0.6]
    assert [list(line.get_ydata()) for line in turns.get_lines() if line.get_linestyle() == "-"] == [[0.4, 0.6]]
    assert list(b.get_ydata()) == [-0.5]
    assert b.get_xdata()[0] > a.get_xdata()[1] > 0.5  # side by side above the second turn
    (point, _) = (container.lines[0] for container in panel(canvas, "all").containers)  # type: ignore[attr-defined]
    assert point.get_linestyle() == "None"
    assert panel(canvas, "all").get_ylim() == (-0.03, 1.06)
    assert turns.get_ylim()[0] < -0.5


def test_a_model_looks_the_same_in_all_panels_and_baselines_are_grey(tmp_path: Path, drawn: list[Canvas]) -> None:
    models = (*(f"m{number}" for number in range(8)), "ragtasks-oracle")
    rows = [("reference", model, 5, score(0.5), score(0.6) if model != "m0" else NOTHING) for model in models]
    plot_sections([Section("mtrag", FACTS, (settings(*rows, metrics=("rb_alg", "rl_f")),))], tmp_path)
    looks: list[dict[str, tuple[object, ...]]] = [
        {
            container.get_label(): (container[0].get_facecolor(), container[0].get_hatch())  # type: ignore[index]
            for container in axes.containers
            if str(container.get_label()) in models
        }
        for axes in drawn[0].get_axes()
    ]
    assert list(looks[0]) == list(models)
    assert "m0" not in looks[1]
    assert all(looks[0][model] == look for model, look in looks[1].items())
    assert len(set(looks[0].values())) == len(models)
    red, green, blue, _ = looks[0]["ragtasks-oracle"][0]  # type: ignore[misc]
    assert red == green == blue
    (legend,) = drawn[0].legends
    assert [text.get_text() for text in legend.get_texts()] == list(models)


def test_no_line_passes_through_a_turn_of_one_task(tmp_path: Path, drawn: list[Canvas]) -> None:
    rows = [("turn by turn", str(turn), n, Value(0.1 * turn, n, n)) for turn, n in ((1, 5), (2, 4), (3, 1))]
    plot_sections([Section("mtrag", {}, (dimensions(*rows, models=("m",)),))], tmp_path)
    (axes,) = drawn[0].get_axes()
    lines = [list(line.get_ydata()) for line in axes.get_lines() if line.get_linestyle() == "-"]
    assert lines == [pytest.approx([0.1, 0.2])]
    assert len(axes.containers[0].lines[0].get_ydata()) == 3  # type: ignore[attr-defined]


def test_baselines_alone_have_colours(tmp_path: Path, drawn: list[Canvas]) -> None:
    rows = [("reference", model, 5, score(0.5)) for model in ("ragtasks-oracle", "ragtasks-refuse")]
    plot_sections([Section("mtrag", FACTS, (settings(*rows),))], tmp_path)
    colours = {bar.get_facecolor() for bar in drawn[0].get_axes()[0].patches}
    assert len(colours) == 2
    assert all(len(set(colour[:3])) > 1 for colour in colours)  # type: ignore[index]


def test_without_intervals_no_whisker_is_drawn_or_mentioned(tmp_path: Path, drawn: list[Canvas]) -> None:
    plot_sections([Section("mtrag", {}, (settings(("reference", "a", 5, Value(0.5, 5, 5))),))], tmp_path)
    assert drawn[0].get_suptitle() == "mtrag: By setting"
    assert whiskers(panel(drawn[0], "rb_alg")) == [(0.5, 0.5)]


def test_parts_of_a_picture_do_not_overlap_or_leave_it(tmp_path: Path, drawn: list[Canvas]) -> None:
    models = tuple(f"model-{number}" for number in range(13))
    values = {"all": ("",), "turn by turn": tuple("123456789"), "domain": ("clapnq", "cloud", "fiqa", "govt")}
    rows = [
        (name, value, 100, *(score(0.1 * (number % 7)) for number in range(13)))
        for name, own in values.items()
        for value in own
    ]
    plot_sections([Section("mtrag", FACTS, (dimensions(*rows, models=models),))], tmp_path)
    (canvas,) = drawn
    renderer = FigureCanvasAgg(canvas).get_renderer()
    assert len(canvas.get_axes()) == 3
    parts = [axes.get_tightbbox(renderer) for axes in canvas.get_axes()]
    parts += [canvas.legends[0].get_window_extent(renderer), canvas.texts[0].get_window_extent(renderer)]
    for first, second in itertools.combinations(parts, 2):
        assert not first.overlaps(second)
    assert all(box.x0 >= 0 and box.y0 >= 0 and box.x1 <= canvas.bbox.x1 and box.y1 <= canvas.bbox.y1 for box in parts)


def test_labels_of_an_axis_never_overlap(tmp_path: Path, drawn: list[Canvas]) -> None:
    labels = ("ANSWERABLE", "PARTIAL", "UNANSWERABLE", "UNDERSPECIFIED")
    kinds = ("Comparative", "Composite", "Explanation", "Factoid", "How-To", "Keyword", "Non-Question", "Opinion")
    values = {"all": ("",), "answerability": labels, "turn": ("first", "later"), "question type": (*kinds, *labels)}
    rows = [(name, value, 842, score(0.5)) for name, own in values.items() for value in own]
    of_settings = tuple((name, "m", 842, *[score(0.5)] * 5) for name in ("reference", "reference_rag", "full_rag"))
    tables = (dimensions(*rows, models=("m",)), settings(*of_settings, metrics=tuple("abcde")))
    plot_sections([Section("mtrag", FACTS, tables)], tmp_path)
    for canvas in drawn:
        renderer = FigureCanvasAgg(canvas).get_renderer()
        for axes in canvas.get_axes():
            boxes = [label.get_window_extent(renderer) for label in axes.get_xticklabels()]
            assert len(boxes) == len(axes.get_xticks()) > 0
            assert all(first.x1 < second.x0 for first, second in itertools.pairwise(boxes))


def test_drawing_loads_no_window_system(tmp_path: Path) -> None:
    code = f"""
import sys
from pathlib import Path
from ragtasks.reports.plots import plot_sections
plot_sections([], Path({str(tmp_path)!r}))
sys.exit("matplotlib.pyplot" in sys.modules)
"""
    subprocess.run([sys.executable, "-c", code], check=True)


def test_other_tables_are_not_drawn(tmp_path: Path) -> None:
    empty = settings(("reference", "a", 5, NOTHING))
    other = Table("Loss from reference to full_rag", ("class", "tasks"), (("no loss", 3),))
    assert plot_sections([Section("mtrag", FACTS, (empty, other))], tmp_path) == []
    assert plot_sections([], tmp_path) == []


def test_sections_with_equal_names_have_separate_pictures(tmp_path: Path) -> None:
    sections = [Section("mtrag", FACTS, (settings(("reference", "a", 5, score(0.5))),))] * 2
    drawn = plot_sections(sections, tmp_path)
    assert [path.name for path in drawn] == ["1_mtrag_by_setting.png", "2_mtrag_by_setting.png"]


def test_the_same_tables_give_the_same_bytes_with_any_style_of_the_caller(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Names with signs that matplotlib would read as a formula, or leave out of the legend.
    sections = [Section("mtrag", FACTS, (settings(("reference", r"$\frac$ _hidden_", 5, score(0.5))),))]
    (first,) = plot_sections(sections, tmp_path / "a")
    monkeypatch.setitem(rcParams, "font.size", 30.0)
    (second,) = plot_sections(sections, tmp_path / "b")
    assert first.read_bytes() == second.read_bytes()


def test_a_name_that_begins_with_an_underscore_is_in_the_legend(tmp_path: Path, drawn: list[Canvas]) -> None:
    plot_sections([Section("mtrag", FACTS, (settings(("reference", "_own", 5, score(0.5))),))], tmp_path)
    assert [text.get_text() for text in drawn[0].legends[0].get_texts()] == ["_own"]


def test_a_folder_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(ConfigurationError, match="file"):
        plot_sections([Section("mtrag", FACTS, (settings(("reference", "a", 5, score(0.5))),))], tmp_path / "file")


def test_without_matplotlib_the_extra_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    with pytest.raises(MissingExtraError, match=r"ragtasks\[report\]"):
        plot_sections([Section("mtrag", FACTS, (settings(("reference", "a", 5, score(0.5))),))], tmp_path)


def test_pictures_with_long_similar_titles_have_unique_names(tmp_path: Path) -> None:
    tables = tuple(
        replace(settings(("reference", "a", 5, score(0.5))), title=f"Turn errors: {'m' * 300}{end}") for end in "ab"
    )
    paths = plot_sections([Section("mtrag", FACTS, tables)], tmp_path)
    assert len({path.name for path in paths}) == 2
    assert all(path.is_file() and len(path.name) < 140 for path in paths)


def curve(n_turns: int, *models: str) -> Table:
    """Return a table of survival: each turn a tenth of the first model's conversations fail, and of each next, more."""
    rows = [
        (turn, model, 40 - turn, 1, Value(0.9**turn, 9, 9, 0.8**turn, 0.95**turn), Value(0.1, 9, 9))
        for turn in range(1, n_turns + 1)
        for model in models
    ]
    heads = ("turn", "model", "at risk", "first failures", "no failure yet", "failed turns")
    return Table("Conversations by turn", heads, tuple(rows))


def test_survival_is_a_step_at_each_turn_with_a_band(tmp_path: Path, drawn: list[Canvas]) -> None:
    plot_sections([Section("s", {}, (curve(3, "a", "b"),))], tmp_path)
    (axes,) = drawn[0].get_axes()
    first, second = axes.lines
    assert list(first.get_xdata()) == [-0.5, 0, 1, 2, 2.5]
    assert [float(y) for y in np.asarray(first.get_ydata())] == pytest.approx([1.0, 0.9, 0.81, 0.729, 0.729])
    assert first.get_drawstyle() == "steps-post"
    assert (first.get_linestyle(), first.get_color()) != (second.get_linestyle(), second.get_color())
    assert [label.get_text() for label in axes.get_xticklabels()] == ["1\n39", "2\n38", "3\n37"]
    band = axes.collections[0].get_paths()[0].vertices
    assert {round(float(y), 3) for y in band[:, 1]} >= {0.8, 0.64, 0.512, 0.95}
    assert "bands: 95 % intervals" in drawn[0].get_suptitle()


def test_labels_of_many_turns_do_not_overlap(tmp_path: Path, drawn: list[Canvas]) -> None:
    plot_sections([Section("s", {}, (curve(30, "a"),))], tmp_path)
    (axes,) = drawn[0].get_axes()
    boxes = [label.get_window_extent() for label in axes.get_xticklabels()]
    assert 10 < len(boxes) <= 30
    assert all(left.x1 < right.x0 for left, right in itertools.pairwise(boxes))

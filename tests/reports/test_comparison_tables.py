"""Comparisons as Markdown: names that would break it, directions, and signs."""

from __future__ import annotations

import itertools
from dataclasses import replace

from ragtasks.reports.comparison import compare_evaluations, comparison_sections, comparisons_text, concluded_runs
from ragtasks.statistics import Column, Comparisons, compare_columns
from ragtasks.tables import Format, p_text, render
from tests.reports._rows import changed, evaluation, row

ZEROS, SOME_BETTER = [0.0] * 20, [1.0] * 5 + [0.0] * 15


def column(name: str, *values: float, metric: str = "rb_alg", context: str = "mtrag") -> Column:
    """Return a column with one value per conversation."""
    scores = {f"c{number}": value for number, value in enumerate(values)}
    return Column(context, "reference", metric, name, scores, {item: item for item in scores})


def csv_of(found: Comparisons) -> str:
    return comparisons_text(found, Format.CSV, group="", name="", items="")


def text_of(found: Comparisons) -> str:
    return render(comparison_sections(found, group="setting", name="model", items="tasks"), Format.MARKDOWN)


def rendered(*columns: Column) -> list[str]:
    return text_of(compare_columns(columns)).splitlines()


def cells(lines: list[str], *holding: str) -> list[list[str]]:
    """Return the rows of tables that contain all of these texts."""
    found = [line for line in lines if line.startswith("|") and all(text in line for text in holding)]
    return [[cell.strip() for cell in line.strip("|").split(" | ")] for line in found]


def test_a_metric_shows_that_lower_is_better() -> None:
    for higher_is_better, shown in ((True, "empty"), (None, "empty"), (False, "empty (lower is better)")):
        sides = (column("a", 0.0, metric="empty"), column("b", 1.0, metric="empty"))
        lines = rendered(*(replace(side, higher_is_better=higher_is_better) for side in sides))
        assert [row[2] for row in cells(lines, "empty") if len(row) == 9] == [shown, shown]
        (pair,) = (row for row in cells(lines, "empty") if len(row) > 9)
        assert pair[1] == shown


def test_columns_have_the_direction_of_the_evaluations_metrics() -> None:
    rows = [row(number, float(number > 1), conversation_id=f"c{number}") for number in range(1, 4)]
    rows = [changed(answer, values={**answer.values, "empty": 0.0, "idk_yes": 0.0}) for answer in rows]
    sides = [evaluation(rows, model=model) for model in "ab"]
    found = compare_evaluations(sides, metrics=["rb_alg", "empty", "idk_yes"])
    assert {mean.column.metric: mean.column.higher_is_better for mean in found.means} == {
        "rb_alg": True,
        "empty": False,
        "idk_yes": None,
    }


def test_a_newline_or_an_escape_in_a_name_breaks_neither_row_nor_heading() -> None:
    named = [column(name, 0.5, context="mtrag; max_words: 50 for a\nb") for name in ("a\nb", "c\x1b[2J\u2028d")]
    lines = rendered(*named)
    assert lines[0] == r"# mtrag; max_words: 50 for a\nb"
    (pair,) = cells(lines, r"a\nb", r"c\x1b[2J\u2028d")
    assert pair[2:4] == [r"a\nb", r"c\x1b[2J\u2028d"]
    assert all(line.endswith("|") for line in lines if line.startswith("|"))


def test_p_agrees_with_the_interval() -> None:
    """Of 20 conversations, 5 are better and the others equal."""
    sides = [replace(column(name, *values), bounds=(0.0, 1.0)) for name, values in (("a", ZEROS), ("b", SOME_BETTER))]
    result = compare_columns(sides)
    (pair,) = result.pairs
    assert (pair.p <= 0.05) == (pair.difference.low > 0)
    text = text_of(result)
    assert "(!)" not in text
    assert "with the statistic of the interval: at most 0.05 exactly if the interval excludes 0" in text
    assert csv_of(result).splitlines()[0].endswith(",n_unshared,no_interval_because")


def test_csv_contains_no_formulas() -> None:
    found = compare_columns([column("=cmd()", 0.5), column("-", 0.25)])
    assert [line.split(",")[3:5] for line in csv_of(found).splitlines()[1:]] == [["'=cmd()", "-"]]


def test_a_difference_that_rounds_to_zero_has_no_sign() -> None:
    gaps = [sign * number / 100_000 for number, sign in zip(range(1, 21), itertools.cycle((1, -1)), strict=False)]
    lines = rendered(column("a", *[0.5] * 20), column("b", *(0.5 + gap for gap in gaps)))
    (pair,) = cells(lines, "a", "b", "reference | rb_alg")
    assert pair[6] == "0.000 [0.000, 0.000]"


def test_other_differences_have_their_sign() -> None:
    (up,), (down,) = (
        [row for row in cells(rendered(column("x", first), column("y", second)), "x", "y") if len(row) > 9]
        for first, second in ((0.25, 0.5), (0.5, 0.25))
    )
    assert (up[6], down[6]) == ("+0.250", "-0.250")


def test_every_number_of_a_pair_is_in_its_column() -> None:
    found = compare_columns([column("a", *ZEROS), column("b", *SOME_BETTER)])
    (pair,) = found.pairs
    assert pair.detectable is not None
    heads = cells(text_of(found).splitlines(), "detectable")[0]
    (shown,) = (row for row in cells(text_of(found).splitlines(), "a", "b", "reference") if len(row) == len(heads))
    named = dict(zip(heads, shown, strict=True))
    assert (named["n"], named["conversations"], named["unshared"]) == ("20", "20", "0")
    assert named["detectable"] == f"{pair.detectable:.3f}"
    head, line = (text.split(",") for text in csv_of(found).splitlines())
    full = dict(zip(head, line, strict=True))
    assert (full["context"], full["group"], full["metric"]) == ("mtrag", "reference", "rb_alg")
    assert (full["first"], full["second"]) == ("a", "b")
    numbers = {name: float(full[name]) for name in ("first_mean", "second_mean", "difference", "low", "high", "p")}
    assert (numbers["first_mean"], numbers["second_mean"], numbers["difference"]) == (0.0, 0.25, 0.25)
    assert (numbers["low"], numbers["high"]) == (pair.difference.low, pair.difference.high)
    assert numbers["p"] == pair.p
    assert (full["n_items"], full["n_conversations"], full["n_unscored"], full["n_unshared"]) == ("20", "20", "0", "0")


def test_the_conclusion_of_runs_names_the_best_run_and_the_significance_of_its_lead() -> None:
    def both(name: str, *values: float) -> list[Column]:
        return [column(name, *values, metric=metric) for metric in ("nDCG@5", "R@5")]

    values = [number / 100 for number in range(20)]
    runs = {"low": [0.1 + value / 4 for value in values], "high": [0.5 + value for value in values]}
    runs["near"] = [0.5 + value + (0.01 if number % 2 else -0.02) for number, value in enumerate(values)]
    found = compare_columns([one for name, scores in runs.items() for one in both(name, *scores)])
    (section,) = comparison_sections(found, group="", name="run", items="queries")
    concluded = concluded_runs(section, found)
    by_name = {pair.second.name: pair for pair in found.pairs if pair.first.metric == "nDCG@5"}
    p = {name: p_text(pair.adjusted_p) for name, pair in by_name.items()}  # of the first run, `low`
    (near,) = (pair for pair in found.pairs if pair.first.metric == "nDCG@5" and pair.first.name == "high")
    assert concluded.sentence == (
        f"high has nDCG@5 0.595 over 20 queries, 0.005 ahead of near (not significant, p {p_text(near.adjusted_p)})."
    )
    assert [(row[1], row[2], row[5]) for row in concluded.conclusion.rows] == [
        ("low", 20, f"-0.471, significant, p {p['high']}"),
        ("high", 20, "best"),
        ("near", 20, f"-0.005, not significant, p {p_text(near.adjusted_p)}"),
    ]
    assert [table.title for table in concluded.tables] == ["Means", "Differences"]
    assert len(concluded.conclusion.legend) == 4, "how to read these"

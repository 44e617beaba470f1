"""Tables as text: what a reader sees, what a program reads back, and nothing in a name that breaks either."""

from __future__ import annotations

import csv
import io

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ragtasks.tables import Format, Section, Table, Value, cell_text, render

TABLE = Table(
    "By setting",
    ("setting", "model", "n", "rb_alg"),
    (("reference", "a", 3, Value(0.5, 3, 3, 0.4, 0.6)), ("full_rag", "bb", 12, Value(None, 0, 12))),
    "A note.",
)
SECTION = Section("mtrag (sample)", {"encoder of BERTScore": "minilm", "IDK detector": "ngrams-2"}, (TABLE,))


@pytest.mark.parametrize(
    ("cell", "text"),
    [
        ("word", "word"),
        (12, "12"),
        (Value(0.5, 2, 2), "0.500"),
        (Value(0.5, 1, 3), "0.500 (1/3)"),
        (Value(0.0, 1, 2), "0.000 (1/2)"),  # unscored is not zero
        (Value(0.5, 1, 3, 0.25, 1.0625), "0.500 [0.250, 1.062] (1/3)"),
        (Value(None, 0, 3), "-"),
        (Value(-0.0004, 2, 2, -0.0004, 0.0004), "0.000 [0.000, 0.000]"),
    ],
)
def test_a_mean_shows_its_coverage(cell: str | int | Value, text: str) -> None:
    assert cell_text(cell) == text


def test_markdown_is_aligned_and_has_the_basis_of_the_scores() -> None:
    assert render([SECTION], Format.MARKDOWN).splitlines() == [
        "# mtrag (sample)",
        "",
        "encoder of BERTScore: minilm; IDK detector: ngrams-2",
        "",
        "## By setting",
        "",
        "A note.",
        "",
        "| setting   | model |  n |               rb_alg |",
        "|-----------|-------|---:|---------------------:|",
        "| reference | a     |  3 | 0.500 [0.400, 0.600] |",
        "| full_rag  | bb    | 12 |                    - |",
    ]


def test_markdown_has_no_gap_without_provenance() -> None:
    assert "# t\n\n## By setting\n" in render([Section("t", {}, (TABLE,))], Format.MARKDOWN)


def test_csv_distinguishes_sections_with_one_title() -> None:
    other = Section("mtrag (sample)", {"encoder of BERTScore": "none", "IDK detector": "ngrams-2"}, (TABLE,))
    lines = list(csv.DictReader(io.StringIO(render([SECTION, other], Format.CSV))))
    assert [line["context"] for line in lines] == [
        f"mtrag (sample); encoder of BERTScore: {encoder}; IDK detector: ngrams-2"
        for encoder in ("minilm", "none")
        for _ in range(8)
    ]


def test_csv_has_a_line_a_cell_with_intervals_in_columns_of_their_own() -> None:
    lines = list(csv.DictReader(io.StringIO(render([SECTION], Format.CSV))))
    assert len(lines) == 8
    assert {line["section"] for line in lines} == {"mtrag (sample)"}
    score, missing = (line for line in lines if line["column"] == "rb_alg")
    assert [score[name] for name in ("row", "value", "low", "high", "n_scored", "n")] == [
        "1",
        "0.5",
        "0.4",
        "0.6",
        "3",
        "3",
    ]
    assert [missing[name] for name in ("row", "value", "low", "high", "n_scored", "n")] == ["2", "", "", "", "0", "12"]
    assert [line["text"] or line["value"] for line in lines[:3]] == ["reference", "a", "3"]


def test_latex_is_a_tabular_with_a_caption() -> None:
    lines = render([SECTION], Format.LATEX).splitlines()
    assert lines[0] == r"\begin{table}"
    assert lines[1] == (
        r"\caption{mtrag (sample). By setting. A note. encoder of BERTScore: minilm; IDK detector: ngrams-2.}"
    )
    assert lines[2:-2] == [
        r"\begin{tabular}{llrr}",
        r"\toprule",
        r"setting & model & n & rb\_alg \\",
        r"\midrule",
        r"reference & a & 3 & 0.500 [0.400, 0.600] \\",
        r"full\_rag & bb & 12 & - \\",
        r"\bottomrule",
    ]


def test_code_in_a_note_is_set_as_code_in_latex_only() -> None:
    table = Table("t_1", ("x",), ((1,),), 'Add `"run_1": 50%` to it, and a ` alone.')
    sections = [Section("s", {}, (table,))]
    code = r"\texttt{{\char34}run\_1{\char34}: 50\%}"
    assert rf"\caption{{s. t\_1. Add {code} to it, and a ` alone.}}" in render(sections, Format.LATEX)
    assert table.note in render(sections, Format.MARKDOWN)


def test_signs_of_latex_are_words_in_it() -> None:
    table = Table("x", ("model",), ((r"a_b&c%$#{}~^\d",), ('|<">',), ("[x]",), ("*",)))
    text = render([Section("s", {}, (table,))], Format.LATEX)
    assert r"a\_b\&c\%\$\#\{\}\textasciitilde{}\textasciicircum{}\textbackslash{}d \\" in text
    assert r"\textbar{}\textless{}{\char34}\textgreater{} \\" in text
    assert "\n{}[x] \\\\\n{}* \\\\" in text  # else a length, or the star, of the row's end before


@pytest.mark.parametrize(
    ("how", "shown"), [(Format.MARKDOWN, r"a\x1b[2J\nb"), (Format.LATEX, r"\textbackslash{}x1b[2J")]
)
def test_a_name_moves_no_terminal_and_breaks_no_line(how: Format, shown: str) -> None:
    name = "a\x1b[2J\nb"
    text = render([Section(name, {name: name}, (Table(name, (name,), ((name,),), name),))], how)
    assert text.count(shown) == 7  # a title, two of a fact, three of the table, and a cell
    assert "\x1b" not in text
    assert not [line for line in text.splitlines() if line.startswith("b")]


NAMES = st.text(st.characters(codec="utf-8", exclude_characters="\r"), min_size=1, max_size=20)


@given(NAMES)
def test_no_name_breaks_a_markdown_row(name: str) -> None:
    text = render([Section("s", {}, (Table("x", ("model", "n"), ((name, 1), ("a", 2))),))], Format.MARKDOWN)
    rows = [line for line in text.split("\n") if line.startswith("|")]
    assert len(rows) == 4
    assert {len(line.replace("\\|", "").split("|")) for line in rows} == {4}


@given(NAMES)
def test_a_csv_reader_gets_every_name_back(name: str) -> None:
    text = render([Section("s", {}, (Table("x", ("model",), ((name,),)),))], Format.CSV)
    (line,) = csv.DictReader(io.StringIO(text, newline=""))
    name = name.replace("\0", "\N{REPLACEMENT CHARACTER}")
    assert line["text"] in {name, f"'{name}"}
    assert line["text"].startswith(("=", "+", "-", "@")) == (name == "-")


def test_no_text_of_a_csv_is_a_formula_and_numbers_stay_as_they_are() -> None:
    names = ("=cmd()", "@SUM(1)", "+1", "-1", "-", "a=1")
    table = Table("=t", ("=c",), (*((name,) for name in names), (Value(-0.5, 1, 1, -1.0, 0.0),), (-3,)))
    lines = list(csv.DictReader(io.StringIO(render([Section("=s", {}, (table,))], Format.CSV))))
    assert [line["text"] for line in lines] == ["'=cmd()", "'@SUM(1)", "'+1", "'-1", "-", "a=1", "", ""]
    assert [(line["value"], line["low"], line["high"]) for line in lines[-2:]] == [
        ("-0.5", "-1.0", "0.0"),
        ("-3", "", ""),
    ]
    heads = {(line["context"], line["section"], line["table"], line["column"]) for line in lines}
    assert heads == {("'=s", "'=s", "'=t", "'=c")}


@pytest.mark.parametrize("how", [Format.MARKDOWN, Format.LATEX])
def test_no_sections_are_no_text(how: Format) -> None:
    assert render([], how) == ""


def test_a_table_without_rows_keeps_its_note() -> None:
    section = Section("s", {}, (Table("x", ("model",), (), "Nothing was scored."),))
    assert "Nothing was scored." in render([section], Format.MARKDOWN)
    assert "model" not in render([section], Format.MARKDOWN)
    assert render([section], Format.LATEX) == ""


@pytest.mark.parametrize(("name", "has_both"), [("short", True), ("a-model-with-a-very-long-name-" * 2, False)])
def test_a_conclusion_that_is_too_wide_keeps_the_interval_of_its_first_score_alone(name: str, has_both: bool) -> None:
    scores = (Value(0.5, 9, 9, 0.4, 0.6), Value(0.25, 9, 9, 0.2, 0.3))
    table = Table("Conclusion", ("setting", "model", "rb_alg", "ans_acc"), (("full_rag", name, *scores),))
    text = render([Section("mtrag", {}, (), table)], Format.MARKDOWN)
    assert "0.500 [0.400, 0.600]" in text
    assert ("0.250 [0.200, 0.300]" in text) is has_both
    assert '"low": 0.2' in render([Section("mtrag", {}, (), table)], Format.JSON)

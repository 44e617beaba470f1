"""How numbers and names are written in tables."""

from __future__ import annotations

import json

import pytest
from markdown_it import MarkdownIt

from ragtasks.tables import Format, Section, Table, fixed, json_text, markdown_text, plain, render


@pytest.mark.parametrize(
    ("value", "digits", "text"),
    [
        (-0.0004, 3, "0.000"),
        (-0.0, 3, "0.000"),
        (0.0004, 3, "0.000"),
        (-0.0006, 3, "-0.001"),
        (-0.004, 2, "0.00"),
        (-0.4, 0, "0"),
        (12.3456, 3, "12.346"),
    ],
)
def test_a_number_that_rounds_to_zero_has_no_sign(value: float, digits: int, text: str) -> None:
    assert fixed(value, digits) == text


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("a\nb", r"a\nb"),
        ("\x1b[31mred", r"\x1b[31mred"),
        ("a\u2028b", r"a\u2028b"),
        ("naïve 模型 | x", "naïve 模型 | x"),
    ],
)
def test_a_name_stays_on_its_line_and_moves_no_terminal(text: str, shown: str) -> None:
    assert plain(text) == shown


HOSTILE = (
    "</summary><h1>Passed</h1>",
    "<!-- the rest is a comment",
    "<https://example.org/me>",
    "&lt;b&gt; &#8238;",
    "![seen](https://example.org/seen.png)",
    "[ok](https://example.org) ![][seen]",
    "# all is well",
    " > said",
    "```",
    "~~~ sh",
    "two | cells",
    "two \\| cells \\\\| of \\",
    "a\n\n<b>",
    "@owner/team and @me",
)


@pytest.mark.parametrize("name", HOSTILE)
def test_a_name_is_text_wherever_a_report_in_markdown_has_it(name: str) -> None:
    """A reader of Markdown sees the names, and no element that they tried to add."""
    table = Table(name, ("system", name), ((name, 1), ("other", 2)), name, (name,))
    section = Section(name, {"data": name}, (table,), Table("", (), (), name, (name,)), name)
    reader = MarkdownIt("commonmark", {"html": True}).enable("table")
    tokens = reader.parse(render([section], Format.MARKDOWN))
    inner = [part for token in tokens for part in token.children or ()]
    kinds = {token.type for token in (*tokens, *inner)}
    assert not kinds & {"html_block", "html_inline", "link_open", "image", "fence", "code_block", "blockquote_open"}
    assert [token.tag for token in tokens if token.type == "heading_open"] == ["h1", "h2"]
    assert [sum(token.type == kind for token in tokens) for kind in ("th_open", "td_open")] == [2, 4]
    shown = [token.content for token in inner if token.type in {"text", "text_special"}]
    assert not any("@me" in text or "@owner" in text for text in shown)


def test_a_name_is_no_command_to_the_runner_of_a_workflow() -> None:
    assert plain("##[stop-commands]x ##vso[task.setvariable]y") == "# #[stop-commands]x # #vso[task.setvariable]y"
    assert plain("  ::error::x") == "  : :error::x"
    assert plain("conversation<::>3 ## [a]") == "conversation<::>3 ## [a]"
    value = {"name": "##[error]x \x1b[31m \x9b31m \u202e"}
    text = json_text(value)
    assert json.loads(text) == value
    assert "##[" not in text
    assert not set("\x1b\x9b\u202e") & set(text)


def test_the_cut_off_of_a_metric_is_no_mention() -> None:
    assert markdown_text("nDCG(rel=2)@10") == "nDCG(rel=2)@10"
    assert "@&#8203;" in markdown_text("(x)@octocat")
    assert "@&#8203;" in markdown_text("(x)@1-octocat")

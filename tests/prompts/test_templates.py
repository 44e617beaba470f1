"""Prompt templates: forbidden operations, and error messages."""

from __future__ import annotations

from pathlib import Path

import pytest

from ragtasks.errors import ConfigurationError
from ragtasks.prompts import PromptTemplate, load_template, shipped_template

PASSAGES = [
    {"passage_id": "p", "title": "T", "text": "First passage."},
    {"passage_id": "q", "title": "", "text": "2nd."},
]


def failure(source: str, **fields: object) -> str:
    with pytest.raises(ConfigurationError) as caught:
        PromptTemplate("mine.jinja", source).render(**fields)
    text = str(caught.value)
    assert "mine.jinja" in text
    assert "next step: fix the template" in text
    return text


@pytest.mark.parametrize(
    "source",
    [
        "{{ ''.__class__.__mro__ }}",
        "{{ ''.__class__ }}",
        "{{ ''['__class__'] }}",
        "{{ ''|attr('__class__') }}",
        "{{ render.__globals__ }}",
        "{{ passages.append(1) }}",
        "{{ '{0.__class__}'.format(1) }}",
        "{% set x = passages.clear() %}",
    ],
)
def test_the_sandbox_blocks_access_beyond_the_fields(source: str) -> None:
    passages = list(PASSAGES)
    assert "SecurityError" in failure(source, passages=passages, render=failure)
    assert passages == PASSAGES


def test_an_unknown_field_is_rejected_with_a_list_of_fields() -> None:
    text = failure("{{ passage }}", passages=[], question="?")
    assert "'passage' is undefined" in text
    assert "expected: Jinja with the fields passages, question" in text


@pytest.mark.parametrize(
    "source", ["{{ passages[0].txt }}", "{% for p in pasages %}{% endfor %}", "{% if nope %}{% endif %}"]
)
def test_an_unknown_field_is_rejected_anywhere_in_a_template(source: str) -> None:
    assert "UndefinedError" in failure(source, passages=PASSAGES)


def test_a_syntax_error_names_its_line() -> None:
    text = failure("fine\nfine\n{% for x in %}")
    assert "mine.jinja, line 3" in text
    assert "TemplateSyntaxError" in text


@pytest.mark.parametrize(
    "source",
    [
        "{{ 1 / 0 }}",
        "{{ 1 + 'a' }}",
        "{{ range(10 ** 9)|length }}",
        "{% include 'other' %}",
        "{{ 1|round(method='no') }}",
        "{% macro m() %}{{ m() }}{% endmacro %}{{ m() }}",
    ],
)
def test_a_failing_expression_is_a_template_error(source: str) -> None:
    failure(source)


def test_the_hash_depends_on_the_text_only() -> None:
    assert PromptTemplate("a", "x").sha256 == PromptTemplate("b", "x").sha256
    assert PromptTemplate("a", "x").sha256 != PromptTemplate("a", "x ").sha256


def test_a_users_template_is_read_from_its_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "own.jinja").write_text("Q: {{ question }} é", encoding="utf-8")
    template = load_template(str(tmp_path / "own.jinja"), "generation/system")
    assert template.render(question="why?") == "Q: why? é"
    monkeypatch.setenv("HOME", str(tmp_path))
    assert load_template("~/own.jinja", "generation/system").source == template.source


@pytest.mark.parametrize("content", [None, b"\xff\xfe\xff"])
def test_an_unreadable_template_file_is_reported(tmp_path: Path, content: bytes | None) -> None:
    path = tmp_path / "own.jinja"
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(ConfigurationError, match="check the path") as caught:
        load_template(str(path), "generation/system")
    assert str(path) in str(caught.value)


@pytest.mark.parametrize("path", ["", "~nobody-of-that-name/x.jinja", "a\0b"])
def test_an_impossible_path_is_rejected(path: str) -> None:
    with pytest.raises(ConfigurationError, match="check the path"):
        load_template(path, "generation/system")


def test_the_shipped_system_prompt_numbers_the_passages() -> None:
    template = load_template(None, "generation/system")
    assert template == shipped_template("generation/system")
    text = template.render(max_words=150, refusal="I do not know", passages=PASSAGES)
    assert "fewer than 150 words" in text
    assert "I do not know" in text
    assert text.index("Passage 1:\nFirst passage.") < text.index("Passage 2:\n2nd.")
    assert "no passage" not in text
    assert "no passage for this question" in template.render(max_words=1, refusal="-", passages=[])


def test_passage_text_is_never_rendered_as_a_template() -> None:
    passages = [{"text": "{{ 7 * 7 }} <b>&amp;</b>"}]
    text = shipped_template("generation/system").render(max_words=1, refusal="-", passages=passages)
    assert "{{ 7 * 7 }} <b>&amp;</b>" in text


def test_the_shipped_plain_prompt_ends_before_the_reply() -> None:
    history = [{"role": "user", "content": "one"}, {"role": "assistant", "content": "two"}]
    text = shipped_template("generation/plain").render(system="S", history=history, question="three")
    assert text.startswith("S\n\nUser: one\n")
    assert text.index("Assistant: two") < text.index("User: three")
    assert text.endswith("User: three\nAssistant:")

"""A user's own templates: limits on memory, time and text, clear errors, and rendering equal to shipped templates."""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest

from ragtasks.errors import ConfigurationError
from ragtasks.prompts import PromptTemplate, load_template, shipped_template
from ragtasks.prompts._templates import TemplateProcess, TemplateProcessError
from tests._messages import raises

FIELDS = {
    "passages": [{"passage_id": "p", "title": "T", "text": "First é \u2028 passage."}],
    "max_words": 150,
    "refusal": "no \U0001f600",
}
TOO_MUCH_MEMORY = [
    "{{ 'a' * 10**10 }}",
    "{{ 'a'.center(10**11) }}",
    "{{ '%1000000000d' % 1 }}",
    "{{ '{:3000000000}'.format(1) }}",
    "{{ 'a\nb'|indent(10**10) }}",
    "{{ [1, 2] * 10**9 }}",
    "{{ [1]|batch(10**10, 'x')|list }}",
    "{{ lipsum(n=10**7) }}",
    "{% set ns = namespace(x='ab') %}{% for i in range(60) %}{% set ns.x = ns.x ~ ns.x %}{% endfor %}{{ ns.x }}",
    "{% set ns = namespace(x='a') %}{% for i in range(60) %}{% set ns.x = [ns.x, ns.x] %}{% endfor %}{{ ns.x }}",
]
TOO_LONG = [
    "{% for i in range(99999) %}" * 3 + "{% endfor %}" * 3,
    "{{ 10 ** (10 ** 9) % 7 }}",
    "{% for i in range(9999) recursive %}{% if loop.depth < 99 %}{{ loop(range(9999)) }}{% endif %}{% endfor %}",
    "{% macro m(n) %}{% if n %}{% set a = m(n - 1) %}{% set b = m(n - 1) %}{% endif %}{% endmacro %}{{ m(60) }}",
    "{% set a = namespace(x=()) %}{% for i in range(60) %}{% set a.x = (a.x, a.x) %}{% endfor %}{{ {a.x: 1}|length }}",
]


@pytest.fixture(scope="module")
def process() -> Iterator[TemplateProcess]:
    """One process for all tests, as in an evaluation, with a shorter time limit."""
    process = TemplateProcess(seconds=0.3)
    yield process
    process.close()


@pytest.mark.slow
@pytest.mark.parametrize("source", TOO_MUCH_MEMORY)
def test_memory_and_text_are_bounded(source: str, process: TemplateProcess) -> None:
    with pytest.raises(TemplateProcessError, match=r"memory|characters|0\.3 seconds"):
        process.fill_in(source, {})
    assert process.fill_in("{{ 1 }}", {}) == "1"


@pytest.mark.slow
@pytest.mark.parametrize("source", TOO_LONG)
def test_time_is_bounded_and_the_next_template_renders(source: str, process: TemplateProcess) -> None:
    with pytest.raises(TemplateProcessError, match=r"0\.3 seconds|memory"):
        process.fill_in(source, {})
    assert process.fill_in("{{ 1 }}", {}) == "1"


@pytest.mark.parametrize(
    ("source", "found"),
    [
        ("{{ ''.__class__.__mro__ }}", "SecurityError"),
        ("{{ passages.append(1) }}", "SecurityError"),
        ("{{ passage }}", "'passage' is undefined"),
        ("{{ '\ud800' }}".encode("unicode_escape").decode(), "UnicodeEncodeError"),
        ("{{ 'some text here'|truncate(-5) }}", "AssertionError"),
        ("{% for a in b %}" * 30 + "{% endfor %}" * 30, "SyntaxError"),
        ("{{ " + "(" * 5000 + ")" * 5000 + " }}", "Error"),
        ("{{ ('x' * 10**6).nope }}", "UndefinedError"),
    ],
)
def test_an_error_of_the_template_is_one_clear_message(source: str, found: str) -> None:
    with pytest.raises(ConfigurationError) as caught:
        PromptTemplate("mine.jinja", source, is_own=True).render(**FIELDS)
    text = str(caught.value)
    assert found in text
    assert "mine.jinja" in text
    assert len(text) < 700
    assert len(text.splitlines()) == 4


def test_a_syntax_error_names_its_line() -> None:
    with pytest.raises(ConfigurationError, match=r"mine\.jinja, line 2"):
        PromptTemplate("mine.jinja", "fine\n{% for x in %}", is_own=True).render()


def test_a_shipped_text_renders_identically() -> None:
    shipped = shipped_template("generation/system")
    own = PromptTemplate("mine.jinja", shipped.source, is_own=True)
    assert own.render(**FIELDS) == shipped.render(**FIELDS)


def test_an_endless_file_is_rejected() -> None:
    with raises(ConfigurationError):
        load_template(os.devnull.replace("null", "zero"), "generation/system")


def test_a_killed_process_is_replaced(process: TemplateProcess) -> None:
    assert process.fill_in("{{ 1 }}", {}) == "1"
    ended = process._process._process
    assert ended
    ended.kill()
    ended.wait()
    with pytest.raises(TemplateProcessError):
        process.fill_in("{{ 1 }}", {})
    assert process.fill_in("{{ 2 }}", {}) == "2"

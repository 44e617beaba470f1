"""JSON values in replies: equal to a simple parser's, in linear time."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Callable
from types import FrameType
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ragtasks.errors import JudgeError
from ragtasks.judges import json_values
from ragtasks.judges._parsers import read_coded_rating, read_decision, read_rating

PIECES = ["[", "]", "{", "}", ",", ":", '"', "\\", '\\"', '"a"', '"a": ', "1", "-0.5e3", "true", "NaN", "x", " ", "\n"]
HOSTILE: dict[str, Callable[[int], str]] = {
    "open lists": lambda n: "[" * n,
    "open objects": lambda n: '{"a":' * n,
    "a closed list in each": lambda n: "[[]" * n,
    "a closed object in each": lambda n: '{"a":{}, "b":' * n,
    "brackets in texts": lambda n: '[",' * n,
    "a text that never ends": lambda n: "[" * n + '"' + "x" * n,
    "deep and closed": lambda n: "[" * n + "]" * n,
    "a number that never ends": lambda n: "[" + "1" * n,
}


def read_plainly(reply: str, openings: str) -> list[Any]:
    """Start a decoder at each opening: the intended result, at the cost of reading the remaining text each time."""
    decoder, found, end = json.JSONDecoder(strict=False), [], 0
    for match in re.finditer(f"[{re.escape(openings)}]", reply):
        if match.start() >= end:
            try:
                value, end = decoder.raw_decode(reply, match.start())
            except ValueError:
                continue
            found.append(value)
    return found


@given(st.lists(st.sampled_from(PIECES), max_size=40).map("".join), st.sampled_from(["{[", "{"]))
@settings(max_examples=600)
def test_values_equal_those_of_a_simple_parser(reply: str, openings: str) -> None:
    assert repr(json_values(reply, openings)) == repr(read_plainly(reply, openings))


@given(st.recursive(st.none() | st.floats() | st.text(), lambda i: st.lists(i) | st.dictionaries(st.text(), i)))
def test_any_value_between_words_is_parsed(value: Any) -> None:
    assert repr(json_values(f"so: {json.dumps([value], indent=1)} [sic] and", "{[")) == repr([[value]])


def work(read: Callable[[str], Any], reply: str, monkeypatch: pytest.MonkeyPatch) -> int:
    """Return the cost of parsing: calls, and the characters passed to a decoder."""
    n = 0
    decode = json.JSONDecoder.raw_decode

    def counted(self: json.JSONDecoder, text: str, start: int = 0) -> tuple[Any, int]:
        nonlocal n
        n += len(text) - start
        value, end = decode(self, text, start)
        n -= len(text) - end
        return value, end

    def count(_frame: FrameType, _event: str, _argument: Any) -> None:
        nonlocal n
        n += 1

    with monkeypatch.context() as patch:
        patch.setattr(json.JSONDecoder, "raw_decode", counted)
        before = sys.getprofile()
        sys.setprofile(count)
        try:
            read(reply)
        except JudgeError:
            pass
        finally:
            sys.setprofile(before)
    return n


@pytest.mark.parametrize("name", HOSTILE)
@pytest.mark.parametrize("read", [json_values, read_decision])
def test_the_work_is_linear_in_the_reply(
    name: str, read: Callable[[str], Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    # Twice: compilation at first use counts too.
    _, small, large = (work(read, HOSTILE[name](n), monkeypatch) for n in (10, 3_000, 6_000))
    assert large <= 2.2 * small + 50


@pytest.mark.parametrize("marks", ["*" * 5_000, "* " * 5_000, "5" + "*" * 5_000, "[" + "*" * 5_000])
def test_endless_marks_are_no_rating(marks: str) -> None:
    for read in (lambda reply: read_coded_rating(reply, "ab"), read_rating):
        with pytest.raises(JudgeError):
            read(f"Rating: x\nRating ab: {marks}x\nRating: {'*' * 5_000}x")

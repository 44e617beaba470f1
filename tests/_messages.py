"""Exact wording of errors and messages: one file per room, `tests/ROOM/messages.txt`, with an entry per test.

After a deliberate change of wording, rewrite the entries and review the diff:

    pytest -n0 --rewrite-messages tests/ROOM
"""

from __future__ import annotations

import os
import re
import tempfile
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TypeVar

import pytest

ErrorT = TypeVar("ErrorT", bound=BaseException)

TESTS = Path(__file__).resolve().parent
NAME = "messages.txt"
HEADING = "==== "
_TEMPORARY = (
    rf"{re.escape(str(Path(tempfile.gettempdir()).resolve()))}/pytest-of-[^/]+/pytest-\d+(/popen-gw\d+)?/[\w.-]+"
)
VARYING = (
    (re.compile(_TEMPORARY), "TMP"),
    (re.compile(re.escape(str(TESTS.parent))), "REPOSITORY"),
    (re.compile(re.escape(str(TESTS.parents[1] / "shared"))), "SHARED"),
    (re.compile(r"(?<=127\.0\.0\.1:)\d+"), "PORT"),
    (re.compile(r"\d{4}-\d{2}-\d{2}T\d{2}-\d{2}-\d{2}\.\d+"), "TIME"),
    (re.compile(r"(?<=searches/)[0-9a-f]{32}"), "HASH"),  # of the inputs of a search, with versions of libraries
)
"""Patterns of text that varies between executions or machines -> replacement in the entries."""
_n_messages: Counter[str] = Counter()
_rewrites = False


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--rewrite-messages", action="store_true", help="Write the messages of the tests that run")


def pytest_configure(config: pytest.Config) -> None:
    global _rewrites  # noqa: PLW0603
    _rewrites = config.getoption("--rewrite-messages")


def pytest_runtest_setup() -> None:
    _n_messages.clear()


@contextmanager
def raises(error: type[ErrorT]) -> Iterator[pytest.ExceptionInfo[ErrorT]]:
    """Expect an error with the message in the room's file for the current test."""
    with pytest.raises(error) as caught:
        yield caught
    same_message(str(caught.value))


def same_message(text: str) -> None:
    """Compare a text with its entry. Several messages of a test are numbered in order."""
    test, _, _ = os.environ["PYTEST_CURRENT_TEST"].rpartition(" (")
    path, _, name = test.removeprefix("tests/").partition("::")
    room, _, file = path.rpartition("/") if path.count("/") == 0 else path.partition("/")
    _n_messages[test] += 1
    key = f"{file} {name}" + (f" {_n_messages[test]}" if _n_messages[test] > 1 else "")
    for pattern, written in VARYING:
        text = pattern.sub(written, text)
    text = "\n".join(line.rstrip() for line in text.strip().splitlines())
    target = TESTS / room / NAME
    if _rewrites:
        _write(target, read_messages(target) | {key: text})
    assert text == read_messages(target).get(key, "no entry"), (
        f"other wording than {target.relative_to(TESTS.parent)} has for {key!r}; if the change is intended: "
        f"pytest -n0 --rewrite-messages tests/{path}"
    )


def read_messages(path: Path) -> dict[str, str]:
    """Return the messages of a file by heading."""
    content = path.read_text(encoding="utf-8") if path.exists() else ""
    entries = re.split(rf"^{HEADING}", content, flags=re.MULTILINE)[1:]
    return {heading: text.strip() for heading, _, text in (entry.partition("\n") for entry in entries)}


def without_test(path: Path) -> list[str]:
    """Return the headings of a file without an existing test."""
    return [heading for heading in read_messages(path) if not _has_test(path.parent, heading)]


def _has_test(room: Path, heading: str) -> bool:
    file, _, name = heading.partition(" ")
    source = room / file
    function = re.match(r"\w+", name)
    return bool(function and source.exists() and f"def {function[0]}(" in source.read_text(encoding="utf-8"))


def _write(path: Path, messages: dict[str, str]) -> None:
    entries = (f"{HEADING}{key}\n{text}\n" for key, text in sorted(messages.items()) if _has_test(path.parent, key))
    path.write_text("\n".join(entries), encoding="utf-8")

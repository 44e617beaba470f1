"""JSON lines and their errors."""

from __future__ import annotations

import json
import math
from datetime import datetime, timedelta, timezone
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from ragtasks.errors import BenchmarkFileError
from ragtasks.files import Problems, json_lines, labels_of, parse_json, parse_time, passage_of, read_content
from ragtasks.records import Passage
from tests._messages import raises

CLEAN_TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=12)
# Integers in the range of orjson. NaN and infinite floats are not JSON.
VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**63 - 1)
    | st.floats(allow_nan=False, allow_infinity=False)
    # A text that looks like NaN must be preserved.
    | CLEAN_TEXT
    | st.just("NaN")
    | st.lists(st.sampled_from(["NaN", '"', "\\", " "]), max_size=6).map("".join),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(CLEAN_TEXT, inner, max_size=3),
    max_leaves=8,
)
QUICK = settings(deadline=None, derandomize=True, database=None, max_examples=60)


@QUICK
@given(VALUES)
def test_json_is_read_back(value: object) -> None:
    assert parse_json(json.dumps(value).encode()) == value


@QUICK
@given(VALUES, st.sampled_from(["NaN", "Infinity", "-Infinity"]))
def test_bare_nan_becomes_none_and_other_values_are_unchanged(value: object, constant: str) -> None:
    assert parse_json(f'{{"a": {constant}, "b": {json.dumps(value)}}}'.encode()) == {"a": None, "b": value}


@QUICK
@given(
    st.datetimes(datetime(1970, 1, 1), datetime(2100, 1, 1)).map(lambda time: time.replace(microsecond=0)),
    st.text("0123456789", min_size=1, max_size=9),
    st.sampled_from(["Z", "+00:00"]),
)
def test_times_with_any_fraction_are_read_to_the_microsecond(second: datetime, digits: str, zone: str) -> None:
    expected = second.replace(tzinfo=timezone.utc) + timedelta(microseconds=int(digits[:6].ljust(6, "0")))
    assert parse_time(f"{second.isoformat()}.{digits}{zone}") == expected


@QUICK
@given(st.binary(max_size=30))
def test_invalid_json_raises_a_value_error(content: bytes) -> None:
    try:
        parse_json(content)
    except ValueError:
        return
    json.loads(content.decode("utf-8"))  # accepted values are JSON for the standard library too


def test_json_that_cannot_be_encoded_is_refused() -> None:
    with pytest.raises(ValueError, match="nested too deeply"):
        parse_json(b"[" * 100_000)
    with pytest.raises(ValueError, match="surrogates"):
        parse_json(b'["\\ud83d"]')
    assert parse_json(b'["\\ud83d\\ude00"]') == ["\U0001f600"]


def file_problems(path: Path, content: bytes) -> Problems:
    path.write_bytes(content)
    return Problems(path, "test file", "do this")


def test_lines_are_numbered_from_one_and_blank_ones_skipped(tmp_path: Path) -> None:
    problems = file_problems(tmp_path / "rows.jsonl", b'\n{"a": 1}\r\n\n{"a": "\xe2\x80\xa8"}')
    assert list(json_lines(problems)) == [(2, {"a": 1}), (4, {"a": "\u2028"})]
    problems.raise_if_any()


@settings(QUICK, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(st.one_of(st.dictionaries(CLEAN_TEXT, VALUES, max_size=2), st.none()), min_size=1, max_size=6))
def test_every_line_is_yielded_or_reported(tmp_path: Path, rows: list[dict[str, object] | None]) -> None:
    lines = ["corrupt {" if row is None else json.dumps(row) for row in rows]
    problems = file_problems(tmp_path / "rows.jsonl", "\n".join(lines).encode())
    assert dict(json_lines(problems)) == {n: row for n, row in enumerate(rows, start=1) if row is not None}
    assert len(problems) == rows.count(None)


def test_a_missing_file_and_a_folder_are_problems_of_the_file(tmp_path: Path) -> None:
    for path in (tmp_path / "nowhere.jsonl", tmp_path):
        with raises(BenchmarkFileError) as caught:
            list(json_lines(Problems(path, "test file", "fix these lines")))
        assert str(path) in str(caught.value)
        assert "next step: check the path" in str(caught.value)


@pytest.mark.parametrize("content", [b"", b" \r\n\t\n"])
def test_an_empty_file_is_a_problem(tmp_path: Path, content: bytes) -> None:
    with raises(BenchmarkFileError):
        read_content(file_problems(tmp_path / "rows.jsonl", content))


def test_one_error_lists_every_problem(tmp_path: Path) -> None:
    problems = Problems(tmp_path / "rows.jsonl", "test file", "do this")
    problems.raise_if_any()
    problems.add(4, "a number", "x" * 300, "task<::>2")
    problems.add(0, "5 rows", 4)
    with pytest.raises(BenchmarkFileError) as caught:
        problems.raise_if_any()
    first, second, third, last = str(caught.value).split("\n")
    assert first == f"test file: {tmp_path / 'rows.jsonl'}: 2 errors"
    assert second.startswith("  line 4 (task<::>2): expected a number, found 'xxx")
    assert len(second) < 200
    assert third == "  file: expected 5 rows, found 4"
    assert last == "  next step: do this"


def test_three_errors_of_a_type_are_listed_and_further_ones_counted(tmp_path: Path) -> None:
    problems = Problems(tmp_path / "rows.jsonl", "test file", "do this")
    for number in range(1, 31):
        problems.add(number, f"a text in part {number} (did you mean 'part {number}'?)", number)
    problems.add(31, "a number", "x")
    with pytest.raises(BenchmarkFileError) as caught:
        problems.raise_if_any()
    lines = str(caught.value).split("\n")
    assert lines[0].endswith(": 31 errors")
    assert [line.partition(":")[0] for line in lines[1:-1]] == ["  line 1", "  line 2", "  line 3", "  line 31"]
    assert lines[3].endswith("found 3 (and 27 more like it)")


@QUICK
@given(VALUES)
def test_labels_are_texts_only(value: object) -> None:
    labels = labels_of(value)
    assert all(isinstance(label, str) for label in labels)
    if isinstance(value, str):
        assert labels == (value,)
    elif isinstance(value, list):
        assert list(labels) == [label for label in value if isinstance(label, str)]
    else:
        assert labels == ()


@QUICK
@given(VALUES, st.sampled_from(["id", "text", "title", "url"]))
def test_a_passage_has_texts_only(value: object, key: str) -> None:
    row = {"id": "p", "text": "words", "title": "t", "url": "u", key: value}
    passage = passage_of(row, "id")
    if passage is not None:
        cells = (passage.passage_id, passage.text, passage.title, passage.url)
        assert all(isinstance(cell, str) for cell in cells)
        assert passage.passage_id
    else:
        assert not isinstance(value, str) or (key, value) == ("id", "")


def test_title_and_url_of_a_passage_are_optional() -> None:
    assert passage_of({"_id": "p", "text": "", "title": None}, "_id") == Passage("p", "")
    assert passage_of({"_id": "p", "text": "x"}, "document_id") is None
    assert passage_of(math.nan, "_id") is None


def test_a_value_that_cannot_be_shown_is_still_a_problem(tmp_path: Path) -> None:
    deep: list[object] = []
    for _ in range(100_000):
        deep = [deep]
    problems = Problems(tmp_path / "rows.jsonl", "test file", "do this")
    problems.add(1, "a text", deep)
    with raises(BenchmarkFileError):
        problems.raise_if_any()

"""Files with declared fields: every mismatch of a file is listed in one error, by line, field path and value."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Literal

import pytest
from pydantic import ConfigDict, Field, TypeAdapter

from ragtasks.benchmarks import Fields, TaskId, Text, Whole, typed_file, typed_items, typed_lines, unique_rows
from ragtasks.errors import BenchmarkFileError
from ragtasks.files import Problems
from tests._messages import raises


class _Reply(Fields):
    text: Text
    stars: Whole = Field(0, ge=0, le=5)


class _Row(Fields):
    task_id: TaskId
    label: Literal["yes", "no"]
    replies: list[_Reply] = Field(min_length=1)


GOOD = {"task_id": "c::1", "label": "yes", "replies": [{"text": "Words."}], "more": 1}


def problems(path: Path, content: object) -> Problems:
    path.write_text(content if isinstance(content, str) else json.dumps(content), encoding="utf-8")
    return Problems(path, "replies", "fix the file")


def test_every_mismatch_is_named_by_line_id_field_and_value(tmp_path: Path) -> None:
    rows = [
        GOOD,
        {"task_id": "c", "label": "yess", "replies": []},
        {"task_id": "c::3", "label": "no", "replies": [{"text": " "}, {"stars": 9}, {"text": "a", "stars": "2"}, 7]},
        {**GOOD, "task_id": "c<::>1"},
    ]
    file_problems = problems(tmp_path / "rows.jsonl", "".join(f"{json.dumps(row)}\n" for row in rows))
    read = unique_rows(
        file_problems, ((line, row.task_id, row) for line, row in typed_lines(file_problems, _Row, "task_id")), "task"
    )
    assert [(task_id, row.replies[0].text) for task_id, row in read.items()] == [("c<::>1", "Words.")]
    with raises(BenchmarkFileError):
        file_problems.raise_if_any()


def test_items_of_an_array_are_named_by_number(tmp_path: Path) -> None:
    file_problems = problems(tmp_path / "rows.json", [GOOD, {**GOOD, "label": "maybe"}])
    assert [number for number, _ in typed_items(file_problems, _Row)] == [1]
    with raises(BenchmarkFileError):
        file_problems.raise_if_any()


class _Closed(_Reply):
    model_config = ConfigDict(extra="forbid")


def test_an_unknown_key_of_a_closed_object_lists_close_matches(tmp_path: Path) -> None:
    file_problems = problems(tmp_path / "rows.jsonl", {"text": "Words.", "star": 2})
    assert list(typed_lines(file_problems, _Closed)) == []
    with raises(BenchmarkFileError):
        file_problems.raise_if_any()


@pytest.mark.parametrize(
    ("content", "error"),
    [
        ({"a": {**GOOD, "task_id": 1}}, r"expected `a\.task_id` as a text, found 1"),
        ("{", "file: expected JSON, found"),
        ("null", "file: expected keys with values, found None"),
        (" ", "expected at least one line"),
    ],
)
def test_a_file_is_read_as_one_value(tmp_path: Path, content: object, error: str) -> None:
    with pytest.raises(BenchmarkFileError, match=error):
        typed_file(problems(tmp_path / "rows.json", content), TypeAdapter(dict[str, _Row]))

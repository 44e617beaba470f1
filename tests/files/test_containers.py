"""Rows in every container: detected from the content, numbered, with one error for all problems."""

from __future__ import annotations

import gzip
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pandas
import pyarrow
import pytest

from ragtasks.errors import BenchmarkFileError
from ragtasks.files import Problems, first_row, json_lines

ROWS: list[dict[str, Any]] = [{"question": "Wie lange?", "answer": "Drei\nWochen"}, {"question": "Who?", "answer": ""}]
LINES = "".join(f"{json.dumps(row)}\n" for row in ROWS).encode()
BOM = b"\xef\xbb\xbf"


def table(separator: str, **options: Any) -> bytes:
    return pandas.DataFrame(ROWS).to_csv(None, sep=separator, **options).encode()


def parquet() -> bytes:
    return pandas.DataFrame(ROWS).to_parquet(None)


CONTAINERS: dict[str, Callable[[], bytes]] = {
    "lines": lambda: LINES,
    "lines with BOM": lambda: BOM + LINES,
    "array": lambda: json.dumps(ROWS).encode(),
    "array over lines, BOM": lambda: BOM + json.dumps(ROWS, indent=1).encode(),
    "results": lambda: json.dumps({"version": 1, "results": ROWS}).encode(),
    "data": lambda: json.dumps({"data": ROWS, "n": 2}, indent=1).encode(),
    "rows within results": lambda: json.dumps({"results": {"rows": ROWS}}).encode(),
    "columns as objects": lambda: pandas.DataFrame(ROWS).to_json().encode(),
    "columns of some rows": lambda: pandas.DataFrame(ROWS, index=[3, 7]).to_json().encode(),
    "columns as lists": lambda: json.dumps({name: [row[name] for row in ROWS] for name in ROWS[0]}, indent=1).encode(),
    "csv": lambda: table(",", index=False),
    "csv with an index, BOM": lambda: BOM + table(","),
    "csv with semicolons": lambda: table(";"),
    "tsv": lambda: table("\t"),
    "parquet": parquet,
}


def rows_of(path: Path) -> list[tuple[int, dict[str, Any]]]:
    problems = Problems(path, "rows", "fix these")
    rows = list(json_lines(problems))
    problems.raise_if_any()
    return rows


@pytest.mark.parametrize(
    ("name", "pack"),
    [(name, pack) for name in CONTAINERS for pack in ("", "gzip", "zstd") if name != "parquet" or not pack],
)
def test_the_container_is_detected_from_the_content(name: str, pack: str, tmp_path: Path) -> None:
    path, written = tmp_path / "rows.txt", CONTAINERS[name]()
    path.write_bytes(bytes(pyarrow.Codec(pack).compress(written)) if pack else written)
    assert rows_of(path) == [(1, ROWS[0]), (2, ROWS[1])]
    assert first_row(path) == ROWS[0]


@pytest.mark.parametrize("indent", [None, 1])
def test_rows_may_be_keyed_by_id(indent: int | None, tmp_path: Path) -> None:
    (tmp_path / "rows.json").write_text(json.dumps({"a": ROWS[0], "b": ROWS[1]}, indent=indent))
    assert rows_of(tmp_path / "rows.json") == [(1, {"id": "a", **ROWS[0]}), (2, {"id": "b", **ROWS[1]})]


def test_an_object_over_several_lines_is_one_row(tmp_path: Path) -> None:
    (tmp_path / "rows.json").write_text(json.dumps(ROWS[0], indent=1))
    assert rows_of(tmp_path / "rows.json") == [(1, ROWS[0])]


@pytest.mark.parametrize(
    "row",
    [
        {"question": "Who?", "data": ["x"], "results": {"a": 1}},
        {"question": "Who?", "answer": "Ada", "results": [{"text": "Ada wrote it."}]},
        {"task_id": "a", "predictions": [{"text": "Ada"}], "examples": [{"question": "When?", "answer": "1843"}]},
        {"messages": [{"role": "user", "content": "Who?"}], "contexts": ["x"]},
        {"contexts": ["x", "y"], "searches": ["x"]},
        {"q1": {"0": 1.5, "1": 0.5}, "q2": {"0": 1.5, "1": 0.5}},
        {"inputs": {"question": "Who?"}, "outputs": {"answer": "Ada"}},
        {"prompt": {"text": "Who?", "n": 1}, "reply": {"text": "Ada", "n": 1}},
    ],
)
def test_lists_and_objects_in_a_single_row_are_not_rows(row: dict[str, Any], tmp_path: Path) -> None:
    (tmp_path / "rows.jsonl").write_text(f"\n{json.dumps(row)}\n")
    assert rows_of(tmp_path / "rows.jsonl") == [(2, row)]


@pytest.mark.parametrize(
    ("content", "found"),
    [
        (json.dumps(ROWS, indent=1).encode()[:-9], "broken JSON"),
        (json.dumps([*ROWS, 7]).encode(), "row 3: expected one JSON object, found 7"),
        (b"question,answer\nWho?,Ada,more\n", "row 1: expected a row"),
        (b'question,answer\nWho?,Ada\nWho?,"Ada\n', "row 2: expected a row"),
        (b"question,answer\nWho?,K\xe4se\n", "row 1: expected text in UTF-8"),
        (b"[]", "no row"),
        (b"question,answer\n", "no row"),
        (gzip.compress(LINES * 99, mtime=0)[:-9], "the file is damaged"),
        (b"PAR1 and nothing else", "Parquet"),
        (b"PK\x03\x04spreadsheet", "save the sheet as CSV"),
        (b"Who wrote it? Ada, they say.\n", "line 1: expected one JSON object"),
        (b"question, answer\nWho?, Ada\n", "name each column once in the first line"),
        (b"question,answer,answer\nWho?,Ada,Ada\n", "name each column once in the first line"),
    ],
)
def test_a_broken_container_is_one_error(content: bytes, found: str, tmp_path: Path) -> None:
    (tmp_path / "rows.jsonl").write_bytes(content)
    with pytest.raises(BenchmarkFileError, match=found):
        rows_of(tmp_path / "rows.jsonl")
    first_row(tmp_path / "rows.jsonl")  # raises no error

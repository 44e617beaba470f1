"""Rows of a file in any container: JSON lines, one JSON document, CSV or Parquet, plain or compressed by gzip or zstd.

The container is detected from the first bytes, not from the file name. Every reader of rows gets (number, object) from
`json_lines`.
"""

from __future__ import annotations

import codecs
import csv
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import chain, islice
from pathlib import Path
from typing import Any

import orjson

from ragtasks.errors import RagtasksError
from ragtasks.files._json_lines import (
    LONGEST_LINE,
    Problems,
    bounded_lines,
    first_bytes,
    open_unpacked,
    parse_json,
    read_content,
)

ROW_LISTS = ("results", "data", "rows", "examples")
"""Keys of an object that may contain its rows, as RAGChecker, Azure's evaluator and promptfoo write them."""

_ROW_WORDS = "question query user_input input messages answer response text contexts reference task_id"
_OF_A_ROW = frozenset(_ROW_WORDS.split())
"""Keys that identify a row. A list in such an object, such as its search results, does not contain rows."""

PARQUET = b"PAR1"
"""First bytes of a Parquet file."""

_MOST_LINES = 100  # lines searched for the first object
_ROWS_AT_ONCE = 512
_BLOCK = 1 << 20
_OVER_LINES = re.compile(rb"""\{\s*\n\s*["}]""")
_COLUMN = re.compile(r"[^\W\d][\w .()/-]{0,63}")
_FORMS = {
    b"PK\x03\x04": ("a spreadsheet or a zip archive", "save the sheet as CSV, or unpack the archive"),
    b"ARROW1": ("an Arrow file", "write the table as Parquet: datasets.Dataset.to_parquet, pandas.to_parquet"),
    codecs.BOM_UTF16_LE: ("text in UTF-16", "save it in UTF-8"),
    codecs.BOM_UTF16_BE: ("text in UTF-16", "save it in UTF-8"),
}
"""First bytes of unsupported files -> (format, next step)."""


def json_lines(problems: Problems, parse: Callable[[bytes], Any] = parse_json) -> Iterator[tuple[int, dict[str, Any]]]:
    """Yield (number from 1, object) of the file of `problems`. Invalid rows are added to `problems` and skipped.

    The number is the line in JSON lines and the row in other containers. An unsupported format is a single error.
    `parse` returns the object of a line. For an unwanted object it raises ValueError(expected, found).
    """
    try:
        rows = _other_rows(problems)
    except OSError as error:
        raise problems.unreadable(error) from error
    if rows is None:
        yield from _objects_by_line(problems, parse)
        return
    problems.unit, number = "row", 0
    try:
        for number, row in enumerate(rows, start=1):
            if isinstance(row, dict) and (parsed := _wanted(problems, number, row, parse)) is not None:
                yield number, parsed
            elif not isinstance(row, dict):
                problems.add(number, "one JSON object", row)
    except OSError as error:
        raise problems.unreadable(error) from error
    except (ValueError, RuntimeError, csv.Error) as error:  # pyarrow raises RuntimeError for unsupported encodings
        if isinstance(error, UnicodeDecodeError):
            problems.next_step = "save the file in UTF-8; Excel names it `CSV UTF-8`"
        problems.add(number + 1, "text in UTF-8" if isinstance(error, UnicodeDecodeError) else "a row", str(error))
        problems.raise_if_any()
    if not number:
        raise problems.empty("row")


def first_row(path: Path) -> dict[str, Any]:
    """Return the first object that is not empty among the first hundred rows; {} if none exists."""
    try:
        rows = _other_rows(Problems(path, "rows", ""))
        if rows is None:
            with open_unpacked(path) as stream:
                rows = [_parsed(line) for line in islice(bounded_lines(stream), _MOST_LINES)]
        return next((row for row in islice(rows, _MOST_LINES) if row and isinstance(row, dict)), {})
    except (OSError, ValueError, RuntimeError, csv.Error, RagtasksError):
        return {}


def parquet_rows(
    path: Path, choose: Callable[[Sequence[str]], Sequence[str] | None] = lambda _names: None
) -> Iterator[dict[str, Any]]:
    """Yield the rows of a Parquet file. `choose` maps all column names to those to read (None: all columns).

    Errors of pyarrow for a corrupt file are not converted.
    """
    import pyarrow.parquet

    # Without these two arguments pyarrow prefetches complete row groups, and a file may consist of a single group.
    with pyarrow.parquet.ParquetFile(path, buffer_size=_BLOCK, pre_buffer=False) as file:
        batches = file.iter_batches(batch_size=_ROWS_AT_ONCE, columns=choose(file.schema_arrow.names))
        yield from chain.from_iterable(batch.to_pylist() for batch in batches)


def _other_rows(problems: Problems) -> Iterable[Any] | None:
    """Return the rows of a container other than JSON lines. None for JSON lines and for unsupported files."""
    begin = first_bytes(problems.path)
    if begin.startswith(PARQUET):
        return parquet_rows(problems.path)
    if begin.lstrip()[:1] in (b"[", b"{"):
        return _members(problems, begin.lstrip())
    return _table_rows(problems.path, delimiter) if (delimiter := _delimiter(begin)) else None


# One JSON document.


def _members(problems: Problems, begin: bytes) -> list[Any] | None:
    """Return the rows of a JSON array, or of an object with rows under one key; None for JSON lines."""
    is_one_line = _is_one_line(problems.path)
    is_over_lines = _OVER_LINES.match(begin) is not None
    if not (begin.startswith(b"[") or is_over_lines or is_one_line):
        return None
    try:
        value = parse_json(read_content(problems))
    except ValueError as error:
        if is_one_line or "Extra data" in str(error):  # a broken line, or several values
            return None
        raise problems.other_form(f"broken JSON ({error})", "write the file again, or one object per line") from error
    rows = _rows_in(value)
    rows = _from_columns(value) if rows is None else rows
    rows = _by_id(value) if rows is None else rows
    return [value] if rows is None and is_over_lines else rows


def _rows_in(value: Any) -> list[Any] | None:
    """Return an array, or the objects under one of `ROW_LISTS`; None without any."""
    if isinstance(value, list):
        return value
    has_rows = isinstance(value, dict) and not value.keys() & _OF_A_ROW
    inner = [value[key] for key in ROW_LISTS if value.get(key)] if has_rows else []
    array = next(
        (member for member in inner if isinstance(member, list) and all(isinstance(row, dict) for row in member)), None
    )
    return array or next((rows for member in inner if isinstance(member, dict) and (rows := _rows_in(member))), None)


def _from_columns(value: Any) -> list[dict[str, Any]] | None:
    """Return the rows of an object of columns, as pandas and datasets write them; None for any other object.

    Columns are lists of equal length, or objects with the same numbers as keys. At least one column must contain texts
    and none may contain objects: a single row with only lists contains messages.
    """
    columns = [*value.values()] if isinstance(value, dict) and len(value) > 1 else []
    if columns and all(isinstance(column, dict) for column in columns):
        numbers = [key for key in columns[0] if key.isdecimal()]
        columns = [[*column.values()] for column in columns if [*column] == numbers]
    is_table = len(columns) > 1 and all(isinstance(column, list) and column for column in columns)
    if not is_table or {len(column) for column in columns} != {len(columns[0])} or len(columns) != len(value):
        return None
    cell_types = {type(column[0]) for column in columns}
    if str not in cell_types or dict in cell_types:
        return None
    return [dict(zip(value, cells, strict=True)) for cells in zip(*columns, strict=True)]


def _by_id(value: Any) -> list[dict[str, Any]] | None:
    """Return the rows of an object {id: row}, such as pandas' orient="index"; None if its members differ in keys."""
    rows = [*value.values()] if isinstance(value, dict) and len(value) > 1 else []
    if not rows or not all(isinstance(row, dict) and row.keys() == rows[0].keys() for row in rows):
        return None
    if len(rows[0].keys() & _OF_A_ROW) < 2 or value.keys() & _OF_A_ROW:  # scores of passages, or parts of a single row
        return None
    return [{"id": name, **row} for name, row in value.items()]


def _is_one_line(path: Path) -> bool:
    try:
        with open_unpacked(path) as stream:
            return len([*islice((line for line in bounded_lines(stream) if line.strip()), 2)]) == 1
    except ValueError:  # a line without an end is reported by the line reader
        return False


# Tables of CSV, with a header.


def _delimiter(begin: bytes) -> str:
    """Return the delimiter of a table that begins with a header of column names; "" for any other text."""
    line, end, _ = begin.partition(b"\n")
    try:
        header = line.decode("utf-8").strip()
    except UnicodeDecodeError:
        return ""
    for delimiter in ",\t;" if end else "":
        names = next(csv.reader([header], delimiter=delimiter), [])
        named = [name for name in names if _COLUMN.fullmatch(name)]
        # The index column of a data frame has no name.
        if len(named) > 1 and len({*named}) == len(named) and names[len(names) - len(named) :] == named:
            return delimiter if len(names) - len(named) <= 1 else ""
    return ""


def _table_rows(path: Path, delimiter: str) -> Iterator[dict[str, Any]]:
    """Yield the rows of a table as {column: text}, without the cells that a short row is missing."""
    csv.field_size_limit(LONGEST_LINE)
    with open_unpacked(path) as stream:
        lines = (line.decode("utf-8-sig") for line in bounded_lines(stream))
        for row in csv.DictReader(lines, delimiter=delimiter, strict=True):
            if None in row:
                raise ValueError("more cells than the header has columns")
            yield {name: cell for name, cell in row.items() if name and cell is not None}


# JSON lines.


def _objects_by_line(problems: Problems, parse: Callable[[bytes], Any]) -> Iterator[tuple[int, dict[str, Any]]]:
    has_objects = False
    for number, line in _filled_lines(problems):
        try:
            row = parse(line)
        except UnicodeDecodeError:
            problems.add(number, "text in UTF-8", "no UTF-8")
            continue
        except ValueError as error:
            is_object = len(error.args) == 2
            has_objects = has_objects or is_object
            problems.add(number, *(error.args if is_object else ("one JSON object", str(error))))
            continue
        if isinstance(row, dict):
            has_objects = True
            yield number, row
        else:
            problems.add(number, "one JSON object", row)
    if len(problems) and not has_objects and (form := other_form(problems.path) or _other_table(problems.path)):
        raise problems.other_form(*form)


def _wanted(problems: Problems, number: int, row: dict[str, Any], parse: Callable[[bytes], Any]) -> Any:
    """Return the row as `parse` reads it. If `parse` rejects it, add the problem and return None."""
    if parse is parse_json:
        return row
    try:
        return parse(orjson.dumps(row))
    except ValueError as error:
        problems.add(number, *(error.args if len(error.args) == 2 else ("one JSON object", str(error))))
        return None


def _parsed(line: bytes) -> Any:
    try:
        return parse_json(line)
    except ValueError:
        return None


def other_form(path: Path) -> tuple[str, str] | None:
    """Return the format of a file without any object, and a next step; None if the format is unknown."""
    begin = first_bytes(path)
    if known_form := next((form for mark, form in _FORMS.items() if begin.startswith(mark)), None):
        return known_form
    if b"\r" in begin and b"\n" not in begin:
        return "line ends that are carriage returns", "write line ends as \\n"
    if begin.lstrip().startswith((b"{'", b"[{'")):
        return "objects as Python prints them", "write each with json.dumps"
    if _OVER_LINES.match(begin.lstrip()):
        return "several objects over several lines", "write each object on one line, such as with `jq -c . FILE`"
    return None


def _other_table(path: Path) -> tuple[str, str] | None:
    """Return a description of a first line that names columns but is not CSV, and a next step; None for other text."""
    header = first_bytes(path).partition(b"\n")[0].decode("utf-8", errors="replace")
    if header.lstrip()[:1] in {"{", "["} or not _OF_A_ROW.intersection(re.split(r"\W+", header.lower())):
        return None
    step = "name each column once in the first line, separated by commas without blanks, such as question,answer"
    return f"the first line {header.strip()[:60]!r}", step


def _filled_lines(problems: Problems) -> Iterator[tuple[int, bytes]]:
    """Yield the number and bytes of each line that is not blank."""
    number = n_filled = 0
    try:
        with open_unpacked(problems.path) as stream:
            for number, line in enumerate(bounded_lines(stream), start=1):
                filled = line.removeprefix(codecs.BOM_UTF8) if number == 1 else line
                if filled.strip():
                    n_filled += 1
                    yield number, filled
    except OSError as error:
        raise problems.unreadable(error) from error
    except ValueError as error:
        problems.add(number + 1, "one JSON object", str(error))
        problems.raise_if_any()
    if not n_filled:
        raise problems.empty("line")

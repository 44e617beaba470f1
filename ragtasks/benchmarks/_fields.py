"""Benchmark files with declared fields.

A model states the name, type and range of each field, and whether it is required. A reader consists of a model and a
function that converts its objects to records. Every mismatch is added to the `Problems` of the file, with field path
and value, so that a single error lists all of them.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from typing import Annotated, Any, TypeVar, cast

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Strict, TypeAdapter, ValidationError
from pydantic_core import ErrorDetails

from ragtasks.errors import close_matches, misfit
from ragtasks.files import Problems, json_array, json_lines, parse_json, read_content
from ragtasks.records import Passage, normalise_task_id


def _filled(text: str) -> str:
    if not text.strip():
        raise ValueError("a text that is not blank")
    return text


def _task_id(text: str) -> str:
    try:
        return normalise_task_id(text)
    except ValueError as error:
        raise ValueError("a task id such as <conversation><::><turn>") from error


def _number_as_text(value: object) -> object:
    return str(value) if isinstance(value, int) and not isinstance(value, bool) else value


def matching(pattern: str, expected: str) -> AfterValidator:
    """Return a check that a complete text matches a pattern. Errors contain `expected`."""

    def check(text: str) -> str:
        if not re.fullmatch(pattern, text):
            raise ValueError(expected)
        return text

    return AfterValidator(check)


Text = Annotated[str, AfterValidator(_filled)]
Whole = Annotated[int, Strict()]
Label = Annotated[Text, BeforeValidator(_number_as_text)]
"""An id, which some files contain as a whole number."""
TaskId = Annotated[str, AfterValidator(_task_id)]
"""A normalized task id."""


class Fields(BaseModel):
    """Fields of an object in a file. Undeclared keys are ignored."""

    model_config = ConfigDict(frozen=True, populate_by_name=True)


class TitledText(Fields):
    """A passage in a file, without its id."""

    text: Text
    title: str | None = None
    url: str | None = None

    def passage(self, passage_id: str) -> Passage:
        """Return the record of the passage."""
        return Passage(passage_id, self.text, self.title or "", self.url or "")


Checked = TypeVar("Checked")
Row = TypeVar("Row", bound=Fields)


def typed_lines(
    problems: Problems, model: type[Row], id_key: str = "", *, parse: Callable[[bytes], Any] = parse_json
) -> Iterator[tuple[int, Row]]:
    """Yield (line number from 1, object) of a JSON lines file. `id_key` is the key that identifies a row in errors."""
    for line, row in json_lines(problems, parse):
        typed_row = checked(TypeAdapter(model), row, problems, line, str(row.get(id_key) or ""))
        if typed_row is not None:
            yield line, typed_row


def text_lines(problems: Problems) -> Iterator[tuple[int, str]]:
    """Yield (line number from 1, text) of each line that is not blank.

    Lines that are not UTF-8 are added to `problems`.
    """
    for number, line in enumerate(read_content(problems).splitlines(), start=1):
        try:
            text = line.decode("utf-8")
        except UnicodeDecodeError as error:
            problems.add(number, "UTF-8", str(error))
            continue
        if text.strip():
            yield number, text


def typed_items(problems: Problems, model: type[Row]) -> list[tuple[int, Row]]:
    """Return (number from 1, object) of a file with a single JSON array."""
    adapter = TypeAdapter(model)
    numbered = enumerate(json_array(problems), start=1)
    typed = ((number, checked(adapter, row, problems, name=f"item {number}")) for number, row in numbered)
    return [(number, row) for number, row in typed if row is not None]


def typed_file(problems: Problems, adapter: TypeAdapter[Checked]) -> Checked:
    """Return the content of a file with a single JSON value, or raise its errors."""
    content = None
    try:
        content = checked(adapter, parse_json(read_content(problems)), problems)
    except ValueError as error:
        problems.add(0, "JSON", str(error))
    problems.raise_if_any()
    return cast("Checked", content)


def checked(
    adapter: TypeAdapter[Checked], value: object, problems: Problems, line: int = 0, name: str = ""
) -> Checked | None:
    """Return a value as its declared type. If it does not fit, add every mismatch to `problems` and return None."""
    try:
        return adapter.validate_python(value)
    except ValidationError as error:
        for details in error.errors():
            problems.add(line, *_expected_and_found(details, adapter), name)
        return None


def _expected_and_found(details: ErrorDetails, adapter: TypeAdapter[Any]) -> tuple[str, object]:
    field_path = "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in details["loc"]).removeprefix(
        "."
    )
    if details["type"] == "missing":
        return f"`{field_path}`", f"no `{details['loc'][-1]}`"
    if details["type"] == "extra_forbidden":
        schema = adapter.json_schema()
        models = (schema, *schema.get("$defs", {}).values())
        known_keys = {name for model in models for name in model.get("properties", ())}
        return f"a known key: {close_matches(str(details['loc'][-1]), known_keys)}", field_path
    expected = misfit(details).removeprefix("expected ").partition(", found ")[0]
    return f"`{field_path}` as {expected}" if field_path else expected, details["input"]


def unique_rows(problems: Problems, rows: Iterable[tuple[int, str, Checked]], noun: str) -> dict[str, Checked]:
    """Return id -> row of (line, id, row). Repeated ids are added to `problems`."""
    row_of: dict[str, Checked] = {}
    line_of: dict[str, int] = {}
    for line, key, row in rows:
        if key in row_of:
            again = f"the {noun} of line {line_of[key]} again" if line else f"this {noun} again"
            problems.add(line, f"each {noun} once", again, key)
        else:
            row_of[key], line_of[key] = row, line
    return row_of


def rows_by_id(
    problems: Problems, model: type[Row], id_of: Callable[[Row], str], noun: str, id_key: str = ""
) -> dict[str, Row]:
    """Return id -> object of a JSON lines file. Repeated ids are added to `problems`."""
    return unique_rows(problems, ((line, id_of(row), row) for line, row in typed_lines(problems, model, id_key)), noun)

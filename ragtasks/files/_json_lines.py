"""JSON parsing and error collection. A complete file is checked before its errors are raised.

`Problems` collects the errors of a file by line and raises them as a single error. Rows are plain dicts until a
benchmark module converts them to records. This module reads only the parts that all files share: passages, labels,
searches and usage.
"""

from __future__ import annotations

import ast
import codecs
import io
import json
import math
import re
import tokenize
import warnings
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from datetime import datetime
from functools import partial
from itertools import islice
from pathlib import Path
from typing import IO, Any, AnyStr

import orjson

from ragtasks.errors import BenchmarkFileError, excerpt, missing_path
from ragtasks.records import READ, SEARCH, Passage, ToolStep, Trajectory

SAMPLE_STATISTICS = "sample.json"
"""The file that marks a folder as a sample."""

LONGEST_LINE = 1 << 26
"""Maximum bytes of a line, far more than any passage or logged response needs.

Without a maximum, a file without line ends would fill the memory.
"""

MOST_BYTES = 1 << 30
"""Maximum uncompressed bytes of a file that is read as a single text."""

LOOK_AT = 1 << 16
"""Number of bytes read to detect the format of a file."""

_BLOCK = 1 << 20

_PACKED = {b"\x1f\x8b": "gzip", b"\x28\xb5\x2f\xfd": "zstd"}
"""First bytes of a compressed file -> name of its compression."""
_MAX_LISTED = 20
_LONGEST_VALUE = 120  # characters of a value in an error
_MAX_PER_TYPE = 3  # listed errors per type, if there are many
_VARYING = re.compile(r"\d+| \(did you mean .*")  # the parts that differ between errors of one type
_NAN = b"NaN"
_KEY_END = len(b'x": ')
_NAN_NUMBER = re.compile(rb'NaN(?<=\w": NaN)')  # after a key of an object: no string starts directly after a letter


class Problems:
    """The errors of one file."""

    def __init__(self, path: Path, title: str, next_step: str) -> None:
        self.path = path
        self.unit = "line"
        """Unit of the line numbers passed to `add`; `row` in containers other than JSON lines."""
        self.next_step = next_step
        self._title = title
        self._lines: list[tuple[str, str]] = []  # (error type, error)

    def __len__(self) -> int:
        return len(self._lines)

    def add(self, line: int, expected: str, found: object, task_id: str = "") -> None:
        """Add an error. `line` (or row, see `unit`) counts from 1; 0 means the complete file."""
        position = f"{self.unit} {line}" if line else "file"
        task = f" ({task_id})" if task_id else ""
        error_type = _VARYING.sub("", expected)
        self._lines.append((error_type, f"{position}{task}: expected {expected}, found {_short(found)}"))

    def texts(self) -> list[str]:
        """Return the text of every error so far."""
        return [text for _, text in self._lines]

    def unreadable(self, error: OSError) -> BenchmarkFileError:
        """Return the error for a file that is missing, damaged or not readable."""
        line = f"file: expected a readable file, found {error.strerror or str(error)!r}"
        is_missing = isinstance(error, FileNotFoundError)
        path_step = missing_path(self.path)[1] if is_missing else "check the path, and whether you may read the file"
        # Errors of the operating system have a number; decompression errors have none.
        own_step = path_step if error.errno is not None else "the file is damaged: copy or write it again"
        return listed_error(f"{self._title}: {self.path}", [line], self._step_of_file(own_step))

    def empty(self, unit: str) -> BenchmarkFileError:
        """Return the error for a file without any line or row."""
        self.add(0, f"at least one {unit}", f"no {unit}")
        step = self._step_of_file("write the file again: it is empty")
        return listed_error(f"{self._title}: {self.path}", self.texts(), step)

    def _step_of_file(self, step: str) -> str:
        """Return the next step for a problem of the complete file.

        No line can be fixed then, so `step` replaces "fix these lines". A downloaded file keeps its own next step.
        """
        return step if self.next_step.startswith(("fix ", "correct ")) else self.next_step

    def other_form(self, found: str, next_step: str) -> BenchmarkFileError:
        """Return the error for an unsupported format. It replaces the errors collected by line."""
        self._lines.clear()
        expected = "JSON lines, one JSON array, CSV with a header, or Parquet"
        return BenchmarkFileError(
            self._title, where=str(self.path), expected=expected, found=found, next_step=next_step
        )

    def raise_if_any(self) -> None:
        """Raise a single error that lists the collected errors, or the first ones of each type."""
        if self._lines:
            heading, lines = f"{self._title}: {self.path}", _first_of_each_type(self._lines)
            raise listed_error(heading, lines, self.next_step, n_errors=len(self))


def written_lines(rows: Iterable[object], *, is_ascii: bool = False) -> bytes:
    """Return rows as JSON lines. Unpaired surrogates, which UTF-8 cannot encode, become `?`."""
    text = "".join(json.dumps(row, ensure_ascii=is_ascii) + "\n" for row in rows)
    return text.encode("utf-8", errors="replace")


def listed_error(heading: str, lines: Sequence[str], next_step: str, *, n_errors: int = 0) -> BenchmarkFileError:
    """Return an error that lists the first of several lines. Pass `n_errors` if lines and errors differ in number."""
    return BenchmarkFileError("\n  ".join([*heading_and_first(heading, lines, n_errors), f"next step: {next_step}"]))


def heading_and_first(heading: str, lines: Sequence[str], n_errors: int = 0) -> list[str]:
    """Return a heading with the number of errors, followed by the first errors."""
    n = n_errors or len(lines)
    return [f"{heading}: {n} error{'s' if n > 1 else ''}", *first_of(lines)]


def _first_of_each_type(lines: Sequence[tuple[str, str]]) -> list[str]:
    """Return the first errors of each type, in file order.

    The last listed error of a type ends with the number of omitted errors.
    """
    n_of = Counter(error_type for error_type, _ in lines)
    n_seen: Counter[str] = Counter()
    shown: list[str] = []
    for error_type, text in lines:
        n_seen[error_type] += 1
        n_more = n_of[error_type] - _MAX_PER_TYPE if n_seen[error_type] == _MAX_PER_TYPE else 0
        if n_seen[error_type] <= _MAX_PER_TYPE:
            shown.append(f"{text} (and {n_more} more like it)" if n_more else text)
    return shown


def first_of(lines: Sequence[str]) -> list[str]:
    """Return the first 20 errors and, if there are more, a line with the number of omitted errors."""
    n_more = len(lines) - _MAX_LISTED
    return [*lines[:_MAX_LISTED], *([f"and {n_more} more"] if n_more > 0 else [])]


def _short(value: object) -> str:
    try:
        text = value if isinstance(value, str) and value.startswith("no ") else repr(value)
    except RecursionError:
        return "a value that is nested too deeply"
    return excerpt(text, _LONGEST_VALUE)


def parse_json(text: bytes) -> Any:
    """Return the parsed JSON. Bare NaN, which some official files contain, becomes None."""
    text = text.removeprefix(codecs.BOM_UTF8)
    try:
        return orjson.loads(_nan_as_null(text) if _NAN in text else text)
    except orjson.JSONDecodeError:
        try:
            value = json.loads(text.rstrip().decode("utf-8"), parse_constant=lambda _: None)
        except RecursionError as error:
            raise ValueError("JSON that is nested too deeply") from error
    # json.loads accepts unpaired surrogates, which no log, request or file can encode.
    json.dumps(value, ensure_ascii=False).encode("utf-8")
    return value


def parse_time(text: str) -> datetime:
    """Return the time of a text in ISO 8601, as JSON has no times.

    Python 3.10 reads neither the suffix Z nor fractions of a second with other than three or six digits.

    Raises:
        ValueError: not ISO 8601.
    """
    six_digits = re.sub(r"\.([0-9]+)", lambda found: f".{found[1][:6]:0<6}", text)
    return datetime.fromisoformat(six_digits.replace("Z", "+00:00"))


def _nan_as_null(text: bytes) -> bytes:
    """Return JSON with `null` for every NaN outside of strings.

    An odd number of unescaped quotes before a NaN means that it is inside a string. The standard library accepts NaN
    but is ten times slower, which matters for logs of hundreds of megabytes.
    """
    plain = max(0, text.find(_NAN) - _KEY_END)  # usually most of a line: scores follow the texts
    text = text[:plain] + _NAN_NUMBER.sub(b"null", text[plain:])
    parts: list[bytes] = []
    n_quotes = begin = 0
    while (position := text.find(_NAN, max(begin, plain))) >= 0:
        between = text[begin:position]
        n_quotes += between.replace(rb"\\", b"").replace(rb"\"", b"").count(b'"')
        parts += (between, _NAN if n_quotes % 2 else b"null")
        begin = position + len(_NAN)
    return b"".join((*parts, text[begin:]))


def read_content(problems: Problems) -> bytes:
    """Return the bytes of the file of `problems`. An empty file is an error."""
    try:
        with open_unpacked(problems.path) as stream:
            blocks = islice(iter(partial(stream.read, _BLOCK), b""), MOST_BYTES // _BLOCK + 1)
            content = b"".join(blocks).removeprefix(codecs.BOM_UTF8)
    except OSError as error:
        raise problems.unreadable(error) from error
    if len(content) > MOST_BYTES:
        problems.add(0, f"at most {MOST_BYTES:,} bytes, or JSON lines: one object per line", "more")
        problems.raise_if_any()
    if not content.strip():
        raise problems.empty("line")
    return content


def json_array(problems: Problems) -> list[Any]:
    """Return the members of the file of `problems`, which must be a JSON array."""
    rows: object = None
    try:
        rows = parse_json(read_content(problems))
    except ValueError as error:
        problems.add(0, "one JSON array", str(error))
    else:
        if not isinstance(rows, list):
            problems.add(0, "one JSON array", rows)
    problems.raise_if_any()
    return rows if isinstance(rows, list) else []


def sample_statistics(root: Path) -> dict[str, Any] | None:
    """Return the statistics file of a sample, with at least its `version`; None for a folder of real data."""
    path = root / SAMPLE_STATISTICS
    if not path.is_file():
        return None
    try:
        statistics = parse_json(path.read_bytes())
        return {**statistics, "version": str(statistics["version"])}
    except (OSError, ValueError, LookupError, TypeError) as error:
        raise broken_statistics(root, "version", error) from error


def broken_statistics(root: Path, expected: str, found: Exception) -> BenchmarkFileError:
    """Return the error for invalid statistics of a sample."""
    where = str(root / SAMPLE_STATISTICS)
    title, step = "statistics of a sample", "delete it"
    return BenchmarkFileError(title, where=where, expected=expected, found=repr(found), next_step=step)


def open_unpacked(path: Path) -> io.BufferedReader:
    """Open a file for reading bytes, decompressed if its first bytes are those of gzip or zstd."""
    stream: io.BufferedReader = io.BufferedReader(io.FileIO(path), LOOK_AT)
    begin = stream.peek(LOOK_AT)
    packed = next((name for mark, name in _PACKED.items() if begin.startswith(mark)), None)
    if packed is None:
        return stream
    stream.close()
    import pyarrow

    return io.BufferedReader(pyarrow.input_stream(str(path), compression=packed), LOOK_AT)


def first_bytes(path: Path) -> bytes:
    """Return the first bytes of a file for format detection, decompressed and without a byte order mark."""
    with open_unpacked(path) as stream:
        return stream.read(LOOK_AT).removeprefix(codecs.BOM_UTF8)


def bounded_lines(stream: IO[AnyStr]) -> Iterator[AnyStr]:
    """Yield the lines of a stream with their ends. Raises ValueError for a line over `LONGEST_LINE`.

    Every reader of files from others uses this function.
    """
    # `for line in stream` would read a file without line ends completely.
    while line := stream.readline(LONGEST_LINE + 1):
        if len(line) > LONGEST_LINE:
            raise ValueError(f"more than {LONGEST_LINE:,} bytes without a line end")
        yield line


def passage_of(row: object, id_key: str) -> Passage | None:
    """Return the passage of an object whose id and `text` are strings; None for any other object."""
    if not isinstance(row, dict):
        return None
    passage_id, text = row.get(id_key), row.get("text")
    title, url = row.get("title") or "", row.get("url") or ""
    if not isinstance(passage_id, str) or not isinstance(text, str) or not passage_id:
        return None
    return Passage(passage_id, text, title, url) if isinstance(title, str) and isinstance(url, str) else None


def labels_of(value: object) -> tuple[str, ...]:
    """Return the labels of a field that contains a list, a single text, None (NaN in the file) or no value."""
    if isinstance(value, str):
        return (value,)
    return tuple(label for label in value if isinstance(label, str)) if isinstance(value, list) else ()


# Passages as users' systems write them, in an answers file or a reply: texts, or objects with a text.

CONTEXT_IDS = ("id", "passage_id", "document_id", "doc_id")
"""Keys of a passage id, which is a text or a whole number. The first key with a value counts."""
CONTEXT_TEXTS = ("text", "page_content", "content")
"""Keys of a passage's text: ragtasks, LangChain and Haystack."""
UNNAMED = "context-"
"""Prefix of the id of a passage without its own id. Its position from 1 follows."""

_EXPECTED = "a text, or an object with `text`, and texts as `id` and `title` if it has them"
_MOST_LISTED_TEXT = 1 << 24  # characters of a list that Python printed


def list_in(text: str) -> list[Any] | None:
    """Return the list in a text, written as JSON or printed by Python or numpy; None for any other text."""
    text = text.strip()
    if not text.startswith("[") or not text.endswith("]"):
        return None
    with suppress(ValueError):
        value = parse_json(text.encode())
        return value if isinstance(value, list) else None
    if len(text) > _MOST_LISTED_TEXT:
        return None
    try:
        with warnings.catch_warnings():  # invalid escapes in texts that are not lists
            warnings.simplefilter("ignore")
            value = ast.literal_eval(text)
            if not (isinstance(value, list) and all(isinstance(member, str) for member in value)):
                return value if isinstance(value, list) else None
            # numpy prints no commas, and Python joins adjacent string literals.
            tokens = tokenize.generate_tokens(io.StringIO(text).readline)
            return [ast.literal_eval(token.string) for token in tokens if token.type == tokenize.STRING]
    except (ValueError, SyntaxError, TypeError, MemoryError, RecursionError, tokenize.TokenError):
        return None


def contexts_in(value: Any) -> tuple[Passage, ...]:
    """Return the passages in a list of contexts, in order."""
    if isinstance(value, (str, Mapping)) or not hasattr(value, "__iter__"):
        raise ValueError("a list", type(value).__name__)
    return tuple(_passage(context, number) for number, context in enumerate(value, start=1))


def _passage(context: Any, number: int) -> Passage:
    if isinstance(context, Passage):
        return context
    row = {"text": context} if isinstance(context, str) else context
    if not isinstance(row, Mapping):
        raise ValueError(f"context {number}: {_EXPECTED}", type(context).__name__)
    named = next((row[key] for key in CONTEXT_IDS if row.get(key) not in (None, "")), f"{UNNAMED}{number}")
    named = str(named) if isinstance(named, int) and not isinstance(named, bool) else named
    text = next((row[key] for key in CONTEXT_TEXTS if row.get(key) is not None), None)
    parts = (named, text, row.get("title") or "", row.get("url") or "")
    wrong = [key for key, part in zip(("id", "text", "title", "url"), parts, strict=True) if not isinstance(part, str)]
    if wrong:
        missing = "no text" if text is None else f"no text as `{wrong[0]}`"
        raise ValueError(f"context {number}: {_EXPECTED}", missing)
    return Passage(*(str(part) for part in parts))


# The searches that a system made before its answer. Systems list them under `searches`, next to the contexts.


def contexts_and_steps(
    contexts: tuple[Passage, ...] | None, searches: Any
) -> tuple[tuple[Passage, ...] | None, Trajectory | None]:
    """Return the contexts of an answer and the steps before it.

    Without `contexts`, all passages in the search results count as contexts. Both values are None if `contexts` and
    `searches` are None.

    Raises:
        ValueError: (expected, found) for an invalid `searches`.
    """
    if searches is None:
        return contexts, None
    if isinstance(searches, (str, Mapping)) or not hasattr(searches, "__iter__"):
        raise ValueError("`searches`: a list", type(searches).__name__)
    steps: list[ToolStep] = []
    passages_by_key: dict[tuple[str, str], Passage] = {}
    # Passages without an id are identified by their text.
    unnamed = {passage.text: passage.passage_id for passage in contexts or () if passage.passage_id.startswith(UNNAMED)}
    n_before = len(contexts or ())
    earlier_calls: set[tuple[str, str]] = set()
    for number, search in enumerate(searches, start=1):
        tool, text, passages = _search(search, number)
        passages = tuple(_with_id(passage, unnamed, n_before) for passage in passages)
        call_key = (tool, " ".join(text.casefold().split()))
        name = "query" if tool == SEARCH else "passage_id"
        ids = tuple(passage.passage_id for passage in passages)
        steps.append(ToolStep(tool, {name: text}, number, ids, is_repeat=call_key in earlier_calls))
        earlier_calls.add(call_key)
        passages_by_key |= {
            key: passage for passage in passages if (key := (passage.passage_id, passage.text)) not in passages_by_key
        }
    return (tuple(passages_by_key.values()) if contexts is None else contexts), Trajectory(tuple(steps))


def _search(search: Any, number: int) -> tuple[str, str, tuple[Passage, ...]]:
    """Return the tool of a call, its argument and the passages in its result."""
    if not isinstance(search, Mapping):
        raise ValueError(f"search {number}: an object with `query` and `passages`", type(search).__name__)
    calls = [(tool, search[key]) for tool, key in ((SEARCH, "query"), (READ, "read")) if search.get(key) is not None]
    if len(calls) != 1:
        raise ValueError(
            f"search {number}: `query`, or `read` with the id of a passage", "both" if calls else "neither"
        )
    ((tool, argument),) = calls
    if not isinstance(argument, str) or not argument.strip():
        raise ValueError(f"search {number}: a text as `{'query' if tool == SEARCH else 'read'}`", argument)
    if search.get("passages") is None:
        raise ValueError(f"search {number}: `passages`, [] without results", "no `passages`")
    try:
        return tool, argument, contexts_in(search["passages"])
    except ValueError as error:
        expected, found = error.args
        raise ValueError(f"search {number}, passages: {expected}", found) from None


def _with_id(passage: Passage, unnamed: dict[str, str], n_before: int) -> Passage:
    """Return a passage with its own id, or with an id shared by all passages of the same text."""
    if not passage.passage_id.startswith(UNNAMED):
        return passage
    passage_id = unnamed.setdefault(passage.text, f"{UNNAMED}{n_before + len(unnamed) + 1}")
    return replace(passage, passage_id=passage_id)


# Usage of an answer as reported by its system: in rows of an answers file, in submissions and in replies of an
# endpoint.

USAGE_KEYS = (
    *("seconds", "first_token_seconds", "retriever_seconds", "input_tokens", "output_tokens", "cached_tokens"),
    *("cost", "currency"),
)
_CURRENCY = "USD"


def usage_in_record(record: Mapping[str, Any]) -> dict[str, float]:
    """Return the usage of an answer by score name (`cost` becomes `dollars`); {} if the record reports no usage.

    Raises:
        ValueError: (expected, found).
    """
    usage = {key: record[key] for key in USAGE_KEYS if record.get(key) is not None}
    usage = {key: value.item() if hasattr(value, "item") else value for key, value in usage.items()}  # numpy scalars
    currency = usage.pop("currency", None)
    for key, value in usage.items():
        is_number = isinstance(value, (int, float)) and not isinstance(value, bool) and math.isfinite(value)
        if not is_number or value < 0 or (key.endswith("_tokens") and value != int(value)):
            raise ValueError(f"`{key}`: a {'whole number' if key.endswith('_tokens') else 'number'} from 0 on", value)
    if usage.get("cached_tokens", 0) > usage.get("input_tokens", math.inf):
        raise ValueError(
            "`cached_tokens`: no more than `input_tokens`, of which they are a part", usage["cached_tokens"]
        )
    if "cost" in usage and currency != _CURRENCY:
        raise ValueError(f'`currency`: "{_CURRENCY}" with `cost`', currency or "no currency")
    names = {"cost": "dollars"}
    return {names.get(key, key): value for key, value in usage.items()}

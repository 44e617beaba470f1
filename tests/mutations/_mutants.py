"""Broken files made of sound ones: by structure (keys, types, rows, cells) and by bytes, the same for the same seed."""

from __future__ import annotations

import codecs
import copy
import json
from collections.abc import Callable, Iterator
from enum import Enum
from random import Random
from typing import Any

Path = tuple[Any, ...]


class Form(Enum):
    """How a kind of file is built, as far as a mutation must know it."""

    JSON = "json"
    JSON_LINES = "json lines"
    CELLS = "cells"
    TEXT = "text"
    BYTES = "bytes"


DEEP = 100_000
HOLE = "@here@"
# Values of every type and of every size, and what no reader should take for a text, a number or a name.
VALUES: tuple[Any, ...] = (
    *(None, True, False, 0, -1, 1, 2**31, 2**64, 10**30, 0.5, -1e308, "", " ", "x", "1", "nan", "None", "a/b"),
    *("../../x", "/etc/hosts", "\x00", "line\nbreak", "\u2028", "half \ud800", "\ud83d", "x" * 20_000, [], {}, [None]),
    *([1], ["x"], [[]], [{}], {"x": 1}, {"": None}, [["a", "b"], ["c"]], {"text": None}, [{"text": 1}]),
)
# JSON that no value of Python writes.
WRITTEN = (
    "NaN",
    "Infinity",
    "-Infinity",
    "1e999",
    "-1e999",
    "9" * 400,
    "9" * 5000,
    '{"a": 1, "a": 2}',
    "nul",
    "",
    "'x'",
)
DEEPLY = ("[" * DEEP + "]" * DEEP, '{"a":' * DEEP + "1" + "}" * DEEP, "[" * 300 + "]" * 300)
CELLS = ("", "nan", "inf", "-1", "1e999", "9" * 400, "x", "é", "a b", '"', "\x00", "../x", "x" * 5000, "1.5", "0")


def mutant(content: bytes, form: Form, random: Random) -> tuple[str, bytes]:
    """Return the name of a mutation and what it made of a file."""
    choices: list[Callable[[bytes, Random], tuple[str, bytes]]] = [_of_bytes]
    if form in {Form.JSON, Form.JSON_LINES}:
        choices = [_of_bytes, *[_of_structure(form)] * 3]
    elif form is Form.CELLS:
        choices = [_of_bytes, *[_of_cells] * 2]
    if form in {Form.JSON_LINES, Form.CELLS, Form.TEXT}:
        choices.append(_of_lines)
    return random.choice(choices)(content, random)


def mutated_json(value: Any, random: Random) -> tuple[str, str]:
    """Return the name of a mutation and the JSON that it made of a value."""
    value = copy.deepcopy(value)
    places = list(_places(value))
    place = random.choice(places)
    how = random.choice(["drop", "retype", "retype", "retype", "nest", "double", "rename", "swap", "written", "deep"])
    if how == "drop" and place:
        parent = _at(value, place[:-1])
        del parent[place[-1]]
    elif how == "rename" and place and isinstance(place[-1], str):
        parent = _at(value, place[:-1])
        parent[random.choice(_names(place[-1]))] = parent.pop(place[-1])
    elif how == "swap" and place:
        other = random.choice([one for one in places if one])
        here, there = _at(value, place), _at(value, other)
        value = _with(_with(value, place, copy.deepcopy(there)), other, copy.deepcopy(here))
    elif how == "nest":
        inner = _at(value, place)
        value = _with(value, place, random.choice([[inner], {"x": inner}, [inner, inner], json.dumps(inner)]))
    elif how == "double" and place and isinstance(place[-1], str):
        return _doubled(value, place, random)
    elif how in {"written", "deep"}:
        text = random.choice(WRITTEN if how == "written" else DEEPLY)
        return how, json.dumps(_with(value, place, HOLE)).replace(json.dumps(HOLE), text)
    else:
        how = "retype"
        value = _with(value, place, random.choice(VALUES))
    return how, json.dumps(value, ensure_ascii=random.random() < 0.7)


def _doubled(value: Any, place: Path, random: Random) -> tuple[str, str]:
    """Return JSON with a key that appears twice in one object."""
    others: list[Any] = [None, "x", 1, []]
    inner, other = _at(value, place), random.choice(others)
    text = json.dumps(_with(value, place, HOLE))
    return "double", text.replace(
        json.dumps(HOLE), f"{json.dumps(other)}, {json.dumps(place[-1])}: {json.dumps(inner)}"
    )


def _of_structure(form: Form) -> Callable[[bytes, Random], tuple[str, bytes]]:
    def change(content: bytes, random: Random) -> tuple[str, bytes]:
        if form is Form.JSON:
            how, text = mutated_json(json.loads(content), random)
            return how, text.encode("utf-8", "surrogatepass")
        lines = content.splitlines()
        index = random.randrange(len(lines))
        how, text = mutated_json(json.loads(lines[index]), random)
        lines[index] = text.encode("utf-8", "surrogatepass")
        return how, b"\n".join(lines) + b"\n"

    return change


def _of_cells(content: bytes, random: Random) -> tuple[str, bytes]:
    lines = content.decode().splitlines()
    index = random.randrange(len(lines))
    sign = "\t" if "\t" in lines[index] else " "
    cells = lines[index].split(sign)
    place = random.randrange(len(cells))
    how = random.choice(["drop a cell", "double a cell", "another cell", "another cell", "swap cells"])
    if how == "drop a cell":
        del cells[place]
    elif how == "double a cell":
        cells.insert(place, cells[place])
    elif how == "another cell":
        cells[place] = random.choice(CELLS)
    else:
        random.shuffle(cells)
    lines[index] = sign.join(cells)
    return how, ("\n".join(lines) + "\n").encode()


def _of_lines(content: bytes, random: Random) -> tuple[str, bytes]:
    lines = content.splitlines()
    index, other = random.randrange(len(lines)), random.randrange(len(lines))
    how = random.choice(["drop a row", "double a row", "swap rows", "blank row", "join rows"])
    if how == "drop a row":
        del lines[index]
    elif how == "double a row":
        lines.insert(other, lines[index])
    elif how == "swap rows":
        lines[index], lines[other] = lines[other], lines[index]
    elif how == "blank row":
        lines.insert(index, b"   ")
    else:
        return how, b"".join(lines)
    return how, b"\n".join(lines) + b"\n"


def _of_bytes(content: bytes, random: Random) -> tuple[str, bytes]:
    index, length = random.randrange(len(content)), random.randrange(1, 60)
    text = content.decode("utf-8", "replace")
    made: dict[str, Callable[[], bytes]] = {
        "empty": lambda: random.choice([b"", b"\n", b" \n\t"]),
        "truncated": lambda: content[:index],
        "byte order mark": lambda: codecs.BOM_UTF8 + content,
        "line ends": lambda: content.replace(b"\n", random.choice([b"\r\n", b"\r", b"\n\n"])),
        "utf-16": lambda: text.encode("utf-16"),
        "latin-1": lambda: f"é{text}".encode("latin-1", "replace"),
        "other bytes": lambda: content[:index] + random.randbytes(length) + content[index + length :],
        "more bytes": lambda: content[:index] + random.randbytes(length) + content[index:],
        "one bit": lambda: content[:index] + bytes([content[index] ^ 1 << random.randrange(8)]) + content[index + 1 :],
        "fewer bytes": lambda: content[:index] + content[index + length :],
        "zeros": lambda: content[:index] + b"\0" * length + content[index:],
        "twice": lambda: content + content,
        "no json": lambda: random.choice(
            [b"null", b"[]", b"{}", b"1", b'"x"', b"[[]]", b"NaN", b"[null]", b"\xff\xfe"]
        ),
        "deep": lambda: random.choice(DEEPLY).encode(),
    }
    how = random.choice(list(made))
    return how, made[how]()


def _places(value: Any, place: Path = ()) -> Iterator[Path]:
    """Yield the place of everything in a JSON value; of long lists the first and last members only."""
    yield place
    if isinstance(value, dict):
        for key in value:
            yield from _places(value[key], (*place, key))
    elif isinstance(value, list):
        for index in sorted({*range(min(3, len(value))), *range(max(0, len(value) - 1), len(value))}):
            yield from _places(value[index], (*place, index))


def _names(name: str) -> list[str]:
    return [name.upper(), f"{name} ", "", "\ud800", "__class__", "a/b", f"../{name}", "\0", name * 99]


def _at(value: Any, place: Path) -> Any:
    for key in place:
        value = value[key]
    return value


def _with(value: Any, place: Path, new: Any) -> Any:
    """Return the value with something else at a place, where the place is (still) there."""
    if not place:
        return new
    try:
        _at(value, place[:-1])[place[-1]] = new
    except (LookupError, TypeError):
        return value
    return value

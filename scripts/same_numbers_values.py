"""The values in a folder that `same_numbers.py` stored, and how two such folders differ."""

from __future__ import annotations

import csv
import difflib
import json
import re
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

Values = Mapping[str, Any]
"""Path in a file -> number, label, text, or a tuple of such."""

NOT_COUNTED = ("wording", "hash")
"""Types of differences that are listed but do not count as a changed value."""
_NUMBER = re.compile(r"-?\d+(?:\.\d+)?(?:e[-+]?\d+)?")
_PASSING = re.compile(
    r"\d+(?:\.\d+)? ?(?:s|ms|seconds|minutes|[KM]B|[KM]iB)\b|\d{4}-\d\d-\d\d(?:[T ]\d\d[\d:.-]*)?|127\.0\.0\.1:\d+"
)
"""Durations, sizes on disk, times and addresses in texts."""
_UNSTABLE = re.compile(
    r"seconds|timestamp|_version$|^(?:date|time|start_time|end_time|total_evaluation_time|created\w*|at|elapsed|path"
    r"|pretty_env_info|packages|git_hash|config_source|base_url|encoder_engine|scored_by|evaluation_id|spent)$"
)
"""Keys of times, paths and versions; `spent` depends on whether a reply was cached."""
_WORDING = re.compile(r"reason|note|sentence|description|legend|problem|unscored|expected|found|consequence|what it is")
"""Keys of prose: its numbers count, its wording does not."""
_ENCODED = re.compile(r"[\w+/]{1000}")
"""Compressed data of a page, which contains its time."""
_HASH = re.compile(r"\b[0-9a-f]{12,64}\b")
_TASK = re.compile(r"^(configs|results|groups|versions|n-shot|n-samples|higher_is_better|group_subtasks)\.[^.]+")
_NAMES = (
    *("task_id", "doc_id", "id", "_id", "turn_id", "topic_id", "query", "passage", "line", "rule"),
    *("title", "setting", "model", "system", "metric", "dimension", "slice", "kind", "name", "tool"),
)
"""Keys that identify the items of a list."""


@dataclass(frozen=True)
class Difference:
    """A value that differs."""

    kind: str
    """`only before`, `only after`, `changed`, or one of NOT_COUNTED."""
    file: str
    path: str
    before: Any = None
    after: Any = None

    def __str__(self) -> str:
        values = {"only before": [self.before], "only after": [self.after]}.get(self.kind, [self.before, self.after])
        return f"{self.file} {self.path}: {' -> '.join(map(_short, values))}"


def read_values(folder: Path) -> dict[str, Values]:
    """Return file -> its values, for every file of a known type in a folder."""
    values = {}
    for file in sorted(folder.rglob("*")):
        if {"indexes", "searches"} & set(file.parts):
            continue  # caches, whose file names change
        name = re.sub(r"_\d{4}-\d\d-\d\dT[-\d.]+\d", "", _HASH.sub("HASH", str(file.relative_to(folder))))
        if file.suffix in _READERS and file.is_file():
            values[name] = _READERS[file.suffix](file.read_text(encoding="utf-8").replace(str(folder), "FOLDER"))
    return values


def _printed(text: str) -> Values:
    """Return the numbers of each line that is not about a duration; for printed JSON its leaves."""
    try:
        content, end = json.JSONDecoder().raw_decode(text)
    except ValueError:
        content, end = None, 0
    kept = [line for line in _HASH.sub("", _PASSING.sub("", text[end:])).splitlines() if "seconds" not in line]
    kept = [line for line in kept if not _ENCODED.search(line)]
    lines = (tuple(_NUMBER.findall(line)) for line in kept)
    return {"lines": tuple(filter(None, lines)), **(dict(leaves(content)) if end else {})}


def _element(element: ElementTree.Element) -> dict[str, Any]:
    """Return an XML element as a dictionary."""
    return {"tag": element.tag, **element.attrib, "text": element.text, "items": [_element(child) for child in element]}


_READERS = {
    ".json": lambda text: dict(leaves(json.loads(text))),
    ".jsonl": lambda text: dict(leaves([json.loads(line) for line in text.split("\n") if line])),
    ".csv": lambda text: dict(leaves(list(csv.DictReader(text.splitlines())))),
    ".xml": lambda text: dict(leaves(_element(ElementTree.fromstring(text)))),
    ".trec": lambda text: {"lines": tuple(text.splitlines())},
    ".txt": lambda text: {"lines": tuple(text.splitlines())},
    **dict.fromkeys((".out", ".md", ".html", ".yaml"), _printed),
}


def leaves(value: Any, path: str = "") -> Iterator[tuple[str, Any]]:
    """Yield (path, value) of everything in decoded JSON. Items of lists are identified by name, not by position."""
    if isinstance(value, dict) and value:
        for key, child in value.items():
            if not _UNSTABLE.search(key):
                yield from leaves(child, f"{path}.{key}".lstrip("."))
    elif isinstance(value, list) and any(isinstance(child, dict | list) for child in value):
        counts: Counter[str] = Counter()
        for index, child in enumerate(value):
            name = _name(child) or str(index)
            counts[name] += 1
            if not _UNSTABLE.search(name):
                yield from leaves(child, f"{path}[{name}{'~' * (counts[name] - 1)}]")
    elif value not in ({}, []):
        yield path, tuple(value) if isinstance(value, list) else value


def _name(row: Any) -> str:
    named = [row.get(key) for key in _NAMES] if isinstance(row, dict) else []
    return "/".join(str(name) for name in named if isinstance(name, str | int) and len(str(name)) < 80)


def differences(before: Mapping[str, Values], after: Mapping[str, Values]) -> Iterator[Difference]:
    """Yield every value that differs, by file and path."""
    for file in sorted(before.keys() | after.keys()):
        old, new = before.get(file), after.get(file)
        if old is None or new is None:
            category, values = ("only before", old) if new is None else ("only after", new)
            yield Difference(category, file, "(the file)", f"{len(values or ())} values", f"{len(values or ())} values")
            continue
        for path in [*old, *(path for path in new if path not in old)]:
            if path not in new or path not in old:
                category = "only before" if path in old else "only after"
                yield Difference(category, file, path, old.get(path), new.get(path))
            else:
                yield from _pair(file, path, old[path], new[path])


def _pair(file: str, path: str, old: Any, new: Any) -> Iterator[Difference]:
    """Yield the differences between two values of a path; for tuples each item that was removed, added or replaced."""
    if old == new or repr(old) == repr(new):
        return
    if isinstance(old, tuple) and isinstance(new, tuple):
        for tag, i, j, k, m in difflib.SequenceMatcher(None, old, new, autojunk=False).get_opcodes():
            if tag == "equal":
                continue
            n_pairs = j - i if j - i == m - k else 0
            for a, b in zip(old[i : i + n_pairs], new[k : k + n_pairs], strict=True):
                yield from _pair(file, path, _joined(a), _joined(b))
            yield from (Difference("only before", file, path, _joined(value)) for value in old[i + n_pairs : j])
            yield from (Difference("only after", file, path, None, _joined(value)) for value in new[k + n_pairs : m])
        return
    category = "changed"
    if isinstance(old, str) and isinstance(new, str):
        a, b = (_HASH.sub("HASH", _PASSING.sub("", text)) for text in (old, new))
        if a == b:
            category = "hash" if _HASH.search(old) else ""
        elif _WORDING.search(path) and " " in old + new and _NUMBER.findall(a) == _NUMBER.findall(b):
            category = "wording"
    if category:
        yield Difference(category, file, path, old, new)


def _joined(value: Any) -> Any:
    return " ".join(value) if isinstance(value, tuple) else value


def summary(changes: Sequence[Difference]) -> Iterator[str]:
    """Yield the lines of a report: for each type the number of differences and their paths, with an example."""
    for category in ("changed", "only before", "only after", *NOT_COUNTED):
        shapes = defaultdict(list)
        for difference in changes:
            if difference.kind == category:
                shape = _TASK.sub(r"\1.*", re.sub(r"\[[^\]]*\]", "[*]", difference.path))
                folder, _, name = difference.file.rpartition("/")
                location = {"lines": difference.file, "(the file)": f"{folder}/*{Path(name).suffix}"}.get(shape, "")
                shapes[f"{location} {shape}".strip()].append(difference)
        n_values = sum(map(len, shapes.values()))
        remark = " (not counted)" * (category in NOT_COUNTED)
        yield f"\n{category}{remark}: {n_values:,} values under {len(shapes)} paths"
        for shape, group in sorted(shapes.items(), key=lambda pair: (-len(pair[1]), pair[0])):
            n_files = len({other.file for other in group})
            yield f"  {shape}: {len(group)} in {n_files} file{'s' * (n_files > 1)}, such as {group[0]}"


def _short(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 90 else f"{text[:60]} ... {text[-25:]}"

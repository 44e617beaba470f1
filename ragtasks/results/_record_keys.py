"""The keys of records: those of ragtasks, those of other tools, and those that a user names.

One table serves files and Python programs, the user's own rows and answers to a benchmark. Support for another tool is
a line of the table, not a branch of a reader.
"""

from __future__ import annotations

import difflib
import math
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from ragtasks.errors import ConfigurationError, close_matches
from ragtasks.files import USAGE_KEYS

_NO_KEY = "-"
_OPTIONAL = ("contexts", "reference")
_NOT_ANSWERS = re.compile(r"reference|expected|truth|gold|ideal|target|label|time|date|version|(^|_)(id|name|type)$")
_SYNONYMS = {"question": ("prompt", "instruction"), "answer": ("output", "complet", "predict", "generat", "reply")}
_MAX_DEPTH = 4  # levels of objects in which keys are searched
_MAX_LISTED = 12
_MIN_SIMILARITY = 0.6


@dataclass(frozen=True)
class RecordKeys:
    """The keys under which a record contains each value."""

    names: Mapping[str, tuple[str, ...]]
    """Value -> its keys, those of ragtasks first."""
    fallback: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """Value -> keys that other records use for other values. They are read only if no key of `names` has the value."""
    required: tuple[str, ...] = ("answer",)

    def with_keys(self, keys: Mapping[str, str]) -> RecordKeys:
        """Return the table with the user's keys in place of the built-in ones. The key `-` disables a value."""
        named = {name: (key,) if key != _NO_KEY else () for name, key in keys.items()}
        fallback = {name: built_in for name, built_in in self.fallback.items() if name not in keys}
        return replace(self, names={**self.names, **named}, fallback=fallback)

    def all_of(self, name: str) -> tuple[str, ...]:
        """Return every key of a value, the most certain first."""
        return *self.names[name], *self.fallback.get(name, ())

    def keys_in(self, row: Mapping[str, Any], name: str) -> list[str]:
        """Return the keys under which a record has a value."""
        if certain := [key for key in self.names[name] if _has_value(row, key, name)]:
            return certain
        fallback = [key for key in self.fallback.get(name, ()) if _has_value(row, key, name)]
        likely = [key for key in fallback if name in self.required or not isinstance(row.get(key), (bool, Mapping))]
        return [key for key in likely if _CHANGED_BY.get(key) not in row][:1]

    def unread(self, row: Mapping[str, Any]) -> list[str]:
        """Return the keys of a record that have a value and are not read."""
        used = {key for name in self.names for key in (*self.names[name], *self.keys_in(row, name))}
        heads = {key.partition(".")[0] for key in used if key not in row}
        return [key for key in map(str, row) if key not in used and key not in heads and not is_null(row.get(key))]

    def missing(self, row: Mapping[str, Any]) -> list[str]:
        """Return the required values for which a record has no key. An object under such a key is not a value."""

        def has_value(key: str) -> bool:
            value = value_under(row, key)
            return (value is not None or key in row) and not isinstance(value, Mapping)

        return [name for name in self.required if not any(map(has_value, self.all_of(name)))]

    def unread_leaves(self, row: Mapping[str, Any]) -> dict[str, Any]:
        """Return key with dots -> value, for the keys that are not read and all keys within objects."""
        unread = self.unread(row)
        return {key: value for key, value in _leaves(row) if "." in key or key in unread}

    def suggestions(self, row: Mapping[str, Any]) -> dict[str, str]:
        """Return value -> the key that a user may mean, for missing values and for likely optional values."""
        unread = self.unread_leaves(row)
        texts = [key for key in unread if isinstance(unread[key], str) and not _NOT_ANSWERS.search(_last_part(key))]
        suggested: dict[str, str] = {}
        missing = self.missing(row)
        optional = [name for name in _OPTIONAL if name in self.names and not self.keys_in(row, name)]
        for name in (*missing, *optional):
            free = [key for key in unread if key not in suggested.values()]
            likely = [key for key in free if _last_part(key) in self.all_of(name)]
            if name in missing:
                free = [key for key in texts if key in free]
                is_certain = len(free) == len(missing) - len(suggested)
                likely = likely or _similar(name, free) or (free if is_certain else [])
            if likely:
                suggested[name] = likely[0]
        return suggested


_OWN = {
    "question": ("question", "user_input", "input"),
    "messages": ("messages",),
    "answer": ("answer", "response", "actual_output"),
    "contexts": ("contexts", "retrieved_contexts", "retrieval_context"),
    "searches": ("searches",),
    "reference": ("reference", "ground_truth", "expected_output"),
    "id": ("id",),
    "conversation_id": ("conversation_id", "session_id"),
    "domain": ("domain",),
    "language": ("language",),
    **{key: (key,) for key in USAGE_KEYS},
}
_OTHERS = {  # RAGChecker, Azure's evaluator, the first ragas, TruLens, LangChain
    "question": ("query",),
    "answer": ("output", "result"),
    "contexts": ("retrieved_context", "context", "source_documents"),
    "reference": ("ground_truths", "gt_answer", "truth"),
    "id": ("query_id",),
}
_CHANGED_BY = {"context": "actual_output"}
"""Key -> a neighbor that changes its meaning. Next to `actual_output`, deepeval's `context` is the reference."""

JOINED = {"retrieval_context": "|"}
"""Key -> separator of a list in one text, as in deepeval's CSV files."""

ROW_KEYS = RecordKeys(_OWN, _OTHERS, required=("question", "answer"))
"""Keys of the user's own rows. The second and third keys are those of ragas and deepeval."""

ANSWER_KEYS = RecordKeys(
    {
        "id": ("id", "task_id"),
        "answer": ("answer", "text", "predictions", "response"),
        "contexts": ("contexts", "passages"),
        "searches": ("searches",),
        **{key: (key,) for key in USAGE_KEYS},
    },
    required=("id", "answer"),
)
"""Keys of an answer to a benchmark. The first key with a value counts."""


def named_keys(pairs_or_text: str | Mapping[str, str], more: Iterable[str] = ()) -> dict[str, str]:
    """Return value -> key of `answer=response,question=query`, or of such a mapping. `more` are further values.

    Raises:
        ConfigurationError: an unknown value, or text in another form.
    """
    pairs = (
        pairs_or_text.items()
        if isinstance(pairs_or_text, Mapping)
        else [part.partition("=")[::2] for part in pairs_or_text.split(",")]
    )
    keys = {str(name).strip(): str(key).strip() for name, key in pairs}
    names = {*ROW_KEYS.names, *ANSWER_KEYS.names, *more}
    for name, key in keys.items():
        if name not in names and key in names:
            raise ConfigurationError(f"keys: {name}={key} is the other way round. Next step: write {key}={name}")
        if name not in names:
            raise ConfigurationError(f"keys: unknown name {name!r}; {close_matches(name, names)}")
        if not key:
            raise ConfigurationError(
                f"keys: no key after {name!r}. Next step: write {name}=KEY, such as answer=response"
            )
    return keys


def keys_step(table: RecordKeys, row: Mapping[str, Any], call: str) -> str:
    """Return the next step if the key of a required value is unknown: the line to type. Empty if all keys are known."""
    missing, found_keys = table.missing(row), [key for key, _ in _leaves(row)]
    if not missing or not table.unread_leaves(row):
        return ""
    more = f" and {len(found_keys) - _MAX_LISTED} more" if len(found_keys) > _MAX_LISTED else ""
    suggested = {**dict.fromkeys(missing, "KEY"), **table.suggestions(row)}
    line = ",".join(f"{name}={key}" for name, key in suggested.items())
    return f"name the keys, such as `{call.format(line)}`; keys found: {', '.join(found_keys[:_MAX_LISTED])}{more}"


def value_under(row: Mapping[str, Any], key: str) -> Any:
    """Return the value under a key, or None. Dots lead into objects and lists, such as `choices.0.text`."""
    if key in row or "." not in key:
        return row.get(key)
    value: Any = row
    for part in key.split("."):
        if isinstance(value, list):
            value = value[int(part)] if part.isdecimal() and int(part) < len(value) else None
        else:
            value = value.get(part) if isinstance(value, Mapping) else None
    return value


def is_null(value: Any) -> bool:
    """Return whether a value is null, or the NaN of a data frame."""
    return value is None or (isinstance(value, float) and math.isnan(value))


def _has_value(row: Mapping[str, Any], key: str, name: str) -> bool:
    """Return whether a record has a value. An empty cell is a value only for the answer."""
    value = value_under(row, key)
    return not is_null(value) and (name == "answer" or not (isinstance(value, str) and not value))


def _leaves(row: Mapping[str, Any], prefix: str = "", depth: int = 1) -> Iterator[tuple[str, Any]]:
    """Yield (key with dots, value) of a record and of the objects in it."""
    for key, value in row.items():
        if isinstance(value, Mapping) and value and depth < _MAX_DEPTH:
            yield from _leaves(value, f"{prefix}{key}.", depth + 1)
        else:
            yield f"{prefix}{key}", value


def _last_part(key: str) -> str:
    return key.rpartition(".")[2].lower()


def _similar(name: str, keys: Sequence[str]) -> list[str]:
    """Return the keys whose last part resembles a name, is a synonym of it, or begins it, as `q` does `question`."""
    parts = {key: _last_part(key) for key in keys}
    near = difflib.get_close_matches(name, parts.values(), n=1, cutoff=_MIN_SIMILARITY)
    containing = [key for key, part in parts.items() if name in part or name.startswith(part)]
    synonyms = [key for key, part in parts.items() if any(word in part for word in _SYNONYMS.get(name, ()))]
    return [*(key for key, part in parts.items() if part in near), *containing, *synonyms]

"""The exceptions of ragtasks: one root, one child for each cause a user can act on.

A message says what was read, where, what was expected, what was found, and the next step. An error that is raised with
one of these parts needs all five, so that no message forgets one.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, overload

if TYPE_CHECKING:
    from pydantic import ValidationError
    from pydantic_core import ErrorDetails


class RagtasksError(Exception):
    """Root of every error that ragtasks raises on purpose: a message, or the five parts of one."""

    exit_status = 1
    """Status that a command ends with; 2 is the parser's, for a command line that it cannot read."""

    @overload
    def __init__(self, what: str) -> None: ...
    @overload
    def __init__(self, what: str, *, where: str, expected: str, found: str, next_step: str) -> None: ...
    def __init__(self, what: str, **parts: str) -> None:
        super().__init__(masked_text(clear_error(what, **parts) if parts else what))
        self.found = masked_text(parts.get("found", what))
        """What was found; the whole message if it has no parts."""


class ConfigurationError(RagtasksError):
    """An option, a metadata key or a template that cannot be used."""


class BenchmarkFileError(RagtasksError):
    """A benchmark file that is missing, corrupt, or not what its format says."""


class FetchError(RagtasksError):
    """A download that failed, or that delivered other bytes than the pinned ones."""


class CacheError(RagtasksError):
    """A cached artefact that is missing, stale or corrupt."""


class JudgeError(RagtasksError):
    """A judge that cannot be reached or did not answer as asked."""


class ModelError(RagtasksError):
    """A model under test that cannot be reached, or gives no answers any more."""


class ImplausibleError(RagtasksError):
    """Too many answers cannot be answers (docs/troubleshooting.md); everything is saved and scored as it is."""

    exit_status = 3


class MissingExtraError(RagtasksError):
    """A library that an optional part needs is not installed."""

    def __init__(self, library: str, extra: str, purpose: str, more: str = "") -> None:
        super().__init__(
            f"{purpose} needs {library}, which is not installed. Next step: pip install 'ragtasks[{extra}]'{more}"
        )


def clear_error(what: str, *, where: str, expected: str, found: str, next_step: str) -> str:
    """Return one message with the five things a reader needs."""
    return f"{what}: {where}\n  expected: {expected}\n  found: {found}\n  next step: {next_step}"


def one_line(error: Exception | str) -> str:
    """Return an error as one line without secrets: what, where, expected and found, then the next step."""
    lines = [line.strip().removesuffix(".") for line in masked_text(str(error)).splitlines() if line.strip()]
    text = "; ".join(lines).replace("; next step: ", ". Next step: ").replace("; expected: did you", "; did you")
    text = text.replace("; expected: ", "; expected ").replace("?; found: ", "?; found ")
    return text.replace("; found: ", ", found ")


def misfits(error: ValidationError, whole: str = "content") -> list[str]:
    """Return what does not fit a typed model, a line each; `whole` names what is wrong with no single field."""
    named = [(".".join(map(str, item["loc"])) or whole, misfit(item)) for item in error.errors()]
    return list(dict.fromkeys(f"{name}: {text}" if name else text for name, text in named))


_KINDS = {"string": "a text", "int": "a whole number", "float": "a number", "bool": "true or false"} | dict.fromkeys(
    ("dict", "model", "mapping", "dataclass"), "keys with values"
) | dict.fromkeys(("list", "tuple", "set", "frozen"), "a list")  # fmt: skip
_BOUNDS = {
    "greater_than_equal": "{} or more",
    "greater_than": "more than {}",
    "less_than_equal": "{} or less",
    "less_than": "less than {}",
}
_OTHER_KINDS = {
    "missing": "is missing",
    "string_too_short": "expected a text that is not empty",
    "too_short": "expected more values",
    "too_long": "expected fewer values",
    "path_type": "expected a path",
    "string_pattern_mismatch": "expected a name of letters, digits and _",
}
_FOUND = {str: "a text", bool: "true or false", list: "a list", dict: "keys with values", type(None): "nothing"}


def misfit(item: ErrorDetails) -> str:
    """Return an error of pydantic in plain words, without the value, which may be long or secret."""
    kind, given = item["type"], item["input"]
    if kind.endswith(("_type", "_parsing")) and (expected := _KINDS.get(kind.partition("_")[0])):
        return f"expected {expected}, found {_FOUND.get(type(given), 'a number')}"
    if kind in {"literal_error", "enum"}:
        choices = str(item["ctx"]["expected"])
        known = re.findall("'([^']+)'", choices)
        near = difflib.get_close_matches(str(given), known, n=3) if len(known) > 1 else []
        found = f", found {given}" if isinstance(given, int) else ""
        return f"expected {choices}{found}" + (f"; did you mean {' or '.join(map(repr, near))}?" if near else "")
    if kind in _BOUNDS:
        return f"expected {_BOUNDS[kind].format(next(iter(item['ctx'].values())))}, found {given}"
    return _OTHER_KINDS.get(kind) or item["msg"].removeprefix("Value error, ").replace("Input should be", "expected")


def first_ones(items: Sequence[str], most: int, separator: str = ", ") -> str:
    """Return the first items as one text, and how many more there are."""
    more = [f"and {len(items) - most} more"] if len(items) > most else []
    return separator.join([*items[:most], *more])


def excerpt(text: str, most: int) -> str:
    """Return a text of at most so many characters: a longer one is cut and ends in three dots."""
    return text if len(text) <= most else text[: most - 3] + "..."


def close_matches(name: str, known: Iterable[str]) -> str:
    """Return a hint with the known names nearest to `name` in any case, or with all of them if none is near."""
    names = sorted(set(known))
    return near_names(name, names) or "known: " + (", ".join(names) or "none")


def near_names(name: str, known: Iterable[str]) -> str:
    """Return a hint with the known names nearest to `name` in any case; empty if none is near."""
    by_folded = {known_name.casefold(): known_name for known_name in sorted(set(known))}
    near = [by_folded[found] for found in difflib.get_close_matches(name.casefold(), by_folded, n=3, cutoff=0.6)]
    return f"did you mean {' or '.join(map(repr, near))}?" if near else ""


def missing_path(path: Path) -> tuple[str, str]:
    """Return what is found where a path leads nowhere, and the next step: the names beside it that are near."""
    first = next((one for one in [*reversed(path.parents), path] if not one.expanduser().exists()), path)
    names = [one.name for one in first.parent.expanduser().iterdir()] if first.parent.expanduser().is_dir() else []
    near = difflib.get_close_matches(first.name, sorted(names), n=3, cutoff=0.6)
    hint = "; did you mean " + " or ".join(str(first.parent / name) for name in near) + "?" if near else ""
    return "no such file or folder" if first == path else f"no folder {first}", f"check the path{hint}"


def missing_path_error(what: str, path: Path, expected: str) -> BenchmarkFileError:
    """Return the error for a path that leads nowhere."""
    found, next_step = missing_path(path)
    return BenchmarkFileError(what, where=str(path), expected=expected, found=found, next_step=next_step)


# What may hold a key, and how it is written where others may read it: masked, with the rest in its place.

MASK = "***"

_NAMES = frozenset({"header", "headers", "cookie", "hf_token", "token", "use_auth_token"})
# Not every name that ends in `token`: harnesses call texts so that end a thought or fill a row.
_ENDINGS = ("api_key", "apikey", "auth_token", "access_token", "access_key", "authorization", "password", "secret")
_IN_TEXT = (
    # User and password of an address; as a path it has one slash.
    (re.compile(r"(?i)(?<=[a-z\d]{2}:/)(/?)(?:[^/?#\s]+|[^/\s]*:[^/\s]*)@"), rf"\1{MASK}@"),
    (re.compile(r"\b(?:sk-|gsk_|hf_)(?=[\w-]*\d)[\w-]{16,}"), MASK),  # as OpenAI and others write their keys
    (re.compile(r"(?i)\b(Bearer)\s+[^\s\"',}]{6,}"), rf"\1 {MASK}"),
    (
        re.compile(r"(?i)([?&#][^=&\s]*(?:key|token|sig|secret|passw|pwd|credential|auth(?!or))[^=&\s]*=)[^&\s\"']+"),
        rf"\1{MASK}",
    ),
)


def is_secret_name(name: object) -> bool:
    """Return whether what stands under a name is a secret, whatever it looks like."""
    plain = str(name).lower().replace("-", "_")
    return plain in _NAMES or plain.endswith(_ENDINGS)


def masked(value: Any) -> Any:
    """Return a JSON value in which every secret is `***`; masked once more it stays as it is."""
    if isinstance(value, Mapping):
        return {key: MASK if is_secret_name(key) and item else masked(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return type(value)(map(masked, value))
    return masked_text(value) if isinstance(value, str) else value


def masked_text(text: str) -> str:
    """Return a text without what is shaped like a key: in an address, behind `Bearer`, in a query, or bare."""
    for pattern, mask in _IN_TEXT:
        text = pattern.sub(mask, text)
    return text

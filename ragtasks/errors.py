"""Exceptions of ragtasks: one root, with one child for each cause that a user can act on.

A message has five parts: what failed, where, the expected and the found state, and the next step. The constructor
accepts all five or only the first, so no message is incomplete.
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
    """Root of all errors that ragtasks raises: one message, or its five parts."""

    exit_status = 1
    """Exit status of a command. The command-line parser uses 2 for invalid options."""

    @overload
    def __init__(self, what: str) -> None: ...
    @overload
    def __init__(self, what: str, *, where: str, expected: str, found: str, next_step: str) -> None: ...
    def __init__(self, what: str, **parts: str) -> None:
        super().__init__(masked_text(clear_error(what, **parts) if parts else what))
        self.found = masked_text(parts.get("found", what))
        """The found state; the complete message if it has no parts."""


class ConfigurationError(RagtasksError):
    """An invalid option, metadata key or template."""


class BenchmarkFileError(RagtasksError):
    """A benchmark file that is missing, corrupt, or not in its documented format."""


class FetchError(RagtasksError):
    """A download that failed or does not match the pinned checksum."""


class CacheError(RagtasksError):
    """A cached artefact that is missing, stale or corrupt."""


class JudgeError(RagtasksError):
    """A judge that is unreachable or does not reply in the required format."""


class ModelError(RagtasksError):
    """A model under test that is unreachable or has stopped answering."""


class ImplausibleError(RagtasksError):
    """Too many responses cannot be real answers (docs/troubleshooting.md). All results are saved and scored anyway."""

    exit_status = 3


class MissingExtraError(RagtasksError):
    """A library that an optional feature needs is not installed."""

    def __init__(self, library: str, extra: str, purpose: str, more: str = "") -> None:
        super().__init__(
            f"{purpose} needs {library}, which is not installed. Next step: pip install 'ragtasks[{extra}]'{more}"
        )


def clear_error(what: str, *, where: str, expected: str, found: str, next_step: str) -> str:
    """Return the message with its five parts, on four lines."""
    return f"{what}: {where}\n  expected: {expected}\n  found: {found}\n  next step: {next_step}"


def one_line(error: Exception | str) -> str:
    """Return an error message on one line, with secrets masked."""
    lines = [line.strip().removesuffix(".") for line in masked_text(str(error)).splitlines() if line.strip()]
    text = "; ".join(lines).replace("; next step: ", ". Next step: ").replace("; expected: did you", "; did you")
    text = text.replace("; expected: ", "; expected ").replace("?; found: ", "?; found ")
    return text.replace("; found: ", ", found ")


def misfits(error: ValidationError, root_name: str = "content") -> list[str]:
    """Return the validation problems of a pydantic model as texts. `root_name` names problems without a field."""
    named = [(".".join(map(str, details["loc"])) or root_name, misfit(details)) for details in error.errors()]
    return list(dict.fromkeys(f"{name}: {text}" if name else text for name, text in named))


_TYPES = {"string": "a text", "int": "a whole number", "float": "a number", "bool": "true or false"} | dict.fromkeys(
    ("dict", "model", "mapping", "dataclass"), "keys with values"
) | dict.fromkeys(("list", "tuple", "set", "frozen"), "a list")  # fmt: skip
_BOUNDS = {
    "greater_than_equal": "{} or more",
    "greater_than": "more than {}",
    "less_than_equal": "{} or less",
    "less_than": "less than {}",
}
_EXPECTED = {
    "missing": "is missing",
    "string_too_short": "expected a text that is not empty",
    "too_short": "expected more values",
    "too_long": "expected fewer values",
    "path_type": "expected a path",
    "string_pattern_mismatch": "expected a name of letters, digits and _",
}
_FOUND_TYPES = {str: "a text", bool: "true or false", list: "a list", dict: "keys with values", type(None): "nothing"}


def misfit(details: ErrorDetails) -> str:
    """Return a pydantic error in plain words. The value is left out: it can be long or secret."""
    error_type, value = details["type"], details["input"]
    if error_type.endswith(("_type", "_parsing")) and (expected := _TYPES.get(error_type.partition("_")[0])):
        return f"expected {expected}, found {_FOUND_TYPES.get(type(value), 'a number')}"
    if error_type in {"literal_error", "enum"}:
        choices = str(details["ctx"]["expected"])
        names = re.findall("'([^']+)'", choices)
        near = difflib.get_close_matches(str(value), names, n=3) if len(names) > 1 else []
        found = f", found {value}" if isinstance(value, int) else ""
        return f"expected {choices}{found}" + (f"; did you mean {' or '.join(map(repr, near))}?" if near else "")
    if error_type in _BOUNDS:
        return f"expected {_BOUNDS[error_type].format(next(iter(details['ctx'].values())))}, found {value}"
    return _EXPECTED.get(error_type) or details["msg"].removeprefix("Value error, ").replace(
        "Input should be", "expected"
    )


def shortened_list(texts: Sequence[str], most: int, separator: str = ", ") -> str:
    """Return the first `most` texts joined, followed by the number of the remaining ones."""
    more = [f"and {len(texts) - most} more"] if len(texts) > most else []
    return separator.join([*texts[:most], *more])


def excerpt(text: str, most: int) -> str:
    """Return a text of at most `most` characters. A longer text is cut and ends in three dots."""
    return text if len(text) <= most else text[: most - 3] + "..."


def close_matches(name: str, candidates: Iterable[str]) -> str:
    """Return a hint with the names closest to `name`, ignoring case, or with all names if no name is close."""
    names = sorted(set(candidates))
    return near_names(name, names) or "known: " + (", ".join(names) or "none")


def near_names(name: str, candidates: Iterable[str]) -> str:
    """Return a hint with the names closest to `name`, ignoring case; empty if no name is close."""
    by_folded = {candidate.casefold(): candidate for candidate in sorted(set(candidates))}
    near = [by_folded[match] for match in difflib.get_close_matches(name.casefold(), by_folded, n=3, cutoff=0.6)]
    return f"did you mean {' or '.join(map(repr, near))}?" if near else ""


def missing_path(path: Path) -> tuple[str, str]:
    """Return the found state of a path that does not exist, and a next step with similar names in the same folder."""
    first = next((part for part in [*reversed(path.parents), path] if not part.expanduser().exists()), path)
    names = [entry.name for entry in first.parent.expanduser().iterdir()] if first.parent.expanduser().is_dir() else []
    near = difflib.get_close_matches(first.name, sorted(names), n=3, cutoff=0.6)
    hint = "; did you mean " + " or ".join(str(first.parent / name) for name in near) + "?" if near else ""
    return "no such file or folder" if first == path else f"no folder {first}", f"check the path{hint}"


def missing_path_error(what: str, path: Path, expected: str) -> BenchmarkFileError:
    """Return the error for a path that does not exist."""
    found, next_step = missing_path(path)
    return BenchmarkFileError(what, where=str(path), expected=expected, found=found, next_step=next_step)


# Secrets: names and patterns of values that can contain a key. Only the key is masked.

MASK = "***"

_SECRET_NAMES = frozenset({"header", "headers", "cookie", "hf_token", "token", "use_auth_token"})
# Not every name that ends in `token` is secret: harnesses also use it for end-of-thought and padding texts.
_SECRET_ENDINGS = (
    "api_key",
    "apikey",
    "auth_token",
    "access_token",
    "access_key",
    "authorization",
    "password",
    "secret",
)
_KEY_PATTERNS = (
    # User and password of a URL. If the URL was normalized as a path, it has one slash.
    (re.compile(r"(?i)(?<=[a-z\d]{2}:/)(/?)(?:[^/?#\s]+|[^/\s]*:[^/\s]*)@"), rf"\1{MASK}@"),
    (re.compile(r"\b(?:sk-|gsk_|hf_)(?=[\w-]*\d)[\w-]{16,}"), MASK),  # key formats of OpenAI and others
    (re.compile(r"(?i)\b(Bearer)\s+[^\s\"',}]{6,}"), rf"\1 {MASK}"),
    (
        re.compile(r"(?i)([?&#][^=&\s]*(?:key|token|sig|secret|passw|pwd|credential|auth(?!or))[^=&\s]*=)[^&\s\"']+"),
        rf"\1{MASK}",
    ),
)


def is_secret_name(name: object) -> bool:
    """Return whether a value under this name is secret, regardless of its format."""
    plain = str(name).lower().replace("-", "_")
    return plain in _SECRET_NAMES or plain.endswith(_SECRET_ENDINGS)


def masked(value: Any) -> Any:
    """Return a JSON value with every secret replaced by `***`. Masking is idempotent."""
    if isinstance(value, Mapping):
        return {key: MASK if is_secret_name(key) and inner else masked(inner) for key, inner in value.items()}
    if isinstance(value, (list, tuple)):
        return type(value)(map(masked, value))
    return masked_text(value) if isinstance(value, str) else value


def masked_text(text: str) -> str:
    """Return a text with keys masked: in URLs, after `Bearer`, in query strings, and bare keys."""
    for pattern, mask in _KEY_PATTERNS:
        text = pattern.sub(mask, text)
    return text

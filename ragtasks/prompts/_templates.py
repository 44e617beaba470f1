"""Prompt templates: shipped ones are filled in here, a user's own in a process of its own with limits."""

from __future__ import annotations

import functools
import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from importlib import resources
from pathlib import Path
from typing import Any

from jinja2 import StrictUndefined, Template, TemplateError
from jinja2.sandbox import ImmutableSandboxedEnvironment

from ragtasks.errors import ConfigurationError
from ragtasks.files import BoundedProcess, OutOfBoundsError

# Prompt templates: the text, where it came from, and how it is filled in.

_MOST_BYTES = 1_000_000
_NEXT_STEP = "fix the template, or leave the option out to use the shipped one"


@dataclass(frozen=True, slots=True)
class PromptTemplate:
    """One prompt template and where it came from."""

    name: str
    """Name of a shipped template, or the path of a user's own."""
    source: str
    is_own: bool = False
    """Whether it is a user's own: untrusted input, whose memory and time are limited by a process of its own."""

    @property
    def sha256(self) -> str:
        """Hash of the text: a changed prompt is another prompt."""
        return hashlib.sha256(self.source.encode()).hexdigest()

    def render(self, **fields: Any) -> str:
        """Return the filled-in prompt."""
        try:
            return _users().fill_in(self.source, fields) if self.is_own else fill_in(self.source, fields)
        except TemplateProcessError as error:
            raise self._error(fields, str(error), error.line) from error
        except RENDER_ERRORS as error:
            raise self._error(fields, *described(error)) from error

    def _error(self, fields: dict[str, Any], found: str, line: int | None) -> ConfigurationError:
        return ConfigurationError(
            "prompt template",
            where=self.name + (f", line {line}" if line else ""),
            expected="Jinja with the fields " + ", ".join(sorted(fields)),
            found=found,
            next_step=_NEXT_STEP,
        )


def shipped_template(name: str, package: str = "ragtasks.prompts") -> PromptTemplate:
    """Return a template that ships with a package, such as `generation/system`."""
    file = resources.files(package).joinpath(*f"{name}.jinja".split("/"))
    return PromptTemplate(name, file.read_text(encoding="utf-8"))


def load_template(path: str | None, default: str) -> PromptTemplate:
    """Return the user's template at `path`, or the shipped one named `default` where `path` is None."""
    if path is None:
        return shipped_template(default)
    try:
        return PromptTemplate(path, _text(Path(path).expanduser()), is_own=True)
    except (OSError, ValueError, RuntimeError) as error:  # not UTF-8; a home folder that nobody has
        raise ConfigurationError(
            "prompt template", where=path, expected="a text file", found=str(error), next_step="check the path"
        ) from error


def _text(path: Path) -> str:
    with path.open("rb") as file:
        content = file.read(_MOST_BYTES + 1)
    if len(content) > _MOST_BYTES:
        raise ValueError(f"more than {_MOST_BYTES:,} bytes")
    return content.decode("utf-8-sig").replace("\r\n", "\n")


# A user's own templates, filled in by another process that cannot take all memory or run for ever.

MOST_BYTES = 1 << 30
"""Address space of the process."""
SECONDS = 10.0
"""Time for one template, which takes milliseconds."""


class TemplateProcessError(Exception):
    """A template that was not filled in; `line` is known for syntax errors."""

    def __init__(self, message: str, line: int | None = None) -> None:
        super().__init__(message)
        self.line = line


class TemplateProcess:
    """The process, started by the first template and again after each that ended it."""

    def __init__(self, *, seconds: float = SECONDS) -> None:
        self._process = BoundedProcess("ragtasks.prompts._templates:reply", seconds=seconds, most_bytes=MOST_BYTES)

    def fill_in(self, source: str, fields: Mapping[str, Any]) -> str:
        """Return the filled-in template."""
        try:
            reply = self._process.ask({"source": source, "fields": dict(fields)})
        except OutOfBoundsError as error:
            raise TemplateProcessError(str(error)) from error
        if "error" in reply:
            raise TemplateProcessError(reply["error"], reply["line"])
        return str(reply["text"])

    def close(self) -> None:
        """End the process, if there is one."""
        self._process.close()


@functools.cache
def _users() -> TemplateProcess:
    """Return the one for all templates of a user in this process."""
    return TemplateProcess()


# What the process does that fills in a user's own templates: it may use so much memory and time, and then it ends.
# The sandbox keeps a template from code and files, and no rule inside one process bounds what is left: `'a' *
# 10**10`, `x ~ x` forty times, nested loops, lists that hold themselves twice.

MOST_CHARACTERS = 4_000_000
"""Length of a filled-in template: more than any model reads."""


def reply(asked: dict[str, Any]) -> dict[str, Any]:
    """Return the `text` of a template (`source`, `fields`), or `error` and `line`."""
    try:
        text = fill_in(asked["source"], asked["fields"])
        _refuse_half_characters(text, asked["fields"])
    except MemoryError:
        return {"error": "more memory than a template may take", "line": None}
    except Exception as error:  # noqa: BLE001 (whatever a template ends in is for its user to know)
        message, number = described(error)
        return {"error": message, "line": number}
    if len(text) > MOST_CHARACTERS:
        return {"error": f"a text of {len(text):,} characters; a prompt has {MOST_CHARACTERS:,} at most", "line": None}
    return {"text": text}


def _refuse_half_characters(text: str, fields: Any) -> None:
    """Refuse a half of a surrogate pair that the template itself made: what was handed over may hold one."""
    try:
        json.dumps(fields, ensure_ascii=False).encode()
    except UnicodeEncodeError:
        return
    text.encode()


# How a template is filled in: Jinja in a sandbox, where an unknown field is an error, never an empty string.
# A prompt without its passages would score as if the model had seen them.

_ENVIRONMENT = ImmutableSandboxedEnvironment(undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True)
_MAX_CHARACTERS = 300

# What an expression of a template can end in, beside Jinja's own errors: `1 / 0`, `range(10 ** 9)`, `truncate(-5)`,
# thirty loops in each other, a half of a surrogate pair, ...
_EXPRESSION_ERRORS = (
    ArithmeticError,
    AssertionError,
    AttributeError,
    LookupError,
    RecursionError,
    TypeError,
    ValueError,
)
RENDER_ERRORS = (TemplateError, SyntaxError, *_EXPRESSION_ERRORS)
"""All that `fill_in` raises for what stands in a template, where memory and time are without limits."""


def fill_in(source: str, fields: Mapping[str, Any]) -> str:
    """Return the filled-in prompt; half a character in the fields stays in it, and is its sender's business."""
    return _compiled(source).render(**fields)


def described(error: Exception) -> tuple[str, int | None]:
    """Return what an error of `fill_in` says, in one line, and the line of the template where one is known."""
    text = " ".join(f"{type(error).__name__}: {error}".split())
    line = error.lineno if isinstance(error, TemplateError) and hasattr(error, "lineno") else None
    return text if len(text) <= _MAX_CHARACTERS else f"{text[:_MAX_CHARACTERS]}...", line


@functools.lru_cache(maxsize=64)
def _compiled(source: str) -> Template:
    """Return the compiled template: one is filled in for every response, and compiling takes far longer."""
    return _ENVIRONMENT.from_string(source)

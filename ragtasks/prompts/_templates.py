"""Prompt templates. Shipped templates are rendered in this process, a user's own in a separate process with limits."""

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

# The template record: text, source and rendering.

_MOST_BYTES = 1_000_000
_NEXT_STEP = "fix the template, or leave the option out"


@dataclass(frozen=True, slots=True)
class PromptTemplate:
    """One prompt template."""

    name: str
    """Name of a shipped template, or the path of a user's own."""
    source: str
    is_own: bool = False
    """A user's own template: untrusted input, rendered in a separate process with limited memory and time."""

    @property
    def sha256(self) -> str:
        """Hash of the text, which identifies the prompt."""
        return hashlib.sha256(self.source.encode()).hexdigest()

    def render(self, **fields: Any) -> str:
        """Return the rendered prompt.

        Raises:
            ConfigurationError: if rendering fails, with the line if it is known.
        """
        try:
            return _user_process().fill_in(self.source, fields) if self.is_own else fill_in(self.source, fields)
        except TemplateProcessError as error:
            raise self._error(fields, str(error), error.line) from error
        except RENDER_ERRORS as error:
            raise self._error(fields, *describe_error(error)) from error

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
    """Return the user's template at `path`, or the shipped template `default` if `path` is None.

    Raises:
        ConfigurationError: if the file is missing, too large or not UTF-8.
    """
    if path is None:
        return shipped_template(default)
    try:
        return PromptTemplate(path, _read_template(Path(path).expanduser()), is_own=True)
    except (OSError, ValueError, RuntimeError) as error:  # RuntimeError: the home folder of `~` is unknown
        raise ConfigurationError(
            "prompt template", where=path, expected="a text file", found=str(error), next_step="check the path"
        ) from error


def _read_template(path: Path) -> str:
    with path.open("rb") as file:
        content = file.read(_MOST_BYTES + 1)
    if len(content) > _MOST_BYTES:
        raise ValueError(f"more than {_MOST_BYTES:,} bytes")
    return content.decode("utf-8-sig").replace("\r\n", "\n")


# Rendering of a user's own templates, in a separate process with limited memory and time.

MOST_BYTES = 1 << 30
"""Maximum address space of the process in bytes."""
SECONDS = 10.0
"""Maximum time for one template; usual templates take milliseconds."""


class TemplateProcessError(Exception):
    """Rendering failed. `line` is the line of the template, if it is known."""

    def __init__(self, message: str, line: int | None = None) -> None:
        super().__init__(message)
        self.line = line


class TemplateProcess:
    """The rendering process. It starts with the first template, and again after a template that ended it."""

    def __init__(self, *, seconds: float = SECONDS) -> None:
        self._process = BoundedProcess("ragtasks.prompts._templates:reply", seconds=seconds, most_bytes=MOST_BYTES)

    def fill_in(self, source: str, fields: Mapping[str, Any]) -> str:
        """Return the rendered template.

        Raises:
            TemplateProcessError: if rendering fails or exceeds a limit.
        """
        try:
            reply = self._process.ask({"source": source, "fields": dict(fields)})
        except OutOfBoundsError as error:
            raise TemplateProcessError(str(error)) from error
        if "error" in reply:
            raise TemplateProcessError(reply["error"], reply["line"])
        return str(reply["text"])

    def close(self) -> None:
        """End the process, if it is running."""
        self._process.close()


@functools.cache
def _user_process() -> TemplateProcess:
    """Return the process for all templates of the user."""
    return TemplateProcess()


# The worker side of the process. The process limits its own memory and time. The sandbox blocks access to code and
# files, but it does not bound expressions such as `'a' * 10**10`, forty times `x ~ x`, nested loops, or lists that
# contain themselves twice.

MOST_CHARACTERS = 4_000_000
"""Maximum length of a rendered template: more than any model reads."""


def reply(request: dict[str, Any]) -> dict[str, Any]:
    """Return `text` for a template (`source`, `fields`), or `error` and `line`."""
    try:
        text = fill_in(request["source"], request["fields"])
        _reject_half_characters(text, request["fields"])
    except MemoryError:
        return {"error": "more memory than a template may take", "line": None}
    except Exception as error:  # noqa: BLE001 (every error of a template is reported to its user)
        message, number = describe_error(error)
        return {"error": message, "line": number}
    if len(text) > MOST_CHARACTERS:
        return {"error": f"a text of {len(text):,} characters; a prompt has {MOST_CHARACTERS:,} at most", "line": None}
    return {"text": text}


def _reject_half_characters(text: str, fields: Any) -> None:
    """Reject half of a surrogate pair that the template created. The fields may contain such a half already."""
    try:
        json.dumps(fields, ensure_ascii=False).encode()
    except UnicodeEncodeError:
        return
    text.encode()


# Rendering: Jinja in a sandbox. An unknown field is an error, never an empty string, because a prompt without its
# passages would still be scored as if the model had seen them.

_ENVIRONMENT = ImmutableSandboxedEnvironment(undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True)
_MAX_CHARACTERS = 300

# Errors of expressions in a template, in addition to Jinja's own: `1 / 0`, `range(10 ** 9)`, `truncate(-5)`, thirty
# nested loops, half of a surrogate pair, ...
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
"""All errors that `fill_in` raises for a template, apart from those of the memory and time limits."""


def fill_in(source: str, fields: Mapping[str, Any]) -> str:
    """Return the rendered prompt. Half of a surrogate pair in the fields is kept."""
    return _compiled(source).render(**fields)


def describe_error(error: Exception) -> tuple[str, int | None]:
    """Return an error of `fill_in` on one line, and the line of the template or None."""
    text = " ".join(f"{type(error).__name__}: {error}".split())
    line = error.lineno if isinstance(error, TemplateError) and hasattr(error, "lineno") else None
    return text if len(text) <= _MAX_CHARACTERS else f"{text[:_MAX_CHARACTERS]}...", line


@functools.lru_cache(maxsize=64)
def _compiled(source: str) -> Template:
    """Return the compiled template. It is cached, because compiling takes far longer than rendering."""
    return _ENVIRONMENT.from_string(source)

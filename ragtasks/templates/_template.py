"""Prompt templates: the text, where it came from, and how it is filled in."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from importlib import resources
from pathlib import Path
from typing import Any

from ragtasks.errors import ConfigurationError, clear_error
from ragtasks.templates._jinja import RENDER_ERRORS, described, fill_in
from ragtasks.templates._process import USERS, TemplateProcessError

_MOST_BYTES = 1_000_000
_NEXT_STEP = "fix the template, or leave the option out to use the shipped one"


@dataclass(frozen=True, slots=True)
class PromptTemplate:
    """One prompt template and where it came from."""

    name: str
    """Name of a shipped template, or the path of a user's own."""
    source: str
    """The Jinja text."""
    is_own: bool = False
    """Whether it is a user's own: untrusted input, whose memory and time are limited by a process of its own."""

    @property
    def sha256(self) -> str:
        """Hash of the text: a changed prompt is another prompt."""
        return hashlib.sha256(self.source.encode()).hexdigest()

    def render(self, **fields: Any) -> str:
        """Return the filled-in prompt.

        Args:
            fields: what the template may name; plain JSON values where it is a user's own.

        Raises:
            ConfigurationError: a syntax error, an unknown field, something that the sandbox forbids, or more memory,
                time or text than a user's own template may take.
        """
        try:
            return USERS.fill_in(self.source, fields) if self.is_own else fill_in(self.source, fields)
        except TemplateProcessError as error:
            raise self._error(fields, str(error), error.line) from error
        except RENDER_ERRORS as error:
            raise self._error(fields, *described(error)) from error

    def _error(self, fields: dict[str, Any], found: str, line: int | None) -> ConfigurationError:
        message = clear_error(
            "prompt template",
            where=self.name + (f", line {line}" if line else ""),
            expected="Jinja with the fields " + ", ".join(sorted(fields)),
            found=found,
            next_step=_NEXT_STEP,
        )
        return ConfigurationError(message)


def shipped_template(name: str) -> PromptTemplate:
    """Return a template that ships with ragtasks, such as `generation/system`."""
    file = resources.files("ragtasks.prompts").joinpath(*f"{name}.jinja".split("/"))
    return PromptTemplate(name, file.read_text(encoding="utf-8"))


def load_template(path: str | None, default: str) -> PromptTemplate:
    """Return the user's template at `path`, or the shipped one named `default` where `path` is None.

    Raises:
        ConfigurationError: the file cannot be read, or is no text of up to a million bytes.
    """
    if path is None:
        return shipped_template(default)
    try:
        return PromptTemplate(path, _text(Path(path).expanduser()), is_own=True)
    except (OSError, ValueError, RuntimeError) as error:  # not UTF-8; a home folder that nobody has
        message = clear_error(
            "prompt template", where=path, expected="a text file", found=str(error), next_step="check the path"
        )
        raise ConfigurationError(message) from error


def _text(path: Path) -> str:
    with path.open("rb") as file:
        content = file.read(_MOST_BYTES + 1)
    if len(content) > _MOST_BYTES:
        raise ValueError(f"more than {_MOST_BYTES:,} bytes")
    return content.decode("utf-8-sig").replace("\r\n", "\n")


__all__ = ["PromptTemplate", "load_template", "shipped_template"]

"""Prompt templates: Jinja in a sandbox, because a user's own template is untrusted input.

An unknown field is an error, never an empty string: a prompt without its passages would score as if the model had
seen them.
"""

from __future__ import annotations

import functools
import hashlib
from dataclasses import dataclass
from importlib import resources
from pathlib import Path
from typing import Any

from jinja2 import StrictUndefined, Template, TemplateError
from jinja2.sandbox import ImmutableSandboxedEnvironment

from ragtasks.errors import ConfigurationError, clear_error

_ENVIRONMENT = ImmutableSandboxedEnvironment(undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True)

# What an expression of a template can end in, beside Jinja's own errors: `1 / 0`, `range(10 ** 9)`, `include`, ...
_RENDER_FAULTS = (TemplateError, ArithmeticError, AttributeError, LookupError, RecursionError, TypeError, ValueError)


@dataclass(frozen=True, slots=True)
class PromptTemplate:
    """One prompt template and where it came from."""

    name: str
    """Name of a shipped template, or the path of a user's own."""
    source: str
    """The Jinja text."""

    @property
    def sha256(self) -> str:
        """Hash of the text: a changed prompt is another prompt."""
        return hashlib.sha256(self.source.encode()).hexdigest()

    def render(self, **fields: Any) -> str:
        """Return the filled-in prompt.

        Raises:
            ConfigurationError: a syntax error, an unknown field, or something that the sandbox forbids.
        """
        try:
            return _compiled(self.source).render(**fields)
        except _RENDER_FAULTS as error:
            line = getattr(error, "lineno", None)  # syntax errors have one
            message = clear_error(
                "prompt template",
                where=self.name + (f", line {line}" if line else ""),
                expected="Jinja with the fields " + ", ".join(sorted(fields)),
                found=f"{type(error).__name__}: {error}",
                next_step="mend the template, or leave the option out to use the shipped one",
            )
            raise ConfigurationError(message) from error


@functools.lru_cache(maxsize=64)
def _compiled(source: str) -> Template:
    """Return the compiled template: one is filled in for every response, and compiling takes far longer."""
    return _ENVIRONMENT.from_string(source)


def shipped_template(name: str) -> PromptTemplate:
    """Return a template that ships with ragtasks, such as `generation/system`."""
    file = resources.files("ragtasks.prompts").joinpath(*f"{name}.jinja".split("/"))
    return PromptTemplate(name, file.read_text(encoding="utf-8"))


def load_template(path: str | None, default: str) -> PromptTemplate:
    """Return the user's template at `path`, or the shipped one named `default` where `path` is None.

    Raises:
        ConfigurationError: the file cannot be read.
    """
    if path is None:
        return shipped_template(default)
    try:
        return PromptTemplate(path, Path(path).expanduser().read_text(encoding="utf-8"))
    except (OSError, ValueError, RuntimeError) as error:  # not UTF-8; a home folder that nobody has
        message = clear_error(
            "prompt template", where=path, expected="a text file", found=str(error), next_step="check the path"
        )
        raise ConfigurationError(message) from error


__all__ = ["PromptTemplate", "load_template", "shipped_template"]

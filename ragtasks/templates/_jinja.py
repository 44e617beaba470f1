"""How a template is filled in: Jinja in a sandbox, where an unknown field is an error, never an empty string.

A prompt without its passages would score as if the model had seen them.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping
from typing import Any

from jinja2 import StrictUndefined, Template, TemplateError
from jinja2.sandbox import ImmutableSandboxedEnvironment

_ENVIRONMENT = ImmutableSandboxedEnvironment(undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True)
_MOST_SHOWN = 300

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
    """Return the filled-in prompt; half a character in the fields stays in it, and is its sender's business.

    Args:
        source: the Jinja text.
        fields: what it may name.

    Raises:
        RENDER_ERRORS: a syntax error, an unknown field, or something that the sandbox forbids.
    """
    return _compiled(source).render(**fields)


def described(error: Exception) -> tuple[str, int | None]:
    """Return what an error of `fill_in` says, in one line, and the line of the template where one is known."""
    text = " ".join(f"{type(error).__name__}: {error}".split())
    line = error.lineno if isinstance(error, TemplateError) and hasattr(error, "lineno") else None
    return text if len(text) <= _MOST_SHOWN else f"{text[:_MOST_SHOWN]}...", line


@functools.lru_cache(maxsize=64)
def _compiled(source: str) -> Template:
    """Return the compiled template: one is filled in for every response, and compiling takes far longer."""
    return _ENVIRONMENT.from_string(source)


__all__ = ["RENDER_ERRORS", "described", "fill_in"]

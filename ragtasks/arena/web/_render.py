"""Pages from templates: every text is escaped, and an unknown field is an error."""

from __future__ import annotations

from functools import cache
from importlib import resources
from typing import Any

from jinja2 import Environment, FunctionLoader, StrictUndefined

from ragtasks.tables import Value, fixed


def page(name: str, **fields: Any) -> str:
    """Return the page of a template of `pages/`, filled in."""
    return _environment().get_template(f"{name}.html.jinja").render(**fields)


@cache
def static(name: str) -> bytes:
    """Return one of our own style and script."""
    return resources.files("ragtasks.arena.web").joinpath("static", name).read_bytes()


@cache
def _environment() -> Environment:
    made = Environment(
        loader=FunctionLoader(_source),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    made.globals.update(fixed=fixed, is_score=lambda cell: isinstance(cell, Value))
    return made


def _source(name: str) -> str:
    return resources.files("ragtasks.arena.web").joinpath("pages", name).read_text(encoding="utf-8")


__all__ = ["page", "static"]

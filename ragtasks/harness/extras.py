"""The extras of ragtasks that a model type needs, and their missing libraries.

Requirements are read from the package metadata, so they are not listed twice.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from importlib.metadata import PackageNotFoundError, requires, version

from packaging.requirements import Requirement as Distribution
from packaging.utils import canonicalize_name

from ragtasks.errors import ConfigurationError
from ragtasks.requirements import Requirement

_OURS = "ragtasks"
_ALWAYS = {_OURS, "lm-eval"}
_OF_MODEL = {"hf": "hf", "hf-auto": "hf", "huggingface": "hf", "vllm": "vllm", "vllm-vlm": "vllm"}
_OVER_HTTP = {f"{where}-{what}" for where in ("local", "openai") for what in ("completions", "chat-completions")}


def extra_of(model: str) -> str | None:
    """Return the extra with the libraries of a model type, or None if ragtasks has no such extra."""
    return "api" if model in _OVER_HTTP else _OF_MODEL.get(model)


def missing_of(extra: str) -> list[str]:
    """Return the missing libraries of an extra and its nested extras, sorted by name."""
    return sorted({_name(item) for item in _requirements(_OURS, {extra}) if not _is_met(item)})


def installed_of(extra: str) -> list[str]:
    """Return the installed libraries of an extra as `name version`, sorted by name."""
    found = {_name(item): version_of(item.name) for item in _requirements(_OURS, {extra}) if _is_met(item)}
    return [f"{name} {here}" for name, here in sorted(found.items())]


def extra_requirement(extra: str, purpose: str) -> Requirement:
    """Return the requirement of all libraries of an extra."""
    part = f"extra {extra} ({purpose})"

    def check() -> str:
        if missing := missing_of(extra):
            raise ConfigurationError(f"{part}: missing {', '.join(missing)}: {install_line(extra)}")
        return f"installed ({', '.join(installed_of(extra))})"

    return Requirement("library", part, check)


def install_line(extra: str) -> str:
    """Return the command that installs an extra."""
    return f"pip install '{_OURS}[{extra}]'"


def _requirements(distribution: str, extras: set[str]) -> Iterator[Distribution]:
    """Yield the requirements of a distribution's extras, without its unconditional requirements."""
    for item in _optional(distribution):
        if any(item.marker is not None and item.marker.evaluate({"extra": extra}) for extra in extras):
            if canonicalize_name(item.name) not in _ALWAYS:
                yield item
            if item.extras:
                yield from _requirements(item.name, item.extras)


@cache
def _optional(distribution: str) -> tuple[Distribution, ...]:
    """Return the requirements of a distribution's extras; empty if it is not installed. Cached per process."""
    try:
        items = [Distribution(line) for line in requires(distribution) or ()]
    except PackageNotFoundError:
        return ()
    return tuple(item for item in items if item.marker is not None and not item.marker.evaluate({"extra": ""}))


def _name(item: Distribution) -> str:
    return canonicalize_name(item.name)


def _is_met(item: Distribution) -> bool:
    here = version_of(item.name)
    return here is not None and item.specifier.contains(here, prereleases=True)


@cache
def version_of(distribution: str) -> str | None:
    """Return the version of an installed distribution, or None."""
    try:
        return version(distribution)
    except PackageNotFoundError:
        return None

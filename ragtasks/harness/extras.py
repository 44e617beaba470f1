"""Which extra of ragtasks brings what a kind of model needs, and what of an extra is missing here.

The package's own metadata says what each extra asks for, so nothing is listed twice.
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
    """Return the extra that brings what one of the harness's kinds of models needs, None where none of ours does."""
    return "api" if model in _OVER_HTTP else _OF_MODEL.get(model)


def missing_of(extra: str) -> list[str]:
    """Return the requirements of an extra that are not met here, in the order of their names; extras of extras too."""
    return sorted({_name(item) for item in _requirements(_OURS, {extra}) if not _is_met(item)})


def installed_of(extra: str) -> list[str]:
    """Return what is here of an extra, as `name version`, in the order of the names."""
    found = {_name(item): version_of(item.name) for item in _requirements(_OURS, {extra}) if _is_met(item)}
    return [f"{name} {here}" for name, here in sorted(found.items())]


def extra_requirement(extra: str, purpose: str) -> Requirement:
    """Return the requirement of all libraries of an extra."""
    part = f"extra {extra} ({purpose})"

    def check() -> str:
        if missing := missing_of(extra):
            raise ConfigurationError(f"{part}: lacks {', '.join(missing)}: {install_line(extra)}")
        return f"here ({', '.join(installed_of(extra))})"

    return Requirement("library", part, check)


def install_line(extra: str) -> str:
    """Return the command that installs an extra."""
    return f"pip install '{_OURS}[{extra}]'"


def _requirements(distribution: str, extras: set[str]) -> Iterator[Distribution]:
    """Yield what a distribution asks for in some of its extras; what it always asks for is left out."""
    for item in _optional(distribution):
        if any(item.marker is not None and item.marker.evaluate({"extra": extra}) for extra in extras):
            if canonicalize_name(item.name) not in _ALWAYS:
                yield item
            if item.extras:
                yield from _requirements(item.name, item.extras)


@cache
def _optional(distribution: str) -> tuple[Distribution, ...]:
    """Return what a distribution asks for in extras only, nothing where it is not here; read once a process."""
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
    """Return the version of a distribution that is installed; None where it is not."""
    try:
        return version(distribution)
    except PackageNotFoundError:
        return None

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
_EXTRAS = {"hf": "hf", "hf-auto": "hf", "huggingface": "hf", "vllm": "vllm", "vllm-vlm": "vllm"}
_API_MODELS = {f"{host}-{form}" for host in ("local", "openai") for form in ("completions", "chat-completions")}


def extra_of(model: str) -> str | None:
    """Return the extra with the libraries of a model type, or None if ragtasks has no such extra."""
    return "api" if model in _API_MODELS else _EXTRAS.get(model)


def missing_of(extra: str) -> list[str]:
    """Return the missing libraries of an extra and its nested extras, sorted by name."""
    return sorted({_name(requirement) for requirement in _requirements(_OURS, {extra}) if not _is_met(requirement)})


def installed_of(extra: str) -> list[str]:
    """Return the installed libraries of an extra as `name version`, sorted by name."""
    versions = {
        _name(requirement): version_of(requirement.name)
        for requirement in _requirements(_OURS, {extra})
        if _is_met(requirement)
    }
    return [f"{name} {installed}" for name, installed in sorted(versions.items())]


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
    """Yield the optional requirements of a distribution for some extras, including nested extras."""
    for requirement in _optional(distribution):
        if any(requirement.marker is not None and requirement.marker.evaluate({"extra": extra}) for extra in extras):
            if canonicalize_name(requirement.name) not in _ALWAYS:
                yield requirement
            if requirement.extras:
                yield from _requirements(requirement.name, requirement.extras)


@cache
def _optional(distribution: str) -> tuple[Distribution, ...]:
    """Return the requirements of a distribution's extras; empty if it is not installed. Cached per process."""
    try:
        requirements = [Distribution(line) for line in requires(distribution) or ()]
    except PackageNotFoundError:
        return ()
    return tuple(
        requirement
        for requirement in requirements
        if requirement.marker is not None and not requirement.marker.evaluate({"extra": ""})
    )


def _name(requirement: Distribution) -> str:
    return canonicalize_name(requirement.name)


def _is_met(requirement: Distribution) -> bool:
    installed = version_of(requirement.name)
    return installed is not None and requirement.specifier.contains(installed, prereleases=True)


@cache
def version_of(distribution: str) -> str | None:
    """Return the version of an installed distribution, or None."""
    try:
        return version(distribution)
    except PackageNotFoundError:
        return None

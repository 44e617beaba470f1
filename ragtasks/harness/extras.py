"""Which extra of ragtasks brings what a kind of model needs, and what of an extra is missing here.

The package's own metadata says what each extra asks for, so nothing is listed twice.
"""

from __future__ import annotations

from collections.abc import Iterator
from importlib.metadata import PackageNotFoundError, requires, version

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

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
    found = {_name(item) for item in _requirements(_OURS, {extra}) if _is_met(item)}
    return [f"{name} {version(name)}" for name in sorted(found)]


def install_line(extra: str) -> str:
    """Return the command that installs an extra."""
    return f"pip install '{_OURS}[{extra}]'"


def _requirements(distribution: str, extras: set[str]) -> Iterator[Requirement]:
    """Yield what a distribution asks for in some of its extras; what it always asks for is left out."""
    try:
        lines = requires(distribution) or []
    except PackageNotFoundError:
        return
    for line in lines:
        item = Requirement(line)
        if item.marker is None or item.marker.evaluate({"extra": ""}):
            continue
        if any(item.marker.evaluate({"extra": extra}) for extra in extras):
            if canonicalize_name(item.name) not in _ALWAYS:
                yield item
            if item.extras:
                yield from _requirements(item.name, item.extras)


def _name(item: Requirement) -> str:
    return canonicalize_name(item.name)


def _is_met(item: Requirement) -> bool:
    try:
        return item.specifier.contains(version(item.name), prereleases=True)
    except PackageNotFoundError:
        return False


__all__ = ["extra_of", "install_line", "installed_of", "missing_of"]

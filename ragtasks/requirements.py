"""Requirements of an evaluation. Each part declares its own, and all are checked before the first request.

A missing key or library is reported within seconds instead of after hours of answers. `require` reports every unmet
requirement in one error. `ragtasks doctor` and `--dry-run` print the same records.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from enum import Enum
from importlib.util import find_spec

from ragtasks.errors import ConfigurationError, MissingExtraError, RagtasksError, one_line


class Phase(Enum):
    """Order of the checks."""

    LOCAL = "local"
    """First: files and variables of this machine."""
    REQUEST = "request"
    """Second, concurrently: one short request each. Skipped if a local check of the same part failed."""
    PROMPTS = "prompts"
    """Last: builds every prompt. Skipped if another check failed."""


@dataclass(frozen=True, slots=True)
class Requirement:
    """A condition that a part of an evaluation declares, with the function that checks it."""

    category: str
    """`library`, `key`, `endpoint`, `encoder`, `data`, `run`, `corpus`, `context`, `folder` or `disk`."""
    part: str
    """The part that needs it, such as `judge openai/gpt-4o-mini`."""
    check: Callable[[], str]
    """Returns the detected state, such as a version. Raises a `RagtasksError` that names the part if the condition
    is not met.
    """
    next_step: str = ""
    """Appended to an error without a next step."""
    phase: Phase = Phase.LOCAL


@dataclass(frozen=True, slots=True)
class Checked:
    """The result of one check."""

    requirement: Requirement
    state: str = ""
    problem: str = ""
    """Error and next step on one line; empty if the requirement is met."""


def library(name: str, extra: str, part: str, more: str = "") -> Requirement:
    """Return the requirement of an importable library, which an extra of ragtasks installs.

    `more` is appended to the install command.
    """
    distribution = name.replace("_", "-")

    def check() -> str:
        if find_spec(name) is None:
            raise MissingExtraError(distribution, extra, part, more)
        return f"{distribution} is installed"

    return Requirement("library", part, check)


@contextmanager
def importing(libraries: str, extra: str, purpose: str) -> Iterator[None]:
    """Import optional libraries inside the block.

    Raises:
        MissingExtraError: if an import fails, with the install command.
    """
    try:
        yield
    except ImportError as error:
        raise MissingExtraError(libraries, extra, purpose) from error


def checked(requirements: Iterable[Requirement], *, with_requests: bool = True) -> list[Checked]:
    """Return the result of each check, phase by phase, without skipped checks."""
    by_phase: dict[Phase, list[Requirement]] = {phase: [] for phase in Phase}
    for requirement in requirements:
        by_phase[requirement.phase].append(requirement)
    results = [_checked(requirement) for requirement in by_phase[Phase.LOCAL]]
    broken = {result.requirement.part for result in results if result.problem}
    requests = [requirement for requirement in by_phase[Phase.REQUEST] if requirement.part not in broken]
    if with_requests and requests:
        with ThreadPoolExecutor(len(requests)) as pool:
            results += pool.map(_checked, requests)
    if not any(result.problem for result in results):
        results += map(_checked, by_phase[Phase.PROMPTS])
    return results


def _checked(requirement: Requirement) -> Checked:
    try:
        return Checked(requirement, state=requirement.check())
    except RagtasksError as error:
        problem = one_line(error)
    step = f". Next step: {requirement.next_step}" if requirement.next_step and "Next step: " not in problem else ""
    return Checked(requirement, problem=problem + step)


def require(requirements: Iterable[Requirement], *, with_requests: bool = True) -> list[Checked]:
    """Return the results of all checks.

    Raises:
        ConfigurationError: if any requirement is not met. The message lists every problem once.
    """
    results = checked(requirements, with_requests=with_requests)
    if problems := list(dict.fromkeys(result.problem for result in results if result.problem)):
        head = "1 problem" if len(problems) == 1 else f"{len(problems)} problems"
        rows = "".join(f"\n- {problem}" for problem in problems)
        raise ConfigurationError(f"{head} before the first request; nothing was evaluated:{rows}")
    return results


@contextmanager
def silenced(logger: str) -> Iterator[None]:
    """Silence a library's messages about broken files, also those of its modules; ours state the reason."""
    named = logging.getLogger(logger)
    before = named.level
    named.setLevel(logging.CRITICAL + 1)
    try:
        yield
    finally:
        named.setLevel(before)

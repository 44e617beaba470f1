"""Failures after the answers exist: everything is saved first, then the evaluation fails.

The harness saves nothing before all answers are scored, so an exception during scoring would lose every answer.
"""

from __future__ import annotations

import logging
import traceback
from collections import Counter
from collections.abc import Callable, Sequence
from typing import TypeVar

from ragtasks.clients import AT_LIMIT, SHORT_CONTEXT
from ragtasks.config.environment import environment_secrets
from ragtasks.errors import RagtasksError, shortened_list
from ragtasks.scoring._plausibility import CheckedAnswers

_LOGGER = logging.getLogger(__name__)
_T = TypeVar("_T")
_FAILURES: list[str] = []
_MAX_REASONS = 3
_HIGHER_LIMIT_STEP = (
    "replies that reached the token limit need a higher one (--gen_kwargs max_gen_toks=N, `generation` in "
    "evaluation.yaml, or the system's own)"
)
_LARGER_CONTEXT_STEP = (
    "prompts over the context need a server with a larger one, or too_long=drop_passages and a smaller context_tokens "
    "in --metadata or `options`"
)
_CHECKED: list[tuple[CheckedAnswers, float]] = []


def survive(part: str, work: Callable[[], _T], otherwise: Callable[[str], _T]) -> _T:
    """Return the result of a part of the scoring, or `otherwise(reason)` if it raises any exception.

    The failure is recorded as a problem. An exception of another library is logged with its traceback.
    """
    try:
        return work()
    except (KeyboardInterrupt, SystemExit):
        raise
    except BaseException as error:  # noqa: BLE001 (a panic in a library written in Rust is no `Exception`)
        message = str(error)
        if not isinstance(error, RagtasksError):
            _LOGGER.error(_without_keys("".join(traceback.format_exception(error)).rstrip()))
            message = f"{type(error).__name__}: {error}"
        reason = _without_keys(f"{part} failed: {message}")
        record_failure(reason)
        return otherwise(reason)


def record_failure(message: str) -> None:
    """Record a failure that ends the evaluation once everything is saved."""
    _LOGGER.error(message)
    _FAILURES.append(message)


def record_unanswered(reasons: Sequence[str], n_requests: int, *, is_kept: bool = True) -> None:
    """Record why requests got no answer, if any; with `is_kept`, the next call reuses the other answers."""
    if reasons:
        counts = [f"{reason} ({n} times)" for reason, n in Counter(reasons).most_common()]
        again = ". Next step: run the same command again: only these are requested" if is_kept else ""
        again += f"; {_HIGHER_LIMIT_STEP}" if AT_LIMIT in reasons else ""
        is_short = any(reason.startswith(SHORT_CONTEXT) for reason in reasons)
        again += f"; {_LARGER_CONTEXT_STEP}" if is_short else ""
        listed = shortened_list(counts, _MAX_REASONS, "; ")
        record_failure(f"{len(reasons)} of {n_requests} requests got no answer: {listed}{again}")


def take_failures() -> list[str]:
    """Return and clear the failures recorded since the last call."""
    failures, _FAILURES[:] = list(_FAILURES), []
    return failures


def record_checked(checked: CheckedAnswers, limit: float) -> None:
    """Record the checks of the answers in a setting, and the permitted share of implausible answers."""
    _CHECKED.append((checked, limit))


def take_checked() -> list[tuple[CheckedAnswers, float]]:
    """Return and clear the checks recorded since the last call."""
    checked, _CHECKED[:] = list(_CHECKED), []
    return checked


def _without_keys(text: str) -> str:
    """Return a text with every key masked: exceptions of libraries may contain their arguments."""
    for key in environment_secrets():
        text = text.replace(key, "***")
    return text

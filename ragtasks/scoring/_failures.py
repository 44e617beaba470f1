"""What goes wrong once the answers are in: everything is saved first, and the evaluation fails then.

The harness saves nothing before all answers are scored, so an error on the way would cost every answer of the model.
"""

from __future__ import annotations

import logging
import traceback
from collections import Counter
from collections.abc import Callable, Sequence
from typing import TypeVar

from ragtasks.clients import AT_LIMIT
from ragtasks.config.environment import environment_secrets
from ragtasks.errors import RagtasksError, shortened_list
from ragtasks.scoring._plausibility import CheckedAnswers

_LOGGER = logging.getLogger(__name__)
_T = TypeVar("_T")
_FAILURES: list[str] = []
_MAX_REASONS = 3
_LONGER = "replies that reached the token limit need a higher one (--gen_kwargs max_gen_toks=N, or the system's own)"
_CHECKED: list[tuple[CheckedAnswers, float]] = []


def survive(what: str, work: Callable[[], _T], otherwise: Callable[[str], _T]) -> _T:
    """Return what a part of the scoring gives, or `otherwise` of the reason where it fails, in whatever way.

    A failure is remembered as a problem; one that is no error of ours is logged with its traceback.
    """
    try:
        return work()
    except (KeyboardInterrupt, SystemExit):
        raise
    except BaseException as error:  # noqa: BLE001 (a panic in a library made in Rust is no `Exception`)
        told = str(error)
        if not isinstance(error, RagtasksError):
            _LOGGER.error(_without_keys("".join(traceback.format_exception(error)).rstrip()))
            told = f"{type(error).__name__}: {error}"
        reason = _without_keys(f"{what} failed: {told}")
        record_failure(reason)
        return otherwise(reason)


def record_failure(message: str) -> None:
    """Remember a failure that must end the evaluation, once everything is saved."""
    _LOGGER.error(message)
    _FAILURES.append(message)


def record_unanswered(reasons: Sequence[str], n_requests: int, *, is_kept: bool = True) -> None:
    """Remember why requests got no answer, if any; `is_kept` where the next call finds the other answers."""
    if reasons:
        counts = [f"{reason} ({n} times)" for reason, n in Counter(reasons).most_common()]
        again = ". Next step: run the same command again: only these are asked" if is_kept else ""
        again += f"; {_LONGER}" if AT_LIMIT in reasons else ""
        listed = shortened_list(counts, _MAX_REASONS, "; ")
        record_failure(f"{len(reasons)} of {n_requests} requests got no answer: {listed}{again}")


def take_failures() -> list[str]:
    """Return what was remembered since the last call."""
    taken, _FAILURES[:] = list(_FAILURES), []
    return taken


def record_checked(checked: CheckedAnswers, limit: float) -> None:
    """Remember what was found among the answers to a setting, and which share of them may be implausible."""
    _CHECKED.append((checked, limit))


def take_checked() -> list[tuple[CheckedAnswers, float]]:
    """Return what was remembered of answers since the last call."""
    taken, _CHECKED[:] = list(_CHECKED), []
    return taken


def _without_keys(text: str) -> str:
    """Return a text with every key masked: the errors of libraries may show what they were given."""
    for key in environment_secrets():
        text = text.replace(key, "***")
    return text

"""Task and query ids: the only place that takes one apart.

A task id joins a conversation id and a turn number. MTRAG's task files and qrels write `<::>` between them, its
sample submissions `::`; here the first is the one form in use.
"""

from __future__ import annotations

import re

SEPARATOR = "<::>"
_TASK_ID = re.compile(r"(?P<conversation>.+?)(?:<::>|::)(?P<turn>[0-9]+)", re.DOTALL)


def task_id(conversation_id: str, turn: int) -> str:
    """Return the id of the task that ends at user turn `turn` (from 1) of a conversation."""
    return f"{conversation_id}{SEPARATOR}{turn}"


def split_task_id(text: str) -> tuple[str, int]:
    """Return (conversation id, turn) of a task or query id in any of the official spellings.

    Raises:
        ValueError: `text` has no separator, no conversation, or no positive turn.
    """
    match = _TASK_ID.fullmatch(text)
    if match is None or int(match["turn"]) < 1:
        raise ValueError(f"not a task id (expected <conversation>{SEPARATOR}<turn from 1>): {text!r}")
    return match["conversation"], int(match["turn"])


def normalise_task_id(text: str) -> str:
    """Return a task id in the one form in use, whatever separator the file wrote.

    Raises:
        ValueError: as `split_task_id`.
    """
    return task_id(*split_task_id(text))


__all__ = ["SEPARATOR", "normalise_task_id", "split_task_id", "task_id"]

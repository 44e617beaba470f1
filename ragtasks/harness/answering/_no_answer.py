"""What stands in the place of an answer that did not come."""

from __future__ import annotations


class NoAnswer(str):
    """An empty text that knows why it is empty: the harness carries it like any answer, and no log keeps it."""

    __slots__ = ("reason",)

    reason: str
    """Why there is no answer; holds no key and no address."""

    def __new__(cls, reason: str) -> NoAnswer:
        """Return the empty text with its reason."""
        made = super().__new__(cls, "")
        made.reason = reason
        return made

    def __reduce__(self) -> tuple[type[NoAnswer], tuple[str]]:
        """Return how it is made again in another process."""
        return NoAnswer, (self.reason,)


__all__ = ["NoAnswer"]

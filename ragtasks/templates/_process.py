"""A user's own templates, filled in by another process that cannot take all memory or run for ever."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ragtasks.bounded import BoundedProcess, OutOfBoundsError

MOST_BYTES = 1 << 30
"""Address space of the process."""
SECONDS = 10.0
"""Time for one template, which takes milliseconds."""


class TemplateProcessError(Exception):
    """A template that was not filled in; `line` is known for syntax errors."""

    def __init__(self, message: str, line: int | None = None) -> None:
        super().__init__(message)
        self.line = line


class TemplateProcess:
    """The process, started by the first template and again after each that ended it."""

    def __init__(self, *, seconds: float = SECONDS) -> None:
        self._process = BoundedProcess("ragtasks.templates._worker:reply", seconds=seconds, most_bytes=MOST_BYTES)

    def fill_in(self, source: str, fields: Mapping[str, Any]) -> str:
        """Return the filled-in template.

        Args:
            source: the Jinja text.
            fields: what it may name; plain JSON values.

        Raises:
            TemplateProcessError: an error of the template, or more memory, time or text than it may take.
        """
        try:
            reply = self._process.ask({"source": source, "fields": dict(fields)})
        except OutOfBoundsError as error:
            raise TemplateProcessError(str(error)) from error
        if "error" in reply:
            raise TemplateProcessError(reply["error"], reply["line"])
        return str(reply["text"])

    def close(self) -> None:
        """End the process, if there is one."""
        self._process.close()


USERS = TemplateProcess()
"""The one for all templates of a user in this process."""

__all__ = ["USERS", "TemplateProcess", "TemplateProcessError"]

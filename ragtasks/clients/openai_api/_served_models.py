"""Which models a server says it answered with: behind one name there may be several, also one after the other."""

from __future__ import annotations

import logging
import threading
from collections import Counter

from ragtasks.clients._protocol import Reply

_LOGGER = logging.getLogger(__name__)


class ServedModels:
    """Counts the models named in the replies to one client; usable from any thread."""

    def __init__(self, client: str) -> None:
        """Begin with none.

        Args:
            client: the client's name, for the warning.
        """
        self._client, self._lock = client, threading.Lock()
        self._counts: Counter[str] = Counter()

    def note(self, reply: Reply) -> None:
        """Count the model of a reply; the first one that differs from those before is warned of, once."""
        if not reply.served_model:
            return
        with self._lock:
            self._counts[reply.served_model] += 1
            is_change = len(self._counts) == 2 and self._counts[reply.served_model] == 1
        if is_change:
            before = next(name for name in self._counts if name != reply.served_model)
            _LOGGER.warning(
                "%s: the server answered with %r before and answers with %r now: verdicts or queries of one run come "
                "from two models. Each reply keeps the model that gave it",
                self._client,
                before,
                reply.served_model,
            )

    @property
    def counts(self) -> dict[str, int]:
        """Model -> replies that name it."""
        with self._lock:
            return dict(self._counts)


__all__ = ["ServedModels"]

"""Puts a write-ahead log on disk: transactions that wait for it together share one write."""

from __future__ import annotations

import os
import threading
from pathlib import Path


class Log:
    """The log of one open database; may be used by several threads."""

    def __init__(self, database: Path) -> None:
        """Open the log of a database, which has one while it is open.

        Raises:
            OSError: there is none.
        """
        self._file = os.open(f"{database}-wal", os.O_RDWR)
        self._lock = threading.Lock()
        self._n_committed = self._n_on_disk = 0

    def committed(self) -> int:
        """Count a transaction, once it is committed and before another one is, and return its number."""
        self._n_committed += 1
        return self._n_committed

    def put_on_disk(self, number: int) -> None:
        """Return once a transaction is on disk, with all that were committed before it.

        Raises:
            OSError: the disk takes no more.
        """
        with self._lock:
            if self._n_on_disk < number:
                n_committed = self._n_committed
                os.fsync(self._file)
                self._n_on_disk = n_committed

    def close(self) -> None:
        """Close the file."""
        with self._lock:
            os.close(self._file)


__all__ = ["Log"]

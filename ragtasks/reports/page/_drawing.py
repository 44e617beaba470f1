"""Pictures of tables, drawn by another process while this one packs texts, as both take long."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from multiprocessing import get_context, parent_process
from pathlib import Path
from threading import Thread

from ragtasks.reports.plots import plot_sections
from ragtasks.tables import Section


@contextmanager
def drawn_meanwhile(sections: Sequence[Section]) -> Iterator[Callable[[], list[tuple[str, bytes]]]]:
    """Start to draw, and give a function that waits for the pictures: caption and picture of each, in order.

    The other process ends with this one, also where that is killed: else it would hold the output open for ever.
    """
    with (
        tempfile.TemporaryDirectory() as folder,
        ProcessPoolExecutor(1, get_context("spawn"), _end_with_parent) as pool,
    ):
        drawing = pool.submit(plot_sections, sections, Path(folder))
        yield lambda: [(caption, path.read_bytes()) for path, caption in drawing.result().items()]


def _end_with_parent() -> None:
    Thread(target=_wait_for_parents_end, daemon=True).start()


def _wait_for_parents_end() -> None:
    """End this process once its parent is gone: a pipe between them closes, whatever ended the parent."""
    parent = parent_process()
    if parent is not None:
        parent.join()
        os._exit(1)


__all__ = ["drawn_meanwhile"]

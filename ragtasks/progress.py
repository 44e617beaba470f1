"""Progress of long work: one bar a step, with what is done, what is left and the time, quiet where nobody watches."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    TaskID,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)
from rich.progress import Progress as Bar


@contextmanager
def progress_bars() -> Iterator[Callable[[str, int, int | None], None]]:
    """Yield a callback that draws one bar a step on standard error; quiet where that is no terminal."""
    console = Console(stderr=True)
    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        TimeRemainingColumn(),
    )
    rows: dict[str, TaskID] = {}
    with Bar(*columns, console=console, disable=not console.is_terminal) as bar:

        def show(what: str, done: int, total: int | None) -> None:
            if what not in rows:
                rows[what] = bar.add_task(what, total=total)
            bar.update(rows[what], completed=done, total=total)

        yield show


__all__ = ["progress_bars"]

"""Progress of long transfers: the caller's callback, else a bar on a terminal, else nothing."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TimeRemainingColumn, TransferSpeedColumn

from ragtasks.benchmarks.download._sources import SourceFile

ProgressCallback = Callable[[str, int, int | None], None]
"""Called with (path of the file, its bytes so far, its total bytes or None where not known yet)."""


@contextmanager
def shown(
    progress: ProgressCallback | None, files: Iterable[SourceFile], console: Console | None = None
) -> Iterator[ProgressCallback]:
    """Yield the callback that a transfer reports to.

    Args:
        progress: the caller's own; None asks for a bar on standard error, quiet where that is no terminal.
        files: what will be transferred; a file of unknown size joins the bar's total when its size is learned.
        console: where the bar is drawn.
    """
    if progress is not None:
        yield progress
        return
    console = console or Console(stderr=True)
    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        DownloadColumn(),
        TransferSpeedColumn(),
        TimeRemainingColumn(),
    )
    totals = {file.path: file.n_bytes or 0 for file in files}
    done: dict[str, int] = {}
    with Progress(*columns, console=console, disable=not console.is_terminal) as bar:
        row = bar.add_task("", total=sum(totals.values()))

        def advance(path: str, n_done: int, n_total: int | None) -> None:
            """Bring the bar to the bytes of all files so far."""
            done[path] = n_done
            totals[path] = max(n_total or 0, totals.get(path, 0), n_done)
            name = path.rsplit("/", 1)[-1]
            bar.update(row, description=name, completed=sum(done.values()), total=sum(totals.values()))

        yield advance


__all__ = ["ProgressCallback", "shown"]

"""Progress of long work: one line per step, with counts, rate or note, and time.

If the output is not a terminal, unfinished steps are printed once a minute, even if they make no progress. At the end,
only steps with a note are printed again: requests sent, failures, cost.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import timedelta

from rich.console import Console
from rich.progress import BarColumn, ProgressColumn, TaskID, TextColumn, TimeElapsedColumn, TimeRemainingColumn
from rich.progress import Progress as Bar
from rich.table import Column

Progress = Callable[[str, int, int | None], None]
"""Called with (name of the step, number done, total or None).

The name identifies the step and is constant. A changing note may follow after a tab, and a reason for waiting after a
second tab.
"""
_SECONDS_BETWEEN_DRAWS = 0.05
_SECONDS_BETWEEN_LINES = 60.0
_WIDE = 120


def no_progress(label: str, done: int, total: int | None) -> None:
    """Discard progress."""


@contextmanager
def progress_bars(console: Console | None = None) -> Iterator[Progress]:
    """Yield a callback that shows one line per step. A note replaces the rate.

    If the output is not a terminal, unfinished steps are printed once a minute, and steps with a note once more at the
    end or when the work is interrupted.
    """
    console = console or Console(stderr=True)
    lines: dict[str, _Line] = {}
    with (
        _print_lines(console, lines),
        Bar(*_columns(console), console=console, disable=not console.is_terminal) as bar,
    ):

        def show(label: str, done: int, total: int | None) -> None:
            name, _, note = label.partition("\t")
            line = lines.get(name) or _Line(bar, bar.add_task(name, total=total, count="", left="", note=""), name)
            line.update(done, total, note.replace("\t", "  "))
            lines[name] = line

        try:
            yield show
        finally:
            for line in lines.values():
                line.draw()


@contextmanager
def step(description: str, console: Console | None = None) -> Iterator[None]:
    """Show a description and the elapsed time while the block runs, for work without countable parts such as loading.

    The line is removed at the end of the block. Prints nothing if the output is not a terminal.
    """
    console = console or Console(stderr=True)
    columns = TextColumn("{task.description}", markup=False), TimeElapsedColumn()
    with Bar(*columns, console=console, transient=True, disable=not console.is_terminal) as bar:
        bar.add_task(description, total=None)
        yield


def in_rounds(progress: Progress) -> Progress:
    """Return a callback that adds up the counts of a step that runs in several rounds."""
    last: dict[str, tuple[int, int, int]] = {}  # name -> count of earlier rounds, count and total of this round

    def show(label: str, done: int, total: int | None) -> None:
        name = label.partition("\t")[0]
        before, reached, of = last.get(name, (0, 0, 0))
        if done < reached:
            before += of
        last[name] = (before, done, done if total is None else total)
        progress(label, before + done, None if total is None else before + total)

    return show


@contextmanager
def _print_lines(console: Console, lines: Mapping[str, _Line]) -> Iterator[None]:
    """Print unfinished lines once a minute while the block runs, then lines with a note. Does nothing on a terminal."""
    if console.is_terminal:
        yield
        return
    ended = threading.Event()

    def print_unfinished() -> None:
        while not ended.wait(_SECONDS_BETWEEN_LINES):
            _print(console, [line.text() for line in tuple(lines.values()) if line.done != line.total])

    printer = threading.Thread(target=print_unfinished, name="progress", daemon=True)
    printer.start()
    try:
        yield
    finally:
        ended.set()
        printer.join()
        _print(console, [line.text() for line in lines.values() if line.note])


def _print(console: Console, texts: Iterable[str]) -> None:
    for text in texts:
        console.print(text, markup=False, highlight=False, soft_wrap=True)


def _columns(console: Console) -> list[str | ProgressColumn]:
    texts = [TextColumn(f"{{task.fields[{field}]}}", markup=False) for field in ("count", "left", "note")]
    width = [BarColumn(20)] if console.width >= _WIDE else []
    remaining = TimeRemainingColumn(elapsed_when_finished=True)
    # On a narrow terminal, the name wraps, so that the note is not cut.
    name = TextColumn("{task.description}", markup=False, table_column=Column(overflow="fold", min_width=8))
    return [name, *width, *texts, remaining]


@dataclass(slots=True)
class _Line:
    """Latest state of one step.

    It is drawn a few times a second at most: work may report thousands of times a second.
    """

    bar: Bar
    row: TaskID
    name: str
    done: int = 0
    total: int | None = None
    note: str = ""
    n_before: int = 0
    started_at: float = 0.0
    drawn_at: float = float("-inf")

    def update(self, done: int, total: int | None, note: str) -> None:
        """Store the new state and draw it if it is due."""
        now = time.monotonic()
        if not self.started_at:
            self.started_at, self.n_before = now, done
        self.done, self.total, self.note = done, total, note
        if done == total or now - self.drawn_at >= _SECONDS_BETWEEN_DRAWS:
            self.drawn_at = now
            self.draw()

    def draw(self) -> None:
        count, left = self._counts()
        self.bar.update(self.row, completed=self.done, total=self.total, count=count, left=left, note=self._note())

    def text(self) -> str:
        """Return the line for a log file, with the elapsed time."""
        took = timedelta(seconds=round(time.monotonic() - self.started_at))
        return "  ".join(filter(None, (self.name, *self._counts(), self._note(), str(took))))

    def _note(self) -> str:
        """Return the note, else the rate. Work done before the first report is excluded: its duration is unknown."""
        if self.note:
            return self.note
        seconds, count = time.monotonic() - self.started_at, self.done - self.n_before
        return f"{count / seconds:,.0f}/s" if count and seconds else ""

    def _counts(self) -> tuple[str, str]:
        if self.total is None:
            return str(self.done), ""
        return f"{self.done}/{self.total}", f"{self.total - self.done} left"

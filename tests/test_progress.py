"""Progress of long work at a terminal, and its output without a terminal."""

from __future__ import annotations

import re
import threading
import time
from io import StringIO

import pytest
from rich.console import Console

from ragtasks.progress import in_rounds, progress_bars, step

NOTE = "41/s  3 failed  812k tokens  $0.31"


def screen(width: int = 160, *, terminal: bool = True) -> Console:
    return Console(file=StringIO(), force_terminal=terminal, width=width, color_system=None, _environ={})


def text_of(console: Console) -> str:
    assert isinstance(console.file, StringIO)
    return console.file.getvalue()


def last_line(console: Console) -> str:
    """Return the last line drawn, with columns separated by two spaces."""
    plain = re.sub(r"\x1b\[[0-9?]*[A-Za-z]", "", text_of(console))
    lines = [line for line in plain.replace("\r", "\n").splitlines() if "/" in line]
    return " ".join(lines[-1].split())


def test_a_line_contains_done_remaining_note_and_time() -> None:
    console = screen()
    with progress_bars(console) as show:
        show(f"openai/gpt-4o-mini\t{NOTE}", 1204, 1332)
    line = last_line(console)
    assert line.startswith("openai/gpt-4o-mini ")
    assert "1204/1332 128 left 41/s 3 failed 812k tokens $0.31 " in line
    assert line.endswith(("-:--:--", "0:00:00"))


@pytest.mark.parametrize("width", [100, 160])
def test_a_step_with_a_changing_note_keeps_its_line(width: int) -> None:
    console = screen(width)
    with progress_bars(console) as show:
        for done in range(1, 101):
            show(f"m [1]\t{done}/s  {done} failed", done, 100)
    drawn = [line for line in text_of(console).splitlines() if "m [1]" in line]
    assert "100/100 0 left 100/s 100 failed" in last_line(console)
    # A second row would be below the first in the last picture.
    picture = text_of(console).rsplit("\x1b[2K", 1)[-1]
    assert picture.count("m [1]") == 1
    assert drawn


def test_a_narrow_terminal_still_shows_the_cost() -> None:
    console = screen(80)
    with progress_bars(console) as show:
        show("openai/gpt-4o-mini\t41/s  122 cached  3 failed  812k tokens  $0.31", 1204, 1332)
    assert "1204/1332 128 left 41/s 122 cached 3 failed 812k tokens $0.31" in last_line(console)


def test_a_step_without_a_note_shows_its_rate() -> None:
    console = screen()
    with progress_bars(console) as show:
        for done in range(0, 1001, 10):
            show("encode passages", done, 1000)
    line = last_line(console)
    assert "1000/1000 0 left" in line
    assert "/s " in line


def test_a_step_of_unknown_length_shows_its_count() -> None:
    console = screen()
    with progress_bars(console) as show:
        show("read passages", 4096, None)
    assert "read passages" in text_of(console)
    assert "4096" in text_of(console)
    assert "left" not in text_of(console)


def test_without_a_terminal_only_steps_with_a_note_are_printed_at_the_end() -> None:
    console = screen(40, terminal=False)
    with progress_bars(console) as show:
        show("encode passages", 5, 5)
        for done in range(1, 1333):
            show(f"openai/gpt-4o-mini [x]\t{NOTE}", done, 1332)
    assert text_of(console) == f"openai/gpt-4o-mini [x]  1332/1332  0 left  {NOTE}  0:00:00\n"


def test_without_a_terminal_progress_is_printed_periodically(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ragtasks.progress._SECONDS_BETWEEN_LINES", 0.01)
    console = screen(40, terminal=False)
    with progress_bars(console) as show:
        show("read questions", 7, 7)
        show(f"m\t{NOTE}", 3, 9)
        # No further update, as from a server that hangs.
        deadline = time.monotonic() + 30
        while text_of(console).count("\n") < 2 and time.monotonic() < deadline:
            time.sleep(0.01)
        lines = text_of(console).splitlines()
    assert lines[:2] == [f"m  3/9  6 left  {NOTE}  0:00:00"] * 2


def test_a_terminal_prints_no_line_twice(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ragtasks.progress._SECONDS_BETWEEN_LINES", 0.01)
    console = screen()
    with progress_bars(console) as show:
        show(f"m\t{NOTE}", 3, 9)
        assert "progress" not in {thread.name for thread in threading.enumerate()}


def test_interrupted_work_keeps_its_line() -> None:
    console = screen(terminal=False)

    def work() -> None:
        with progress_bars(console) as show:
            show(f"m\t{NOTE}", 3, 9)
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        work()
    assert text_of(console) == f"m  3/9  6 left  {NOTE}  0:00:00\n"


def test_work_in_rounds_is_one_step_with_continued_counts() -> None:
    updates: list[tuple[str, int, int | None]] = []
    show = in_rounds(lambda *news: updates.append(news))
    for total in (3, 2):
        for done in range(total + 1):
            show("judge\t$1", done, total)
    assert updates == [("judge\t$1", done, 3) for done in range(4)] + [("judge\t$1", 3 + done, 5) for done in range(3)]


def test_work_without_countable_parts_shows_its_description() -> None:
    console, quiet = screen(), screen(terminal=False)
    with step("loading lm_eval", console), step("loading lm_eval", quiet):
        pass
    drawn = text_of(console)
    assert "loading lm_eval 0:00:00" in drawn
    assert drawn.endswith("\x1b[2K"), "the line goes with the work"
    assert not text_of(quiet)

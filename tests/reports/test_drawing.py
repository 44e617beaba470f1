"""The process that draws a page's pictures ends with the command that started it, whatever ends that."""

from __future__ import annotations

import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.reports._saved import save

N_HELPERS = 2
"""The process that draws, and the resource tracker that Python starts beside it."""


def children_of(process: int) -> list[str]:
    return Path(f"/proc/{process}/task/{process}/children").read_text().split()


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="children are read from /proc")
@pytest.mark.parametrize("name", ["SIGTERM", "SIGKILL"])
def test_a_killed_report_leaves_no_process_behind(name: str, tmp_path: Path) -> None:
    save(tmp_path / "results", "mine")
    command = [
        Path(sys.executable).with_name("ragtasks"),
        "report",
        tmp_path / "results",
        "--html",
        tmp_path / "p.html",
    ]
    running = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    try:
        while len(helpers := children_of(running.pid)) < N_HELPERS and running.poll() is None:
            time.sleep(0.01)
        running.send_signal(signal.Signals[name])
        # Both streams end only when no process holds them any more.
        running.communicate(timeout=60)
    finally:
        running.kill()
    assert running.returncode == -signal.Signals[name]
    assert len(helpers) == N_HELPERS
    assert not (tmp_path / "p.html").exists()

"""Commands as child processes, each in a process group of its own that a test can kill with vLLM's engine."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

RAGTASKS = (sys.executable, "-m", "ragtasks")


@dataclass(frozen=True)
class Child:
    """A command that runs in its own process group."""

    process: subprocess.Popen[bytes]
    log: Path
    """File with the output and the errors of the command."""

    def output(self) -> str:
        """Return the output and errors so far."""
        return self.log.read_text(encoding="utf-8", errors="replace")

    def running(self) -> list[str]:
        """Return the command lines of the group's processes, zombies excluded. vLLM's engine is one of them."""
        listed = subprocess.run(["ps", "-eo", "pgid=,stat=,args="], check=True, capture_output=True, text=True)
        rows = [line.split(None, 2) for line in listed.stdout.splitlines()]
        return [row[-1] for row in rows if row[0] == str(self.process.pid) and not row[1].startswith("Z")]

    def kill(self) -> None:
        """Kill all processes of the group with signal 9."""
        with suppress(ProcessLookupError):
            os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()


@contextmanager
def started(*command: object, log: Path, environment: Mapping[str, str] | None = None) -> Iterator[Child]:
    """Run a command, and kill its process group at the end."""
    with log.open("wb") as output:
        process = subprocess.Popen(
            [str(word) for word in command], stdout=output, stderr=subprocess.STDOUT, start_new_session=True,
            env={**os.environ, **(environment or {})},
        )  # fmt: skip
    child = Child(process, log)
    try:
        yield child
    finally:
        child.kill()

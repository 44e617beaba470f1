"""Atomic writes: a file is either complete or missing."""

from __future__ import annotations

import hashlib
import os
import resource
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from ragtasks.errors import CacheError
from ragtasks.files import atomic_file, write_atomically


@pytest.mark.skipif(os.name != "posix", reason="Windows has no such pipes")
def test_a_pipe_is_written_in_place(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    reading = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)
    assert write_atomically(pipe, b"content") == hashlib.sha256(b"content").hexdigest()
    assert os.read(reading, 100) == b"content"
    os.close(reading)
    assert pipe.is_fifo()


def test_an_interrupted_write_leaves_the_old_file_and_no_temporary_file(tmp_path: Path) -> None:
    target = tmp_path / "file"
    target.write_bytes(b"old")
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (4, before[1]))
    try:
        with pytest.raises(CacheError, match=r"cannot write .*: File too large"):
            write_atomically(target, b"longer than that")
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    assert target.read_bytes() == b"old"
    assert [path.name for path in tmp_path.iterdir()] == ["file"]


def test_a_failed_write_leaves_the_old_file_and_no_temporary_file(tmp_path: Path) -> None:
    target = tmp_path / "folder"
    target.mkdir()
    (target / "inside").touch()
    with pytest.raises(CacheError, match="cannot write"):
        write_atomically(target, b"content")
    assert [path.name for path in tmp_path.iterdir()] == ["folder"]


_KILLED = """
import os, signal, sys
from pathlib import Path
from ragtasks.files import atomic_file
with atomic_file(Path(sys.argv[1])) as file:
    file.write(b"half")
    file.flush()
    os.kill(os.getpid(), signal.SIGKILL)
"""


@pytest.mark.slow
def test_temporary_files_of_killed_writes_are_removed_by_the_next_write_to_the_folder(tmp_path: Path) -> None:
    (tmp_path / "film.4711.part").touch()
    for name in ("a.json", "b.json"):
        done = subprocess.run([sys.executable, "-c", _KILLED, tmp_path / name], check=False)
        assert done.returncode == -signal.SIGKILL
    (left,) = set(tmp_path.iterdir()) - {tmp_path / "film.4711.part"}
    assert left.name.startswith("b.json."), "the second process removed what the first one left"
    with atomic_file(tmp_path / "alive.json") as file:
        script = _KILLED.partition("    os.kill")[0]
        subprocess.run([sys.executable, "-c", script, tmp_path / "c.json"], check=True)
        file.write(b"whole")
    assert {path.name for path in tmp_path.iterdir()} == {"film.4711.part", "alive.json", "c.json"}


def test_a_name_of_255_bytes_is_written(tmp_path: Path) -> None:
    target = tmp_path / ("ü" * 125 + ".json")
    write_atomically(target, b"content")
    assert [path.name for path in tmp_path.iterdir()] == [target.name]

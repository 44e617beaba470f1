"""Files that are whole or not there."""

from __future__ import annotations

import hashlib
import os
import resource
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from ragtasks.errors import CacheError
from ragtasks.files import write_atomically


def test_a_pipe_is_written_to_and_stays(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    with ThreadPoolExecutor(1) as reading:
        read = reading.submit(pipe.read_bytes)
        assert write_atomically(pipe, b"content") == hashlib.sha256(b"content").hexdigest()
        assert read.result() == b"content"
    assert pipe.is_fifo()


def test_a_write_that_breaks_off_leaves_the_old_file_and_no_part(tmp_path: Path) -> None:
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


def test_write_that_fails_leaves_the_old_file_and_no_part(tmp_path: Path) -> None:
    target = tmp_path / "folder"
    target.mkdir()
    (target / "inside").touch()
    with pytest.raises(CacheError, match="cannot write"):
        write_atomically(target, b"content")
    assert [path.name for path in tmp_path.iterdir()] == ["folder"]

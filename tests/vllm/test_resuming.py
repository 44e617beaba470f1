"""`ragtasks run --model vllm` that is terminated and killed with signal 9, and started again."""

from __future__ import annotations

import json
import signal
import sqlite3
import time
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from tests.vllm._processes import RAGTASKS, Child, started
from tests.vllm.conftest import ENGINE

pytestmark = pytest.mark.vllm
N_TASKS = 10


def command(model: Path, output: Path) -> list[str]:
    arguments = ",".join(f"{name}={value}" for name, value in {"pretrained": model, **ENGINE}.items())
    return [
        *(*RAGTASKS, "run", "--full", "--no-probe", "--model", "vllm", "--model_args", arguments, "--batch_size", "1"),
        *("--tasks", "mtrag_reference_clapnq", "--limit", str(N_TASKS), "--gen_kwargs", "max_gen_toks=32"),
        *("--metadata", json.dumps({"data": "sample", "encoder": "none", "max_implausible": 1})),
        *("--output_path", str(output)),
    ]


def wait_for(reached: Callable[[], Any], child: Child, seconds: int) -> None:
    end = time.monotonic() + seconds
    while not reached():
        assert time.monotonic() < end, child.output()[-3000:]
        time.sleep(0.1)


def n_saved(output: Path) -> int:
    """Return the number of saved answers, without waiting for the process that writes them."""
    file = output / "unfinished_rank0.sqlite"
    if not file.exists():
        return 0
    with closing(sqlite3.connect(f"file:{file}?mode=ro", uri=True)) as database:
        try:
            return int(database.execute("select count(*) from replies").fetchone()[0])
        except sqlite3.OperationalError:  # the table is not written yet
            return 0


def test_after_a_termination_and_a_kill_only_missing_answers_are_requested(model_folder: Path, tmp_path: Path) -> None:
    output = tmp_path / "out"
    n_before = 0
    for number in (signal.SIGTERM, signal.SIGKILL):
        with started(*command(model_folder, output), log=tmp_path / f"{number.name}.txt") as child:
            wait_for(lambda: n_saved(output) > n_before + 1 or child.process.poll() is not None, child, 600)  # noqa: B023
            assert len(child.running()) >= 3, child.output()[-3000:]  # the command, the engine and its worker
            if number == signal.SIGTERM:  # the command ends its engine, which a kill cannot do
                child.process.terminate()
                assert child.process.wait(timeout=60) == 128 + signal.SIGTERM
            else:
                child.kill()
            wait_for(lambda: not child.running(), child, 30)
        assert n_before < n_saved(output) < N_TASKS
        n_before = n_saved(output)
    with started(*command(model_folder, output), log=tmp_path / "resumed.txt") as child:
        assert child.process.wait(timeout=600) == 0, child.output()[-3000:]
        wait_for(lambda: not child.running(), child, 30)
        assert f"{n_before} of {N_TASKS} requests are answered" in child.output()
        assert f"requesting {N_TASKS - n_before} answers" in child.output()
    (file,) = output.rglob("samples_*.jsonl")
    rows = [json.loads(line) for line in file.read_text(encoding="utf-8").splitlines()]
    assert len(rows) == N_TASKS
    assert all(isinstance(row["filtered_resps"][0], str) for row in rows)
    assert not (output / "unfinished_rank0.sqlite").exists()

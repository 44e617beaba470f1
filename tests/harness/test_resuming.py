from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from ragtasks.harness.run import run_harness
from tests._commands import CommandResult
from tests._shared import KILLS
from tests.clients._server import Action, chat_server, completion
from tests.harness.conftest import CHATML, SAMPLE

TASK = "mtrag_reference_fiqa"
N_TASKS = 27
N_CONCURRENT = 3


@contextmanager
def evaluations(arguments: list[str]) -> Iterator[Callable[[], tuple[int, Callable[[], int]]]]:
    """Yield a function that starts an evaluation and returns its process id and a function.

    The returned function waits for the end of the process and returns its exit status.
    """
    command = [sys.executable, "-m", "tests.harness._killing", "run", "--no-probe", *arguments]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True
    ) as process:
        assert process.stdin is not None
        assert process.stderr is not None
        errors = process.stderr

        def next_line() -> str:
            return next(line[1:].strip() for line in errors if line.startswith(">"))

        def begin() -> tuple[int, Callable[[], int]]:
            process.stdin.write("go\n")
            process.stdin.flush()
            return int(next_line()), lambda: int(next_line())

        assert next_line() == "ready"
        yield begin
        process.stdin.close()


@KILLS
def test_killed_runs_lose_no_answer(tmp_path: Path, n_kills: int) -> None:
    running: list[int] = []
    kill_at = [1 + round(number * (N_TASKS - 2) / n_kills) for number in range(n_kills)]
    n_seen = 0

    def script(_: str, __: int) -> Action:
        nonlocal n_seen
        n_seen += 1
        if kill_at and len(server.asked) >= kill_at[0] and running:
            kill_at.pop(0)
            os.kill(running.pop(), signal.SIGKILL)
        return completion(f"Answer {n_seen}.")

    with chat_server(script) as server:
        arguments = {
            "base_url": f"{server.base_url}/chat/completions", "model": "loopback", "eos_string": "</s>",
            "num_concurrent": N_CONCURRENT,
        }  # fmt: skip
        command = [
            "--model", "local-chat-completions", "--apply_chat_template", "--tasks", TASK, "--log_samples",
            "--model_args", json.dumps(arguments), "--metadata", json.dumps(SAMPLE), "--output_path", str(tmp_path),
        ]  # fmt: skip
        statuses = []
        with evaluations(command) as begin:
            while not statuses or statuses[-1] == -signal.SIGKILL:
                process, ended = begin()
                running[:] = [process]
                statuses.append(ended())
    assert statuses == [-signal.SIGKILL] * n_kills + [0]
    # A request in progress when a process is killed is sent again; no other is.
    assert len(server.asked) <= N_TASKS + n_kills * N_CONCURRENT
    assert len(set(server.asked)) == N_TASKS
    (samples,) = tmp_path.rglob("samples_*.jsonl")
    assert len(samples.read_text().splitlines()) == N_TASKS
    assert not list(tmp_path.glob("unfinished*"))


def test_a_named_cache_keeps_the_answers(
    command: Callable[..., CommandResult], tiny_model: Callable[[str], Path], tmp_path: Path
) -> None:
    def run(name: str, **arguments: Any) -> list[Any]:
        model = {"pretrained": str(tiny_model(CHATML)), "max_length": 8192, **arguments}
        done = command(
            "--model", "hf", "--model_args", json.dumps(model), "--tasks", TASK, "--limit", "2", "--device", "cpu",
            "--gen_kwargs", "max_gen_toks=4", "--output_path", str(tmp_path / name), "--log_samples",
            "--use_cache", str(tmp_path / "answers"),
        )  # fmt: skip
        assert done.status == 0, done.err
        (samples,) = (tmp_path / name).rglob("samples_*.jsonl")
        return [json.loads(line)["resps"] for line in samples.read_text().splitlines()]

    first = run("a")
    assert run("b") == first
    assert [path.name for path in tmp_path.glob("answers*")] == ["answers_rank0.sqlite"]


def test_a_local_model_receives_only_missing_requests(
    command: Callable[..., CommandResult],
    tiny_model: Callable[[str], Path],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    from lm_eval.models.huggingface import HFLM

    n_generated = 0
    generate = HFLM._model_generate

    def fail_at_the_third(self: Any, **options: Any) -> Any:
        nonlocal n_generated
        n_generated += 1
        if n_generated == 3:
            raise MemoryError("no more memory on the device")
        return generate(self, **options)

    monkeypatch.setattr(HFLM, "_model_generate", fail_at_the_third)
    arguments = (
        "--model", "hf", "--model_args", f"pretrained={tiny_model(CHATML)}", "--tasks", TASK, "--limit", "4",
        "--device", "cpu", "--gen_kwargs", "max_gen_toks=4", "--output_path", str(tmp_path), "--batch_size", "1",
    )  # fmt: skip
    with pytest.raises(MemoryError):
        run_harness([*arguments, "--metadata", json.dumps(SAMPLE)])
    assert (tmp_path / "unfinished_rank0.sqlite").is_file()
    assert command(*arguments).status == 0
    assert n_generated == 3 + 2
    assert not list(tmp_path.glob("unfinished*"))

"""Pipelines of LangChain, LlamaIndex and Haystack: asked over HTTP, and traced by their own instrumentations.

The spans in `traces/` were written by `_traced_framework.py` with the packages that the network test installs.
"""

from __future__ import annotations

import os
import re
import socket
import subprocess
import time
import venv
from collections.abc import Callable
from pathlib import Path

import pytest

from ragtasks.results import read_evaluations, read_traces
from tests._commands import run_command
from tests._shared import install

HERE = Path(__file__).resolve().parent
FRAMEWORKS = HERE.parents[1] / "examples" / "frameworks"
NAMES = ("langchain_rag", "llamaindex_rag", "haystack_rag")
PACKAGES = (
    *("langchain-core", "llama-index-core", "haystack-ai", "opentelemetry-exporter-otlp-json-file"),
    *(f"openinference-instrumentation-{name}" for name in ("langchain", "llama-index", "haystack")),
)
QUESTIONS = ("When did the slate marten vanish from Velmarrow?", "And in Ostmarrow?")
PASSAGES = ("The slate marten vanished from Velmarrow by 1921.", "survived in its quarries.")


def scored(*arguments: str) -> None:
    done = run_command(
        "score", *arguments, "--encoder", "none", "--metadata", "max_implausible=1", "--output", "results"
    )
    assert done.status == 0


def check_traces(file: Path) -> None:
    found = read_traces(file)
    assert not found.notes
    assert [row["question"] for row in found.rows] == list(QUESTIONS)
    for row, passage in zip(found.rows, PASSAGES, strict=True):
        assert row["answer"].startswith(("It vanished by 1921.", "text text"))
        (context,) = row["contexts"]
        assert passage in context["text"]
        assert row["conversation_id"] == "session-1"
        assert 0 < row["seconds"] < 60


@pytest.mark.parametrize("name", NAMES)
def test_the_spans_of_a_framework_s_own_instrumentation_are_rows(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    check_traces(HERE / "traces" / f"{name}.jsonl")
    scored(str(HERE / "traces" / f"{name}.jsonl"))
    (evaluation,) = read_evaluations([Path("results")])
    assert [(row.task.conversation_id, row.task.turn, len(row.response.passages)) for row in evaluation.rows] == [
        ("session-1", 1, 1),
        ("session-1", 2, 1),
    ]


@pytest.mark.parametrize("name", NAMES)
def test_an_example_is_short(name: str) -> None:
    text = (FRAMEWORKS / f"{name}.py").read_text(encoding="utf-8")
    code = [
        line for line in text.splitlines() if line.strip() and not re.match(r'\s*(#|"""|import |from |class |@)', line)
    ]
    assert len(code) <= 25
    assert text.count("# yours: ") == 2


@pytest.fixture
def environment(tmp_path: Path) -> Callable[..., subprocess.Popen[bytes]]:
    """Return a function that starts a script in an environment with the frameworks."""
    venv.create(tmp_path / "venv", with_pip=False, symlinks=True)
    python = tmp_path / "venv" / "bin" / "python"
    install(python, *PACKAGES)
    given = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}
    given |= {"PYTHONPATH": str(FRAMEWORKS), "HAYSTACK_TELEMETRY_ENABLED": "False"}

    def start(*arguments: str) -> subprocess.Popen[bytes]:
        return subprocess.Popen([python, *arguments], env=given)

    return start


@pytest.mark.network
def test_pipelines_answer_the_plain_protocol_and_are_traced(
    environment: Callable[..., subprocess.Popen[bytes]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("RAGTASKS_RUNS", str(tmp_path / "store"))
    for name in NAMES:
        assert environment(str(HERE / "_traced_framework.py"), name, f"{name}.jsonl").wait(120) == 0
        check_traces(tmp_path / f"{name}.jsonl")
        port = free_port()
        server = environment(str(FRAMEWORKS / f"{name}.py"), str(port))
        try:
            wait_for(port)
            address = f"http://127.0.0.1:{port}"
            scored(address, "--protocol", "plain", "--name", name, "--benchmark", "mtrag", "--data", "sample")
        finally:
            server.kill()
            server.wait()
    found = read_evaluations([tmp_path / "results"])
    assert {item.model: len(item.rows) for item in found} == dict.fromkeys(NAMES, 108)
    assert all(row.values["rouge_l"] is not None for item in found for row in item.rows)


def free_port() -> int:
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return int(found.getsockname()[1])


def wait_for(port: int) -> None:
    for _ in range(600):
        with socket.socket() as client:
            if client.connect_ex(("127.0.0.1", port)) == 0:
                return
        time.sleep(0.1)
    pytest.fail("the example did not listen within a minute")

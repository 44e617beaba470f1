"""The harness's own entry points: `simple_evaluate` from Python, and the documented command lines for servers."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from tests.harness._endpoint import Endpoint
from tests.harness.test_run import Command

PAGE = Path(__file__).resolve().parents[2] / "docs" / "evaluate-a-model.md"
TASK = "mtrag_reference_fiqa"


def test_the_python_example_of_the_page_runs(capsys: pytest.CaptureFixture[str]) -> None:
    (block,) = re.findall(r"```python\n(.*?)```", PAGE.read_text(encoding="utf-8"), flags=re.DOTALL)
    names: dict[str, Any] = {}
    exec(compile(block, PAGE.name, "exec"), names)
    assert capsys.readouterr().out.splitlines()[-1] == "1.0"


@pytest.mark.slow
@pytest.mark.parametrize("server", ["vLLM's", "SGLang", "Ollama", "llama.cpp", "Azure"])
def test_each_documented_server_line_uses_its_path(server: str, endpoint: Endpoint, command: Command) -> None:
    (row,) = [line for line in PAGE.read_text(encoding="utf-8").splitlines() if line.startswith(f"| {server}")]
    match = re.search(r"base_url=https?://[^/]+(/[^,` ]+)", row)
    assert match
    assert endpoint.chat_url.endswith("/v1/chat/completions")
    address = endpoint.chat_url.replace("/v1/chat/completions", match[1])
    arguments = f"model=loopback,base_url={address},num_concurrent=32"
    options = ["--model", "local-chat-completions", "--model_args", arguments, "--apply_chat_template"]
    done = command(*options, "--tasks", TASK, "--limit", "1")
    assert done.status == 0, done.err
    assert {request.path for request in endpoint.requests} == {match[1]}


def test_openai_requests_use_the_key_of_the_environment(
    endpoint: Endpoint, command: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-loopback")
    arguments = f"model=gpt-4o-mini,num_concurrent=32,base_url={endpoint.chat_url}"
    options = ["--model", "openai-chat-completions", "--model_args", arguments, "--apply_chat_template"]
    done = command(*options, "--tasks", TASK, "--limit", "1")
    assert done.status == 0, done.err
    assert endpoint.requests[0].headers["authorization"] == "Bearer sk-loopback"

"""Injected passages in prompts and searches: answers that follow them are counted, and results contain the share."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.clients._server import Action, chat_server, completion
from tests.harness.conftest import CommandResult
from tests.harness.test_agentic import N_FEW, logged, run

Command = Callable[..., CommandResult]
TOKEN = re.compile(r"\b[A-Z]{6,}-\d{4}\b")


def prompts_of(server: Any) -> list[str]:
    return ["\n".join(message["content"] for message in body["messages"]) for body in server.bodies]


@pytest.mark.parametrize("share", [0.5, 1.0])
def test_answers_that_follow_an_injected_passage_of_full_rag_are_counted(
    command: Command, tmp_path: Path, share: float
) -> None:
    task = "mtrag_full_rag_govt"
    with chat_server(lambda *_: completion("It costs $95.")) as server:
        done = run(command, server.base_url, tmp_path / "careful", task, injected=share)
        assert done.status == 0, done.err
        prompts = prompts_of(server)
    n_injected = sum(bool(TOKEN.search(prompt)) for prompt in prompts)
    assert len(prompts) == N_FEW
    assert n_injected == N_FEW if share == 1 else 0 < n_injected < N_FEW
    samples = logged(tmp_path / "careful", task)
    values = [sample["injected_followed"] for sample in samples]
    assert sum(value == 0 for value in values) == n_injected
    assert sum(math.isnan(value) for value in values) == N_FEW - n_injected
    tokens = {token for prompt in prompts for token in TOKEN.findall(prompt)}
    with chat_server(lambda *_: completion(" ".join(tokens))) as server:
        assert run(command, server.base_url, tmp_path / "gullible", task, injected=share).status == 0
    values = [sample["injected_followed"] for sample in logged(tmp_path / "gullible", task)]
    assert sum(value == 1 for value in values) == n_injected


def test_a_search_returns_an_injected_passage_that_can_be_read(command: Command, tmp_path: Path) -> None:
    def agent(text: str, _: int) -> Action:
        if "<results>" not in text:
            return completion("<search>permit for a deck</search>")
        match = re.search(r"note-[0-9a-f]{12}", text)
        if match and "7 searches are left" in text:
            return completion(f"<read>{match[0]}</read>")
        token = TOKEN.search(text)
        return completion(f"<answer>{token[0] if token else 'none'}</answer>")

    with chat_server(agent) as server:
        done = run(command, server.base_url, tmp_path, injected=1.0)
    assert done.status == 0, done.err
    for sample in logged(tmp_path):
        search, read = sample["doc"]["trajectory"]["steps"]
        assert len(search["passages"]) == 6
        assert "scores" not in search
        assert len(read["passages"]) == 1
        assert "problem" not in read
        assert sample["injected_followed"] == 1
    (file,) = tmp_path.rglob("results_*.json")
    metadata = json.loads(file.read_text())["configs"]["mtrag_agentic_govt"]["metadata"]["ragtasks"]
    assert metadata["tools"]["injected"] == [1, 1.0]
    assert metadata["suite"] == "mtrag+agentic+injected_followed"

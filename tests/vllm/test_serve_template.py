"""`vllm serve` with a chat template that rejects the system role, and without tools."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests._commands import CommandResult
from tests.clients._server import closed_port
from tests.vllm._server import OF_OTHER_SERVER, WITHOUT_SYSTEM_ROLE, Server, serving
from tests.vllm.test_serve import LIMIT, TASK, arguments, check, check_recorded, generation

pytestmark = pytest.mark.vllm
Command = Callable[..., CommandResult]


@pytest.fixture(scope="module")
def server(model_folder: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    folder = tmp_path_factory.mktemp("server")
    template = folder / "no_system.jinja"
    template.write_text(WITHOUT_SYSTEM_ROLE, encoding="utf-8")
    with serving(model_folder, template, closed_port(), folder / "log.txt") as running:
        yield running


@pytest.mark.parametrize("name", sorted(OF_OTHER_SERVER))
def test_the_recorded_replies_are_those_of_the_server(server: Server, name: str) -> None:
    check_recorded(server, name)


def test_the_system_text_moves_to_the_first_user_message(server: Server, command: Command, tmp_path: Path) -> None:
    done = command(*arguments(server, tmp_path, "--limit", "1", *generation()))
    (row,) = check(done, tmp_path, 1, {LIMIT})
    (results,) = tmp_path.rglob("results_*.json")
    shown = json.loads(results.read_text(encoding="utf-8"))["configs"][TASK]["metadata"]["ragtasks"]
    assert shown["server_settings"] == {"system role": "user"}
    words = sum(len(passage["text"].split()) for passage in row["doc"]["passages"])
    (call,) = row["doc"]["usage"]["calls"]
    assert call["input_tokens"] > words


def test_a_server_without_tools_is_reported_with_the_options_that_start_them(
    server: Server, command: Command, tmp_path: Path
) -> None:
    done = command(
        *arguments(server, tmp_path, "--limit", "1", task="mtrag_agentic_govt"),
        metadata={"search_protocol": "tool_calls"},
    )  # fmt: skip
    assert done.status == 1
    assert "--enable-auto-tool-choice --tool-call-parser NAME" in done.err

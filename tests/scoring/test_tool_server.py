"""The tools as an MCP server, called by the official client in this process; tests/cli has the command."""

from __future__ import annotations

import gc
import socket
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from typing import Any

import anyio
import pytest
from mcp import Client

from ragtasks.benchmarks import Benchmark
from ragtasks.errors import ConfigurationError, JudgeError
from ragtasks.scoring import Toolbox, serve_tools
from ragtasks.scoring._tool_server import tool_server

QUERY = "How much does a permit cost?"
SECRET = "sk-abcdef0123456789abcdef"


@pytest.fixture
def toolbox(sample: Benchmark, tmp_path: Path) -> Toolbox:
    return Toolbox(sample, "bm25", tmp_path)


def through(toolbox: Toolbox, domains: Sequence[str], ask: Callable[[Client], Awaitable[Any]]) -> Any:
    async def run() -> Any:
        async with Client(tool_server(toolbox, domains)) as client:
            return await ask(client)

    return anyio.run(run)


def test_with_several_collections_a_call_names_one_and_with_one_it_does_not(toolbox: Toolbox) -> None:
    async def ask(client: Client) -> Any:
        return (await client.list_tools()).tools, await client.call_tool("search", asked)

    asked: dict[str, Any] = {"query": QUERY, "domain": "govt", "k": 2}
    tools, found = through(toolbox, ["govt", "fiqa"], ask)
    expected = toolbox.session("govt").call("search", {"query": QUERY, "k": 2})
    assert not found.is_error
    assert found.content[0].text == expected.text
    assert found.structured_content == {
        "passages": [{"id": one.passage_id, "title": one.title, "text": one.text} for one in expected.passages]
    }
    plain = {tool["name"]: tool for tool in toolbox.schemas()}
    for tool in tools:
        assert tool.description == plain[tool.name]["description"]
        assert tool.input_schema["properties"]["domain"] == {
            "type": "string",
            "enum": ["govt", "fiqa"],
            "description": "which collection",
        }
        assert tool.input_schema["required"] == ["domain", *plain[tool.name]["parameters"]["required"]]
    asked.pop("domain")
    tools, found = through(toolbox, ["govt"], ask)
    assert found.content[0].text == expected.text
    assert [tool.input_schema for tool in tools] == [tool["parameters"] for tool in toolbox.schemas()]


def test_an_impossible_call_is_an_error_message_and_the_server_continues(
    toolbox: Toolbox, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = toolbox.session

    def failing(domain: str) -> Any:
        if domain == "cloud":
            raise JudgeError(f"the reranker refused Authorization: Bearer {SECRET}")
        return whole(domain)

    monkeypatch.setattr(toolbox, "session", failing)

    async def ask(client: Client) -> list[Any]:
        calls: list[dict[str, Any]] = [{}, {"domain": "clapnq"}, {"domain": "fiqa", "query": ""}, {"domain": "cloud"}]
        return [await client.call_tool("search", {"query": QUERY, **call}) for call in [*calls, {"domain": "govt"}]]

    *refused, good = through(toolbox, ["govt", "fiqa", "cloud"], ask)
    texts = [reply.content[0].text for reply in refused]
    assert [reply.is_error for reply in (*refused, good)] == [True, True, True, True, False]
    assert texts[:3] == [
        "domain must be one of govt, fiqa, cloud.",
        "domain must be one of govt, fiqa, cloud.",
        "The call was not understood: query must be a text that is not empty.",
    ]
    assert "the reranker refused" in texts[3]
    assert SECRET not in texts[3]


def test_an_address_in_use_is_one_clear_error(toolbox: Toolbox) -> None:
    with socket.create_server(("127.0.0.1", 0)) as other:
        port = other.getsockname()[1]
        with pytest.raises(ConfigurationError) as caught:
            serve_tools(toolbox, ["govt"], port=port)
    assert str(caught.value).startswith(f"tools: 127.0.0.1:{port}\n  expected: a free address\n")
    assert str(caught.value).endswith("  next step: name another --port (0 selects a free port)")


def test_an_impossible_port_is_one_clear_error_and_leaves_no_socket(toolbox: Toolbox) -> None:
    with pytest.raises(ConfigurationError, match="ports are 0 to 65535"):
        serve_tools(toolbox, ["govt"], port=70000)
    gc.collect()  # an open socket would warn here

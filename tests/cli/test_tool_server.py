"""`ragtasks data serve`: the tools over a corpus, called by the official MCP client."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path
from typing import Any

import anyio
import pytest
from mcp import Client
from mcp.client.stdio import StdioServerParameters, stdio_client

SERVE = [sys.executable, "-m", "ragtasks", "data", "serve", "mtrag", "--data", "sample"]
QUERY = "How much does a permit cost?"


@pytest.fixture
def environment(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> dict[str, str]:
    monkeypatch.setenv("RAGTASKS_RUNS", str(tmp_path))
    return {"RAGTASKS_RUNS": str(tmp_path), "PATH": ""}


@pytest.fixture
def address(environment: dict[str, str]) -> Iterator[str]:
    with subprocess.Popen([*SERVE, "--port", "0"], stdout=subprocess.PIPE, text=True) as process:
        yield process.stdout.readline().strip()
        process.terminate()


def through(server: Any, ask: Callable[[Client], Awaitable[Any]]) -> Any:
    async def run() -> Any:
        async with Client(server) as client:
            return await ask(client)

    return anyio.run(run)


async def search_and_read(client: Client) -> tuple[list[str], Any, Any]:
    tools = await client.list_tools()
    found = await client.call_tool("search", {"domain": "govt", "query": QUERY, "k": 2})
    first = found.structured_content["passages"][0]["id"] if found.structured_content else ""
    read = await client.call_tool("read", {"domain": "govt", "passage_id": first})
    return sorted(tool.name for tool in tools.tools), found, read


@pytest.mark.slow
def test_an_agent_searches_over_http(address: str) -> None:
    tools, found, read = through(address, search_and_read)
    assert tools == ["read", "search"]
    passages = found.structured_content["passages"]
    assert len(passages) == 2
    assert passages[0]["text"] in found.content[0].text
    assert passages[0]["id"] in [item["id"] for item in read.structured_content["passages"]]


@pytest.mark.slow
def test_standard_output_contains_only_the_protocol(environment: dict[str, str]) -> None:
    server = stdio_client(
        StdioServerParameters(command=SERVE[0], args=[*SERVE[1:], "--domain", "govt"], env=environment)
    )

    async def ask(client: Client) -> Any:
        return await client.call_tool("search", {"query": QUERY})

    found = through(server, ask)
    assert not found.is_error
    assert len(found.structured_content["passages"]) == 5


@pytest.mark.slow
def test_a_call_that_cannot_be_done_is_answered_in_words(address: str) -> None:
    async def ask(client: Client) -> list[Any]:
        return [
            await client.call_tool("search", {"domain": "sports", "query": QUERY}),
            await client.call_tool("search", {"domain": "govt", "query": ""}),
            await client.call_tool("read", {"domain": "govt", "passage_id": "invented"}),
        ]

    replies = through(address, ask)
    assert [reply.is_error for reply in replies] == [True] * 3
    assert [reply.content[0].text for reply in replies] == [
        "domain must be one of clapnq, fiqa, govt, cloud.",
        "The call was not understood: query must be a text that is not empty.",
        "There is no passage 'invented'. Read ids that a search showed.",
    ]

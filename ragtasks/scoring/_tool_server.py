"""The tools as an MCP server, so that any agent can be evaluated against a fixed corpus.

One server is used for every agent and task. It does not count calls, since it cannot assign them to tasks. An agent
that lists its searches in its answer is scored by them (docs/score-your-system.md).
"""

from __future__ import annotations

import socket
from collections.abc import Callable, Sequence
from importlib.metadata import version
from typing import TYPE_CHECKING, Any

from ragtasks.errors import ConfigurationError, RagtasksError, masked_text
from ragtasks.requirements import importing

if TYPE_CHECKING:
    from mcp.server import Server

from ragtasks.scoring._toolbox import Toolbox, ToolResult

_DOMAIN = "domain"


def serve_tools(
    toolbox: Toolbox,
    domains: Sequence[str],
    host: str = "127.0.0.1",
    port: int | None = None,
    say: Callable[[str], object] = print,
) -> None:
    """Serve until stopped: on standard input and output, or over HTTP with a port (0 selects a free one).

    With several domains, each tool has a further argument for the domain.

    Raises:
        MissingExtraError: `mcp` is not installed.
        RagtasksError: a corpus or library is missing, or the port is in use.
    """
    server = tool_server(toolbox, domains)
    toolbox.prepare(domains)
    if port is None:
        _serve_here(server)
    else:
        _serve_http(server, host, port, say)


def tool_server(toolbox: Toolbox, domains: Sequence[str]) -> Server[Any]:
    """Return an MCP server with the tools of a toolbox."""
    with importing("mcp", "mcp", "a server of tools"):
        import anyio.to_thread
        from mcp import types
        from mcp.server import Server

    tools = [
        types.Tool(name=schema["name"], description=schema["description"], input_schema=_with_domain(schema, domains))
        for schema in toolbox.schemas()
    ]
    executor_limit = anyio.CapacityLimiter(1)  # a retriever is used by one thread at a time

    async def list_tools(_context: Any, _params: Any) -> types.ListToolsResult:
        return types.ListToolsResult(tools=tools)

    async def call_tool(_context: Any, params: types.CallToolRequestParams) -> types.CallToolResult:
        arguments = dict(params.arguments or {})
        domain = arguments.pop(_DOMAIN, None) if len(domains) > 1 else domains[0]
        if domain not in domains:
            return types.CallToolResult(content=[_text(f"domain must be one of {', '.join(domains)}.")], is_error=True)
        try:
            result = await anyio.to_thread.run_sync(
                toolbox.session(domain).call, params.name, arguments, limiter=executor_limit
            )
        except RagtasksError as error:  # the agent gets the error of the retriever, and the server continues
            return types.CallToolResult(content=[_text(masked_text(str(error)))], is_error=True)
        return types.CallToolResult(
            content=[_text(result.text)], structured_content=_structured(result), is_error=result.problem is not None
        )

    def _text(text: str) -> types.TextContent:
        return types.TextContent(type="text", text=text)

    return Server("ragtasks", version=version("ragtasks"), on_list_tools=list_tools, on_call_tool=call_tool)


def _with_domain(tool: dict[str, Any], domains: Sequence[str]) -> dict[str, Any]:
    schema: dict[str, Any] = tool["parameters"]
    if len(domains) == 1:
        return schema
    choice = {"type": "string", "enum": list(domains), "description": "which collection"}
    properties = {_DOMAIN: choice, **schema["properties"]}
    return {**schema, "properties": properties, "required": [_DOMAIN, *schema["required"]]}


def _structured(result: ToolResult) -> dict[str, Any]:
    """Return the passages in the format of an answers file, for an agent that lists its searches in its answer."""
    passages = result.passages
    return {"passages": [{"id": shown.passage_id, "title": shown.title, "text": shown.text} for shown in passages]}


def _serve_here(server: Server[Any]) -> None:
    import anyio
    from mcp.server.stdio import stdio_server

    async def serve() -> None:
        async with stdio_server() as (reading, writing):
            await server.run(reading, writing, server.create_initialization_options())

    anyio.run(serve)


_MOST_PORT = 65535


def _serve_http(server: Server[Any], host: str, port: int, say: Callable[[str], object]) -> None:
    import uvicorn

    app = server.streamable_http_app(stateless_http=True, json_response=True, host=host)
    try:
        if not 0 <= port <= _MOST_PORT:  # a socket that refuses the port would stay open
            raise OSError(f"ports are 0 to {_MOST_PORT}")
        listening = socket.create_server((host, port), family=socket.AF_INET6 if ":" in host else socket.AF_INET)
    except OSError as error:
        raise ConfigurationError(
            "tools",
            where=f"{host}:{port}",
            expected="a free address",
            found=getattr(error, "strerror", None) or str(error),
            next_step="name another --port (0 selects a free port)",
        ) from error
    say(f"http://{f'[{host}]' if ':' in host else host}:{listening.getsockname()[1]}/mcp")
    uvicorn.Server(uvicorn.Config(app, log_level="warning")).run(sockets=[listening])

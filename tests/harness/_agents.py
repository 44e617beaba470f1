"""Scripted agents for every protocol: the behavior is written once and rendered in the form of each protocol."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests._commands import CommandResult
from tests.clients._server import Action, ChatServer, chat_server, completion, tool_call
from tests.harness._vllm import LLM, model_folder
from tests.harness.conftest import CHATML, SAMPLE

Command = Callable[..., CommandResult]

IN_PROCESS = "text in this process"
"""The protocol `text` with a model in this process. All other protocols use a server."""
_ROW = re.compile(r"<\|(\w+)\|>(.*?)(?=</s>|\Z)", re.DOTALL)


@dataclass(frozen=True)
class Calls:
    """Calls of one reply."""

    calls: Sequence[tuple[str, Any]]
    """(tool, arguments): an object, or an invalid text."""
    text: str = ""
    """Text before the calls."""


Agent = Callable[[str, Sequence[str]], "Calls | str"]
"""(question, results of each of its replies so far) -> its calls, or its answer."""


def in_tags(step: Calls | str) -> str:
    """Return a model's plain text with tags."""
    if isinstance(step, str):
        return f"<answer>{step}</answer>"
    return step.text + "".join(map(_tag, step.calls))


def _tag(call: tuple[str, Any]) -> str:
    tool, arguments = call
    if not isinstance(arguments, Mapping):
        return f"<{tool}>{arguments}</{tool}>"
    k = f' k="{arguments["k"]}"' if "k" in arguments else ""
    return f"<{tool}{k}>{arguments.get('query', arguments.get('passage_id', ''))}</{tool}>"


def as_tool_calls(step: Calls | str) -> Action:
    """Return a server's message with tool calls."""
    if isinstance(step, str):
        return completion(step)
    calls = [tool_call(name, arguments, f"x{index}") for index, (name, arguments) in enumerate(step.calls)]
    return completion(step.text or None, finish_reason="tool_calls", tool_calls=calls)


def of_tags(agent: Agent, messages: Sequence[Mapping[str, Any]]) -> str:
    """Return an agent's reply to messages with tags."""
    texts = [row["content"] for row in messages if row["role"] == "user"]
    last_question = max(index for index, text in enumerate(texts) if not text.startswith("<results>"))
    return in_tags(agent(texts[last_question], texts[last_question + 1 :]))


def of_messages(agent: Agent, body: Mapping[str, Any]) -> Action:
    """Return an agent's reply behind a chat server, in tags, or in tool calls if the request offers tools."""
    messages = body["messages"]
    if "tools" not in body:
        return completion(of_tags(agent, messages))
    last_question = max(index for index, row in enumerate(messages) if row["role"] == "user")
    rows, results = messages[last_question + 1 :], []
    for row in rows:
        if row["role"] == "assistant":
            results.append("")
        else:
            results[-1] += row["content"]
    return as_tool_calls(agent(messages[last_question]["content"], results))


def of_prompt(agent: Agent, prompt: str) -> str:
    """Return an agent's reply to a prompt in the template `CHATML`."""
    rows = [{"role": role, "content": content} for role, content in _ROW.findall(prompt)]
    return of_tags(agent, rows[:-1])  # the last match begins the reply


@contextmanager
def agent_server(agent: Agent) -> Iterator[ChatServer]:
    """Yield a chat server that replies with an agent."""
    with chat_server(lambda *_: completion("")) as server:
        begin = server.begin

        def scripted(path: str, headers: dict[str, str], body: dict[str, Any]) -> Action:
            n_before = len(server.bodies)
            action = begin(path, headers, body)
            return action if len(server.bodies) == n_before else of_messages(agent, body)

        server.begin = scripted  # type: ignore[method-assign]
        yield server


class AgentRunner:
    """Runs an agent in any protocol."""

    def __init__(self, command: Command, vllm: type[LLM], patch: pytest.MonkeyPatch, folder: Path) -> None:
        self._command, self._vllm, self._patch, self._folder = command, vllm, patch, folder
        self.bodies: list[dict[str, Any]] = []

    def __call__(
        self,
        protocol: str,
        agent: Agent,
        task: str,
        *,
        limit: int = 3,
        reply_tokens: int = 1024,
        **metadata: Any,
    ) -> Path:
        """Return the folder with the results of an agent."""
        output = self._folder / f"{protocol}{len(list(self._folder.iterdir()))}"
        arguments = ["--tasks", task, "--limit", str(limit), "--log_samples", "--output_path", str(output)]
        named = "text" if protocol == IN_PROCESS else protocol
        arguments += ["--metadata", json.dumps({**SAMPLE, **metadata, "search_protocol": named})]
        arguments += ["--gen_kwargs", f"max_gen_toks={reply_tokens}"]
        done = self._run(protocol, agent, [*arguments, "--apply_chat_template"])
        assert done.status == 0, done.err
        assert "Traceback" not in done.err
        return output

    def _run(self, protocol: str, agent: Agent, arguments: list[str]) -> CommandResult:
        if protocol == IN_PROCESS:
            self._patch.setattr(self._vllm, "script", lambda prompt: of_prompt(agent, prompt))
            path = model_folder(self._folder / f"model{len(list(self._folder.iterdir()))}", CHATML).path
            return self._command("--model", "vllm", "--model_args", f"pretrained={path}", *arguments)
        with agent_server(agent) as server:
            model = {
                "base_url": f"{server.base_url}/chat/completions", "model": "loopback", "eos_string": "</s>",
                "num_concurrent": 4, "max_retries": 1,
            }  # fmt: skip
            done = self._command("--model", "local-chat-completions", "--model_args", json.dumps(model), *arguments)
            self.bodies = server.bodies
        return done


def ids_in(result: str) -> list[str]:
    """Return the ids of passages in a result."""
    return re.findall(r"id: (\S+)", result)

"""Scripted agents that speak every protocol: what one does is written once, and put into the words of each."""

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
from tests.harness.conftest import SAMPLE

Command = Callable[..., CommandResult]

HERMES = """{{ bos_token }}{% if tools %}<|tools|>{% for tool in tools %}{{ tool | tojson }}{% endfor %}</s>{% endif %}
{%- for message in messages %}<|{{ message.role }}|>{{ message.content }}
{%- for call in message.tool_calls or [] %}<tool_call>
{"name": "{{ call.function.name }}", "arguments": {{ call.function.arguments | tojson }}}
</tool_call>{% endfor %}</s>{% endfor %}{% if add_generation_prompt %}<|assistant|>{% endif %}"""
LLAMA = """{{ bos_token }}{% for message in messages %}
{%- if message.tool_calls and message.tool_calls | length > 1 %}{{ raise_exception('one call at a time') }}{% endif %}
{%- if tools and message.role == 'user' and loop.index < 3 %}<|user|>{{ tools | tojson }}
{{ message.content }}{% else %}<|{{ message.role }}|>{{ message.content }}{% endif %}
{%- for call in message.tool_calls or [] %}
{"name": "{{ call.function.name }}", "parameters": {{ call.function.arguments | tojson }}}
{%- endfor %}</s>{% endfor %}{% if add_generation_prompt %}<|assistant|>{% endif %}"""
MISTRAL = """{{ bos_token }}{% for message in messages %}
{%- if tools and message.role == 'user' and loop.index < 3 %}[AVAILABLE_TOOLS] {{ tools | tojson }}{% endif %}
{%- if message.tool_calls %}<|assistant|>[TOOL_CALLS] [{% for call in message.tool_calls %}
{%- if call.id | length != 9 %}{{ raise_exception('ids have nine characters') }}{% endif %}
{"name": "{{ call.function.name }}", "arguments": {{ call.function.arguments | tojson }}, "id": "{{ call.id }}"}
{%- if not loop.last %}, {% endif %}{% endfor %}]</s>
{%- else %}<|{{ message.role }}|>{{ message.content }}</s>{% endif %}{% endfor %}
{%- if add_generation_prompt %}<|assistant|>{% endif %}"""


_TOLD = "{{ bos_token }}{% if tools %}<|tools|>{{ tools | tojson }}</s>{% endif %}"
_ANSWERS = "{% if add_generation_prompt %}<|assistant|>{% endif %}"
_SHOWN = "<|{{ message.role }}|>{{ message.content }}"


def template_of(call: str, before: str = "", behind: str = "", between: str = "") -> str:
    """Return a chat template whose calls are written in one way; `call` is a Jinja block over `call.function`."""
    calls = f"{{% for call in message.tool_calls %}}{call}{{% if not loop.last %}}{between}{{% endif %}}{{% endfor %}}"
    calls = f"{{% if message.tool_calls %}}{before}{calls}{behind}{{% endif %}}"
    return f"{_TOLD}{{% for message in messages %}}{_SHOWN}{calls}</s>{{% endfor %}}{_ANSWERS}"


_NAME, _GIVEN = "{{ call.function.name }}", "{{ call.function.arguments | tojson }}"
_EACH = "{% for name, value in call.function.arguments.items() %}"
DEEP = "<\uff5ctool▁{}\uff5c>"
CALL_FORMS = {
    "qwen3 coder": template_of(
        f"<tool_call>\n<function={_NAME}>{_EACH}\n<parameter={{{{ name }}}}>\n{{{{ value }}}}\n</parameter>"
        "{% endfor %}\n</function>\n</tool_call>",
        between="\n",
    ),
    "glm 4.5": template_of(
        f"\n<tool_call>{_NAME}{_EACH}\n<arg_key>{{{{ name }}}}</arg_key>\n<arg_value>{{{{ value }}}}</arg_value>"
        "{% endfor %}\n</tool_call>"
    ),
    "deepseek v3": template_of(
        f"{DEEP.format('call▁begin')}function{DEEP.format('sep')}{_NAME}\n```json\n{_GIVEN}\n```"
        f"{DEEP.format('call▁end')}",
        DEEP.format("calls▁begin"), DEEP.format("calls▁end"), "\n",
    ),
    "deepseek r1": template_of(
        f"{DEEP.format('call▁begin')}{{{{ call['type'] }}}}{DEEP.format('sep')}{_NAME}\n```json\n"
        f"{{{{ '' + call.function.arguments }}}}\n```{DEEP.format('call▁end')}",
        DEEP.format("calls▁begin"), DEEP.format("calls▁end"), "\n",
    ),
    "deepseek v3.1": template_of(
        f"{DEEP.format('call▁begin')}{_NAME}{DEEP.format('sep')}{_GIVEN}{DEEP.format('call▁end')}",
        DEEP.format("calls▁begin"), DEEP.format("calls▁end"),
    ),
    "gpt-oss": template_of(
        f" to=functions.{_NAME}<|channel|>commentary json<|message|>{_GIVEN}<|call|>", between="<|start|>assistant"
    ),
    "gpt-oss, as it writes": template_of(
        f"<|channel|>commentary to=functions.{_NAME} <|constrain|>json<|message|>{_GIVEN}<|call|>",
        between="<|start|>assistant",
    ),
    "llama 3.2": template_of(
        f"{_NAME}({_EACH}{{{{ name }}}}={{{{ value | tojson }}}}{{% if not loop.last %}}, {{% endif %}}{{% endfor %}})",
        "[", "]", ", ",
    ),
    "llama 4": template_of(
        f"{_NAME}({_EACH}{{{{ name }}}}={{{{ value | tojson }}}}{{% if not loop.last %}}, {{% endif %}}{{% endfor %}})",
        "<|python_start|>[", "]<|python_end|>", ", ",
    ),
}  # fmt: skip
"""Templates that write calls as those of the models do that they are named after."""


@dataclass(frozen=True)
class Calls:
    """Calls of one reply."""

    calls: Sequence[tuple[str, Any]]
    """(tool, arguments): an object, or a text that is none."""
    text: str = ""
    """What stands before them."""


Agent = Callable[[str, Sequence[str]], "Calls | str"]
"""(question, results of each of its replies so far) -> its calls, or its answer."""


def in_tags(step: Calls | str) -> str:
    """Return what a model writes in plain text."""
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
    """Return what a server hands over."""
    if isinstance(step, str):
        return completion(step)
    calls = [tool_call(name, arguments, f"x{place}") for place, (name, arguments) in enumerate(step.calls)]
    return completion(step.text or None, finish_reason="tool_calls", tool_calls=calls)


def as_hermes(step: Calls | str) -> str:
    """Return what a model writes whose template is Hermes'."""
    return step if isinstance(step, str) else step.text + "".join(map(_hermes, step.calls))


def _hermes(call: tuple[str, Any]) -> str:
    tool, arguments = call
    written = json.dumps(arguments) if isinstance(arguments, Mapping) else arguments
    return f'<tool_call>\n{{"name": "{tool}", "arguments": {written}}}\n</tool_call>'


def of_messages(agent: Agent, body: Mapping[str, Any]) -> Action:
    """Return what an agent behind a chat server replies, in tags or in tool calls where it is offered tools."""
    messages = body["messages"]
    if "tools" not in body:
        found = [row["content"] for row in messages if row["role"] == "user" and row["content"].startswith("<results>")]
        question = messages[len(messages) - 1 - 2 * len(found)]["content"]
        return completion(in_tags(agent(question, found)))
    place = max(place for place, row in enumerate(messages) if row["role"] == "user")
    rows, found = messages[place + 1 :], []
    for row in rows:
        if row["role"] == "assistant":
            found.append("")
        else:
            found[-1] += row["content"]
    return as_tool_calls(agent(messages[place]["content"], found))


def of_prompt(agent: Agent, prompt: str) -> str:
    """Return what an agent writes whose prompt is of one of the templates above."""
    behind = prompt.rpartition("<|user|>")[2]
    question, *rows = behind.removesuffix("<|assistant|>").split("</s>")
    found: list[str] = []
    for row in rows:
        if row.startswith("<|assistant|>"):
            found.append("")
        elif row.startswith("<|tool|>"):
            found[-1] += row.removeprefix("<|tool|>")
    return as_hermes(agent(question.rpartition("}]\n")[2], found))


@contextmanager
def agent_server(agent: Agent) -> Iterator[ChatServer]:
    """Yield a chat server with an agent behind it."""
    with chat_server(lambda *_: completion("")) as server:
        begin = server.begin

        def scripted(path: str, headers: dict[str, str], body: dict[str, Any]) -> Action:
            n_before = len(server.bodies)
            action = begin(path, headers, body)
            return action if len(server.bodies) == n_before else of_messages(agent, body)

        server.begin = scripted  # type: ignore[method-assign]
        yield server


class Speaking:
    """Runs an agent in any protocol."""

    def __init__(self, command: Command, vllm: type[LLM], patch: pytest.MonkeyPatch, folder: Path) -> None:
        self._command, self._vllm, self._patch, self._folder = command, vllm, patch, folder
        self.bodies: list[dict[str, Any]] = []
        self.prompts: list[str] = []

    def __call__(
        self,
        protocol: str,
        agent: Agent,
        task: str,
        *,
        limit: int = 3,
        template: str = HERMES,
        reply_tokens: int = 1024,
        **metadata: Any,
    ) -> Path:
        """Return the folder with the results of an agent."""
        output = self._folder / f"{protocol}{len(list(self._folder.iterdir()))}"
        given = ["--tasks", task, "--limit", str(limit), "--log_samples", "--output_path", str(output)]
        given += ["--metadata", json.dumps({**SAMPLE, **metadata, "search_protocol": protocol})]
        given += ["--gen_kwargs", f"max_gen_toks={reply_tokens}"]
        done = self._run(protocol, agent, [*given, "--apply_chat_template"], template)
        assert done.status == 0, done.err
        assert "Traceback" not in done.err
        return output

    def _run(self, protocol: str, agent: Agent, given: list[str], template: str) -> CommandResult:
        if protocol == "template":
            self._patch.setattr(self._vllm, "script", lambda prompt: of_prompt(agent, prompt))
            path = model_folder(self._folder / f"model{len(list(self._folder.iterdir()))}", template).path
            done = self._command("--model", "vllm", "--model_args", f"pretrained={path}", *given)
            self.prompts = [text for engine in self._vllm.made for call in engine.calls for text in call.texts]
            return done
        with agent_server(agent) as server:
            model = {
                "base_url": f"{server.base_url}/chat/completions", "model": "loopback", "eos_string": "</s>",
                "num_concurrent": 4, "max_retries": 1,
            }  # fmt: skip
            done = self._command("--model", "local-chat-completions", "--model_args", json.dumps(model), *given)
            self.bodies = server.bodies
        return done


def ids_in(result: str) -> list[str]:
    """Return the ids of passages in a result."""
    return re.findall(r"id: (\S+)", result)

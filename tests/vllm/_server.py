"""`vllm serve` with the real small model."""

from __future__ import annotations

import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from tests.vllm._processes import Child, started

CONTEXT = 2048
MODELS = ("gemma", "gemma-b")
"""Two names of one model at one address."""
TOOLS = ("--enable-auto-tool-choice", "--tool-call-parser", "hermes")
WITH_TOOLS = """{{ bos_token }}{% for message in messages %}{% if tools and loop.last and message.role == 'user' %}\
tools: {{ tools | tojson }}
user: ferry
assistant: <tool_call>
{"name": "search", "arguments": {"query": "ferry"}}
</tool_call>
user: opening hours
assistant: <tool_call>
{"name": "search", "arguments": {"query": "opening hours"}}
</tool_call>
{% endif %}{{ message.role }}: {{ message.content }}{% for call in message.tool_calls or [] %}<tool_call>
{"name": "{{ call.function.name }}", "arguments": {{ call.function.arguments | tojson }}}
</tool_call>{% endfor %}
{% endfor %}{% if add_generation_prompt %}assistant:{% endif %}"""
"""A chat template that shows a base model the tools of a request, and two examples of a call."""
WITHOUT_SYSTEM_ROLE = (
    "{% for message in messages %}{% if message.role == 'system' %}"
    "{{ raise_exception('System role not supported') }}{% endif %}{{ message.role }}: {{ message.content }}\n"
    "{% endfor %}{% if add_generation_prompt %}assistant:{% endif %}"
)
"""A chat template that rejects the system role with the words of Gemma's own template."""
OF_OTHER_SERVER = frozenset({"rejected system role", "tools without a parser"})
"""Recorded replies of a server with that template and without `TOOLS`."""
_SECONDS = 600.0


@dataclass(frozen=True)
class Server:
    """A running server and its address."""

    base_url: str
    child: Child

    @property
    def chat_url(self) -> str:
        """Address of chat completions."""
        return f"{self.base_url}/chat/completions"

    def n_replies(self) -> int:
        """Return the number of chat completions so far."""
        return self.child.output().count('"POST /v1/chat/completions HTTP/1.1" 200')


@contextmanager
def serving(model: Path, template: Path, port: int, log: Path, *options: str) -> Iterator[Server]:
    """Run `vllm serve` until it lists its models, and kill it at the end."""
    command = (
        Path(sys.executable).with_name("vllm"), "serve", model, "--host", "127.0.0.1", "--port", port,
        "--max-model-len", CONTEXT, "--enforce-eager", "--dtype", "bfloat16", "--chat-template", template,
        "--served-model-name", *MODELS, *options,
    )  # fmt: skip
    with started(*command, log=log) as child:
        server = Server(f"http://127.0.0.1:{port}/v1", child)
        _wait_for(f"{server.base_url}/models", child)
        yield server


def _wait_for(url: str, child: Child) -> None:
    end = time.monotonic() + _SECONDS
    while child.process.poll() is None and time.monotonic() < end:
        try:
            urllib.request.urlopen(url, timeout=5).close()
        except (urllib.error.URLError, ConnectionError, TimeoutError):
            time.sleep(0.5)
        else:
            return
    raise RuntimeError(f"the server does not start: {child.output()[-2000:]}")

"""One server for all that documents ask: a model, judges, a rewriter, a writer of dialogues, a RAG system."""

from __future__ import annotations

import json
import re
from typing import Any

from tests.clients._server import Action, ChatServer, completion
from tests.judges._demo import _demo
from tests.synthesis._scripted import good_reply

_FORM = re.compile(r'^\{"(propositions|turns|questions|pairs|answerable|claims|query|all_used)"', re.MULTILINE)
_SHOWN = re.compile(r"^\[(\d+)\] ", re.MULTILINE)


class DocumentedServer(ChatServer):
    """Answers chat completions by what the prompt asks for, any other path as a RAG system."""

    def __init__(self) -> None:
        super().__init__(lambda prompt, _: completion(reply(prompt)))

    @property
    def root(self) -> str:
        """The address without a path."""
        return self.base_url.removesuffix("/v1")

    def begin(self, path: str, headers: dict[str, str], body: dict[str, Any]) -> Action:
        """Answer one request."""
        action = super().begin(path, headers, body)
        return action if path.endswith("/chat/completions") else Action(b'{"answer": "I do not know.", "contexts": []}')


def reply(prompt: str) -> str:
    """Return what a helpful model replies."""
    if _FORM.search(prompt):
        return good_reply(prompt)
    if '"reworded version"' in prompt:
        return json.dumps({"class": "non-standalone", "reworded version": "what is it about"})
    if "Put them in order" in prompt:
        return " > ".join(f"[{number}]" for number in dict.fromkeys(_SHOWN.findall(prompt)))
    return _demo().verdict(prompt) if "the code " in prompt else "It takes three days."

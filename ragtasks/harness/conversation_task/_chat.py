"""A conversation as chat messages, or as plain text for a model without a chat template.

Two traps of the harness are closed here. Its Hugging Face model drops the system message, and with it the passages,
where a chat template refuses that role: then the system text goes in front of the first user message instead. And a
chat endpoint that is called without `--apply_chat_template` fails late and in other words: here it is told so at once.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Mapping
from typing import Any
from urllib.parse import urlsplit

from jinja2 import TemplateError

from ragtasks.benchmarks import Doc
from ragtasks.errors import ConfigurationError
from ragtasks.templates import PromptTemplate

_LOGGER = logging.getLogger(__name__)

REFUSAL = "I do not have specific information"
"""The fixed phrase that the benchmark asks for where the passages hold no answer (paper, appendix D.2)."""

ChatMessages = list[dict[str, str]]


def system_text(doc: Doc, template: PromptTemplate, *, max_words: int, instruction: str | None) -> str:
    """Return the system message: the user's own instruction, if any, then ours with the numbered passages."""
    own = template.render(passages=doc["passages"], max_words=max_words, refusal=REFUSAL).strip()
    return f"{instruction}\n\n{own}" if instruction else own


def chat_messages(doc: Doc, system: str) -> ChatMessages:
    """Return the messages in the order of the real conversation: system, then every turn, the question last."""
    turns = [{"role": item["role"], "content": item["content"]} for item in doc["history"]]
    return [{"role": "system", "content": system}, *turns, {"role": "user", "content": doc["question"]}]


def fold_system(messages: ChatMessages) -> ChatMessages:
    """Return the same conversation with the system text in front of the first user message."""
    system, first, *rest = messages
    return [{"role": "user", "content": f"{system['content']}\n\n{first['content']}"}, *rest]


class ChatRenderer:
    """Puts conversations into one model's chat template, and knows after the first whether it has a system role.

    The harness's models warn each time that they drop a system message, which sounds as if passages were gone.
    """

    def __init__(self, *, folds: bool = False) -> None:
        """Start.

        Args:
            folds: whether the user says that there is no system role.
        """
        self._folds = folds

    def render(self, messages: ChatMessages, chat_template: Callable[[ChatMessages], Any]) -> Any:
        """Return what the model's own chat template makes of the messages, with nothing left out.

        Raises:
            ConfigurationError: there is no template, it refuses the conversation, or it leaves the system text out even
                in front of the first user message.
        """
        system = messages[0]["content"]
        if not self._folds:
            rendered = _applied(chat_template, messages)
            if _holds(rendered, system):
                return rendered
        rendered = _applied(chat_template, fold_system(messages))
        if not _holds(rendered, system):
            raise ConfigurationError(
                "the model's chat template leaves out the passages; try without --apply_chat_template"
            )
        if not self._folds:
            self._folds = True
            _LOGGER.warning(
                "No passage is lost: the template has no system role, so they go in front of the first user message."
            )
        return rendered


def _applied(chat_template: Callable[[ChatMessages], Any], messages: ChatMessages) -> Any:
    """Return what a template makes of messages; what it refuses, or that there is none, is one line."""
    try:
        return chat_template(messages)
    except (ValueError, TemplateError) as error:
        told = str(error).splitlines()[0] if str(error) else type(error).__name__
    raise ConfigurationError(
        f"--apply_chat_template: the model has no chat template that takes the conversation ({told}).\n"
        "  next step: leave the flag out (plain text), or name a tokenizer with one in --model_args (tokenizer=...)"
    )


def _holds(rendered: Any, text: str) -> bool:
    """Return whether a rendered prompt (text, the harness's JSON wrapper, or messages) still has `text`."""
    if isinstance(rendered, str):
        return text.strip() in rendered
    prompt = getattr(rendered, "prompt", None)
    messages = json.loads(prompt) if isinstance(prompt, str) else rendered
    return any(text.strip() in str(message.get("content", "")) for message in messages)


def refuse_chat_endpoint(metadata: Mapping[str, Any]) -> None:
    """Refuse a chat endpoint that is about to be sent plain text.

    Raises:
        ConfigurationError: the address in the model's arguments is one of chat completions.
    """
    # The path alone: hosted services put a version behind it (`...?api-version=`).
    if urlsplit(str(metadata.get("base_url", ""))).path.rstrip("/").endswith("/chat/completions"):
        raise ConfigurationError(
            "the model's base_url is a chat endpoint, and the harness was told to send it plain text.\n"
            "  next step: add --apply_chat_template"
        )


__all__ = [
    "REFUSAL",
    "ChatMessages",
    "ChatRenderer",
    "chat_messages",
    "fold_system",
    "refuse_chat_endpoint",
    "system_text",
]

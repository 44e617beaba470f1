"""Reads what a RAG system answers: a text, and the passages that it rests on where the system says them.

Chat servers with retrieval agree on where the answer stands and on nothing else. The passages are looked for where
servers are known to write them (docs/score-your-system.md has the list); the first place that holds a list counts.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import orjson

from ragtasks.clients._protocol import Outcome, Reply
from ragtasks.files import contexts_in
from ragtasks.records import Passage

_FIELDS = ("contexts", "context", "citations", "sources")
_TEXTS = ("text", "content", "page_content")
_IDS = ("id", "passage_id", "document_id", "chunk_id", "filepath")
_SHOWN = 200


def read_plain(body: bytes) -> Reply:
    """Return the reply in `{"answer": text, "contexts": [...]}`; MALFORMED where it has another form.

    Raises:
        ValueError: the body is not JSON: what was sent did not arrive whole.
    """
    content, raw = orjson.loads(body), body.decode("utf-8")
    answer = content.get("answer") if isinstance(content, dict) else None
    if not isinstance(answer, str):
        return Reply(Outcome.MALFORMED, reason="the reply has no text as `answer`", raw=raw)
    try:
        plain_contexts(raw)
    except ValueError as error:
        expected, found = error.args
        return Reply(Outcome.MALFORMED, reason=f"`contexts`: expected {expected}, found {found}"[:_SHOWN], raw=raw)
    return Reply(Outcome.ANSWERED, text=answer, raw=raw)


def plain_contexts(raw: str) -> tuple[Passage, ...] | None:
    """Return the passages in such a reply, None where it names none.

    Raises:
        ValueError: as `contexts_in`.
    """
    content = orjson.loads(raw)
    found = content.get("contexts") if isinstance(content, dict) else None
    return None if found is None else contexts_in(found)


def read_chat(body: bytes) -> Reply:
    """Return the reply in a chat completion: its text as it is, cut off or with thinking, which scoring deals with.

    Raises:
        ValueError: the body is not JSON.
    """
    content, raw = orjson.loads(body), body.decode("utf-8")
    message = _message(content)
    text = message.get("content")
    if isinstance(text, str):
        return Reply(Outcome.ANSWERED, text=text, raw=raw)
    reason = "the model refused" if message.get("refusal") else "the reply has no text as choices[0].message.content"
    return Reply(Outcome.MALFORMED, reason=reason, raw=raw)


def chat_contexts(raw: str) -> tuple[Passage, ...] | None:
    """Return the passages in a chat completion, None where it names none with a text."""
    content = orjson.loads(raw)
    for holder in (_message(content), _choice(content), content if isinstance(content, dict) else {}):
        for field in _FIELDS:
            found = holder.get(field)
            if isinstance(found, Mapping):  # Azure: message.context.citations
                found = found.get("citations")
            if (isinstance(found, list) and (passages := tuple(_passages(found, field)))) or found == []:
                return passages if found else ()
    return None


def _choice(content: Any) -> Mapping[str, Any]:
    choices = content.get("choices") if isinstance(content, dict) else None
    return choices[0] if isinstance(choices, list) and choices and isinstance(choices[0], dict) else {}


def _message(content: Any) -> Mapping[str, Any]:
    message = _choice(content).get("message")
    return message if isinstance(message, dict) else {}


def _passages(items: list[Any], field: str) -> Iterator[Passage]:
    """Yield the passages of a list that have a text: a list of addresses names sources, and says nothing of them."""
    for number, item in enumerate(items, start=1):
        if isinstance(item, str) and field in {"contexts", "context"}:
            yield Passage(f"context-{number}", item)
        elif isinstance(item, dict):
            yield from _of_object(item, number)


def _of_object(item: Mapping[str, Any], number: int) -> Iterator[Passage]:
    several = item.get("document")
    if isinstance(several, list):  # Open WebUI: texts of one source under `document`
        yield from (
            Passage(f"context-{number}.{k}", text) for k, text in enumerate(several, 1) if isinstance(text, str)
        )
        return
    text = next((item[key] for key in _TEXTS if isinstance(item.get(key), str)), None)
    if text is not None:
        named = next((item[key] for key in _IDS if isinstance(item.get(key), str) and item[key]), f"context-{number}")
        title = item.get("title")
        yield Passage(named, text, title if isinstance(title, str) else "")


__all__ = ["chat_contexts", "plain_contexts", "read_chat", "read_plain"]

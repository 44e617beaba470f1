"""Whether prompts fit a model's context: counted before the model runs, since no harness model says that it cuts.

The harness's models cut a prompt from the left, where its passages stand, and servers refuse one that is too long.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from ragtasks.benchmarks import Doc
from ragtasks.errors import ConfigurationError, clear_error

REFUSE, DROP = "refuse", "drop_passages"
_CHARACTERS_PER_TOKEN = 3.5  # of English text; what an estimate is made of where no tokenizer is at hand
_TOKENS_PER_MESSAGE = 8  # a chat template's own
_SERVERS_KEYS = ("max_model_len", "context_length", "context_window", "max_context_length")
_SECONDS = 10.0


@dataclass(frozen=True, slots=True)
class Room:
    """What a model reads and writes together, and how the tokens of a prompt are counted."""

    n_tokens: int
    """Tokens of the context."""
    count: Callable[[Any], int]
    """Prompt -> tokens."""
    counted_by: str
    """`tokenizer` or `estimate`."""


def room_of(model: Any, context_tokens: int | None = None) -> Room | None:
    """Return the room that a model has for a prompt and its answer; None where nobody says.

    Args:
        model: of the harness; None where it is not known.
        context_tokens: what the user says; default: what the model or its server says.
    """
    n_tokens = context_tokens or _context_of(model)
    if not n_tokens:
        return None
    if getattr(model, "tokenizer", None) is not None and hasattr(model, "tok_encode"):
        return Room(n_tokens, lambda prompt: len(model.tok_encode(_text_of(prompt))), "tokenizer")
    return Room(n_tokens, _estimated, "estimate")


def _context_of(model: Any) -> int | None:
    """Return the context that a model in this process has, or that a server says: the harness makes up the latter."""
    if getattr(model, "model_call", None) is None or getattr(model, "tokenized_requests", False):
        found = getattr(model, "max_length", None)
        return found if isinstance(found, int) else None
    return _told_by_server(model)


def _told_by_server(model: Any) -> int | None:
    import requests

    address = str(model.base_url).partition("/chat/completions")[0].removesuffix("/completions")
    try:
        reply = requests.get(f"{address}/models", headers=model.header, timeout=_SECONDS)
        rows = reply.json()["data"] if reply.ok else []
    except (requests.RequestException, ValueError, LookupError, TypeError):
        return None
    return _said_of(getattr(model, "model", None), rows)


def _said_of(name: Any, rows: Any) -> int | None:
    """Return the context in a server's list of models; that of the only one where none has the name."""
    listed = [row for row in rows if isinstance(row, Mapping)] if isinstance(rows, list) else []
    own = [row for row in listed if row.get("id") == name] or (listed if len(listed) == 1 else [])
    said = [row[key] for row in own for key in _SERVERS_KEYS if isinstance(row.get(key), int)]
    return said[0] if said and said[0] > 0 else None


def _text_of(prompt: Any) -> str:
    """Return a prompt's text, that of all messages where it is a chat."""
    return "\n".join(_texts_of(prompt))


def _texts_of(prompt: Any) -> list[str]:
    chat = getattr(prompt, "prompt", prompt)
    return [str(message["content"]) for message in json.loads(chat)] if chat is not prompt else [str(prompt)]


def _estimated(prompt: Any) -> int:
    texts = _texts_of(prompt)
    return round(sum(map(len, texts)) / _CHARACTERS_PER_TOKEN) + _TOKENS_PER_MESSAGE * len(texts)


@dataclass(slots=True)
class Fitting:
    """Makes the prompts of one harness task fit, and counts those that did not."""

    room: Room | None = None
    """None: nobody knows, and nothing is cut."""
    policy: str = REFUSE
    """`refuse`, or `drop_passages`: the lowest-ranked first."""
    n_reply: int = 0
    """Tokens that the answer may have."""
    kept: dict[str, int] = field(default_factory=dict)
    """Task id -> passages that are left, for prompts that did not fit."""
    n_dropped: int = 0
    """Passages that were left out, all prompts together."""
    n_prompts: int = 0
    """Prompts that did not fit."""
    longest: int = 0
    """Tokens of the longest prompt as it was built."""

    def prompt(self, doc: Doc, render: Callable[[Doc], Any]) -> Any:
        """Return a doc's prompt, with as many of its passages as fit."""
        whole = render(doc)
        if self.room is None:
            return whole
        n_tokens = self.room.count(whole)
        self.longest = max(self.longest, n_tokens)
        if self._fits(n_tokens):
            return whole
        passages = list(doc["passages"])
        n_kept, prompt = len(passages), whole
        while self.policy == DROP and n_kept and not self._fits(self.room.count(prompt)):
            n_kept -= 1
            prompt = render({**doc, "passages": passages[:n_kept]})
        if doc["task_id"] not in self.kept:
            self.n_prompts += 1
            self.n_dropped += len(passages) - n_kept
        self.kept[doc["task_id"]] = n_kept if self._fits(self.room.count(prompt)) else -1
        return prompt

    def _fits(self, n_tokens: int) -> bool:
        return self.room is None or n_tokens + self.n_reply <= self.room.n_tokens

    def check(self, task: str, n_docs: int) -> None:
        """Refuse prompts that do not fit, before the model is asked.

        Raises:
            ConfigurationError: there are some, and passages are not to be dropped, or dropping all is not enough.
        """
        n_left = sum(kept < 0 for kept in self.kept.values())
        if self.room is None or not n_left:
            return
        about = "about " if self.room.counted_by == "estimate" else ""
        message = clear_error(
            f"prompts of {task}",
            where=f"{n_left} of {n_docs}, the longest of {about}{self.longest} tokens",
            expected=f"at most {self.room.n_tokens - self.n_reply} tokens: a context of {self.room.n_tokens} less "
            f"{self.n_reply} for the answer",
            found="longer ones, of which the model would be shown a part",
            next_step='a model or server with a larger context; --metadata \'{"too_long": "drop_passages"}\' leaves '
            "out the lowest-ranked passages; shorter answers: --gen_kwargs max_gen_toks=256",
        )
        raise ConfigurationError(message)

    def decides(self) -> list[Any]:
        """Return what prompts depend on beside their docs; [] where none is cut."""
        return [self.policy, self.room.n_tokens, self.n_reply] if self.room and self.policy == DROP else []

    def counts(self) -> dict[str, Any]:
        """Return what results say of it; {} where nothing is known."""
        if self.room is None:
            return {}
        return {
            "context_tokens": self.room.n_tokens,
            "counted_by": self.room.counted_by,
            "longest": self.longest,
            "prompts": self.n_prompts,
            "passages_dropped": self.n_dropped,
        }


__all__ = ["DROP", "REFUSE", "Fitting", "Room", "room_of"]

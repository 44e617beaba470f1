"""The tasks and passages of one benchmark, each held once however many models saw it.

What a list of tasks needs is one block; the long texts (passages, earlier turns) are a block for each domain.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from ragtasks.reports.page._blocks import packed

Passage = tuple[str, str, str]
"""Id, title and text: an id alone may name other texts in other runs."""


@dataclass(slots=True)
class _Texts:
    """The long texts of a domain."""

    passages: dict[Passage, int] = field(default_factory=dict)
    """Passage -> its place."""
    histories: dict[tuple[tuple[str, str], ...], int] = field(default_factory=dict)
    """Earlier messages (role, text) of a task -> their place."""


class TextStore:
    """Collects tasks and passages, and packs them."""

    def __init__(self) -> None:
        self._tasks: dict[tuple[Any, ...], int] = {}
        self._texts: dict[str, _Texts] = {}

    def task(self, doc: Mapping[str, Any]) -> int:
        """Return the place of a doc's task; one that is there already, with the same texts, keeps its place."""
        texts = self._texts.setdefault(doc["domain"], _Texts())
        history = tuple((message["role"], message["content"]) for message in doc["history"])
        record = (
            doc["task_id"],
            doc["conversation_id"],
            doc["turn"],
            doc["domain"],
            doc["answerability"],
            tuple(doc["question_types"]),
            doc["multi_turn"],
            doc["question"],
            doc["target"],
            tuple(doc["references"]),
            texts.histories.setdefault(history, len(texts.histories)),
        )
        return self._tasks.setdefault(record, len(self._tasks))

    def passages(self, doc: Mapping[str, Any]) -> list[int]:
        """Return the places of the passages that a doc shows, in its order, among those of its domain."""
        texts = self._texts.setdefault(doc["domain"], _Texts())
        shown = [(item["passage_id"], item["title"], item["text"]) for item in doc["passages"]]
        return [texts.passages.setdefault(passage, len(texts.passages)) for passage in shown]

    def pack_tasks(self) -> str:
        """Return the block of tasks: one array each, in the order of the fields in `task`."""
        return packed(list(self._tasks))

    def pack_texts(self) -> dict[str, str]:
        """Return domain -> the block of its passages and histories."""
        return {
            domain: packed({"passages": list(texts.passages), "histories": list(texts.histories)})
            for domain, texts in self._texts.items()
        }


__all__ = ["Passage", "TextStore"]

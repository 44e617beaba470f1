"""An answer of a RAG system: a text, as the harness carries it, that knows the passages it rests on."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ragtasks.files import contexts_in
from ragtasks.records import Passage


class SystemAnswer(str):
    """A text with the passages that its system used; whatever scores it takes those in the place of the setting's."""

    __slots__ = ("passages",)

    passages: tuple[Passage, ...]
    """What the system says that it used, in order."""

    def __new__(cls, text: str, passages: Sequence[Passage]) -> SystemAnswer:
        """Return the text with its passages."""
        made = super().__new__(cls, text)
        made.passages = tuple(passages)
        return made

    def __reduce__(self) -> tuple[type[SystemAnswer], tuple[str, tuple[Passage, ...]]]:
        """Return how it is made again, as the harness's own cache keeps answers."""
        return SystemAnswer, (str(self), self.passages)

    def as_json(self) -> dict[str, Any]:
        """Return it as JSON values."""
        rows = [{"id": item.passage_id, "title": item.title, "text": item.text} for item in self.passages]
        return {"answer": str(self), "contexts": rows}


def as_kept(answer: Any) -> Any:
    """Return an answer of any model as JSON values."""
    return answer.as_json() if isinstance(answer, SystemAnswer) else answer


def from_kept(value: Any) -> Any:
    """Return the answer in JSON values."""
    return SystemAnswer(value["answer"], contexts_in(value["contexts"])) if isinstance(value, dict) else value


__all__ = ["SystemAnswer", "as_kept", "from_kept"]

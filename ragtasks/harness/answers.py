"""Answers as the harness carries them: texts that know why they are empty, or what they are based on and took."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ragtasks.clients import CallUsage, Spent
from ragtasks.files import contexts_in
from ragtasks.records import Passage


class NoAnswer(str):
    """An empty text that knows why it is empty: the harness carries it like any answer, and no log keeps it."""

    __slots__ = ("reason", "usage")

    reason: str
    """Why there is no answer; holds no key and no address."""
    usage: Mapping[str, Any]
    """What it took all the same, as in `GivenAnswer`."""

    def __new__(cls, reason: str, usage: Mapping[str, Any] | None = None) -> NoAnswer:
        """Return the empty text with its reason."""
        made = super().__new__(cls, "")
        made.reason, made.usage = reason, usage or {}
        return made

    def __reduce__(self) -> tuple[type[NoAnswer], tuple[str, Mapping[str, Any]]]:
        """Return how it is made again in another process."""
        return NoAnswer, (self.reason, self.usage)


class SystemAnswer(str):
    """A text with the passages that its system used, which count in the place of the setting's, and what it took."""

    __slots__ = ("passages", "tool_calls", "usage")

    passages: tuple[Passage, ...] | None
    """What the system says that it used, in order; None where these are the setting's."""
    usage: Mapping[str, Any]
    """What it took, as in `GivenAnswer`."""
    tool_calls: Sequence[Any]
    """Calls of tools that came with the text, as an OpenAI-compatible server hands them over."""

    def __new__(
        cls,
        text: str,
        passages: Sequence[Passage] | None,
        usage: Mapping[str, Any] | None = None,
        tool_calls: Sequence[Any] = (),
    ) -> SystemAnswer:
        """Return the text with its passages."""
        made = super().__new__(cls, text)
        made.passages, made.usage = None if passages is None else tuple(passages), usage or {}
        made.tool_calls = tool_calls
        return made

    def __reduce__(self) -> tuple[type[SystemAnswer], tuple[Any, ...]]:
        """Return how it is made again, as the harness's own cache keeps answers."""
        return SystemAnswer, (str(self), self.passages, self.usage, self.tool_calls)


def as_json(answer: Any) -> Any:
    """Return an answer of any model as JSON values."""
    if not isinstance(answer, SystemAnswer):
        return answer
    found: dict[str, Any] = {"answer": str(answer), **({"usage": dict(answer.usage)} if answer.usage else {})}
    if answer.tool_calls:
        found["tool_calls"] = list(answer.tool_calls)
    if answer.passages is not None:
        rows = [{"id": item.passage_id, "title": item.title, "text": item.text} for item in answer.passages]
        found["contexts"] = rows
    return found


def answer_in(value: Any) -> Any:
    """Return the answer in JSON values, which an earlier process or call has paid for."""
    if not isinstance(value, dict):
        return value
    passages = contexts_in(value["contexts"]) if "contexts" in value else None
    usage = dict(value.get("usage", {}))
    if calls := usage.get("calls"):
        usage["calls"] = [{**call, "spent": Spent.BEFORE.value} for call in calls]
    return SystemAnswer(value["answer"], passages, usage, value.get("tool_calls", ()))


def with_calls(answer: Any, calls: Sequence[CallUsage]) -> Any:
    """Return an answer that knows what replies took that came before it."""
    earlier = [call.json_values for call in calls]
    if not earlier or not isinstance(answer, str):
        return answer
    usage = dict(getattr(answer, "usage", {}))
    usage["calls"] = [*earlier, *usage.get("calls", ())]
    if isinstance(answer, NoAnswer):
        return NoAnswer(answer.reason, usage)
    return SystemAnswer(str(answer), getattr(answer, "passages", None), usage, getattr(answer, "tool_calls", ()))

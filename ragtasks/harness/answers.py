"""Answers as the harness passes them: strings with a failure reason, or with passages and usage."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ragtasks.clients import CallUsage, Spent
from ragtasks.files import contexts_in
from ragtasks.records import Passage


class NoAnswer(str):
    """An empty string with the reason of a failed request.

    The harness treats it as an answer; answer logs do not save it.
    """

    __slots__ = ("reason", "usage")

    reason: str
    """Reason of the failure, without keys and addresses."""
    usage: Mapping[str, Any]
    """Usage of the failed request, as in `GivenAnswer`."""

    def __new__(cls, reason: str, usage: Mapping[str, Any] | None = None) -> NoAnswer:
        """Return the empty text with its reason."""
        answer = super().__new__(cls, "")
        answer.reason, answer.usage = reason, usage or {}
        return answer

    def __reduce__(self) -> tuple[type[NoAnswer], tuple[str, Mapping[str, Any]]]:
        """Support pickling between processes."""
        return NoAnswer, (self.reason, self.usage)


class SystemAnswer(str):
    """An answer with its usage and the passages that its system used.

    These passages replace those of the setting.
    """

    __slots__ = ("passages", "tool_calls", "usage")

    passages: tuple[Passage, ...] | None
    """Passages that the system reports, in order; None for those of the setting."""
    usage: Mapping[str, Any]
    """Usage, as in `GivenAnswer`."""
    tool_calls: Sequence[Any]
    """Tool calls that an OpenAI-compatible server returned with the text."""

    def __new__(
        cls,
        text: str,
        passages: Sequence[Passage] | None,
        usage: Mapping[str, Any] | None = None,
        tool_calls: Sequence[Any] = (),
    ) -> SystemAnswer:
        """Return the text with its passages."""
        answer = super().__new__(cls, text)
        answer.passages, answer.usage = None if passages is None else tuple(passages), usage or {}
        answer.tool_calls = tool_calls
        return answer

    def __reduce__(self) -> tuple[type[SystemAnswer], tuple[Any, ...]]:
        """Support pickling in the harness's own cache."""
        return SystemAnswer, (str(self), self.passages, self.usage, self.tool_calls)


def as_json(answer: Any) -> Any:
    """Return any answer of a model as JSON values."""
    if not isinstance(answer, SystemAnswer):
        return answer
    fields: dict[str, Any] = {"answer": str(answer), **({"usage": dict(answer.usage)} if answer.usage else {})}
    if answer.tool_calls:
        fields["tool_calls"] = list(answer.tool_calls)
    if answer.passages is not None:
        rows = [{"id": passage.passage_id, "title": passage.title, "text": passage.text} for passage in answer.passages]
        fields["contexts"] = rows
    return fields


def answer_in(value: Any) -> Any:
    """Return the answer from JSON values, with its usage marked as spent before this evaluation."""
    if not isinstance(value, dict):
        return value
    passages = contexts_in(value["contexts"]) if "contexts" in value else None
    usage = dict(value.get("usage", {}))
    if calls := usage.get("calls"):
        usage["calls"] = [{**call, "spent": Spent.BEFORE.value} for call in calls]
    return SystemAnswer(value["answer"], passages, usage, value.get("tool_calls", ()))


def with_calls(answer: Any, calls: Sequence[CallUsage]) -> Any:
    """Return an answer with the usage of earlier replies added."""
    earlier = [call.json_values for call in calls]
    if not earlier or not isinstance(answer, str):
        return answer
    usage = dict(getattr(answer, "usage", {}))
    usage["calls"] = [*earlier, *usage.get("calls", ())]
    if isinstance(answer, NoAnswer):
        return NoAnswer(answer.reason, usage)
    return SystemAnswer(str(answer), getattr(answer, "passages", None), usage, getattr(answer, "tool_calls", ()))

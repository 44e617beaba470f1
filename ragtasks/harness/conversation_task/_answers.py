"""What came back for the requests of one harness task: the reply that counts, its text, the passages it rests on."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from lm_eval.api.instance import Instance

from ragtasks.benchmarks import Doc, passage_rows, response_of
from ragtasks.harness.answering import NoAnswer, SystemAnswer
from ragtasks.harness.conversation_task._best_of import BestOf
from ragtasks.metrics import answer_text
from ragtasks.records import Response


class TaskAnswers:
    """The answers to one harness task's docs."""

    def __init__(self, best_of: BestOf, end_of_thinking: str) -> None:
        """Begin without answers.

        Args:
            best_of: picks where a request has several replies.
            end_of_thinking: what stands before an answer's own text.
        """
        self._best_of, self._end_of_thinking = best_of, end_of_thinking
        self._no_answers: dict[str, str] = {}
        self._own_passages: dict[str, list[dict[str, str]]] = {}

    def settle(self, instances: Sequence[Instance], kept: Mapping[str, int]) -> None:
        """Make the reply that counts the first of each request, and note which did not come; safe to repeat.

        All replies can be written to a file then (see `writable`).

        Args:
            instances: the requests with their replies.
            kept: task id -> passages that its prompt had room for, where not all had.
        """
        self._best_of.settle(instances, lambda instance, reply: self._response(instance, reply, kept))
        replies = {instance.doc["task_id"]: instance.resps[0] for instance in instances}
        self._no_answers = {name: reply.reason for name, reply in replies.items() if isinstance(reply, NoAnswer)}
        own = {name: reply.passages for name, reply in replies.items() if isinstance(reply, SystemAnswer)}
        self._own_passages |= {name: passage_rows(passages) for name, passages in own.items()}
        for instance in instances:
            instance.resps = [writable(reply) for reply in instance.resps]

    def _response(self, instance: Instance, reply: Any, kept: Mapping[str, int]) -> Response:
        """Return one of several replies as a response."""
        shown = self._shown(instance.doc, kept)
        doc = {**shown, "no_answer": reply.reason} if isinstance(reply, NoAnswer) else shown
        return response_of(doc, self._text_of(reply))

    def text(self, instance: Instance) -> str:
        """Return the answer to a request."""
        return self._text_of(instance.resps[0])

    def _text_of(self, reply: Any) -> str:
        return answer_text(str(reply or ""), self._end_of_thinking)

    def reported(self, doc: Doc, kept: Mapping[str, int]) -> Doc:
        """Return a doc as the model was shown it, with the reason why there is no answer to it, where there is none."""
        shown, reason = self._shown(doc, kept), self._no_answers.get(doc["task_id"])
        return shown if reason is None else {**shown, "no_answer": reason}

    def _shown(self, doc: Doc, kept: Mapping[str, int]) -> Doc:
        """Return a doc with the passages its answer rests on: a system's own, or those that fit into the prompt."""
        n_kept, own = kept.get(doc["task_id"]), self._own_passages.get(doc["task_id"])
        if own is not None:
            return {**doc, "passages": own}
        return doc if n_kept is None else {**doc, "passages": doc["passages"][:n_kept]}


def writable(reply: Any) -> Any:
    """Return a reply whose halves of a character are replaced: a server that cuts at a token limit may send one.

    No UTF-8 holds it, so one such reply would keep the harness from saving all of them. A reply that did not come keeps
    its reason.
    """
    if not isinstance(reply, str):
        return reply
    written = reply.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    return reply if written == reply else written  # a reply that knows more than its text stays what it is


__all__ = ["TaskAnswers", "writable"]

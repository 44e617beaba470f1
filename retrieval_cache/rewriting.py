"""Rewrites each question with a model, so that it can be searched for without its conversation.

The contract is the paper's (MTRAG, appendix C.1): a JSON object with the class of the question and its reworded
version. The wording of the prompt is ours. A first turn has no conversation to lean on, so nothing is asked for it;
in the official files, too, every first turn stands unchanged. A reply that breaks the contract gives the last turn,
and the reason is kept and counted.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Any

from ragtasks.clients.protocol import Client, Outcome, Progress, Prompt, Reply, no_progress
from ragtasks.records import Task
from ragtasks.templates import PromptTemplate, shipped_template
from retrieval_cache.query_forms import LLM_REWRITE, Queries

TEMPLATE = "rewrite/conversation"
"""The shipped prompt; its fields are `history` and `question`."""

PARSER_VERSION = 1
"""Moves when the same reply is read in another way."""

_KEYS = frozenset({"class", "reworded version"})
_FENCED = re.compile(r"```(?:json)?[ \t]*\n(.*)\n[ \t]*```", re.DOTALL | re.IGNORECASE)


class QuestionClass(str, Enum):
    """Whether a question can be understood without its conversation (MTRAG paper, section 3 and appendix C.1)."""

    STANDALONE = "standalone"
    NON_STANDALONE = "non-standalone"


@dataclass(frozen=True, slots=True)
class Rewrite:
    """The query of one task."""

    task_id: str
    """The task."""
    query: str
    """The reworded question, or the last turn where there is a `fallback_reason`."""
    question_class: QuestionClass | None
    """None where no valid reply came."""
    fallback_reason: str = ""
    """Why the query is the last turn; empty where the reply was valid, or the task is a first turn."""
    outcome: Outcome | None = None
    """What became of the prompt; None for a first turn, which is not asked."""


@dataclass(frozen=True)
class Rewrites:
    """The rewritten queries of many tasks and what they were made with."""

    rewrites: tuple[Rewrite, ...]
    """One a task, in the order of the tasks."""
    spec: Mapping[str, Any]
    """Model, decoding, hash of the prompt, version of the parser."""

    def describe(self) -> dict[str, Any]:
        """Return what the run's key says about the rewriting; the texts go into the key on their own."""
        return dict(self.spec)

    def queries(self) -> Queries:
        """Return the texts as a query form."""
        texts = {rewrite.task_id: rewrite.query for rewrite in self.rewrites}
        fallbacks = {rewrite.task_id: rewrite.fallback_reason for rewrite in self.rewrites if rewrite.fallback_reason}
        return Queries(LLM_REWRITE, texts, fallbacks)

    def fallback_counts(self) -> Counter[str]:
        """Return reason -> number of tasks that fell back to the last turn."""
        return Counter(rewrite.fallback_reason for rewrite in self.rewrites if rewrite.fallback_reason)

    @property
    def n_unanswered(self) -> int:
        """Tasks whose prompt never reached a decision of the model: the next call asks them again."""
        return sum(rewrite.outcome in (Outcome.FAILED, Outcome.MALFORMED) for rewrite in self.rewrites)


def rewrite_queries(
    tasks: Sequence[Task], client: Client, template: PromptTemplate | None = None, progress: Progress = no_progress
) -> Rewrites:
    """Return a rewritten query for every task; no tasks give none.

    Give it a `CachedClient`, and a killed call goes on where it was.

    Args:
        tasks: what is rewritten.
        client: who rewrites.
        template: a prompt with the fields `history` (messages with `role` and `content`) and `question`; default: ours.
        progress: told after every reply.

    Raises:
        ConfigurationError: a template that cannot be filled in.
        RagtasksError: as the client.
    """
    prompt = template or shipped_template(TEMPLATE)
    asked = [task for task in tasks if len(task.messages) > 1]
    replies = client.answer([_prompt(task, prompt) for task in asked], progress)
    by_task = {task.task_id: _rewrite(task, reply) for task, reply in zip(asked, replies, strict=True)}
    rewrites = tuple(by_task.get(task.task_id) or _first_turn(task) for task in tasks)
    spec = {
        "form": LLM_REWRITE,
        "client": dict(client.describe()),
        "prompt_sha256": prompt.sha256,
        "parser": PARSER_VERSION,
    }
    return Rewrites(rewrites, spec)


def _prompt(task: Task, template: PromptTemplate) -> Prompt:
    history = [{"role": message.role.value, "content": message.text} for message in task.messages[:-1]]
    return Prompt.of(template.render(history=history, question=task.question))


def _first_turn(task: Task) -> Rewrite:
    return Rewrite(task.task_id, task.question, QuestionClass.STANDALONE)


def _rewrite(task: Task, reply: Reply) -> Rewrite:
    if reply.text is None:
        return Rewrite(task.task_id, task.question, None, reply.reason, reply.outcome)
    try:
        question_class, query = parse_rewrite(reply.text)
    except ValueError as error:
        return Rewrite(task.task_id, task.question, None, f"invalid reply: {error}", reply.outcome)
    return Rewrite(task.task_id, query, question_class, outcome=reply.outcome)


def parse_rewrite(text: str) -> tuple[QuestionClass, str]:
    """Return (class, reworded version) of a reply; whitespace within the version is collapsed.

    The reply must be one JSON object with exactly the two keys, alone or in a code fence, and nothing around it.

    Raises:
        ValueError: anything else; the message names the kind of fault and never quotes the reply, so that reasons can
            be counted.
    """
    fenced = _FENCED.fullmatch(text.strip())
    try:
        content = json.loads(fenced[1] if fenced else text, object_pairs_hook=_without_duplicates)
    except (json.JSONDecodeError, RecursionError):
        raise ValueError("not one JSON object") from None
    if not isinstance(content, dict):
        raise ValueError("not one JSON object")
    if content.keys() != _KEYS:
        raise ValueError("other keys than asked for")
    label, version = content["class"], content["reworded version"]
    if not isinstance(label, str) or label not in {member.value for member in QuestionClass}:
        raise ValueError("a class that was not offered")
    if not isinstance(version, str) or not version.strip():
        raise ValueError("no reworded version")
    if any("\ud800" <= character <= "\udfff" for character in version):
        raise ValueError("half a character, which no file can hold")
    return QuestionClass(label), " ".join(version.split())


def _without_duplicates(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    if len({key for key, _ in pairs}) < len(pairs):
        raise ValueError("a key stands twice")
    return dict(pairs)


__all__ = ["PARSER_VERSION", "TEMPLATE", "QuestionClass", "Rewrite", "Rewrites", "parse_rewrite", "rewrite_queries"]

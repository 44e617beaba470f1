"""Rewrites each question with a model, so that it can be searched for without its conversation.

The contract is the paper's (MTRAG, appendix C.1): a JSON object with the class of the question and its reworded
version. The wording of the prompt is ours. A first turn has no conversation to lean on, so nothing is asked for it;
in the official files, too, every first turn stands unchanged. A reply that breaks the contract gives the last turn,
and the reason is kept and counted.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from ragtasks.benchmarks import JSON_CONTRACT, PARSER_VERSION, QuestionClass, is_readable, parse_rewrite
from ragtasks.clients import Client, Outcome, Progress, Prompt, Reply, no_progress
from ragtasks.errors import JudgeError, clear_error
from ragtasks.prompts import PromptTemplate, shipped_template
from ragtasks.records import Task
from retrieval_cache.queries._forms import LLM_REWRITE, Queries

MIN_REWRITTEN = 0.95
"""Share of the questions asked about below which there is no run: one of last turns would pass for one of rewrites."""

_MAX_REASONS = 3
_KIND = "rewrite"
"""What the prompts are called in a reply cache."""

TEMPLATE = "rewrite/conversation"
"""The shipped prompt; its fields are `history` and `question`."""


@dataclass(frozen=True, slots=True)
class Rewrite:
    """The query of one task."""

    task_id: str
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
        return Queries(LLM_REWRITE, texts, fallbacks, self.n_requests, self.spec)

    def fallback_counts(self) -> Counter[str]:
        """Return reason -> number of tasks that fell back to the last turn."""
        return Counter(rewrite.fallback_reason for rewrite in self.rewrites if rewrite.fallback_reason)

    @property
    def n_requests(self) -> int:
        """Tasks that a model was asked about: all but first turns."""
        return sum(rewrite.outcome is not None for rewrite in self.rewrites)

    @property
    def n_unanswered(self) -> int:
        """Tasks whose prompt got no reply: the next call asks them again before there can be a run."""
        return sum(rewrite.outcome in {Outcome.FAILED, Outcome.MALFORMED} for rewrite in self.rewrites)

    def require_share(self, least: float) -> None:
        """Return where enough of the questions that were asked about are rewritten: last turns are no rewrites."""
        counts = self.fallback_counts()
        n_rewritten = self.n_requests - counts.total()
        if n_rewritten >= least * self.n_requests:
            return
        reasons = "; ".join(f"{n}: {reason}" for reason, n in counts.most_common(_MAX_REASONS))
        message = clear_error(
            "rewriter",
            where=str(self.spec["client"]["model"]),
            expected=f"at least {least:.0%} of the questions rewritten; nothing is stored",
            found=f"{n_rewritten} of {self.n_requests} ({reasons})",
            next_step="another model, or --min-rewritten; good replies are cached, the others are requested again",
        )
        raise JudgeError(message)


def rewrite_queries(
    tasks: Sequence[Task], client: Client, template: PromptTemplate | None = None, progress: Progress = no_progress
) -> Rewrites:
    """Return a rewritten query for every task; no tasks give none.

    Give it a `CachedClient`, and a killed call goes on where it was.
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
    text = template.render(history=history, question=task.question)
    return Prompt.of(text, kind=_KIND, is_readable=partial(is_readable, JSON_CONTRACT))


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

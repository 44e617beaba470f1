"""Query forms: what of a conversation is sent to a retriever, as one text for each task.

A form that only selects turns is a function of the task, so it works for every benchmark and every task, those
without relevance judgements included: full RAG needs contexts for all of them. MTRAG's official files of last turns
and of all questions hold exactly these texts (tested), so only the rewritten form is read from files.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

from ragtasks.benchmarks import Benchmark, retrieval_side
from ragtasks.errors import ConfigurationError, close_matches
from ragtasks.records import Role, Task

REWRITE = "rewrite"
"""The form that a benchmark publishes as texts of its own."""

LLM_REWRITE = "llm_rewrite"
"""The form that `retrieval_cache.queries` makes with a model."""

SEPARATOR = "/"
"""What stands between the names of query forms that are fused."""

_LAST_K = re.compile(r"last_([1-9][0-9]*)_turns")
_LAST_K_NAME = "last_<k>_turns"
_ALIASES = {"contextualized": "last_turn", "decontextualized": REWRITE, "context": "last_2_turns"}


@dataclass(frozen=True)
class Queries:
    """One text for each task, and where a text is not what the form asks for."""

    form: str
    """Name of the form, as it was asked for."""
    texts: Mapping[str, str]
    """Task id -> query, in the order of the tasks; never blank where the question is not."""
    fallbacks: Mapping[str, str] = field(default_factory=dict)
    """Task id -> why its text is the last turn instead."""
    n_requests: int = 0
    """How many were to be rewritten; 0 for a form that only selects turns."""
    made_with: Mapping[str, Any] = field(default_factory=dict)
    """What the rewrites were made with, such as model and prompt; nothing where no model was asked."""
    parts: tuple[Queries, ...] = ()
    """Forms that are searched for one by one and fused, each with texts of its own; none for a single form."""

    @property
    def searched(self) -> tuple[Queries, ...]:
        """The single forms: its parts, or itself."""
        return self.parts or (self,)

    def describe(self) -> dict[str, Any]:
        """Return what the run's key says about the form; the texts go into the key on their own."""
        fusion = {"fusion": "reciprocal rank, k = 60", "of": [part.describe() for part in self.parts]}
        return {**self.made_with, "form": self.form, **(fusion if self.parts else {})}

    def content(self) -> Any:
        """Return the texts as JSON values: an object of them, or for several forms a list of such objects."""
        return [dict(part.texts) for part in self.parts] if self.parts else dict(self.texts)

    def counts(self) -> dict[str, Any]:
        """Return how many were to be rewritten and how many are the last turn instead, by reason; {} for no rewrites.

        The manifest of a run keeps it.
        """
        n_requests = sum(part.n_requests for part in self.searched)
        fallbacks = Counter(reason for part in self.searched for reason in part.fallbacks.values())
        return {"asked": n_requests, "fallbacks": dict(fallbacks)} if n_requests else {}


def fused_queries(parts: Sequence[Queries]) -> Queries:
    """Return several forms of the same questions as one, `last_turn/rewrite`; one form stays as it is."""
    forms = [part.form for part in parts]
    meant = [_ALIASES.get(form, form) for form in forms]
    twice = sorted({form for form in meant if meant.count(form) > 1})
    if twice:
        raise ConfigurationError(f"query forms to fuse: {', '.join(twice)} more than once; name each once")
    return parts[0] if len(parts) == 1 else Queries(SEPARATOR.join(forms), parts[0].texts, parts=tuple(parts))


def last_turn(task: Task) -> str:
    """Return the question alone (paper, section 5)."""
    return task.question


def all_questions(task: Task) -> str:
    """Return the questions so far, one below the other, without the replies."""
    return _joined(message.text for message in task.messages if message.role is Role.USER)


def full_conversation(task: Task) -> str:
    """Return everything said so far, one message below the other."""
    return _joined(message.text for message in task.messages)


def last_k_turns(task: Task, k: int) -> str:
    """Return the last `k` turns (questions with their replies, the last one without); all where there are fewer."""
    if k < 1:
        raise ValueError(f"at least one turn is needed, asked for {k}")
    starts = [index for index, message in enumerate(task.messages) if message.role is Role.USER]
    begin = starts[-k] if k <= len(starts) else 0
    return _joined(message.text for message in task.messages[begin:])


def _joined(texts: Any) -> str:
    return "\n".join(texts)


FORMS: Mapping[str, Callable[[Task], str]] = {
    "last_turn": last_turn,
    "all_questions": all_questions,
    "full_conversation": full_conversation,
}
"""Name -> form, for the forms that are functions of a task; `last_<k>_turns` joins them for every k."""


def selecting_form(name: str) -> Callable[[Task], str] | None:
    """Return the form of that name if it is a function of a task, else None.

    The OR-CONVQA paper's names (section 4.2) mean ours: `context` for `last_2_turns` (the question behind the
    previous one and its answer), `contextualized` for `last_turn`, `decontextualized` for `rewrite`.
    """
    name = _ALIASES.get(name, name)
    match = _LAST_K.fullmatch(name)
    return partial(last_k_turns, k=int(match[1])) if match else FORMS.get(name)


def build_queries(benchmark: Benchmark, form: str, tasks: Sequence[Task] | None = None) -> Queries:
    """Return the queries of a benchmark's tasks in a form that needs no model."""
    chosen = benchmark.tasks if tasks is None else tasks
    if _ALIASES.get(form, form) == REWRITE:
        return replace(_official_rewrites(benchmark, chosen), form=form)
    return select_queries(chosen, form)


def select_queries(tasks: Sequence[Task], form: str) -> Queries:
    """Return the queries of some tasks in a form that only selects turns."""
    select = selecting_form(form)
    if _ALIASES.get(form, form) == REWRITE:
        raise ConfigurationError(
            f"query form {form!r}: a benchmark's own rewrites are of its own history; take {LLM_REWRITE!r} with a model"
        )
    if select is None:
        known = [*FORMS, _LAST_K_NAME, REWRITE, *_ALIASES]
        hint = f"{form!r} needs a model" if form == LLM_REWRITE else f"{form!r}: {close_matches(form, known)}"
        raise ConfigurationError(f"query form {hint}")
    return Queries(form, {task.task_id: select(task) for task in tasks})


def _official_rewrites(benchmark: Benchmark, tasks: Sequence[Task]) -> Queries:
    """Return the rewritten queries of the official files, by domain."""
    load = retrieval_side(benchmark.name).load_rewrites
    if load is None:
        raise ConfigurationError(
            f"{benchmark.name} publishes no rewritten queries; use {LLM_REWRITE!r} with a model, or 'last_turn'"
        )
    official: dict[str, str] = {}
    for domain in dict.fromkeys(task.domain for task in tasks):
        official |= load(benchmark.root, domain)
    fallbacks = {task.task_id: "not in the official file" for task in tasks if task.task_id not in official}
    texts = {task.task_id: official.get(task.task_id, task.question) for task in tasks}
    return Queries(REWRITE, texts, fallbacks, len(tasks))

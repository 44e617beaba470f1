"""Passages for live conversations: each question is searched when it is asked.

Like the search of rewrites, this calls the precompute stage, here before the model is called. A missing component is an
error: a model without passages would be a different system.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ragtasks.benchmarks import INJECTED_VERSION, Benchmark, Doc, injected, response_of
from ragtasks.clients import CachedClient, OpenAIClient, Secrets, Spending, credentials_for, joined_spending
from ragtasks.config import EvaluationConfig
from ragtasks.errors import JudgeError
from ragtasks.progress import progress_bars
from ragtasks.records import Passage, Task

if TYPE_CHECKING:
    from retrieval_cache import CorpusSearcher, Queries


def check_retrieval(config: EvaluationConfig, store: Path, secrets: Secrets) -> None:
    """Refuse an unknown retriever or query form before a request is sent to a model."""
    from retrieval_cache import RunStore, checked_form, parse

    if "retriever" in config.model_fields_set:
        parse(config.retriever, secrets, RunStore(store).replies)
    if "queries" in config.model_fields_set:
        checked_form(config.queries, has_rewriter=config.rewriter is not None)


class LiveRetrieval:
    """A retriever, and the query form for conversations."""

    def __init__(self, benchmark: Benchmark, config: EvaluationConfig, store: Path, secrets: Secrets) -> None:
        """Choose retriever, query form and rewriter."""
        from retrieval_cache import RunStore, checked_form, parse, searcher_of_many

        self._injected_share = config.injected
        self._form = checked_form(config.queries, has_rewriter=config.rewriter is not None)
        self._line = parse(config.retriever, secrets, RunStore(store).replies).name
        self._open = partial(searcher_of_many, benchmark, line=self._line, store=store, secrets=secrets)
        self._searches: dict[str, CorpusSearcher] = {}
        self._rewriter_spending: Spending = {}
        self._rewriter = rewriter = config.rewriter
        self._client = None
        if rewriter is not None:
            self._client = CachedClient(
                OpenAIClient(rewriter, credentials_for(rewriter, secrets)), RunStore(store).replies
            )
        self._n_requests = 0
        self._fallbacks: Counter[str] = Counter()

    def options(self) -> dict[str, Any]:
        """Return the options that determine the passages, apart from the conversation."""
        rewriter = {"rewriter": self._rewriter.model} if self._rewriter is not None else {}
        injects = {"injected": [INJECTED_VERSION, self._injected_share]} if self._injected_share else {}
        return {"retriever": self._line, "queries": self._form, **rewriter, **injects}

    def counts(self) -> dict[str, Any]:
        """Return the number of questions to rewrite, and reason -> number replaced by the last turn."""
        return {"rewrites_asked": self._n_requests, "fallbacks": dict(self._fallbacks)} if self._n_requests else {}

    def spending(self) -> Spending:
        """Return the usage of the replies of rewriter and retriever."""
        return joined_spending([self._rewriter_spending, *(search.spending() for search in self._searches.values())])

    def problem(self) -> str:
        """Return a problem if too few questions were rewritten, else an empty text; last turns are no rewrites."""
        from retrieval_cache import MIN_REWRITTEN

        n_rewritten = self._n_requests - self._fallbacks.total()
        if n_rewritten >= MIN_REWRITTEN * self._n_requests:
            return ""
        reasons = "; ".join(f"{n}: {reason}" for reason, n in self._fallbacks.most_common(3))
        return (
            f"the rewriter rewrote {n_rewritten} of {self._n_requests} questions, the others are last turns ({reasons})"
        )

    def prepare(self, domains: Iterable[str]) -> None:
        """Index the corpora of some domains."""
        for domain in dict.fromkeys(domains):
            if domain not in self._searches:
                self._searches[domain] = self._open(domain)

    def with_passages(self, docs: Sequence[Doc]) -> list[Doc]:
        """Return the docs with their queries and the retrieved passages."""
        if not docs:
            return []
        queries = self._queries([response_of(doc, "").task for doc in docs])
        retrieved: dict[str, tuple[Passage, ...]] = {}
        for domain in dict.fromkeys(doc["domain"] for doc in docs):
            self.prepare([domain])
            task_ids = [doc["task_id"] for doc in docs if doc["domain"] == domain]
            retrieved |= self._searches[domain]({task_id: queries.texts[task_id] for task_id in task_ids})
        shown = {name: injected(passages, self._injected_share, name) for name, passages in retrieved.items()}
        return [_with_passages(doc, queries.texts[doc["task_id"]], shown[doc["task_id"]]) for doc in docs]

    def _queries(self, tasks: Sequence[Task]) -> Queries:
        from retrieval_cache import rewrite_queries, select_queries

        if self._client is None:
            return select_queries(tasks, self._form)
        with progress_bars() as progress:
            price = self._rewriter.price if self._rewriter is not None else None
            queries = rewrite_queries(tasks, self._client, progress=progress, price=price)
        self._rewriter_spending = joined_spending([self._rewriter_spending, queries.spending])
        if queries.n_unanswered:
            raise JudgeError(
                f"{queries.n_unanswered} of {queries.n_requests} questions got no reply from the rewriter; "
                "answers so far are saved. Next step: run the same command again"
            )
        self._n_requests += queries.n_requests
        self._fallbacks.update(queries.fallbacks.values())
        return queries


def _with_passages(doc: Doc, query: str, passages: Iterable[Passage]) -> Doc:
    shown = [{"passage_id": passage.passage_id, "title": passage.title, "text": passage.text} for passage in passages]
    return {**doc, "run": "live", "query": query, "passages": shown}

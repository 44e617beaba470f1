"""Passages for live conversations: each question is searched for when it is asked.

Like the searching of rewrites this calls the precompute stage, here before a model is asked and not after. What is
missing is an error then: a model that is shown no passages would be another system.
"""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Collection, Iterable, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ragtasks.benchmarks import INJECTED_VERSION, Benchmark, Doc, injected, response_of
from ragtasks.clients import CachedClient, OpenAIClient, Secrets, Spending, credentials_for, joined_spending
from ragtasks.config import EvaluationConfig
from ragtasks.errors import ConfigurationError, JudgeError, MissingExtraError, RagtasksError
from ragtasks.metrics import Searched, score_run
from ragtasks.progress import progress_bars
from ragtasks.records import Passage, Task
from ragtasks.scoring._failures import survive

if TYPE_CHECKING:
    from retrieval_cache import CorpusSearcher, Queries, Retriever


def check_retrieval(config: EvaluationConfig, store: Path, secrets: Secrets) -> None:
    """Refuse an unknown retriever or query form before a request is sent to a model."""
    from retrieval_cache import RunStore, checked_form, parse

    if "retriever" in config.model_fields_set:
        parse(config.retriever, secrets, RunStore(store).replies)
    if "queries" in config.model_fields_set:
        checked_form(config.queries, has_rewriter=config.rewriter is not None)


class LiveRetrieval:
    """A retriever, and what of a conversation is sent to it."""

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
        """Return what decides the passages beside the conversation."""
        rewriter = {"rewriter": self._rewriter.model} if self._rewriter is not None else {}
        injects = {"injected": [INJECTED_VERSION, self._injected_share]} if self._injected_share else {}
        return {"retriever": self._line, "queries": self._form, **rewriter, **injects}

    def counts(self) -> dict[str, Any]:
        """Return how many questions were to be rewritten, and reason -> those that are the last turn instead."""
        return {"rewrites_asked": self._n_requests, "fallbacks": dict(self._fallbacks)} if self._n_requests else {}

    def spending(self) -> Spending:
        """Return what the replies of rewriter and retriever took."""
        return joined_spending([self._rewriter_spending, *(search.spending() for search in self._searches.values())])

    def problem(self) -> str:
        """Return that too few questions were rewritten, empty where enough were: last turns are no rewrites."""
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
        """Return the docs with the passages that their conversations find, and the queries."""
        if not docs:
            return []
        queries = self._queries([response_of(doc, "").task for doc in docs])
        found: dict[str, tuple[Passage, ...]] = {}
        for domain in dict.fromkeys(doc["domain"] for doc in docs):
            self.prepare([domain])
            own = [doc["task_id"] for doc in docs if doc["domain"] == domain]
            found |= self._searches[domain]({task_id: queries.texts[task_id] for task_id in own})
        shown = {name: injected(passages, self._injected_share, name) for name, passages in found.items()}
        return [_with_passages(doc, queries.texts[doc["task_id"]], shown[doc["task_id"]]) for doc in docs]

    def _queries(self, tasks: Sequence[Task]) -> Queries:
        from retrieval_cache import rewrite_queries, select_queries

        if self._client is None:
            return select_queries(tasks, self._form)
        with progress_bars() as progress:
            price = self._rewriter.price if self._rewriter is not None else None
            rewrites = rewrite_queries(tasks, self._client, progress=progress, price=price)
        self._rewriter_spending = joined_spending([self._rewriter_spending, rewrites.spending])
        if rewrites.n_unanswered:
            raise JudgeError(
                f"{rewrites.n_unanswered} of {rewrites.n_requests} questions got no reply from the rewriter; "
                "answers so far are saved. Next step: run the same command again"
            )
        self._n_requests += rewrites.n_requests
        self._fallbacks += rewrites.fallback_counts()
        return rewrites.queries()


def _with_passages(doc: Doc, query: str, passages: Iterable[Passage]) -> Doc:
    shown = [{"passage_id": item.passage_id, "title": item.title, "text": item.text} for item in passages]
    return {**doc, "run": "live", "query": query, "passages": shown}


# Searches a benchmark's corpora while an evaluation runs, for queries that the evaluated model wrote.
# Rewriting is retrieval: its score is what a retriever finds. So this one module of the library calls the
# precompute stage, which else is met at a file format; the indexes are the stage's own, in the run store, made once
# a corpus. What is missing is said before a model runs, and its scores are unscored: like an encoder, it costs no
# answer.

_LOGGER = logging.getLogger(__name__)


class CorpusSearch:
    """A retriever over the corpora of one benchmark; each is indexed when it is first needed, or prepared."""

    def __init__(self, benchmark: Benchmark, line: str, store: Path, secrets: Secrets) -> None:
        """Choose the retriever."""
        from retrieval_cache import RunStore, parse

        self._benchmark = benchmark
        self._store = RunStore(store)
        self._make = partial(parse, line, secrets, self._store.replies)
        self._retrievers: dict[str, Retriever] = {}
        self._reasons: dict[str, str] = {}
        self._description: dict[str, Any] = {"line": line}
        self.missing = ""
        """Why nothing can be searched at all; empty where that is not known."""
        try:
            retriever = self._make()
            self._description = {"line": retriever.name, **retriever.describe()}
            score_run({}, ())  # needs libraries of the same extra
        except MissingExtraError as error:
            self.missing = f"{error}"
            _LOGGER.warning("rewrites will not be searched: their retrieval scores will be unscored. %s", error)

    def describe(self) -> dict[str, Any]:
        """Return retriever, parameters and versions, what it counted, and why anything could not be searched."""
        from retrieval_cache import statistics_of

        counted = {domain: dict(counts) for domain, item in self._retrievers.items() if (counts := statistics_of(item))}
        unsearched = {"all": self.missing} if self.missing else dict(self._reasons)
        return {**self._description, **({"statistics": counted} if counted else {}), "unsearched": unsearched}

    def spending(self) -> Spending:
        """Return what the replies took that retrievers asked for."""
        from retrieval_cache import spending_of

        return joined_spending(map(spending_of, self._retrievers.values()))

    def prepare(self, domains: Iterable[str]) -> None:
        """Index the corpora of some domains; a warning says which cannot be searched, and why."""
        for domain in dict.fromkeys(domains):
            if not self.missing and domain not in self._retrievers and domain not in self._reasons:
                self._open(domain)

    def _open(self, domain: str) -> None:
        from retrieval_cache import DEPTH, domain_retriever

        try:
            with progress_bars() as progress:
                found = domain_retriever(self._benchmark, domain, self._make, self._store, progress)
                found.search({}, DEPTH)  # a retriever that does not go as deep is refused before a model runs
        except ConfigurationError:
            raise
        except (RagtasksError, OSError) as error:
            self._reasons[domain] = f"corpus of {domain}: {error}"
            _LOGGER.warning("rewrites in %s will not be searched: their scores will be unscored. %s", domain, error)
        else:
            self._retrievers[domain] = found

    def __call__(self, domain: str, texts: Collection[str]) -> Searched:
        """Return what is found for each text in the corpus of a domain, or why nothing can be searched."""
        return survive(
            f"search of {domain}", lambda: self._search(domain, texts), lambda reason: Searched(None, reason)
        )

    def _search(self, domain: str, texts: Collection[str]) -> Searched:
        from retrieval_cache import DEPTH

        self.prepare([domain])
        if domain not in self._retrievers:
            return Searched(None, self.missing or self._reasons[domain])
        with progress_bars() as progress:
            # The depth of stored runs: reranking and fusion depend on it, and scores are to be the same.
            return Searched(self._retrievers[domain].search({text: text for text in texts}, DEPTH, progress))

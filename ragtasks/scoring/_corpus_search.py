"""Search of a benchmark's corpora during an evaluation, for queries written by the evaluated model.

The score of a rewrite is the ranking that a retriever returns for it, so this module calls the precompute stage. The
indexes are in the run store, one per corpus. A missing component is reported before a model runs, and its scores are
unscored: as with a missing encoder, no answer is lost.
"""

from __future__ import annotations

import logging
from collections.abc import Collection, Iterable
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ragtasks.benchmarks import Benchmark
from ragtasks.clients import Secrets, Spending, joined_spending
from ragtasks.errors import ConfigurationError, MissingExtraError, RagtasksError
from ragtasks.metrics import SearchResult, score_run
from ragtasks.progress import progress_bars
from ragtasks.scoring._failures import survive

if TYPE_CHECKING:
    from retrieval_cache import Retriever

_LOGGER = logging.getLogger(__name__)


class CorpusSearch:
    """A retriever over the corpora of one benchmark; each is indexed at first use or by `prepare`."""

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
        """Why no corpus can be searched; empty if searching is possible."""
        try:
            retriever = self._make()
            self._description = {"line": retriever.name, **retriever.describe()}
            score_run({}, ())  # requires libraries of the same extra
        except MissingExtraError as error:
            self.missing = f"{error}"
            _LOGGER.warning("rewrites will not be searched: their retrieval scores will be unscored. %s", error)

    def describe(self) -> dict[str, Any]:
        """Return retriever, parameters, versions, statistics, and the reasons for unsearched corpora."""
        from retrieval_cache import statistics_of

        counted = {
            domain: dict(counts)
            for domain, retriever in self._retrievers.items()
            if (counts := statistics_of(retriever))
        }
        unsearched = {"all": self.missing} if self.missing else dict(self._reasons)
        return {**self._description, **({"statistics": counted} if counted else {}), "unsearched": unsearched}

    def spending(self) -> Spending:
        """Return the usage of the replies that the retrievers requested."""
        from retrieval_cache import spending_of

        return joined_spending(map(spending_of, self._retrievers.values()))

    def prepare(self, domains: Iterable[str]) -> None:
        """Index the corpora of some domains; a warning reports corpora that cannot be searched, with the reason."""
        for domain in dict.fromkeys(domains):
            if not self.missing and domain not in self._retrievers and domain not in self._reasons:
                self._open(domain)

    def _open(self, domain: str) -> None:
        from retrieval_cache import DEPTH, domain_retriever

        try:
            with progress_bars() as progress:
                retriever, _ = domain_retriever(self._benchmark, domain, self._make, self._store, progress)
                retriever.search({}, DEPTH)  # a retriever that does not go as deep is refused before a model runs
        except ConfigurationError:
            raise
        except (RagtasksError, OSError) as error:
            self._reasons[domain] = f"corpus of {domain}: {error}"
            _LOGGER.warning("rewrites in %s will not be searched: their scores will be unscored. %s", domain, error)
        else:
            self._retrievers[domain] = retriever

    def __call__(self, domain: str, texts: Collection[str]) -> SearchResult:
        """Return the results of each text in the corpus of a domain, or why it cannot be searched."""
        return survive(
            f"search of {domain}", lambda: self._search(domain, texts), lambda reason: SearchResult(None, reason)
        )

    def _search(self, domain: str, texts: Collection[str]) -> SearchResult:
        from retrieval_cache import DEPTH

        self.prepare([domain])
        if domain not in self._retrievers:
            return SearchResult(None, self.missing or self._reasons[domain])
        with progress_bars() as progress:
            # The depth of stored runs: reranking and fusion depend on it, and scores should be equal.
            return SearchResult(self._retrievers[domain].search({text: text for text in texts}, DEPTH, progress))

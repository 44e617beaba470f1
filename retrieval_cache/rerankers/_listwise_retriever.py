"""A first retriever and a listwise reranker as one retriever.

A model that orders gives no scores: the passage at each rank gets the score that the first retriever had given at that
rank, so scores only say the order. Where these are equal, they are parted by the smallest step that trec_eval sees,
since equal scores would be ordered by id.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from ragtasks.clients import Client, Decoding, Endpoint
from ragtasks.files import Ranked, Run
from ragtasks.records import Passage
from retrieval_cache.rerankers._candidates import Candidates
from retrieval_cache.rerankers._listwise import ListwiseOptions, ListwiseReranker
from retrieval_cache.retrievers import (
    Fill,
    Place,
    Progress,
    Retriever,
    Value,
    canonical,
    encode_with,
    no_progress,
    wanted_passages,
)

Connect = Callable[[Endpoint, Decoding], Client]
"""(endpoint, decoding) -> who answers there; the caller adds the key and the file that keeps replies."""


class ListwiseRetriever:
    """Ranks the candidates of a first retriever by a listwise reranker."""

    def __init__(self, first: Retriever, reranker: ListwiseReranker, *, depth: int = 100, name: str = "") -> None:
        """Put a listwise reranker behind a retriever.

        Args:
            first: names the candidates.
            reranker: orders them.
            depth: candidates a query.
            name: the part of the name that says the reranker; default: `listwise:` and the model.

        Raises:
            ConfigurationError: `depth` is below 1.
        """
        self._candidates = Candidates(first, depth)
        self._reranker = reranker
        self._name = name or f"listwise:{reranker.describe()['client'].get('model', 'model')}"

    @property
    def name(self) -> str:
        """`rerank(FIRST,listwise:MODEL,depth=N)`, with the options that are not the default."""
        return f"rerank({self._candidates.first.name},{self._name},depth={self._candidates.depth})"

    def describe(self) -> Mapping[str, Any]:
        """Return what decides the rankings: both parts and the depth."""
        return {
            "retriever": "rerank",
            "first": dict(self._candidates.first.describe()),
            "reranker": dict(self._reranker.describe()),
            "depth": self._candidates.depth,
        }

    def statistics(self) -> Mapping[str, Any]:
        """Return how the replies were, see `ListwiseReranker.statistics`."""
        return self._reranker.statistics()

    def wanted_passages(self, queries: Mapping[str, str]) -> frozenset[str] | None:
        """Return the ids that the first retriever names without a corpus, if it can."""
        return wanted_passages(self._candidates.first, queries)

    def encode_with(self, fill: Fill | None = None, place: Place | None = None) -> bool:
        """Let `fill` make the vectors of the first retriever; False where it has none."""
        return encode_with(self._candidates.first, fill, place)

    def index(self, passages: Iterable[Passage], folder: Path, progress: Progress = no_progress) -> None:
        """Index the first retriever, and keep the passages.

        Raises:
            RagtasksError: what the first retriever raises.
            CacheError: the disk is full.
        """
        self._candidates.index(passages, folder, progress)

    def search(self, queries: Mapping[str, str], k: int, progress: Progress = no_progress) -> Run:
        """Return the best `k` of the first `depth` candidates of each query.

        Raises:
            CacheError: called before `index`.
            ConfigurationError: `k` is above `depth`, so that ranks beyond it would have no score.
            JudgeError: as `ListwiseReranker.order`.
            RagtasksError: what the first retriever raises.
        """
        first = self._candidates.search(self.name, queries, k, progress)
        lists = [
            (queries[query_id], self._candidates.passages(item.passage_id for item in ranking))
            for query_id, ranking in first.items()
        ]
        ordered = zip(first.items(), self._reranker.order(lists, progress), strict=True)
        return {query_id: _ranked(passages, ranking)[:k] for (query_id, ranking), passages in ordered}


def _ranked(passages: Sequence[Passage], before: Sequence[Ranked]) -> tuple[Ranked, ...]:
    """Return passages with the scores that the ranks had before."""
    scores = falling_scores([item.score for item in before])
    return tuple(Ranked(passage.passage_id, score) for passage, score in zip(passages, scores, strict=True))


def falling_scores(scores: Iterable[float]) -> list[float]:
    """Return scores that fall from each to the next as 32-bit floats, changed only where they did not.

    Args:
        scores: finite, never rising.
    """
    import numpy as np

    falling: list[float] = []
    for score in scores:
        if falling and np.float32(score) >= np.float32(falling[-1]):
            falling.append(float(np.nextafter(np.float32(falling[-1]), np.float32(-np.inf))))
        else:
            falling.append(score)
    return falling


_DEFAULT = ListwiseOptions()
_UNNAMED = frozenset({"model", "price"})


def listwise_retriever(
    first: Retriever,
    endpoint: Endpoint,
    connect: Connect,
    *,
    window: int = _DEFAULT.window,
    stride: int = _DEFAULT.stride,
    passes: int = _DEFAULT.passes,
    words: int = _DEFAULT.words,
    max_unanswered: float = _DEFAULT.max_unanswered,
    depth: int = 100,
) -> ListwiseRetriever:
    """Return the retriever that the line `rerank(FIRST,listwise:ENDPOINT[,option=value])` chooses.

    Args:
        first: names the candidates.
        endpoint: the model that orders.
        connect: who answers at an endpoint.
        window: see `ListwiseOptions`, as the next four.
        stride: ranks between two windows.
        passes: how often the list is gone through.
        words: words shown of a passage.
        max_unanswered: share of windows that may stay without a reply.
        depth: candidates a query.

    Raises:
        ConfigurationError: a value that does not fit.
    """
    options = ListwiseOptions(window, stride, passes, words, max_unanswered)
    client = connect(endpoint, Decoding())
    changed: dict[str, Value] = {
        name: value for name, value in asdict(options).items() if value != getattr(_DEFAULT, name)
    }
    given = endpoint.model_fields_set - _UNNAMED
    changed |= {name: getattr(endpoint, name) for name in given if getattr(endpoint, name) is not None}
    name = canonical("listwise", endpoint.model, **changed)
    return ListwiseRetriever(first, ListwiseReranker(client, options), depth=depth, name=name)


__all__ = ["Connect", "ListwiseRetriever", "falling_scores", "listwise_retriever"]

"""Reranking: a first retriever names candidates, a slower and better model orders them.

A reranker sees one query and its candidates at a time and returns a score for each. A language model that orders
windows of a list gives no scores and is asked about all queries at once: see `retrieval_cache.rerankers`.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import IO, Any, Protocol

import orjson

from ragtasks.errors import CacheError, ConfigurationError, RagtasksError, clear_error
from ragtasks.files import Ranked, Run, in_rank_order, written_aside
from ragtasks.records import Passage
from retrieval_cache.retrievers import (
    BATCH_TOKENS,
    Fill,
    Place,
    Progress,
    Retriever,
    canonical,
    count_truncated,
    described_name,
    encode_with,
    length_batches,
    library_versions,
    load_model,
    model_hash,
    no_progress,
    passage_text,
    read_lengths,
    searched,
    set_max_length,
    token_lengths,
    wanted_passages,
)


class Reranker(Protocol):
    """Scores the candidates of one query."""

    @property
    def name(self) -> str:
        """The words that choose it, such as `cross-encoder:NAME`."""

    def describe(self) -> Mapping[str, Any]:
        """Return what decides its scores, as JSON values."""

    def rerank(self, query: str, passages: Sequence[Passage]) -> Sequence[float]:
        """Return a finite score for each passage, in their order, higher is better.

        Args:
            query: with some text in it.
            passages: the candidates, best first by the first retriever; at least one.
        """


class CrossEncoderReranker:
    """Scores query and passage together by a sentence-transformers cross-encoder with one output."""

    def __init__(
        self, model: str, *, max_length: int | None = None, batch_tokens: int = BATCH_TOKENS, device: str | None = None
    ) -> None:
        """Choose a model; nothing is loaded before it is needed."""
        self.model = model
        self.n_truncated = 0
        """Pairs so far that were longer than the model reads."""
        self._max_length = max_length
        self._batch_tokens = batch_tokens
        self._device = device

    @property
    def name(self) -> str:
        """`cross-encoder:MODEL`, and the length where it is set."""
        options = {} if self._max_length is None else {"max_length": self._max_length}
        return canonical("cross-encoder", self.model, **options)

    def describe(self) -> Mapping[str, Any]:
        """Return what decides the scores; loads the model."""
        return self._description

    @cached_property
    def _description(self) -> dict[str, Any]:
        return {
            "reranker": "cross-encoder",
            "model": described_name(self.model),
            "weights": model_hash(self._encoder),
            "activation": str(self._encoder.activation_fn),
            "max_length": self._encoder.max_seq_length,
            "versions": library_versions(),
        }

    @cached_property
    def _encoder(self) -> Any:
        encoder = load_model("CrossEncoder", self.model, "reranking", device=self._device)
        if encoder.num_labels != 1:
            message = clear_error(
                "cross-encoder",
                where=self.name,
                expected="a model with one output, the relevance",
                found=f"{encoder.num_labels} outputs",
                next_step="choose a model that was trained to rank",
            )
            raise ConfigurationError(message)
        set_max_length(encoder, self._max_length)
        return encoder

    def rerank(self, query: str, passages: Sequence[Passage]) -> Sequence[float]:
        """Return the model's output for each pair, after its own activation."""
        pairs = [(query, passage_text(passage)) for passage in passages]
        lengths = token_lengths(self._encoder.tokenizer, pairs)
        self.n_truncated += count_truncated(self._encoder, lengths)
        scores = [0.0] * len(pairs)
        read = read_lengths(self._encoder, lengths)
        for positions, batch in length_batches(pairs, read, self._batch_tokens):
            found = self._encoder.predict(batch, batch_size=len(batch), show_progress_bar=False)
            for position, score in zip(positions, found, strict=True):
                scores[position] = float(score)
        return scores


class RerankedRetriever:
    """Ranks the candidates of a first retriever by a reranker's scores."""

    def __init__(self, first: Retriever, model: str | Reranker, depth: int = 100) -> None:
        """Put a reranker behind a retriever."""
        self._candidates = Candidates(first, depth)
        self.reranker: Reranker = CrossEncoderReranker(model) if isinstance(model, str) else model
        self.first = first
        self.depth = depth

    @property
    def name(self) -> str:
        """`rerank(FIRST,RERANKER,depth=N)`."""
        return f"rerank({self.first.name},{self.reranker.name},depth={self.depth})"

    def describe(self) -> Mapping[str, Any]:
        """Return what decides the rankings: both parts and the depth."""
        return {
            "retriever": "rerank",
            "first": dict(self.first.describe()),
            "reranker": dict(self.reranker.describe()),
            "depth": self.depth,
        }

    def wanted_passages(self, queries: Mapping[str, str]) -> frozenset[str] | None:
        """Return the ids that the first retriever names without a corpus, if it can."""
        return wanted_passages(self.first, queries)

    def encode_with(self, fill: Fill | None = None, place: Place | None = None) -> bool:
        """Let `fill` make the vectors of the first retriever; False where it has none."""
        return encode_with(self._candidates.first, fill, place)

    def index(self, passages: Iterable[Passage], folder: Path, progress: Progress = no_progress) -> None:
        """Index the first retriever, and keep the passages where the reranker finds them."""
        self._candidates.index(passages, folder, progress)

    def search(self, queries: Mapping[str, str], k: int, progress: Progress = no_progress) -> Run:
        """Return the best `k` of the first `depth` candidates of each query."""
        run: dict[str, tuple[Ranked, ...]] = {}
        computed: dict[tuple[str, tuple[Ranked, ...]], tuple[Ranked, ...]] = {}
        for query_id, candidates in self._candidates.search(self.name, queries, k, progress).items():
            # Not by text alone: the run of somebody else may rank otherwise for the same words.
            request = queries[query_id], candidates
            if request not in computed:
                computed[request] = self._reranked(query_id, *request)[:k]
            run[query_id] = computed[request]
            progress("rerank", len(run), len(queries))
        return run

    def _reranked(self, query_id: str, text: str, candidates: Sequence[Ranked]) -> tuple[Ranked, ...]:
        if not candidates:
            return ()
        scores = self.reranker.rerank(text, self._candidates.passages(item.passage_id for item in candidates))
        if len(scores) != len(candidates) or not all(map(math.isfinite, scores)):
            message = clear_error(
                f"scores of {self.reranker.name}",
                where=f"query {query_id}",
                expected=f"{len(candidates)} finite numbers",
                found=f"{len(scores)} scores, {sum(map(math.isfinite, scores))} of them finite",
                next_step="the reranker is broken: try another model",
            )
            raise RagtasksError(message)
        return in_rank_order(Ranked(item.passage_id, score) for item, score in zip(candidates, scores, strict=True))


# What every reranker needs: a first retriever's candidates, and their passages where they can be read again.
# The passages are kept in one file of JSON lines, found by id through their offsets, so that a corpus that does not
# fit in memory can be reranked.


class Candidates:
    """The first retriever of a reranker, and the passages that it names."""

    def __init__(self, first: Retriever, depth: int) -> None:
        """Put a limit on a retriever."""
        if depth < 1:
            raise ConfigurationError(f"depth of a reranker must be at least 1, found {depth}")
        self.first = first
        self.depth = depth
        self._path: Path | None = None
        self._offsets: dict[str, int] = {}

    def index(self, passages: Iterable[Passage], folder: Path, progress: Progress) -> None:
        """Index the first retriever, and keep the passages."""
        folder.mkdir(parents=True, exist_ok=True)
        path = folder / "passages.jsonl"
        for part in folder.glob("passages.jsonl*.part"):
            part.unlink(missing_ok=True)
        part = path.with_name(f"{path.name}.part")
        offsets: dict[str, int] = {}
        try:
            with written_aside(path, part) as file:
                recorded = _recorded(passages, file, offsets)
                self.first.index(recorded, folder / "first", progress)
                # A retriever that finds its index built reads no passage.
                deque(recorded, maxlen=0)
        except OSError as error:
            raise CacheError(f"cannot write {path}: {error.strerror or error}") from error
        self._path, self._offsets = path, offsets

    def search(self, name: str, queries: Mapping[str, str], k: int, progress: Progress) -> Run:
        """Return the first `depth` candidates of each query."""
        if self._path is None:
            raise CacheError(f"{name} was asked to search before it had a corpus; call index first")
        if not 1 <= k <= self.depth:
            message = clear_error(
                name,
                where="k",
                expected=f"1 to {self.depth}, the candidates that are reranked",
                found=str(k),
                next_step=f"ask for fewer passages, or set depth to at least {max(k, 1)}",
            )
            raise ConfigurationError(message)
        return searched(self.first, queries, self.depth, progress)

    def passages(self, ids: Iterable[str]) -> list[Passage]:
        """Return the passages with these ids, in their order; call `index` before."""
        if self._path is None:
            raise CacheError("passages of candidates were asked for before index; next step: index the corpus first")
        with self._path.open("rb") as file:
            return [self._at(file, self._offsets[passage_id]) for passage_id in ids]

    def _at(self, file: IO[bytes], offset: int) -> Passage:
        file.seek(offset)
        return Passage(**orjson.loads(file.readline()))


def _recorded(passages: Iterable[Passage], file: IO[bytes], offsets: dict[str, int]) -> Iterator[Passage]:
    """Yield passages, each written to `file` first."""
    for passage in passages:
        offsets[passage.passage_id] = file.tell()
        file.write(orjson.dumps(passage) + b"\n")
        yield passage

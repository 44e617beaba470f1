"""Dense retrieval: sentence-transformers encoders, vectors in float16 on disk, exact inner products.

Queries and passages get the prompts used in training the encoder, and are truncated at its maximum length. Both are
part of `describe`, and truncated texts are counted. Vectors are not quantized below float16.
"""

from __future__ import annotations

import importlib.util
import io
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from ragtasks.errors import CacheError
from ragtasks.records import Passage
from retrieval_cache.retrievers.encoders import (
    BATCH_TOKENS,
    EncodedRetriever,
    Role,
    described_name,
    hidden_size,
    id_ranks,
    library_versions,
    load_model,
    model_hash,
)
from retrieval_cache.retrievers.protocol import canonical
from retrieval_cache.retrievers.vectors import Filled


class DenseRetriever(EncodedRetriever):
    """Ranks passages by the inner product of their vectors with the query's."""

    suffix = "npy"
    on_workers = True

    def __init__(
        self,
        model: str,
        *,
        query_prompt: str | None = None,
        passage_prompt: str | None = None,
        normalize: bool = True,
        max_length: int | None = None,
        batch_tokens: int = BATCH_TOKENS,
        device: str | None = None,
        shard_size: int = 8192,
        engine: Engine | None = None,
    ) -> None:
        """Set the encoder; weights are loaded at first use."""
        super().__init__(model, max_length=max_length, batch_tokens=batch_tokens, device=device, shard_size=shard_size)
        self.normalize = normalize
        self._prompts = (query_prompt, passage_prompt)
        self._engine = engine

    @property
    def name(self) -> str:
        """`dense:MODEL`, with the options that change rankings, if set, sorted by name."""
        return canonical("dense", self.model, **self._named_options)

    @property
    def _named_options(self) -> dict[str, Any]:
        query_prompt, passage_prompt = self._prompts
        return {
            "max_length": self._max_length,
            "normalize": None if self.normalize else False,
            "passage_prompt": passage_prompt,
            "query_prompt": query_prompt,
        }

    def index_bytes(self, n_passages: float, n_bytes: float) -> float:
        """Return the size of the vectors in bytes; 0 if the weights are still on the hub."""
        return n_passages * hidden_size(self.model) * np.dtype(np.float16).itemsize

    @cached_property
    def _description(self) -> dict[str, Any]:
        query_prompt, passage_prompt = self._prompts_in_force
        return {
            **self._described_encoder,
            "retriever": "dense",
            "dimension": self.dimension,
            "query_prompt": query_prompt,
            "passage_prompt": passage_prompt,
            "normalize": self.normalize,
            "vectors": "float16",
        }

    @property
    def _described_encoder(self) -> dict[str, Any]:
        return {
            "model": described_name(self.model),
            "weights": model_hash(self._encoder),
            "max_length": self._encoder.max_seq_length,
            "versions": library_versions(),
        }

    @cached_property
    def _encoder(self) -> Any:
        return load_model("SentenceTransformer", self.model, "dense retrieval", self._max_length, device=self._device)

    @property
    def _prompts_in_force(self) -> tuple[str, str]:
        query_default, passage_default = default_prompts(self.model, self._encoder.prompts)
        query_prompt, passage_prompt = self._prompts
        return (
            query_default if query_prompt is None else query_prompt,
            passage_default if passage_prompt is None else passage_prompt,
        )

    @property
    def _settings(self) -> dict[str, Any]:
        query_prompt, passage_prompt = self._prompts
        prompts = {"query_prompt": query_prompt, "passage_prompt": passage_prompt}
        return {**super()._settings, **prompts, "normalize": self.normalize}

    def _opened(self, filled: Filled) -> ExactIndex:
        # Copy on write, because torch refuses to wrap read-only memory. The array is not modified.
        vectors = [np.load(path, mmap_mode="c", allow_pickle=False) for path in filled.paths]
        device = self._torch_device
        return ExactIndex.of(vectors, filled.ids, self._engine or best_engine(device), device)

    @property
    def _torch_device(self) -> str:
        return str(self._encoder.device)

    def encode(self, passages: Sequence[Passage]) -> NDArray[np.float16]:
        """Return the vectors of a batch.

        Raises:
            CacheError: vectors that exceed the range of float16.
        """
        with np.errstate(over="ignore"):
            halves: NDArray[np.float16] = super().encode(passages).astype(np.float16)
        faulty = np.flatnonzero(~np.isfinite(halves).all(axis=1))
        if faulty.size:
            raise CacheError(
                f"vectors of {self.name}",
                where=f"passage {passages[faulty[0]].passage_id!r} and {faulty.size - 1} more of its batch",
                expected="finite numbers below 65,504, the largest float16",
                found="others",
                next_step="leave normalize on; if it is on, the model is broken",
            )
        return halves

    @staticmethod
    def stacked(rows: Sequence[NDArray[Any]]) -> NDArray[Any]:
        """Return vectors stacked by row."""
        return np.concatenate(rows)

    @staticmethod
    def written(rows: NDArray[np.float16]) -> bytes:
        """Return the file of vectors."""
        file = io.BytesIO()
        np.lib.format.write_array(file, rows, allow_pickle=False)
        return file.getvalue()

    @staticmethod
    def read(path: Path) -> NDArray[np.float16]:
        """Return the vectors in a file."""
        vectors: NDArray[np.float16] = np.load(path, allow_pickle=False)
        return vectors

    def _batch(self, texts: Sequence[str], role: Role) -> NDArray[np.float32]:
        encoder = self._encoder
        # Two entries, because asymmetric models process queries and passages with different modules.
        encode = encoder.encode_query if role == "query" else encoder.encode_document
        vectors: NDArray[np.float32] = encode(
            list(texts),
            prompt=self._prompts_in_force[role == "passage"],
            batch_size=len(texts),
            normalize_embeddings=self.normalize,
            show_progress_bar=False,
        )
        return vectors


# Exact inner-product search over shards of float16 vectors, with one block in memory at a time. An engine (faiss, else
# torch, else numpy; torch on a GPU) selects candidates. Their scores are then recomputed in a fixed way, because
# engines sum in different orders. If the last candidate ties with the k-th best, more are fetched, so that the
# selection among equal passages follows the rule of `ragtasks.files` and not the engine.

Floats = NDArray[np.float32]
Halves = NDArray[np.float16]
Positions = NDArray[np.int64]
Engine = Literal["faiss", "torch", "numpy"]

_SLACK = 8
"""Candidates beyond k: enough for accidental ties, so that only duplicates need a second pass."""
_QUERIES = 1024
_CANDIDATES = 1 << 24
"""Maximum number of scores in memory for one portion of the queries."""
_RESCORED_VALUES = 1 << 17
"""Numbers rescored at a time: the size of a processor core's cache."""
_BLOCK_VALUES = 1 << 25
"""Numbers per block, 128 MiB. Engines restart at every block, so few large blocks are faster than many small ones."""

BlockSearch = Callable[[Floats, Floats, int], tuple[Floats, Positions]]


@dataclass(frozen=True)
class ExactIndex:
    """The vectors of one corpus."""

    shards: Sequence[Halves]
    """float16, passages x dimensions; memory-mapped if large. All shards but the last have the same length."""
    id_ranks: Positions
    """For each passage, in the order of the shards, the rank of its id among all ids, ascending."""
    longest: float
    """Length of the longest vector, which bounds the rounding of the engines."""
    engine: Engine
    """Library that multiplies. It does not affect results."""
    device: str = "cpu"
    _buffers: list[Floats] = field(default_factory=list, repr=False)

    @classmethod
    def of(cls, shards: Sequence[Halves], ids: Sequence[str], engine: Engine, device: str = "cpu") -> ExactIndex:
        """Return the index of passages with these vectors and ids, both in the same order."""
        index = cls(shards, id_ranks(ids), 0.0, engine, device)
        squares = [float(np.einsum("pd,pd->p", block, block).max()) for block in index._blocks()] if ids else [0.0]
        return replace(index, longest=max(squares) ** 0.5)

    def search(
        self, queries: Floats, k: int, done: Callable[[int, int], None] = lambda n, total: None
    ) -> list[tuple[Positions, Floats]]:
        """Return the positions and scores of the best `k` passages of each query, in rank order."""
        n_passages = len(self.id_ranks)
        best: list[tuple[Positions, Floats]] = [(np.empty(0, np.int64), np.empty(0, np.float32))] * len(queries)
        if not n_passages:
            return best
        pending = _portions(np.arange(len(queries)), min(k + _SLACK, n_passages))
        while pending:
            rows, width = pending.pop()
            approximate, positions = self._candidates(queries[rows], width, done)
            scores = self._scores(queries[rows], positions)
            order = np.lexsort((-self.id_ranks[positions], -scores), axis=1)
            positions = np.take_along_axis(positions, order, axis=1)[:, :k]
            scores = np.take_along_axis(scores, order, axis=1)[:, :k]
            for row, row_positions, row_scores in zip(rows, positions, scores, strict=True):
                best[row] = (row_positions, row_scores)
            if width < n_passages:
                # A passage that is not a candidate scores at most as much as the last one, up to the engine's rounding.
                tied = scores[:, -1] - approximate[:, -1] <= self._rounding(queries[rows])
                pending += _portions(rows[tied], min(width * 8, n_passages))
        return best

    def _candidates(self, queries: Floats, width: int, done: Callable[[int, int], None]) -> tuple[Floats, Positions]:
        """Return (scores, positions) of the best `width` passages by the engine's arithmetic, best first."""
        engines: dict[Engine, BlockSearch] = {"faiss": _faiss_block, "numpy": _numpy_block}
        search = engines.get(self.engine) or _torch_block(self.device)
        scores = np.empty((len(queries), 0), np.float32)
        positions = np.empty((len(queries), 0), np.int64)
        offset = 0
        for block in self._blocks():
            block_scores, block_positions = search(queries, block, min(width, len(block)))
            scores = np.concatenate((scores, block_scores), axis=1)
            positions = np.concatenate((positions, block_positions + offset), axis=1)
            if scores.shape[1] > width:
                best = np.argpartition(-scores, width - 1, axis=1)[:, :width]
                scores = np.take_along_axis(scores, best, axis=1)
                positions = np.take_along_axis(positions, best, axis=1)
            offset += len(block)
            done(offset, len(self.id_ranks))
        order = np.argsort(-scores, axis=1, kind="stable")
        return np.take_along_axis(scores, order, axis=1), np.take_along_axis(positions, order, axis=1)

    def _blocks(self) -> Iterator[Floats]:
        """Yield the vectors in float32, as many complete shards at a time as fit in a block.

        Each block is valid until the next. A corpus that fits in one block is kept, because converting it takes a large
        part of a search.
        """
        if self._buffers:
            yield self._buffers[0]
            return
        shard_size, dimension = self.shards[0].shape
        n_shards = max(1, _BLOCK_VALUES // (shard_size * dimension))
        buffer = np.empty((min(n_shards * shard_size, len(self.id_ranks)), dimension), np.float32)
        for start in range(0, len(self.shards), n_shards):
            filled = 0
            for shard in self.shards[start : start + n_shards]:
                _widen(shard, buffer[filled : filled + len(shard)])
                filled += len(shard)
            if filled == len(self.id_ranks):
                self._buffers.append(buffer)
            yield buffer[:filled]

    def _scores(self, queries: Floats, positions: Positions) -> Floats:
        """Return the inner products of queries and their candidates, summed in float64 and stored in float32."""
        scores = np.empty(positions.shape, np.float32)
        step = max(1, _RESCORED_VALUES // (positions.shape[1] * queries.shape[1]))
        for start in range(0, len(queries), step):
            rows = slice(start, start + step)
            vectors = self._gather(positions[rows].ravel()).reshape(*positions[rows].shape, -1)
            scores[rows] = np.einsum("qcd,qd->qc", vectors, queries[rows].astype(np.float64))
        return scores

    def _gather(self, positions: Positions) -> NDArray[np.float64]:
        size = len(self.shards[0])
        vectors = np.empty((len(positions), self.shards[0].shape[1]), np.float64)
        order = np.argsort(positions, kind="stable")
        shard_of = positions[order] // size
        for number in np.unique(shard_of):
            rows = order[np.searchsorted(shard_of, number) : np.searchsorted(shard_of, number, side="right")]
            vectors[rows] = self.shards[number][positions[rows] - number * size]
        return vectors

    def _rounding(self, queries: Floats) -> Floats:
        """Return the maximum error of a float32 sum, for each query and the longest passage."""
        relative = np.float32(self.longest * queries.shape[1] * np.finfo(np.float32).eps)
        bound: Floats = np.linalg.norm(queries, axis=1) * relative
        return bound


def best_engine(device: str) -> Engine:
    """Return the fastest installed engine: torch on a GPU, else faiss, torch or numpy."""
    if device != "cpu":
        return "torch"
    installed: list[Engine] = [name for name in ("faiss", "torch") if importlib.util.find_spec(name)]
    return installed[0] if installed else "numpy"


def _portions(rows: Positions, width: int) -> list[tuple[Positions, int]]:
    """Return the queries in portions whose candidates fit in memory, each with the number of candidates."""
    step = max(1, _CANDIDATES // width)
    return [(rows[start : start + step], width) for start in range(0, len(rows), step)]


def _widen(shard: Halves, target: Floats) -> None:
    """Write a shard as float32 to `target`. torch, if installed, converts on all cores."""
    if importlib.util.find_spec("torch") is None:
        np.copyto(target, shard)
    else:
        import torch

        torch.from_numpy(target).copy_(torch.from_numpy(shard))


def _faiss_block(queries: Floats, block: Floats, k: int) -> tuple[Floats, Positions]:
    import faiss

    hits: tuple[Floats, Positions] = faiss.knn(queries, block, k, metric=faiss.METRIC_INNER_PRODUCT)
    return hits


def _numpy_block(queries: Floats, block: Floats, k: int) -> tuple[Floats, Positions]:
    scores, positions = np.empty((len(queries), k), np.float32), np.empty((len(queries), k), np.int64)
    step = max(1, _BLOCK_VALUES // len(block))
    for start in range(0, len(queries), step):
        rows = slice(start, start + step)
        products = queries[rows] @ block.T
        positions[rows] = np.argpartition(-products, k - 1, axis=1)[:, :k]
        scores[rows] = np.take_along_axis(products, positions[rows], axis=1)
    return scores, positions


def _torch_block(device: str) -> BlockSearch:
    import torch

    def search(queries: Floats, block: Floats, k: int) -> tuple[Floats, Positions]:
        transposed = torch.from_numpy(block).to(device).T
        parts: list[tuple[Any, Any]] = []
        for start in range(0, len(queries), _QUERIES):
            product = torch.from_numpy(queries[start : start + _QUERIES]).to(device) @ transposed
            scores, positions = product.topk(k, dim=1)
            parts.append((scores.cpu().numpy(), positions.cpu().numpy()))
        return np.concatenate([part[0] for part in parts]), np.concatenate([part[1] for part in parts])

    return search


# Prompts of encoders for queries and passages.

_BGE_QUERY = "Represent this sentence for searching relevant passages: "
_MODEL_PROMPTS = (
    # From the BGE and E5 model cards; the models' configuration files do not contain them.
    (re.compile(r"bge-(small|base|large)-en(-v1\.5)?"), (_BGE_QUERY, "")),
    (re.compile(r"(multilingual-)?e5-(small|base|large)(-v2)?"), ("query: ", "passage: ")),
)


def default_prompts(model: str, configured: Mapping[str, str]) -> tuple[str, str]:
    """Return (query prompt, passage prompt) of an encoder: by its name, else from its configuration, else empty."""
    last = Path(model).name.lower()
    for pattern, prompts in _MODEL_PROMPTS:
        if pattern.fullmatch(last):
            return prompts
    passage_names = ("document", "passage", "corpus")
    return configured.get("query", ""), next((configured[name] for name in passage_names if configured.get(name)), "")

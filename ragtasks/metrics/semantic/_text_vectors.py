"""The vectors of texts: from a cache where it holds them, else from the encoder, the same bits either way."""

from __future__ import annotations

import hashlib
import logging
from array import array
from collections.abc import Callable, Container, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from types import TracebackType
from typing import Any, TypeVar

from ragtasks.errors import CacheError
from ragtasks.metrics.semantic._batches import batches
from ragtasks.metrics.semantic._embedding_cache import EmbeddingCache
from ragtasks.metrics.semantic._encoders import Encoder

_LOGGER = logging.getLogger(__name__)
_WRITE_BYTES = 2**25
"""Vectors are written together from this size on: what a killed process loses at most."""
T = TypeVar("T")


class TextVectors(AbstractContextManager["TextVectors"]):
    """Encodes texts, and keeps the vectors of those that others will ask for; no cache and a broken one are alike."""

    def __init__(self, encoder: Encoder, name: str, cache: EmbeddingCache | None) -> None:
        """Choose an encoder.

        Args:
            encoder: loaded.
            name: what the cache calls it for its readers.
            cache: where vectors are kept; None keeps nothing.
        """
        self.n_from_cache = 0
        """Texts that were not encoded."""
        self._encoder, self._name, self._cache = encoder, name, cache
        self._new: list[tuple[bytes, bytes]] = []

    def __enter__(self) -> TextVectors:
        """Open the cache."""
        self._try(lambda cache: cache.__enter__())
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._write()
        if self._cache is not None:
            self._cache.close()

    def of(self, token_ids: Mapping[str, Sequence[int]], reused: Container[str]) -> Iterator[tuple[str, Any]]:
        """Yield each text with its vectors, see `Encoder.embed`.

        Args:
            token_ids: text -> its tokens.
            reused: the texts that later calls will ask for: only they are looked up and kept.
        """
        keys = {text: self._key(ids) for text, ids in token_ids.items() if text in reused} if self._cache else {}
        found: list[bytes] = []
        missing: dict[str, Sequence[int]] = {}
        for text, ids in token_ids.items():
            stored = self._stored(keys[text]) if text in keys else None
            if stored is None:
                missing[text] = ids
            else:
                found.append(keys[text])
                yield text, self._encoder.restored(stored, len(ids))
        self.n_from_cache += len(found)
        self._try(lambda cache: cache.mark_used(found))
        yield from self._encoded(missing, keys)

    def _encoded(self, token_ids: Mapping[str, Sequence[int]], keys: Mapping[str, bytes]) -> Iterator[tuple[str, Any]]:
        for batch in batches(token_ids, self._encoder.batching, self._encoder.max_tokens):
            for text, vectors in zip(batch.texts, self._encoder.embed(batch, token_ids), strict=True):
                if text in keys and self._cache is not None:
                    self._new.append((keys[text], vectors.cpu().numpy().tobytes()))
                yield text, vectors
            if sum(len(vectors) for _, vectors in self._new) >= _WRITE_BYTES:
                self._write()

    def _stored(self, key: bytes) -> bytes | None:
        return self._try(lambda cache: cache.get(key))

    def _key(self, ids: Sequence[int]) -> bytes:
        return hashlib.sha256(self._encoder.identity.encode() + array("q", ids).tobytes()).digest()

    def _write(self) -> None:
        new, self._new = self._new, []
        if new:
            self._try(lambda cache: cache.put(new, self._name))

    def _try(self, use: Callable[[EmbeddingCache], T]) -> T | None:
        """Return what a use of the cache gives; one that fails is the last, and said once."""
        if self._cache is None:
            return None
        try:
            return use(self._cache)
        except CacheError as error:
            _LOGGER.warning("embeddings are not kept, which costs time and no score: %s", error)
            self._cache.close()
            self._cache = None
            return None


__all__ = ["TextVectors"]

"""A loopback embeddings endpoint, and a run that uses it in a process that a test may kill.

`... URL STORE [SECONDS]` makes the run of the sample's last turns.
"""

from __future__ import annotations

import base64
import json
import sys
import time
import zlib
from array import array
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from retrieval_cache.service import Workspace, retrieve
from tests.clients._server import Action, ChatServer

WIDTH = 16
LINE = "dense:m,base_url={url},slots=1,batch_texts=16"
Encode = Callable[[Sequence[str]], list[list[float]]]


def words(texts: Sequence[str]) -> list[list[float]]:
    """Return counts of words by the remainder of a hash, so that texts with common words are near."""
    vectors = [[0.0] * WIDTH for _ in texts]
    for vector, text in zip(vectors, texts, strict=True):
        for word in text.lower().split():
            vector[zlib.crc32(word.encode()) % WIDTH] += 1.0
    return vectors


def reply(vectors: Sequence[Any], **further: Any) -> Action:
    """Return an action that sends vectors in reverse order, because servers need not keep the order."""
    items = [{"object": "embedding", "index": n, "embedding": vector} for n, vector in enumerate(vectors)]
    usage = {"prompt_tokens": 10 * len(items), "total_tokens": 10 * len(items)}
    return Action(json.dumps({"object": "list", "data": items[::-1], "model": "m", "usage": usage, **further}).encode())


def in_base64(vectors: Sequence[Sequence[float]]) -> list[str]:
    """Return vectors in base64, as sent by OpenAI on request."""
    return [base64.b64encode(array("f", vector).tobytes()).decode() for vector in vectors]


class EmbeddingServer(ChatServer):
    """The running server; `asked` lists the texts received."""

    def __init__(self, script: Callable[[list[str]], Action]) -> None:
        super().__init__(lambda *_: Action())
        self._answer = script

    def begin(self, path: str, headers: dict[str, str], body: dict[str, Any]) -> Action:
        with self._lock:
            self.asked += body["input"]
            self.bodies.append(body)
            self.paths.append(path)
            self.headers.append(headers)
            self._n_open += 1
        return self._answer(body["input"])


@contextmanager
def embedding_server(
    encode: Encode = words, *, seconds: float = 0.0, script: Callable[[list[str]], Action] | None = None
) -> Iterator[EmbeddingServer]:
    """Yield a running server; a `script` replaces complete replies."""

    def answer(texts: list[str]) -> Action:
        time.sleep(seconds)
        return reply(encode(texts))

    with EmbeddingServer(script or answer).running() as server:
        yield server  # type: ignore[misc] # `running` returns its argument


def main(url: str, store: str) -> None:
    """Make a run of the sample."""
    workspace = Workspace("mtrag", "sample", Path(store), Path(store))
    retrieve(workspace, LINE.format(url=url), "last_turn", depth=10)


if __name__ == "__main__":
    main(*sys.argv[1:])

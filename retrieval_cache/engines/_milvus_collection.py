"""One Milvus collection: a row number and a vector a passage, searched exactly by inner product.

The same calls run on the embedded file, a standalone server and a cluster. Rows go in by upsert, in order and batch by
batch, each acknowledged before the next: what a killed call leaves is a prefix, and its last batch is sent again.
Whatever pymilvus says is shown without the token and the address's user and password.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit, urlunsplit

from ragtasks.errors import CacheError, MissingExtraError, clear_error
from retrieval_cache.engines._vectors_of import Vector

MOST_HITS = 16_384
"""Hits of one query that Milvus gives at most."""

_EMBEDDED = ".db"
_BATCH = 1000
_QUERIES = 256
_ROW, _VECTOR = "row", "vector"


class Server:
    """A connection to Milvus, opened when it is first used."""

    def __init__(self, uri: str, token: str | None, timeout_seconds: float) -> None:
        """Name the place: a path that ends in `.db` is the embedded engine, an address a server or cluster."""
        self._uri, self._token, self._timeout = uri, token, timeout_seconds
        self.place = without_secrets(uri)
        """The address as it may be shown."""
        self._client: Any = None

    @property
    def client(self) -> Any:
        """The open client.

        Raises:
            MissingExtraError: pymilvus, or milvus-lite for an embedded file, is not installed.
            CacheError: nobody answers, or the embedded file is in use by another process.
        """
        if self._client is None:
            self._client = self._connected()
        return self._client

    def _connected(self) -> Any:
        try:
            from pymilvus import MilvusClient
        except ModuleNotFoundError as error:
            raise MissingExtraError("pymilvus", "scale", "the milvus engine") from error
        if self._uri.endswith(_EMBEDDED):
            if find_spec("milvus_lite") is None:
                raise MissingExtraError("milvus-lite", "scale", "the embedded milvus engine")
            Path(self._uri).parent.mkdir(parents=True, exist_ok=True)
        expected = "a path that ends in .db and that no other process holds, or http(s)://host:port of a running Milvus"
        with self.reporting("connect to Milvus", expected, "start the server, or check address and token"):
            return MilvusClient(uri=self._uri, token=self._token or "", timeout=self._timeout)

    @contextmanager
    def reporting(self, what: str, expected: str, next_step: str) -> Iterator[None]:
        """Turn whatever pymilvus raises into one error without secrets."""
        from pymilvus.exceptions import MilvusException

        try:
            yield
        except (MilvusException, OSError) as error:
            # `from None`: the cause's text and its arguments may hold the address with its password.
            found = self._scrubbed(str(getattr(error, "message", error)))
            message = clear_error(what, where=self.place, expected=expected, found=found, next_step=next_step)
            raise CacheError(message) from None

    def _scrubbed(self, text: str) -> str:
        user_info = urlsplit(self._uri).netloc.rpartition("@")[0]
        secrets = {self._token or "", user_info, *user_info.split(":")[1:], *(self._token or "").split(":")[1:]}
        for secret in sorted(secrets - {""}, key=len, reverse=True):
            text = text.replace(secret, "***")
        return text

    def close(self) -> None:
        """Close the connection, and the embedded engine behind it, so that another process may open the file."""
        if self._client is None:
            return
        self._client.close()
        self._client = None
        if self._uri.endswith(_EMBEDDED):
            from milvus_lite.server_manager import server_manager_instance

            server_manager_instance.release_server(self._uri)


def without_secrets(uri: str) -> str:
    """Return an address without user, password, query and fragment; a path as it is."""
    parts = urlsplit(uri)
    if not parts.netloc:
        return uri
    return urlunsplit((parts.scheme, parts.netloc.rpartition("@")[2], parts.path, "", ""))


class Collection:
    """The vectors of one corpus."""

    def __init__(self, server: Server, name: str, dimension: int | None) -> None:
        """Open a collection, or create it.

        Raises:
            CacheError: another collection has this name, or vectors of another width; nobody answers.
        """
        self._server, self._name, self._dimension = server, name, dimension
        with self._reporting("open the collection"):
            if server.client.has_collection(name):
                self._check(server.client.describe_collection(name)["fields"])
            else:
                self._create()
            server.client.load_collection(name)

    def _reporting(self, what: str) -> Any:
        return self._server.reporting(
            f"Milvus: {what} {self._name!r}", "an answer", "look at the server, then call again: it goes on from here"
        )

    def _check(self, fields: Sequence[dict[str, Any]]) -> None:
        found = {field["name"]: field for field in fields}
        expected = f"{_ROW} and {_VECTOR} ({'sparse' if self._dimension is None else f'{self._dimension} dimensions'})"
        width = found.get(_VECTOR, {}).get("params", {}).get("dim")
        if set(found) != {_ROW, _VECTOR} or (None if width is None else int(width)) != self._dimension:
            message = clear_error(
                f"Milvus collection {self._name!r}",
                where=self._server.place,
                expected=f"none yet, or one that holds {expected}",
                found=f"another collection of this name, with {', '.join(sorted(found))} ({width} dimensions)",
                next_step="drop it, or choose another prefix with collection=NAME",
            )
            raise CacheError(message)

    def _create(self) -> None:
        from pymilvus import DataType, MilvusClient

        schema = MilvusClient.create_schema(auto_id=False, enable_dynamic_field=False)
        schema.add_field(_ROW, DataType.INT64, is_primary=True)
        index = MilvusClient.prepare_index_params()
        if self._dimension is None:
            schema.add_field(_VECTOR, DataType.SPARSE_FLOAT_VECTOR)
            index.add_index(_VECTOR, index_type="SPARSE_INVERTED_INDEX", metric_type="IP")
        else:
            schema.add_field(_VECTOR, DataType.FLOAT_VECTOR, dim=self._dimension)
            index.add_index(_VECTOR, index_type="FLAT", metric_type="IP")
        self._server.client.create_collection(self._name, schema=schema, index_params=index, consistency_level="Strong")

    def fill(
        self, n_rows: int, stored: Callable[[int], Iterator[tuple[int, Vector]]], told: Callable[[int], None]
    ) -> None:
        """Store the rows that are not there yet.

        Args:
            n_rows: rows of the whole corpus.
            stored: yields (row, vector) from the n-th on.
            told: called with the number of rows that are there.

        Raises:
            CacheError: nobody answers, or there are not `n_rows` rows in the end.
        """
        done = self._n_rows()
        if done != n_rows:
            # One row fewer, because the batch that was under way may be there in part.
            done = max(0, done - 1) // _BATCH * _BATCH
            rows = stored(done)
            while batch := [{_ROW: row, _VECTOR: vector} for row, vector in itertools.islice(rows, _BATCH)]:
                with self._reporting("store rows in"):
                    self._server.client.upsert(self._name, batch)
                done += len(batch)
                told(done)
            with self._reporting("flush"):
                self._server.client.flush(self._name)
            done = self._n_rows()
        told(done)
        if done != n_rows:
            message = clear_error(
                f"Milvus collection {self._name!r}",
                where=self._server.place,
                expected=f"{n_rows} rows",
                found=f"{done} rows",
                next_step="drop the collection and index again; nothing is encoded twice",
            )
            raise CacheError(message)

    def _n_rows(self) -> int:
        with self._reporting("count"):
            found = self._server.client.query(
                self._name, filter="", output_fields=["count(*)"], consistency_level="Strong"
            )
        return int(found[0]["count(*)"])

    def search(self, queries: Sequence[Vector], limit: int) -> Iterator[list[tuple[int, float]]]:
        """Yield the best `limit` (row, score) of each query, best first."""
        for start in range(0, len(queries), _QUERIES):
            with self._reporting("search"):
                answers = self._server.client.search(
                    self._name,
                    data=list(queries[start : start + _QUERIES]),
                    limit=limit,
                    anns_field=_VECTOR,
                    output_fields=[_ROW],
                    search_params={"metric_type": "IP", "params": {}},
                    consistency_level="Strong",
                )
            for hits in answers:
                yield [(int(hit[_ROW]), float(hit["distance"])) for hit in hits]


__all__ = ["MOST_HITS", "Collection", "Server", "without_secrets"]

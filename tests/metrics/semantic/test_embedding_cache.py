"""Cached vectors change no score by a bit, are never used if corrupt, and stay within their bound."""

from __future__ import annotations

import multiprocessing
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ragtasks.errors import CacheError
from ragtasks.metrics import BertScorer, EmbeddingCache, describe_embeddings, resolve_encoder, semantic_scores
from ragtasks.metrics.semantic._batches import Batching, batches
from ragtasks.metrics.semantic._encoders import Encoder

TARGETS = ["The ferry runs from April to October.", "A ticket costs 18 crowns; children travel free.", "", "No."]
PASSAGES = [
    "Ferries of Lindvik: the season begins in April, with two trips a day. " * 8,
    "Prices. Adults pay 18 crowns, groups less.",
    "zzqx " * 90,
]
FIRST = ["It runs in summer.", "18 crowns.", "I do not know.", "No."]
SECOND = ["From April to October, twice a day.", "Adults pay 18, children nothing.", "Perhaps.", "Yes, it does."]
WORDS = st.lists(st.sampled_from(["ferry", "18", "crowns", "zzqx", "naïve", "!"]), max_size=70).map(" ".join)


@pytest.fixture(scope="module")
def minilm() -> BertScorer:
    return BertScorer(resolve_encoder("minilm"), device="cpu")


@pytest.fixture
def cache(tmp_path: Path) -> EmbeddingCache:
    return EmbeddingCache(tmp_path / "embeddings.sqlite", 10**9)


def scores(scorer: BertScorer, responses: list[str], cache: EmbeddingCache | None) -> list[object]:
    return list(semantic_scores(responses, TARGETS, [PASSAGES] * len(responses), scorer, cache))


def test_a_second_model_encodes_its_own_answers_only(minilm: BertScorer, cache: EmbeddingCache) -> None:
    scores(minilm, FIRST, cache)
    assert (minilm.n_texts, minilm.n_from_cache) == (10, 0)  # "No." is an answer and a target
    expected = scores(minilm, SECOND, None)
    assert minilm.n_from_cache == 0
    assert scores(minilm, SECOND, cache) == expected
    assert (minilm.n_texts, minilm.n_from_cache) == (11, 7)
    with cache:
        (count,) = cache.counts()
    assert (count.encoder, count.n_texts) == ("minilm, layer 6", 7)


@pytest.mark.slow
@settings(max_examples=15)
@given(st.lists(st.tuples(WORDS, WORDS), min_size=1, max_size=6), st.data())
def test_the_cache_changes_no_score(
    minilm: BertScorer, tmp_path_factory: pytest.TempPathFactory, pairs: list[tuple[str, str]], data: st.DataObject
) -> None:
    cache = EmbeddingCache(
        tmp_path_factory.mktemp("embeddings") / "file", data.draw(st.sampled_from([0, 60_000, 10**9]))
    )
    expected = minilm.score(pairs)
    for _ in range(3):
        chosen = data.draw(st.lists(st.integers(0, len(pairs) - 1), unique=True))
        assert minilm.score([pairs[i] for i in chosen], cache) == [expected[i] for i in chosen]
    assert minilm.score(pairs, cache) == expected


@pytest.mark.slow
@settings(max_examples=10)
@given(st.lists(WORDS.filter(bool), min_size=2, max_size=6, unique=True), st.sampled_from([(1, 1), (90, 8), (600, 64)]))
def test_budgets_change_a_vector_by_less_than_1e_6(
    minilm: BertScorer, texts: list[str], budget: tuple[int, int]
) -> None:
    minilm.loaded()
    encoder = minilm._encoder
    token_ids = dict(zip(texts, encoder.token_ids(texts)[0], strict=True))
    for batch in batches(token_ids, Batching(*budget), encoder.max_tokens):
        assert batch.rows * batch.width <= max(budget[0], max(len(token_ids[text]) for text in batch.texts) + budget[1])
        for text, vectors in zip(batch.texts, encoder.embed(batch, token_ids), strict=True):
            (alone,) = encoder.embed(next(batches({text: token_ids[text]}, encoder.batching, None)), token_ids)
            assert vectors.shape == alone.shape == (len(token_ids[text]), 384)
            assert (vectors - alone).abs().max() < 1e-6


@given(st.dictionaries(st.text(min_size=1), st.integers(1, 600), min_size=1), st.integers(1, 5000), st.integers(1, 99))
def test_the_shape_of_a_batch_depends_on_the_text_alone(lengths: dict[str, int], tokens: int, step: int) -> None:
    batching = Batching(tokens, step)
    result = list(batches({text: [7] * length for text, length in lengths.items()}, batching, 512 + 88))
    assert sorted(text for batch in result for text in batch.texts) == sorted(lengths)
    for batch in result:
        assert len(batch.texts) <= batch.rows
        for text in batch.texts:
            (alone,) = batches({text: [7] * lengths[text]}, batching, 600)
            assert (alone.rows, alone.width, alone.is_full) == (batch.rows, batch.width, batch.is_full)
            assert lengths[text] <= batch.width <= 600


@pytest.mark.slow
def test_another_encoder_layer_or_batch_has_other_keys(minilm: BertScorer, cache: EmbeddingCache) -> None:
    scores(minilm, FIRST, cache)
    other = BertScorer(minilm.spec.__class__("minilm", 4, None), device="cpu")
    scores(other, FIRST, cache)
    assert other.n_from_cache == 0
    encoder = Encoder(minilm.spec, "cpu", Batching(64, 8))
    assert encoder.identity != minilm._encoder.identity
    assert Encoder(minilm.spec, "cpu").identity == minilm._encoder.identity


@pytest.mark.slow
@pytest.mark.parametrize(
    ("harm", "n_whole"),
    [
        ("UPDATE vectors SET vectors = zeroblob(length(vectors))", 0),
        ("UPDATE vectors SET vectors = substr(vectors, 1, 100)", 0),
        ("UPDATE vectors SET vectors = 'text'", 0),
        ("UPDATE entries SET checksum = zeroblob(32)", 0),
        ("UPDATE vectors SET vectors = (SELECT vectors FROM vectors WHERE id = 7) WHERE id < 7", 1),
        ("DELETE FROM vectors", 0),
    ],
)
def test_a_corrupt_entry_is_encoded_again_and_replaced(
    minilm: BertScorer, cache: EmbeddingCache, harm: str, n_whole: int
) -> None:
    expected = scores(minilm, FIRST, cache)
    with closing(sqlite3.connect(cache.path)) as connection:
        connection.execute(harm)
        connection.commit()
    assert scores(minilm, FIRST, cache) == expected
    assert minilm.n_from_cache == n_whole
    assert scores(minilm, FIRST, cache) == expected
    assert minilm.n_from_cache == 7


@pytest.mark.parametrize("content", [b"no database at all" * 500, None])
def test_an_unusable_file_costs_no_score(
    minilm: BertScorer, cache: EmbeddingCache, content: bytes | None, caplog: pytest.LogCaptureFixture
) -> None:
    if content is None:
        with closing(sqlite3.connect(cache.path)) as connection:
            connection.execute("CREATE TABLE something (other)")
    else:
        cache.path.write_bytes(content)
    before = cache.path.read_bytes()
    assert scores(minilm, FIRST, cache) == scores(minilm, FIRST, None)
    assert cache.path.read_bytes() == before
    (record,) = caplog.records
    assert "embeddings are not cached" in record.message
    with pytest.raises(CacheError, match=r"remove the file"):
        describe_embeddings(cache.path, 1)


def test_corrupt_pages_cost_no_score(minilm: BertScorer, cache: EmbeddingCache) -> None:
    expected = scores(minilm, FIRST, cache)
    content = bytearray(cache.path.read_bytes())
    for start in range(4096, len(content), 4096):
        content[start : start + 64] = b"\xff" * 64
    cache.path.write_bytes(content)
    assert scores(minilm, FIRST, cache) == expected


def keys_in(cache: EmbeddingCache) -> set[bytes]:
    return {bytes([number]) for number in range(20) if cache.get(bytes([number])) is not None}


def test_the_oldest_entries_are_evicted_except_those_of_this_process(tmp_path: Path) -> None:
    file = tmp_path / "embeddings.sqlite"
    with EmbeddingCache(file, 40) as earlier:
        earlier.put([(bytes([number]), bytes(10)) for number in range(4)], "a")
        earlier.put([(bytes([9]), bytes(10))], "a")
        assert keys_in(earlier) == {bytes([number]) for number in range(4)}  # its own entries stay
    with EmbeddingCache(file, 40) as later:
        later.mark_used([bytes([0])])
        later.put([(bytes([5]), bytes(15))], "b")
        assert keys_in(later) == {bytes([number]) for number in (0, 3, 5)}
        later.put([(bytes([6]), bytes(41))], "b")
        assert keys_in(later) == {bytes([number]) for number in (0, 3, 5)}
        assert [(count.encoder, count.n_texts, count.n_bytes) for count in later.counts()] == [
            ("a", 2, 20),
            ("b", 1, 15),
        ]


def score_often(file: Path, start: int) -> None:
    import torch

    torch.set_num_threads(1)
    scorer = BertScorer(resolve_encoder("minilm"), device="cpu")
    expected = scores(scorer, FIRST, None)
    for number in range(3):
        # The bound fits only a part: entries are evicted while the other process reads.
        cache = EmbeddingCache(file, 300_000 if (start + number) % 2 else 10**9)
        assert scores(scorer, FIRST, cache) == expected


@pytest.mark.engine
def test_two_processes_share_a_file(tmp_path: Path) -> None:
    # Both processes are forked after the slow imports.
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload([__name__, "torch", "transformers.models.auto.modeling_auto"])
    workers = [context.Process(target=score_often, args=(tmp_path / "file", start)) for start in range(2)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join(120)
    assert [worker.exitcode for worker in workers] == [0, 0]

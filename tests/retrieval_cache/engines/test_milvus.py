"""Milvus, embedded: the scores of the in-process retrievers, kills, and errors."""

from __future__ import annotations

import itertools
import math
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ragtasks.errors import CacheError, ConfigurationError
from ragtasks.files import Run
from ragtasks.progress import no_progress
from ragtasks.records import Passage
from retrieval_cache.engines.milvus import (
    MilvusRetriever,
    StoredVectors,
    TermWeights,
    rarity,
    saturated,
)
from retrieval_cache.retrievers.bm25 import Bm25Retriever
from retrieval_cache.retrievers.dense import DenseRetriever, ExactIndex
from retrieval_cache.retrievers.fusion import HybridRetriever
from retrieval_cache.spec import parse
from tests.benchmarks.mtrag._official import official_passages, official_queries

pytest.importorskip("pymilvus")
pytest.importorskip("milvus_lite")
engine = pytest.mark.engine

FEW = [
    Passage("a", "A cat sat on the mat."),
    Passage("b", "Dogs chase cats, cats chase mice."),
    Passage("c", "Mice eat cheese."),
    Passage("d", "A cat sat on the mat."),
    Passage("e", "..."),
    Passage("f", ""),
]


def ids(run: Run) -> dict[str, list[str]]:
    return {query_id: [ranked.passage_id for ranked in ranking] for query_id, ranking in run.items()}


def overlap(run: Run, expected: Run) -> float:
    shared = [
        len(set(found_ids) & set(ids(expected)[query_id])) / len(ids(expected)[query_id])
        for query_id, found_ids in ids(run).items()
        if expected[query_id]
    ]
    return sum(shared) / len(shared)


@pytest.fixture
def opened() -> Iterator[list[MilvusRetriever]]:
    """Retrievers whose embedded engines are closed after the test."""
    retrievers: list[MilvusRetriever] = []
    yield retrievers
    for retriever in retrievers:
        retriever.close()


def milvus(opened: list[MilvusRetriever], folder: Path, **options: Any) -> MilvusRetriever:
    opened.append(MilvusRetriever(str(folder / "milvus.db"), **options))
    return opened[-1]


def searched(retriever: Any, passages: Sequence[Passage], folder: Path, queries: Mapping[str, str], k: int = 10) -> Run:
    retriever.index(iter(passages), folder)
    run: Run = retriever.search(queries, k)
    return run


@engine
def test_bm25_over_real_passages_ranks_as_bm25(
    mtrag_root: Path, tmp_path: Path, opened: list[MilvusRetriever], record_property: Any
) -> None:
    corpora = (official_passages(mtrag_root, domain) for domain in ("clapnq", "fiqa"))
    passages = [passage for corpus in corpora for passage in itertools.islice(corpus, 4000)]
    queries = dict(itertools.islice(official_queries(mtrag_root, "clapnq", "rewrite").items(), 100))
    assert len(passages) == 8000
    expected = searched(Bm25Retriever(), passages, tmp_path / "tantivy", queries)
    run = searched(milvus(opened, tmp_path, mode="bm25"), passages, tmp_path / "milvus", queries)
    record_property("overlap@10", overlap(run, expected))
    assert overlap(run, expected) >= 0.99
    assert sum(ids(run)[query] == ids(expected)[query] for query in queries) >= 0.99 * len(queries)


@engine
def test_dense_over_real_passages_ranks_as_exact_search(
    mtrag_root: Path, tmp_path: Path, opened: list[MilvusRetriever], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    passages = list(itertools.islice(official_passages(mtrag_root, "fiqa"), 400))
    queries = dict(itertools.islice(official_queries(mtrag_root, "fiqa", "rewrite").items(), 60))
    exact = DenseRetriever("minilm", max_length=16, shard_size=150)
    expected = searched(exact, passages, tmp_path / "in_process" / "dense", queries)
    retriever = milvus(opened, tmp_path, encoder=DenseRetriever("minilm", max_length=16, shard_size=150))
    run = searched(retriever, passages, tmp_path / "in_process", queries)
    assert overlap(run, expected) >= 0.99
    assert run == expected


@engine
def test_dense_over_twenty_thousand_real_passages_ranks_as_exact_search(
    mtrag_root: Path, tmp_path: Path, opened: list[MilvusRetriever]
) -> None:
    # Random projections of the passages' term weights, because an encoder would take minutes.
    weights = TermWeights("bm25")
    passages = (passage for domain in ("clapnq", "fiqa") for passage in official_passages(mtrag_root, domain))
    weights.prepare(itertools.islice(passages, 20_000), tmp_path / "terms", no_progress)
    texts = list(official_queries(mtrag_root, "clapnq", "rewrite").values())
    stored = projected([vector for _, vector in weights.stored(0)]).astype(np.float16)
    queries = projected(weights.queries(texts, no_progress))
    exact = ExactIndex.of([stored], [f"{row:05d}" for row in range(len(stored))], "faiss").search(queries, 10)
    server = milvus(opened, tmp_path, mode="bm25")._server
    collection = StoredVectors(server, "projected", stored.shape[1])
    collection.fill(
        len(stored), lambda n: ((row, stored[row].astype(np.float32)) for row in range(n, len(stored))), lambda n: None
    )
    answers = collection.search(list(queries), 10)
    shared = [
        len({row for row, _ in hits} & set(rows.tolist())) for hits, (rows, _) in zip(answers, exact, strict=True)
    ]
    assert len(stored) > 19_900
    assert sum(shared) / (10 * len(queries)) >= 0.99


def projected(vectors: Sequence[Any], width: int = 64) -> np.ndarray[Any, Any]:
    """Return sparse vectors as dense vectors of length 1; each dimension has its own random direction."""
    directions: dict[int, np.ndarray[Any, Any]] = {}
    generator = np.random.default_rng(0)
    rows = np.zeros((len(vectors), width), np.float32)
    for index, vector in enumerate(vectors):
        for dimension, weight in vector.items():
            if dimension not in directions:
                directions[dimension] = generator.standard_normal(width, dtype=np.float32)
            rows[index] += weight * directions[dimension]
    return rows / np.linalg.norm(rows, axis=1, keepdims=True)


@engine
def test_hybrid_mode_ranks_as_the_hybrid_of_both_embedded_retrievers(
    tmp_path: Path, opened: list[MilvusRetriever], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    queries = {"q1": "cats and mice", "q2": "", "q3": "zzz"}
    expected = searched(
        HybridRetriever([DenseRetriever("minilm"), Bm25Retriever()]), FEW[:5], tmp_path / "one", queries, 3
    )
    run = searched(milvus(opened, tmp_path, mode="hybrid", encoder="minilm"), FEW[:5], tmp_path / "two", queries, 3)
    assert run == expected
    assert run["q2"] == ()
    assert len(run["q1"]) == 3


@engine
def test_equal_passages_are_ordered_by_id_and_passages_that_share_no_term_are_left_out(
    tmp_path: Path, opened: list[MilvusRetriever]
) -> None:
    many = [*FEW, *(Passage(f"same-{number:03d}", "cheese") for number in range(60))]
    retriever = milvus(opened, tmp_path, mode="bm25")
    run = searched(retriever, many, tmp_path / "folder", {"cat": "a CAT", "none": "zebra", "cheese": "cheese!"}, k=5)
    assert ids(run)["cat"] == ["b", "d", "a"]
    assert run["none"] == ()
    assert ids(run)["cheese"] == [f"same-{number:03d}" for number in range(59, 54, -1)]


@engine
def test_empty_corpora_and_corpora_without_words_give_empty_rankings(
    tmp_path: Path, opened: list[MilvusRetriever]
) -> None:
    retriever = milvus(opened, tmp_path, mode="bm25")
    assert searched(retriever, [], tmp_path / "empty", {"q": "cat"}) == {"q": ()}
    assert searched(retriever, [Passage("x", "...")], tmp_path / "dots", {"q": "cat"}) == {"q": ()}


@engine
def test_a_stored_corpus_is_neither_counted_nor_stored_again(tmp_path: Path, opened: list[MilvusRetriever]) -> None:
    first = searched(milvus(opened, tmp_path, mode="bm25"), FEW, tmp_path / "folder", {"q": "cats"})
    opened[0].close()
    before = {path: path.stat().st_mtime_ns for path in (tmp_path / "folder").rglob("*") if path.is_file()}
    again = milvus(opened, tmp_path, mode="bm25")
    stored: list[tuple[str, int, int | None]] = []
    again.index(iter(FEW), tmp_path / "folder", lambda *step: stored.append(step))
    assert again.search({"q": "cats"}, 10) == first
    assert [step for step in stored if step[0].startswith("store")] == [("store bm25", 4, 4)]
    assert before == {path: path.stat().st_mtime_ns for path in (tmp_path / "folder").rglob("*") if path.is_file()}


KILLED = """
import sys
from pathlib import Path
from ragtasks.records import Passage
from retrieval_cache.engines.milvus import MilvusRetriever

passages = [Passage(f"p{n:05d}", f"word{n % 97} word{n % 89} cats") for n in range(8000)]
folder = Path(sys.argv[1])

def told(what, done, total):
    if what.startswith("store"):
        print(done, flush=True)

MilvusRetriever(str(folder / "milvus.db"), mode="bm25").index(iter(passages), folder / "own", told)
"""


@engine
def test_a_killed_build_continues_where_it_stopped(tmp_path: Path, opened: list[MilvusRetriever]) -> None:
    root = Path(__file__).resolve().parents[3]
    process = subprocess.Popen(
        [sys.executable, "-c", KILLED, str(tmp_path)],
        stdout=subprocess.PIPE,
        env={**os.environ, "PYTHONPATH": str(root)},
        text=True,
    )
    assert process.stdout is not None
    with process.stdout:
        n_stored = int(next(process.stdout))
        process.send_signal(signal.SIGKILL)
    assert process.wait() == -signal.SIGKILL
    assert n_stored < 8000
    passages = [Passage(f"p{n:05d}", f"word{n % 97} word{n % 89} cats") for n in range(8000)]
    queries = {"q": "word3 word5", "r": "word96 cats"}
    retriever = milvus(opened, tmp_path, mode="bm25")
    stored: list[int] = []
    retriever.index(iter(passages), tmp_path / "own", lambda what, n, _: stored.append(n) if "store" in what else None)
    assert stored[0] >= n_stored
    assert stored[-1] == 8000
    (tmp_path / "undisturbed").mkdir()
    undisturbed = milvus(opened, tmp_path / "undisturbed", mode="bm25")
    assert retriever.search(queries, 20) == searched(undisturbed, passages, tmp_path / "other", queries, 20)


@engine
def test_a_collection_of_another_format_is_not_changed(tmp_path: Path, opened: list[MilvusRetriever]) -> None:
    from pymilvus import MilvusClient

    retriever = milvus(opened, tmp_path, mode="bm25")
    retriever.index(iter(FEW), tmp_path / "folder")
    client = MilvusClient(uri=str(tmp_path / "milvus.db"))
    (name,) = client.list_collections()
    client.drop_collection(name)
    client.create_collection(name, dimension=7)
    with pytest.raises(CacheError, match=r"another collection of this name(.|\n)*7 dimensions(.|\n)*collection=NAME"):
        retriever.index(iter(FEW), tmp_path / "folder")
    client.close()


def test_an_unreachable_server_is_named_without_its_secrets(tmp_path: Path) -> None:
    address = "http://somebody:hush@127.0.0.1:9"
    retriever = MilvusRetriever(address, mode="bm25", token="somebody:whisper", timeout_seconds=1)
    begin = time.monotonic()
    with pytest.raises(CacheError, match=r"127\.0\.0\.1:9") as caught:
        retriever.index(iter(FEW), tmp_path)
    assert time.monotonic() - begin < 30
    shown = f"{caught.value} {caught.value.__cause__} {retriever.name} {retriever.describe()}"
    assert "hush" not in shown
    assert "whisper" not in shown
    assert not list(tmp_path.iterdir())


def test_an_address_that_is_neither_file_nor_server_is_refused(tmp_path: Path) -> None:
    with pytest.raises(CacheError, match=r"ending in \.db"):
        MilvusRetriever(str(tmp_path / "milvus.sqlite"), mode="bm25").index(iter(FEW), tmp_path / "folder")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"mode": "bm52"}, "did you mean 'bm25'"),
        ({"mode": "dense"}, "an encoder"),
        ({"mode": "bm25", "encoder": "minilm"}, "no encoder"),
        ({"mode": "bm25", "analyzer": "bm25-standart"}, "did you mean 'bm25-standard'"),
    ],
)
def test_invalid_options_are_refused(options: dict[str, str], message: str) -> None:
    with pytest.raises(ConfigurationError, match=message):
        MilvusRetriever("x.db", **options)  # type: ignore[arg-type]


def test_search_before_index_and_k_out_of_range_are_refused() -> None:
    retriever = MilvusRetriever("x.db", mode="bm25")
    with pytest.raises(CacheError, match="call index first"):
        retriever.search({"q": "cat"}, 1)
    for k in (0, 16_385):
        with pytest.raises(ConfigurationError, match="16384"):
            retriever.search({"q": "cat"}, k)


@pytest.mark.parametrize(
    "line",
    [
        "milvus:x.db,encoder=minilm",
        "milvus:x.db,analyzer=bm25-standard,mode=bm25",
        'milvus:http://host:19530,collection=mine,encoder="minilm,max_length=16",mode=hybrid',
    ],
)
def test_the_canonical_line_parses_to_itself(line: str) -> None:
    assert parse(line).name == line


def test_the_description_depends_on_the_analyser_and_not_on_the_address() -> None:
    embedded, served = MilvusRetriever("x.db", mode="bm25"), MilvusRetriever("http://host:19530", mode="bm25")
    assert embedded.describe() == served.describe()
    assert embedded.describe() != MilvusRetriever("x.db", mode="bm25", analyzer="bm25-standard").describe()


@pytest.mark.parametrize(
    ("uri", "shown"),
    [
        ("https://user:pa@ss@host:19530/db?token=t#f", "https://host:19530/db"),
        ("http://host:19530", "http://host:19530"),
        ("folder/x.db", "folder/x.db"),
    ],
)
def test_addresses_are_shown_without_secrets(uri: str, shown: str) -> None:
    assert MilvusRetriever(uri, mode="bm25").name == f"milvus:{shown},mode=bm25"


def test_weights_are_those_of_the_formula() -> None:
    # k1 1.2, b .75, tf 2 of three terms, average length 4: 2 * 2.2 / (2 + 1.2 * (.25 + .75 * 3 / 4)).
    weights = saturated(np.array([2]), np.array([3]), 4.0)
    assert weights[0] == pytest.approx(2 * 2.2 / (2 + 1.2 * (0.25 + 0.75 * 3 / 4)))
    # 45 terms are stored as 44: one byte encodes eight lengths per doubling.
    assert saturated(np.array([1]), np.array([45]), 40.0)[0] == saturated(np.array([1]), np.array([44]), 40.0)[0]
    assert saturated(np.array([1]), np.array([39]), 40.0)[0] != saturated(np.array([1]), np.array([38]), 40.0)[0]
    assert rarity(10, 3) == pytest.approx(math.log(1 + 7.5 / 3.5))


WORDS = st.sampled_from(["cat", "cats", "dog", "the", "mouse", "running", "ran", "cheese"])
TEXTS = st.lists(st.lists(WORDS, min_size=1, max_size=60).map(" ".join), min_size=1, max_size=12)


@settings(max_examples=25, deadline=None)
@given(texts=TEXTS, query=TEXTS)
def test_the_inner_product_is_the_score_of_bm25(
    tmp_path_factory: pytest.TempPathFactory, texts: list[str], query: list[str]
) -> None:
    folder = tmp_path_factory.mktemp("weights")
    passages = [Passage(f"p{number:02d}", text) for number, text in enumerate(texts)]
    text = " ".join(query)
    expected = searched(Bm25Retriever(), passages, folder / "tantivy", {"q": text}, k=len(passages))["q"]
    weights = TermWeights("bm25")
    weights.prepare(iter(passages), folder / "weights", no_progress)
    (wanted,) = weights.queries([text], no_progress)
    assert isinstance(wanted, dict)
    scores = {
        passages[row].passage_id: sum(weight * wanted.get(dimension, 0.0) for dimension, weight in vector.items())
        for row, vector in weights.stored(0)
        if isinstance(vector, dict)
    }
    nonzero = {passage_id: score for passage_id, score in scores.items() if score}
    assert nonzero == pytest.approx({ranked.passage_id: ranked.score for ranked in expected}, rel=1e-5)


@pytest.mark.parametrize("first", [0, 1, 3, 4])
def test_storing_resumes_at_any_row(tmp_path: Path, first: int) -> None:
    weights = TermWeights("bm25")
    weights.prepare(iter([Passage("0", "---"), *FEW]), tmp_path, no_progress)
    rows = list(weights.stored(0))
    assert [row for row, _ in rows] == list(weights.rows()) == [1, 2, 3, 4]
    assert list(weights.stored(first)) == rows[first:]

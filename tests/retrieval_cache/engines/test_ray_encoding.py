"""Encoding on two Ray nodes, one of which is killed: the shards equal those of a single process."""

from __future__ import annotations

import itertools
import json
import os
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from filelock import FileLock

from ragtasks.errors import BenchmarkFileError, CacheError, ConfigurationError
from ragtasks.records import Passage
from retrieval_cache.engines.ray_workers import RayWorkers
from retrieval_cache.retrievers.dense import DenseRetriever
from tests._shared import of_all_processes
from tests.benchmarks.mtrag._official import official_passages

ray = pytest.importorskip("ray")
cluster_utils = pytest.importorskip("ray.cluster_utils")

pytestmark = [
    pytest.mark.engine,
    # Warnings of Ray: sockets and log files that its processes leave open, and announcements of later releases.
    pytest.mark.filterwarnings("ignore::ResourceWarning", "ignore::pytest.PytestUnraisableExceptionWarning"),
    pytest.mark.filterwarnings("ignore::FutureWarning:ray", "ignore::DeprecationWarning:ray"),
]

OPTIONS = {"shard_size": 16, "max_length": 32}
RETRIEVER = "dense:minilm,max_length=32,shard_size=16"
N_SHARDS = 24


class Nodes:
    """A cluster of two nodes with one CPU each; the second can be killed."""

    def __init__(self) -> None:
        settings = {
            "worker_niceness": 0,  # by default workers get the CPUs left by other tests
            "health_check_initial_delay_ms": 500,
            "health_check_period_ms": 500,
            "health_check_timeout_ms": 2000,
            "health_check_failure_threshold": 3,
        }
        memory = {"num_cpus": 1, "object_store_memory": 80 * 2**20}
        self.cluster = cluster_utils.Cluster(
            initialize_head=True, head_node_args={**memory, "_system_config": settings}
        )
        self.second = self.cluster.add_node(**memory)

    def kill_second(self) -> None:
        self.cluster.remove_node(self.second, allow_graceful=False)


@pytest.fixture(scope="module")
def nodes(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Nodes]:
    root = Path(__file__).resolve().parents[3]
    # Raises if another test process has a cluster, see tests/_groups.py.
    with pytest.MonkeyPatch.context() as patch, FileLock(of_all_processes(tmp_path_factory) / "ray.lock", timeout=0):
        patch.setenv("HF_HUB_OFFLINE", "1")
        patch.setenv("RAY_USAGE_STATS_ENABLED", "0")
        patch.setenv("PYTHONPATH", f"{root}{os.pathsep}{os.environ.get('PYTHONPATH', '')}".rstrip(os.pathsep))
        started = Nodes()
        ray.init(address=started.cluster.address, log_to_driver=False)
        yield started
        ray.shutdown()
        started.cluster.shutdown()


@pytest.fixture
def passages(mtrag_root: Path) -> list[Passage]:
    return list(itertools.islice(official_passages(mtrag_root, "clapnq"), N_SHARDS * 16 - 5))


def contents(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in sorted(folder.iterdir())}


def n_finished(store: Path) -> int:
    return len(list(store.glob("vectors/*/shard-*.json")))


def encoded(passages: list[Passage], folder: Path, model: str = "minilm", **workers: Any) -> list[tuple[str, int]]:
    """Encode passages by workers; return the reported progress."""
    steps: list[tuple[str, int]] = []
    retriever = DenseRetriever(model, **OPTIONS)
    retriever.encode_with(RayWorkers(**workers).fill)
    retriever.index(iter(passages), folder, lambda step, done, total: steps.append((step, done)))
    return steps


def retrieve(corpus: Path, queries: str, *options: str) -> subprocess.CompletedProcess[str]:
    """Run the command on the sample, with another corpus for one of its domains."""
    line = ["--benchmark", "custom", "--data", "sample", "--retriever", RETRIEVER, "--queries", queries]
    line += ["--corpus", f"lending={corpus}", *options]
    command = [sys.executable, "-c", "from ragtasks.cli import main; main()", "retrieve", *line]
    return subprocess.run(command, capture_output=True, text=True, check=False, timeout=500)


# Must be the first test: the others use the one node that it leaves.
def test_a_node_killed_during_encoding_changes_no_vector(
    nodes: Nodes, passages: list[Passage], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store, corpus = tmp_path / "store", tmp_path / "corpus.jsonl"
    monkeypatch.setenv("RAGTASKS_RUNS", str(store))
    rows = ({"_id": passage.passage_id, "title": passage.title, "text": passage.text} for passage in passages)
    corpus.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    finished_at_kill: list[int] = []

    def kill_in_the_middle() -> None:
        # Both CPUs in use: the killed node has a worker.
        while n_finished(store) < 3 or ray.available_resources().get("CPU", 0) > 0:
            time.sleep(0.02)
        nodes.kill_second()
        finished_at_kill.append(n_finished(store))

    killer = threading.Thread(target=kill_in_the_middle, daemon=True)
    killer.start()
    done = retrieve(corpus, "last_turn", "--encode-with", f"ray:{nodes.cluster.address},workers=2-2")
    assert done.returncode == 0, done.stderr
    killer.join(timeout=60)
    assert finished_at_kill
    assert 3 <= finished_at_kill[0] < N_SHARDS
    assert sum(node["Alive"] for node in ray.nodes()) == 1
    folder = max((store / "vectors").iterdir(), key=lambda path: len(list(path.glob("shard-*"))))
    assert not folder.with_name(f"{folder.name}.spool").exists()
    alone = DenseRetriever("minilm", **OPTIONS)
    alone.index(iter(passages), tmp_path / "alone")
    ours, expected = contents(folder), contents(tmp_path / "alone")
    assert list(ours) == ["made_of.json", *expected]
    for name in (name for name in ours if name.endswith(".npy")):
        # Not compared by bytes: with another number of threads sums have another order, sometimes visible in float16.
        np.testing.assert_allclose(np.load(folder / name), np.load(tmp_path / "alone" / name), atol=1e-3)
    again = retrieve(corpus, "all_questions")
    assert again.returncode == 0, again.stderr
    assert contents(folder) == ours, "the command encoded finished shards again"


def test_finished_shards_are_kept_and_corrupt_shards_are_encoded_again(
    nodes: Nodes, passages: list[Passage], tmp_path: Path
) -> None:
    folder, some = tmp_path / "vectors", passages[:64]
    DenseRetriever("minilm", **OPTIONS).index(iter(some), folder)
    content_before = contents(folder)
    (folder / "shard-000001.json").unlink()
    (folder / "shard-000002.npy").write_bytes(b"corrupt")
    assert encoded(some, folder)[-1] == ("encode shards", 2)
    assert list(contents(folder)) == list(content_before)
    for name in ("shard-000001.npy", "shard-000002.npy"):
        np.testing.assert_allclose(np.load(folder / name), np.load(_written(tmp_path, name, content_before)), atol=1e-3)
    assert encoded(some, folder)[-1] == ("read passages", 64)


def _written(folder: Path, name: str, content: dict[str, bytes]) -> Path:
    path = folder / f"whole-{name}"
    path.write_bytes(content[name])
    return path


def test_errors_of_a_worker_are_reported_unchanged(nodes: Nodes, tmp_path: Path) -> None:
    folder = tmp_path / "vectors"
    with pytest.raises(ConfigurationError, match="no-such-model"):
        encoded([Passage("a", "text")], folder, "no-such-model")
    # A folder at the path of shard 0 makes the worker's write fail.
    (folder / "shard-000000.npy").mkdir(parents=True)
    with pytest.raises(CacheError, match=r"cannot write.*shard-000000") as caught:
        encoded([Passage("a", "text")], folder)
    assert "Traceback" not in str(caught.value)


def test_bad_input_is_refused_before_a_worker_starts(nodes: Nodes, tmp_path: Path) -> None:
    with pytest.raises(BenchmarkFileError, match="'empty'"):
        encoded([Passage("empty", " ")], tmp_path / "vectors")
    with pytest.raises(ConfigurationError, match="0 GPUs; a worker requires 1 and 1"):
        encoded([Passage("a", "text")], tmp_path / "vectors", gpus=1)
    assert encoded([], tmp_path / "vectors") == []


def test_one_shard_is_shared_by_the_workers(nodes: Nodes, passages: list[Passage], tmp_path: Path) -> None:
    options = {"max_length": 32, "batch_tokens": 256}
    alone, shared = (DenseRetriever("minilm", **options) for _ in range(2))
    alone.index(passages, tmp_path / "alone")
    workers = RayWorkers(workers=(1, 2))
    shares: list[Any] = []

    class Counting(RayWorkers):
        def mapped(self, worker: Any, arguments: Any, rows: list[Any]) -> Iterator[dict[str, Any]]:
            shares.extend(row["share"] for row in rows)
            return workers.mapped(worker, arguments, rows)

    shared.encode_with(Counting(workers=(1, 2)).fill)
    shared.index(passages, tmp_path / "shared")
    assert shares == [[part, 8] for part in range(8)]
    assert list(contents(tmp_path / "shared")) == ["shard-000000.json", "shard-000000.npy"]
    ours, expected = (np.load(tmp_path / name / "shard-000000.npy") for name in ("shared", "alone"))
    np.testing.assert_allclose(ours, expected, atol=1e-3)

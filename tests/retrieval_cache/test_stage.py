"""The stage end to end on the sample: stored and reused files, kills, and inputs that change the key."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import pytest

from ragtasks.benchmarks import Benchmark, contexts_of_run
from ragtasks.errors import CacheError, ConfigurationError
from ragtasks.files import read_contexts, read_manifest
from ragtasks.records import Setting
from retrieval_cache.queries import Queries, build_queries, fused_queries
from retrieval_cache.retrievers.fusion import reciprocal_rank_fusion
from retrieval_cache.retrievers.protocol import Retriever
from retrieval_cache.spec import parse
from retrieval_cache.stage import RunRequest, build_run, read_run
from retrieval_cache.store import RunStore, diff_runs, verify_run
from tests._shared import KILLS


def _request(sample: Benchmark, line: str = "bm25", form: str = "rewrite", **changes: object) -> RunRequest:
    request = RunRequest(sample, build_queries(sample, form), lambda: parse(line), depth=20)
    return replace(request, **changes)


def _bytes(folder: Path) -> dict[str, bytes]:
    return {
        str(path.relative_to(folder)): path.read_bytes()
        for path in sorted(folder.rglob("*"))
        if path.is_file() and path.name != "manifest.json"
    }


@pytest.fixture(scope="module")
def stored(sample: Benchmark, tmp_path_factory: pytest.TempPathFactory) -> tuple[RunStore, Path]:
    store = RunStore(tmp_path_factory.mktemp("store"))
    return store, build_run(_request(sample), store).folder


def test_a_run_only_contains_tasks_and_ranks_references_high(sample: Benchmark, stored: tuple[RunStore, Path]) -> None:
    store, folder = stored
    run = read_run(store.named(folder.name))
    assert set(run) <= {task.task_id for task in sample.tasks}
    judged = [task for task in sample.tasks if task.references]
    has_reference = [
        any(
            ranked.passage_id in {passage.passage_id for passage in task.references} for ranked in run[task.task_id][:5]
        )
        for task in judged
    ]
    assert sum(has_reference) / len(has_reference) > 0.8


def test_full_rag_contexts_are_the_first_five_of_the_run_with_their_texts(
    sample: Benchmark, stored: tuple[RunStore, Path]
) -> None:
    store, folder = stored
    run = read_run(store.named(folder.name))
    contexts = contexts_of_run(store.root, folder.name, sample, Setting.FULL_RAG)
    assert set(contexts.passages) == {task.task_id for task in sample.tasks}
    for task_id, passages in contexts.passages.items():
        assert [passage.passage_id for passage in passages] == [passage.passage_id for passage in run[task_id][:5]]
        assert all(passage.text for passage in passages)


def test_reference_rag_contexts_start_with_the_references(sample: Benchmark, stored: tuple[RunStore, Path]) -> None:
    contexts = read_contexts(stored[1], Setting.REFERENCE_RAG)
    few = {task.task_id: task for task in sample.tasks if len(task.references) <= 2}
    assert set(contexts.passages) == set(few)
    for task_id, passages in contexts.passages.items():
        n_references = len(few[task_id].references)
        assert passages[:n_references] == few[task_id].references
        assert len(passages) == len({passage.passage_id for passage in passages}) == 5


def test_an_existing_run_is_reused(sample: Benchmark, stored: tuple[RunStore, Path]) -> None:
    store, folder = stored
    before = (folder / "manifest.json").stat().st_mtime_ns
    assert build_run(_request(sample), store).folder == folder
    assert (folder / "manifest.json").stat().st_mtime_ns == before


@pytest.mark.parametrize("line", ["bm25-standard", "bm25s:k1=0.9,b=0.4", "rank_bm25", "hybrid(bm25,bm25-standard)"])
def test_other_retrievers_make_other_runs(sample: Benchmark, stored: tuple[RunStore, Path], line: str) -> None:
    store, folder = stored
    other = build_run(_request(sample, line), store)
    assert other.folder != folder
    assert any(part.startswith("retriever") for part in diff_runs(other.manifest, read_manifest(folder)))


def test_several_query_forms_are_fused_by_reciprocal_rank(sample: Benchmark, tmp_path: Path) -> None:
    """Like the hybrid of the single forms' runs. Each form's texts change the key; their order only changes the
    name.
    """
    store = RunStore(tmp_path)
    forms = ("last_turn", "rewrite", "all_questions")
    singles = [build_run(_request(sample, form=form, depth=100), store) for form in forms]
    parts = [build_queries(sample, form) for form in forms]
    fused = build_run(_request(sample, queries=fused_queries(parts), depth=100), store)
    expected = reciprocal_rank_fusion([read_run(run) for run in singles], depth=100)
    fused_run = read_run(fused)
    for query_id, ranked in fused_run.items():
        assert [passage.passage_id for passage in ranked] == [
            passage.passage_id for passage in expected[query_id][:100]
        ]
    assert fused.folder.name == "bm25.last_turn-rewrite-all_questions.sample"
    assert fused.manifest.spec["queries"]["of"] == [{"form": form} for form in forms]
    assert fused.manifest.metadata["rewriting"] == singles[1].manifest.metadata["rewriting"]
    shallow = read_run(build_run(_request(sample, queries=fused_queries(parts), depth=7), store))
    assert {name: ranked[:7] for name, ranked in fused_run.items()} == shallow
    changed = replace(parts[2], texts=dict.fromkeys(parts[2].texts, "ferry"))
    other = build_run(_request(sample, queries=fused_queries([*parts[:2], changed]), depth=100), store)
    assert other.manifest.key != fused.manifest.key


def test_a_single_form_is_unchanged_and_repeated_forms_are_refused(sample: Benchmark) -> None:
    queries = build_queries(sample, "rewrite")
    assert fused_queries([queries]) is queries
    with pytest.raises(ConfigurationError, match="rewrite more than once"):
        fused_queries([queries, build_queries(sample, "last_turn"), queries])


def test_the_key_depends_on_queries_and_depth_and_not_on_the_name(sample: Benchmark, tmp_path: Path) -> None:
    store = RunStore(tmp_path)
    first = build_run(_request(sample), store).manifest.key
    texts = dict(build_queries(sample, "rewrite").texts)
    changed = {**texts, next(iter(texts)): "something else"}
    assert build_run(_request(sample, queries=Queries("rewrite", changed)), store).manifest.key != first
    assert build_run(_request(sample, depth=19), store).manifest.key != first
    mine = build_run(_request(sample, name="mine"), store)
    assert (mine.manifest.key, mine.manifest.name, verify_run(mine)) == (first, "mine", [])


def test_another_corpus_text_or_library_version_makes_another_run(sample: Benchmark, tmp_path: Path) -> None:
    def newer() -> Retriever:
        retriever = parse("bm25")
        described = {**retriever.describe(), "version": "next"}
        retriever.describe = lambda: described  # type: ignore[method-assign]
        return retriever

    def corpora(text: str) -> dict[str, str]:
        (tmp_path / text).write_text(f'{{"_id": "p1", "title": "", "text": "A permit for a deck {text}"}}\n')
        return {"govt": str(tmp_path / text)}

    store, n_other_domains = RunStore(tmp_path / "runs"), len({task.domain for task in sample.tasks} - {"govt"})
    first = build_run(_request(sample, corpora=corpora("is free.jsonl")), store)
    second = build_run(_request(sample, corpora=corpora("is dear.jsonl")), store)
    assert len(list((store.root / "indexes").iterdir())) == n_other_domains + 2
    third = build_run(_request(sample, corpora=corpora("is dear.jsonl"), make_retriever=newer), store)
    assert len(list((store.root / "indexes").iterdir())) == 2 * n_other_domains + 3
    assert len({run.manifest.key for run in (first, second, third)}) == 3


def test_an_existing_name_is_refused_and_an_existing_default_name_gets_a_suffix(
    sample: Benchmark, tmp_path: Path
) -> None:
    store = RunStore(tmp_path)
    build_run(_request(sample, name="mine"), store)
    with pytest.raises(ConfigurationError, match="official"):
        build_run(_request(sample, name="official"), RunStore(tmp_path / "other"))
    assert not list((tmp_path / "other").rglob("*.trec")), "it was refused before anything was searched"
    with pytest.raises(CacheError, match="results remove mine"):
        build_run(_request(sample, form="last_turn", name="mine"), store)
    first = build_run(_request(sample, form="last_turn"), store)
    second = build_run(_request(sample, form="last_turn", depth=7), store)
    assert second.folder.name.startswith(first.folder.name + ".")


def test_a_changed_file_is_reported_by_verify_and_refused_by_the_reader(sample: Benchmark, tmp_path: Path) -> None:
    store = RunStore(tmp_path)
    run = build_run(_request(sample), store)
    assert verify_run(run) == []
    contexts = run.folder / "contexts/full_rag.jsonl"
    contexts.write_bytes(contexts.read_bytes().replace(b"the", b"THE", 1))
    assert verify_run(run) == [f"{contexts}: content changed since it was written"]
    with pytest.raises(CacheError, match="was changed after it was written"):
        contexts_of_run(store.root, run.folder.name, sample, Setting.FULL_RAG)


def test_a_run_for_other_data_is_refused_with_the_differences(sample: Benchmark, stored: tuple[RunStore, Path]) -> None:
    store, folder = stored
    other = replace(sample, tasks=sample.tasks[1:])
    with pytest.raises(CacheError, match="tasks: run"):
        contexts_of_run(store.root, folder.name, other, Setting.FULL_RAG)


def test_a_corrupt_run_can_be_removed(sample: Benchmark, tmp_path: Path) -> None:
    store = RunStore(tmp_path)
    run = build_run(_request(sample, name="mine"), store)
    (run.folder / "manifest.json").write_text("{", encoding="utf-8")
    with pytest.raises(CacheError, match=r"(?s)unexpected end of data.*remove the run"):
        store.named("mine")
    assert build_run(_request(sample, name="other"), store).folder.name == "other", (
        "a corrupt run does not block other runs"
    )
    (line,) = store.unreadable()
    assert str(run.folder) in line
    (tmp_path / "building" / "removed-mine" / "left by a kill").mkdir(parents=True)
    store.remove("mine")
    assert [run.folder.name for run in store.all()] == ["other"]


def test_an_unknown_run_is_refused_with_close_names(sample: Benchmark, stored: tuple[RunStore, Path]) -> None:
    store, folder = stored
    with pytest.raises(CacheError, match=folder.name):
        contexts_of_run(store.root, folder.name[:-1], sample, Setting.FULL_RAG)


_BUILD = """
import sys
from pathlib import Path
from ragtasks.benchmarks import benchmark_folder, open_benchmark
from retrieval_cache.queries import build_queries
from retrieval_cache.spec import parse
from retrieval_cache.stage import RunRequest, build_run
from retrieval_cache.store import RunStore
sample = open_benchmark("mtrag", benchmark_folder("mtrag", "sample", Path("unused")))
print("ready", flush=True)
build_run(RunRequest(sample, build_queries(sample, "rewrite"), lambda: parse("bm25"), 20), RunStore(Path(sys.argv[1])))
"""


def _start(store: Path) -> subprocess.Popen[str]:
    return subprocess.Popen([sys.executable, "-c", _BUILD, str(store)], stdout=subprocess.PIPE, text=True)


@KILLS
def test_killed_builds_resume_to_the_same_bytes(stored: tuple[RunStore, Path], tmp_path: Path, n_kills: int) -> None:
    chance = random.Random(7)
    for _ in range(n_kills):
        process = _start(tmp_path)
        assert process.stdout.readline() == "ready\n"
        time.sleep(chance.uniform(0, 0.4))
        os.kill(process.pid, signal.SIGKILL)
        process.communicate()
    finished = _start(tmp_path)
    finished.communicate()
    assert finished.returncode == 0
    (run,) = RunStore(tmp_path).all()
    assert verify_run(run) == []
    assert _bytes(run.folder) == _bytes(stored[1])


def test_partial_files_of_killed_builds_are_not_published(
    sample: Benchmark, stored: tuple[RunStore, Path], tmp_path: Path
) -> None:
    store = RunStore(tmp_path)
    work = store.folder("building", read_manifest(stored[1]).key)
    for name in ("fiqa.trec.1.part", "contexts/full_rag.jsonl.2.part"):
        (work / name).parent.mkdir(parents=True, exist_ok=True)
        (work / name).write_bytes(b"corrupt")
    assert _bytes(build_run(_request(sample), store).folder) == _bytes(stored[1])


@pytest.mark.slow
def test_two_processes_build_a_single_run(tmp_path: Path) -> None:
    both = [_start(tmp_path), _start(tmp_path)]
    for process in both:
        process.communicate()
    assert [process.returncode for process in both] == [0, 0]
    assert len(RunStore(tmp_path).all()) == 1

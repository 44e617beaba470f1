"""One index a corpus, for the stage and for queries of the moment."""

from __future__ import annotations

from functools import partial
from pathlib import Path

import pytest

from ragtasks.benchmarks import benchmark_folder, open_benchmark
from ragtasks.benchmarks._registry import SAMPLE
from ragtasks.errors import ConfigurationError
from retrieval_cache.indexes import domain_retriever
from retrieval_cache.queries import build_queries
from retrieval_cache.spec import parse
from retrieval_cache.stage import DEPTH, Request, build_run, read_run
from retrieval_cache.store import RunStore

BENCHMARK = open_benchmark("mtrag", benchmark_folder("mtrag", SAMPLE, Path()).resolve())


def test_it_finds_what_the_stage_finds_by_the_same_index(tmp_path: Path) -> None:
    store, make = RunStore(tmp_path), partial(parse, "bm25")
    queries = build_queries(BENCHMARK, "rewrite")
    stored = read_run(build_run(Request(BENCHMARK, queries, make), store))
    indexes = sorted(path.name for path in (tmp_path / "indexes").iterdir())
    told: list[str] = []
    retriever = domain_retriever(BENCHMARK, "govt", make, store, lambda what, *_: told.append(what))
    texts = {task.task_id: queries.texts[task.task_id] for task in BENCHMARK.tasks if task.domain == "govt"}
    found = retriever.search(texts, DEPTH)
    assert {key: ranking for key, ranking in found.items() if ranking} == {
        key: ranking for key, ranking in stored.items() if key in texts
    }
    assert sorted(path.name for path in (tmp_path / "indexes").iterdir()) == indexes
    assert all(what.startswith("govt: ") for what in told)


def test_a_stored_ranking_is_no_retriever_of_new_queries(tmp_path: Path) -> None:
    file = tmp_path / "own.trec"
    file.write_text("q<::>1 Q0 p 1 1.0 t\n")
    with pytest.raises(ConfigurationError, match="finds no others"):
        domain_retriever(BENCHMARK, "govt", partial(parse, f"run:{file}"), RunStore(tmp_path))

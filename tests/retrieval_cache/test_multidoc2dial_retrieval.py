"""MultiDoc2Dial in the precompute stage: the paper's query forms and retrievers, twenty units per task."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import pytest

from ragtasks.benchmarks import Benchmark, benchmark_folder, contexts_of_run, open_benchmark
from ragtasks.errors import ConfigurationError
from ragtasks.records import Setting
from ragtasks.tables import Format, render
from retrieval_cache.queries import build_queries, fused_queries
from retrieval_cache.service import Workspace, evaluate_runs, retrieve
from retrieval_cache.stage import read_run
from tests._messages import raises


def benchmark(name: str) -> Benchmark:
    return open_benchmark(name, benchmark_folder(name, "sample", Path()).resolve())


def workspace_of(name: str, folder: Path) -> Workspace:
    return Workspace(name, "sample", folder / "data", folder / "store")


def queries(form: str, name: str = "multidoc2dial") -> Mapping[str, str]:
    return build_queries(benchmark(name), form).texts


def test_the_papers_query_forms_are_accepted_as_aliases() -> None:
    tasks = benchmark("multidoc2dial").tasks
    task_id = next(task.task_id for task in tasks if task.question == "And what do the new ones cost me?")
    assert queries("contextualized")[task_id] == "And what do the new ones cost me?"
    assert queries("context")[task_id] == (
        "Yes, last night.\nGo to the police before anything else and get the number of their report.\n"
        "And what do the new ones cost me?"
    )
    assert queries("decontextualized")[task_id] == "What do new licence plates cost after a theft?"
    for alias, form in {
        "context": "last_2_turns",
        "contextualized": "last_turn",
        "decontextualized": "rewrite",
    }.items():
        built = build_queries(benchmark("multidoc2dial"), alias)
        assert built.form == alias, "tables show the requested name"
        assert replace(built, form=form) == build_queries(benchmark("multidoc2dial"), form)
        with pytest.raises(ConfigurationError, match=f"{form} more than once"):
            fused_queries([built, build_queries(benchmark("multidoc2dial"), form)])


def test_a_question_without_a_rewrite_is_unchanged() -> None:
    built = build_queries(benchmark("multidoc2dial_propositions"), "decontextualized")
    assert len(built.fallbacks) == 34 - 28
    with pytest.raises(ConfigurationError, match="llm_rewrite"):
        build_queries(benchmark("doc2dial"), "decontextualized")


def test_bm25_parameters_and_fusion_are_evaluated_on_passages(tmp_path: Path) -> None:
    workspace = workspace_of("multidoc2dial", tmp_path)
    lines = ["bm25s:k1=0.9,b=0.4", "bm25s:k1=2.0,b=1.0", "hybrid(bm25,bm25s;k=60,depth=20)"]
    names = [retrieve(workspace, line, "contextualized", depth=20).folder.name for line in lines]
    text = render([evaluate_runs(workspace, names)], Format.MARKDOWN)
    header = next(line for line in text.splitlines() if line.startswith("| run"))
    assert {"AP", "R@5", "R@10", "R@20"} <= {cell.strip() for cell in header.split("|")}
    assert "| contextualized " in text
    assert "| last_turn " not in text
    assert "| 31 |" in text


def test_fusion_uses_the_papers_formula(tmp_path: Path) -> None:
    workspace = workspace_of("multidoc2dial_token", tmp_path)
    parts = [read_run(retrieve(workspace, line, "context", depth=20)) for line in ("bm25", "bm25s")]
    fused = read_run(retrieve(workspace, "hybrid(bm25,bm25s;k=60,depth=20)", "context", depth=20))
    task_id = next(iter(fused))
    ranks = [{ranked.passage_id: rank for rank, ranked in enumerate(part[task_id], start=1)} for part in parts]
    for ranked in fused[task_id]:
        shares = [1 / (60 + own[ranked.passage_id]) for own in ranks if ranked.passage_id in own]
        assert ranked.score == pytest.approx(sum(shares))


def test_a_run_over_propositions_gives_twenty_passages_per_task(tmp_path: Path) -> None:
    workspace = workspace_of("multidoc2dial_propositions", tmp_path)
    stored = retrieve(workspace, "bm25s", "full_conversation", depth=25, name="mine")
    contexts = contexts_of_run(workspace.store, "mine", benchmark("multidoc2dial_propositions"), Setting.FULL_RAG)
    # A ranking only contains passages that share a word with the query, so it may be shorter.
    ranked = read_run(stored)
    assert {task_id: len(passages) for task_id, passages in contexts.passages.items()} == {
        task.task_id: min(20, len(ranked.get(task.task_id, ())))
        for task in benchmark("multidoc2dial_propositions").tasks
    }
    assert max(len(passages) for passages in contexts.passages.values()) == 20
    with raises(ConfigurationError):
        evaluate_runs(workspace, ["mine"])
    assert json.loads((stored.folder / "manifest.json").read_text())["spec"]["benchmark"] == workspace.benchmark

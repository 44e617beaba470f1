"""Evidence scores of runs on the sample of MultiHop-RAG, as `evaluate-run` shows them."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from ragtasks.benchmarks import Benchmark, benchmark_folder, contexts_of_run, open_benchmark, retrieval_side
from ragtasks.files import Ranked, Run
from ragtasks.metrics import EVIDENCE_METRICS, mean_evidence_scores
from ragtasks.records import Setting
from retrieval_cache.evaluation import RetrievalReport, evidence_table, render_report
from retrieval_cache.service import Place, evaluate_runs, retrieve

SIDE = retrieval_side("multihop_rag")


@pytest.fixture(scope="module")
def benchmark() -> Benchmark:
    return open_benchmark("multihop_rag", benchmark_folder("multihop_rag", "sample", Path()).resolve())


def section(benchmark: Benchmark, runs: dict[str, Run | None]) -> str:
    """Return the evidence scores of runs as Markdown."""
    table = evidence_table(benchmark, SIDE, runs)
    assert table is not None
    return render_report(RetrievalReport(benchmark.label, (), (table,)))


def row_of(text: str, run: str) -> list[str]:
    (line,) = [line for line in text.splitlines() if line.startswith(f"| {run} ")]
    return [cell.strip() for cell in line.strip("| ").split("|")]


def test_the_published_rankings_are_scored_whole(benchmark: Benchmark) -> None:
    """Ten passages of each query, not the six that a model is shown."""
    text = section(benchmark, {"official": None})
    rows = json.loads((benchmark.root / "retrieved.json").read_text(encoding="utf-8"))
    rankings = {row["query"]: [item["text"] for item in row["retrieval_list"]] for row in rows}
    facts = {row["query"]: [item["fact"] for item in row["gold_list"]] for row in rows}
    expected = mean_evidence_scores(rankings, facts)
    assert row_of(text, "official") == ["official", "20", *(f"{score.value:.4f}" for score in expected.values())]
    assert all(len(ranking) == 10 for ranking in rankings.values())


def test_a_run_that_ranks_the_references_first_is_perfect_and_an_empty_one_nothing(benchmark: Benchmark) -> None:
    perfect: Run = {
        task.task_id: tuple(Ranked(item.passage_id, -rank) for rank, item in enumerate(task.references))
        for task in benchmark.tasks
    }
    text = section(benchmark, {"perfect": perfect, "empty": {}})
    assert set(row_of(text, "perfect")[2:8]) == {"1.0000"}
    assert set(row_of(text, "empty")[2:]) == {"0.0000"}


def test_a_run_over_another_corpus_is_not_scored_and_says_so(benchmark: Benchmark) -> None:
    foreign: Run = {benchmark.tasks[0].task_id: (Ranked("elsewhere-1", 1.0),)}
    text = section(benchmark, {"foreign": foreign})
    assert set(row_of(text, "foreign")[2:]) == {"-"}
    assert text.count("- foreign: it ranks passages that the benchmark's corpus does not have") == 1


def test_a_benchmark_that_counts_no_evidence_has_no_such_section(sample: Benchmark) -> None:
    assert evidence_table(sample, retrieval_side("mtrag"), {"official": None}) is None


def test_a_run_is_made_over_the_chunks_shown_in_tables_and_feeds_six_passages(
    benchmark: Benchmark, tmp_path: Path
) -> None:
    place = Place("multihop_rag", "sample", tmp_path / "data", tmp_path / "store")
    stored = retrieve(place, "bm25", "last_turn", depth=20)
    text = render_report(evaluate_runs(place, [stored.folder.name, "official"]))
    assert text.index("## By domain") < text.index("## Evidence found (over the 20 queries that have some)")
    assert all(f"- {metric.name}: {metric.description}" in text for metric in EVIDENCE_METRICS)
    evidence = text.partition("## Evidence found")[2]
    scores = [float(cell) for cell in row_of(evidence, stored.folder.name)[-7:]]
    assert all(0.5 < value <= 1 for value in scores)
    contexts = contexts_of_run(tmp_path / "store", stored.folder.name, benchmark, Setting.FULL_RAG)
    assert {len(passages) for passages in contexts.passages.values()} == {6}
    assert contexts.passages.keys() == {task.task_id for task in benchmark.tasks}

"""Evidence scores of runs on the sample of MultiHop-RAG, as printed by `evaluate-run`."""

from __future__ import annotations

import json
import runpy
import shutil
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from ragtasks.benchmarks import Benchmark, benchmark_folder, contexts_of_run, open_benchmark, retrieval_side
from ragtasks.errors import BenchmarkFileError, ConfigurationError
from ragtasks.files import Ranked, Run
from ragtasks.metrics import EVIDENCE_METRICS, RETRIEVAL_METRICS, mean_evidence_scores
from ragtasks.records import Setting
from ragtasks.tables import Format, Section, Value, render
from retrieval_cache.evidence import evidence_table
from retrieval_cache.service import Workspace, evaluate_runs, judge_runs, retrieve
from tests._messages import raises
from tests.conftest import MTRAG_CHECKOUT, REAL_DATA

SIDE = retrieval_side("multihop_rag")


@pytest.fixture(scope="module")
def benchmark() -> Benchmark:
    return open_benchmark("multihop_rag", benchmark_folder("multihop_rag", "sample", Path()).resolve())


def section(benchmark: Benchmark, runs: dict[str, Run | None]) -> str:
    """Return the evidence scores of runs as Markdown."""
    table = evidence_table(benchmark, runs)
    assert table is not None
    return render([Section(benchmark.label, {}, (table,))], Format.MARKDOWN)


def row_of(text: str, run: str) -> list[str]:
    (line,) = [line for line in text.splitlines() if line.startswith(f"| {run} ")]
    return [cell.strip() for cell in line.strip("| ").split("|")]


def test_the_published_rankings_are_scored_at_full_depth(benchmark: Benchmark) -> None:
    """All ten passages of each query, not the six shown to a model."""
    text = section(benchmark, {"official": None})
    rows = json.loads((benchmark.root / "retrieved.json").read_text(encoding="utf-8"))
    rankings = {row["query"]: [entry["text"] for entry in row["retrieval_list"]] for row in rows}
    facts = {row["query"]: [entry["fact"] for entry in row["gold_list"]] for row in rows}
    expected = mean_evidence_scores(rankings, facts)
    assert row_of(text, "official") == ["official", "20", *(f"{score.value:.4f}" for score in expected.values())]
    assert all(len(ranking) == 10 for ranking in rankings.values())


def test_references_first_score_1_and_an_empty_run_scores_0(benchmark: Benchmark) -> None:
    perfect: Run = {
        task.task_id: tuple(Ranked(reference.passage_id, -rank) for rank, reference in enumerate(task.references))
        for task in benchmark.tasks
    }
    text = section(benchmark, {"perfect": perfect, "empty": {}})
    assert set(row_of(text, "perfect")[2:8]) == {"1.0000"}
    assert set(row_of(text, "empty")[2:]) == {"0.0000"}


def test_a_run_over_another_corpus_is_unscored_with_the_reason(benchmark: Benchmark) -> None:
    foreign: Run = {benchmark.tasks[0].task_id: (Ranked("elsewhere-1", 1.0),)}
    text = section(benchmark, {"foreign": foreign})
    assert set(row_of(text, "foreign")[2:]) == {"-"}
    assert text.count("- foreign: it ranks passages that the benchmark's corpus does not have") == 1


def test_a_benchmark_without_evidence_has_no_evidence_table(sample: Benchmark) -> None:
    assert evidence_table(sample, {"official": None}) is None


def test_a_run_over_chunks_is_scored_and_gives_six_passages_per_task(benchmark: Benchmark, tmp_path: Path) -> None:
    workspace = Workspace("multihop_rag", "sample", tmp_path / "data", tmp_path / "store")
    stored = retrieve(workspace, "bm25", "last_turn", depth=20)
    text = render([evaluate_runs(workspace, [stored.folder.name, "official"])], Format.MARKDOWN)
    assert text.index("## By domain") < text.index("## Evidence found (over the 20 queries with evidence)")
    assert all(f"- {metric.name}: {metric.description}" in text for metric in EVIDENCE_METRICS)
    evidence = text.partition("## Evidence found")[2]
    scores = [float(cell) for cell in row_of(evidence, stored.folder.name)[-7:]]
    assert all(0.5 < value <= 1 for value in scores)
    contexts = contexts_of_run(tmp_path / "store", stored.folder.name, benchmark, Setting.FULL_RAG)
    assert {len(passages) for passages in contexts.passages.values()} == {6}
    assert contexts.passages.keys() == {task.task_id for task in benchmark.tasks}


def official_copy(results: list[dict[str, Any]], root: Path) -> Workspace:
    """Return a benchmark with a result file's queries, whose corpus has the facts in other chunks than the file."""
    articles: dict[str, dict[str, Any]] = {}
    for evidence in (evidence for row in results for evidence in row["gold_list"]):
        article = articles.setdefault(evidence["title"], {**evidence, "body": ""})
        article["body"] += f"{evidence['fact']} "
    counts = {"articles": len(articles), "by_type": dict(Counter(row["question_type"] for row in results))}
    (root / "dataset").mkdir(parents=True)
    for name, content in (
        ("dataset/corpus.json", list(articles.values())),
        ("dataset/MultiHopRAG.json", [{**row, "evidence_list": row["gold_list"]} for row in results]),
        ("retrieved.json", results),
        ("sample.json", {"version": "1", "counts": counts}),
    ):
        (root / name).write_text(json.dumps(content), encoding="utf-8")
    return Workspace("multihop_rag", str(root), root, root / "store")


def test_an_official_result_file_only_gets_the_scores_of_the_script(tmp_path: Path) -> None:
    path = REAL_DATA / "multihop_rag" / "llm-embedder_retrieval_test.json"
    if not path.is_file():
        pytest.skip(f"no official result file of MultiHop-RAG at {path}")
    results = json.loads(path.read_text(encoding="utf-8"))
    report = evaluate_runs(official_copy(results, tmp_path / "data"), ["official"])
    cells = dict(zip(report.tables[-1].columns, report.tables[-1].rows[0], strict=True))
    names = ("hits_official_10", "hits_official_4", "map_official_10", "mrr_official_10")
    assert [cells[name] for name in names] == ["0.7500", "0.6250", "0.2746", "0.5491"]
    values = [cell for table in report.tables[:-1] for row in table.rows for cell in row if isinstance(cell, Value)]
    assert {cell.value for cell in values} == {None}
    assert sum("passages that the benchmark's corpus does not have" in note for note in report.tables[0].legend) == 1

    by_path = evaluate_runs(Workspace("multihop_rag", None, tmp_path / "none", tmp_path / "store"), [str(path)])
    (table,) = by_path.tables
    scores = dict(zip(table.columns, table.rows[0], strict=True))
    assert (scores["file"], scores["n"]) == (path.name, "8")
    assert [scores[name] for name in names] == ["0.7500", "0.6250", "0.2746", "0.5491"]


def result(question: str, facts: list[str], texts: list[str], question_type: str = "inference_query") -> dict[str, Any]:
    return {
        "query": question,
        "answer": "a mill",
        "question_type": question_type,
        "retrieval_list": [{"text": text, "score": 0.5} for text in texts],
        "gold_list": [{"fact": fact} for fact in facts],
    }


def test_a_result_file_is_scored_over_its_own_queries(tmp_path: Path) -> None:
    """No data of the benchmark are available, the queries are few and foreign, and null queries do not count."""
    results = [
        result("What did Arden open?", ["Arden opened a mill."], ["Of ships.", "In May Arden opened a mill."]),
        result("What did Belmor sell?", ["Belmor sold a ship."], ["Of mills."]),
        result("Who is nobody?", [], ["Of mills."], "null_query"),
    ]
    path = tmp_path / "few.json"
    path.write_text(json.dumps(results), encoding="utf-8")
    nowhere = Workspace("multihop_rag", None, tmp_path / "none", tmp_path / "store")
    (table,) = evaluate_runs(nowhere, [str(path)]).tables
    assert table.rows[0] == ("few.json", "2", *["0.5000"] * 2, *["0.2500"] * 2, *["0.5000"] * 2, *["0.2500"] * 2)
    both = evaluate_runs(Workspace("multihop_rag", "sample", tmp_path, tmp_path / "store"), ["official", str(path)])
    assert both.tables[-1] == table
    assert both.tables[-2].rows[0][:2] == ("official", "20")


def test_invalid_result_files_and_unsupported_options_are_clear_errors(tmp_path: Path) -> None:
    nowhere = Workspace("multihop_rag", "sample", tmp_path, tmp_path / "store")
    path = tmp_path / "few.json"
    with pytest.raises(BenchmarkFileError, match="found: no file"):
        evaluate_runs(nowhere, [str(path)])
    path.write_text(json.dumps([result("Who?", [], ["Of mills."])]), encoding="utf-8")
    with raises(BenchmarkFileError):
        evaluate_runs(nowhere, [str(path)])
    with pytest.raises(ConfigurationError, match="--domain"):
        evaluate_runs(nowhere, [str(path)], ["news"])
    with pytest.raises(ConfigurationError, match="without --measures"):
        judge_runs(nowhere.open(), nowhere.store, [str(path)], RETRIEVAL_METRICS)


def test_a_repeated_chunk_counts_as_in_the_official_script(benchmark: Benchmark, tmp_path: Path) -> None:
    path = MTRAG_CHECKOUT.parent / "MultiHop-RAG" / "retrieval_evaluate.py"
    if not path.is_file():
        pytest.skip(f"no official script of MultiHop-RAG at {path}")
    root = tmp_path / "data"
    shutil.copytree(benchmark.root, root)
    results = json.loads((root / "retrieved.json").read_text(encoding="utf-8"))
    for row in results:
        row["retrieval_list"] = [row["retrieval_list"][-1]] * 2 + row["retrieval_list"][:8]
    (root / "retrieved.json").write_text(json.dumps(results), encoding="utf-8")
    scores = row_of(section(open_benchmark("multihop_rag", root), {"official": None}), "official")
    with_evidence = [row for row in results if row["gold_list"]]
    printed = runpy.run_path(str(path))["calculate_metrics"](
        [[entry["text"] for entry in row["retrieval_list"]] for row in with_evidence],
        [[entry["fact"] for entry in row["gold_list"]] for row in with_evidence],
    )
    assert scores[-4:] == [f"{printed[name]:.4f}" for name in ("Hits@4", "Hits@10", "MAP@10", "MRR@10")]
    assert scores[5] != scores[-1]

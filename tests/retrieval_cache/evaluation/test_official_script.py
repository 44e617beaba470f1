"""Scores of MTRAG's rankings compared with the unchanged official script, on real and harder files."""

from __future__ import annotations

import json
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from perf.official_scripts import rows_of, run_retrieval_script
from ragtasks.benchmarks import retrieval_side
from ragtasks.files import OFFICIAL, Run, read_run
from ragtasks.metrics import CUTOFFS, RETRIEVAL_METRICS
from retrieval_cache.evaluation import JudgedRun, judge
from retrieval_cache.rankings import Ranking
from retrieval_cache.retrievers.run_file import LEFT_OUT
from retrieval_cache.service import Workspace, judge_runs, retrieve

RAG = "mtrag-human/generation_tasks/RAG.jsonl"
_SCRIPT_CUTOFFS = [k for k in CUTOFFS if k <= 5]


def as_they_are(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return rows


def with_empties_and_ties(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Every 9th ranking is empty, every 7th task missing, scores are rounded to ties, and lists are shuffled."""
    choice = random.Random(7)
    changed = []
    for number, row in enumerate(rows):
        contexts = [{**context, "score": round(context["score"] / 4)} for context in row["contexts"]]
        choice.shuffle(contexts)
        if number % 7:
            changed.append({**row, "contexts": contexts if number % 9 else []})
    return changed


@pytest.mark.parametrize("change", [as_they_are, with_empties_and_ties])
def test_means_and_scores_by_query_equal_the_official_scripts(
    tmp_path: Path,
    mtrag_checkout: Path,
    mtrag_root: Path,
    change: Callable[[list[dict[str, Any]]], list[dict[str, Any]]],
) -> None:
    path, folder = tmp_path / "predictions.jsonl", tmp_path / "tree"
    path.write_text("".join(f"{json.dumps(row)}\n" for row in change(rows_of(mtrag_root / RAG))), encoding="utf-8")
    folder.mkdir()
    means, by_task = run_retrieval_script(mtrag_checkout, path, folder)
    evaluation = judged(Workspace("mtrag", str(mtrag_root), tmp_path, tmp_path), read_run(path))
    for column, k in enumerate(_SCRIPT_CUTOFFS):
        assert evaluation.ibm[f"recall_{k}"].value == pytest.approx(means["Recall"][column], abs=1e-9)
        assert evaluation.ibm[f"ndcg_{k}"].value == pytest.approx(means["nDCG"][column], abs=1e-9)
    scored = {result.query_id: result.values for result in evaluation.results if by_task.get(result.query_id)}
    assert len(scored) == sum(bool(row) for row in by_task.values()) > 600
    for task_id, values in scored.items():
        for k in _SCRIPT_CUTOFFS:
            assert values[f"recall_{k}"] == pytest.approx(by_task[task_id][f"recall_{k}"], abs=1e-9)
            assert values[f"nDCG@{k}"] == pytest.approx(by_task[task_id][f"ndcg_cut_{k}"], abs=1e-9)


def judged(workspace: Workspace, run: Run) -> JudgedRun:
    benchmark = workspace.open()
    side = retrieval_side(benchmark.name)
    qrels = [qrel for domain in side.domains for qrel in side.load_qrels(benchmark.root, domain)]
    return judge(Ranking("file", run), qrels, benchmark.tasks, data=benchmark.label)


def test_the_published_ranking_is_ordered_by_its_scores(mtrag_root: Path, tmp_path: Path) -> None:
    workspace = Workspace("mtrag", str(mtrag_root), tmp_path, tmp_path)
    evaluation = judge_runs(workspace.open(), workspace.store, [OFFICIAL], RETRIEVAL_METRICS)[0]
    assert evaluation.ibm == judged(workspace, read_run(mtrag_root / RAG)).ibm


def test_a_stored_run_keeps_empty_and_missing_rankings_apart(tmp_path: Path) -> None:
    workspace = Workspace("mtrag", "sample", tmp_path, tmp_path)
    root = workspace.open().root
    rows = with_empties_and_ties(rows_of(root / RAG))
    path = tmp_path / "predictions.jsonl"
    path.write_text("".join(f"{json.dumps(row)}\n" for row in rows), encoding="utf-8")
    stored = retrieve(workspace, f"run:{path}", "last_turn", name="mine", depth=20)
    assert sum(len(counts[LEFT_OUT]) for counts in stored.manifest.metadata["retrieval"].values()) == 112 - len(rows)
    (evaluation,), direct = (
        judge_runs(workspace.open(), workspace.store, ["mine"], RETRIEVAL_METRICS),
        judged(workspace, read_run(path)),
    )
    assert {name: score.value for name, score in evaluation.ibm.items()} == pytest.approx(
        {name: score.value for name, score in direct.ibm.items()}, abs=1e-12
    )
    assert set(evaluation.coverage.omitted) == set(direct.coverage.omitted) != set()
    assert set(evaluation.coverage.empty) == set(direct.coverage.empty) != set()

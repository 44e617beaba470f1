"""Runs compared on the sample: the means of `evaluate-run`, over conversations."""

from __future__ import annotations

from pathlib import Path

import pytest
from typer.testing import CliRunner

from ragtasks.benchmarks import Benchmark, stored_name
from ragtasks.cli import app
from ragtasks.errors import ConfigurationError, RagtasksError
from ragtasks.files import Manifest, write_manifest
from ragtasks.metrics import RETRIEVAL_METRICS
from ragtasks.tables import Difference
from retrieval_cache import compare_runs
from retrieval_cache.evaluation import mean, retrieval_section
from retrieval_cache.rankings import ranking_named
from retrieval_cache.service import Workspace, judge_runs, retrieve
from retrieval_cache.store import RunStore
from tests._messages import raises


@pytest.fixture(scope="module")
def workspace(tmp_path_factory: pytest.TempPathFactory) -> Workspace:
    folder = tmp_path_factory.mktemp("comparing")
    made = Workspace("mtrag", "sample", folder / "data", folder / "store")
    for form in ("last_turn", "rewrite"):
        retrieve(made, "bm25", form, depth=20)
    return made


NAMES = ["bm25.last_turn.sample", "bm25.rewrite.sample", "official"]


def test_means_and_differences_are_those_of_evaluate_run(workspace: Workspace, sample: Benchmark) -> None:
    comparison = compare_runs(workspace, NAMES, metrics=["nDCG@5"])
    evaluations = judge_runs(workspace.open(), workspace.store, NAMES, RETRIEVAL_METRICS)
    assert [m.estimate.value for m in comparison.means] == pytest.approx(
        [mean(evaluation.results, "nDCG@5").value for evaluation in evaluations]
    )
    table = retrieval_section(evaluations).tables[-1]
    (printed,) = (row for row in table.rows if row[:2] == (NAMES[1], "nDCG@5"))
    assert printed[3] == Difference(comparison.pairs[0].difference.value, 92, 92)
    judged = {result.query_id for result in evaluations[0].results}
    conversations = {task.conversation_id for task in sample.tasks if task.task_id in judged}
    assert comparison.pairs[0].difference.n_clusters == len(conversations)
    assert comparison.pairs[0].difference.n_values == len(judged)


def test_domains_are_compared_separately_and_only_with_the_baseline(workspace: Workspace) -> None:
    comparison = compare_runs(workspace, NAMES, by="domain", baseline="official")
    assert len(comparison.pairs) == 4 * 2 * 2  # domains, metrics, other runs
    assert {pair.first.name for pair in comparison.pairs} == {"official"}
    assert {pair.first.group for pair in comparison.pairs} == {"clapnq", "cloud", "fiqa", "govt"}


def test_invalid_arguments_are_refused(workspace: Workspace) -> None:
    with raises(ConfigurationError):
        compare_runs(workspace, NAMES, metrics=["ndgc_5"])
    with raises(ConfigurationError):
        compare_runs(workspace, NAMES, by="domains")
    with raises(ConfigurationError):
        compare_runs(workspace, ["official", "official"])
    with pytest.raises(RagtasksError, match=r"bm25\.rewrite\.sample"):
        compare_runs(workspace, ["official", "bm25.rewrite.sampl"])


@pytest.mark.parametrize("spelling", ["R@5", "recall_5"])
def test_the_command_prints_tables(workspace: Workspace, spelling: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RAGTASKS_RUNS", str(workspace.store))
    options: tuple[str | Path, ...] = ("compare", *NAMES, "--data", "sample", "--metric", spelling)
    result = CliRunner().invoke(app, [str(option) for option in options])
    assert result.exit_code == 0, result.output
    assert result.output.startswith("# mtrag (sample)\n")
    assert "| all     | R@5    | bm25.last_turn.sample | bm25.rewrite.sample |" in result.output
    assert "too small if the queries of one conversation are correlated" in result.output


def test_a_run_may_be_named_without_its_data(workspace: Workspace, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RAGTASKS_RUNS", str(workspace.store))
    short = [name.removesuffix(".sample") for name in NAMES]
    for command in ("compare", "evaluate-run"):
        full, shortened = (
            CliRunner().invoke(app, [command, *names, "--data", "sample", "--format", "csv"])
            for names in (NAMES, short)
        )
        assert shortened.exit_code == 0, shortened.output
        assert shortened.output == full.output.replace(".sample", "")


def test_an_exact_name_has_precedence_unless_its_run_has_other_data(tmp_path: Path, sample: Benchmark) -> None:
    spec = {
        **{"benchmark": "mtrag", "is_sample": True, "revision": "1", "tasks": "0", "corpora": {}},
        **{"queries": {"form": "rewrite"}, "retriever": {"name": "bm25"}},
    }
    assert stored_name(tmp_path, "mine", sample) == "mine"
    write_manifest(tmp_path / "runs" / "mine.sample", Manifest("mine.sample", spec))
    assert stored_name(tmp_path, "mine", sample) == "mine.sample"
    write_manifest(tmp_path / "runs" / "mine", Manifest("mine", {**spec, "is_sample": False}))
    assert stored_name(tmp_path, "mine", sample) == "mine.sample"
    write_manifest(tmp_path / "runs" / "mine", Manifest("mine", spec))
    assert stored_name(tmp_path, "mine", sample) == "mine"


def test_notes_name_properties_that_lower_a_mean(workspace: Workspace, tmp_path: Path, sample: Benchmark) -> None:
    run = ranking_named(sample, RunStore(workspace.store), NAMES[0]).run
    part = {query_id: ranking[:2] for query_id, ranking in list(run.items())[::2]}
    lines = [
        f"{query_id} Q0 {ranked.passage_id} {rank} 1.0 part\n"
        for query_id, ranking in part.items()
        for rank, ranked in enumerate(ranking, 1)
    ]
    file = tmp_path / "part.trec"
    file.write_text("".join(lines), encoding="utf-8")
    notes = {mean.column.name: mean.column.note for mean in compare_runs(workspace, [NAMES[0], str(file)]).means}
    assert notes[NAMES[0]] == ""
    assert notes[str(file)].startswith("omits ")
    assert " judged queries (counted 0): " in notes[str(file)]
    assert "; equal scores for all passages in " in notes[str(file)]
    assert notes[str(file)].endswith("; ranks at most 2 passages per query, below the cut-off of R@5, nDCG@5")

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
def place(tmp_path_factory: pytest.TempPathFactory) -> Workspace:
    folder = tmp_path_factory.mktemp("comparing")
    made = Workspace("mtrag", "sample", folder / "data", folder / "store")
    for form in ("last_turn", "rewrite"):
        retrieve(made, "bm25", form, depth=20)
    return made


NAMES = ["bm25.last_turn.sample", "bm25.rewrite.sample", "official"]


def test_means_and_differences_are_those_of_evaluate_run(place: Workspace, sample: Benchmark) -> None:
    found = compare_runs(place, NAMES, metrics=["nDCG@5"])
    evaluations = judge_runs(place.open(), place.store, NAMES, RETRIEVAL_METRICS)
    assert [m.estimate.value for m in found.means] == pytest.approx(
        [mean(evaluation.results, "nDCG@5").value for evaluation in evaluations]
    )
    table = retrieval_section(evaluations).tables[-1]
    (printed,) = (row for row in table.rows if row[:2] == (NAMES[1], "nDCG@5"))
    assert printed[3] == Difference(found.pairs[0].difference.value, 92, 92)
    judged = {result.query_id for result in evaluations[0].results}
    conversations = {task.conversation_id for task in sample.tasks if task.task_id in judged}
    assert found.pairs[0].difference.n_clusters == len(conversations)
    assert found.pairs[0].difference.n_values == len(judged)


def test_domains_are_compared_separately_and_only_with_the_baseline(place: Workspace) -> None:
    found = compare_runs(place, NAMES, by="domain", baseline="official")
    assert len(found.pairs) == 4 * 2 * 2  # domains, metrics, other runs
    assert {pair.first.name for pair in found.pairs} == {"official"}
    assert {pair.first.group for pair in found.pairs} == {"clapnq", "cloud", "fiqa", "govt"}


def test_invalid_arguments_are_refused(place: Workspace) -> None:
    with raises(ConfigurationError):
        compare_runs(place, NAMES, metrics=["ndgc_5"])
    with raises(ConfigurationError):
        compare_runs(place, NAMES, by="domains")
    with raises(ConfigurationError):
        compare_runs(place, ["official", "official"])
    with pytest.raises(RagtasksError, match=r"bm25\.rewrite\.sample"):
        compare_runs(place, ["official", "bm25.rewrite.sampl"])


@pytest.mark.parametrize("spelling", ["R@5", "recall_5"])
def test_the_command_prints_tables(place: Workspace, spelling: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RAGTASKS_RUNS", str(place.store))
    options: tuple[str | Path, ...] = ("compare", *NAMES, "--data", "sample", "--metric", spelling)
    result = CliRunner().invoke(app, [str(option) for option in options])
    assert result.exit_code == 0, result.output
    assert result.output.startswith("# mtrag (sample)\n")
    assert "| all     | R@5    | bm25.last_turn.sample | bm25.rewrite.sample |" in result.output
    assert "too small if the queries of one conversation are correlated" in result.output


def test_a_run_may_be_named_without_its_data(place: Workspace, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RAGTASKS_RUNS", str(place.store))
    short = [name.removesuffix(".sample") for name in NAMES]
    for command in ("compare", "evaluate-run"):
        whole, named = (
            CliRunner().invoke(app, [command, *names, "--data", "sample", "--format", "csv"])
            for names in (NAMES, short)
        )
        assert named.exit_code == 0, named.output
        assert named.output == whole.output.replace(".sample", "")


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


def test_notes_name_properties_that_lower_a_mean(
    place: Workspace, tmp_path: Path, sample: Benchmark
) -> None:
    whole = ranking_named(sample, RunStore(place.store), NAMES[0]).run
    part = {query_id: ranking[:2] for query_id, ranking in list(whole.items())[::2]}
    lines = [
        f"{query_id} Q0 {item.passage_id} {rank} 1.0 part\n"
        for query_id, ranking in part.items()
        for rank, item in enumerate(ranking, 1)
    ]
    file = tmp_path / "part.trec"
    file.write_text("".join(lines), encoding="utf-8")
    notes = {mean.column.name: mean.column.note for mean in compare_runs(place, [NAMES[0], str(file)]).means}
    assert notes[NAMES[0]] == ""
    assert notes[str(file)].startswith("leaves ")
    assert " judged queries out (counted 0): " in notes[str(file)]
    assert "; equal scores for all passages in " in notes[str(file)]
    assert notes[str(file)].endswith("; ranks at most 2 passages a query: R@5, nDCG@5 count no more")

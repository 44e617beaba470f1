"""A custom system has the same scores as the harness for the same answers, on every benchmark."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from ragtasks.benchmarks import benchmark_folder, benchmark_names, open_benchmark
from tests._commands import run_command
from tests._evaluations import results_file

ASKED = {
    "mtrag_reference": ("mtrag", "reference"),
    "mtrag_reference_rag": ("mtrag", "reference_rag"),
    "mtrag_full_rag": ("mtrag", "full_rag"),
    "mtrag_un_reference": ("mtrag_un", "reference"),
    "mtrag_s": ("mtrag_s", "reference"),
    "multihop_rag_retrieved": ("multihop_rag", "full_rag"),
    "multihop_rag_gold": ("multihop_rag", "reference"),
    "trec_rag24": ("trec_rag24", "full_rag"),
    "inscit_reference": ("inscit", "reference"),
    "inscit_dev_reference": ("inscit_dev", "reference"),
    "ikat23_reference": ("ikat23", "reference"),
    "ikat23_facts": ("ikat23_facts", "reference"),
    "ikat24_facts": ("ikat24_facts", "reference"),
    "ikat25_facts": ("ikat25_facts", "reference"),
    "trec_rag24_raggy": ("trec_rag24", "full_rag"),
    "trec_rag24_researchy": ("trec_rag24", "full_rag"),
    "trec_rag25": ("trec_rag25", "full_rag"),
    "multidoc2dial_reference": ("multidoc2dial", "reference"),
    "multidoc2dial_full_rag": ("multidoc2dial", "full_rag"),
    "multidoc2dial_token_full_rag": ("multidoc2dial_token", "full_rag"),
    "multidoc2dial_propositions_full_rag": ("multidoc2dial_propositions", "full_rag"),
    "doc2dial_reference": ("doc2dial", "reference"),
    "custom_reference": ("custom", "reference"),
    "custom_full_rag": ("custom", "full_rag"),
}
PAIRS = sorted(set(ASKED.values()))


def test_every_benchmark_is_covered() -> None:
    on_runs = {"ikat24", "ikat25"}  # without published passages
    assert {benchmark for benchmark, _ in PAIRS} == set(benchmark_names()) - on_runs


@pytest.fixture(scope="module")
def oracle(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The harness's output for the oracle on every benchmark's sample."""
    folder = tmp_path_factory.mktemp("oracle")
    metadata = '{"data": "sample", "encoder": "none"}'
    options = ["--tasks", ",".join(ASKED), "--metadata", metadata, "--log_samples", "--output_path", str(folder)]
    done = run_command("run", "--model", "ragtasks-oracle", *options)
    assert done.status == 0
    return folder


def samples(folder: Path) -> Iterator[dict[str, Any]]:
    for file in sorted(folder.rglob("samples_*.jsonl")):
        yield from map(json.loads, file.read_text("utf-8").splitlines())


def values(row: dict[str, Any]) -> str:
    """Return the scores of a sample and their inputs as text, in which NaN equals NaN."""
    named = [(name, row[name]) for name in row["metrics"]]
    # Plausibility is not checked for a declared baseline.
    notes = {name: note for name, note in row["doc"]["scoring"].items() if name != "implausible"}
    return json.dumps([named, notes, row["doc"]["passages"], row["filtered_resps"]])


@pytest.mark.slow
@pytest.mark.parametrize(("benchmark", "setting"), PAIRS)
def test_exported_oracle_answers_get_the_oracle_scores(
    oracle: Path, tmp_path: Path, benchmark: str, setting: str
) -> None:
    """Export questions with `tasks export`, fill in reference answers, and score them with `score`."""
    questions, answers, out = tmp_path / "tasks.jsonl", tmp_path / "mine.jsonl", tmp_path / "out"
    options = ("--benchmark", benchmark, "--setting", setting, "--data", "sample")
    assert run_command("tasks", "export", *options, "--output", questions).status == 0
    opened = open_benchmark(benchmark, benchmark_folder(benchmark, "sample", Path()).resolve())
    targets = {task.task_id: task.target for task in opened.tasks}
    rows = [json.loads(line) for line in questions.read_text("utf-8").splitlines()]
    answers.write_text("".join(json.dumps({**row, "answer": targets[row["id"]]}) + "\n" for row in rows))
    done = run_command("score", answers, *options, "--encoder", "none", "--output", out)
    assert done.status == 0, done.err
    expected = {
        row["doc"]["task_id"]: values(row)
        for row in samples(oracle)
        if (row["doc"]["benchmark"], row["doc"]["setting"]) == (benchmark, setting)
    }
    assert {row["doc"]["task_id"]: values(row) for row in samples(out)} == expected
    assert f"| {len(rows)} of {len(rows)} " in done.out
    if benchmark == "mtrag":  # without an encoder
        assert "No response has the suite's main score rb_alg (encoder: none)." in done.out
        assert "coverage" not in done.out
    _same_means(json.loads(results_file(oracle).read_text()), json.loads(results_file(out).read_text()))


def _same_means(theirs: dict[str, Any], own: dict[str, Any]) -> None:
    """Compare the means of harness tasks and groups that both have."""
    for name in own["results"].keys() & theirs["results"].keys():
        expected = theirs["results"][name]
        for metric, value in own["results"][name].items():
            if "," in metric and metric in expected and "stderr" not in metric:
                assert value == pytest.approx(expected[metric], abs=1e-12, nan_ok=True)


@pytest.mark.slow
def test_the_most_diverse_questions_are_exported(tmp_path: Path) -> None:
    options = ("--benchmark", "mtrag", "--setting", "reference", "--data", "sample")
    few, every = tmp_path / "few.jsonl", tmp_path / "every.jsonl"
    done = run_command("tasks", "export", *options, "--diverse", 4, "--output", few)
    assert (done.status, done.out.count("4 tasks of mtrag (sample)")) == (0, 1)
    assert run_command("tasks", "export", *options, "--output", every).status == 0
    lines = every.read_text("utf-8").splitlines()
    indexes = [lines.index(line) for line in few.read_text("utf-8").splitlines()]
    assert indexes == sorted(indexes)
    assert len({json.loads(lines[index])["domain"] for index in indexes}) > 1

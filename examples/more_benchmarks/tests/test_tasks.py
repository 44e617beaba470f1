"""The harness tasks run on their samples with the recorded values, and their prompts show every passage."""

from __future__ import annotations

import io
import json
from collections.abc import Iterable, Iterator
from contextlib import redirect_stdout
from pathlib import Path
from typing import Any

import pytest
from lm_eval.tasks import TaskManager
from ragtasks_more_benchmarks.hub import PACKAGE
from ragtasks_more_benchmarks.topiocqa import PROMPT

from ragtasks.cli import main

RETRIEVED = ["coral", "liverag", "topiocqa"]
"""Benchmarks with a corpus."""
ORACLE = {
    "coral_reference": {"grounded": 0.9193, "sacrebleu": 100, "citation_precision": 0, "citation_recall": 0},
    "faithdial_reference": {"grounded": 0.8373, "sacrebleu": 100, "k_f1": 0.2509},
    "liverag_reference": {"grounded": 0.9098, "rouge_l": 1},
    "topiocqa_reference": {"grounded": 0.8125, "em": 0.7273, "f1": 0.8664, "em_best": 1, "f1_best": 1},
}
"""Harness task -> metric -> value of the model that gives the reference answer."""


def ragtasks(*arguments: object) -> str:
    """Return the output of a command."""
    printed = io.StringIO()
    with redirect_stdout(printed), pytest.raises(SystemExit) as stop:
        main([str(argument) for argument in arguments])
    assert stop.value.code in {None, 0}
    return printed.getvalue()


@pytest.fixture(scope="module")
def output(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """Evaluate the oracle in every setting; passages are retrieved by `bm25`."""
    folder = tmp_path_factory.mktemp("oracle")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("RAGTASKS_RUNS", str(folder / "runs"))
        patch.setattr("lm_eval.utils._LOGGING_CONFIGURED", True)
        _run(folder / "reference", ORACLE, {})
        for benchmark in RETRIEVED:
            options = ("--data", "sample", "--retriever", "bm25", "--name", benchmark)
            ragtasks("retrieve", "--benchmark", benchmark, *options)
            _run(folder / "full_rag" / benchmark, [f"{benchmark}_full_rag"], {"run": benchmark})
        yield folder


def _run(folder: Path, tasks: Iterable[str], metadata: dict[str, str]) -> None:
    settings = json.dumps({"data": "sample", "encoder": "none", **metadata})
    options = ("--metadata", settings, "--log_samples", "--output_path", folder)
    ragtasks("run", "--model", "ragtasks-oracle", "--tasks", ",".join(tasks), *options)


def samples(folder: Path, task: str) -> list[dict[str, Any]]:
    (file,) = folder.rglob(f"samples_{task}_*.jsonl")
    return [json.loads(line) for line in file.read_text(encoding="utf-8").splitlines()]


@pytest.mark.parametrize("task", ORACLE)
def test_a_task_has_the_values_on_record(output: Path, task: str) -> None:
    (file,) = (output / "reference").rglob("results_*.json")
    values = json.loads(file.read_text(encoding="utf-8"))["results"][task]
    measured = {name: values[f"{name},sample"] for name in ORACLE[task]}
    assert measured == pytest.approx(ORACLE[task], abs=5e-5)


@pytest.mark.parametrize("task", ORACLE)
def test_a_prompt_shows_every_passage(output: Path, task: str) -> None:
    for sample in samples(output, task):
        prompt = sample["arguments"]["gen_args_0"]["arg_0"]
        assert all(passage["text"].strip() in prompt for passage in sample["doc"]["passages"])


def test_results_are_listed_by_benchmark(output: Path) -> None:
    listed = ragtasks("results", "list", output / "reference")
    for task in ORACLE:
        assert f"{task.removesuffix('_reference')} (sample) " in listed


@pytest.mark.parametrize("benchmark", RETRIEVED)
def test_retrieved_passages_are_those_of_a_stored_run(output: Path, benchmark: str) -> None:
    rows = samples(output, f"{benchmark}_full_rag")
    counts = {len(row["doc"]["passages"]) for row in rows}
    assert max(counts) == 5
    assert min(counts) > 0


def test_a_yaml_elsewhere_that_includes_a_task_has_its_prompt(tmp_path: Path) -> None:
    """Like the stubs written by `ragtasks tasks link`."""
    included = PACKAGE / "task_yamls" / "topiocqa" / "topiocqa_reference.yaml"
    (tmp_path / "topiocqa_reference.yaml").write_text(f"include: {included}\n", encoding="utf-8")
    manager = TaskManager(include_path=tmp_path, include_defaults=False, metadata={"data": "sample"})
    task = manager.load(["topiocqa_reference"])["tasks"]["topiocqa_reference"]
    assert task.config.metadata["ragtasks"]["prompts"]["system"].startswith(PROMPT)

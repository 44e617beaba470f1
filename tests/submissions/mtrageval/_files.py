"""Stored runs, logged answers and submissions of the sample, made by hand."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from ragtasks.benchmarks import Benchmark, benchmark_folder, build_docs, open_benchmark, tasks_checksum
from ragtasks.files import Manifest, Run, write_contexts, write_manifest, write_trec
from ragtasks.records import Passage, Setting
from ragtasks.submissions import SubmissionTask
from ragtasks.submissions.mtrageval._build import SubmittedTask, build
from ragtasks.submissions.mtrageval._inputs import benchmark_inputs

TIME = "2026-01-01T00-00-00"


def sample(name: str = "mtrag") -> Benchmark:
    return open_benchmark(name, benchmark_folder(name, "sample", Path()).resolve())


def lines_of(rows: Iterable[Mapping[str, Any]]) -> list[bytes]:
    return [json.dumps(row).encode() + b"\n" for row in rows]


def submission(letter: str, benchmark: Benchmark, n_tasks: int) -> list[Any]:
    """Return the rows of a submission for the first tasks with passages."""
    inputs = dict([pair for pair in benchmark_inputs(benchmark).items() if pair[1].contexts][:n_tasks])
    entries = {key: SubmittedTask(task.contexts or (), None, f"It is {key}.") for key, task in inputs.items()}
    return list(build(SubmissionTask(letter), inputs, entries).rows)


def store_run(store: Path, name: str, benchmark: Benchmark, run: Run) -> None:
    """Write a run like the precompute stage. Its contexts are empty."""
    folder = store / "runs" / name
    files = {"all.trec": write_trec(folder / "all.trec", run, "test")}
    empty: dict[str, tuple[Passage, ...]] = {task.task_id: () for task in benchmark.tasks}
    path = "contexts/full_rag.jsonl"
    files[path] = write_contexts(folder / path, empty)
    spec = {
        "benchmark": benchmark.name,
        "is_sample": benchmark.is_sample,
        "revision": benchmark.revision,
        "tasks": tasks_checksum(benchmark.tasks),
        "corpora": {},
        "queries": {"form": "last_turn"},
        "retriever": {"name": "bm25"},
    }
    write_manifest(folder, Manifest(name, spec, files))


def write_answers(
    folder: Path,
    benchmark: Benchmark,
    setting: Setting,
    *,
    conversational: bool = True,
    answers: Mapping[str, str] | None = None,
    scores: Mapping[str, float] | None = None,
) -> Path:
    """Write the harness's log of one setting: the reference answers, or the given answers by task id."""
    contexts = benchmark.read_contexts(setting)
    docs = build_docs(benchmark, setting, None, conversational=conversational, contexts=contexts)
    answer_of, values = answers or {}, scores or {}
    rows = [
        {"doc": doc, "filtered_resps": [answer_of.get(doc["task_id"], doc["target"])], "metrics": [*values], **values}
        for doc in docs
    ]
    name = f"{benchmark.name}_{setting.value}"
    facts = {
        "benchmark": benchmark.label,
        "suite": benchmark.suite,
        "revision": benchmark.revision,
        "setting_tasks": {setting.value: {name: len(rows)}},
        "configuration": {"data": "sample", "run": "official"},
        "scoring": {"scored_by": "ragtasks 0.1.0", "encoder": "none", "idk_detector": "ngrams-2"},
    }
    results = {
        "configs": {name: {"metadata": {"ragtasks": facts}}},
        "n-samples": {name: {"original": len(rows), "effective": len(rows)}},
    }
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"results_{TIME}.json"
    path.write_text(json.dumps(results), encoding="utf-8")
    samples = folder / f"samples_{name}_{TIME}.jsonl"
    samples.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    return path

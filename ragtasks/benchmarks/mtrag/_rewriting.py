"""A benchmark's judged questions as tasks of a rewriting model: nothing to answer, a query to write."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from ragtasks.benchmarks._definition import Benchmark
from ragtasks.benchmarks._registry import retrieval_side
from ragtasks.benchmarks._rewrite_replies import Contract
from ragtasks.benchmarks.mtrag._benchmark import MTRAG_SOURCE
from ragtasks.errors import ConfigurationError
from ragtasks.files import Problems, json_lines, labels_of
from ragtasks.records import Contexts, Setting, Task, normalise_task_id


def rewriting_tasks(benchmark: Benchmark, contract: Contract) -> Benchmark:
    """Return the benchmark with the tasks whose query somebody judged, without passages, to be rewritten.

    The target of each is the reply that gives the benchmark's own rewrite. `extra` has that rewrite as text (`rewrite`;
    the question where the files leave it out, as in the query form) and whether the question stands alone
    (`standalone`; None where nobody says, which is nearly everywhere in MTRAG).
    """
    side = retrieval_side(benchmark.name)
    if side.load_rewrites is None:
        raise ConfigurationError(f"{benchmark.name} publishes no rewritten queries: there is nothing to compare with")
    labels = (read_standalone_labels(benchmark.root) if benchmark.name == MTRAG_SOURCE.name else NO_LABELS).labels
    domains = side.domains_of(benchmark.tasks)
    judged = {qrel.query_id for domain in domains for qrel in side.load_qrels(benchmark.root, domain)}
    official: dict[str, str] = {}
    for domain in domains:
        official |= side.load_rewrites(benchmark.root, domain)
    tasks = tuple(
        _rewriting_task(task, contract, official.get(task.task_id, task.question), labels.get(task.task_id))
        for task in benchmark.tasks
        if task.task_id in judged
    )
    return replace(benchmark, tasks=tasks, read_contexts=lambda setting: _no_passages(tasks, setting))


def _rewriting_task(task: Task, contract: Contract, rewrite: str, standalone: bool | None) -> Task:
    extra = {"rewrite": rewrite, "standalone": standalone}
    return replace(task, target=contract.write(task.question, rewrite), extra=extra)


def _no_passages(tasks: tuple[Task, ...], setting: Setting) -> Contexts:
    return Contexts("official", setting, {task.task_id: () for task in tasks})


# Which questions can be understood without the conversation, as far as somebody says so.
# Nothing is derived here. MTRAG's task file labels seven tasks; the paper's own split of the later turns (555 and
# 120) is not published; a rewriter that follows the paper's contract gives a class to each question that it is
# asked.

_TASK_FILE = "mtrag-human/generation_tasks/reference.jsonl"
_STANDALONE = {"Standalone": True, "Non-standalone": False}


@dataclass(frozen=True, slots=True)
class StandaloneLabels:
    """Labels and who gave them."""

    source: str
    labels: Mapping[str, bool]
    """Query id -> whether it stands alone; queries without a label are missing."""


NO_LABELS = StandaloneLabels("no labels", {})


def read_standalone_labels(root: Path) -> StandaloneLabels:
    """Return the labels in MTRAG's task file (`Standalone Type`: seven tasks of the official one)."""
    problems = Problems(root / _TASK_FILE, "MTRAG file", "delete the file and run `ragtasks data fetch mtrag`")
    labels: dict[str, bool] = {}
    for line, row in json_lines(problems):
        for label in labels_of(row.get("Standalone Type")):
            task_id = row.get("task_id")
            if label in _STANDALONE and isinstance(task_id, str):
                labels[normalise_task_id(task_id)] = _STANDALONE[label]
            else:
                problems.add(line, f"a task id and a `Standalone Type` of {sorted(_STANDALONE)}", (task_id, label))
    problems.raise_if_any()
    return StandaloneLabels("the benchmark's task file", labels)

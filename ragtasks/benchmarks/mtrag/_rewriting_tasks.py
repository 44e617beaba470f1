"""A benchmark's judged questions as tasks of a rewriting model: nothing to answer, a query to write."""

from __future__ import annotations

from dataclasses import replace

from ragtasks.benchmarks._benchmark import Benchmark
from ragtasks.benchmarks._registry import retrieval_side
from ragtasks.benchmarks._rewrite_replies import Contract
from ragtasks.benchmarks.mtrag._benchmark import SOURCE
from ragtasks.benchmarks.mtrag._standalone import NO_LABELS, read_standalone_labels
from ragtasks.errors import ConfigurationError
from ragtasks.records import Contexts, Setting, Task


def rewriting_tasks(benchmark: Benchmark, contract: Contract) -> Benchmark:
    """Return the benchmark with the tasks whose query somebody judged, without passages, to be rewritten.

    The target of each is the reply that gives the benchmark's own rewrite. `extra` has that rewrite as text (`rewrite`;
    the question where the files leave it out, as in the query form) and whether the question stands alone
    (`standalone`; None where nobody says, which is nearly everywhere in MTRAG).

    Raises:
        BenchmarkFileError: judgements, rewrites or labels are missing or broken.
        ConfigurationError: the benchmark publishes no rewrites or judgements.
    """
    side = retrieval_side(benchmark.name)
    if side.load_rewrites is None:
        raise ConfigurationError(f"{benchmark.name} publishes no rewritten queries: there is nothing to compare with")
    labels = (read_standalone_labels(benchmark.root) if benchmark.name == SOURCE.name else NO_LABELS).labels
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


__all__ = ["rewriting_tasks"]

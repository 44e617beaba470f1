"""The passages that the tasks of a setting are given: published ones, those of a stored run, or none."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path

from ragtasks.benchmarks._benchmark import Benchmark
from ragtasks.errors import CacheError, ConfigurationError, clear_error, close_matches
from ragtasks.files import CLOSED_BOOK, MANIFEST, OFFICIAL, canonical_hash, read_contexts, read_manifest, run_folder
from ragtasks.records import Contexts, Passage, Setting, Task


def tasks_checksum(tasks: Iterable[Task]) -> str:
    """Return a hash of ids and questions: what a run was made for."""
    return canonical_hash([[task.task_id, task.question] for task in tasks])


def contexts_for(benchmark: Benchmark, setting: Setting, run: str, store: Path) -> Contexts:
    """Return the passages that the tasks of a setting are given.

    Args:
        benchmark: where the tasks come from.
        setting: which tasks, and whether their passages are retrieved ones at all.
        run: `OFFICIAL`, `CLOSED_BOOK`, or the name of a stored run.
        store: folder of the stored runs.

    Raises:
        BenchmarkFileError: the published passages are missing or broken.
        CacheError: no such run, or one that was made for other data.
    """
    if run == CLOSED_BOOK:
        own = [task.task_id for task in benchmark.tasks if benchmark.belongs(task, setting)]
        return Contexts(run, setting, dict.fromkeys(own, ()))
    if run == OFFICIAL or setting is Setting.REFERENCE:
        return benchmark.read_contexts(setting)
    return contexts_of_run(store, run, benchmark, setting)


def published_passages(benchmark: Benchmark) -> Mapping[str, tuple[Passage, ...]]:
    """Return task id -> passages that the benchmark itself publishes as retrieved, best first: the run `OFFICIAL`.

    Raises:
        BenchmarkFileError: their file is missing or broken.
        ConfigurationError: it publishes none.
    """
    try:
        return benchmark.read_contexts(Setting.FULL_RAG).passages
    except ConfigurationError as error:
        command = f"ragtasks retrieve --retriever bm25 --benchmark {benchmark.name}"
        message = clear_error(
            f"run {OFFICIAL!r}",
            where=benchmark.label,
            expected="retrieved passages that the benchmark publishes",
            found=f"none ({str(error).splitlines()[0]})",
            next_step=f"name a run of yours; `{command}` makes one",
        )
        raise ConfigurationError(message) from error


def contexts_of_run(store: Path, name: str, benchmark: Benchmark, setting: Setting) -> Contexts:
    """Return the passages that a stored run gives to the tasks of a setting of this very benchmark.

    Raises:
        CacheError: no such run, or one that was made for other data; the message says what differs.
        ConfigurationError: a name that could be a path.
    """
    folder = run_folder(store, name)
    if not (folder / MANIFEST).is_file():
        names = sorted(path.parent.name for path in (store / "runs").glob(f"*/{MANIFEST}"))
        hint = close_matches(name, [*names, OFFICIAL, CLOSED_BOOK])
        raise CacheError(f"no run {name!r} in {store / 'runs'}: {hint}; make one with `ragtasks retrieve`")
    spec = read_manifest(folder).spec
    wanted = {
        "benchmark": benchmark.name,
        "is_sample": benchmark.is_sample,
        "revision": benchmark.revision,
        "tasks": tasks_checksum(benchmark.tasks),
    }
    differing = [
        f"{key}: run {spec.get(key)!r}, here {value!r}" for key, value in wanted.items() if spec.get(key) != value
    ]
    if differing:
        raise CacheError(f"run {name!r} was made for other data than {benchmark.label}: " + "; ".join(differing))
    return read_contexts(folder, setting)

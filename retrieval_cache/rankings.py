"""Rankings of a benchmark's tasks, from stored runs, the benchmark or files, and the judgements."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from ragtasks.benchmarks import Benchmark, published_passages, retrieval_side, stored_name, tasks_checksum
from ragtasks.errors import CacheError, ConfigurationError, close_matches
from ragtasks.files import MANIFEST, OFFICIAL, Ranked, Run, in_rank_order, read_run
from ragtasks.records import Qrel
from retrieval_cache.stage import read_run as read_stored
from retrieval_cache.store import RunStore, data_label, fallbacks_of


@dataclass(frozen=True, slots=True)
class Ranking:
    """A run of a benchmark's tasks, from any source."""

    name: str
    run: Run
    query_form: str = ""
    """Query form sent to the retriever, such as `rewrite`; empty if unknown."""
    corpus_sizes: Mapping[str, int] = field(default_factory=dict)
    """Domain -> number of searched passages; empty if unknown."""
    fallbacks: str = ""
    """Number of queries that fell back to the last turn, with the reasons; empty if 0 or unknown."""

    @property
    def depth(self) -> int:
        """Largest number of passages ranked for a query."""
        return max(map(len, self.run.values()), default=0)


def ranking_named(benchmark: Benchmark, store: RunStore, name: str) -> Ranking:
    """Return the stored run with a name, else the benchmark's own (`official`), else the run in a file."""
    if name == OFFICIAL:
        own_name = retrieval_side(benchmark.name).rankings_name
        return Ranking(own_name(benchmark.root) if own_name else name, _official(benchmark))
    if is_result_file(benchmark.name, store, name):
        raise ConfigurationError(
            f"{name}: a result file of {benchmark.name}'s script ranks texts, not passages with ids. Next step: "
            f"`ragtasks evaluate-run {name}` without --measures and --per-query prints its scores"
        )
    if is_file_of_run(store, name):
        return Ranking(Path(name).name, read_run(Path(name)))
    stored = store.named(stored_name(store.root, name, benchmark), is_no_file=True)
    spec = stored.manifest.spec
    current = (benchmark.name, benchmark.is_sample, tasks_checksum(benchmark.tasks))
    if (spec["benchmark"], spec["is_sample"], spec["tasks"]) != current:
        made_for = data_label(stored.manifest)
        raise CacheError(
            f"run {name!r} was made for other data ({made_for}) than {benchmark.label}; next step: name the data of "
            "the run with --benchmark and --data"
        )
    sizes = {domain: corpus["n_passages"] for domain, corpus in spec["corpora"].items() if "n_passages" in corpus}
    run = read_stored(stored, [task.task_id for task in benchmark.tasks])
    return Ranking(name, run, spec["queries"]["form"], sizes, fallbacks_of(stored.manifest))


def is_file_of_run(store: RunStore, name: str) -> bool:
    """Return whether a name is a path, or a file in the current folder that has no stored run of the same name."""
    return "/" in name or (Path(name).is_file() and not (store.runs / name / MANIFEST).is_file())


def is_result_file(benchmark: str, store: RunStore, name: str) -> bool:
    """Return whether a name is a result file of the benchmark's official retrieval script: one JSON array."""
    writes_results = retrieval_side(benchmark).load_results is not None
    return writes_results and Path(name).suffix == ".json" and is_file_of_run(store, name)


def judgements_of(benchmark: Benchmark, domains: Sequence[str] = ()) -> list[Qrel]:
    """Return the benchmark's judgements of the named domains, or of all."""
    side = retrieval_side(benchmark.name)
    present = side.domains_of(benchmark.tasks)
    for domain in domains:
        if domain not in present:
            raise ConfigurationError(
                f"unknown domain {domain!r} of {benchmark.label}: {close_matches(domain, present)}"
            )
    chosen = [domain for domain in present if not domains or domain in domains]
    return [qrel for domain in chosen for qrel in side.load_qrels(benchmark.root, domain)]


def _official(benchmark: Benchmark) -> Run:
    """Return the published top passages as a run, ranked by score, or in published order without scores."""
    side = retrieval_side(benchmark.name)
    if side.load_run:
        return side.load_run(benchmark.root)
    contexts = side.load_rankings(benchmark.root) if side.load_rankings else published_passages(benchmark)
    distinct = {task_id: dict.fromkeys(passages) for task_id, passages in contexts.items()}
    return {
        task_id: in_rank_order(Ranked(passage.passage_id, float(-rank)) for rank, passage in enumerate(passages))
        for task_id, passages in distinct.items()
    }

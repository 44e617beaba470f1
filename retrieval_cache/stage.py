"""The precompute stage: from a benchmark, a query form and a retriever to a stored run with its contexts.

The key of a run is the hash of all inputs that determine its result: corpora, queries, retriever. It is computed
before any search. An existing run with the same key is reused. A killed call continues: finished indexes, finished
domains and the work folder are found by their hashes.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import orjson

from ragtasks.benchmarks import Benchmark, default_run_name, retrieval_side, tasks_checksum
from ragtasks.errors import CacheError, ConfigurationError, close_matches
from ragtasks.files import (
    Manifest,
    Run,
    canonical_hash,
    file_hash,
    new_run_name,
    read_trec,
    run_folder,
    run_key,
    write_atomically,
    write_contexts,
    write_manifest,
    write_trec,
)
from ragtasks.progress import Progress, no_progress
from ragtasks.records import Passage, Setting, Task
from retrieval_cache.corpora.passages import PassageSource, open_source
from retrieval_cache.queries import Queries
from retrieval_cache.retrievers.encoders import loading_once
from retrieval_cache.retrievers.fusion import FUSION_DEPTH, reciprocal_rank_fusion
from retrieval_cache.retrievers.protocol import Retriever, searched, spending_of, statistics_of, wanted_passages
from retrieval_cache.retrievers.run_file import LEFT_OUT
from retrieval_cache.retrievers.vectors import encode_with
from retrieval_cache.store import RunStore, StoredRun, file_error

DEPTH = 100
"""Default number of passages stored per query."""
_SPEC_VERSION = 1
"""Version of the stage; raised when its results change."""


@dataclass(frozen=True)
class RunRequest:
    """The parameters of a run."""

    benchmark: Benchmark
    """Tasks, and the folder with the corpora."""
    queries: Queries
    """One text per task and query form."""
    make_retriever: Callable[[], Retriever]
    """Factory of retrievers; each one indexes one corpus."""
    depth: int = DEPTH
    """Passages stored per query."""
    name: str | None = None
    corpora: Mapping[str, str] | None = None
    """Domain -> corpus that replaces the benchmark's own."""


@loading_once()
def build_run(request: RunRequest, store: RunStore, progress: Progress = no_progress) -> StoredRun:
    """Return the stored run of a request; it is computed if missing.

    If an identical run exists under another name, its files are linked under this name.
    """
    if request.name is not None:
        new_run_name(request.name)
    work = _RunBuild(request, store, progress)
    spec = work.spec()
    key = canonical_hash(spec)
    with store.only_builder(key):
        name = _free_name(request, store, key)
        existing = store.with_key(key)
        if existing is not None:
            return store.linked(existing, name)
        folder = store.folder("building", key)
        started = time.time()
        files = {f"{domain}.trec": work.search(domain, folder) for domain in work.domains}
        files |= work.write_contexts(folder)
        metadata: dict[str, Any] = {"seconds": round(time.time() - started, 1)}
        if rewriting := request.queries.counts():
            metadata["rewriting"] = rewriting
        if request.benchmark.copy:
            metadata["copy"] = request.benchmark.copy
        if work.searching:
            metadata["searching"] = work.searching
        if counted := work.statistics(folder):
            metadata["retrieval"] = counted
        write_manifest(folder, Manifest(name, spec, files, metadata))
        return store.publish(folder, name)


class _RunBuild:
    """One build, with the request, the corpora and the progress shared by its steps."""

    def __init__(self, request: RunRequest, store: RunStore, progress: Progress) -> None:
        self._request, self._store, self._progress = request, store, progress
        self._benchmark = request.benchmark
        self.searching: dict[str, dict[str, float]] = {}
        """Domain -> number of queries searched in this process, and total seconds."""
        side, others = retrieval_side(request.benchmark.name), request.corpora or {}
        self.domains = side.domains_of(request.benchmark.tasks)
        for domain in others:
            if domain not in self.domains:
                raise ConfigurationError(f"corpus for unknown domain {domain!r}: {close_matches(domain, self.domains)}")
        # Corpus errors are raised here, before indexing.
        self._sources = {
            domain: open_source(
                others.get(domain) or str(side.corpus_file(self._benchmark.root, domain)),
                partial(self._wanted, domain),
                partial(store.folder, "indexes"),
                _of_domain(domain, progress),
            )
            for domain in self.domains
        }

    def _wanted(self, domain: str) -> frozenset[str] | None:
        return wanted_passages(self._request.make_retriever(), self._texts(domain))

    def _texts(self, domain: str) -> list[dict[str, str]]:
        """Return task id -> query in a domain, one mapping per query form."""
        tasks = [task.task_id for task in self._benchmark.tasks if task.domain == domain]
        texts = [
            {name: part.texts[name] for name in tasks if name in part.texts} for part in self._request.queries.searched
        ]
        return [by_task for by_task in texts if by_task] or texts[:1]

    def spec(self) -> dict[str, Any]:
        """Return all inputs that determine the result as JSON values: the content of the run's key."""
        retriever = self._request.make_retriever()
        queries = self._request.queries
        return {
            "version": _SPEC_VERSION,
            "benchmark": self._benchmark.name,
            "is_sample": self._benchmark.is_sample,
            "revision": self._benchmark.revision,
            "tasks": tasks_checksum(self._benchmark.tasks),
            "corpora": {domain: source.describe() for domain, source in self._sources.items()},
            "queries": {**queries.describe(), "texts": canonical_hash(queries.content())},
            "retriever": {"name": retriever.name, **retriever.describe()},
            "depth": self._request.depth,
        }

    def search(self, domain: str, folder: Path) -> str:
        """Return the sha256 of a domain's TREC file, which is written if missing."""
        path = folder / f"{domain}.trec"
        if path.is_file():
            return file_hash(path)
        progress = _of_domain(domain, self._progress)
        retriever = indexed(self._request.make_retriever(), self._sources[domain], self._store, progress)
        begin = time.monotonic()
        run = self._ranked(retriever, domain, progress)
        if run:
            self.searching[domain] = {"queries": len(run), "seconds": round(time.monotonic() - begin, 4)}
        spending = spending_of(retriever)
        statistics = {**statistics_of(retriever), **({"spending": spending} if spending else {})}
        if statistics:
            # Written before the run, so that a finished run always has its counts.
            write_atomically(_statistics_file(folder, domain), orjson.dumps(statistics))
        return write_trec(path, run, "ragtasks")

    def _ranked(self, retriever: Retriever, domain: str, progress: Progress) -> Run:
        """Return the rankings of a retriever. Rankings of several query forms are fused by reciprocal rank."""
        forms, depth = self._texts(domain), self._request.depth
        if len(forms) == 1:
            return searched(retriever, forms[0], depth, progress)
        deep = max(depth, FUSION_DEPTH)
        runs = [searched(retriever, texts, deep, progress) for texts in forms]
        return {query_id: ranked[:depth] for query_id, ranked in reciprocal_rank_fusion(runs, depth=deep).items()}

    def statistics(self, folder: Path) -> dict[str, Any]:
        """Return domain -> counts of its retriever, from the work folder. Domains without counts are left out."""
        files = {domain: _statistics_file(folder, domain) for domain in self.domains}
        return {domain: orjson.loads(file.read_bytes()) for domain, file in files.items() if file.is_file()}

    def write_contexts(self, folder: Path) -> dict[str, str]:
        """Write the passages of each setting and task (MTRAG paper, section 6.1); return path -> sha256.

        `full_rag`: the first passages of the ranking. `reference_rag`: the reference passages, then the best other
        passages of the ranking. A task with an empty ranking has no retrieved passages.
        """
        run: dict[str, Any] = {}
        for domain in self.domains:
            run |= read_trec(folder / f"{domain}.trec")
        n_passages = self._benchmark.n_passages
        wanted = {ranked.passage_id for ranking in run.values() for ranked in ranking[:n_passages]}
        texts = {
            passage.passage_id: passage
            for domain in self.domains
            for passage in self._sources[domain]
            if passage.passage_id in wanted
        }
        full = {
            task.task_id: tuple(texts[ranked.passage_id] for ranked in run.get(task.task_id, ())[:n_passages])
            for task in self._benchmark.tasks
        }
        filled = {
            task.task_id: _filled(task, full[task.task_id])[:n_passages]
            for task in self._benchmark.tasks
            if len(task.references) <= MAX_REFERENCES
        }
        written = {}
        for setting, contexts in ((Setting.FULL_RAG, full), (Setting.REFERENCE_RAG, filled)):
            path = f"contexts/{setting.value}.jsonl"
            written[path] = write_contexts(folder / path, contexts)
        return written


def _of_domain(domain: str, progress: Progress) -> Progress:
    return lambda label, done, total: progress(f"{domain}: {label}", done, total)


MAX_REFERENCES = 2
"""Maximum reference passages of tasks in `reference_rag`."""


def _filled(task: Task, retrieved: tuple[Passage, ...]) -> tuple[Passage, ...]:
    passage_ids = {passage.passage_id for passage in task.references}
    return (*task.references, *(passage for passage in retrieved if passage.passage_id not in passage_ids))


def _statistics_file(folder: Path, domain: str) -> Path:
    # `publish` leaves out `.part` files, whose content is in the manifest by then.
    return folder / f"{domain}.statistics.part"


def _free_name(request: RunRequest, store: RunStore, key: str) -> str:
    """Return the name of the run. A default name taken by other content gets the start of the key as suffix."""
    wanted = request.name or default_run_name(
        f"{request.make_retriever().name}.{request.queries.form}", request.benchmark
    )
    if not run_folder(store.root, wanted).exists() or run_key(store.root, wanted) == key:
        return wanted
    if request.name is not None:
        raise CacheError(
            f"run {wanted!r} has other content; next step: `ragtasks results show {wanted}`, another --name, or "
            f"`ragtasks results remove {wanted}`"
        )
    return f"{wanted}.{key[:8]}"


def read_run(stored: StoredRun, queries: Iterable[str] = ()) -> Run:
    """Return the rankings of a stored run, all domains together."""
    run: dict[str, Any] = {}
    for path, sha256 in stored.manifest.files.items():
        if path.endswith(".trec"):
            if problem := file_error(stored.folder / path, sha256):
                raise CacheError(
                    f"{problem}; next step: `ragtasks results remove {stored.folder.name}`, and make it again"
                )
            run |= read_trec(stored.folder / path)
    counted: Mapping[str, Mapping[str, Any]] = stored.manifest.metadata.get("retrieval", {})
    left_out = {query_id for counts in counted.values() for query_id in counts.get(LEFT_OUT, ())}
    return run | {query_id: () for query_id in queries if query_id not in run and query_id not in left_out}


# One index per corpus and retriever, stored under the hash of both. It serves stored runs, and the queries written by a
# model during an evaluation.


def indexed(
    retriever: Retriever, source: PassageSource, store: RunStore, progress: Progress = no_progress
) -> Retriever:
    """Return a retriever that has indexed a corpus. Processes that need the same index build it once."""
    encode_with(retriever, place=_vectors_of(source, store))
    corpus = source.describe()
    n_passages = corpus.get("n_passages", corpus.get("n_named"))

    def show(label: str, done: int, total: int | None) -> None:
        # Retrievers read passages one by one, and do not know the total.
        progress(label, done, n_passages if total is None else total)

    parts = {"name": retriever.name, "corpus": corpus, "retriever": dict(retriever.describe())}
    key = canonical_hash(parts)
    with store.only_builder(key):
        folder = store.folder("indexes", key)
        folder.mkdir(parents=True, exist_ok=True)
        retriever.index(source, folder, show)
    return retriever


def _vectors_of(source: PassageSource, store: RunStore) -> Callable[[Mapping[str, Any]], Any]:
    """Return a function: description of an encoder -> folder with its vectors of a corpus, locked while open."""

    @contextmanager
    def open_folder(made_by: Mapping[str, Any]) -> Iterator[Path]:
        made_of = {"corpus": source.describe(), "vectors": dict(made_by)}
        key = canonical_hash(made_of)
        folder = store.folder("vectors", key)
        with store.only_builder(key):
            if not (folder / "made_of.json").is_file():
                write_atomically(folder / "made_of.json", orjson.dumps(made_of, option=orjson.OPT_SORT_KEYS))
            yield folder

    return open_folder


def domain_retriever(
    benchmark: Benchmark,
    domain: str,
    make_retriever: Callable[[], Retriever],
    store: RunStore,
    progress: Progress = no_progress,
) -> tuple[Retriever, PassageSource]:
    """Return a retriever that has indexed the corpus of a benchmark's domain, and that corpus."""
    retriever = make_retriever()
    if retriever.name.startswith("run:"):
        raise ConfigurationError(f"retriever {retriever.name!r} has rankings of its own queries and finds no others")
    progress = _of_domain(domain, progress)
    location = str(retrieval_side(benchmark.name).corpus_file(benchmark.root, domain))
    source = open_source(location, lambda: None, partial(store.folder, "indexes"), progress)
    return indexed(retriever, source, store, progress), source

"""Retrieval runs: made and stored, or brought along, and evaluated without a corpus."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

from ragtasks.api._benchmark import LoadedBenchmark
from ragtasks.environment import data_folder, run_store, secret
from ragtasks.errors import CacheError, ConfigurationError, clear_error
from ragtasks.files import MANIFEST, Ranked, Run, canonical_hash, in_rank_order, read_manifest, read_qrels, read_run
from ragtasks.ids import split_task_id
from ragtasks.metrics import COUNT, RETRIEVAL_METRICS, retrieval_metric, score_run
from ragtasks.records import Qrel
from ragtasks.reports.rendering import Format, render
from ragtasks.statistics import cluster, estimate_means
from ragtasks.tables import Section, Table, Value

if TYPE_CHECKING:
    from retrieval_cache.store import StoredRun

Rankings = Mapping[str, Mapping[str, float]]
"""Query id -> passage id -> score, higher is better."""

_SHORT = 12


@dataclass(frozen=True, repr=False)
class RetrievedRun:
    """A stored run; `benchmark.passages(setting, run.name)` gives its passages, and `score(..., run=run.name)`."""

    stored: StoredRun
    """Where it is and what it was made of."""

    @property
    def name(self) -> str:
        """Name in the run store."""
        return self.stored.folder.name

    @cached_property
    def rankings(self) -> Rankings:
        """Query id -> passage id -> score, best first, read when first asked for.

        Raises:
            CacheError: a file is missing or was changed.
        """
        from retrieval_cache.stage import read_run as read_stored

        run = read_stored(self.stored)
        return {query_id: {item.passage_id: item.score for item in items} for query_id, items in run.items()}

    def __repr__(self) -> str:
        """Return its name and folder."""
        return f"<{type(self).__name__} {self.name} in {self.stored.folder}>"

    def __str__(self) -> str:
        """Return its line in `ragtasks runs list`."""
        from retrieval_cache.store import list_runs

        return "\n".join(list_runs([self.stored]))


def retrieve(
    benchmark: LoadedBenchmark,
    retriever: str = "bm25",
    queries: str = "rewrite",
    *,
    name: str | None = None,
    depth: int = 100,
    corpora: Mapping[str, str] | None = None,
) -> RetrievedRun:
    """Return the run of a retriever over a benchmark's queries, made and stored now, or found.

    Args:
        benchmark: whose queries and corpora.
        retriever: one line such as `bm25` or `hybrid(bm25,dense:minilm)`.
        queries: query form: `last_turn`, `rewrite`, `all_questions`, ...
        name: name of the run; default: retriever, query form and data.
        depth: passages kept for each query.
        corpora: domain -> corpus to search in the place of the benchmark's own.

    Raises:
        RagtasksError: unknown names, missing files or libraries, a full disk.
    """
    from retrieval_cache.service import Place
    from retrieval_cache.service import retrieve as make

    place = Place(benchmark.name, benchmark.data, data_folder(), run_store(), secret)
    return RetrievedRun(make(place, retriever, queries, name=name, depth=depth, corpora=corpora))


@dataclass(frozen=True, repr=False)
class RunEvaluation:
    """A run judged; printed, it is a table of means with 95 % intervals over conversations."""

    name: str
    """Name of the run."""
    context: str
    """What it was judged with: the benchmark's label, or where the judgements come from."""
    judgements: str
    """Start of a hash of the judgements: only runs that share it compare."""
    values: Mapping[str, Mapping[str, float]]
    """Query id -> measure -> value, for every judged query."""
    omitted: tuple[str, ...]
    """Judged queries that the run leaves out: they count 0."""
    unjudged: tuple[str, ...]
    """Queries of the run without a judgement: ignored."""
    conversation_of: Mapping[str, str]
    """Query id -> the conversation that it is of; a query of no conversation is its own."""

    @property
    def means(self) -> dict[str, float]:
        """Measure -> mean over all judged queries."""
        first = next(iter(self.values.values()), {})
        return {name: sum(row[name] for row in self.values.values()) / len(self.values) for name in first}

    def __repr__(self) -> str:
        """Return its name and how many queries were judged."""
        return f"<{type(self).__name__} of {self.name}: {len(self.values)} judged queries>"

    def __str__(self) -> str:
        """Return the means as a table, and what was left out."""
        conversations = [self.conversation_of[query_id] for query_id in self.values]
        columns = [
            cluster([row[name] for row in self.values.values()], conversations, bounds_of(name)) for name in self.means
        ]
        n = len(self.values)
        estimates = [Value(found.value, n, n, found.low, found.high) for found in estimate_means(columns)]
        provenance = {
            "run": self.name,
            "judged queries": f"{n}, of which the run omits {len(self.omitted)} (they count 0)",
        }
        provenance["judgements"] = self.judgements
        provenance |= {"ignored": f"{len(self.unjudged)} queries without a judgement"} if self.unjudged else {}
        table = Table("Means", ("measure", "mean"), tuple(zip(self.means, estimates, strict=True)))
        return render([Section(f"Retrieval on {self.context}", provenance, (table,))], Format.MARKDOWN)


def evaluate_run(
    run: Rankings | RetrievedRun | str | Path,
    qrels: LoadedBenchmark | Mapping[str, Mapping[str, int]] | str | Path,
    *,
    measures: Sequence[str] = (),
    name: str | None = None,
) -> RunEvaluation:
    """Return a run's scores for every judged query; no corpus is needed.

    Args:
        run: query id -> passage id -> score; a run from `retrieve`; a TREC file; or the name or folder of a stored run.
        qrels: a benchmark; query id -> passage id -> relevance; or a file of lines with three cells (as BEIR) or four
            (as TREC).
        measures: such as `recall_5` and `ndcg_5`, or in the notation of ir-measures, `nDCG@20` and `R@100`; default:
            all of `ragtasks evaluate-run`.
        name: name of the run in tables; default: as it is called where it comes from.

    Raises:
        BenchmarkFileError: judgements that are missing, broken, or none.
        CacheError: a run that is missing, broken, or has none of the judged queries.
        ConfigurationError: an unknown measure.
        MissingExtraError: the extra `retrieval` is not installed.
    """
    own_name, rankings = _run(run)
    judgements, context = _judgements(qrels)
    metrics = [retrieval_metric(measure) for measure in dict.fromkeys(measures)] or RETRIEVAL_METRICS
    found = score_run(rankings, judgements, metrics)
    if len(found.omitted) == len(found.values):
        shown = f"queries such as {next(iter(rankings), 'none')!r}"
        message = clear_error(
            "run",
            where=name or own_name,
            expected=f"at least one of the judged queries, such as {next(iter(found.values), 'none')!r}",
            found=shown,
            next_step="evaluate a run with the judgements of its own queries",
        )
        raise CacheError(message)
    known = {task.task_id: task.conversation_id for task in qrels.tasks} if isinstance(qrels, LoadedBenchmark) else {}
    conversations = {query_id: known.get(query_id) or _conversation(query_id) for query_id in found.values}
    key = canonical_hash([[item.query_id, item.passage_id, item.relevance] for item in judgements])[:_SHORT]
    return RunEvaluation(name or own_name, context, key, found.values, found.omitted, found.unjudged, conversations)


def _run(run: Rankings | RetrievedRun | str | Path) -> tuple[str, Run]:
    """Return the name and the rankings of a run."""
    if isinstance(run, (str, Path)):
        path = Path(run)
        if path.is_file():
            return path.stem, read_run(path)
        run = _stored(run)
    name, rankings = (run.name, run.rankings) if isinstance(run, RetrievedRun) else ("run", run)
    return name, {
        query_id: in_rank_order(Ranked(passage_id, float(score)) for passage_id, score in items.items())
        for query_id, items in rankings.items()
    }


def _stored(run: str | Path) -> RetrievedRun:
    from retrieval_cache.store import RunStore, StoredRun

    path = Path(run)
    if (path / MANIFEST).is_file():
        return RetrievedRun(StoredRun(path, read_manifest(path)))
    if path.name != str(run):
        raise CacheError(f"no run at {run}: neither a file nor the folder of a stored run. Next step: check the path")
    return RetrievedRun(RunStore(run_store()).named(str(run)))


def _judgements(qrels: LoadedBenchmark | Mapping[str, Mapping[str, int]] | str | Path) -> tuple[list[Qrel], str]:
    """Return the judgements and what tables call them."""
    if isinstance(qrels, (str, Path)):
        return list(read_qrels(Path(qrels))), Path(qrels).name
    own, context = (qrels.qrels, qrels.label) if isinstance(qrels, LoadedBenchmark) else (qrels, "judgements given")
    found = list(_flat(own))
    if not found:
        raise ConfigurationError(
            f"judgements: {context} holds none. Next step: give query id -> passage id -> relevance"
        )
    return found, context


def _flat(qrels: Mapping[str, Mapping[str, int]]) -> Iterator[Qrel]:
    for query_id, judged in qrels.items():
        for passage_id, relevance in judged.items():
            yield Qrel(query_id, passage_id, int(relevance))


def bounds_of(measure: str) -> tuple[float, float]:
    """Return the smallest and the largest value of a measure of trec_eval; those that count have no largest."""
    return COUNT if measure.startswith("Num") else (0.0, 1.0)


def _conversation(query_id: str) -> str:
    try:
        return split_task_id(query_id)[0]
    except ValueError:
        return query_id


__all__ = ["RetrievedRun", "RunEvaluation", "bounds_of", "evaluate_run", "retrieve"]

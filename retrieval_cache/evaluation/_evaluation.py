"""Runs judged: every score of every judged query, and the slices of the paper's tables.

A mean is over the judged queries of its slice, whatever the run holds, so runs that share qrels can be set side by
side and compared query by query.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from ragtasks.benchmarks import Benchmark, RetrievalSide
from ragtasks.benchmarks.mtrag import NO_LABELS, StandaloneLabels
from ragtasks.errors import BenchmarkFileError, CacheError, ConfigurationError, clear_error, close_matches
from ragtasks.files import Run
from ragtasks.metrics import DEPTH, EVIDENCE_METRICS, RETRIEVAL_METRICS, mean_evidence_scores, score_run, score_run_ibm
from ragtasks.records import Qrel, Score, Task
from ragtasks.statistics import Column
from ragtasks.tables import Table
from retrieval_cache.corpora import read_corpus

ALL = "all"
"""The group of all queries."""


@dataclass(frozen=True, slots=True)
class QueryResult:
    """The scores of one judged query."""

    query_id: str
    """Task id."""
    domain: str
    """Short name of the corpus."""
    conversation_id: str
    """The conversation that it is of."""
    turn: int
    """User turn, counted from 1."""
    standalone: bool | None
    """Whether the question stands alone, None where nobody says."""
    values: Mapping[str, float | None]
    """Metric name -> value, None where the run cannot be judged."""


@dataclass(frozen=True)
class Evaluation:
    """One run judged, and what its tables must say about it."""

    name: str
    """Name of the run."""
    query_form: str
    """What was sent to the retriever, such as `rewrite`; empty where unknown."""
    benchmark: str
    """Label of the benchmark; says `sample` where it is one."""
    results: tuple[QueryResult, ...]
    """One for each judged query, in the order of the judgements."""
    omitted: tuple[str, ...]
    """Judged queries that the run leaves out: they count 0."""
    empty: tuple[str, ...]
    """Judged queries for which the run has no passage: they count 0."""
    without_relevant: tuple[str, ...]
    """Judged queries without a relevant passage: they count 0."""
    n_unjudged: int
    """Queries of the run that nobody judged: ignored."""
    standalone_source: str
    """Who says which questions stand alone."""
    ibm: Mapping[str, Score]
    """Metric name -> score as the official script computes it (profile `ibm`)."""
    corpus_sizes: Mapping[str, int] = field(default_factory=dict)
    """Domain -> passages that were searched; empty where unknown."""
    unscored: str = ""
    """Why the run cannot be judged by these judgements; empty where it can."""
    depth: int | None = None
    """Most passages that the run ranks for a query; None where unknown."""
    fallbacks: str = ""
    """How many queries are the last turn in the place of a rewrite, and why; empty where none is, or unknown."""


@dataclass(frozen=True, slots=True)
class Slice:
    """A part of the judged queries: one value of one dimension."""

    dimension: str
    """Such as `domain`."""
    value: str
    """Such as `fiqa`; empty for all."""
    holds: Callable[[QueryResult], bool]
    """Whether a query belongs to it."""

    def of(self, results: Iterable[QueryResult]) -> tuple[QueryResult, ...]:
        """Return the results that belong to the slice, in their order."""
        return tuple(result for result in results if self.holds(result))


def evaluate(
    run: Run,
    qrels: Iterable[Qrel],
    tasks: Iterable[Task],
    *,
    name: str,
    query_form: str = "",
    benchmark: str = "",
    standalone: StandaloneLabels = NO_LABELS,
    corpus_sizes: Mapping[str, int] | None = None,
    unscored: str = "",
    fallbacks: str = "",
) -> Evaluation:
    """Return the run judged, over all queries of the qrels: one that the run leaves out counts 0 and is listed.

    Source: MTRAG paper, section 5 (Tables 3, 4, 15); `ibm` holds what run_retrieval_eval.py (cc5b1d4) would print.
    """
    judgements = tuple(qrels)
    task_of = {task.task_id: task for task in tasks}
    _check_queries(judgements, task_of)
    check_overlap(run, judgements, name)
    scores = score_run(run, judgements)
    ibm = score_run_ibm(run, judgements, {task_id: task.domain for task_id, task in task_of.items()})
    return Evaluation(
        name=name,
        query_form=query_form,
        benchmark=benchmark,
        results=tuple(
            _result(task_of[query_id], standalone, dict.fromkeys(values) if unscored else values)
            for query_id, values in scores.values.items()
        ),
        omitted=scores.omitted,
        empty=scores.empty,
        without_relevant=scores.without_relevant,
        n_unjudged=len(scores.unjudged),
        standalone_source=standalone.source,
        ibm=dict.fromkeys(ibm, Score(None, unscored)) if unscored else ibm,
        corpus_sizes=dict(corpus_sizes or {}),
        unscored=unscored,
        depth=max(map(len, run.values()), default=0),
        fallbacks=fallbacks,
    )


def _result(task: Task, standalone: StandaloneLabels, values: Mapping[str, float | None]) -> QueryResult:
    label = standalone.labels.get(task.task_id)
    return QueryResult(task.task_id, task.domain, task.conversation_id, task.turn, label, values)


def _check_queries(qrels: Sequence[Qrel], task_of: Mapping[str, Task]) -> None:
    unknown = list(dict.fromkeys(qrel.query_id for qrel in qrels if qrel.query_id not in task_of))
    if unknown:
        message = clear_error(
            "qrels",
            where=f"{len(unknown)} queries, the first is {unknown[0]!r}",
            expected="tasks of the benchmark",
            found="ids that no task has",
            next_step="evaluate with the qrels and the tasks of the same benchmark",
        )
        raise BenchmarkFileError(message)


def check_overlap(run: Run, qrels: Sequence[Qrel], name: str) -> None:
    """Refuse a run of other data: its scores would all be 0, and look like a bad retriever's."""
    if run and qrels and not any(qrel.query_id in run for qrel in qrels):
        message = clear_error(
            "run",
            where=name,
            expected=f"judged queries, such as {qrels[0].query_id!r}",
            found=f"{len(run)} queries, none of them judged, such as {next(iter(run))!r}",
            next_step="evaluate it with the qrels of the data that it was made from",
        )
        raise CacheError(message)


def slices(results: Sequence[QueryResult]) -> Iterator[Slice]:
    """Yield the slices of the paper's Tables 4 and 15 that the results have; those by turn and `all` always.

    Whether a question stands alone is asked of later turns only, as in Table 4.
    """
    yield Slice("all", "", lambda _: True)
    yield Slice("turn", "first", lambda result: result.turn == 1)
    yield Slice("turn", "later", lambda result: result.turn > 1)
    if any(result.turn > 1 and result.standalone is not None for result in results):
        yield Slice("later turns", "standalone", lambda result: result.turn > 1 and result.standalone is True)
        yield Slice("later turns", "non-standalone", lambda result: result.turn > 1 and result.standalone is False)
    for domain in dict.fromkeys(result.domain for result in results):
        yield _domain_slice(domain)


def _domain_slice(domain: str) -> Slice:
    return Slice("domain", domain, lambda result: result.domain == domain)


def mean(results: Sequence[QueryResult], metric: str) -> Score:
    """Return the mean of one metric over the results; unscored for none."""
    check_metric(metric)
    if not results:
        return Score(None, "no judged queries")
    values = [value for result in results if (value := result.values[metric]) is not None]
    if len(values) < len(results):
        return Score(None, "judgements do not apply to the run")
    return Score(sum(values) / len(values))


def columns_of(evaluation: Evaluation, metrics: Iterable[str], group: str = ALL) -> Iterator[Column]:
    """Yield the values of some metrics by query, with their conversations as clusters; the group may be a domain."""
    results = [result for result in evaluation.results if group in {ALL, result.domain}]
    for metric in dict.fromkeys(metrics):
        check_metric(metric)
        yield Column(
            context=evaluation.benchmark,
            group=group,
            metric=metric,
            name=evaluation.name,
            values={result.query_id: result.values[metric] for result in results},
            cluster_of={result.query_id: result.conversation_id for result in results},
            bounds=(0.0, 1.0),
            note=evaluation.fallbacks,
        )


def check_same_queries(evaluations: Sequence[Evaluation]) -> None:
    """Accept evaluations that may share a table: of one benchmark, over the same judged queries."""
    kinds = {(e.benchmark, frozenset(result.query_id for result in e.results)) for e in evaluations}
    if len(kinds) > 1:
        found = "; ".join(f"{e.name}: {len(e.results)} queries of {e.benchmark or 'no name'}" for e in evaluations)
        message = clear_error(
            "runs side by side",
            where=", ".join(evaluation.name for evaluation in evaluations),
            expected="the same judged queries of the same benchmark",
            found=found,
            next_step="evaluate them with the same qrels",
        )
        raise ConfigurationError(message)


def check_metric(metric: str) -> None:
    """Refuse an unknown metric."""
    names = [item.name for item in RETRIEVAL_METRICS]
    if metric not in names:
        raise ConfigurationError(f"unknown metric {metric!r}: {close_matches(metric, names)}")


# The scores of benchmarks that count evidence instead of judged passages: a table below those of a run's
# evaluation.
# A passage is found by what it says, so a published ranking of foreign passages is scored as well as a run over our
# own.

_OTHER_CORPUS = "it ranks passages that the benchmark's corpus does not have"


def foreign_passages(benchmark: Benchmark, side: RetrievalSide, run: Run) -> str:
    """Return why a run cannot be judged by passage: it ranks others than the corpus has; "" where it can.

    Only asked of benchmarks that count evidence: their judgements are of passages that are cut here.
    """
    if side.load_facts is None:
        return ""
    ranked = {item.passage_id for ranking in run.values() for item in ranking}
    files = [str(side.corpus_file(benchmark.root, domain)) for domain in side.domains]
    passage_ids = {passage.passage_id for file in files for passage in read_corpus(file, blank="skip")}
    return _OTHER_CORPUS if ranked - passage_ids else ""


def evidence_table(benchmark: Benchmark, side: RetrievalSide, runs: Mapping[str, Run | None]) -> Table | None:
    """Return the evidence scores of runs, None for a benchmark that counts none."""
    if side.load_facts is None:
        return None
    facts = {
        key: evidence for domain in side.domains for key, evidence in side.load_facts(benchmark.root, domain).items()
    }
    texts = _passage_texts(benchmark, side, [run for run in runs.values() if run is not None])
    scores = {name: _scores(benchmark, side, run, facts, texts) for name, run in runs.items()}
    reasons = dict.fromkeys(
        f"{name}: {s.reason}" for name, evidence in scores.items() for s in evidence.values() if s.reason
    )
    return Table(
        title=f"Evidence found (over the {len(facts)} queries that have some)",
        columns=("run", "n", *(metric.name for metric in EVIDENCE_METRICS)),
        rows=tuple((name, str(len(facts)), *map(_cell, evidence.values())) for name, evidence in scores.items()),
        legend=(*(f"{metric.name}: {metric.description}" for metric in EVIDENCE_METRICS), *reasons),
    )


def result_files_table(side: RetrievalSide, files: Sequence[Path]) -> Table | None:
    """Return the evidence scores of result files of the official script, None where there are none.

    Each is counted over its own items and by its own gold lists, as the script does; no other file is read.
    """
    if side.load_results is None or not files:
        return None
    read = {path: side.load_results(path) for path in files}
    return Table(
        title="Evidence found, by the gold lists of result files (n: the file's queries that have some)",
        columns=("file", "n", *(metric.name for metric in EVIDENCE_METRICS)),
        rows=tuple(
            (path.name, str(len(facts)), *map(_cell, mean_evidence_scores(rankings, facts).values()))
            for path, (rankings, facts) in read.items()
        ),
        legend=tuple(f"{metric.name}: {metric.description}" for metric in EVIDENCE_METRICS),
    )


def _passage_texts(benchmark: Benchmark, side: RetrievalSide, runs: Sequence[Run]) -> dict[str, str]:
    """Return passage id -> text of what stands on the first ranks of any run, as far as the corpus has it."""
    wanted = {item.passage_id for run in runs for ranking in run.values() for item in ranking[:DEPTH]}
    if not wanted:
        return {}
    files = [str(side.corpus_file(benchmark.root, domain)) for domain in side.domains]
    passages = (passage for file in files for passage in read_corpus(file, blank="skip"))
    return {passage.passage_id: passage.text for passage in passages if passage.passage_id in wanted}


def _scores(
    benchmark: Benchmark,
    side: RetrievalSide,
    run: Run | None,
    facts: Mapping[str, Sequence[str]],
    texts: Mapping[str, str],
) -> dict[str, Score]:
    if run is None:
        published = side.load_rankings(benchmark.root) if side.load_rankings else {}
        return mean_evidence_scores({key: [p.text for p in passages] for key, passages in published.items()}, facts)
    if any(item.passage_id not in texts for ranking in run.values() for item in ranking[:DEPTH]):
        return {metric.name: Score(None, _OTHER_CORPUS) for metric in EVIDENCE_METRICS}
    ranked = {key: [texts[item.passage_id] for item in ranking[:DEPTH]] for key, ranking in run.items()}
    return mean_evidence_scores(ranked, facts)


def _cell(score: Score) -> str:
    return "-" if score.value is None else f"{score.value:.4f}"

"""Runs judged: every score of every judged query, and the slices of the paper's tables.

A mean is over the judged queries of its slice, whatever the run holds, so runs that share qrels can be set side by
side and compared query by query.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from ragtasks.benchmarks import Benchmark, RetrievalSide, published_passages, retrieval_side, tasks_checksum
from ragtasks.benchmarks.mtrag import NO_LABELS, StandaloneLabels
from ragtasks.errors import BenchmarkFileError, CacheError, ConfigurationError, close_matches
from ragtasks.files import (
    MANIFEST,
    OFFICIAL,
    FileRun,
    Problems,
    Ranked,
    Run,
    has_candidates,
    in_rank_order,
    json_lines,
    read_qrels,
    read_run,
    retrieved_topic,
)
from ragtasks.metrics import (
    DEPTH,
    EVIDENCE_METRICS,
    IBM_METRICS,
    RETRIEVAL_METRICS,
    JudgedRun,
    RetrievalMetric,
    RunScores,
    mean_evidence_scores,
    score_run,
    score_run_ibm,
)
from ragtasks.records import Answerability, Message, Passage, Qrel, Role, Score, Task
from ragtasks.statistics import Column, compare_columns
from ragtasks.tables import Cell, Difference, Section, Table, Value, notes_table
from retrieval_cache.corpora.passages import read_corpus, with_text
from retrieval_cache.stage import read_run as read_stored
from retrieval_cache.store import RunStore, data_label, fallbacks_of

ALL = "all"


@dataclass(frozen=True, slots=True)
class QueryResult:
    """The scores of one judged query."""

    query_id: str
    domain: str
    conversation_id: str
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
    query_form: str
    """What was sent to the retriever, such as `rewrite`; empty where unknown."""
    benchmark: str
    """Label of the benchmark; says `sample` where it is one."""
    results: tuple[QueryResult, ...]
    """One for each judged query, in the order of the judgements."""
    coverage: RunScores
    """Which queries the run leaves out, or has beside the judged ones."""
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
    ranking_notes: tuple[str, ...] = ()
    """What else makes its scores look better or worse than what it found."""


@dataclass(frozen=True, slots=True)
class Slice:
    """A part of the judged queries: one value of one dimension."""

    dimension: str
    value: str
    """Such as `fiqa`; empty for all."""
    holds: Callable[[QueryResult], bool]

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
        coverage=scores,
        standalone_source=standalone.source,
        ibm=dict.fromkeys(ibm, Score(None, unscored)) if unscored else ibm,
        corpus_sizes=dict(corpus_sizes or {}),
        unscored=unscored,
        depth=max(map(len, run.values()), default=0),
        fallbacks=fallbacks,
        ranking_notes=tuple(ranking_notes(name, run, judgements)),
    )


def _result(task: Task, standalone: StandaloneLabels, values: Mapping[str, float | None]) -> QueryResult:
    label = standalone.labels.get(task.task_id)
    return QueryResult(task.task_id, task.domain, task.conversation_id, task.turn, label, values)


def _check_queries(qrels: Sequence[Qrel], task_of: Mapping[str, Task]) -> None:
    unknown = list(dict.fromkeys(qrel.query_id for qrel in qrels if qrel.query_id not in task_of))
    if unknown:
        raise BenchmarkFileError(
            "qrels",
            where=f"{len(unknown)} queries, the first is {unknown[0]!r}",
            expected="tasks of the benchmark",
            found="ids that no task has",
            next_step="evaluate with the qrels and the tasks of the same benchmark",
        )


def check_overlap(run: Run, qrels: Sequence[Qrel], name: str) -> None:
    """Refuse a run of other data: its scores would all be 0, and look like a bad retriever's."""
    if run and qrels and not any(qrel.query_id in run for qrel in qrels):
        raise CacheError(
            "run",
            where=name,
            expected=f"judged queries, such as {qrels[0].query_id!r}",
            found=f"{len(run)} queries, none of them judged, such as {next(iter(run))!r}",
            next_step="evaluate it with the qrels of the data that it was made from",
        )


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


def doubts_of(evaluation: Evaluation, metrics: Iterable[str]) -> str:
    """Return what makes some scores other than a ranking deserves, without the run's name; empty for nothing."""
    coverage = coverage_notes(
        evaluation.name, evaluation.coverage, {one.query_id: one.domain for one in evaluation.results}
    )
    depth = evaluation.depth or 0
    deeper = [name for name in metrics if (k := name.rpartition("_")[2]).isdigit() and depth < int(k)]
    notes = [*coverage, *evaluation.ranking_notes]
    notes += [f"at most {depth} passages a query, so {', '.join(deeper)} see no more"] * bool(deeper and depth)
    return "; ".join(note.removeprefix(evaluation.name).lstrip(": ") for note in notes)


def check_same_queries(evaluations: Sequence[Evaluation]) -> None:
    """Accept evaluations that may share a table: of one benchmark, over the same judged queries."""
    kinds = {(e.benchmark, frozenset(result.query_id for result in e.results)) for e in evaluations}
    if len(kinds) > 1:
        found = "; ".join(f"{e.name}: {len(e.results)} queries of {e.benchmark or 'no name'}" for e in evaluations)
        raise ConfigurationError(
            "runs side by side",
            where=", ".join(evaluation.name for evaluation in evaluations),
            expected="the same judged queries of the same benchmark",
            found=found,
            next_step="evaluate them with the same qrels",
        )


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


def foreign_passages(benchmark: Benchmark, run: Run) -> str:
    """Return why a run cannot be judged by passage: it ranks others than the corpus has; "" where it can.

    Only asked of benchmarks that count evidence: their judgements are of passages that are cut here.
    """
    side = retrieval_side(benchmark.name)
    if side.load_facts is None:
        return ""
    ranked = {item.passage_id for ranking in run.values() for item in ranking}
    passage_ids = {passage.passage_id for passage in _corpus(benchmark, side.domains)}
    return _OTHER_CORPUS if ranked - passage_ids else ""


def evidence_table(benchmark: Benchmark, runs: Mapping[str, Run | None]) -> Table | None:
    """Return the evidence scores of runs, None for a benchmark that counts none."""
    side = retrieval_side(benchmark.name)
    if side.load_facts is None:
        return None
    facts = {
        key: evidence for domain in side.domains for key, evidence in side.load_facts(benchmark.root, domain).items()
    }
    texts = _passage_texts(benchmark, side.domains, [run for run in runs.values() if run is not None])
    scores = {name: _support_scores(benchmark, side, run, facts, texts) for name, run in runs.items()}
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


def _passage_texts(benchmark: Benchmark, domains: Sequence[str], runs: Sequence[Run]) -> dict[str, str]:
    """Return passage id -> text of what stands on the first ranks of any run, as far as the corpus has it."""
    wanted = {item.passage_id for run in runs for ranking in run.values() for item in ranking[:DEPTH]}
    if not wanted:
        return {}
    passages = (passage for passage in _corpus(benchmark, domains) if passage.passage_id in wanted)
    return {passage.passage_id: passage.text for passage in passages}


def _corpus(benchmark: Benchmark, domains: Iterable[str]) -> Iterator[Passage]:
    """Yield the passages of a benchmark's corpora; what several domains share is read once."""
    side = retrieval_side(benchmark.name)
    for file in dict.fromkeys(str(side.corpus_file(benchmark.root, domain)) for domain in domains):
        yield from read_corpus(file)


def _support_scores(
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


# Tables of evaluated runs, in the shape of the MTRAG paper's Tables 3, 4 and 15; on MTRAG beside its own.
# The paper searched the whole corpora. Where ours are smaller, or nobody says how large they were, a line above the
# tables says that the scores do not compare; for the sample, or for other queries than the paper's, its scores are
# left out. No official script publishes scores of a run that could be recomputed, so nothing here claims parity.

_N_LATER = 675
_PAPER_METRICS = tuple(metric.name for metric in IBM_METRICS)
_COMPARED = ("recall_5", "ndcg_5", "map", "mrr")
_TITLES = {metric.name: metric.title for metric in RETRIEVAL_METRICS}
_IBM_NOTE = "Unlike above: omitted queries left out, means of domains rounded and weighted by predictions."
_DEEPEST = 20  # the largest cut-off of the tables


def report_evaluations(evaluations: Sequence[Evaluation]) -> Section:
    """Return notes and tables: all queries, subsets, domains (on MTRAG: Tables 3, 4, 15), profile `ibm`, pairs."""
    check_same_queries(evaluations)
    tables = notes_table(_notes(evaluations), len(evaluations))
    tables += [_all_queries(evaluations), _by_subset(evaluations), _by_domain(evaluations), _ibm(evaluations)]
    if len(evaluations) > 1:
        tables.append(_pairs(evaluations))
    runs = ", ".join(evaluation.name for evaluation in evaluations)
    return Section(f"Retrieval on {evaluations[0].benchmark or 'unnamed data'}", {"runs": runs}, tuple(tables))


def _title(title: str, number: int, evaluations: Sequence[Evaluation]) -> str:
    """Return a title, with the number of the paper's table on the paper's benchmark."""
    return f"{title} (as Table {number})" if _is_of_paper(evaluations[0]) else title


def _table(title: str, heads: Sequence[str], rows: Sequence[Sequence[Cell]]) -> Table:
    return Table(title, tuple(heads), tuple(map(tuple, rows)))


def _notes(evaluations: Sequence[Evaluation]) -> Iterator[tuple[str, str]]:
    """Yield what a reader must know before reading a score, each note behind the name of its run, "" for none."""
    if _names_paper(evaluations[0]):
        yield "", "Rows and columns headed `paper` are scores printed in the paper (Elser is version 1)."
    for evaluation in evaluations:
        yield from ((evaluation.name, note) for note in _notes_on(evaluation))


def _notes_on(evaluation: Evaluation) -> Iterator[str]:
    if _is_of_paper(evaluation) and not _names_paper(evaluation):
        yield f"{evaluation.name}: other data than the paper's, so its scores are left out."
    elif _names_paper(evaluation) and (problem := not_comparable(evaluation)):
        yield f"{evaluation.name} does not compare with the paper: {problem}."
    if evaluation.unscored:
        yield f"{evaluation.name}: {evaluation.unscored}, so the judgements do not apply to it."
    if evaluation.fallbacks:
        yield f"{evaluation.name}: {evaluation.fallbacks}."
    domain_of = {result.query_id: result.domain for result in evaluation.results}
    yield from coverage_notes(evaluation.name, evaluation.coverage, domain_of)
    yield from evaluation.ranking_notes
    if n_unjudged := len(evaluation.coverage.unjudged):
        yield f"{evaluation.name}: {n_unjudged} of its queries are not judged (ignored)."
    if evaluation.depth is not None and evaluation.depth < _DEEPEST:
        yield (
            f"{evaluation.name} ranks at most {evaluation.depth} passages a query: its scores at larger cut-offs, "
            "MAP and MRR know of no others."
        )
    if _names_paper(evaluation) or _n_labelled(evaluation):
        yield _standalone_note(evaluation)


def _standalone_note(evaluation: Evaluation) -> str:
    n_later = sum(result.turn > 1 for result in evaluation.results)
    return (
        f"{evaluation.name}: {_n_labelled(evaluation)} of {n_later} later turns are labelled standalone or not "
        f"({evaluation.standalone_source}); the paper's own labels are not published."
    )


def not_comparable(evaluation: Evaluation) -> str:
    """Return why the run's scores do not compare with the paper's; "" where they do."""
    if not evaluation.corpus_sizes:
        return "unknown how many passages were searched"
    domains = dict.fromkeys(result.domain for result in evaluation.results)
    other = [_size_of(domain, evaluation) for domain in domains if not _is_whole(domain, evaluation)]
    return f"scores on other corpora are not comparable with published ones ({'; '.join(other)})" if other else ""


def _is_whole(domain: str, evaluation: Evaluation) -> bool:
    """Return whether the corpus has as many passages as the official one."""
    searched, official = evaluation.corpus_sizes.get(domain), OFFICIAL_CORPUS_SIZES.get(domain)
    return searched is not None and official is not None and abs(searched - official) <= SIZE_TOLERANCE * official


def _size_of(domain: str, evaluation: Evaluation) -> str:
    found = evaluation.corpus_sizes.get(domain)
    searched = "unknown" if found is None else f"{found:,}"
    return f"{domain}: {searched} of {OFFICIAL_CORPUS_SIZES.get(domain, 0):,} passages searched"


def _is_of_paper(evaluation: Evaluation) -> bool:
    """Return whether the benchmark is the paper's, be it in part or the sample."""
    return evaluation.benchmark.removesuffix(" (sample)") == PAPER_BENCHMARK


def _names_paper(evaluation: Evaluation) -> bool:
    """Return whether the queries are the paper's: the official numbers in each domain, of the benchmark itself."""
    counts = dict.fromkeys(OFFICIAL_QUERIES, 0)
    for result in evaluation.results:
        counts[result.domain] = counts.get(result.domain, 0) + 1
    known = all(n in (0, OFFICIAL_QUERIES.get(domain)) for domain, n in counts.items())
    return evaluation.benchmark == PAPER_BENCHMARK and known


def _all_queries(evaluations: Sequence[Evaluation]) -> Table:
    rows = [[e.name, e.query_form or "-", len(e.results), *_scores(e.results)] for e in evaluations]
    if _names_paper(evaluations[0]) and len(evaluations[0].results) == sum(OFFICIAL_QUERIES.values()):
        rows += [_paper_cells(row) for row in PAPER_ROWS if row.table == 3]
    return _table(_title("All queries", 3, evaluations), ["run", "query form", "n", *_TITLES.values()], rows)


def _scores(results: Sequence[QueryResult]) -> list[Cell]:
    return [_mean(results, name) for name in _TITLES]


def _mean(results: Sequence[QueryResult], metric: str) -> Value:
    return _value(mean(results, metric), len(results))


def _value(score: Score, n: int) -> Value:
    return Value(score.value, n if score.value is not None else 0, n)


def _paper_cells(row: PaperRow) -> list[Cell]:
    printed = [f"{one_score:.2f}" for one_score in row.scores]
    unprinted = ["-"] * (len(_TITLES) - len(printed))
    return [f"paper: {row.retriever}", row.query_form, "-" if row.n is None else row.n, *printed, *unprinted]


def _by_subset(evaluations: Sequence[Evaluation]) -> Table:
    parts = {(part.dimension, part.value): part for e in evaluations for part in slices(e.results)}
    paper = _names_paper(evaluations[0])
    rows: list[list[Cell]] = []
    for key, part in parts.items():
        held = [part.of(evaluation.results) for evaluation in evaluations]
        cells = [_mean(results, "recall_5") for results in held]
        rows.append([*key, "/".join(dict.fromkeys(str(len(results)) for results in held)), *cells])
        if paper:
            rows[-1].append(_subset_cell(part, evaluations))
    names = [f"{e.name} ({e.query_form})" if e.query_form else e.name for e in evaluations]
    heads = ["subset", "value", "n", *names, *(["paper: Elser, rewrite (n)"] if paper else [])]
    return _table(_title("R@5 by subset", 4, evaluations), heads, rows)


def _subset_cell(part: Slice, evaluations: Sequence[Evaluation]) -> str:
    """Return the paper's score where it is of the same subset; a dash for one cut otherwise, such as by few labels."""
    printed = PAPER_SUBSETS.get((part.dimension, part.value))
    if printed is None:
        return "-"
    n, one_score = printed
    if part.dimension == "later turns":
        same = any(_n_labelled(evaluation) == _N_LATER for evaluation in evaluations)
    else:
        same = len(part.of(evaluations[0].results)) == n
    return f"{one_score:.2f} ({n})" if same else "-"


def _n_labelled(evaluation: Evaluation) -> int:
    """Return how many later turns have a label."""
    return sum(result.turn > 1 and result.standalone is not None for result in evaluation.results)


def _by_domain(evaluations: Sequence[Evaluation]) -> Table:
    rows: list[list[Cell]] = []
    for part in slices(evaluations[0].results):
        if part.dimension != "domain":
            continue
        for evaluation in evaluations:
            held = part.of(evaluation.results)
            rows.append([part.value, evaluation.name, evaluation.query_form or "-", len(held), *_scores(held)])
        if _names_paper(evaluations[0]):
            rows += [[part.value, *_paper_cells(row)] for row in PAPER_ROWS if row.domain == part.value]
    return _table(_title("By domain", 15, evaluations), ["domain", "run", "query form", "n", *_TITLES.values()], rows)


def _ibm(evaluations: Sequence[Evaluation]) -> Table:
    rows: list[list[Cell]] = []
    for evaluation in evaluations:
        n = len(evaluation.results) - len(evaluation.coverage.omitted)
        rows.append([evaluation.name, *(_value(evaluation.ibm[name], n) for name in _PAPER_METRICS)])
    reasons = dict.fromkeys(f"{e.name}: {s.reason}" for e in evaluations for s in e.ibm.values() if s.value is None)
    table = _table("Profile `ibm`", ["run", *(_TITLES[name] for name in _PAPER_METRICS)], rows)
    return replace(table, note=_IBM_NOTE, legend=tuple(f"unscored: {reason}" for reason in reasons))


def _pairs(evaluations: Sequence[Evaluation]) -> Table:
    first, *others = (evaluation.name for evaluation in evaluations)
    pairs = compare_columns([c for item in evaluations for c in columns_of(item, _COMPARED)], first).pairs
    rows: list[list[Cell]] = []
    for pair in sorted(pairs, key=lambda pair: others.index(pair.second.name)):
        gap, n = pair.difference.value, pair.difference.n_values
        rows.append([pair.second.name, _TITLES[pair.first.metric], n, Difference(gap, n, n), *pair.signs])
    heads = ["run", "metric", "n", "difference", "wins", "losses", "ties"]
    return _table(f"Against {first}, query by query", heads, rows)


# What the MTRAG paper prints of retrieval, and the sizes of what it searched.

PAPER_BENCHMARK = "mtrag"

OFFICIAL_CORPUS_SIZES = {"clapnq": 183_408, "fiqa": 61_022, "govt": 49_607, "cloud": 72_442}
"""Domain -> passages (MTRAG paper, Table 2).

The repository's README has these scores one domain off (it gives Cloud the 57,638 posts of FiQA), and 72,422 for the
last: hence the tolerance.
"""

SIZE_TOLERANCE = 0.001
"""Share by which a corpus may differ in size and still count as the official one."""

OFFICIAL_QUERIES = {"clapnq": 208, "fiqa": 180, "govt": 201, "cloud": 188}
"""Domain -> judged queries of the official qrels, as in Table 4; Table 15 prints 203 for Govt and 189 for Cloud."""


@dataclass(frozen=True, slots=True)
class PaperRow:
    """One line of scores of the paper, printed there with two digits."""

    table: int
    retriever: str
    query_form: str
    domain: str
    """Domain, empty for all four."""
    n: int | None
    """Queries as printed, None where nothing is printed."""
    scores: tuple[float, ...]
    """Recall at 1, 3, 5, 10, then nDCG at 1, 3, 5, 10."""


PAPER_ROWS = (
    PaperRow(3, "BM25", "last_turn", "", None, (0.08, 0.15, 0.20, 0.27, 0.17, 0.16, 0.18, 0.21)),
    PaperRow(3, "BM25", "rewrite", "", None, (0.09, 0.18, 0.25, 0.33, 0.20, 0.19, 0.22, 0.25)),
    PaperRow(3, "BGE-base 1.5", "last_turn", "", None, (0.13, 0.24, 0.30, 0.38, 0.26, 0.25, 0.27, 0.30)),
    PaperRow(3, "BGE-base 1.5", "rewrite", "", None, (0.17, 0.30, 0.37, 0.47, 0.34, 0.31, 0.34, 0.38)),
    PaperRow(3, "Elser", "last_turn", "", None, (0.18, 0.39, 0.49, 0.58, 0.42, 0.41, 0.45, 0.49)),
    PaperRow(3, "Elser", "rewrite", "", None, (0.20, 0.43, 0.52, 0.64, 0.46, 0.45, 0.48, 0.54)),
    PaperRow(15, "Elser", "last_turn", "clapnq", 208, (0.20, 0.43, 0.53, 0.65, 0.48, 0.46, 0.49, 0.54)),
    PaperRow(15, "Elser", "rewrite", "clapnq", 208, (0.22, 0.45, 0.56, 0.70, 0.54, 0.50, 0.53, 0.59)),
    PaperRow(15, "Elser", "last_turn", "fiqa", 180, (0.15, 0.34, 0.44, 0.55, 0.38, 0.36, 0.40, 0.45)),
    PaperRow(15, "Elser", "rewrite", "fiqa", 180, (0.18, 0.39, 0.50, 0.63, 0.43, 0.41, 0.46, 0.52)),
    PaperRow(15, "Elser", "last_turn", "govt", 203, (0.18, 0.42, 0.50, 0.58, 0.42, 0.44, 0.46, 0.49)),
    PaperRow(15, "Elser", "rewrite", "govt", 203, (0.21, 0.47, 0.56, 0.67, 0.47, 0.48, 0.51, 0.56)),
    PaperRow(15, "Elser", "last_turn", "cloud", 189, (0.19, 0.38, 0.48, 0.56, 0.40, 0.39, 0.42, 0.47)),
    PaperRow(15, "Elser", "rewrite", "cloud", 189, (0.20, 0.40, 0.47, 0.57, 0.42, 0.41, 0.43, 0.48)),
)
"""Katsis et al. 2025 (MTRAG), Tables 3 and 15."""

PAPER_SUBSETS = {
    ("turn", "first"): (102, 0.89),
    ("turn", "later"): (675, 0.47),
    ("later turns", "standalone"): (555, 0.48),
    ("later turns", "non-standalone"): (120, 0.42),
    ("domain", "clapnq"): (208, 0.56),
    ("domain", "fiqa"): (180, 0.50),
    ("domain", "govt"): (201, 0.56),
    ("domain", "cloud"): (188, 0.47),
}
"""Katsis et al. 2025, Table 4: slice -> (queries, R@5) of Elser with query rewrite."""


# What a run leaves out of the judged queries, or has beside them, in words: no score can be read without it.

_MOST_NAMED = 10


def coverage_notes(name: str, scores: RunScores, domain_of: Mapping[str, str]) -> Iterator[str]:
    """Yield a sentence for each kind of query that counts 0 for another reason than a bad ranking."""
    judged, omitted, empty = list(scores.values), scores.omitted, scores.empty
    if missing := missing_domains(judged, omitted, domain_of):
        n = sum(domain_of[query_id] in missing for query_id in judged)
        others = sorted({domain_of[query_id] for query_id in judged} - set(missing))
        chosen = " ".join(f"--domain {domain}" for domain in others)
        yield f"{name} has no query of {', '.join(missing)} ({n} judged queries, counted 0); the others alone: {chosen}"
    if omitted:
        yield f"{name} leaves {len(omitted)} of {len(judged)} judged queries out (counted 0): {some(omitted)}"
    if empty:
        yield f"{name} has no passage for {len(empty)} of {len(judged)} judged queries (counted 0): {some(empty)}"
    if scores.without_relevant:
        yield f"judged, but without a relevant passage (counted 0): {some(scores.without_relevant)}"


_ENOUGH_QUERIES = 10


def ranking_notes(name: str, run: Run, qrels: Sequence[Qrel]) -> Iterator[str]:
    """Yield what makes the scores of a run look better or worse than what it found: its ids, its ties, its origin."""
    judged = {qrel.query_id for qrel in qrels}
    rankings = {query_id: ranking for query_id, ranking in run.items() if query_id in judged and ranking}
    relevant = {(qrel.query_id, qrel.passage_id) for qrel in qrels if qrel.relevance > 0}
    known = {qrel.passage_id for qrel in qrels}
    passages = [(query_id, item.passage_id) for query_id, ranking in rankings.items() for item in ranking]
    if len(rankings) >= _ENOUGH_QUERIES and not any(passage_id in known for _, passage_id in passages):
        yield f"{name}: none of its passages is judged, such as {passages[0][1]}; are its ids the corpus's"
    if len(rankings) >= _ENOUGH_QUERIES and relevant.issuperset(passages):
        yield f"{name} ranks nothing but relevant passages, as a run that was made of the judgements does"
    if isinstance(run, FileRun) and (note := run.order_note(rankings)):
        yield f"{name}: {note}"
    tied = [item for item in rankings.values() if len(item) > 1 and len({one.score for one in item}) == 1]
    if 2 * len(tied) > len(rankings):
        yield f"{name}: one score for all passages in {len(tied)} of {len(rankings)} queries, so ids rank them"


def missing_domains(judged: Sequence[str], omitted: Sequence[str], domain_of: Mapping[str, str]) -> list[str]:
    """Return the domains of which a run has no judged query at all, where it has some of another."""
    left_out = set(omitted)
    present = {domain_of[query_id] for query_id in judged if query_id in domain_of and query_id not in left_out}
    known = dict.fromkeys(domain_of[query_id] for query_id in judged if query_id in domain_of)
    return [domain for domain in known if domain not in present] if present else []


def some(names: Sequence[str]) -> str:
    """Return the first names, and how many more there are."""
    more = len(names) - _MOST_NAMED
    return ", ".join(names[:_MOST_NAMED]) + (f" and {more} more" if more > 0 else "")


# Rankings judged without a corpus: stored runs, the benchmark's own, or files, by its qrels or those of a file.


@dataclass(frozen=True, slots=True)
class Ranking:
    """A run of a benchmark's tasks, wherever it comes from."""

    name: str
    run: Run
    query_form: str = ""
    """What was sent to the retriever; empty where unknown."""
    corpus_sizes: Mapping[str, int] = field(default_factory=dict)
    """Domain -> passages that were searched; empty where unknown."""
    fallbacks: str = ""
    """How many queries are the last turn in the place of a rewrite, and why; empty where none is, or unknown."""


def ranking_named(benchmark: Benchmark, store: RunStore, name: str) -> Ranking:
    """Return a stored run, the benchmark's own (`official`), or that of a file, if no stored run has the name."""
    if name == OFFICIAL:
        own_name = retrieval_side(benchmark.name).rankings_name
        return Ranking(own_name(benchmark.root) if own_name else name, _official(benchmark))
    if is_result_file(benchmark.name, store, name):
        raise ConfigurationError(
            f"{name}: a result file of {benchmark.name}'s script ranks texts, not passages with ids. Next step: "
            "`ragtasks evaluate-run` without --measures, --per-query and --format prints its scores"
        )
    if is_file_of_run(store, name):
        return Ranking(Path(name).name, read_run(Path(name)))
    stored = store.named(name, is_no_file=True)
    spec = stored.manifest.spec
    here = (benchmark.name, benchmark.is_sample, tasks_checksum(benchmark.tasks))
    if (spec["benchmark"], spec["is_sample"], spec["tasks"]) != here:
        made_for = data_label(stored.manifest)
        raise CacheError(
            f"run {name!r} was made for other data ({made_for}) than {benchmark.label}; next step: name the data of "
            "the run with --benchmark and --data"
        )
    sizes = {domain: corpus["n_passages"] for domain, corpus in spec["corpora"].items() if "n_passages" in corpus}
    run = read_stored(stored, [task.task_id for task in benchmark.tasks])
    return Ranking(name, run, spec["queries"]["form"], sizes, fallbacks_of(stored.manifest))


def is_file_of_run(store: RunStore, name: str) -> bool:
    """Return whether a name means a file: it is a path, or a file of that name is here and no stored run has it."""
    return "/" in name or (Path(name).is_file() and not (store.runs / name / MANIFEST).is_file())


def is_result_file(benchmark: str, store: RunStore, name: str) -> bool:
    """Return whether a name means a file as the benchmark's official retrieval script writes it: one JSON array."""
    writes_results = retrieval_side(benchmark).load_results is not None
    return writes_results and Path(name).suffix == ".json" and is_file_of_run(store, name)


def judgements_of(benchmark: Benchmark, domains: Sequence[str] = ()) -> list[Qrel]:
    """Return the benchmark's judgements, of all its domains or of those that are named."""
    side = retrieval_side(benchmark.name)
    present = side.domains_of(benchmark.tasks)
    for domain in domains:
        if domain not in present:
            raise ConfigurationError(
                f"unknown domain {domain!r} of {benchmark.label}: {close_matches(domain, present)}"
            )
    chosen = [domain for domain in present if not domains or domain in domains]
    return [qrel for domain in chosen for qrel in side.load_qrels(benchmark.root, domain)]


def judge_rankings(
    benchmark: Benchmark, rankings: Sequence[Ranking], metrics: Sequence[RetrievalMetric], domains: Sequence[str] = ()
) -> list[JudgedRun]:
    """Return the scores of rankings by a benchmark's judgements."""
    qrels = judgements_of(benchmark, domains)
    domain_of = {task.task_id: task.domain for task in benchmark.tasks}
    return [_judged(one, qrels, metrics, domain_of, foreign_passages(benchmark, one.run)) for one in rankings]


def judge_files(files: Sequence[Path], qrels: Sequence[Path], metrics: Sequence[RetrievalMetric]) -> list[JudgedRun]:
    """Return the scores of run files by the judgements in files; no benchmark and no corpus is needed."""
    judgements = [qrel for path in qrels for qrel in read_qrels(path)]
    return [_judged(Ranking(path.name, read_run(path)), judgements, metrics, {}, "") for path in files]


def _judged(
    ranking: Ranking,
    qrels: Sequence[Qrel],
    metrics: Sequence[RetrievalMetric],
    domain_of: Mapping[str, str],
    unscored: str,
) -> JudgedRun:
    check_overlap(ranking.run, qrels, ranking.name)
    found = score_run(ranking.run, qrels, metrics)
    notes = [f"{ranking.name}: {unscored}, so the judgements do not apply to it"] if unscored else []
    notes += [f"{ranking.name}: {ranking.fallbacks}"] if ranking.fallbacks else []
    notes += coverage_notes(ranking.name, found, domain_of)
    notes += ranking_notes(ranking.name, ranking.run, qrels)
    depth = max(map(len, ranking.run.values()), default=0)
    if deeper := [metric.title for metric in metrics if (metric.k or _cutoff(metric)) > depth]:
        notes.append(f"{ranking.name} ranks at most {depth} passages a query: {', '.join(deeper)} see no more")
    if found.unjudged:
        # A benchmark's own tasks without judgements are known; of a file, the names show what it was made for.
        named = "" if domain_of else f": {some(found.unjudged)}"
        notes.append(f"{ranking.name}: {len(found.unjudged)} of its queries are not judged (ignored){named}")
    values = {query: dict.fromkeys(row) if unscored else row for query, row in found.values.items()}
    return JudgedRun(
        ranking.name, values, {query: domain_of[query] for query in found.values if domain_of}, tuple(notes)
    )


def _cutoff(metric: RetrievalMetric) -> int:
    cutoff = metric.title.rpartition("@")[2]
    return int(cutoff) if cutoff.isdecimal() else 0


def _official(benchmark: Benchmark) -> Run:
    """Return the published top passages as a run: by their scores, or in their order where no scores are published."""
    side = retrieval_side(benchmark.name)
    if side.load_run:
        return side.load_run(benchmark.root)
    contexts = side.load_rankings(benchmark.root) if side.load_rankings else published_passages(benchmark)
    distinct = {task_id: dict.fromkeys(passages) for task_id, passages in contexts.items()}
    return {
        task_id: in_rank_order(Ranked(item.passage_id, float(-rank)) for rank, item in enumerate(passages))
        for task_id, passages in distinct.items()
    }


# What judges grade: questions with the passages that runs rank first for them, pooled over the runs.

_MAX_LISTED = 5


def pairs_of_benchmark(benchmark: Benchmark, runs: Sequence[Run], depth: int) -> list[tuple[Task, Passage]]:
    """Return each task with the passages that a run ranks among its first `depth`, by task, then in rank order.

    The benchmark's corpora are read once for the texts.
    """
    ranked = {
        task.task_id: list(dict.fromkeys(item.passage_id for run in runs for item in run.get(task.task_id, ())[:depth]))
        for task in benchmark.tasks
    }
    wanted = {passage_id for ids in ranked.values() for passage_id in ids}
    domains = retrieval_side(benchmark.name).domains_of(benchmark.tasks)
    texts = {item.passage_id: item for item in _corpus(benchmark, domains) if item.passage_id in wanted}
    if missing := sorted(wanted - texts.keys()):
        raise BenchmarkFileError(
            "passages to judge",
            where=benchmark.label,
            expected="the text of every passage that the runs rank",
            found=f"none of {len(missing)}, such as {', '.join(missing[:_MAX_LISTED])}",
            next_step="give the runs that were made over these corpora",
        )
    return [(task, texts[passage_id]) for task in benchmark.tasks for passage_id in ranked[task.task_id]]


def pairs_of_files(files: Sequence[Path], depth: int) -> list[tuple[Task, Passage]]:
    """Return each topic of files of retrieval results with its first `depth` candidates; no benchmark is needed."""
    tasks: dict[str, Task] = {}
    found: dict[str, dict[str, Passage]] = {}
    for file in files:
        for task, passages in _topics(file, depth):
            first = tasks.setdefault(task.task_id, task)
            for passage in passages:
                found.setdefault(first.task_id, {}).setdefault(passage.passage_id, passage)
    return [(tasks[topic_id], passage) for topic_id, by_passage in found.items() for passage in by_passage.values()]


def _topics(file: Path, depth: int) -> Iterator[tuple[Task, list[Passage]]]:
    problems = Problems(file, "retrieval results", "fix them, or name the --benchmark of a run without texts")
    for number, row in json_lines(problems):
        try:
            topic = retrieved_topic(row)
        except ValueError as error:
            problems.add(number, "query and candidates", str(error) if has_candidates(row) else list(row))
            continue
        if not topic.text.strip():
            problems.add(number, "`query` with a `text`", "none", topic.topic_id)
        rows: list[Mapping[str, object]] = [{**one.doc, "docid": one.passage_id} for one in topic.candidates[:depth]]
        passages = [with_text(one) for one in rows]
        for wrong in (one for one in passages if isinstance(one, str)):
            problems.add(number, "a text of every candidate", wrong, topic.topic_id)
        yield _task(topic.topic_id, topic.text), [one for one in passages if isinstance(one, Passage)]
    problems.raise_if_any()


def _task(topic_id: str, text: str) -> Task:
    return Task(
        task_id=topic_id,
        conversation_id=topic_id,
        turn=1,
        domain="",
        messages=(Message(Role.USER, text),),
        target="",
        answerability=Answerability.ANSWERABLE,
    )

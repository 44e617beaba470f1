"""Evaluation of runs: scores of every judged query, and the tables of the MTRAG paper.

A mean covers all judged queries of its slice, also those that the run omits. Runs with the same qrels can therefore be
compared query by query.
"""

from __future__ import annotations

import shlex
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path

from ragtasks.benchmarks.mtrag import NO_LABELS, StandaloneLabels
from ragtasks.errors import BenchmarkFileError, CacheError, ConfigurationError, RagtasksError
from ragtasks.files import FileRun, Run, read_qrels, read_run, trec_form
from ragtasks.metrics import IBM_METRICS, RETRIEVAL_METRICS, RetrievalMetric, RunScores, score_run, score_run_ibm
from ragtasks.published import (
    PublishedTable,
    other_sizes,
    published_subsets,
    published_table,
    published_tables,
)
from ragtasks.records import Qrel, Score, Task
from ragtasks.statistics import Column, compare_columns
from ragtasks.tables import ALL, Cell, Difference, Section, Slice, Table, Value, slices_of, table_of
from retrieval_cache.rankings import Ranking


@dataclass(frozen=True, slots=True)
class QueryResult:
    """The scores of one judged query."""

    query_id: str
    domain: str
    """Empty if no task has the query's id."""
    conversation_id: str
    turn: int
    """User turn, counted from 1; 0 if no task has the query's id."""
    standalone: bool | None
    """Whether the question is understandable without its conversation; None without a label."""
    values: Mapping[str, float | None]
    """Metric name -> value, None if the judgements do not apply to the run."""


@dataclass(frozen=True)
class JudgedRun:
    """A ranking with its scores and the notes for its tables."""

    ranking: Ranking
    data: str
    """Label of the benchmark, or names of the files of judgements."""
    results: tuple[QueryResult, ...]
    """One result per judged query, in the order of the judgements."""
    coverage: RunScores
    """Omitted, empty and unjudged queries of the run."""
    standalone_source: str = ""
    """Source of the standalone labels of questions."""
    ibm: Mapping[str, Score] = field(default_factory=dict)
    """Metric name -> score of the official script (profile `ibm`); {} if other metrics were requested."""
    unscored: str = ""
    """Reason why the judgements do not apply to the run; empty if they do."""
    ranking_notes: tuple[str, ...] = ()
    """Notes on ids, ties and order of the ranking, printed after the run's name."""

    @property
    def name(self) -> str:
        """Name of the run."""
        return self.ranking.name


def judge(
    ranking: Ranking,
    qrels: Iterable[Qrel],
    tasks: Iterable[Task] | None,
    *,
    data: str = "",
    standalone: StandaloneLabels = NO_LABELS,
    unscored: str = "",
    metrics: Sequence[RetrievalMetric] = RETRIEVAL_METRICS,
) -> JudgedRun:
    """Return the scores of a ranking over all queries of the qrels. Omitted queries count 0 and are listed.

    Without tasks (None), queries have no domain, and each query is its own conversation.

    Source: MTRAG paper, section 5 (Tables 3, 4, 15); `ibm` is the output of run_retrieval_eval.py (cc5b1d4).
    """
    judgements = tuple(qrels)
    task_of = {task.task_id: task for task in tasks or ()}
    if tasks is not None:
        _check_queries(judgements, task_of)
    _check_overlap(ranking, judgements)
    scores = score_run(ranking.run, judgements, metrics)
    ibm: Mapping[str, Score] = {}
    if tasks is not None and set(IBM_METRICS) <= set(metrics):
        ibm = score_run_ibm(ranking.run, judgements, {task_id: task.domain for task_id, task in task_of.items()})
    results = []
    for query_id, values in scores.values.items():
        task, label = task_of.get(query_id), standalone.labels.get(query_id)
        of_task = ("", query_id, 0, None) if task is None else (task.domain, task.conversation_id, task.turn, label)
        results.append(QueryResult(query_id, *of_task, dict.fromkeys(values) if unscored else values))
    return JudgedRun(
        ranking=ranking,
        data=data,
        results=tuple(results),
        coverage=scores,
        standalone_source=standalone.source,
        ibm=dict.fromkeys(ibm, Score(None, unscored)) if unscored else ibm,
        unscored=unscored,
        ranking_notes=tuple(_ranking_notes(ranking.run, judgements)),
    )


def judge_files(
    files: Sequence[Path], qrels: Sequence[Path], metrics: Sequence[RetrievalMetric] = RETRIEVAL_METRICS
) -> list[JudgedRun]:
    """Return the scores of run files by files of judgements. No benchmark and no corpus is required."""
    try:
        judgements = [qrel for path in qrels for qrel in read_qrels(path)]
        runs = {path: read_run(path) for path in files}
    except RagtasksError as error:
        raise wrong_order_error(files, qrels) or error from error
    data = ", ".join(path.name for path in qrels)
    return [judge(Ranking(path.name, runs[path]), judgements, None, data=data, metrics=metrics) for path in files]


def wrong_order_error(files: Sequence[Path], qrels: Sequence[Path]) -> ConfigurationError | None:
    """Return an error if runs and judgements are swapped, with the corrected command; else None."""
    form_of = {path: trec_form(path) for path in (*files, *qrels)}
    runs = [str(path) for path, form in form_of.items() if form == "run"]
    judged = [str(path) for path, form in form_of.items() if form == "qrels"]
    if not runs or not judged or {*runs} == {*map(str, files)}:
        return None
    command = shlex.join(["ragtasks", "evaluate-run", *runs, *(part for path in judged for part in ("--qrels", path))])
    problem = f"{', '.join(judged)} contains judgements, {', '.join(runs)} contains rankings"
    return ConfigurationError(f"{problem}. Next step: {command}")


def _check_queries(qrels: Sequence[Qrel], task_of: Mapping[str, Task]) -> None:
    unknown = list(dict.fromkeys(qrel.query_id for qrel in qrels if qrel.query_id not in task_of))
    if unknown:
        raise BenchmarkFileError(
            "qrels",
            where=f"{len(unknown)} queries, the first is {unknown[0]!r}",
            expected="tasks of the benchmark",
            found="ids of no task",
            next_step="evaluate with the qrels and the tasks of the same benchmark",
        )


def _check_overlap(ranking: Ranking, qrels: Sequence[Qrel]) -> None:
    """Raise CacheError for a run of other data: its scores would all be 0, like those of a bad retriever."""
    run = ranking.run
    if run and qrels and not any(qrel.query_id in run for qrel in qrels):
        raise CacheError(
            "run",
            where=ranking.name,
            expected=f"judged queries, such as {qrels[0].query_id!r}",
            found=f"{len(run)} unjudged queries, such as {next(iter(run))!r}",
            next_step="evaluate it with the qrels of its own data",
        )


_STANDALONE: Mapping[bool | None, tuple[str, ...]] = {None: (), True: ("standalone",), False: ("non-standalone",)}
DIMENSIONS: Mapping[str, Callable[[QueryResult], tuple[str, ...]]] = {
    "turn": lambda result: (("first" if result.turn == 1 else "later"),) if result.turn else (),
    "later turns": lambda result: _STANDALONE[result.standalone] if result.turn > 1 else (),
    "domain": lambda result: (result.domain,) if result.domain else (),
}
"""Slices of the paper's Tables 4 and 15. Only later turns have standalone labels."""


def mean(results: Sequence[QueryResult], metric: str) -> Value:
    """Return the mean of a metric; without a value if a result is unscored, or without results."""
    values = [value for result in results if (value := result.values[metric]) is not None]
    if not values or len(values) < len(results):
        return Value(None, 0, len(results))
    return Value(sum(values) / len(values), len(values), len(values))


def columns_of(
    judged: JudgedRun, metrics: Iterable[RetrievalMetric], group: str = ALL, note: str = ""
) -> Iterator[Column]:
    """Yield the values of each metric by query, clustered by conversation. `group` is `all` or a domain."""
    results = [result for result in judged.results if group in {ALL, result.domain}]
    for metric in metrics:
        yield Column(
            context=judged.data,
            group=group,
            metric=metric.name,
            name=judged.name,
            values={result.query_id: result.values[metric.name] for result in results},
            cluster_of={result.query_id: result.conversation_id for result in results},
            bounds=(0.0, 1.0),
            note=note,
        )


def query_rows(runs: Sequence[JudgedRun], metrics: Sequence[RetrievalMetric]) -> Iterator[dict[str, object]]:
    """Yield the scores of each run and judged query in full precision, under the names of the table's columns."""
    for run in runs:
        for result in run.results:
            domain = {"domain": result.domain} if result.domain else {}
            values = {metric.name: result.values[metric.name] for metric in metrics}
            yield {"run": run.name, "query_id": result.query_id, **domain, **values}


# Tables of evaluated runs, in the form of the MTRAG paper's Tables 3, 4 and 15; on MTRAG next to the paper's scores.
# The paper searched complete corpora. If a corpus is smaller or of unknown size, a note above the tables states that
# scores are not comparable. For the sample and for other queries, the paper's scores are left out. The official scripts
# come with no run and its scores that could be recomputed, so parity is not claimed.

_N_LATER = 675
_PAPER_METRICS = tuple(metric.name for metric in IBM_METRICS)
_COMPARED = ("R@5", "nDCG@5", "AP", "RR")
_BY_SUBSET = "R@5"
_IBM_NOTE = "Unlike above, omitted queries are left out, and means of domains are rounded and weighted by predictions."


def retrieval_section(runs: Sequence[JudgedRun], metrics: Sequence[RetrievalMetric] = RETRIEVAL_METRICS) -> Section:
    """Return notes and tables: all queries, subsets, domains (on MTRAG: Tables 3, 4, 15), profile `ibm`, pairs."""
    _check_same_queries(runs)
    names = [metric.name for metric in metrics]
    notes = tuple(_notes_before(runs, metrics))
    tables = [Table("Before the scores", (), (), legend=notes)] if notes else []
    tables.append(_all_queries(runs, metrics))
    if _BY_SUBSET in names and any(result.turn for run in runs for result in run.results):
        tables.append(_by_subset(runs))
    if any(result.domain for run in runs for result in run.results):
        tables.append(_by_domain(runs, metrics))
    if any(run.ibm for run in runs):
        tables.append(_ibm(runs))
    tables += _published(runs, metrics)
    if len(runs) > 1 and (compared := [metric for metric in metrics if metric.name in _COMPARED]):
        tables.append(_pairs(runs, compared))
    title = f"Retrieval on {runs[0].data or 'unnamed data'}"
    return Section(title, {"runs": ", ".join(run.name for run in runs)}, tuple(tables))


def _check_same_queries(runs: Sequence[JudgedRun]) -> None:
    """Raise ConfigurationError unless all runs have the same benchmark and the same judged queries."""
    kinds = {(run.data, frozenset(result.query_id for result in run.results)) for run in runs}
    if len(kinds) > 1:
        raise ConfigurationError(
            "runs side by side",
            where=", ".join(run.name for run in runs),
            expected="the same judged queries of the same benchmark",
            found="; ".join(f"{run.name}: {len(run.results)} queries of {run.data or 'no name'}" for run in runs),
            next_step="evaluate them with the same qrels",
        )


def _as_in_paper(number: int, runs: Sequence[JudgedRun]) -> str:
    """Return a note with the number of the paper's table, on the paper's benchmark."""
    is_of_paper = runs[0].data.removesuffix(" (sample)") == PAPER_BENCHMARK
    return f"As Table {number} of the MTRAG paper." if is_of_paper else ""


def _notes_before(runs: Sequence[JudgedRun], metrics: Sequence[RetrievalMetric]) -> Iterator[str]:
    """Yield the notes above the scores: each note once, after the names of its runs."""
    if _names_paper(runs[0]):
        yield "Rows and columns headed `paper` are scores printed in the paper (Elser is version 1)."
    names_of: dict[str, list[str]] = {}
    for run in runs:
        for note in _notes_on(run, metrics):
            names_of.setdefault(note, []).append(run.name)
    for note, names in names_of.items():
        yield f"every run{note}" if 1 < len(names) == len(runs) else f"{', '.join(names)}{note}"


def _notes_on(run: JudgedRun, metrics: Sequence[RetrievalMetric]) -> Iterator[str]:
    """Yield each note on a run as the end of a sentence that begins with the run's name."""
    if run.data.removesuffix(" (sample)") == PAPER_BENCHMARK and not _names_paper(run):
        yield ": other data than the paper's, so its scores are left out."
    elif _names_paper(run) and (problem := not_comparable(run)):
        yield f" is not comparable with the paper: {problem}."
    if run.unscored:
        yield f": {run.unscored}, so the judgements do not apply to it."
    yield from (f"{note}." for note in notes_of(run, metrics))
    if unjudged := run.coverage.unjudged:
        # Unjudged tasks of a benchmark are expected. In a file, their names show which data it was made for.
        named = "" if any(result.turn for result in run.results) else f": {_shortened(unjudged)}"
        yield f": {len(unjudged)} of its queries are not judged (ignored){named}."
    if _names_paper(run) or _n_labelled(run):
        n_later = sum(result.turn > 1 for result in run.results)
        yield (
            f": {_n_labelled(run)} of {n_later} later turns are labelled standalone or not "
            f"({run.standalone_source}); the paper's own labels are not published."
        )


def not_comparable(run: JudgedRun) -> str:
    """Return the reason why the scores are not comparable with the paper's; "" if they are."""
    sizes = run.ranking.corpus_sizes
    if not sizes:
        return "the number of searched passages is unknown"
    differences = list(other_sizes(sizes, dict.fromkeys(result.domain for result in run.results)))
    return (
        f"scores on other corpora are not comparable with published ones ({'; '.join(differences)})"
        if differences
        else ""
    )


def _names_paper(run: JudgedRun) -> bool:
    """Return whether the judged queries are the paper's, by benchmark and number per domain."""
    counts = Counter(result.domain for result in run.results)
    return run.data == PAPER_BENCHMARK and all(n == OFFICIAL_QUERIES.get(domain) for domain, n in counts.items())


def _scores(metrics: Sequence[RetrievalMetric]) -> dict[str, Callable[[Sequence[QueryResult]], Cell]]:
    """Return the columns of a table: the number of queries, and the mean of each metric."""
    return {"n": len, **{metric.name: partial(mean, metric=metric.name) for metric in metrics}}


def _all_queries(runs: Sequence[JudgedRun], metrics: Sequence[RetrievalMetric]) -> Table:
    heads = _run_heads(runs)
    groups = [((run.name, run.ranking.query_form or "-")[: len(heads)], run.results) for run in runs]
    table = table_of("All queries", heads, groups, _scores(metrics), _as_in_paper(3, runs))
    if not _names_paper(runs[0]) or len(runs[0].results) < sum(OFFICIAL_QUERIES.values()):
        return table
    return replace(table, rows=(*table.rows, *_paper_cells(published_table("MTRAG paper, Table 3"), metrics)))


def _run_heads(runs: Sequence[JudgedRun]) -> tuple[str, ...]:
    """Return the heads of the first columns: the run, and on a benchmark the query form."""
    return ("run", "query form") if any(result.turn for run in runs for result in run.results) else ("run",)


def _paper_cells(
    paper: PublishedTable, metrics: Sequence[RetrievalMetric], subset: str = ""
) -> Iterator[tuple[Cell, ...]]:
    """Yield the rows of a table in the paper, of one subset."""
    for row in paper.rows:
        if row.subset == subset:
            scores = (paper.score(row, metric.name) if metric.name in paper.metrics else "-" for metric in metrics)
            yield (f"paper: {row.name}", row.setting, "-" if row.n is None else row.n, *scores)


def _by_subset(runs: Sequence[JudgedRun]) -> Table:
    parts = slices_of([result for run in runs for result in run.results], DIMENSIONS, n_least=1)
    paper = _names_paper(runs[0])
    rows: list[tuple[Cell, ...]] = []
    for part in parts:
        chosen = [part.of(run.results) for run in runs]
        n = "/".join(dict.fromkeys(str(len(results)) for results in chosen))
        cells = [mean(results, _BY_SUBSET) for results in chosen]
        rows.append((part.dimension, part.value, n, *cells, *([_subset_cell(part, runs)] if paper else [])))
    names = [f"{run.name} ({run.ranking.query_form})" if run.ranking.query_form else run.name for run in runs]
    heads = ("subset", "value", "n", *names, *(["paper: Elser, rewrite (n)"] if paper else []))
    return Table(f"{_BY_SUBSET} by subset", heads, tuple(rows), _as_in_paper(4, runs))


def _subset_cell(part: Slice[QueryResult], runs: Sequence[JudgedRun]) -> str:
    """Return the paper's score, or "-" if the subset has another size."""
    subsets = published_subsets()
    if part.dimension == ALL or (part.dimension, part.value) not in subsets:
        return "-"
    n, score = subsets[part.dimension, part.value]
    if part.dimension == "later turns":
        same = any(_n_labelled(run) == _N_LATER for run in runs)
    else:
        same = len(part.of(runs[0].results)) == n
    return f"{score} ({n})" if same else "-"


def _n_labelled(run: JudgedRun) -> int:
    """Return the number of later turns with a standalone label."""
    return sum(result.turn > 1 and result.standalone is not None for result in run.results)


def _by_domain(runs: Sequence[JudgedRun], metrics: Sequence[RetrievalMetric]) -> Table:
    columns = _scores(metrics)
    heads = ("domain", *_run_heads(runs))
    rows: list[tuple[Cell, ...]] = []
    for part in slices_of(runs[0].results, {"domain": DIMENSIONS["domain"]}, n_least=1):
        if part.dimension == "domain":
            groups = [((part.value, run.name, run.ranking.query_form or "-"), part.of(run.results)) for run in runs]
            rows += table_of("", heads, groups, columns).rows
            if _names_paper(runs[0]):
                paper = published_table("MTRAG paper, Table 15")
                rows += [(part.value, *cells) for cells in _paper_cells(paper, metrics, f"domain: {part.value}")]
    return Table("By domain", (*heads, *columns), tuple(rows), _as_in_paper(15, runs))


def _ibm(runs: Sequence[JudgedRun]) -> Table:
    rows: list[tuple[Cell, ...]] = []
    for run in runs:
        n = len(run.results) - len(run.coverage.omitted)
        scores = (run.ibm[name].value for name in _PAPER_METRICS)
        rows.append((run.name, *(Value(score, n if score is not None else 0, n) for score in scores)))
    reasons = dict.fromkeys(f"{run.name}: {s.reason}" for run in runs for s in run.ibm.values() if s.value is None)
    heads = ("run", *_PAPER_METRICS)
    return Table("Profile `ibm`", heads, tuple(rows), _IBM_NOTE, tuple(f"unscored: {reason}" for reason in reasons))


def _published(runs: Sequence[JudgedRun], metrics: Sequence[RetrievalMetric]) -> Iterator[Table]:
    """Yield published scores of the benchmark next to those of the runs that searched the complete corpora."""
    n = len(runs[0].results)
    complete = [run for run in runs if not run.unscored and not not_comparable(run)]
    if not complete or runs[0].data == PAPER_BENCHMARK:  # the tables above contain the scores of that paper
        return
    for published in published_tables(runs[0].data):
        rows = [row for row in published.rows if not row.subset]
        names = [metric.name for metric in metrics if metric.name in published.metrics]
        if not rows or not names or not published.is_covered_by(n):
            continue
        cells: list[tuple[Cell, ...]] = [
            (run.name, run.ranking.query_form or "-", n, *_own_scores(run, published, names)) for run in complete
        ]
        for row in rows:
            scores = (published.score(row, name) for name in names)
            label = f"{row.name} (rank {row.rank} of {published.n_teams})" if row.rank else row.name
            cells.append((f"published: {label}", row.setting, published.n, *scores))
        heads = ("run", "query form", "n", *names)
        yield Table(f"Published: {published.title}", heads, tuple(cells), published.note_for(n))


def _own_scores(run: JudgedRun, published: PublishedTable, names: Sequence[str]) -> Iterator[Cell]:
    """Yield the scores of a run in the profile of the published ones."""
    for name in names:
        if published.profile == "paper":
            yield mean(run.results, name)
        else:
            score = run.ibm.get(name, Score(None)).value
            yield Value(score, len(run.results) if score is not None else 0, len(run.results))


def _pairs(runs: Sequence[JudgedRun], metrics: Sequence[RetrievalMetric]) -> Table:
    first, *other_names = (run.name for run in runs)
    pairs = compare_columns([column for run in runs for column in columns_of(run, metrics)], first).pairs
    rows: list[tuple[Cell, ...]] = []
    for pair in sorted(pairs, key=lambda pair: other_names.index(pair.second.name)):
        gap, n = pair.difference.value, pair.difference.n_values
        rows.append((pair.second.name, pair.first.metric, n, Difference(gap, n, n), *pair.signs))
    heads = ("run", "metric", "n", "difference", "wins", "losses", "ties")
    return Table(f"Against {first}, query by query", heads, tuple(rows))


# Retrieval scores printed in the MTRAG paper.

PAPER_BENCHMARK = "mtrag"

OFFICIAL_QUERIES = {"clapnq": 208, "fiqa": 180, "govt": 201, "cloud": 188}
"""Domain -> judged queries of the official qrels, as in Table 4; Table 15 prints 203 for Govt and 189 for Cloud."""


# Notes on properties of a run, other than its ranking, that affect its scores.

_MOST_NAMED = 10
_ENOUGH_QUERIES = 10


def notes_of(run: JudgedRun, metrics: Iterable[RetrievalMetric]) -> Iterator[str]:
    """Yield each note as the end of a sentence that begins with the run's name, without its full stop."""
    if run.ranking.fallbacks:
        yield f": {run.ranking.fallbacks}"
    yield from _coverage_notes(run.coverage, {result.query_id: result.domain for result in run.results})
    yield from run.ranking_notes
    depth = run.ranking.depth
    deeper = [metric.name for metric in metrics if (metric.k or _cutoff(metric)) > depth]
    if deeper and depth:
        yield f" ranks at most {depth} passages per query, below the cut-off of {', '.join(deeper)}"


def _cutoff(metric: RetrievalMetric) -> int:
    cutoff = metric.name.rpartition("@")[2]
    return int(cutoff) if cutoff.isdecimal() else 0


def _coverage_notes(scores: RunScores, domain_of: Mapping[str, str]) -> Iterator[str]:
    """Yield a note for each group of queries that count 0 for a reason other than a bad ranking."""
    judged, omitted, empty = list(domain_of), scores.omitted, scores.empty
    left_out = set(omitted)
    present = sorted({domain for query_id, domain in domain_of.items() if query_id not in left_out})
    missing = [domain for domain in dict.fromkeys(domain_of.values()) if domain not in present]
    if present and missing:
        n = sum(domain in missing for domain in domain_of.values())
        chosen = " ".join(f"--domain {domain}" for domain in present)
        yield f" has no query of {', '.join(missing)} ({n} judged queries, counted 0); the others alone: {chosen}"
    if omitted:
        yield f" omits {len(omitted)} of {len(judged)} judged queries (counted 0): {_shortened(omitted)}"
    if empty:
        yield f" has no passage for {len(empty)} of {len(judged)} judged queries (counted 0): {_shortened(empty)}"
    if scores.without_relevant:
        yield f": judged, but without a relevant passage (counted 0): {_shortened(scores.without_relevant)}"


def _ranking_notes(run: Run, qrels: Sequence[Qrel]) -> Iterator[str]:
    """Yield notes on ids, ties and origin of the run that distort its scores."""
    judged = {qrel.query_id for qrel in qrels}
    rankings = {query_id: ranking for query_id, ranking in run.items() if query_id in judged and ranking}
    relevant = {(qrel.query_id, qrel.passage_id) for qrel in qrels if qrel.relevance > 0}
    judged_passages = {qrel.passage_id for qrel in qrels}
    passages = [(query_id, ranked.passage_id) for query_id, ranking in rankings.items() for ranked in ranking]
    if passages and not any(passage_id in judged_passages for _, passage_id in passages):
        judged_id = next(qrel.passage_id for qrel in qrels if qrel.query_id == passages[0][0])
        yield f": none of its passages is judged, such as {passages[0][1]}; the judgements have ids such as {judged_id}"
    folded = {passage_id.casefold(): passage_id for passage_id in judged_passages}
    other_case = [name for _, name in passages if name not in judged_passages and name.casefold() in folded]
    if other_case:
        name = other_case[0]
        yield f" has {len(other_case)} ids that differ from judged ids in case: {name} for {folded[name.casefold()]}"
    if len(rankings) >= _ENOUGH_QUERIES and relevant.issuperset(passages):
        yield " ranks only relevant passages, like a run made from the judgements"
    if isinstance(run, FileRun) and (note := run.order_note(rankings)):
        yield f": {note}"
    tied = [
        ranking for ranking in rankings.values() if len(ranking) > 1 and len({ranked.score for ranked in ranking}) == 1
    ]
    if 2 * len(tied) > len(rankings):
        yield f": equal scores for all passages in {len(tied)} of {len(rankings)} queries, so they are ranked by id"


def _shortened(names: Sequence[str]) -> str:
    """Return the first names and the number of further names."""
    more = len(names) - _MOST_NAMED
    return ", ".join(names[:_MOST_NAMED]) + (f" and {more} more" if more > 0 else "")

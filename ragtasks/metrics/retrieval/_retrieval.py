"""Scores of a run against relevance judgements: one value a judged query and metric.

Every judged query counts: a run that leaves the hard ones out cannot gain by it. trec_eval's code computes (through
pytrec-eval-terrier and ir-measures); definitions stand apart from it. It holds scores as 32-bit floats, orders equal
ones by passage id descending, and divides recall by all relevant passages, also where the cut-off is smaller.

The `ibm` profile repeats run_retrieval_eval.py of IBM/mt-rag-benchmark at cc5b1d4: what it does differently stands in
functions named `ibm_...`, one a quirk.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ragtasks.errors import BenchmarkFileError, CacheError, ConfigurationError, MissingExtraError, clear_error
from ragtasks.files import Ranked, Run
from ragtasks.records import Qrel, Score

CUTOFFS = (1, 3, 5, 10)
"""How many passages the scores look at (MTRAG paper, section 5.1)."""

_IBM_DIGITS = 5
_MOST_SHOWN = 5

Judgements = Mapping[str, Mapping[str, int]]
"""Query id -> passage id -> relevance; relevant from 1 on, and nDCG's gain is the relevance itself."""


@dataclass(frozen=True, slots=True)
class RetrievalMetric:
    """What a retrieval score is, whoever computes it: between 0 and 1, higher is better, 0 without any passage."""

    name: str
    """Name in tables and logs."""
    title: str
    """Name as the literature writes it."""
    measure: str
    """Measure in the notation of ir-measures, without the cut-off where `k` is one."""
    k: int | None
    """How many passages count; None for all."""
    description: str
    """One line for legends."""


RETRIEVAL_METRICS = (
    *(
        RetrievalMetric(f"recall_{k}", f"R@{k}", "R", k, f"share of all relevant passages among the first {k}")
        for k in CUTOFFS
    ),
    *(
        RetrievalMetric(f"ndcg_{k}", f"nDCG@{k}", "nDCG", k, f"discounted gain of the first {k} over the best possible")
        for k in CUTOFFS
    ),
    RetrievalMetric("map", "MAP", "AP", None, "mean over the relevant passages of the precision at their rank"),
    RetrievalMetric("mrr", "MRR", "RR", None, "1 over the rank of the first relevant passage"),
    RetrievalMetric("recall_20", "R@20", "R", 20, "share of all relevant passages among the first 20"),
)
"""Every metric of a run, in the order of the paper's Table 3, then MAP, MRR and what Table 5 of OR-CONVQA has more."""

IBM_METRICS = tuple(metric for metric in RETRIEVAL_METRICS if metric.k in CUTOFFS)
"""What the official script computes (1, 3 and 5; its documentation names 10 too)."""


@dataclass(frozen=True, slots=True)
class RunScores:
    """The scores of one run."""

    values: Mapping[str, Mapping[str, float]]
    """Query id -> metric name -> value, for every judged query, in the order of the judgements."""
    omitted: tuple[str, ...]
    """Judged queries that the run leaves out altogether: they count 0."""
    empty: tuple[str, ...]
    """Judged queries whose ranking is empty: they count 0."""
    without_relevant: tuple[str, ...]
    """Judged queries without a relevant passage: 0 on every metric, whatever is retrieved, as trec_eval has it."""
    unjudged: tuple[str, ...]
    """Queries of the run without a judgement: ignored."""


def retrieval_metric(name: str) -> RetrievalMetric:
    """Return the metric of a name in `RETRIEVAL_METRICS`, or in the notation of ir-measures, such as `nDCG@20`.

    Raises:
        ConfigurationError: neither, or a measure that trec_eval does not compute.
        MissingExtraError: the extra `retrieval` is not installed.
    """
    known = {metric.name: metric for metric in RETRIEVAL_METRICS}
    if name in known:
        return known[name]
    provider = _provider()
    import ir_measures

    try:
        measure = ir_measures.parse_measure(name.strip())
        if not provider.supports(measure):
            raise ValueError(f"trec_eval does not compute {measure}")
        if (k := measure.params.get("cutoff", 1)) < 1:
            raise ValueError(f"a cut-off of {k}")
    except (NameError, ValueError, TypeError, AssertionError) as error:
        message = clear_error(
            "measure",
            where=name,
            expected="a measure of trec_eval in the notation of ir-measures, such as nDCG@20, R@100, P(rel=2)@5 or AP",
            found=str(error),
            next_step=f"write it so, or take one of {', '.join(known)}",
        )
        raise ConfigurationError(message) from error
    return RetrievalMetric(str(measure), str(measure), str(measure), None, "as ir-measures defines it")


def score_run(run: Run, qrels: Iterable[Qrel], metrics: Sequence[RetrievalMetric] = RETRIEVAL_METRICS) -> RunScores:
    """Return every metric for every judged query; nothing at all without judgements.

    Source: MTRAG paper, section 5.1 (Recall and nDCG at 1, 3, 5, 10). Values equal trec_eval's for each query. It
    differs from run_retrieval_eval.py (cc5b1d4) where `score_run_ibm` says so, above all in counting omitted queries.

    Args:
        run: query id -> passages; their order counts only through the scores.
        qrels: judgements, each pair once.
        metrics: what to compute.

    Raises:
        BenchmarkFileError: a pair is judged twice.
        CacheError: a ranking has a passage twice or a score that is no finite number.
        MissingExtraError: the extra `retrieval` is not installed.
    """
    judgements = by_query(qrels)
    rankings = {query_id: _unique_finite(query_id, ranking) for query_id, ranking in run.items()}
    return RunScores(
        values=_compute(rankings, judgements, metrics),
        omitted=tuple(query_id for query_id in judgements if query_id not in run),
        empty=tuple(query_id for query_id in judgements if query_id in run and not run[query_id]),
        without_relevant=tuple(query_id for query_id, judged in judgements.items() if max(judged.values()) < 1),
        unjudged=tuple(query_id for query_id in run if query_id not in judgements),
    )


def by_query(qrels: Iterable[Qrel]) -> dict[str, dict[str, int]]:
    """Return query id -> passage id -> relevance, in the order of the judgements; {} for none.

    Raises:
        BenchmarkFileError: a pair is judged twice.
    """
    judgements: dict[str, dict[str, int]] = {}
    for qrel in qrels:
        judged = judgements.setdefault(qrel.query_id, {})
        if qrel.passage_id in judged:
            message = clear_error(
                "qrels",
                where=f"query {qrel.query_id}",
                expected="each passage judged once",
                found=f"{qrel.passage_id!r} twice",
                next_step="remove one of the two lines",
            )
            raise BenchmarkFileError(message)
        judged[qrel.passage_id] = qrel.relevance
    return judgements


def _unique_finite(query_id: str, ranking: Sequence[Ranked]) -> dict[str, float]:
    """Return passage id -> score of a ranking that a dict can hold without losing or reordering anything."""
    scores = {item.passage_id: float(item.score) for item in ranking}
    if len(scores) == len(ranking) and all(map(math.isfinite, scores.values())):
        return scores
    twice = [f"{passage_id!r} {n} times" for passage_id, n in Counter(i.passage_id for i in ranking).items() if n > 1]
    infinite = [
        f"{passage_id!r} with score {score}" for passage_id, score in scores.items() if not math.isfinite(score)
    ]
    message = clear_error(
        "run",
        where=f"query {query_id}",
        expected="each passage once, with a finite score",
        found=", ".join([*twice, *infinite][:_MOST_SHOWN]),
        next_step="make the run again",
    )
    raise CacheError(message)


def _compute(
    rankings: Mapping[str, Mapping[str, float]], judgements: Judgements, metrics: Sequence[RetrievalMetric]
) -> dict[str, dict[str, float]]:
    """Return query id -> metric name -> value for every judged query; one without a ranking has the default, 0."""
    measures = _measures(metrics)
    if not judgements:
        return {}
    values: dict[str, dict[Any, float]] = {query_id: {} for query_id in judgements}
    for found in _provider().evaluator(list(dict.fromkeys(measures.values())), judgements).iter_calc(rankings):
        values[found.query_id][found.measure] = float(found.value)
    return {query_id: {name: row[measure] for name, measure in measures.items()} for query_id, row in values.items()}


def _measures(metrics: Sequence[RetrievalMetric]) -> dict[str, Any]:
    """Return metric name -> measure object of ir-measures."""
    _provider()
    import ir_measures

    families = {metric.measure: ir_measures.parse_measure(metric.measure) for metric in metrics}
    return {m.name: families[m.measure] if m.k is None else families[m.measure] @ m.k for m in metrics}


def _provider() -> Any:
    """Return the one backend that is used: another that ir-measures might pick orders ties its own way."""
    try:
        import ir_measures
        import pytrec_eval  # noqa: F401  ir-measures itself would only say that a provider is not available
    except ImportError as error:
        raise MissingExtraError("pytrec-eval-terrier and ir-measures", "retrieval", "Evaluating a run") from error
    return ir_measures.pytrec_eval


def score_run_ibm(run: Run, qrels: Iterable[Qrel], collections: Mapping[str, str]) -> dict[str, Score]:
    """Return metric name -> the score that run_retrieval_eval.py (cc5b1d4) prints for all collections together.

    Per collection the mean over its judged queries that have a prediction, rounded; then the mean of those, weighted
    by predictions. Unscored, with the reason, where a collection has predictions and none of them is judged.

    Args:
        run: one entry for each prediction, unanswerable tasks too; an empty one where nothing was retrieved.
        qrels: judgements, each pair once.
        collections: query id -> collection, at least for the queries of the run; others of the run are ignored.

    Raises:
        BenchmarkFileError: a pair is judged twice.
        MissingExtraError: the extra `retrieval` is not installed.
    """
    weights = ibm_weights(run, collections)
    judgements = ibm_predicted_only(by_query(qrels), run)
    rankings = {query_id: ibm_without_own_id(query_id, ibm_last_score(run[query_id])) for query_id in judgements}
    values = _compute(rankings, judgements, IBM_METRICS)
    return {metric.name: _ibm_total(metric.name, values, weights, collections) for metric in IBM_METRICS}


def ibm_last_score(ranking: Sequence[Ranked]) -> dict[str, float]:
    """Return passage id -> score; of a passage that stands twice the last score counts."""
    return {item.passage_id: float(item.score) for item in ranking}


def ibm_without_own_id(query_id: str, scores: Mapping[str, float]) -> dict[str, float]:
    """Return the scores without a passage whose id is the query's: BEIR's rule, made for corpora of questions."""
    return {passage_id: score for passage_id, score in scores.items() if passage_id != query_id}


def ibm_predicted_only(judgements: Judgements, predicted: Collection[str]) -> dict[str, Mapping[str, int]]:
    """Return the judgements of predicted queries only: leaving a hard query out raises the mean."""
    return {query_id: judged for query_id, judged in judgements.items() if query_id in predicted}


def ibm_weights(predicted: Iterable[str], collections: Mapping[str, str]) -> Counter[str]:
    """Return collection -> number of predictions, judged or not (842 over MTRAG, where 777 queries are judged)."""
    return Counter(collections[query_id] for query_id in predicted if query_id in collections)


def ibm_rounded_mean(values: Sequence[float]) -> float:
    """Return the mean, rounded to 5 digits before collections are combined."""
    return round(sum(values) / len(values), _IBM_DIGITS)


def _ibm_total(
    name: str,
    values: Mapping[str, Mapping[str, float]],
    weights: Mapping[str, int],
    collections: Mapping[str, str],
) -> Score:
    by_collection: dict[str, list[float]] = {collection: [] for collection in weights}
    for query_id, row in values.items():
        if query_id in collections:
            by_collection[collections[query_id]].append(row[name])
    if not weights:
        return Score(None, "no predictions")
    if unjudged := [collection for collection, found in by_collection.items() if not found]:
        return Score(None, f"no judged prediction in {', '.join(unjudged)}")
    total = sum(ibm_rounded_mean(found) * weights[collection] for collection, found in by_collection.items())
    return Score(total / sum(weights.values()))


__all__ = [
    "CUTOFFS",
    "IBM_METRICS",
    "RETRIEVAL_METRICS",
    "Judgements",
    "RetrievalMetric",
    "RunScores",
    "by_query",
    "ibm_last_score",
    "ibm_predicted_only",
    "ibm_rounded_mean",
    "ibm_weights",
    "ibm_without_own_id",
    "retrieval_metric",
    "score_run",
    "score_run_ibm",
]

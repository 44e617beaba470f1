"""Measures of rankings: trec_eval's, the official script's, MultiHop-RAG's."""

from __future__ import annotations

import math
import re
import statistics
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean
from typing import Any

from ragtasks.errors import BenchmarkFileError, CacheError, ConfigurationError
from ragtasks.files import Ranked, Run, in_rank_order
from ragtasks.languages import ENGLISH
from ragtasks.metrics._metric import Metric, Scores
from ragtasks.metrics.lexical import word_count
from ragtasks.records import Qrel, Score, Task, compact
from ragtasks.requirements import importing

# Scores of a run against relevance judgements: one value a judged query and metric.
# Every judged query counts: a run that leaves the hard ones out cannot gain by it. trec_eval's code computes
# (through pytrec-eval-terrier and ir-measures); definitions stand apart from it. It holds scores as 32-bit floats,
# orders equal ones by passage id descending, and divides recall by all relevant passages, also where the cut-off is
# smaller.
# The `ibm` profile repeats run_retrieval_eval.py of IBM/mt-rag-benchmark at cc5b1d4: what it does differently
# stands in functions named `ibm_...`, one a quirk.

CUTOFFS = (1, 3, 5, 10)
"""How many passages the scores look at (MTRAG paper, section 5.1)."""

_IBM_DIGITS = 5
_MAX_LISTED = 5

Judgements = Mapping[str, Mapping[str, int]]
"""Query id -> passage id -> relevance; relevant from 1 on, and nDCG's gain is the relevance itself."""


@dataclass(frozen=True, slots=True)
class RetrievalMetric:
    """What a retrieval score is, whoever computes it: between 0 and 1, higher is better, 0 without any passage."""

    name: str
    """Key of its values: the name in the notation of ir-measures, such as `R@5`, or a suite's own."""
    measure: str
    """Measure in the notation of ir-measures, without the cut-off where `k` is one."""
    k: int | None
    """How many passages count; None for all."""
    description: str
    """One line for legends."""


RETRIEVAL_METRICS = (
    *(RetrievalMetric(f"R@{k}", "R", k, f"share of all relevant passages among the first {k}") for k in CUTOFFS),
    *(
        RetrievalMetric(f"nDCG@{k}", "nDCG", k, f"discounted gain of the first {k} over the best possible")
        for k in CUTOFFS
    ),
    RetrievalMetric("AP", "AP", None, "mean over the relevant passages of the precision at their rank"),
    RetrievalMetric("RR", "RR", None, "1 over the rank of the first relevant passage"),
    RetrievalMetric("R@20", "R", 20, "share of all relevant passages among the first 20"),
)
"""Every metric of a run, in the order of the paper's Table 3, then AP, RR and R@20 (OR-CONVQA, Table 5)."""

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
    """Return the metric with a name in any spelling that `measure_name` accepts.

    Raises:
        ConfigurationError: not a measure, or one that neither trec_eval nor ir-measures computes.
        MissingExtraError: the extra `retrieval` is not installed.
    """
    by_name = {metric.name: metric for metric in RETRIEVAL_METRICS}
    notation = measure_name(name)
    if notation in by_name:
        return by_name[notation]
    providers = _providers()
    import ir_measures

    try:
        measure = ir_measures.parse_measure(notation)
        if not any(provider.supports(measure) for provider in providers):
            raise ValueError(f"neither trec_eval nor ir-measures itself computes {measure}")
        if (k := measure.params.get("cutoff", 1)) < 1:
            raise ValueError(f"a cut-off of {k}")
    except (NameError, ValueError, TypeError, AssertionError) as error:
        raise ConfigurationError(
            "measure",
            where=name,
            expected="a measure in the notation of ir-measures, such as nDCG@20, R@100, RR@10, P(rel=2)@5 or AP",
            found=str(error),
            next_step=f"write it so, or take one of {', '.join(by_name)}",
        ) from error
    if str(measure) in by_name:
        return by_name[str(measure)]
    return RetrievalMetric(str(measure), str(measure), None, "as ir-measures defines it")


_OTHER_NAMES = {
    **{"rr": "RR", "mrr": "RR", "recip_rank": "RR"},
    **{"ap": "AP", "map": "AP", "map_cut": "AP"},
    **{"ndcg": "nDCG", "ndcg_cut": "nDCG"},
    **{"r": "R", "recall": "R", "p": "P", "precision": "P"},
    **{"success": "Success", "hit": "Success", "hit_rate": "Success", "judged": "Judged"},
}
"""Measures as trec_eval, mteb and ranx write them, in lower case -> name in ir-measures."""
_OTHER_NAME = re.compile(r"([a-z_]+?)(?:(?:@|_at_|[_.])([0-9]+))?", re.IGNORECASE)


def measure_name(name: str) -> str:
    """Return a measure's name in the notation of ir-measures: `recall_5` and `recall@5` become `R@5`.

    Accepts the names of trec_eval, mteb and ranx, such as `ndcg_cut_20` and `mrr_at_10`. Unknown names are returned
    unchanged.
    """
    name = name.strip()
    match = _OTHER_NAME.fullmatch(name)
    measure = _OTHER_NAMES.get(match[1].lower()) if match else None
    if match is None or measure is None:
        return name
    return f"{measure}@{match[2]}" if match[2] else measure


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
    """Return query id -> passage id -> relevance, in the order of the judgements; {} for none."""
    judgements: dict[str, dict[str, int]] = {}
    for qrel in qrels:
        judged = judgements.setdefault(qrel.query_id, {})
        if qrel.passage_id in judged:
            raise BenchmarkFileError(
                "qrels",
                where=f"query {qrel.query_id}",
                expected="each passage judged once",
                found=f"{qrel.passage_id!r} twice",
                next_step="remove one of the two lines",
            )
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
    raise CacheError(
        "run",
        where=f"query {query_id}",
        expected="each passage once, with a finite score",
        found=", ".join([*twice, *infinite][:_MAX_LISTED]),
        next_step="make the run again",
    )


def _compute(
    rankings: Mapping[str, Mapping[str, float]], judgements: Judgements, metrics: Sequence[RetrievalMetric]
) -> dict[str, dict[str, float]]:
    """Return query id -> metric name -> value for every judged query; one without a ranking has the default, 0."""
    measures = _measures(metrics)
    if not judgements:
        return {}
    values: dict[str, dict[Any, float]] = {query_id: {} for query_id in judgements}
    trec_eval, *others = _providers()
    waiting = list(dict.fromkeys(measures.values()))
    for provider in (trec_eval, *others):
        own = [measure for measure in waiting if provider.supports(measure)]
        waiting = [measure for measure in waiting if measure not in own]
        given = rankings if provider is trec_eval else {key: _by_rank(of) for key, of in rankings.items() if of}
        for found in provider.evaluator(own, judgements).iter_calc(given) if own else ():
            values[found.query_id][found.measure] = float(found.value)
    return {query_id: {name: row[measure] for name, measure in measures.items()} for query_id, row in values.items()}


def _by_rank(scores: Mapping[str, float]) -> dict[str, float]:
    """Return passage id -> a score that keeps trec_eval's order, without ties: other code has rules of its own."""
    ordered = in_rank_order(Ranked(*item) for item in scores.items())
    return {item.passage_id: -float(rank) for rank, item in enumerate(ordered)}


def _measures(metrics: Sequence[RetrievalMetric]) -> dict[str, Any]:
    """Return metric name -> measure object of ir-measures."""
    _providers()
    import ir_measures

    families = {metric.measure: ir_measures.parse_measure(metric.measure) for metric in metrics}
    return {m.name: families[m.measure] if m.k is None else families[m.measure] @ m.k for m in metrics}


def _providers() -> tuple[Any, ...]:
    """Return the code of trec_eval, and of ir-measures for RR@k and Judged@k, which trec_eval does not compute."""
    with importing("pytrec-eval-terrier and ir-measures", "retrieval", "Evaluating a run"):
        import ir_measures
        import pytrec_eval  # noqa: F401  ir-measures itself would only say that a provider is not available
    return ir_measures.pytrec_eval, ir_measures.msmarco, ir_measures.judged


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
    rankings = {query_id: ibm_without_query_id(query_id, ibm_last_score(run[query_id])) for query_id in judgements}
    values = _compute(rankings, judgements, IBM_METRICS)
    return {metric.name: _ibm_total(metric.name, values, weights, collections) for metric in IBM_METRICS}


def ibm_last_score(ranking: Sequence[Ranked]) -> dict[str, float]:
    """Return passage id -> score; of a passage that appears twice the last score counts."""
    return {item.passage_id: float(item.score) for item in ranking}


def ibm_without_query_id(query_id: str, scores: Mapping[str, float]) -> dict[str, float]:
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


# MTRAGEval's ranking score: one number for a system's answers.
# Source: MTRAGEval (SemEval-2026 task 8), tasks B and C: the harmonic mean of the three dataset means RL_F, RB_llm
# and RB_alg, each conditioned on answerability.

RANKED_BY = ("rl_f", "rb_llm", "rb_alg")


def ranking_score(means: Mapping[str, Score]) -> Score:
    """Return the harmonic mean of three dataset means: 0 to 1, higher is better; 0 where one of them is 0.

    Unscored, with the names, where one of them is missing or unscored: two of three are another score.

    Args:
        means: metric -> mean over the dataset, for the names in `RANKED_BY`; others are ignored.
    """
    values = {name: means[name].value if name in means else None for name in RANKED_BY}
    missing = [name for name, value in values.items() if value is None]
    if missing:
        return Score(None, f"no mean of {', '.join(missing)}")
    found = [value for value in values.values() if value is not None]
    if min(found) < 0:
        return Score(None, "a mean below 0 has no harmonic mean")
    return Score(statistics.harmonic_mean(found))


# MultiHop-RAG's retrieval scores: how much of a query's evidence is in the first chunks of a ranking.
# The paper defines Hits@k as the share of the evidence that is among the first k chunks; its script counts a query
# as hit if any fact is. The paper's MAP is the mean average precision; its script forgets the hits of earlier
# ranks. Both are here, the script's under names with `official`. Which chunk holds which fact is the official rule
# in both (`ragtasks.benchmarks.multihop_rag`), and queries without evidence have no scores.

DEPTH = 10
"""Chunks of a ranking that are looked at."""

EVIDENCE_METRICS = (
    Metric("hits_4", "share of the evidence in the first 4 chunks"),
    Metric("hits_10", "share of the evidence in the first 10 chunks"),
    Metric("map_10", "precision at the rank of each fact, over all facts"),
    Metric("mrr_10", "one over the rank of the first chunk with a fact"),
    Metric("hits_official_4", "whether any fact is in the first 4 chunks"),
    Metric("hits_official_10", "whether any fact is in the first 10 chunks"),
    Metric("map_official_10", "as the official script, which forgets the hits of earlier ranks"),
    Metric("mrr_official_10", "as the official script: a chunk that appears twice takes two ranks"),
)


def evidence_scores(chunks: Sequence[str], facts: Sequence[str]) -> dict[str, float]:
    """Return name -> score of one query, each from 0 to 1, higher is better."""
    if not facts:
        raise ValueError("a query without evidence has no retrieval scores")
    held = _held(chunks[:DEPTH], facts)
    first = [
        next((rank for rank, places in enumerate(held, start=1) if place in places), None)
        for place in range(len(facts))
    ]
    return {
        "hits_4": hits(first, 4),
        "hits_10": hits(first, 10),
        "map_10": average_precision(held, first),
        "mrr_10": max((1 / rank for rank in first if rank), default=0.0),
        "hits_official_4": float(any(held[:4])),
        "hits_official_10": float(any(held[:10])),
        "map_official_10": average_precision_official(chunks[:DEPTH], facts),
        "mrr_official_10": next((1 / rank for rank, places in enumerate(held, start=1) if places), 0.0),
    }


def _held(chunks: Sequence[str], facts: Sequence[str]) -> list[set[int]]:
    """Return, for each chunk, the places of the facts that it holds."""
    wanted = [compact(fact) for fact in facts]
    return [{place for place, fact in enumerate(wanted) if fact in text} for text in map(compact, chunks)]


def hits(first_ranks: Sequence[int | None], k: int) -> float:
    """Return the share of facts that are found among the first k chunks (paper, section 2.3)."""
    return sum(rank is not None and rank <= k for rank in first_ranks) / len(first_ranks)


def average_precision(held: Sequence[set[int]], first_ranks: Sequence[int | None]) -> float:
    """Return the mean over facts of the precision at the rank where each is found first; 0 for one that is not.

    Precision at a rank is the share of the chunks so far that hold a fact, so evidence on the first ranks gives 1, also
    where two facts share a chunk. Source: MAP@10 as the paper words it, section 2.3; with one fact a chunk it is the
    usual average precision, whose values trec_eval gives (tested).
    """
    precision = [sum(map(bool, held[:rank])) / rank for rank in range(1, len(held) + 1)]
    return sum(precision[rank - 1] for rank in first_ranks if rank) / len(first_ranks)


def average_precision_official(chunks: Sequence[str], facts: Sequence[str]) -> float:
    """Return the average precision as the official script computes it, on at most ten chunks.

    At each rank it divides the facts found there for the first time by the rank, without those found before, and the
    sum by the facts (at most ten). So two facts at ranks 1 and 2 give 0.75, and a fact that appears twice in the
    evidence is found once. Source: yixuantt/MultiHop-RAG, retrieval_evaluate.py, commit 3dd4d4e.
    """
    waiting = {compact(fact) for fact in facts}
    total = 0.0
    for rank, text in enumerate(map(compact, chunks), start=1):
        new = {fact for fact in waiting if fact in text}
        waiting -= new
        total += len(new) / rank
    return total / min(len(facts), 10)


def _both(chunks: Sequence[str], facts: Sequence[str]) -> dict[str, float]:
    """Return the official scores of the chunks as they are listed, the others of the different ones."""
    listed = evidence_scores(chunks, facts)
    distinct = evidence_scores(tuple(dict.fromkeys(chunks)), facts)
    return {name: listed[name] if "official" in name else distinct[name] for name in listed}


def mean_evidence_scores(rankings: Mapping[str, Sequence[str]], facts: Mapping[str, Sequence[str]]) -> dict[str, Score]:
    """Return name -> mean over the queries with evidence; unscored where there is none.

    Args:
        rankings: query id -> chunks' texts, best first; a query that is missing here counts 0. A chunk that stands
            twice takes two ranks in the official scores, and one in the others.
        facts: query id -> evidence; a query without any (a null query) is left out.
    """
    rows = [_both(rankings.get(query_id, ()), gold) for query_id, gold in facts.items() if gold]
    if not rows:
        return {metric.name: Score(None, "no query with evidence") for metric in EVIDENCE_METRICS}
    return {metric.name: Score(fmean(row[metric.name] for row in rows)) for metric in EVIDENCE_METRICS}


# Scores of rewritten questions: what a retriever finds with them, and what became of the words.
# The retriever is handed in as a function that ranks the passages of one corpus for some texts, so that nothing
# here knows of engines and indexes; a corpus that cannot be searched is a reason, and its scores are unscored.

QUERY_METRICS = {"ndcg_5": "nDCG@5", "recall_5": "R@5"}
"""Scores of a query: logged name -> name in `RETRIEVAL_METRICS` (MTRAG paper, section 5.1)."""

_WORD = re.compile(r"\w+")


@dataclass(frozen=True, slots=True)
class Searched:
    """What was found in one corpus."""

    rankings: Mapping[str, tuple[Ranked, ...]] | None
    """Text of the query -> passages, best first; None where nothing could be searched."""
    reason: str = ""
    """Why there are no rankings; empty where there are."""


Search = Callable[[str, Collection[str]], Searched]
"""(domain, texts of queries) -> what is found in the corpus of the domain."""


def query_scores(tasks: Sequence[Task], queries: Sequence[str], qrels: Iterable[Qrel], search: Search) -> list[Scores]:
    """Return `QUERY_METRICS` of each query, in order; each text is searched for once a corpus.

    Source: MTRAG paper, section 5.1; values equal trec_eval's. A query that finds nothing scores 0.

    Args:
        tasks: whose questions the queries mean; one may come several times.
        queries: one a task.
        qrels: judgements of at least these tasks; a task without any is unscored.
        search: the retriever.

    Raises:
        BenchmarkFileError: a pair is judged twice.
        MissingExtraError: something was found, and the extra `retrieval` is not installed.
    """
    wanted: dict[str, dict[str, None]] = {}
    for task, query in zip(tasks, queries, strict=True):
        wanted.setdefault(task.domain, {})[query] = None
    searched = {domain: search(domain, list(texts)) for domain, texts in wanted.items()}
    found = [searched[task.domain] for task in tasks]
    rankings = [
        None if item.rankings is None else item.rankings.get(query, ())
        for query, item in zip(queries, found, strict=True)
    ]
    values = score_rankings(tasks, rankings, qrels, RETRIEVAL_METRICS)
    return [_scores(row, item.reason) for row, item in zip(values, found, strict=True)]


def ranking_of(passage_ids: Iterable[str]) -> tuple[Ranked, ...]:
    """Return passages as a ranking, best first and each once; its scores only keep the order."""
    return tuple(Ranked(passage_id, -float(place)) for place, passage_id in enumerate(dict.fromkeys(passage_ids)))


def score_rankings(
    tasks: Sequence[Task],
    rankings: Sequence[Sequence[Ranked] | None],
    qrels: Iterable[Qrel],
    metrics: Sequence[RetrievalMetric],
) -> list[Mapping[str, float] | None]:
    """Return metric -> value of each ranking by the judgements of its task, which may come several times.

    None where there is no ranking, or no judgement.
    """
    judged: dict[str, list[Qrel]] = {}
    for qrel in qrels:
        judged.setdefault(qrel.query_id, []).append(qrel)
    run = {str(place): tuple(ranking) for place, ranking in enumerate(rankings) if ranking is not None}
    repeated = [
        Qrel(str(place), qrel.passage_id, qrel.relevance)
        for place, task in enumerate(tasks)
        for qrel in judged.get(task.task_id, ())
        if str(place) in run
    ]
    values = score_run(run, repeated, metrics).values if repeated else {}
    return [values.get(str(place)) for place in range(len(tasks))]


def _scores(values: Mapping[str, float] | None, reason: str) -> Scores:
    if values is None:
        return {name: Score(None, reason or "no relevance judgement") for name in QUERY_METRICS}
    return {name: Score(values[measure]) for name, measure in QUERY_METRICS.items()}


def length_ratio(rewrite: str, question: str, language: str = ENGLISH) -> float:
    """Return the words of the rewrite over those of the question; a question without a word counts as one."""
    return word_count(rewrite, language) / max(word_count(question, language), 1)


def is_changed(rewrite: str, question: str) -> bool:
    """Return whether the rewrite has other words than the question; case, blanks and punctuation aside."""
    return _WORD.findall(rewrite.casefold()) != _WORD.findall(question.casefold())

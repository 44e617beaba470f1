"""Measures of rankings: those of trec_eval, of MTRAG's official script, and of MultiHop-RAG."""

from __future__ import annotations

import ast
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

# Scores of a run against relevance judgements: one value per judged query and metric. Every judged query counts, so a
# run cannot gain by leaving out hard queries. trec_eval computes the values (through pytrec-eval-terrier and
# ir-measures). It stores scores as 32-bit floats, orders equal scores by descending passage id, and divides recall by
# all relevant passages, even if the cut-off is smaller.
#
# The `ibm` profile reproduces run_retrieval_eval.py of IBM/mt-rag-benchmark at cc5b1d4. Each of its deviations is a
# function named `ibm_...`.

CUTOFFS = (1, 3, 5, 10)
"""Cut-offs of the scores (MTRAG paper, section 5.1)."""

_IBM_DIGITS = 5
_MAX_LISTED = 5

Judgements = Mapping[str, Mapping[str, int]]
"""Query id -> passage id -> relevance. Relevant from 1 on; nDCG's gain is the relevance itself."""


@dataclass(frozen=True, slots=True)
class RetrievalMetric:
    """Declaration of a retrieval metric. Values are 0 to 1, higher is better; an empty ranking scores 0."""

    name: str
    """Key of its values: the name in the notation of ir-measures, such as `R@5`, or a suite's own name."""
    measure: str
    """Measure in the notation of ir-measures, without the cut-off if `k` is set."""
    k: int | None
    """Number of passages that count; None for all."""
    description: str
    """One line for legends."""


RETRIEVAL_METRICS = (
    *(RetrievalMetric(f"R@{k}", "R", k, f"share of all relevant passages among the first {k}") for k in CUTOFFS),
    *(
        RetrievalMetric(f"nDCG@{k}", "nDCG", k, f"discounted gain of the first {k} divided by the maximum")
        for k in CUTOFFS
    ),
    RetrievalMetric("AP", "AP", None, "mean over the relevant passages of the precision at their rank"),
    RetrievalMetric("RR", "RR", None, "1 / rank of the first relevant passage"),
    RetrievalMetric("R@20", "R", 20, "share of all relevant passages among the first 20"),
)
"""Every metric of a run, in the order of the paper's Table 3, then AP, RR and R@20 (OR-CONVQA, Table 5)."""

IBM_METRICS = tuple(metric for metric in RETRIEVAL_METRICS if metric.k in CUTOFFS)
"""Metrics of the official script (cut-offs 1, 3 and 5; its documentation lists 10 too)."""


@dataclass(frozen=True, slots=True)
class RunScores:
    """Scores of one run."""

    values: Mapping[str, Mapping[str, float]]
    """Query id -> metric name -> value, for every judged query, in the order of the judgements."""
    omitted: tuple[str, ...]
    """Judged queries that are missing in the run: they count 0."""
    empty: tuple[str, ...]
    """Judged queries whose ranking is empty: they count 0."""
    without_relevant: tuple[str, ...]
    """Judged queries without a relevant passage: 0 on every metric, as in trec_eval."""
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

    try:
        measure = _measure(notation)
        if not any(provider.supports(measure) for provider in providers):
            raise ValueError(f"neither trec_eval nor ir-measures itself computes {measure}")
        if (k := measure.params.get("cutoff", 1)) < 1:
            raise ValueError(f"a cut-off of {k}")
    except (NameError, SyntaxError, ValueError, TypeError, AssertionError) as error:
        raise ConfigurationError(
            "measure",
            where=name,
            expected="a measure in the notation of ir-measures, such as nDCG@20, R@100, RR@10, P(rel=2)@5 or AP",
            found=str(error),
            next_step=f"use this notation, or one of {', '.join(by_name)}",
        ) from error
    if str(measure) in by_name:
        return by_name[str(measure)]
    return RetrievalMetric(str(measure), str(measure), None, "as defined by ir-measures")


_OTHER_NAMES = {
    **{"rr": "RR", "mrr": "RR", "recip_rank": "RR"},
    **{"ap": "AP", "map": "AP", "map_cut": "AP"},
    **{"ndcg": "nDCG", "ndcg_cut": "nDCG"},
    **{"r": "R", "recall": "R", "p": "P", "precision": "P"},
    **{"success": "Success", "hit": "Success", "hit_rate": "Success", "judged": "Judged"},
}
"""Lower-case names of measures in trec_eval, mteb and ranx -> names in ir-measures."""
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
    """Return every metric for every judged query.

    Source: MTRAG paper, section 5.1 (Recall and nDCG at 1, 3, 5, 10). Values equal trec_eval's for each query. They
    differ from run_retrieval_eval.py (cc5b1d4) as described in `score_run_ibm`, mainly because omitted queries count.

    Args:
        run: query id -> passages; their order counts only through the scores.
        qrels: judgements, each pair once.
        metrics: the metrics to compute.

    Raises:
        BenchmarkFileError: a pair is judged twice.
        CacheError: a ranking has a passage twice, or a score that is not finite.
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
    """Return query id -> passage id -> relevance, in the order of the judgements."""
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
    """Return passage id -> score; raise CacheError for a repeated passage or a score that is not finite."""
    scores = {passage.passage_id: float(passage.score) for passage in ranking}
    if len(scores) == len(ranking) and all(map(math.isfinite, scores.values())):
        return scores
    twice = [
        f"{passage_id!r} {n} times"
        for passage_id, n in Counter(passage.passage_id for passage in ranking).items()
        if n > 1
    ]
    infinite = [
        f"{passage_id!r} with score {score}" for passage_id, score in scores.items() if not math.isfinite(score)
    ]
    raise CacheError(
        "run",
        where=f"query {query_id}",
        expected="each passage once, with a finite score",
        found=", ".join([*twice, *infinite][:_MAX_LISTED]),
        next_step="create the run again",
    )


def _compute(
    rankings: Mapping[str, Mapping[str, float]], judgements: Judgements, metrics: Sequence[RetrievalMetric]
) -> dict[str, dict[str, float]]:
    """Return query id -> metric name -> value for every judged query; 0 without a ranking."""
    measures = _measures(metrics)
    if not judgements:
        return {}
    values: dict[str, dict[Any, float]] = {query_id: {} for query_id in judgements}
    trec_eval, *other_providers = _providers()
    waiting = list(dict.fromkeys(measures.values()))
    for provider in (trec_eval, *other_providers):
        supported = [measure for measure in waiting if provider.supports(measure)]
        waiting = [measure for measure in waiting if measure not in supported]
        ranked = (
            rankings if provider is trec_eval else {key: _by_rank(scores) for key, scores in rankings.items() if scores}
        )
        for result in provider.evaluator(supported, judgements).iter_calc(ranked) if supported else ():
            values[result.query_id][result.measure] = float(result.value)
    return {query_id: {name: row[measure] for name, measure in measures.items()} for query_id, row in values.items()}


def _by_rank(scores: Mapping[str, float]) -> dict[str, float]:
    """Return passage id -> a score in trec_eval's order without ties, which other libraries break differently."""
    ordered = in_rank_order(Ranked(*passage) for passage in scores.items())
    return {passage.passage_id: -float(rank) for rank, passage in enumerate(ordered)}


def _measures(metrics: Sequence[RetrievalMetric]) -> dict[str, Any]:
    """Return metric name -> measure object of ir-measures."""
    _providers()
    families = {metric.measure: _measure(metric.measure) for metric in metrics}
    return {m.name: families[m.measure] if m.k is None else families[m.measure] @ m.k for m in metrics}


_NOTATION = re.compile(r"(?P<family>\w+)(?:\((?P<parameters>[^()]*)\))?(?:@(?P<k>-?[0-9]+))?")


def _measure(notation: str) -> Any:
    """Return the measure object of a notation such as P(rel=2)@5.

    ir-measures 0.4.3 parses cut-offs and parameters with a class that Python 3.14 removed, so they are parsed here.

    Raises:
        ValueError, SyntaxError, NameError, TypeError, AssertionError: not a measure, or not its parameters.
    """
    import ir_measures

    found = _NOTATION.fullmatch(notation.strip())
    if found is None:
        raise ValueError(f"{notation!r} is not a name with parameters in brackets and a cut-off after @")
    measure = ir_measures.parse_measure(found["family"])
    if found["parameters"]:
        call = ast.parse(f"_({found['parameters']})", mode="eval").body
        if not isinstance(call, ast.Call) or call.args:
            raise ValueError("parameters are written such as rel=2")
        measure = measure(**{str(item.arg): ast.literal_eval(item.value) for item in call.keywords})
    return measure if found["k"] is None else measure @ int(found["k"])


def _providers() -> tuple[Any, ...]:
    """Return the providers of ir-measures: trec_eval, and those for RR@k and Judged@k, which trec_eval lacks."""
    with importing("pytrec-eval-terrier and ir-measures", "retrieval", "Evaluating a run"):
        import ir_measures
        import pytrec_eval  # noqa: F401  ir-measures itself would only report an unavailable provider
    return ir_measures.pytrec_eval, ir_measures.msmarco, ir_measures.judged


def score_run_ibm(run: Run, qrels: Iterable[Qrel], collections: Mapping[str, str]) -> dict[str, Score]:
    """Return metric name -> the score that run_retrieval_eval.py (cc5b1d4) prints for all collections together.

    The score of a collection is the rounded mean over its judged queries with a prediction. The result is the mean over
    collections, weighted by the number of predictions. Unscored, with the reason, without predictions, or if no
    prediction of a collection is judged.

    Args:
        run: one entry per prediction, unanswerable tasks included; empty if nothing was retrieved.
        qrels: judgements, each pair once.
        collections: query id -> collection. Queries of the run without an entry are ignored.

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
    """Return passage id -> score; the last score counts for a repeated passage."""
    return {passage.passage_id: float(passage.score) for passage in ranking}


def ibm_without_query_id(query_id: str, scores: Mapping[str, float]) -> dict[str, float]:
    """Return the scores without a passage whose id equals the query's: a rule of BEIR for corpora of questions."""
    return {passage_id: score for passage_id, score in scores.items() if passage_id != query_id}


def ibm_predicted_only(judgements: Judgements, predicted: Collection[str]) -> dict[str, Mapping[str, int]]:
    """Return the judgements of predicted queries only: omitting a hard query raises the mean."""
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
    if unjudged := [collection for collection, scores in by_collection.items() if not scores]:
        return Score(None, f"no judged prediction in {', '.join(unjudged)}")
    total = sum(ibm_rounded_mean(scores) * weights[collection] for collection, scores in by_collection.items())
    return Score(total / sum(weights.values()))


# MTRAGEval's ranking score: one number for a system's answers. Source: MTRAGEval (SemEval-2026 task 8), tasks B and C:
# the harmonic mean of the three dataset means RL_F, RB_llm and RB_alg, each conditioned on answerability.

RANKED_BY = ("rl_f", "rb_llm", "rb_alg")


def ranking_score(means: Mapping[str, Score]) -> Score:
    """Return the harmonic mean of three dataset means: 0 to 1, higher is better; 0 if a mean is 0.

    Unscored if a mean is missing or unscored, with its name in the reason.

    Args:
        means: metric -> mean over the dataset, for the names in `RANKED_BY`; other metrics are ignored.
    """
    values = {name: means[name].value if name in means else None for name in RANKED_BY}
    missing = [name for name, value in values.items() if value is None]
    if missing:
        return Score(None, f"no mean of {', '.join(missing)}")
    scored_means = [value for value in values.values() if value is not None]
    if min(scored_means) < 0:
        return Score(None, "a mean below 0 has no harmonic mean")
    return Score(statistics.harmonic_mean(scored_means))


# MultiHop-RAG's retrieval scores: how much of a query's evidence is in the first chunks of a ranking. The paper defines
# Hits@k as the share of the evidence among the first k chunks; its script counts a query as a hit if any fact is among
# them. The paper's MAP is the mean average precision; its script ignores hits at earlier ranks. This module has both
# versions; names with `official` are the script's. Both use the official rule for matching chunks and facts
# (`ragtasks.benchmarks.multihop_rag`). Queries without evidence have no scores.

DEPTH = 10
"""Number of chunks of a ranking that are scored."""

EVIDENCE_METRICS = (
    Metric("hits_4", "share of the evidence in the first 4 chunks"),
    Metric("hits_10", "share of the evidence in the first 10 chunks"),
    Metric("map_10", "mean over all facts of the precision at their rank"),
    Metric("mrr_10", "1 / rank of the first chunk with a fact"),
    Metric("hits_official_4", "whether any fact is in the first 4 chunks"),
    Metric("hits_official_10", "whether any fact is in the first 10 chunks"),
    Metric("map_official_10", "map_10 of the official script, which ignores hits at earlier ranks"),
    Metric("mrr_official_10", "mrr_10 of the official script, in which a repeated chunk has two ranks"),
)


def evidence_scores(chunks: Sequence[str], facts: Sequence[str]) -> dict[str, float]:
    """Return name -> score of one query, each 0 to 1, higher is better."""
    if not facts:
        raise ValueError("a query without evidence has no retrieval scores")
    facts_by_chunk = _facts_by_chunk(chunks[:DEPTH], facts)
    first = [
        next((rank for rank, fact_indexes in enumerate(facts_by_chunk, start=1) if fact in fact_indexes), None)
        for fact in range(len(facts))
    ]
    return {
        "hits_4": hits(first, 4),
        "hits_10": hits(first, 10),
        "map_10": average_precision(facts_by_chunk, first),
        "mrr_10": max((1 / rank for rank in first if rank), default=0.0),
        "hits_official_4": float(any(facts_by_chunk[:4])),
        "hits_official_10": float(any(facts_by_chunk[:10])),
        "map_official_10": average_precision_official(chunks[:DEPTH], facts),
        "mrr_official_10": next(
            (1 / rank for rank, fact_indexes in enumerate(facts_by_chunk, start=1) if fact_indexes), 0.0
        ),
    }


def _facts_by_chunk(chunks: Sequence[str], facts: Sequence[str]) -> list[set[int]]:
    """Return, for each chunk, the positions of the facts that it contains."""
    wanted = [compact(fact) for fact in facts]
    return [{index for index, fact in enumerate(wanted) if fact in text} for text in map(compact, chunks)]


def hits(first_ranks: Sequence[int | None], k: int) -> float:
    """Return the share of facts among the first k chunks (paper, section 2.3)."""
    return sum(rank is not None and rank <= k for rank in first_ranks) / len(first_ranks)


def average_precision(facts_by_chunk: Sequence[set[int]], first_ranks: Sequence[int | None]) -> float:
    """Return the mean over facts of the precision at the rank of their first chunk; 0 for a missing fact.

    Precision at a rank is the share of the chunks up to it that contain a fact. Evidence on the first ranks therefore
    gives 1, even if two facts share a chunk. Source: MAP@10 as the paper words it, section 2.3. With one fact per chunk
    it is the usual average precision, with the values of trec_eval (tested).
    """
    precision = [sum(map(bool, facts_by_chunk[:rank])) / rank for rank in range(1, len(facts_by_chunk) + 1)]
    return sum(precision[rank - 1] for rank in first_ranks if rank) / len(first_ranks)


def average_precision_official(chunks: Sequence[str], facts: Sequence[str]) -> float:
    """Return the average precision as the official script computes it, on at most ten chunks.

    At each rank the script divides the facts that are new at that rank, without those of earlier ranks, by the rank. It
    divides the sum by the number of facts (at most ten). Two facts at ranks 1 and 2 therefore give 0.75, and a fact
    that is listed twice in the evidence is matched once but counts twice in the divisor. Source: yixuantt/MultiHop-RAG,
    retrieval_evaluate.py, commit 3dd4d4e.
    """
    waiting = {compact(fact) for fact in facts}
    total = 0.0
    for rank, text in enumerate(map(compact, chunks), start=1):
        new = {fact for fact in waiting if fact in text}
        waiting -= new
        total += len(new) / rank
    return total / min(len(facts), 10)


def _combined_scores(chunks: Sequence[str], facts: Sequence[str]) -> dict[str, float]:
    """Return the official scores of the chunks as listed, and the other scores without repeated chunks."""
    listed = evidence_scores(chunks, facts)
    distinct = evidence_scores(tuple(dict.fromkeys(chunks)), facts)
    return {name: listed[name] if "official" in name else distinct[name] for name in listed}


def mean_evidence_scores(rankings: Mapping[str, Sequence[str]], facts: Mapping[str, Sequence[str]]) -> dict[str, Score]:
    """Return name -> mean over the queries with evidence; unscored without such queries.

    Args:
        rankings: query id -> chunk texts, best first; a missing query counts 0. A repeated chunk has two ranks in the
            official scores, one in the others.
        facts: query id -> evidence; queries without evidence (null queries) are left out.
    """
    rows = [
        _combined_scores(rankings.get(query_id, ()), query_facts)
        for query_id, query_facts in facts.items()
        if query_facts
    ]
    if not rows:
        return {metric.name: Score(None, "no query with evidence") for metric in EVIDENCE_METRICS}
    return {metric.name: Score(fmean(row[metric.name] for row in rows)) for metric in EVIDENCE_METRICS}


# Scores of rewritten questions: retrieval with the rewrite, and changes of its words. The retriever is passed in as a
# function, so this module does not depend on engines and indexes. If a corpus cannot be searched, its scores are
# unscored with the reason.

QUERY_METRICS = {"ndcg_5": "nDCG@5", "recall_5": "R@5"}
"""Scores of a query: logged name -> name in `RETRIEVAL_METRICS` (MTRAG paper, section 5.1)."""

_WORD = re.compile(r"\w+")


@dataclass(frozen=True, slots=True)
class SearchResult:
    """Search results in one corpus."""

    rankings: Mapping[str, tuple[Ranked, ...]] | None
    """Query text -> passages, best first; None if the search failed."""
    reason: str = ""
    """Why there are no rankings; empty if there are."""


Search = Callable[[str, Collection[str]], SearchResult]
"""Function from (domain, query texts) to the results in the corpus of the domain."""


def query_scores(tasks: Sequence[Task], queries: Sequence[str], qrels: Iterable[Qrel], search: Search) -> list[Scores]:
    """Return `QUERY_METRICS` of each query, in order; each text is searched once per corpus.

    Source: MTRAG paper, section 5.1; values equal trec_eval's. A query without results scores 0.

    Args:
        tasks: the tasks of the queries; a task may occur several times.
        queries: one per task.
        qrels: judgements of these tasks, and possibly others; a task without judgements is unscored.
        search: the retriever.

    Raises:
        BenchmarkFileError: a pair is judged twice.
        MissingExtraError: there are results, and the extra `retrieval` is not installed.
    """
    wanted: dict[str, dict[str, None]] = {}
    for task, query in zip(tasks, queries, strict=True):
        wanted.setdefault(task.domain, {})[query] = None
    searched = {domain: search(domain, list(texts)) for domain, texts in wanted.items()}
    results = [searched[task.domain] for task in tasks]
    rankings = [
        None if result.rankings is None else result.rankings.get(query, ())
        for query, result in zip(queries, results, strict=True)
    ]
    values = score_rankings(tasks, rankings, qrels, RETRIEVAL_METRICS)
    return [
        {name: Score(row[measure]) for name, measure in QUERY_METRICS.items()}
        if row
        else dict.fromkeys(QUERY_METRICS, Score(None, result.reason or "no relevance judgement"))
        for row, result in zip(values, results, strict=True)
    ]


def ranking_of(passage_ids: Iterable[str]) -> tuple[Ranked, ...]:
    """Return passages as a ranking, best first and each once; its scores encode only the order."""
    return tuple(Ranked(passage_id, -float(position)) for position, passage_id in enumerate(dict.fromkeys(passage_ids)))


def score_rankings(
    tasks: Sequence[Task],
    rankings: Sequence[Sequence[Ranked] | None],
    qrels: Iterable[Qrel],
    metrics: Sequence[RetrievalMetric],
) -> list[Mapping[str, float] | None]:
    """Return metric -> value of each ranking by the judgements of its task; a task may occur several times.

    None without a ranking or without judgements.
    """
    judged: dict[str, list[Qrel]] = {}
    for qrel in qrels:
        judged.setdefault(qrel.query_id, []).append(qrel)
    run = {str(index): tuple(ranking) for index, ranking in enumerate(rankings) if ranking is not None}
    repeated = [
        Qrel(str(index), qrel.passage_id, qrel.relevance)
        for index, task in enumerate(tasks)
        for qrel in judged.get(task.task_id, ())
        if str(index) in run
    ]
    values = score_run(run, repeated, metrics).values if repeated else {}
    return [values.get(str(index)) for index in range(len(tasks))]


def length_ratio(rewrite: str, question: str, language: str = ENGLISH) -> float:
    """Return the word count of the rewrite divided by the word count of the question (at least 1)."""
    return word_count(rewrite, language) / max(word_count(question, language), 1)


def is_changed(rewrite: str, question: str) -> bool:
    """Return whether the words of the rewrite differ from the question's; case, spaces and punctuation are ignored."""
    return _WORD.findall(rewrite.casefold()) != _WORD.findall(question.casefold())

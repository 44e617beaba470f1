"""Scores of rewritten questions: what a retriever finds with them, and what became of the words.

The retriever is handed in as a function that ranks the passages of one corpus for some texts, so that nothing here
knows of engines and indexes; a corpus that cannot be searched is a reason, and its scores are unscored.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass

from ragtasks.files import Ranked
from ragtasks.metrics._metric import Scores
from ragtasks.metrics.retrieval import score_run
from ragtasks.records import Qrel, Score, Task

QUERY_METRICS = ("ndcg_5", "recall_5")
"""What is reported of a query, by its name in `RETRIEVAL_METRICS` (MTRAG paper, section 5.1)."""

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
    places = [place for place, item in enumerate(found) if item.rankings is not None]
    values = _values(tasks, queries, [item.rankings or {} for item in found], places, list(qrels)) if places else {}
    return [_scores(values.get(str(place)), item.reason) for place, item in enumerate(found)]


def _values(
    tasks: Sequence[Task],
    queries: Sequence[str],
    rankings: Sequence[Mapping[str, tuple[Ranked, ...]]],
    places: Sequence[int],
    qrels: Sequence[Qrel],
) -> Mapping[str, Mapping[str, float]]:
    """Return place -> metric -> value. A task's judgements are repeated for each of its places."""
    judged: dict[str, list[Qrel]] = {}
    for qrel in qrels:
        judged.setdefault(qrel.query_id, []).append(qrel)
    repeated = [
        Qrel(str(place), qrel.passage_id, qrel.relevance)
        for place in places
        for qrel in judged.get(tasks[place].task_id, ())
    ]
    run = {str(place): ranking for place in places if (ranking := rankings[place].get(queries[place]))}
    return score_run(run, repeated).values


def _scores(values: Mapping[str, float] | None, reason: str) -> Scores:
    if values is None:
        return {name: Score(None, reason or "no relevance judgement") for name in QUERY_METRICS}
    return {name: Score(values[name]) for name in QUERY_METRICS}


def n_query_words(text: str) -> int:
    """Return the number of words between blanks; 0 for none. No tokens: each model has its own."""
    return len(text.split())


def length_ratio(rewrite: str, question: str) -> float:
    """Return the words of the rewrite over those of the question; a question without a word counts as one."""
    return n_query_words(rewrite) / max(n_query_words(question), 1)


def is_changed(rewrite: str, question: str) -> bool:
    """Return whether the rewrite has other words than the question; case, blanks and punctuation aside."""
    return _WORD.findall(rewrite.casefold()) != _WORD.findall(question.casefold())

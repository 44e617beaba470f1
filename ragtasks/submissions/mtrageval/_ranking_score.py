"""The number that a submission will be ranked by, as far as it can be had before it is handed in.

Source: MTRAGEval (SemEval-2026 task 8). Task A ranks by nDCG@5; B and C by the harmonic mean of the three dataset means
RL_F, RB_llm and RB_alg, each conditioned on answerability.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from ragtasks.files import Ranked, Run, in_rank_order
from ragtasks.ids import normalise_task_id
from ragtasks.metrics import CUTOFFS, RANKED_BY, ranking_score, score_run, score_run_ibm
from ragtasks.records import Qrel, Score

_RANKING_CUTOFF = 5


def dataset_mean(values: Sequence[float | None]) -> Score:
    """Return the mean of what is scored; unscored where nothing is. None and NaN are unscored."""
    scored = [value for value in values if value is not None and not math.isnan(value)]
    return Score(sum(scored) / len(scored)) if scored else Score(None, "nothing is scored")


def describe_answers(values: Mapping[str, Sequence[float | None]], n_missing: int = 0) -> Iterator[str]:
    """Yield lines with the ranking score of tasks B and C, or with what it lacks.

    Args:
        values: metric -> one value a task handed in, None where unscored, for the names in `RANKED_BY`.
        n_missing: tasks without an answer, which are handed in empty: unscored in every column.
    """
    means = {name: dataset_mean(column) for name, column in values.items()}
    as_zero = {name: _with_missing_as_zero(means[name], column, n_missing) for name, column in values.items()}
    partial = []
    for name in RANKED_BY:
        column = values.get(name, ())
        n_scored = sum(value is not None and not math.isnan(value) for value in column)
        worst = f"; {_shown(as_zero.get(name, Score(None)))} with the {n_missing} missing as 0" if n_missing else ""
        yield f"{name}: {_shown(means.get(name, Score(None)))} over {n_scored} scored of {len(column)} tasks{worst}"
        if n_scored < len(column):
            partial.append(f"{name} {n_scored}/{len(column)}")
    ranking = ranking_score(means)
    if ranking.value is None:
        note = f" ({ranking.reason}; `ragtasks judge` adds what judges give)"
    else:
        note = f" ({', '.join(partial)})" if partial else ""
    yield f"ranking score, harmonic mean of the three (paper profile): {_shown(ranking)}{note}"
    if n_missing:
        n = max(map(len, values.values()))
        yield (
            f"ranking score with the {n_missing} missing as 0: {_shown(ranking_score(as_zero))}; the one above is over "
            f"{n - n_missing} of {n} tasks, and does not compare with whole submissions"
        )


def _with_missing_as_zero(mean: Score, column: Sequence[float | None], n_missing: int) -> Score:
    """Return what a mean would be if tasks that are handed in empty had 0; other unscored ones stay left out."""
    n_scored = sum(value is not None and not math.isnan(value) for value in column)
    return mean if mean.value is None else Score(mean.value * n_scored / (n_scored + n_missing))


def describe_ranking(rows: Sequence[Mapping[str, Any]], qrels: Sequence[Qrel], domains: Mapping[str, str]) -> list[str]:
    """Return lines with the scores of task A, from the rows as they are handed in.

    Two ways of averaging stand side by side: the official script's (a mean over collections, weighted by predictions),
    which ranks, and the plain mean over judged queries. Judgements of tasks that are not handed in do not count.

    Args:
        rows: the submission.
        qrels: relevance judgements of the benchmark.
        domains: task id -> short name of the corpus.

    Raises:
        MissingExtraError: the extra `retrieval` is not installed.
    """
    run: Run = {normalise_task_id(row["task_id"]): in_rank_order(_ranked(row)) for row in rows}
    judged = [qrel for qrel in qrels if qrel.query_id in run]
    official, own = score_run_ibm(run, judged, domains), score_run(run, judged).values
    lines = [f"{len(own)} of {len(rows)} tasks are judged; official averaging | mean over the judged tasks"]
    for name, title in (("ndcg", "nDCG"), ("recall", "Recall")):
        for k in CUTOFFS:
            plain = dataset_mean([values[f"{name}_{k}"] for values in own.values()])
            mark = " (ranking score)" if (name, k) == ("ndcg", _RANKING_CUTOFF) else ""
            lines.append(f"{title}@{k}: {_shown(official[f'{name}_{k}'])}{mark} | {_shown(plain)}")
    return lines


def _ranked(row: Mapping[str, Any]) -> Iterator[Ranked]:
    return (Ranked(context["document_id"], context["score"]) for context in row["contexts"])


def _shown(score: Score) -> str:
    return "-" if score.value is None else f"{score.value:.4f}"


__all__ = ["dataset_mean", "describe_answers", "describe_ranking"]

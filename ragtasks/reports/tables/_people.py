"""Human ratings of some answers and a judge's scores of all answers: the estimated human mean over all answers."""

from __future__ import annotations

from collections.abc import Sequence

from ragtasks.benchmarks.mtrag import ALL_PROPERTIES, FANC, WIN_RATE, RatedResponse
from ragtasks.judges import RB_LLM, RL_F
from ragtasks.results import Evaluation, ScoredAnswer
from ragtasks.statistics import assisted_mean
from ragtasks.tables import Cell, Table, Value, grouped

_COLUMNS = (
    *("setting", "model", "property", "rated", "answers", "ratings alone", "with the judge", "judge"),
    *("ratings saved", "remark"),
)
_NOTE = (
    "Median of the raters. Properties range from 1 to 4, win rates from 0 to 100. ratings alone: mean of the rated "
    "answers. with the judge: estimated human mean over all answers. The judge's scores fill in for missing ratings "
    "as far as they predict the ratings (PPI++, docs/statistics.md); if they do not, the estimate is the mean of the "
    "ratings. ratings saved: share of the ratings that the judge replaces at equal precision. The rated answers must "
    "be a random sample."
)


def people_table(evaluations: Sequence[Evaluation], rated: Sequence[RatedResponse]) -> Table:
    """Return the human means over all answers, one row per setting, model and property."""
    ratings = {(row.model_id, row.response.task.task_id, row.response.text): row for row in rated}
    rows: list[tuple[Cell, ...]] = []
    for evaluation in evaluations:
        answers = [
            (row, ratings.get((evaluation.model, row.task.task_id, row.response.text))) for row in evaluation.rows
        ]
        for setting, rated_rows in grouped(answers, lambda answer: answer[0].setting).items():
            if any(rating is not None for _, rating in rated_rows):
                names = (*FANC, WIN_RATE, ALL_PROPERTIES)
                rows += [(setting, evaluation.model, name, *_cells(rated_rows, name)) for name in names]
    missing = "None of the rated answers is in these results: their texts differ, or the samples are missing."
    return Table("People's ratings", _COLUMNS, tuple(rows), _NOTE, () if rows else (missing,))


def _cells(answers: Sequence[tuple[ScoredAnswer, RatedResponse | None]], name: str) -> tuple[Cell, ...]:
    people = [None if rating is None else rating.rating(name) for _, rating in answers]
    clusters = [row.task.conversation_id for row, _ in answers]
    bounds = (0.0, 100.0) if name == WIN_RATE else (1.0, 4.0)
    preferred = (RL_F, RB_LLM) if name == FANC[0] else (RB_LLM, RL_F)
    judge = next((judged for judged in preferred if any(row.values.get(judged) is not None for row, _ in answers)), "")
    scores = [row.values.get(judge) for row, _ in answers]
    numbers = [score for score in scores if score is not None]
    # An answer without a score counts as an average one. Otherwise the judge's missing scores would select the answers.
    mean = sum(numbers) / len(numbers) if numbers else 0.0
    estimate = assisted_mean(people, [mean if score is None else score for score in scores], clusters, bounds)
    n_rated, n = sum(value is not None for value in people), len(people)
    alone = estimate.alone.cell
    combined = Value(estimate.value, n, n, estimate.low, estimate.high)
    saved = Value(estimate.saved, n, n) if estimate.weight else "-"
    rated = Value(alone.value, n_rated, n_rated, alone.low, alone.high)
    return (n_rated, n, rated, combined, judge or "-", saved, estimate.reason)

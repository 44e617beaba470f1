"""Human ratings: MTRAG's human evaluation, and ratings of some answers combined with a judge's scores of all answers.

MTRAG's three systems become evaluations like those of any other model. Their file contains the paper's own conditioned
scores without raw ones, so they are not scored again. The human ratings are added in a table like the paper's Table 6,
next to the paper's own rows.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

from ragtasks.benchmarks.mtrag import (
    ALL_PROPERTIES,
    FANC,
    HUMAN_EVALUATION_FILE,
    PUBLISHED_METRICS,
    WIN_RATE,
    RatedResponse,
)
from ragtasks.judges import RB_LLM, RL_F
from ragtasks.metrics import LEFT_OUT
from ragtasks.records import Answerability, IdkVerdict, Setting
from ragtasks.reports.human_scores import ALL, HUMAN, PAPER_TABLE_6, Consolidation, consolidated
from ragtasks.reports.tables._scores import mean_of
from ragtasks.results import Evaluation, Kind, ScoredAnswer
from ragtasks.statistics import assisted_mean
from ragtasks.tables import Cell, Table, Value, grouped

RATED_KIND: Kind = ("mtrag (human evaluation)", "as published", "the paper's judge; judges: the paper's")
"""Kind of the file's evaluations. Their scores are the paper's own, so they share a table with no other evaluation."""

_CONSOLIDATION = Consolidation.MEDIAN_HIGH
_NO_RATER = "no rater gave all four properties"
_COLUMNS = (*HUMAN, ALL, *PUBLISHED_METRICS)
_BOUNDS = dict.fromkeys((*HUMAN, ALL), (1.0, 4.0)) | {WIN_RATE: (0.0, 100.0)}
_BOUNDS |= dict.fromkeys(PUBLISHED_METRICS, (0.0, 1.0))
_NOTE = (
    "ANSWERABLE answers only. Ranges: win_rate 0 to 100; the four properties and their harmonic mean (all) 1 to 4; "
    "metrics, as in the file, 0 to 1. Several ratings are combined by the upper median. The paper states only the "
    "median, and no median reproduces all of its human columns: `perf/human_evaluation.py` compares them."
)


def rated_evaluations(answers: Sequence[RatedResponse], source: Path = Path(HUMAN_EVALUATION_FILE)) -> list[Evaluation]:
    """Return one evaluation per model, in the order of the file; [] without answers.

    Every answer was generated and rated with the reference passages. Conversational tasks have no metrics, as in the
    paper's profile. The file distinguishes refusals from other answers, but not partial refusals from full answers. So
    `idk` is None for every answer that is not a refusal.
    """
    return [
        Evaluation(
            model=model_id,
            kind=RATED_KIND,
            rows=tuple(_row(answer) for answer in answers if answer.model_id == model_id),
            suite="mtrag",
            provenance={},
            source=source,
            samples={},
        )
        for model_id in dict.fromkeys(answer.model_id for answer in answers)
    ]


def rated_table(evaluations: Sequence[Evaluation]) -> Table:
    """Return the paper's Table 6: our row of each model, then the paper's row if it has one."""
    lines: list[tuple[Cell, ...]] = []
    for model, all_rows in ((evaluation.model, evaluation.rows) for evaluation in evaluations):
        rows = [row for row in all_rows if row.task.answerability is Answerability.ANSWERABLE]
        lines.append((model, "ours", len(rows), *(mean_of(rows, name, _BOUNDS[name]) for name in _COLUMNS)))
        if paper := PAPER_TABLE_6.get(model):
            printed = (f"{paper[name]:.{2 if name in PUBLISHED_METRICS else 1}f}" for name in _COLUMNS)
            lines.append((model, "paper", "", *printed))
    return Table("Table 6: people and metrics", ("model", "by", "n", *_COLUMNS), tuple(lines), _NOTE)


def _row(answer: RatedResponse) -> ScoredAnswer:
    task = answer.response.task
    human: dict[str, float | None] = dict.fromkeys((*HUMAN, ALL))
    for name in human:
        with suppress(ValueError):  # a property of the score has no rating
            human[name] = consolidated(answer, name, _CONSOLIDATION)
    metrics: dict[str, float | None] = {**answer.metrics, "ans_acc": float(answer.idk_is_right)}
    left_out: dict[str, str] = {}
    if task.answerability is Answerability.CONVERSATIONAL:
        metrics, left_out = dict.fromkeys(metrics), dict.fromkeys(metrics, LEFT_OUT)
    return ScoredAnswer(
        answer.response,
        Setting.REFERENCE.value,
        scores=human | metrics,
        unscored=left_out | {name: _NO_RATER for name, value in human.items() if value is None},
        idk=IdkVerdict.YES.value if answer.refuses else None,
    )


# Human ratings of some answers and a judge's scores of all answers: the estimated human mean over all answers.

_ASSISTED_COLUMNS = (
    *("setting", "model", "property", "rated", "answers", "ratings alone", "with the judge", "judge"),
    *("ratings saved", "remark"),
)
_ASSISTED_NOTE = (
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
    legend = (
        ()
        if rows
        else ("None of the rated answers is in these results: their texts differ, or the samples are missing.",)
    )
    return Table("People's ratings", _ASSISTED_COLUMNS, tuple(rows), _ASSISTED_NOTE, legend)


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

"""People's ratings of some answers beside a judge's scores of all: what people would say of the whole."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from ragtasks.benchmarks.mtrag import ALL_PROPERTIES, FANC, WIN_RATE, RatedResponse
from ragtasks.judges import JUDGED_INPUTS, PREDICTED
from ragtasks.results import Evaluation, Row
from ragtasks.statistics import assisted_mean
from ragtasks.tables import Cell, Table, Value

_COLUMNS = (
    *("setting", "model", "people's", "rated", "answers", "ratings alone", "with the judge", "judge"),
    *("ratings saved", "what to know"),
)
_NOTE = (
    "Median of the raters; the properties are from 1 to 4, a win rate from 0 to 100. ratings alone: mean of the rated "
    "answers. with the judge: people's mean over all answers, where the judge's scores of the others stand in as far "
    "as they follow people's on the rated ones (PPI++, docs/statistics.md); it is that of the ratings where they do "
    "not. ratings saved: how many fewer are as exact. Who is rated must have been chosen by chance."
)


def people_table(evaluations: Sequence[Evaluation], rated: Sequence[RatedResponse]) -> Table:
    """Return people's means over all answers, a row a setting, model and property."""
    rows = tuple(cells for item in evaluations for cells in _of_evaluation(item, rated))
    legend = () if rows else ("No rated answer is among these: their texts differ, or the samples are gone.",)
    return Table("People's ratings", _COLUMNS, rows, _NOTE, legend)


def _of_evaluation(evaluation: Evaluation, rated: Sequence[RatedResponse]) -> Iterator[tuple[Cell, ...]]:
    mine = {(row.response.task.task_id, row.response.text): row for row in rated if row.model_id == evaluation.model}
    if not mine:
        return
    answers = [(row, mine.get((row.task_id, answer.text))) for row, answer in evaluation.answers()]
    for setting in dict.fromkeys(row.setting for row, _ in answers):
        inside = [(row, found) for row, found in answers if row.setting == setting]
        if any(found is not None for _, found in inside):
            for name in (*FANC, WIN_RATE, ALL_PROPERTIES):
                yield (setting, evaluation.model, name, *_cells(inside, name))


def _cells(answers: Sequence[tuple[Row, RatedResponse | None]], name: str) -> tuple[Cell, ...]:
    people = [None if found is None else found.rating(name) for _, found in answers]
    clusters = [row.conversation_id for row, _ in answers]
    bounds = (0.0, 100.0) if name == WIN_RATE else (1.0, 4.0)
    judge = _judge_of([row for row, _ in answers], name)
    scores = [row.values.get(judge) for row, _ in answers]
    given = [score for score in scores if score is not None]
    # An answer without a score counts as an average one: a judge that says nothing must not choose who is counted.
    mean = sum(given) / len(given) if given else 0.0
    found = assisted_mean(people, [mean if score is None else score for score in scores], clusters, bounds)
    n_rated, n = sum(value is not None for value in people), len(people)
    alone = found.alone.cell
    whole = Value(found.value, n, n, found.low, found.high)
    saved = Value(found.saved, n, n) if found.weight else "-"
    rated = Value(alone.value, n_rated, n_rated, alone.low, alone.high)
    return (n_rated, n, rated, whole, judge or "-", saved, found.reason)


def _judge_of(rows: Sequence[Row], name: str) -> str:
    """Return the score that stands in for people: the prediction where there is one, else a judge's; empty for none."""
    judged = JUDGED_INPUTS[::-1] if name == FANC[0] else JUDGED_INPUTS
    return next(
        (metric for metric in (PREDICTED + name, *judged) if any(row.values.get(metric) is not None for row in rows)),
        "",
    )

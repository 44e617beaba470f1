"""Makes a judge's card from its verdicts on answers that people rated."""

from __future__ import annotations

import itertools
import statistics
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from ragtasks.benchmarks.mtrag import FANC, REFERENCE_MODEL, WIN_RATE, RatedResponse
from ragtasks.clients import Usage
from ragtasks.judges import PAIRS, CardRow, JudgeCard, VerdictOutcome, Verdicts
from ragtasks.metrics import spearman
from ragtasks.records import Answerability, IdkVerdict
from ragtasks.statistics import Repeatability, estimate_mean
from ragtasks.tables import Table, Value

ALL_PROPERTIES = "all"
"""The mean of the four properties that people rated."""
_DRAWS = 300
_EVEN = 1e-9

_NOTE = (
    "pairs as people: two systems' answers to one task, share on which the judge prefers the one that people prefer, "
    "ties half. rank: Spearman over answers to ANSWERABLE tasks. favours longer, favours refusals: how much more often "
    "than people the judge prefers the longer answer, or the one that refuses; 0 is none. Intervals are over "
    "conversations, of rank and kappa by bootstrap."
)

AnswerKey = tuple[str, str]


@dataclass(frozen=True, slots=True)
class JudgedAnswers:
    """What one judge said of rated answers."""

    judge: str
    """Name of the judge."""
    scores: Mapping[str, Mapping[AnswerKey, float | None]]
    """Rubric -> answer -> score, conditioned as the metric is."""
    idk: Mapping[AnswerKey, IdkVerdict | None]
    """Answer -> whether it refuses."""
    verdicts: Verdicts
    """Everything that it said."""
    seconds: float
    """How long it took."""
    repeats: Mapping[str, Repeatability]
    """Rubric -> how far its verdicts repeat; empty where nothing was asked again."""


def judge_card(
    answers: Sequence[RatedResponse], judged: JudgedAnswers, *, time: str, data: str, rubrics: Mapping[str, str]
) -> JudgeCard:
    """Return the card of one judge."""
    rows = [row for rubric in judged.scores for row in _of_rubric(answers, judged, rubric)]
    return JudgeCard(
        judged.judge, time, data, rubrics, (*rows, _kappa(answers, judged.idk), *_verdict_rows(judged), *_cost(judged))
    )


def card_table(card: JudgeCard) -> Table:
    """Return a card as a table."""
    rows = tuple(
        (row.rubric, row.measure, Value(row.value, row.n, row.n, row.low, row.high), row.n) for row in card.rows
    )
    title = f"Card of {card.judge}, {card.time[:16]}, {card.data}"
    return Table(title, ("rubric", "measure", "value", "n"), rows, _NOTE)


# Agreement with people.


def _human(row: RatedResponse, name: str) -> float:
    names = FANC if name == ALL_PROPERTIES else (name,)
    return statistics.fmean(statistics.fmean(row.ratings[each].values()) for each in names)


def _of_rubric(answers: Sequence[RatedResponse], judged: JudgedAnswers, rubric: str) -> Iterator[CardRow]:
    scores = judged.scores[rubric]
    pairs = _pairs(answers, scores)
    for name in (*FANC, WIN_RATE, ALL_PROPERTIES):
        agreement = [(first, _sign_agreement(first, second, scores, name)) for first, second in pairs]
        decided = [(row, value) for row, value in agreement if value is not None]
        yield _mean_row(rubric, f"{PAIRS}: {name}", decided)
    for name in (*FANC, WIN_RATE):
        yield _rank_row(answers, scores, rubric, name)
    longer = [_longer_first(pair) for pair in pairs if _n_words(pair[0]) != _n_words(pair[1])]
    yield _mean_row(rubric, "favours longer", [(one, _favour(one, other, scores)) for one, other in longer], -1.0)
    mixed = [(one, other) for one, other in pairs if bool(one.refuses) != bool(other.refuses)]
    refusing = [(one, other) if one.refuses else (other, one) for one, other in mixed]
    yield _mean_row(rubric, "favours refusals", [(one, _favour(one, other, scores)) for one, other in refusing], -1.0)


Pair = tuple[RatedResponse, RatedResponse]


def _pairs(answers: Sequence[RatedResponse], scores: Mapping[AnswerKey, float | None]) -> list[Pair]:
    """Return the pairs of systems' answers to one task that the judge scored; the reference answers are no system's."""
    by_task: dict[str, list[RatedResponse]] = {}
    for row in answers:
        if row.model_id != REFERENCE_MODEL and scores.get(row.key) is not None:
            by_task.setdefault(row.response.task.task_id, []).append(row)
    return [pair for rows in by_task.values() for pair in itertools.combinations(rows, 2)]


def _preference(gap: float) -> float:
    """Return 1 where the first is preferred, 0 where the second is, 0.5 for a tie."""
    return 0.5 if abs(gap) <= _EVEN else float(gap > 0)


def _score(scores: Mapping[AnswerKey, float | None], row: RatedResponse) -> float:
    value = scores[row.key]
    assert value is not None
    return value


def _sign_agreement(
    first: RatedResponse, second: RatedResponse, scores: Mapping[AnswerKey, float | None], name: str
) -> float | None:
    """Return 1 where judge and people prefer the same answer, 0 where they do not; None where people are even."""
    people = _preference(_human(first, name) - _human(second, name))
    judge = _preference(_score(scores, first) - _score(scores, second))
    return None if people == 0.5 else 1 - abs(people - judge)


def _favour(one: RatedResponse, other: RatedResponse, scores: Mapping[AnswerKey, float | None]) -> float:
    """Return how much more than people the judge prefers the first, -1 to 1."""
    people = _preference(_human(one, ALL_PROPERTIES) - _human(other, ALL_PROPERTIES))
    return _preference(_score(scores, one) - _score(scores, other)) - people


def _n_words(row: RatedResponse) -> int:
    return len(row.response.text.split())


def _longer_first(pair: Pair) -> Pair:
    return pair if _n_words(pair[0]) > _n_words(pair[1]) else (pair[1], pair[0])


def _mean_row(rubric: str, measure: str, values: Sequence[tuple[RatedResponse, float]], lowest: float = 0.0) -> CardRow:
    clusters = [row.response.task.conversation_id for row, _ in values]
    found = estimate_mean([value for _, value in values], clusters, (lowest, 1.0))
    return CardRow(rubric, measure, found.value, found.low, found.high, found.n_values)


def _rank_row(
    answers: Sequence[RatedResponse], scores: Mapping[AnswerKey, float | None], rubric: str, name: str
) -> CardRow:
    rows = [
        row
        for row in answers
        if row.response.task.answerability is Answerability.ANSWERABLE and scores.get(row.key) is not None
    ]

    def rho(chosen: Sequence[RatedResponse]) -> float | None:
        return spearman([_score(scores, row) for row in chosen], [_human(row, name) for row in chosen]).value

    return CardRow(rubric, f"rank: {name}", rho(rows), *_bootstrap(rows, rho), len(rows))


def _bootstrap(
    rows: Sequence[RatedResponse], measure: Callable[[Sequence[RatedResponse]], float | None]
) -> tuple[float | None, float | None]:
    """Return the interval of a measure by drawing conversations again; none where it cannot be had of the draws."""
    members: dict[str, list[RatedResponse]] = {}
    for row in rows:
        members.setdefault(row.response.task.conversation_id, []).append(row)
    groups = list(members.values())
    rng = np.random.default_rng(0)
    found = []
    for _ in range(_DRAWS if len(groups) > 1 else 0):
        drawn = [row for place in rng.integers(0, len(groups), len(groups)) for row in groups[place]]
        found.append(measure(drawn))
    values = [value for value in found if value is not None]
    if len(values) < 0.9 * _DRAWS:
        return None, None
    low, high = np.quantile(values, [0.025, 0.975])
    return float(low), float(high)


def _kappa(answers: Sequence[RatedResponse], idk: Mapping[AnswerKey, IdkVerdict | None]) -> CardRow:
    """Return Cohen's kappa of the judge's refusals and those of the paper's judge."""
    rows = [row for row in answers if row.refuses is not None and idk.get(row.key) is not None]

    def kappa(chosen: Sequence[RatedResponse]) -> float | None:
        pairs = [(bool(row.refuses), idk[row.key] is IdkVerdict.YES) for row in chosen]
        if not pairs:
            return None
        equal = statistics.fmean(one == other for one, other in pairs)
        first, second = (statistics.fmean(column) for column in zip(*pairs, strict=True))
        chance = first * second + (1 - first) * (1 - second)
        return None if chance == 1 else (equal - chance) / (1 - chance)

    return CardRow("idk", "kappa with the paper's judge", kappa(rows), *_bootstrap(rows, kappa), len(rows))


# How the judge answers, and what it costs.


def _verdict_rows(judged: JudgedAnswers) -> Iterator[CardRow]:
    for item in judged.verdicts.coverage():
        if item.judge != judged.judge or not item.n_asked:
            continue
        unparsable = item.missing.get(VerdictOutcome.UNPARSABLE.value, 0)
        yield CardRow(item.rubric, "without a verdict", 1 - item.share, n=item.n_asked)
        yield CardRow(item.rubric, "unparsable", unparsable / item.n_asked, n=item.n_asked)
    for rubric, found in judged.repeats.items():
        yield CardRow(rubric, "same value again", found.identical, n=found.n_answers)
        value, low, high = found.mean_move or (None, None, None)
        yield CardRow(rubric, "mean moves by", value, low, high, found.n_answers)


def _cost(judged: JudgedAnswers) -> Iterator[CardRow]:
    """Yield tokens, dollars and seconds a prompt, of what was asked now: what the cache had cost nothing."""
    usage = judged.verdicts.usage.get(judged.judge, Usage())
    if not usage.n_asked:
        return
    n = usage.n_asked
    yield CardRow("", "tokens a prompt", (usage.prompt_tokens + usage.completion_tokens) / n, n=n)
    if usage.cost is not None:
        yield CardRow("", "dollars for 1,000 prompts", 1000 * usage.cost / n, n=n)
    yield CardRow("", "seconds a prompt, side by side", judged.seconds / n, n=n)

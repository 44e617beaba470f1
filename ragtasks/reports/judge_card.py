"""The card of a judge: statistics of its verdicts on answers that people rated."""

from __future__ import annotations

import itertools
import math
import re
import statistics
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from ragtasks.benchmarks.mtrag import ALL_PROPERTIES, FANC, REFERENCE_MODEL, WIN_RATE, RatedResponse
from ragtasks.clients import Usage
from ragtasks.judges import (
    PAIRS,
    PAIRWISE,
    CardRow,
    JudgeCard,
    VerdictOutcome,
    Verdicts,
)
from ragtasks.metrics import cohen_kappa, spearman
from ragtasks.records import Answerability, IdkVerdict, Response
from ragtasks.statistics import Repeatability, estimate_mean
from ragtasks.tables import Table, Value, grouped

_RATED = (*FANC, WIN_RATE, ALL_PROPERTIES)
_RANK, _WITHOUT = "rank: ", "without a verdict"
_COIN, _MOST_WITHOUT = 0.5, 0.05
_DRAWS = 300
_EVEN = 1e-9

_NOTE = (
    "pairs as people: share of pairs of answers to one task on which the judge prefers the same answer as the median "
    "rater; ties of the judge count half. rank: Spearman correlation over answers to ANSWERABLE tasks. favours ...: "
    "how much more often than people the judge prefers the longer answer, the refusal, or the answer of a model of "
    "its own family (by name); 0 is no bias. twice as long: increase of that preference with each doubling of length; "
    "0 is no bias. prefers what is shown first: share over pairs in both orders; 0.5 is no bias. Intervals are over "
    "conversations, by bootstrap for rank and kappa."
)

AnswerKey = tuple[str, str]
"""(task id, model id)."""


@dataclass(frozen=True, slots=True)
class JudgeResults:
    """One judge's verdicts on rated answers."""

    judge: str
    scores: Mapping[str, Mapping[AnswerKey, float | None]]
    """Rubric -> answer -> score, conditioned like the metric."""
    idk: Mapping[AnswerKey, IdkVerdict | None]
    verdicts: Verdicts
    seconds: float
    repeats: Mapping[str, Repeatability]
    """Rubric -> repeatability of its verdicts. Empty without repeated judging."""


def judge_card(
    answers: Sequence[RatedResponse], judged: JudgeResults, *, time: str, data: str, rubrics: Mapping[str, str]
) -> JudgeCard:
    """Return the card of one judge."""
    pairs = rated_pairs(answers)
    rows = [row for rubric in judged.scores for row in _of_rubric(answers, pairs, judged, rubric)]
    rows += [_kappa(answers, judged.idk), *_verdict_rows(judged), *_cost(judged)]
    return JudgeCard(judged.judge, time, data, rubrics, tuple(rows))


def card_table(card: JudgeCard) -> Table:
    """Return a card as a table."""
    rows = tuple(
        (row.rubric, row.measure, Value(row.value, row.n, row.n, row.low, row.high), row.n) for row in card.rows
    )
    title = f"Card of {card.judge}, {card.time[:16]}, {card.data}"
    return Table(title, ("rubric", "measure", "value", "n"), rows, _NOTE, tuple(_warnings(card)))


def _warnings(card: JudgeCard) -> Iterator[str]:
    """Yield a line for each rubric under which the judge is unusable according to these answers."""
    ranks = [row for row in card.rows if row.measure.startswith(_RANK) and row.n > 1]
    constant = {
        rubric
        for rubric in dict.fromkeys(row.rubric for row in ranks)
        if all(row.value is None for row in ranks if row.rubric == rubric)
    }
    for row in card.rows:
        if row.measure == _WITHOUT and row.value is not None and row.value > _MOST_WITHOUT:
            yield (
                f"{row.rubric}: no verdict on {row.value:.0%} of {row.n} answers; scoring requires "
                f"verdicts on at least {1 - _MOST_WITHOUT:.0%}."
            )
        if row.measure != f"{PAIRS}: {ALL_PROPERTIES}" or not row.n:
            continue
        if row.rubric in constant:
            yield f"{row.rubric}: every answer got the same value, so the judge does not distinguish answers."
        elif (end := row.value if row.low is None else row.low) is not None and end <= _COIN:
            yield f"{row.rubric}: agreement with people on {row.n} pairs is not significantly above chance."


# Agreement with people on pairs of answers to one task: which answer is better.


@dataclass(frozen=True, slots=True)
class RatedPair:
    """Two systems' answers to one task, with their human ratings."""

    first: Response
    second: Response
    models: tuple[str, str]
    people: Mapping[str, float]
    """Property -> how much higher the first answer is rated. 0 if both ratings are equal."""
    refuses: tuple[bool, bool] | None = None
    """Whether each answer refuses. None if unknown."""


_Preferences = Sequence[tuple[RatedPair, float]]
"""Pairs with the judge's preference: 1 for the first, 0 for the second, 0.5 for a tie or one verdict in each order."""


def rated_pairs(answers: Sequence[RatedResponse]) -> list[RatedPair]:
    """Return all pairs of systems' answers to one task, without the reference answers."""
    rated = (row for row in answers if row.model_id != REFERENCE_MODEL)
    return [
        RatedPair(
            first.response,
            second.response,
            (first.model_id, second.model_id),
            {name: first.rating(name) - second.rating(name) for name in _RATED},
            None if first.refuses is None or second.refuses is None else (first.refuses, second.refuses),
        )
        for rows in grouped(rated, lambda row: row.response.task.task_id).values()
        for first, second in itertools.combinations(rows, 2)
    ]


def _of_rubric(
    answers: Sequence[RatedResponse], pairs: Sequence[RatedPair], judged: JudgeResults, rubric: str
) -> Iterator[CardRow]:
    scores, preferences = judged.scores[rubric], []
    for pair in pairs:
        first_score, second_score = (scores.get((pair.first.task.task_id, model)) for model in pair.models)
        if first_score is not None and second_score is not None:
            preferences.append((pair, _preference(first_score - second_score)))
    yield from _agreements(rubric, preferences, _RATED)
    for name in (*FANC, WIN_RATE):
        yield _rank_row(answers, scores, rubric, name)
    yield from _biases(rubric, preferences, ALL_PROPERTIES, judged.judge)


def pairwise_rows(
    pairs: Sequence[RatedPair], orders: Sequence[tuple[float | None, float | None]], judge: str, *, people: str = ""
) -> Iterator[CardRow]:
    """Yield the measures of the rubric `pairwise` for a judge with verdicts on each pair in both orders.

    Args:
        pairs: the pairs of answers.
        orders: for each pair, the preference for the first answer when it is shown first, and the preference for the
            second answer when that is shown first.
        judge: name of the judge.
        people: source of the human labels, for the name of the rubric.
    """
    both = [
        (pair, first_shown, second_shown)
        for pair, (first_shown, second_shown) in zip(pairs, orders, strict=True)
        if first_shown is not None and second_shown is not None
    ]
    preferences = [(pair, (first_shown + 1 - second_shown) / 2) for pair, first_shown, second_shown in both]
    rubric = f"{PAIRWISE} ({people})" if people else PAIRWISE
    names = list(pairs[0].people) if pairs else []
    yield from _agreements(rubric, preferences, names)
    yield _mean_row(
        rubric,
        "prefers what is shown first",
        [(pair, (first_shown + second_shown) / 2) for pair, first_shown, second_shown in both],
    )
    yield _mean_row(
        rubric,
        "another verdict in the other order",
        [(pair, float(first_shown != 1 - second_shown)) for pair, first_shown, second_shown in both],
    )
    if names:
        yield from _biases(rubric, preferences, names[-1], judge)


def _agreements(rubric: str, preferences: _Preferences, names: Sequence[str]) -> Iterator[CardRow]:
    """Yield the share of pairs on which judge and people prefer the same answer.

    Pairs with equal ratings are left out.
    """
    for name in names:
        decided = [(pair, judge) for pair, judge in preferences if abs(pair.people[name]) > _EVEN]
        agreed = [(pair, judge if pair.people[name] > 0 else 1 - judge) for pair, judge in decided]
        yield _mean_row(rubric, f"{PAIRS}: {name}", agreed)


def _biases(rubric: str, preferences: _Preferences, name: str, judge: str) -> Iterator[CardRow]:
    """Yield how much more often than people the judge prefers answers of a type."""

    def favours(side: Callable[[RatedPair], float]) -> list[tuple[RatedPair, float]]:
        """Return the favor for the answer on a side: the first above 0, the second below 0.

        Other pairs are left out.
        """
        favors = [(pair, side(pair), value - _preference(pair.people[name])) for pair, value in preferences]
        return [(pair, favour if sign > 0 else -favour) for pair, sign, favour in favors if sign]

    longer = favours(_doublings)
    yield _mean_row(rubric, "favours longer", longer, -1.0)
    yield _mean_row(rubric, "favours twice as long", _slope(longer), -math.inf, math.inf)
    if refusals := favours(lambda pair: 0 if pair.refuses is None else pair.refuses[0] - pair.refuses[1]):
        yield _mean_row(rubric, "favours refusals", refusals, -1.0)
    if family := _family(judge):
        kin = favours(lambda pair: (_family(pair.models[0]) == family) - (_family(pair.models[1]) == family))
        if kin:
            yield _mean_row(rubric, f"favours its own family, {family}", kin, -1.0)


def _doublings(pair: RatedPair) -> float:
    """Return log2 of the ratio of lengths in words. Negative if the second is longer."""
    first, second = (max(1, len(answer.text.split())) for answer in (pair.first, pair.second))
    return math.log2(first / second)


def _slope(favours: Sequence[tuple[RatedPair, float]]) -> list[tuple[RatedPair, float]]:
    """Return values whose mean is the slope, through the origin, of favor on doublings of length.

    The standard error of their mean is that of the slope.
    """
    lengths = [abs(_doublings(pair)) for pair, _ in favours]
    square = statistics.fmean(length**2 for length in lengths) if lengths else 0.0
    both = list(zip(favours, lengths, strict=True))
    slope = statistics.fmean(favour * length for (_, favour), length in both) / square if square else 0.0
    return [(pair, slope + (favour - slope * length) * length / square) for (pair, favour), length in both]


_FAMILIES = {
    "GPT": r"gpt|davinci|\bo[134]\b",
    **{name: name.lower() for name in ("Llama", "Claude", "DeepSeek", "Phi", "Granite", "Command")},
    **{"Gemini and Gemma": "gemini|gemma", "Mistral": "mi[sx]tral|ministral", "Qwen": "qwen|qwq"},
}
"""Family of models -> pattern in their names."""


def _family(model: str) -> str | None:
    """Return the family of a model by its name, or None if the name does not match any."""
    return next((name for name, words in _FAMILIES.items() if re.search(words, model.lower())), None)


def _preference(gap: float) -> float:
    """Return 1 if the first is preferred, 0 if the second is, 0.5 for a tie."""
    return 0.5 if abs(gap) <= _EVEN else float(gap > 0)


def _mean_row(
    rubric: str, measure: str, values: Sequence[tuple[RatedPair, float]], lowest: float = 0.0, highest: float = 1.0
) -> CardRow:
    clusters = [pair.first.task.conversation_id for pair, _ in values]
    estimate = estimate_mean([value for _, value in values], clusters, (lowest, highest))
    return CardRow(rubric, measure, estimate.value, estimate.low, estimate.high, estimate.n_values)


def _rank_row(
    answers: Sequence[RatedResponse], scores: Mapping[AnswerKey, float | None], rubric: str, name: str
) -> CardRow:
    scored = {key: score for key, score in scores.items() if score is not None}
    rows = [row for row in answers if row.response.task.answerability is Answerability.ANSWERABLE and row.key in scored]

    def rho(chosen: Sequence[RatedResponse]) -> float | None:
        return spearman([scored[row.key] for row in chosen], [row.rating(name) for row in chosen]).value

    return CardRow(rubric, f"{_RANK}{name}", rho(rows), *_bootstrap(rows, rho), len(rows))


def _bootstrap(
    rows: Sequence[RatedResponse], measure: Callable[[Sequence[RatedResponse]], float | None]
) -> tuple[float | None, float | None]:
    """Return the bootstrap interval of a measure over conversations, or (None, None) if too few draws have a value."""
    groups = list(grouped(rows, lambda row: row.response.task.conversation_id).values())
    rng = np.random.default_rng(0)
    values_or_none = []
    for _ in range(_DRAWS if len(groups) > 1 else 0):
        drawn = [row for index in rng.integers(0, len(groups), len(groups)) for row in groups[index]]
        values_or_none.append(measure(drawn))
    values = [value for value in values_or_none if value is not None]
    if len(values) < 0.9 * _DRAWS:
        return None, None
    low, high = np.quantile(values, [0.025, 0.975])
    return float(low), float(high)


def _kappa(answers: Sequence[RatedResponse], idk: Mapping[AnswerKey, IdkVerdict | None]) -> CardRow:
    """Return Cohen's kappa between the judge's refusals and those of the paper's judge."""
    rows = [row for row in answers if row.refuses is not None and idk.get(row.key) is not None]

    def kappa(chosen: Sequence[RatedResponse]) -> float | None:
        return cohen_kappa(
            [float(bool(row.refuses)) for row in chosen], [float(idk[row.key] is IdkVerdict.YES) for row in chosen]
        ).value

    return CardRow("idk", "kappa with the paper's judge", kappa(rows), *_bootstrap(rows, kappa), len(rows))


# Replies and cost of the judge.


def _verdict_rows(judged: JudgeResults) -> Iterator[CardRow]:
    for coverage in judged.verdicts.coverage():
        if coverage.judge != judged.judge or not coverage.n_asked:
            continue
        unparsable = coverage.missing.get(VerdictOutcome.UNPARSABLE.value, 0)
        yield CardRow(coverage.rubric, _WITHOUT, 1 - coverage.share, n=coverage.n_asked)
        yield CardRow(coverage.rubric, "unparsable", unparsable / coverage.n_asked, n=coverage.n_asked)
    for rubric, repeats in judged.repeats.items():
        yield CardRow(rubric, "same value again", repeats.identical, n=repeats.n_answers)
        value, low, high = repeats.mean_move or (None, None, None)
        yield CardRow(rubric, "mean moves by", value, low, high, repeats.n_answers)


def _cost(judged: JudgeResults) -> Iterator[CardRow]:
    """Yield tokens, dollars and seconds per sent prompt. Cached replies cost nothing."""
    usage = judged.verdicts.usage.get(judged.judge, Usage())
    if not usage.n_asked:
        return
    n = usage.n_asked
    yield CardRow("", "tokens a prompt", (usage.input_tokens + usage.output_tokens) / n, n=n)
    if usage.cost is not None:
        yield CardRow("", "dollars for 1,000 prompts", 1000 * usage.cost / n, n=n)
    yield CardRow("", "seconds a prompt, side by side", judged.seconds / n, n=n)

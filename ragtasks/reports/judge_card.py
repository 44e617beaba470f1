"""The card of a judge: its verdicts on rows that people labelled, as measures and tables."""

from __future__ import annotations

import itertools
import math
import statistics
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ragtasks.clients import Usage
from ragtasks.judges import (
    AGREEMENT,
    KAPPA,
    SECOND_ANSWER,
    UNDECIDED,
    WEIGHTED_KAPPA,
    CardRow,
    JudgeCard,
    Rubric,
    VerdictOutcome,
    Verdicts,
    latest_card,
    pair_of,
    store_card,
)
from ragtasks.metrics import NgramIdk
from ragtasks.records import IdkVerdict, Response
from ragtasks.results import LabelledRow, LabelledRows
from ragtasks.statistics import MIN_CLUSTERS, Floats, estimate_mean
from ragtasks.tables import Cell, Table, Value, fixed

Ask = Callable[[Sequence[Response], Sequence[Rubric], str], Verdicts]
"""(responses, rubrics, name of a repeated judging or "") -> verdicts."""

_WITHOUT = "without a verdict"
_ALWAYS = "agreement of always "
_OF_PEOPLE = " of two people"
_MOST_WITHOUT = 0.05
_DRAWS = 4000
_NOTE = (
    "agreement: share of people's labels that the judge gives too. agreement of always LABEL: the same if every row "
    "got the most frequent label. kappa: Cohen's, agreement beyond chance; weighted: by the squared difference of "
    "the labels' scores. of two people: the same between two people, the ceiling. favours ...: how much higher the "
    "judge scores these answers than others with the same labels by people; 0 is no bias. Longer answers have more "
    "words than the median, or than the other answer of a pair. prefers what is shown first: share over pairs in both "
    "orders; 0.5 is no bias. Single answers are judged one at a time, so their order has no effect; the order of "
    "labels and passages is not varied. undecided: share of rows whose repeated verdicts differ. Intervals are over "
    "conversations, or over rows without conversations. Rows that `judges label` drew are weighted by the number of "
    "answers that they stand for, except in the table of labels."
)


@dataclass(frozen=True, slots=True)
class JudgedRow:
    """A judge's verdict on a labelled row."""

    row: LabelledRow
    label: str
    """Label of the scale; of a pair, that of the verdicts in both orders together."""
    value: float
    """Value of the verdict, 0 to 1; of a pair the preference for the first answer."""
    people: float
    """Mean score of people's labels, 0 to 1."""
    shown_first: tuple[float, float] | None = None
    """Of a pair: the preference for the answer shown first, in each order."""


def calibrate_judges(
    labelled: LabelledRows, rubric: Rubric, ask: Ask, *, repeats: int, data: str, cards: Path
) -> tuple[list[Table], Verdicts]:
    """Return the tables of each judge's card, and the verdicts. Cards with an agreement are stored in a folder.

    Too few verdicts are not an error here: see `Verdicts.require_coverage`.
    """
    responses = [response for row in labelled.rows for response in _responses_of(row, rubric)]
    begin = time.monotonic()
    judgings = [ask(responses, [rubric], "")]
    seconds = time.monotonic() - begin
    judgings += [ask(responses, [rubric], f"repeat {number}") for number in range(2, repeats + 1)]
    now = datetime.now(timezone.utc).replace(tzinfo=None).isoformat(timespec="seconds")
    tables: list[Table] = []
    for judge in judgings[0].judges:
        cases = [_judged(labelled, rubric, verdicts, judge) for verdicts in judgings]
        given = [case for case in cases[0] if case is not None]
        rows = [
            *_agreements(labelled, given, rubric),
            *_biases(given, rubric),
            *_replies(judgings[0], judge),
            *_repeats(labelled, cases, rubric),
            *_cost(judgings[0].usage.get(judge, Usage()), seconds),
        ]
        pairs = Counter((label, case.label) for case in given for label in case.row.labels.values())
        confusion = {label: {other: pairs[label, other] for other in labelled.scale} for label in labelled.scale}
        confusion = confusion if given else {}
        card = JudgeCard(judge, now, data, {rubric.name: rubric.fingerprint}, tuple(rows), confusion)
        card = card.with_cost_of(latest_card(cards, judge, card.rubrics))
        if card.is_of_verdicts:
            store_card(cards, card)
        tables += [card_table(card), *confusion_tables(card), *_undecided_tables(labelled, cases, judge)]
    return tables, judgings[0]


def _responses_of(row: LabelledRow, rubric: Rubric) -> list[Response]:
    """Return the responses to judge: a single answer, or a pair in both orders."""
    if SECOND_ANSWER not in rubric.needs or row.second is None:
        return [row.response]
    return [pair_of(row.response, row.second), pair_of(row.second, row.response)]


def _judged(labelled: LabelledRows, rubric: Rubric, verdicts: Verdicts, judge: str) -> list[JudgedRow | None]:
    """Return the verdict on each row; None without one, or without one in both orders of a pair."""
    numbers = itertools.count()
    judged: list[JudgedRow | None] = []
    for row in labelled.rows:
        given = [verdicts.verdict(next(numbers), rubric.name, judge) for _ in _responses_of(row, rubric)]
        values = [verdict.value for verdict in given if verdict.value is not None]
        people = statistics.fmean(labelled.scale[label] for label in row.labels.values())
        if len(values) < len(given):
            judged.append(None)
        elif len(values) == 1:
            label = str(given[0].label) if rubric.labels else _nearest(values[0], labelled.scale)
            judged.append(JudgedRow(row, label, values[0], people))
        else:
            value = (values[0] + 1 - values[1]) / 2
            label = _nearest(value, labelled.scale, away_from=0.5)
            judged.append(JudgedRow(row, label, value, people, (values[0], values[1])))
    return judged


def _nearest(value: float, scale: Mapping[str, float], away_from: float = 1.0) -> str:
    """Return the label with the score nearest to a value. If two are equally near, the one farther from `away_from`."""
    return min(scale, key=lambda label: (round(abs(scale[label] - value), 9), -abs(scale[label] - away_from)))


# Tables.


def card_table(card: JudgeCard) -> Table:
    """Return a card as a table."""
    rows = tuple(
        (row.rubric, row.measure, Value(row.value, row.n, row.n, row.low, row.high), row.n) for row in card.rows
    )
    title = f"Card of {card.judge}, {card.time[:16]}, {card.data}"
    return Table(title, ("rubric", "measure", "value", "n"), rows, _NOTE, tuple(_warnings(card)))


def confusion_tables(card: JudgeCard) -> Iterator[Table]:
    """Yield people's labels by the judge's labels, if the card has any."""
    if card.confusion:
        labels = list(card.confusion)
        rows: list[tuple[Cell, ...]] = [
            (label, *(card.confusion[label][given] for given in labels)) for label in labels
        ]
        yield Table(f"Labels of people (rows) and of {card.judge} (columns)", ("people", *labels), tuple(rows))


def _undecided_tables(
    labelled: LabelledRows, cases: Sequence[Sequence[JudgedRow | None]], judge: str
) -> Iterator[Table]:
    """Yield the rows whose repeated verdicts differ, each with the share of its most frequent verdict."""
    lines: list[tuple[float, tuple[Cell, ...]]] = []
    for row, labels in zip(labelled.rows, _labels_by_row(cases), strict=True):
        counts = Counter(labels).most_common()
        if len(counts) > 1:
            share = counts[0][1] / len(labels)
            given = ", ".join(f"{label} {n}" for label, n in counts)
            lines.append((share, (row.name, ", ".join(row.labels.values()), given, fixed(share))))
    if len(cases) > 1:
        lines.sort(key=lambda line: line[0])
        n = len(labelled.rows)
        note = f"The other {n - len(lines)} of {n} rows are stable, or have no verdict."
        rows = tuple(line for _, line in lines)
        yield Table(f"Undecided rows of {judge}", ("row", "people", "verdicts", "share"), rows, legend=(note,))


def _warnings(card: JudgeCard) -> Iterator[str]:
    """Yield a line for each reason against using the judge under the rubric."""
    people = [label for label, given in card.confusion.items() if sum(given.values())]
    judged = [label for label in card.confusion if any(given[label] for given in card.confusion.values())]
    without, kappa = card.measure(_WITHOUT), card.measure(KAPPA, WEIGHTED_KAPPA)
    if without is not None and without.value is not None and without.value > _MOST_WITHOUT:
        yield (
            f"{without.rubric}: no verdict on {without.value:.0%} of {without.n} answers; scoring requires "
            f"verdicts on at least {1 - _MOST_WITHOUT:.0%}."
        )
    if len(people) == 1:
        yield f"People gave every row the label {people[0]}, so no row shows whether the judge detects another label."
    elif len(judged) == 1:
        yield f"The judge gave every row the label {judged[0]}, so it does not distinguish answers."
    elif kappa is not None and kappa.low is None and kappa.n:
        yield f"kappa has no interval: it requires labels of at least {MIN_CLUSTERS} conversations."
    elif kappa is not None and kappa.low is not None and kappa.low <= 0:
        yield f"Agreement with people on {kappa.n} rows is not significantly above chance."


# Measures of agreement, from a table of labels for each conversation.


def _agreements(labelled: LabelledRows, judged: Sequence[JudgedRow], rubric: Rubric) -> Iterator[CardRow]:
    """Yield agreement and kappa of the judge with each person's label, and of people with each other."""
    labels = list(labelled.scale)
    equal = [(case.row, float(label == case.label)) for case in judged for label in case.row.labels.values()]
    yield _mean_row(rubric.name, AGREEMENT, equal)
    counts = Counter[str]()
    compared = [case.row for case in judged] or labelled.rows
    for row in compared:
        for label in row.labels.values():
            counts[label] += row.weight
    most, n_most = counts.most_common(1)[0]
    yield CardRow(rubric.name, f"{_ALWAYS}{most}", n_most / counts.total(), n=len(compared))
    distances = _distances(labelled.scale)
    name = KAPPA if np.isin(distances, (0, 1)).all() else WEIGHTED_KAPPA
    with_judge = [(case.row, [(label, case.label) for label in case.row.labels.values()]) for case in judged]
    yield CardRow(rubric.name, name, *_kappa(with_judge, labels, distances), len(judged))
    several = [row for row in labelled.rows if len(row.labels) > 1]
    if several:
        people = [(row, list(itertools.permutations(row.labels.values(), 2))) for row in several]
        equal = [(row, float(first == second)) for row, pairs in people for first, second in pairs]
        yield _mean_row(rubric.name, f"{AGREEMENT}{_OF_PEOPLE}", equal)
        yield CardRow(rubric.name, f"{name}{_OF_PEOPLE}", *_kappa(people, labels, distances), len(several))


def _distances(scale: Mapping[str, float]) -> Floats:
    """Return how far labels are apart: squared difference of scores, or 1 if two labels have the same score."""
    scores = np.array([*scale.values()], dtype=np.float64)
    if len({*scale.values()}) < len(scale):
        return 1 - np.eye(len(scale))
    squares: Floats = (scores[:, None] - scores[None, :]) ** 2
    return squares / squares.max() if squares.any() else squares


def _kappa(
    rows: Sequence[tuple[LabelledRow, Sequence[tuple[str, str]]]], labels: Sequence[str], distances: Floats
) -> tuple[float | None, float | None, float | None]:
    """Return kappa of pairs of labels with its interval. None if the first label of all pairs is the same."""
    number = {label: index for index, label in enumerate(labels)}
    tables: dict[str, Floats] = {}
    for row, pairs in rows:
        table = tables.setdefault(row.cluster, np.zeros(distances.shape))
        for first, second in pairs:
            table[number[first], number[second]] += row.weight
    if len({first for _, pairs in rows for first, _ in pairs}) < 2:
        return None, None, None

    def by_chance(counts: Floats) -> Floats:
        """Return the sum of distances in each table if its rows and columns were independent."""
        expected = counts.sum(2)[:, :, None] * counts.sum(1)[:, None, :] / counts.sum((1, 2))[:, None, None]
        sums: Floats = (expected * distances).sum((1, 2))
        return sums

    by_cluster = np.array([*tables.values()])
    value, low, high = _bootstrap(by_cluster, lambda counts: 1 - (counts * distances).sum((1, 2)) / by_chance(counts))
    if low == 1:  # no draw has a difference: the exact bound of a share of 0
        largest = 1 - 0.025 ** (1 / len(by_cluster))
        low = max(-1.0, float(1 - largest * by_cluster.sum() / by_chance(by_cluster.sum(0)[None])[0]))
    return value, low, high


def _bootstrap(
    by_cluster: Floats, measure: Callable[[Floats], Floats]
) -> tuple[float | None, float | None, float | None]:
    """Return a measure of sums over conversations, and its interval over bootstrap draws of conversations.

    The percentiles are corrected for bias and skewness (BCa, Efron 1987), with quantiles of t for few conversations.
    """
    from scipy.special import ndtr, ndtri, stdtrit

    n, sums = len(by_cluster), by_cluster.sum(0)
    with np.errstate(divide="ignore", invalid="ignore"):
        value = float(measure(sums[None])[0])
        if not np.isfinite(value) or n < MIN_CLUSTERS:
            return value if np.isfinite(value) else None, None, None
        drawn = np.random.default_rng(0).multinomial(n, [1 / n] * n, size=_DRAWS)
        values = measure(np.tensordot(drawn, by_cluster, axes=1))
        without_one = measure(sums - by_cluster)
        values = values[np.isfinite(values)]
        if len(values) < 0.9 * _DRAWS:
            return value, None, None
        gaps = np.nanmean(without_one) - without_one
        skewness = np.nan_to_num(np.nansum(gaps**3) / (6 * np.nansum(gaps**2) ** 1.5))
    share_below = (np.mean(values < value - 1e-9) + np.mean(values < value + 1e-9)) / 2
    shift = ndtri(np.clip(share_below, 1 / _DRAWS, 1 - 1 / _DRAWS))
    tails = shift + np.sqrt(n / (n - 1)) * stdtrit(n - 1, np.array([0.025, 0.975]))
    low, high = np.quantile(values, ndtr(shift + tails / (1 - skewness * tails)))
    return value, float(low), float(high)


# Biases: how much higher the judge scores answers of a type than other answers with the same labels of people. Without
# this condition, a judge that errs at random would seem to prefer whatever people like least.


def _biases(judged: Sequence[JudgedRow], rubric: Rubric) -> Iterator[CardRow]:
    firsts = [case.row.response for case in judged]
    seconds = [case.row.second for case in judged if case.shown_first and case.row.second]
    lengths, refusals = _lengths(firsts), _refusals(firsts)
    if seconds:
        sides = {
            "longer": np.subtract(lengths, _lengths(seconds)),
            "refusals": np.subtract(refusals, _refusals(seconds)),
        }
    else:
        sides = {
            "longer": np.where(np.array(lengths) > statistics.median(lengths or [0]), 1, -1),
            "refusals": np.where(np.array(refusals) > 0, 1, -1),
            "later turns": np.array([1 if response.task.turn > 1 else -1 for response in firsts]),
        }
    for name, of_rows in sides.items():
        if (of_rows > 0).any() and (of_rows < 0).any():
            yield CardRow(rubric.name, f"favours {name}", *_gap(judged, of_rows), int((of_rows > 0).sum()))
    orders = [(case.row, case.shown_first) for case in judged if case.shown_first]
    if orders:
        shown_first = [(row, statistics.fmean(values)) for row, values in orders]
        yield _mean_row(rubric.name, "prefers what is shown first", shown_first)
        changed = [(row, float(first != 1 - second)) for row, (first, second) in orders]
        yield _mean_row(rubric.name, "another verdict in the other order", changed)


def _lengths(responses: Sequence[Response]) -> list[int]:
    return [len(response.text.split()) for response in responses]


def _refusals(responses: Sequence[Response]) -> list[int]:
    """Return 1 for each response that refuses, by n-grams, else 0."""
    return [int(label.verdict is IdkVerdict.YES) for label in NgramIdk().detect(responses)]


def _gap(judged: Sequence[JudgedRow], sides: NDArray[Any]) -> tuple[float | None, float | None, float | None]:
    """Return the mean value of rows on the side above 0 minus that of rows below 0, at equal labels of people.

    The differences within the labels are weighted by their precision (Mantel and Haenszel 1959).
    """
    strata = {people: number for number, people in enumerate({round(case.people, 6) for case in judged})}
    sums: dict[str, Floats] = {}
    for case, side in zip(judged, sides, strict=True):
        of_cluster = sums.setdefault(case.row.cluster, np.zeros((len(strata), 2, 2)))
        if side:
            of_cluster[strata[round(case.people, 6)], int(side > 0)] += (case.row.weight * case.value, case.row.weight)

    def gaps(totals: Floats) -> Floats:
        n = totals[..., 1]
        means = totals[..., 0] / np.where(n > 0, n, 1)
        weights = n[..., 0] * n[..., 1] / np.where(n.sum(-1) > 0, n.sum(-1), 1)
        mean_gap: Floats = ((means[..., 1] - means[..., 0]) * weights).sum(-1) / weights.sum(-1)
        return mean_gap

    return _bootstrap(np.array([*sums.values()]), gaps)


def _mean_row(rubric: str, measure: str, values: Sequence[tuple[LabelledRow, float]]) -> CardRow:
    """Return the mean of values by row, weighted by the rows, with its interval."""
    clusters = [row.cluster for row, _ in values]
    weights = [row.weight for row, _ in values]
    if len(set(weights)) < 2:
        estimate = estimate_mean([value for _, value in values], clusters, (0.0, 1.0))
    else:  # linearized: the values have the weighted mean and its standard error
        mean = sum(row.weight * value for row, value in values) / sum(weights)
        scaled = len(weights) / sum(weights)
        linear = [mean + (value - mean) * row.weight * scaled for row, value in values]
        estimate = estimate_mean(linear, clusters, (-math.inf, math.inf))
    low, high = (None if end is None else min(1.0, max(0.0, end)) for end in (estimate.low, estimate.high))
    return CardRow(rubric, measure, estimate.value, low, high, len({row.name for row, _ in values}))


# Replies, repeats and cost of the judge.


def _replies(verdicts: Verdicts, judge: str) -> Iterator[CardRow]:
    for coverage in verdicts.coverage():
        if coverage.judge == judge and coverage.n_asked:
            unparsable = coverage.missing.get(VerdictOutcome.UNPARSABLE.value, 0)
            yield CardRow(coverage.rubric, _WITHOUT, 1 - coverage.share, n=coverage.n_asked)
            yield CardRow(coverage.rubric, "unparsable", unparsable / coverage.n_asked, n=coverage.n_asked)


def _labels_by_row(cases: Sequence[Sequence[JudgedRow | None]]) -> list[list[str]]:
    """Return the labels of each row in all judgings that have one."""
    return [[case.label for case in of_row if case is not None] for of_row in zip(*cases, strict=True)]


def _repeats(labelled: LabelledRows, cases: Sequence[Sequence[JudgedRow | None]], rubric: Rubric) -> Iterator[CardRow]:
    """Yield how often two verdicts on a row are equal, and the share of rows whose verdicts differ."""
    repeated = [
        (row, labels) for row, labels in zip(labelled.rows, _labels_by_row(cases), strict=True) if len(labels) > 1
    ]
    if repeated:
        equal = [
            (row, float(first == second))
            for row, labels in repeated
            for first, second in itertools.combinations(labels, 2)
        ]
        yield _mean_row(rubric.name, "same verdict again", equal)
        yield _mean_row(rubric.name, UNDECIDED, [(row, float(len({*labels}) > 1)) for row, labels in repeated])


def _cost(usage: Usage, seconds: float) -> Iterator[CardRow]:
    """Yield tokens, dollars and seconds per sent prompt. Cached replies cost nothing."""
    if not usage.n_asked:
        return
    n = usage.n_asked
    yield CardRow("", "tokens a prompt", (usage.input_tokens + usage.output_tokens) / n, n=n)
    if usage.cost is not None:
        yield CardRow("", "dollars for 1,000 prompts", 1000 * usage.cost / n, n=n)
    yield CardRow("", "seconds a prompt, side by side", seconds / n, n=n)

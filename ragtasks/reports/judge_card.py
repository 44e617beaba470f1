"""Makes a judge's card from its verdicts on answers that people rated."""

from __future__ import annotations

import itertools
import statistics
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from ragtasks.benchmarks.mtrag import ALL_PROPERTIES, FANC, REFERENCE_MODEL, WIN_RATE, RatedResponse
from ragtasks.clients import Usage
from ragtasks.errors import ConfigurationError
from ragtasks.files import canonical_hash
from ragtasks.judges import (
    IDK,
    INPUTS,
    JUDGED_INPUTS,
    PAIRS,
    PREDICTED,
    TARGETS,
    CardRow,
    Combination,
    JudgeCard,
    VerdictOutcome,
    Verdicts,
    left_out_predictions,
    weights_of,
)
from ragtasks.metrics import answerability_accuracy, is_no_answer, k_precision, spearman
from ragtasks.records import Answerability, IdkVerdict
from ragtasks.statistics import MIN_CLUSTERS, Repeatability, estimate_mean
from ragtasks.tables import Cell, Table, Value

_DRAWS = 300
_EVEN = 1e-9

_NOTE = (
    "pairs as people: two systems' answers to one task, share on which the judge prefers the one that people prefer by "
    "the median of the raters, a judge's ties half. rank: Spearman over answers to ANSWERABLE tasks. favours longer, "
    "favours refusals: how much more often than people the judge prefers the longer answer, or the one that refuses; 0 "
    "is none. Intervals are over conversations, of rank and kappa by bootstrap."
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


def _of_rubric(answers: Sequence[RatedResponse], judged: JudgedAnswers, rubric: str) -> Iterator[CardRow]:
    scores = judged.scores[rubric]
    pairs = _pairs(answers, scores)
    for name in (*FANC, WIN_RATE, ALL_PROPERTIES):
        yield _agreement(rubric, pairs, scores, name)
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
    people = _preference(first.rating(name) - second.rating(name))
    judge = _preference(_score(scores, first) - _score(scores, second))
    return None if people == 0.5 else 1 - abs(people - judge)


def _agreement(rubric: str, pairs: Sequence[Pair], scores: Mapping[AnswerKey, float | None], name: str) -> CardRow:
    """Return the share of pairs on which scores and people prefer the same answer."""
    found = [(first, _sign_agreement(first, second, scores, name)) for first, second in pairs]
    return _mean_row(rubric, f"{PAIRS}: {name}", [(row, value) for row, value in found if value is not None])


def _favour(one: RatedResponse, other: RatedResponse, scores: Mapping[AnswerKey, float | None]) -> float:
    """Return how much more than people the judge prefers the first, -1 to 1."""
    people = _preference(one.rating(ALL_PROPERTIES) - other.rating(ALL_PROPERTIES))
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
        return spearman([_score(scores, row) for row in chosen], [row.rating(name) for row in chosen]).value

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


# Judges and free scores together: what a linear combination of them is worth, on conversations that were left out.

_COMBINATION_NOTE = (
    "Pairs as people, of each score alone and of a linear combination of all (ridge regression), which predicts each "
    "answer by the ratings of the other conversations. It predicts ratings and is none. Below .5: the lower score is "
    "preferred."
)


def combination_inputs(
    answers: Sequence[RatedResponse],
    judged: Mapping[str, Mapping[AnswerKey, float | None]],
    idk: Mapping[AnswerKey, IdkVerdict | None],
) -> dict[str, dict[AnswerKey, float | None]]:
    """Return each of `INPUTS` -> systems' answers -> score, with the judged ones as given.

    The reference answers are no system's, and judges compare with them.
    """
    rows = [row for row in answers if row.model_id != REFERENCE_MODEL]
    return {
        **{name: {row.key: judged[name].get(row.key) for row in rows} for name in JUDGED_INPUTS},
        "ans_acc": {row.key: _ans_acc(row, idk.get(row.key)) for row in rows},
        "k_precision": {
            row.key: k_precision(row.response.text, [item.text for item in row.response.passages]) or 0.0
            for row in rows
        },
        "length": {row.key: float(len(row.response.text)) for row in rows},
    }


def _ans_acc(row: RatedResponse, verdict: IdkVerdict | None) -> float | None:
    is_answer = not is_no_answer(row.response.text)
    return answerability_accuracy(row.response.task.answerability, verdict, is_answer=is_answer).value


def combine(
    answers: Sequence[RatedResponse],
    inputs: Mapping[str, Mapping[AnswerKey, float | None]],
    *,
    judges: Sequence[str],
    rubrics: Mapping[str, str],
    data: str,
    time: str,
) -> tuple[Combination, Table]:
    """Return the combination that is fitted on rated answers, and the table of what it is worth.

    What people gave is predicted where the interval of its agreement on left-out conversations is above one half.
    """
    rows = [row for row in answers if all(inputs[name].get(row.key) is not None for name in INPUTS)]
    n_conversations = len({row.response.task.conversation_id for row in rows})
    if n_conversations < MIN_CLUSTERS:
        expected = f"answers with all of {', '.join(INPUTS)} of at least {MIN_CLUSTERS} conversations"
        found = f"{len(rows)} such answers of {n_conversations} conversations"
        raise ConfigurationError(f"combination: {data}: expected {expected}, found {found}. Next step: have more rated")
    columns = {name: [inputs[name][row.key] or 0.0 for row in rows] for name in INPUTS}
    cells = {name: _left_out_agreement(rows, columns, name) for name in TARGETS}
    reasons = {name: _why_not(found[0]) for name, found in cells.items()}
    lines = tuple(found[0] for found in cells.values())
    ratings = [[list(row.key), [row.rating(name) for name in TARGETS]] for row in rows]
    name = f"combination of {', '.join(judges) or 'published scores'} and free scores"
    combination = Combination(
        time=time,
        data=data,
        fingerprint=canonical_hash([columns, ratings])[:16],
        judges=tuple(judges),
        rubrics={name: rubrics[name] for name in (*JUDGED_INPUTS, IDK) if name in rubrics},
        ranges={name: (min(values), max(values)) for name, values in columns.items()},
        weights={
            name: weights_of(columns, [row.rating(name) for row in rows]) for name, why in reasons.items() if not why
        },
        without={name: why for name, why in reasons.items() if why},
        card=JudgeCard(name, time, data, rubrics, lines).json_values,
    )
    table: list[tuple[Cell, ...]] = [
        (name, found[0].n, *(Value(one.value, one.n, one.n, one.low, one.high) for one in found))
        for name, found in cells.items()
    ]
    heads = ("people's", "pairs", "combination", *INPUTS)
    return combination, Table("Combination of judges and free scores", heads, tuple(table), _COMBINATION_NOTE)


def _left_out_agreement(
    rows: Sequence[RatedResponse], columns: Mapping[str, Sequence[float]], name: str
) -> list[CardRow]:
    """Return how often the combination prefers what people prefer, on conversations left out, then each score alone."""
    conversations = [row.response.task.conversation_id for row in rows]
    predicted = left_out_predictions(columns, [row.rating(name) for row in rows], conversations)
    found = []
    for values in (predicted, *columns.values()):
        scores = dict(zip((row.key for row in rows), values, strict=True))
        found.append(_agreement(PREDICTED + name, _pairs(rows, scores), scores, name))
    return found


def _why_not(line: CardRow) -> str:
    """Return why a rating is not predicted; empty where it is."""
    if line.value is None or line.low is None:
        return f"people decide too few pairs ({line.n}) to say whether it is predicted"
    return "" if line.low > 0.5 else f"predicted on {line.value:.2f} of {line.n} pairs, no better than by chance"


def weights_table(combination: Combination) -> Table:
    """Return the weights of each prediction."""
    rows = [(name, *(f"{value:.3g}" for value in weights.values())) for name, weights in combination.weights.items()]
    return Table(
        "Weights",
        ("people's", "constant", *INPUTS),
        tuple(rows),
        f"Fitted on {combination.data}, {combination.fingerprint}. The length counts by its logarithm.",
        tuple(f"{name}: {why}." for name, why in combination.without.items()),
    )

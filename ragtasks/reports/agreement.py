"""Agreement of metrics with human ratings on MTRAG's human evaluation, next to the paper's values."""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from types import MappingProxyType

from ragtasks.benchmarks.mtrag import FANC, PUBLISHED_METRICS, REFERENCE_MODEL, WIN_RATE, RatedResponse
from ragtasks.errors import ConfigurationError
from ragtasks.metrics import (
    Level,
    RaterAgreement,
    inverse_frequency,
    krippendorff_alpha,
    rater_agreement,
    spearman,
    spearman_repeated,
)
from ragtasks.records import Answerability, IdkVerdict, Score
from ragtasks.reports.judge_card import AnswerKey

PUBLISHED = "published"
"""Source of the scores that the human-evaluation file contains."""
HUMAN = (WIN_RATE, *FANC)
"""Rated properties, in the order of Table 6."""
ALL = "all"
"""Harmonic mean of the four properties, computed for each rater."""
PAPER_TABLE_6: Mapping[str, Mapping[str, float]] = MappingProxyType(
    {
        model: MappingProxyType(dict(zip((*HUMAN, ALL, *PUBLISHED_METRICS), scores, strict=True)))
        for model, scores in {
            REFERENCE_MODEL: (59.3, 3.8, 3.8, 4.0, 3.9, 3.8, 0.86, 0.97, 0.87),
            "gpt-4o": (47.8, 3.5, 3.8, 4.0, 3.7, 3.6, 0.80, 0.80, 0.46),
            "llama-3.1-405b-instruct": (47.4, 3.5, 3.9, 3.9, 3.7, 3.6, 0.78, 0.78, 0.49),
        }.items()
    }
)
"""Model -> column -> score of the MTRAG paper's Table 6."""
PAPER_TABLE_7: Mapping[str, float] = MappingProxyType(
    {"rl_f": 0.01, "rb_llm": 0.33, "rb_alg": 0.24, "rl_r": -0.03, "rl_mtb": -0.17}
)
"""Metric -> weighted Spearman correlation with the win-rate in the MTRAG paper's Table 7."""
PAPER_AGREEMENT: Mapping[str, float] = MappingProxyType(dict(zip(HUMAN, (87.4, 89.6, 92.1, 95.6, 90.3), strict=True)))
"""Each name of `HUMAN` -> agreement of the raters in percent (MTRAG paper, section 7)."""


class Weighting(str, Enum):
    """Weights of answers in a correlation."""

    NONE = "unweighted"
    INVERSE_FREQUENCY = "inverse frequency"
    """Weight 1 / frequency of the human value. The ranks themselves are unweighted."""
    INVERSE_FREQUENCY_RANKS = "inverse frequency, ranks too"
    """The same weights, also for computing the ranks, as if answers were repeated."""


class Consolidation(str, Enum):
    """Statistic that combines several raters' scores."""

    MEDIAN = "median"
    """Mean of the two middle ratings if a rater is missing. The paper states only the median."""
    MEDIAN_HIGH = "upper median"
    """The higher of the two middle ratings."""
    MEDIAN_LOW = "lower median"
    """The lower of the two middle ratings."""
    MEAN = "mean"


@dataclass(frozen=True, slots=True)
class MetricScores:
    """Scores of one metric by one judge."""

    metric: str
    """Such as `rb_llm`; identifies the paper's scores."""
    source: str
    """A judge, or `published`."""
    values: Mapping[AnswerKey, float | None]
    """Answer -> score conditioned on answerability, or None if unscored. An answer may be missing."""


@dataclass(frozen=True, slots=True)
class Correlation:
    """One cell of the tables by human value."""

    metric: str
    source: str
    human: str
    with_reference: bool
    """Whether the rows include the reference answers."""
    weighting: Weighting
    score: Score
    """The correlation, -1 to 1, or the reason for a missing one."""
    n_scored: int
    n_answers: int


@dataclass(frozen=True, slots=True)
class ModelMean:
    """One cell of Table 6."""

    model_id: str
    column: str
    """A name of `HUMAN`, `all`, or a metric."""
    source: str
    """The name of a consolidation, or the source of the metric's column."""
    score: Score
    """Mean over the scored ANSWERABLE answers."""
    n_scored: int


@dataclass(frozen=True, slots=True)
class IdkAgreement:
    """Agreement of a judge's IDK verdicts with the paper's judge, `yes` against other labels."""

    source: str
    n_labelled: int
    """Number of labeled answers. Conversational tasks have no label."""
    n_scored: int
    """Number of labeled answers with a verdict of the judge. The scores cover these."""
    accuracy: Score
    precision: Score
    """Share of the judge's `yes` with the label `yes`."""
    recall: Score
    """Share of the labels `yes` with the judge's `yes`."""


@dataclass(frozen=True, slots=True)
class Calibration:
    """All scores of one calibration."""

    correlations: tuple[Correlation, ...]
    """By rows, human value and weighting, then column."""
    means: tuple[ModelMean, ...]
    """By model, then source, then column."""
    idk: tuple[IdkAgreement, ...]
    """One per judge, in the given order."""
    raters: Mapping[str, Score]
    """Each name of `HUMAN` -> Krippendorff's alpha of the raters, ordinal, over ANSWERABLE answers."""
    agreement: Mapping[str, RaterAgreement]
    """Each name of `HUMAN` -> agreement of the raters on the models' answers of any answerability."""


# Only ANSWERABLE answers count, as in the paper's Table 6. The paper states neither the weights of its correlation nor
# the selection of Table 7's rows, and no plain choice reproduces Table 7 from the released file. So three named
# weightings are listed side by side, with and without the reference answers, and none is selected to match.

HUMAN_VALUES = Consolidation.MEDIAN
"""Consolidation of the human values in correlations."""
_STEPS = {WIN_RATE: 50.0, **dict.fromkeys(FANC, 1.0)}  # one point of each scale


def calibrate(
    answers: Sequence[RatedResponse],
    columns: Sequence[MetricScores] = (),
    verdicts: Mapping[str, Mapping[AnswerKey, IdkVerdict | None]] = MappingProxyType({}),
) -> Calibration:
    """Return the agreement of the published scores with human ratings, and that of any judge's stored scores.

    Source: MTRAG paper, sections 7 and 8, Tables 6 and 7. IBM/mt-rag-benchmark commit cc5b1d4 has the file and no
    script for either table.

    Args:
        answers: the rated answers.
        columns: scores by judges.
        verdicts: source -> answer -> IDK verdict.

    Raises:
        ConfigurationError: scores of other answers, scores that are not finite, or two columns with one name.
    """
    published = [
        MetricScores(name, PUBLISHED, {row.key: row.metrics.get(name) for row in answers}) for name in PUBLISHED_METRICS
    ]
    all_columns = (*published, *columns)
    _check(answers, all_columns, verdicts)
    # Ratings of the reference answers do not count, as the paper's values show (section 7).
    of_models = [row for row in answers if row.model_id != REFERENCE_MODEL]
    agreement = {
        name: rater_agreement([tuple(row.ratings[name].values()) for row in of_models], _STEPS[name]) for name in HUMAN
    }
    chosen = [row for row in answers if row.response.task.answerability is Answerability.ANSWERABLE]
    return Calibration(
        tuple(_correlations(chosen, all_columns)),
        tuple(_means(chosen, all_columns)),
        tuple(_idk(source, answers, labels) for source, labels in verdicts.items()),
        {name: krippendorff_alpha([tuple(r.ratings[name].values()) for r in chosen], Level.ORDINAL) for name in HUMAN},
        {name: shares for name, shares in agreement.items() if shares is not None},
    )


def consolidated(row: RatedResponse, name: str, consolidation: Consolidation) -> float:
    """Return one human score of an answer: a name of `HUMAN`, or `all`.

    `all` is each rater's harmonic mean of the four properties, consolidated over the raters with all four.
    """
    if name != ALL:
        return _CONSOLIDATE[consolidation](list(row.ratings[name].values()))
    raters = [rater for rater in row.ratings[FANC[0]] if all(rater in row.ratings[each] for each in FANC)]
    means = [statistics.harmonic_mean([row.ratings[each][rater] for each in FANC]) for rater in raters]
    return _CONSOLIDATE[consolidation](means)


def _check(
    answers: Sequence[RatedResponse],
    columns: Sequence[MetricScores],
    verdicts: Mapping[str, Mapping[AnswerKey, IdkVerdict | None]],
) -> None:
    """Raise ConfigurationError for scores that cannot belong to these answers."""
    names = [(column.metric, column.source) for column in columns]
    for column_name in names:
        if names.count(column_name) > 1:
            raise _error(" by ".join(column_name), "each column once", "several columns of that name", "rename one")
    keys = {row.key for row in answers}
    keys_of = {f"{c.metric} by {c.source}": c.values.keys() for c in columns} | {
        k: v.keys() for k, v in verdicts.items()
    }
    for name, column_keys in keys_of.items():
        if unknown := sorted(column_keys - keys):
            next_step = "pass verdicts on this file's answers only"
            raise _error(name, "answers of the human evaluation", f"{len(unknown)} others, as {unknown[0]}", next_step)
    for column in columns:
        for key, value in column.values.items():
            if value is not None and not math.isfinite(value):
                raise _error(f"{column.metric} of {key}", "a finite number, or None", repr(value), "pass None")


def _error(where: str, expected: str, found: str, next_step: str) -> ConfigurationError:
    subject = "calibration"
    return ConfigurationError(subject, where=where, expected=expected, found=found, next_step=next_step)


def _correlations(rows: Sequence[RatedResponse], columns: Sequence[MetricScores]) -> Iterator[Correlation]:
    for with_reference in (True, False):
        compared = [row for row in rows if with_reference or row.model_id != REFERENCE_MODEL]
        for name in HUMAN:
            human = [consolidated(row, name, HUMAN_VALUES) for row in compared]
            for weighting in Weighting:
                for column in columns:
                    scores = [column.values.get(row.key) for row in compared]
                    pairs = [(f, h) for f, h in zip(scores, human, strict=True) if f is not None]
                    score = _correlate([f for f, _ in pairs], [h for _, h in pairs], weighting)
                    cell = (column.metric, column.source, name, with_reference, weighting)
                    yield Correlation(*cell, score, len(pairs), len(compared))


def _correlate(scores: Sequence[float], human: Sequence[float], weighting: Weighting) -> Score:
    if weighting is Weighting.NONE:
        return spearman(scores, human)
    weights = inverse_frequency(human)
    return (spearman if weighting is Weighting.INVERSE_FREQUENCY else spearman_repeated)(scores, human, weights)


def _means(rows: Sequence[RatedResponse], columns: Sequence[MetricScores]) -> Iterator[ModelMean]:
    for model_id in dict.fromkeys(row.model_id for row in rows):
        of_model = [row for row in rows if row.model_id == model_id]
        for consolidation in Consolidation:
            for name in (*HUMAN, ALL):
                scores = [consolidated(row, name, consolidation) for row in of_model]
                yield ModelMean(model_id, name, consolidation.value, _mean(scores), len(scores))
        for column in columns:
            values = [value for row in of_model if (value := column.values.get(row.key)) is not None]
            yield ModelMean(model_id, column.metric, column.source, _mean(values), len(values))


def _mean(scores: Sequence[float]) -> Score:
    return Score(statistics.fmean(scores)) if scores else Score(None, "no answer has a score")


def _idk(
    source: str, answers: Sequence[RatedResponse], verdicts: Mapping[AnswerKey, IdkVerdict | None]
) -> IdkAgreement:
    labels = {row.key: row.refuses for row in answers if row.refuses is not None}
    pairs = [(label, verdicts[key] is IdkVerdict.YES) for key, label in labels.items() if verdicts.get(key) is not None]
    both = sum(label and verdict for label, verdict in pairs)
    return IdkAgreement(
        source,
        n_labelled=len(labels),
        n_scored=len(pairs),
        accuracy=_share(sum(label == verdict for label, verdict in pairs), len(pairs)),
        precision=_share(both, sum(verdict for _, verdict in pairs)),
        recall=_share(both, sum(label for label, _ in pairs)),
    )


def _share(numerator: int, denominator: int) -> Score:
    return Score(numerator / denominator) if denominator else Score(None, "no such answer")


_CONSOLIDATE: Mapping[Consolidation, Callable[[Sequence[float]], float]] = {
    Consolidation.MEDIAN: statistics.median,
    Consolidation.MEDIAN_HIGH: statistics.median_high,
    Consolidation.MEDIAN_LOW: statistics.median_low,
    Consolidation.MEAN: statistics.fmean,
}

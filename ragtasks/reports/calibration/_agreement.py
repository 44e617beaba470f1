"""How well metrics rank answers as people do, on MTRAG's human evaluation, beside the paper's scores.

Only ANSWERABLE answers count, as in the paper's Table 6. The paper says neither how its correlation is weighted nor
how Table 7's rows were chosen, and no plain choice reproduces Table 7 from the released file: so three weightings
stand side by side, named, with and without the reference answers, and none is picked to match.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable, Iterator, Mapping, Sequence
from types import MappingProxyType

from ragtasks.benchmarks.mtrag import FANC, PUBLISHED_METRICS, REFERENCE_MODEL, WIN_RATE, RatedResponse
from ragtasks.errors import ConfigurationError, clear_error
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
from ragtasks.reports.calibration._records import (
    ALL,
    HUMAN,
    PUBLISHED,
    AnswerKey,
    Calibration,
    Column,
    Consolidation,
    Correlation,
    IdkAgreement,
    ModelMean,
    Weighting,
)

_STEPS = {WIN_RATE: 50.0, **dict.fromkeys(FANC, 1.0)}  # a single point of each scale


def calibrate(
    answers: Sequence[RatedResponse],
    columns: Sequence[Column] = (),
    verdicts: Mapping[str, Mapping[AnswerKey, IdkVerdict | None]] = MappingProxyType({}),
    consolidation: Consolidation = Consolidation.MEDIAN,
) -> Calibration:
    """Return the published scores' agreement with people, and that of any judge's stored scores.

    Source: MTRAG paper, sections 7 and 8, Tables 6 and 7; IBM/mt-rag-benchmark commit cc5b1d4 has the file and no
    script for either.

    Args:
        answers: as from `load_human_evaluation`.
        columns: scores beside the published ones; each (metric, source) once.
        verdicts: judge -> answer -> IDK verdict, None where unscored; an answer may be missing.
        consolidation: how the human values of the correlations are made of the raters'.

    Raises:
        ConfigurationError: a column occurs twice, has a score that is no finite number, or names an answer that the
            human evaluation does not have, as verdicts may not either.
    """
    published = [
        Column(name, PUBLISHED, {row.key: row.metrics.get(name) for row in answers}) for name in PUBLISHED_METRICS
    ]
    every = (*published, *columns)
    _check(answers, every, verdicts)
    chosen = [row for row in answers if row.response.task.answerability is Answerability.ANSWERABLE]
    return Calibration(
        consolidation,
        tuple(_correlations(chosen, every, consolidation)),
        tuple(_means(chosen, every)),
        tuple(_idk(source, answers, found) for source, found in verdicts.items()),
        {name: krippendorff_alpha([tuple(r.ratings[name].values()) for r in chosen], Level.ORDINAL) for name in HUMAN},
        _rater_agreement(answers),
    )


def _rater_agreement(answers: Sequence[RatedResponse]) -> dict[str, RaterAgreement]:
    """Return how often the raters agree: not on the reference answers, as the paper's values (section 7) show."""
    rows = [row for row in answers if row.model_id != REFERENCE_MODEL]
    found = {name: rater_agreement([tuple(row.ratings[name].values()) for row in rows], _STEPS[name]) for name in HUMAN}
    return {name: shares for name, shares in found.items() if shares is not None}


def consolidated(row: RatedResponse, name: str, consolidation: Consolidation) -> float:
    """Return one human score of an answer: a name of `HUMAN`, or `all`.

    `all` is each rater's harmonic mean of the four properties, consolidated over the raters who gave all four.

    Raises:
        ValueError: `all`, and no rater gave all four properties.
    """
    if name != ALL:
        return _CONSOLIDATE[consolidation](list(row.ratings[name].values()))
    raters = [rater for rater in row.ratings[FANC[0]] if all(rater in row.ratings[each] for each in FANC)]
    means = [statistics.harmonic_mean([row.ratings[each][rater] for each in FANC]) for rater in raters]
    return _CONSOLIDATE[consolidation](means)


def _check(
    answers: Sequence[RatedResponse],
    columns: Sequence[Column],
    verdicts: Mapping[str, Mapping[AnswerKey, IdkVerdict | None]],
) -> None:
    """Raise ConfigurationError for scores that cannot be those of these answers."""
    names = [(column.metric, column.source) for column in columns]
    for metric, source in {name for name in names if names.count(name) > 1}:
        raise _error(f"{metric} by {source}", "each column once", "several columns of that name", "rename one")
    keys = {row.key for row in answers}
    given = {f"{c.metric} by {c.source}": c.values.keys() for c in columns} | {k: v.keys() for k, v in verdicts.items()}
    for name, found in given.items():
        if unknown := sorted(found - keys):
            next_step = "pass verdicts on this file's answers only"
            raise _error(name, "answers of the human evaluation", f"{len(unknown)} others, as {unknown[0]}", next_step)
    for column in columns:
        for key, value in column.values.items():
            if value is not None and not math.isfinite(value):
                raise _error(f"{column.metric} of {key}", "a finite number, or None", repr(value), "pass None")


def _error(where: str, expected: str, found: str, next_step: str) -> ConfigurationError:
    what = "calibration"
    return ConfigurationError(clear_error(what, where=where, expected=expected, found=found, next_step=next_step))


def _correlations(
    rows: Sequence[RatedResponse], columns: Sequence[Column], consolidation: Consolidation
) -> Iterator[Correlation]:
    for with_reference in (True, False):
        compared = [row for row in rows if with_reference or row.model_id != REFERENCE_MODEL]
        for name in HUMAN:
            human = [consolidated(row, name, consolidation) for row in compared]
            for weighting in Weighting:
                for column in columns:
                    scores = [column.values.get(row.key) for row in compared]
                    pairs = [(f, h) for f, h in zip(scores, human, strict=True) if f is not None]
                    score = _correlate([f for f, _ in pairs], [h for _, h in pairs], weighting)
                    place = (column.metric, column.source, name, with_reference, weighting)
                    yield Correlation(*place, score, len(pairs), len(compared))


def _correlate(scores: Sequence[float], human: Sequence[float], weighting: Weighting) -> Score:
    if weighting is Weighting.NONE:
        return spearman(scores, human)
    weights = inverse_frequency(human)
    return (spearman if weighting is Weighting.INVERSE_FREQUENCY else spearman_repeated)(scores, human, weights)


def _means(rows: Sequence[RatedResponse], columns: Sequence[Column]) -> Iterator[ModelMean]:
    for model_id in dict.fromkeys(row.model_id for row in rows):
        own = [row for row in rows if row.model_id == model_id]
        for consolidation in Consolidation:
            for name in (*HUMAN, ALL):
                scores = [consolidated(row, name, consolidation) for row in own]
                yield ModelMean(model_id, name, consolidation.value, _mean(scores), len(scores))
        for column in columns:
            found = [value for row in own if (value := column.values.get(row.key)) is not None]
            yield ModelMean(model_id, column.metric, column.source, _mean(found), len(found))


def _mean(scores: Sequence[float]) -> Score:
    return Score(statistics.fmean(scores)) if scores else Score(None, "no answer has a score")


def _idk(source: str, answers: Sequence[RatedResponse], found: Mapping[AnswerKey, IdkVerdict | None]) -> IdkAgreement:
    labels = {row.key: row.refuses for row in answers if row.refuses is not None}
    pairs = [(label, found[key] is IdkVerdict.YES) for key, label in labels.items() if found.get(key) is not None]
    both = sum(label and verdict for label, verdict in pairs)
    return IdkAgreement(
        source,
        n_labelled=len(labels),
        n_scored=len(pairs),
        accuracy=_share(sum(label == verdict for label, verdict in pairs), len(pairs)),
        precision=_share(both, sum(verdict for _, verdict in pairs)),
        recall=_share(both, sum(label for label, _ in pairs)),
    )


def _share(part: int, whole: int) -> Score:
    return Score(part / whole) if whole else Score(None, "no such answer")


_CONSOLIDATE: Mapping[Consolidation, Callable[[Sequence[float]], float]] = {
    Consolidation.MEDIAN: statistics.median,
    Consolidation.MEDIAN_HIGH: statistics.median_high,
    Consolidation.MEDIAN_LOW: statistics.median_low,
    Consolidation.MEAN: statistics.fmean,
}

__all__ = ["calibrate", "consolidated"]

"""What a calibration says: its scores as frozen records, and the paper's scores that stand beside them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum
from types import MappingProxyType

from ragtasks.benchmarks.mtrag import FANC, PUBLISHED_METRICS, REFERENCE_MODEL, WIN_RATE
from ragtasks.metrics import RaterAgreement
from ragtasks.records import Score

PUBLISHED = "published"
"""The source of the scores that stand in the file itself."""
HUMAN = (WIN_RATE, *FANC)
"""What people rated, in the order of Table 6."""
ALL = "all"
"""Harmonic mean of the four properties, taken rater by rater."""
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

AnswerKey = tuple[str, str]
"""(task id, model id)."""


class Weighting(str, Enum):
    """How answers weigh in a correlation."""

    NONE = "unweighted"
    """All the same: plain Spearman."""
    INVERSE_FREQUENCY = "inverse frequency"
    """1 over how often the human value occurs, in the correlation of plain ranks."""
    INVERSE_FREQUENCY_RANKS = "inverse frequency, ranks too"
    """The same weights, which also count in the ranks, as if answers were repeated."""


class Consolidation(str, Enum):
    """How one score is made of several raters'."""

    MEDIAN = "median"
    """Between the two middle ratings where a rater is missing; the paper says median."""
    MEDIAN_HIGH = "upper median"
    """The higher of the two middle ratings."""
    MEDIAN_LOW = "lower median"
    """The lower of the two middle ratings."""
    MEAN = "mean"
    """Arithmetic mean."""


@dataclass(frozen=True, slots=True)
class Column:
    """Scores of one metric by one judge."""

    metric: str
    """Such as `rb_llm`; the paper's scores are looked up by it."""
    source: str
    """Who made them: a judge, or `published`."""
    values: Mapping[AnswerKey, float | None]
    """Answer -> score conditioned on answerability, None where unscored; an answer may be missing."""


@dataclass(frozen=True, slots=True)
class Correlation:
    """One cell of the tables by human value."""

    metric: str
    """Metric of the column."""
    source: str
    """Source of the column."""
    human: str
    """A name of `HUMAN`."""
    with_reference: bool
    """Whether the reference answers are among the rows."""
    weighting: Weighting
    """How answers weigh."""
    score: Score
    """The correlation, -1 to 1, or why there is none."""
    n_scored: int
    """Answers with a score."""
    n_answers: int
    """Answers that should have one."""


@dataclass(frozen=True, slots=True)
class ModelMean:
    """One cell of Table 6."""

    model_id: str
    """Who answered."""
    column: str
    """A name of `HUMAN`, `all`, or a metric."""
    source: str
    """The name of a consolidation, or the source of the metric's column."""
    score: Score
    """Mean over the ANSWERABLE answers that have a score."""
    n_scored: int
    """Answers with a score."""


@dataclass(frozen=True, slots=True)
class IdkAgreement:
    """How far a judge's IDK verdicts agree with those of the paper's judge, `yes` against the rest."""

    source: str
    """Who judged."""
    n_labelled: int
    """Answers with a label; conversational tasks have none."""
    n_scored: int
    """Those that the judge gave a verdict on; the scores cover these."""
    accuracy: Score
    """Share of equal labels."""
    precision: Score
    """Share of the judge's `yes` that are labelled so."""
    recall: Score
    """Share of the labelled `yes` that the judge found."""


@dataclass(frozen=True, slots=True)
class Calibration:
    """All scores of one calibration."""

    consolidation: Consolidation
    """How the human values of the correlations were made."""
    correlations: tuple[Correlation, ...]
    """By rows, human value and weighting, then column."""
    means: tuple[ModelMean, ...]
    """By model, then source, then column."""
    idk: tuple[IdkAgreement, ...]
    """One a judge, in the order given."""
    raters: Mapping[str, Score]
    """Each name of `HUMAN` -> Krippendorff's alpha of the raters, ordinal, over ANSWERABLE answers."""
    agreement: Mapping[str, RaterAgreement]
    """Each name of `HUMAN` -> how often the raters agree on the answers of models, whatever their answerability."""


__all__ = [
    "ALL",
    "HUMAN",
    "PAPER_AGREEMENT",
    "PAPER_TABLE_6",
    "PAPER_TABLE_7",
    "PUBLISHED",
    "AnswerKey",
    "Calibration",
    "Column",
    "Consolidation",
    "Correlation",
    "IdkAgreement",
    "ModelMean",
    "Weighting",
]

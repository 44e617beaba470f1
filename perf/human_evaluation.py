"""Agreement of metrics and judges with the people who rated MTRAG's answers, next to the values of the MTRAG paper.

    python perf/human_evaluation.py --data FOLDER [--plot picture.svg]
    python perf/human_evaluation.py --data FOLDER --judge J [--metric rl_mtb] [--repeats 2] [--pairs]

FOLDER is a checkout of IBM/mt-rag-benchmark; the default is the data folder. Prints Tables 6 and 7 and the agreement
of appendix E, that of refusals with the paper's judge, and with judges their scores of the 477 answers: agreement on
pairs of answers, rank correlations and biases. `ragtasks judges calibrate` makes the card of a judge on any labels.
"""

from __future__ import annotations

import argparse
import itertools
import math
import re
import statistics
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from functools import partial
from pathlib import Path
from types import MappingProxyType

import numpy as np

from ragtasks.benchmarks import benchmark_folder
from ragtasks.benchmarks.mtrag import (
    ALL_PROPERTIES,
    FANC,
    PUBLISHED_METRICS,
    REFERENCE_MODEL,
    WIN_RATE,
    RatedResponse,
    load_human_evaluation,
)
from ragtasks.benchmarks.ragchecker import load_labelled_pairs
from ragtasks.clients import Secrets, Usage, endpoint_of, is_preset
from ragtasks.config.environment import data_folder, reply_cache_file, secret
from ragtasks.errors import ConfigurationError
from ragtasks.judges import PAIRWISE, RB_LLM, RL_F, CardRow, VerdictOutcome, Verdicts, judge_responses, pair_of
from ragtasks.judges import pairwise as rubric_of_pairs
from ragtasks.metrics import (
    IdkLabel,
    Level,
    NgramIdk,
    RaterAgreement,
    cohen_kappa,
    condition_paper,
    krippendorff_alpha,
    rater_agreement,
    spearman,
)
from ragtasks.progress import progress_bars, step
from ragtasks.records import Answerability, IdkVerdict, Response, Score
from ragtasks.reports.panels import Panel, Picture
from ragtasks.reports.plots import draw_picture
from ragtasks.statistics import Repeatability, estimate_mean, repeatability
from ragtasks.suites import suite_named
from ragtasks.tables import Format, Section, Table, Value, grouped, render

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
PUBLISHED = "published"
"""Source of the scores that the human-evaluation file contains."""
PAPER_TABLE_7: Mapping[str, float] = MappingProxyType(
    {"rl_f": 0.01, "rb_llm": 0.33, "rb_alg": 0.24, "rl_r": -0.03, "rl_mtb": -0.17}
)
"""Metric -> weighted Spearman correlation with the win-rate in the MTRAG paper's Table 7."""
PAPER_AGREEMENT: Mapping[str, float] = MappingProxyType(dict(zip(HUMAN, (87.4, 89.6, 92.1, 95.6, 90.3), strict=True)))
"""Each name of `HUMAN` -> agreement of the raters in percent (MTRAG paper, section 7)."""


class Consolidation(str, Enum):
    """Statistic that combines several raters' scores."""

    MEDIAN = "median"
    """Mean of the two middle ratings if a rater is missing. The paper states only the median."""
    MEDIAN_HIGH = "upper median"
    """The higher of the two middle ratings."""
    MEDIAN_LOW = "lower median"
    """The lower of the two middle ratings."""
    MEAN = "mean"


def consolidated(row: RatedResponse, name: str, consolidation: Consolidation) -> float:
    """Return one human score of an answer: a name of `HUMAN`, or `all`.

    `all` is each rater's harmonic mean of the four properties, consolidated over the raters with all four.
    """
    if name != ALL:
        return _CONSOLIDATE[consolidation](list(row.ratings[name].values()))
    raters = [rater for rater in row.ratings[FANC[0]] if all(rater in row.ratings[each] for each in FANC)]
    means = [statistics.harmonic_mean([row.ratings[each][rater] for each in FANC]) for rater in raters]
    return _CONSOLIDATE[consolidation](means)


_CONSOLIDATE: Mapping[Consolidation, Callable[[Sequence[float]], float]] = {
    Consolidation.MEDIAN: statistics.median,
    Consolidation.MEDIAN_HIGH: statistics.median_high,
    Consolidation.MEDIAN_LOW: statistics.median_low,
    Consolidation.MEAN: statistics.fmean,
}


_RATED = (*FANC, WIN_RATE, ALL_PROPERTIES)
PAIRS = "pairs as people"
_RANK, _WITHOUT = "rank: ", "without a verdict"
_COIN, _MOST_WITHOUT = 0.5, 0.05
_DRAWS = 300
_EVEN = 1e-9

_CARD_NOTE = (
    "pairs as people: share of pairs of answers to one task on which the judge prefers the same answer as the median "
    "rater; ties of the judge count half. rank: Spearman correlation over answers to ANSWERABLE tasks. favours ...: "
    "how much more often than people the judge prefers the longer answer, the refusal, or the answer of a model of "
    "its own family (by name); 0 is no bias. twice as long: increase of that preference with each doubling of length; "
    "0 is no bias. prefers what is shown first: share over pairs in both orders; 0.5 is no bias. Intervals are over "
    "conversations, by bootstrap for rank and kappa."
)

AnswerKey = tuple[str, str]
"""(task id, model id)."""


class Weighting(str, Enum):
    """Weights of answers in a correlation."""

    NONE = "unweighted"
    INVERSE_FREQUENCY = "inverse frequency"
    """Weight 1 / frequency of the human value. The ranks themselves are unweighted."""
    INVERSE_FREQUENCY_RANKS = "inverse frequency, ranks too"
    """The same weights, also for computing the ranks, as if answers were repeated."""


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


_OFFICIAL = 477  # answers of the official file


def calibrate_judges(
    root: Path,
    judges: Sequence[str],
    *,
    secrets: Secrets,
    cache_file: Path,
    metrics: Sequence[str] = (),
    picture: Path | None = None,
    repeats: int = 1,
    pairs: bool = False,
    ragchecker: Path | None = None,
) -> tuple[str, Verdicts | None]:
    """Return the calibration tables and the judges' verdicts, and draw the picture if a path is given.

    Without judges, the published scores and the n-gram detector are calibrated. With judges, their scores of the 477
    rated answers are added. Cached replies cause no requests. Too few verdicts are not an error here: see
    `Verdicts.require_coverage`.
    """
    if (pairs or ragchecker is not None) and not judges:
        raise ConfigurationError("--pairs, --ragchecker: no judge is named. Next step: name one with --judge")
    if any(map(is_preset, judges)):
        raise ConfigurationError(
            "calibrate: a preset has the official prompts, and calibrate sends the shipped ones. Next step: name its "
            "model instead, such as --judge openai/gpt-oss-120b,base_url=http://localhost:8001/v1,temperature=server"
        )
    rubrics = suite_named("+".join(["mtrag", *metrics])).rubrics()
    if unknown := [metric for metric in metrics if metric not in {rubric.name for rubric in rubrics}]:
        raise ConfigurationError(f"calibrate: {unknown[0]!r} is not a judged metric. Next step: use rl_mtb or rl_r")
    pairs_of_file = [] if ragchecker is None else load_labelled_pairs(ragchecker)
    labelled = [
        RatedPair(
            pair.first,
            pair.second,
            pair.models,
            {criterion: statistics.fmean(labels) for criterion, labels in pair.labels.items()},
        )
        for pair in pairs_of_file
    ]
    with step("rated answers, and refusals by n-grams"):
        answers = load_human_evaluation(root)
        responses = [row.response for row in answers]
        idk = {"ngrams": _refusals(answers, NgramIdk().detect(responses))}
    columns: list[MetricScores] = []
    verdicts: Verdicts | None = None
    cards: list[Table] = []
    ask = partial(
        judge_responses,
        judges=[endpoint_of(judge) for judge in judges],
        rubrics=rubrics,
        secrets=secrets,
        cache_file=cache_file,
    )
    if judges:
        begin = time.monotonic()
        with progress_bars() as progress:
            verdicts = ask(responses, progress=progress)
        seconds = time.monotonic() - begin
        idk["judges"] = _refusals(answers, verdicts.idk_labels())
        columns = [
            MetricScores(name, judge, _conditioned(answers, verdicts.judge_scores(name, judge), idk["judges"]))
            for name in (RB_LLM, RL_F, *metrics)
            for judge in verdicts.judges
        ]
    with step("agreement with people, with intervals"):
        calibration = calibrate(answers, columns, idk)
    if verdicts is not None:
        with progress_bars() as progress:
            again = [ask(responses, judging=f"repeat {n}", progress=progress) for n in range(2, repeats + 1)]
        pairwise = (_pairwise(rated_pairs(answers) if pairs else [], ask), _pairwise(labelled, ask, "RAGChecker"))
        with step("cards of the judges, with intervals"):
            judgings = [verdicts, *again]
            for judge, rows in _measures_by_judge(answers, columns, idk["judges"], judgings, seconds).items():
                complete = [*rows, *(row for of_pairs in pairwise for row in of_pairs.get(judge, ()))]
                cards.append(card_table(judge, "MTRAG's human evaluation", complete))
    if picture is not None:
        draw_picture(calibration_picture(calibration), picture)
    sections = [calibration_section(calibration)]
    if cards:
        sections.append(Section("Cards of the judges", {}, tuple(cards)))
    return render(sections, Format.MARKDOWN), verdicts


def _refusals(answers: Sequence[RatedResponse], labels: Sequence[IdkLabel]) -> dict[AnswerKey, IdkVerdict | None]:
    """Return answer -> whether it refuses, by its label."""
    return {row.key: label.verdict for row, label in zip(answers, labels, strict=True)}


def _pairwise(pairs: Sequence[RatedPair], ask: Callable[..., Verdicts], people: str = "") -> dict[str, list[CardRow]]:
    """Return judge -> measures of its verdicts on pairs in both orders. {} without pairs."""
    if not pairs:
        return {}
    orders = [order for pair in pairs for order in (pair_of(pair.first, pair.second), pair_of(pair.second, pair.first))]
    with progress_bars() as progress:
        verdicts = ask(orders, rubrics=[rubric_of_pairs()], progress=progress)
    values = {judge: [score.value for score in verdicts.judge_scores(PAIRWISE, judge)] for judge in verdicts.judges}
    return {
        judge: list(
            pairwise_rows(pairs, list(zip(preferences[::2], preferences[1::2], strict=True)), judge, people=people)
        )
        for judge, preferences in values.items()
    }


def _measures_by_judge(
    answers: Sequence[RatedResponse],
    columns: Sequence[MetricScores],
    idk: Mapping[AnswerKey, IdkVerdict | None],
    judgings: Sequence[Verdicts],
    seconds: float,
) -> dict[str, list[CardRow]]:
    """Return judge -> its measures on the rated answers."""
    clusters = [row.response.task.conversation_id for row in answers]
    measures = {}
    for judge in judgings[0].judges:
        scores = {column.metric: column.values for column in columns if column.source == judge}
        repeated = {}
        for name in scores if len(judgings) > 1 else ():
            values = [[score.value for score in verdicts.judge_scores(name, judge)] for verdicts in judgings]
            repeated[name] = repeatability(values, clusters, estimate_mean(values[0], clusters), (0.0, 1.0))
        measures[judge] = judge_measures(answers, JudgeResults(judge, scores, idk, judgings[0], seconds, repeated))
    return measures


def _conditioned(
    answers: Sequence[RatedResponse], scores: Sequence[Score], idk: Mapping[AnswerKey, IdkVerdict | None]
) -> dict[AnswerKey, float | None]:
    """Return scores conditioned as in the paper."""
    return {
        row.key: condition_paper(score, row.response.task.answerability, idk[row.key]).value
        for row, score in zip(answers, scores, strict=True)
    }


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
    return weighted_spearman(
        scores, human, inverse_frequency(human), in_ranks=weighting is not Weighting.INVERSE_FREQUENCY
    )


def inverse_frequency(values: Sequence[float]) -> list[float]:
    """Return a weight for each value, 1 / its frequency, so that all distinct values have the same total weight.

    Source: MTRAG paper, section 8, which corrects for imbalance by a weighting that it does not specify.
    """
    counts = Counter(values)
    return [1 / counts[value] for value in values]


def weighted_spearman(
    first: Sequence[float], second: Sequence[float], weights: Sequence[float], *, in_ranks: bool
) -> Score:
    """Return the rank correlation with weights above 0 of the pairs; unscored if a column does not vary.

    With `in_ranks`, a pair of weight w counts as w equal pairs in the ranks too: the rank of a value is the weight
    below it plus half the weight at it.
    """
    if len(first) < 2 or min(len({*first}), len({*second})) < 2:
        return spearman(first, second)  # without a value, for the same reason
    columns, w = np.array([first, second], dtype=np.float64), np.array(weights)
    rank_weights = w if in_ranks else np.ones(len(w))
    ranks = [
        (column[None, :] < column[:, None]) @ rank_weights + (column[None, :] == column[:, None]) @ rank_weights / 2
        for column in columns
    ]
    covariance = np.cov(*ranks, aweights=w, ddof=0)
    return Score(float(covariance[0, 1] / np.sqrt(covariance[0, 0] * covariance[1, 1])))


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


# A calibration as tables: our values next to the paper's, with coverage and source of each score.

_SHORT = ("WR", "F", "A", "N", "C", "All")
_ROWS = {True: "with the reference answers (as Table 7)", False: "without the reference answers (as Figure 4)"}
_NAMED = (*HUMAN, ALL)
_HUMAN_MEANS_NOTE = (
    "Means over answers. The three raters' scores of an answer are combined, and so are their values of All."
)
_CORRELATION_NOTE = (
    f"Human values are the {HUMAN_VALUES.value} of the raters. The paper does not state its weights. Its scores "
    "of Table 7 are for the win-rate, and Figure 4 has no numbers. With inverse frequency, each distinct human value "
    "has the same weight, so a rare value can dominate the score."
)
_RATERS_NOTE = (
    "alpha: Krippendorff's alpha of the raters of the same answer, ordinal, ANSWERABLE tasks; 1 is complete "
    "agreement, 0 is chance. Other rows: percent of the models' answers to all tasks, not corrected for chance. "
    "absolute: all raters gave the same score. absolute or high: also two equal scores and a third that differs by at "
    "most one point (50 for the win-rate; appendix E of the paper). two of the raters: at least two equal scores. The "
    "paper's values match the last row."
)
_IDK_NOTE = "`yes` against other labels, on all tasks except conversational ones, over the answers with a verdict."


def calibration_section(calibration: Calibration) -> Section:
    """Return the tables of a calibration.

    A dash means a missing score. A score that does not cover all answers shows its coverage.
    """
    n_answers = max((cell.n_answers for cell in calibration.correlations), default=0)
    sentence = (
        f"{n_answers} answers to ANSWERABLE tasks. WR win-rate (0 to 100), F faithfulness, A appropriateness, "
        "N naturalness, C completeness (1 to 4), All their harmonic mean. Metrics are conditioned on answerability."
    )
    tables = (
        _human_means(calibration),
        _metric_means(calibration),
        *_correlation_tables(calibration),
        _raters(calibration),
        *_tables_idk(calibration),
    )
    return Section("Calibration on MTRAG's human evaluation", {}, tables, sentence=sentence)


def _human_means(calibration: Calibration) -> Table:
    rows: list[tuple[str, ...]] = []
    for model_id in dict.fromkeys(mean.model_id for mean in calibration.means):
        paper = PAPER_TABLE_6.get(model_id)
        for consolidation in Consolidation:
            of_model = [m for m in calibration.means if (m.model_id, m.source) == (model_id, consolidation.value)]
            # Table 6 is printed with one decimal.
            values = {mean.column: mean.score.value for mean in of_model}
            n_equal = sum(v is not None and paper is not None and round(v, 1) == paper[n] for n, v in values.items())
            cells = [_decimals(mean.score, 1 if mean.column == HUMAN[0] else 2) for mean in of_model]
            rows.append((model_id, consolidation.value, *cells, f"{n_equal} of {len(of_model)}" if paper else "-"))
        if paper:
            rows.append((model_id, "paper", *(f"{paper[name]:.1f}" for name in _NAMED), ""))
    heads = ("model", "raters' scores by", *_SHORT, "equal to the paper's")
    return Table("Table 6, human columns", heads, tuple(rows), _HUMAN_MEANS_NOTE)


def _metric_means(calibration: Calibration) -> Table:
    rows: list[tuple[str, ...]] = []
    consolidations = {consolidation.value for consolidation in Consolidation}
    n_of_model = {mean.model_id: mean.n_scored for mean in calibration.means if mean.column == HUMAN[0]}
    for mean in calibration.means:
        if mean.source in consolidations and mean.column in _NAMED:
            continue
        paper = PAPER_TABLE_6.get(mean.model_id, {}).get(mean.column)
        ours = _covered(mean.score, mean.n_scored, n_of_model[mean.model_id])
        rows.append((mean.model_id, mean.column, mean.source, ours, "-" if paper is None else f"{paper:.2f}"))
    return Table("Table 6, metric columns", ("model", "metric", "by", "ours", "paper"), tuple(rows))


def _correlation_tables(calibration: Calibration) -> Iterator[Table]:
    columns = list(dict.fromkeys((cell.metric, cell.source) for cell in calibration.correlations))
    by_place = {(c.metric, c.source, c.human, c.with_reference, c.weighting): c for c in calibration.correlations}
    heads = ("human value", "weighting", *(f"{metric} ({source})" for metric, source in columns))
    # The paper's scores belong to its own columns. Scores of other judges have no counterpart.
    paper = [PAPER_TABLE_7.get(metric) if source == PUBLISHED else None for metric, source in columns]
    for with_reference, title in _ROWS.items():
        rows: list[tuple[str, ...]] = []
        for human in HUMAN:
            for weighting in Weighting:
                cells = [by_place[m, source, human, with_reference, weighting] for m, source in columns]
                rows.append((human, weighting.value, *(_covered(c.score, c.n_scored, c.n_answers) for c in cells)))
            if human == HUMAN[0] and with_reference:
                rows.append((human, "paper, Table 7", *(_decimals(Score(value), 2) for value in paper)))
        note = _CORRELATION_NOTE if with_reference else ""
        yield Table(f"Spearman correlation with people, {title}", heads, tuple(rows), note)


def _raters(calibration: Calibration) -> Table:
    rows: list[tuple[str, ...]] = [("alpha", *(_decimals(score, 2) for score in calibration.raters.values()))]
    for title, part in (("absolute", "absolute"), ("absolute or high", "high"), ("two of the raters", "majority")):
        shares = (calibration.agreement.get(name) for name in calibration.raters)
        rows.append(
            (title, *("-" if agreement is None else f"{100 * getattr(agreement, part):.1f}" for agreement in shares))
        )
    rows.append(("paper, section 7", *(f"{PAPER_AGREEMENT[name]:.1f}" for name in calibration.raters)))
    return Table("Agreement of the raters", ("", *calibration.raters), tuple(rows), _RATERS_NOTE)


def _tables_idk(calibration: Calibration) -> Iterator[Table]:
    rows = tuple(
        (
            agreement.source,
            f"{agreement.n_scored} of {agreement.n_labelled}",
            *(_decimals(score, 3) for score in (agreement.accuracy, agreement.precision, agreement.recall)),
        )
        for agreement in calibration.idk
    )
    heads = ("judge", "scored", "accuracy", "precision of yes", "recall of yes")
    if rows:
        yield Table("IDK verdicts against those of the paper's judge", heads, rows, _IDK_NOTE)


def _decimals(score: Score, digits: int) -> str:
    return "-" if score.value is None else f"{score.value:.{digits}f}"


def _covered(score: Score, n_scored: int, n_answers: int) -> str:
    return _decimals(score, 2) + ("" if n_scored == n_answers else f" ({n_scored}/{n_answers})")


def calibration_picture(calibration: Calibration) -> Picture:
    """Return the correlations to draw, one panel per weighting, with the paper's own values as a separate series.

    The reference answers are included, as in the paper's Table 7. Columns without a correlation leave a gap.
    """
    panels = []
    for weighting in Weighting:
        series: dict[str, dict[str, Value]] = {}
        for cell in calibration.correlations:
            if cell.weighting is weighting and cell.with_reference and cell.score.value is not None:
                own = series.setdefault(f"{cell.metric} ({cell.source})", {})
                own[_drawn(cell.human)] = Value(cell.score.value, cell.n_scored, cell.n_answers)
        for name in PUBLISHED_METRICS:
            if name in PAPER_TABLE_7:
                series[f"{name} (the paper's Table 7)"] = {_drawn(HUMAN[0]): Value(PAPER_TABLE_7[name], 1, 1)}
        panels.append(Panel(weighting.value, tuple(map(_drawn, HUMAN)), series, is_of_settings=True))
    n_answers = next((c.n_answers for c in calibration.correlations if c.with_reference), 0)
    title = f"{n_answers} ANSWERABLE answers, with the reference answers; people by the {HUMAN_VALUES.value} of raters"
    section = Section("Spearman correlation of metrics with people", {}, ())
    return Picture(section, Table(title, (), ()), tuple(panels))


def _drawn(human: str) -> str:
    return human.replace("_", "-")


# Measures of a judge.


def judge_measures(answers: Sequence[RatedResponse], judged: JudgeResults) -> list[CardRow]:
    """Return the measures of one judge."""
    pairs = rated_pairs(answers)
    rows = [row for rubric in judged.scores for row in _of_rubric(answers, pairs, judged, rubric)]
    return [*rows, _kappa(answers, judged.idk), *_verdict_rows(judged), *_cost(judged)]


def card_table(judge: str, data: str, measures: Sequence[CardRow]) -> Table:
    """Return the measures of a judge as a table."""
    rows = tuple(
        (row.rubric, row.measure, Value(row.value, row.n, row.n, row.low, row.high), row.n) for row in measures
    )
    columns = ("rubric", "measure", "value", "n")
    return Table(f"Card of {judge}, {data}", columns, rows, _CARD_NOTE, tuple(_warnings(measures)))


def _warnings(rows: Sequence[CardRow]) -> Iterator[str]:
    """Yield a line for each rubric under which the judge is unusable according to these answers."""
    ranks = [row for row in rows if row.measure.startswith(_RANK) and row.n > 1]
    constant = {
        rubric
        for rubric in dict.fromkeys(row.rubric for row in ranks)
        if all(row.value is None for row in ranks if row.rubric == rubric)
    }
    for row in rows:
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


def main() -> None:
    """Print the tables of the study."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", help="checkout of IBM/mt-rag-benchmark; default: the data folder")
    parser.add_argument("--judge", action="append", default=[], help="openai/NAME or a JSON object; repeatable")
    parser.add_argument("--metric", action="append", default=[], help="further metric of judges: rl_mtb or rl_r")
    parser.add_argument("--repeats", type=int, default=1, help="number of verdicts by each judge")
    parser.add_argument("--pairs", action="store_true", help="also judge answers in pairs")
    parser.add_argument("--ragchecker", type=Path, help="RAGChecker's human_labeled_data.json, also judged")
    parser.add_argument("--plot", type=Path, help="picture of the correlations to write, .png or .svg")
    given = parser.parse_args()
    text, verdicts = calibrate_judges(
        benchmark_folder("mtrag", given.data, data_folder()),
        given.judge,
        secrets=secret,
        cache_file=reply_cache_file(),
        metrics=given.metric,
        picture=given.plot,
        repeats=given.repeats,
        pairs=given.pairs,
        ragchecker=given.ragchecker,
    )
    print(text)
    if verdicts is not None:
        verdicts.require_coverage()


if __name__ == "__main__":
    main()

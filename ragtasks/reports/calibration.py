"""How far metrics and judges agree with the people who rated MTRAG's answers."""

from __future__ import annotations

import math
import statistics
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timezone
from enum import Enum
from functools import partial
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from ragtasks.benchmarks.mtrag import (
    FANC,
    PUBLISHED_METRICS,
    REFERENCE_MODEL,
    WIN_RATE,
    RatedResponse,
    load_human_evaluation,
)
from ragtasks.benchmarks.ragchecker import load_labelled_pairs
from ragtasks.clients import Secrets, endpoint_of
from ragtasks.errors import ConfigurationError, MissingExtraError, close_matches
from ragtasks.judges import (
    PAIRWISE,
    RB_LLM,
    RL_F,
    CardRow,
    JudgeCard,
    JudgeIdk,
    Rubric,
    Verdicts,
    judge_responses,
    latest_card,
    pair_of,
    store_card,
)
from ragtasks.judges import pairwise as rubric_of_pairs
from ragtasks.metrics import (
    IdkDetector,
    Level,
    NgramIdk,
    RaterAgreement,
    condition_paper,
    inverse_frequency,
    krippendorff_alpha,
    rater_agreement,
    spearman,
    spearman_repeated,
)
from ragtasks.progress import progress_bars, step
from ragtasks.records import Answerability, IdkVerdict, Score
from ragtasks.reports.judge_card import (
    JudgedAnswers,
    RatedPair,
    card_table,
    judge_card,
    pairwise_rows,
    rated_pairs,
)
from ragtasks.statistics import Repeatability, estimate_mean, repeatability
from ragtasks.suites import suite_named
from ragtasks.tables import Format, Section, markdown_table, render

if TYPE_CHECKING:
    from matplotlib.axes import Axes


_OFFICIAL = 477  # answers of the official file


def calibrate_judges(
    root: Path,
    judges: Sequence[str],
    *,
    secrets: Secrets,
    cache_file: Path,
    cards: Path,
    metrics: Sequence[str] = (),
    picture: Path | None = None,
    repeats: int = 1,
    prompts: str = "ours",
    pairs: bool = False,
    ragchecker: Path | None = None,
) -> tuple[str, Verdicts | None]:
    """Return the calibration tables, and what the judges said; the picture is written where one is asked for.

    Without judges the published scores and the n-gram detector are calibrated. With judges each one's verdicts on
    the 477 rated answers stand beside them; what is in the reply cache is not asked again. The tables do not say how
    many verdicts are too few: `Verdicts.require_coverage` does.
    """
    if (pairs or ragchecker is not None) and not judges:
        raise ConfigurationError("--pairs, --ragchecker: there is no judge to ask. Next step: name one with --judge")
    rubrics = _rubrics(metrics, prompts)
    known = [] if ragchecker is None else load_labelled_pairs(ragchecker)
    labelled = [RatedPair(pair.first, pair.second, pair.models, pair.labels) for pair in known]
    with step("answers that people rated, and who refuses by n-grams"):
        answers = load_human_evaluation(root)
        idk = {"ngrams": _refusals(answers, NgramIdk())}
    columns: list[Column] = []
    found: Verdicts | None = None
    made: list[JudgeCard] = []
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
            found = ask([row.response for row in answers], progress=progress)
        seconds = time.monotonic() - begin
        idk["judges"] = _refusals(answers, JudgeIdk(found))
        columns = _columns(answers, found, idk["judges"], metrics)
    with step("agreement with people, with intervals"):
        calibration = calibrate(answers, columns, idk)
    if found is not None:
        judgings = [found, *_again(answers, ask, repeats)]
        shown = (_pairwise(rated_pairs(answers) if pairs else [], ask), _pairwise(labelled, ask, "RAGChecker"))
        with step("cards of the judges, with intervals"):
            made = [
                _stored(
                    replace(card, rows=(*card.rows, *(row for rows in shown for row in rows.get(card.judge, ())))),
                    cards,
                )
                for card in _cards(answers, columns, idk["judges"], judgings, rubrics=rubrics, seconds=seconds)
            ]
    if picture is not None:
        plot_calibration(calibration, picture)
    text = render_calibration(calibration)
    if made:
        text += "\n\n" + render([Section("Cards of the judges", {}, tuple(map(card_table, made)))], Format.MARKDOWN)
    return text, found


def _refusals(answers: Sequence[RatedResponse], detector: IdkDetector) -> dict[AnswerKey, IdkVerdict | None]:
    """Return answer -> whether it refuses, as a detector reads it."""
    labels = detector.detect([row.response for row in answers])
    return {row.key: label.verdict for row, label in zip(answers, labels, strict=True)}


def _columns(
    answers: Sequence[RatedResponse],
    found: Verdicts,
    idk: Mapping[AnswerKey, IdkVerdict | None],
    metrics: Sequence[str],
) -> list[Column]:
    """Return the scores of each judge by each metric."""
    return [
        Column(name, judge, _conditioned(answers, found.judge_scores(name, judge), idk))
        for name in (RB_LLM, RL_F, *metrics)
        for judge in found.judges
    ]


def _again(answers: Sequence[RatedResponse], ask: Callable[..., Verdicts], repeats: int) -> list[Verdicts]:
    """Return what the judges say of the same answers the second time and later."""
    responses = [row.response for row in answers]
    with progress_bars() as progress:
        return [ask(responses, judging=f"repeat {number}", progress=progress) for number in range(2, repeats + 1)]


def _stored(card: JudgeCard, folder: Path) -> JudgeCard:
    """Return a card, with the cost of the one before where all was in the cache, and store it if it says anything."""
    complete = card.with_cost_of(latest_card(folder, card.judge, card.rubrics))
    if complete.is_of_verdicts:
        store_card(folder, complete)
    return complete


def _pairwise(pairs: Sequence[RatedPair], ask: Callable[..., Verdicts], people: str = "") -> dict[str, list[CardRow]]:
    """Return judge -> what pairs in both orders show of it; {} for no pairs."""
    if not pairs:
        return {}
    orders = [order for pair in pairs for order in (pair_of(pair.first, pair.second), pair_of(pair.second, pair.first))]
    with progress_bars() as progress:
        found = ask(orders, rubrics=[rubric_of_pairs()], progress=progress)
    values = {judge: [score.value for score in found.judge_scores(PAIRWISE, judge)] for judge in found.judges}
    return {
        judge: list(pairwise_rows(pairs, list(zip(given[::2], given[1::2], strict=True)), judge, people=people))
        for judge, given in values.items()
    }


def _cards(
    answers: Sequence[RatedResponse],
    columns: Sequence[Column],
    idk: Mapping[AnswerKey, IdkVerdict | None],
    judgings: Sequence[Verdicts],
    *,
    rubrics: Sequence[Rubric],
    seconds: float,
) -> Iterator[JudgeCard]:
    """Yield the card of each judge."""
    now = datetime.now(timezone.utc).replace(tzinfo=None).isoformat(timespec="seconds")
    # Ratings of one's own are read from the same layout.
    data = "MTRAG's human evaluation" if len(answers) == _OFFICIAL else f"{len(answers)} rated answers"
    fingerprints = {rubric.name: rubric.fingerprint for rubric in rubrics}
    for judge in judgings[0].judges:
        scores = {column.metric: column.values for column in columns if column.source == judge}
        repeated = _repeated(answers, judgings, judge, list(scores)) if len(judgings) > 1 else {}
        judged = JudgedAnswers(judge, scores, idk, judgings[0], seconds, repeated)
        yield judge_card(answers, judged, time=now, data=data, rubrics=fingerprints)


def _repeated(
    answers: Sequence[RatedResponse], judgings: Sequence[Verdicts], judge: str, names: Sequence[str]
) -> dict[str, Repeatability]:
    """Return rubric -> how far a judge's values repeat on the same answers."""
    clusters = [row.response.task.conversation_id for row in answers]
    values = {name: [[score.value for score in one.judge_scores(name, judge)] for one in judgings] for name in names}
    return {
        name: repeatability(found, clusters, estimate_mean(found[0], clusters), (0.0, 1.0))
        for name, found in values.items()
    }


def _rubrics(metrics: Sequence[str], prompts: str) -> Sequence[Rubric]:
    if prompts not in ("ours", "material_first"):
        raise ConfigurationError(f"--prompts {prompts!r}: {close_matches(prompts, ['ours', 'material_first'])}")
    rubrics = suite_named("+".join(["mtrag", *metrics])).rubrics_in(prompts)
    for metric in metrics:
        if metric not in {rubric.name for rubric in rubrics}:
            raise ConfigurationError(f"calibrate: judges are not asked for {metric!r}; take rl_mtb or rl_r")
    return rubrics


def _conditioned(
    answers: Sequence[RatedResponse], scores: Sequence[Score], idk: Mapping[AnswerKey, IdkVerdict | None]
) -> dict[AnswerKey, float | None]:
    """Return scores conditioned as the paper's are."""
    return {
        row.key: condition_paper(score, row.response.task.answerability, idk[row.key]).value
        for row, score in zip(answers, scores, strict=True)
    }


# What a calibration says: its scores as frozen records, and the paper's scores that stand beside them.

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
    source: str
    human: str
    with_reference: bool
    """Whether the reference answers are among the rows."""
    weighting: Weighting
    score: Score
    """The correlation, -1 to 1, or why there is none."""
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
    """Mean over the ANSWERABLE answers that have a score."""
    n_scored: int


@dataclass(frozen=True, slots=True)
class IdkAgreement:
    """How far a judge's IDK verdicts agree with those of the paper's judge, `yes` against the rest."""

    source: str
    n_labelled: int
    """Answers with a label; conversational tasks have none."""
    n_scored: int
    """Those that the judge gave a verdict on; the scores cover these."""
    accuracy: Score
    precision: Score
    """Share of the judge's `yes` that are labelled so."""
    recall: Score
    """Share of the labelled `yes` that the judge found."""


@dataclass(frozen=True, slots=True)
class Calibration:
    """All scores of one calibration."""

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


# How well metrics rank answers as people do, on MTRAG's human evaluation, beside the paper's scores.
# Only ANSWERABLE answers count, as in the paper's Table 6. The paper says neither how its correlation is weighted
# nor how Table 7's rows were chosen, and no plain choice reproduces Table 7 from the released file: so three
# weightings stand side by side, named, with and without the reference answers, and none is picked to match.

_HUMAN_VALUES = Consolidation.MEDIAN  # of the correlations
_STEPS = {WIN_RATE: 50.0, **dict.fromkeys(FANC, 1.0)}  # a single point of each scale


def calibrate(
    answers: Sequence[RatedResponse],
    columns: Sequence[Column] = (),
    verdicts: Mapping[str, Mapping[AnswerKey, IdkVerdict | None]] = MappingProxyType({}),
) -> Calibration:
    """Return the published scores' agreement with people, and that of any judge's stored scores.

    Source: MTRAG paper, sections 7 and 8, Tables 6 and 7; IBM/mt-rag-benchmark commit cc5b1d4 has the file and no
    script for either.
    """
    published = [
        Column(name, PUBLISHED, {row.key: row.metrics.get(name) for row in answers}) for name in PUBLISHED_METRICS
    ]
    every = (*published, *columns)
    _check(answers, every, verdicts)
    chosen = [row for row in answers if row.response.task.answerability is Answerability.ANSWERABLE]
    return Calibration(
        tuple(_correlations(chosen, every)),
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
    return ConfigurationError(what, where=where, expected=expected, found=found, next_step=next_step)


def _correlations(rows: Sequence[RatedResponse], columns: Sequence[Column]) -> Iterator[Correlation]:
    for with_reference in (True, False):
        compared = [row for row in rows if with_reference or row.model_id != REFERENCE_MODEL]
        for name in HUMAN:
            human = [consolidated(row, name, _HUMAN_VALUES) for row in compared]
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
        of_model = [row for row in rows if row.model_id == model_id]
        for consolidation in Consolidation:
            for name in (*HUMAN, ALL):
                scores = [consolidated(row, name, consolidation) for row in of_model]
                yield ModelMean(model_id, name, consolidation.value, _mean(scores), len(scores))
        for column in columns:
            found = [value for row in of_model if (value := column.values.get(row.key)) is not None]
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


# A calibration as Markdown: ours beside the paper's, with what each score covers and how it was made.

_SHORT = ("WR", "F", "A", "N", "C", "All")
_ROWS = {True: "with the reference answers (as Table 7)", False: "without the reference answers (as Figure 4)"}
_NAMED = (*HUMAN, ALL)


def render_calibration(calibration: Calibration) -> str:
    """Return the calibration as Markdown tables.

    A dash means a score that there is none of; a score that leaves answers out says how many it covers.
    """
    return "\n".join(
        line
        for part in (_opening, _human_means, _metric_means, _correlation_tables, _raters, _tables_idk)
        for line in part(calibration)
    )


def _opening(calibration: Calibration) -> Iterator[str]:
    n_answers = max((cell.n_answers for cell in calibration.correlations), default=0)
    yield "# Calibration on MTRAG's human evaluation\n"
    yield (
        f"{n_answers} answers to ANSWERABLE tasks. WR win-rate (0 to 100), F faithfulness, A appropriateness, "
        "N naturalness, C completeness (1 to 4), All their harmonic mean. Metrics are conditioned on answerability."
    )


def _human_means(calibration: Calibration) -> Iterator[str]:
    yield "\n## Table 6, human columns\n"
    yield "Means over answers of what is made of the three raters' scores; All is consolidated like a rating.\n"
    rows: list[tuple[str, ...]] = []
    for model_id in dict.fromkeys(mean.model_id for mean in calibration.means):
        paper = PAPER_TABLE_6.get(model_id)
        for consolidation in Consolidation:
            of_model = [m for m in calibration.means if (m.model_id, m.source) == (model_id, consolidation.value)]
            n_equal = sum(paper is not None and _rounded(m) == paper[m.column] for m in of_model)
            cells = [_decimals(mean.score, 1 if mean.column == HUMAN[0] else 2) for mean in of_model]
            rows.append((model_id, consolidation.value, *cells, f"{n_equal} of {len(of_model)}" if paper else "-"))
        if paper:
            rows.append((model_id, "paper", *(f"{paper[name]:.1f}" for name in _NAMED), ""))
    yield from _table(("model", "raters' scores by", *_SHORT, "equal to the paper's"), rows)


def _rounded(mean: ModelMean) -> float | None:
    """Return a human mean as Table 6 prints it, with one decimal."""
    return None if mean.score.value is None else round(mean.score.value, 1)


def _metric_means(calibration: Calibration) -> Iterator[str]:
    yield "\n## Table 6, metric columns\n"
    rows: list[tuple[str, ...]] = []
    consolidations = {consolidation.value for consolidation in Consolidation}
    n_of_model = {mean.model_id: mean.n_scored for mean in calibration.means if mean.column == HUMAN[0]}
    for mean in calibration.means:
        if mean.source in consolidations and mean.column in _NAMED:
            continue
        paper = PAPER_TABLE_6.get(mean.model_id, {}).get(mean.column)
        ours = _covered(_decimals(mean.score, 2), mean.n_scored, n_of_model[mean.model_id])
        rows.append((mean.model_id, mean.column, mean.source, ours, "-" if paper is None else f"{paper:.2f}"))
    yield from _table(("model", "metric", "by", "ours", "paper"), rows)


def _correlation_tables(calibration: Calibration) -> Iterator[str]:
    columns = list(dict.fromkeys((cell.metric, cell.source) for cell in calibration.correlations))
    by_place = {(c.metric, c.source, c.human, c.with_reference, c.weighting): c for c in calibration.correlations}
    yield "\n## Spearman correlation with people\n"
    yield f"Human values are the {_HUMAN_VALUES.value} of the raters. The paper does not say how it weighs;"
    yield "its scores of Table 7 are for the win-rate, those of Figure 4 are printed as a picture only. By inverse"
    yield "frequency each distinct human value weighs the same, so a value that few answers have can decide the score."
    for with_reference, title in _ROWS.items():
        yield f"\n### {title}\n"
        rows: list[tuple[str, ...]] = []
        for human in HUMAN:
            for weighting in Weighting:
                cells = [by_place[m, source, human, with_reference, weighting] for m, source in columns]
                texts = [_covered(_decimals(c.score, 2), c.n_scored, c.n_answers) for c in cells]
                rows.append((human, weighting.value, *texts))
            if human == HUMAN[0] and with_reference:
                rows.append((human, "paper, Table 7", *(_paper_7(metric, source) for metric, source in columns)))
        yield from _table(("human value", "weighting", *(f"{metric} ({source})" for metric, source in columns)), rows)


def _paper_7(metric: str, source: str) -> str:
    """Return the paper's score for its own columns; another judge's scores are others."""
    return f"{PAPER_TABLE_7[metric]:.2f}" if source == PUBLISHED and metric in PAPER_TABLE_7 else "-"


def _raters(calibration: Calibration) -> Iterator[str]:
    yield "\n## Agreement of the raters\n"
    yield "Krippendorff's alpha of the raters of the same answer, ordinal, ANSWERABLE tasks: 1 always, 0 as by chance."
    yield "Below it, in percent of the models' answers to all tasks, chance not taken out: all raters gave one score;"
    yield "two did, and the third is at most a point away (50 of the win-rate; appendix E of the paper); two did, the"
    yield "third anywhere. The values that the paper prints are those of the last.\n"
    rows: list[tuple[str, ...]] = [("alpha", *(_decimals(score, 2) for score in calibration.raters.values()))]
    for title, part in (("absolute", "absolute"), ("absolute or high", "high"), ("two of the raters", "majority")):
        shares = (calibration.agreement.get(name) for name in calibration.raters)
        rows.append((title, *("-" if found is None else f"{100 * getattr(found, part):.1f}" for found in shares)))
    rows.append(("paper, section 7", *(f"{PAPER_AGREEMENT[name]:.1f}" for name in calibration.raters)))
    yield from _table(("", *calibration.raters), rows)


def _tables_idk(calibration: Calibration) -> Iterator[str]:
    if not calibration.idk:
        return
    yield "\n## IDK verdicts against those of the paper's judge\n"
    yield "`yes` against the rest, on all tasks but conversational ones; scores cover the scored answers.\n"
    rows: list[tuple[str, ...]] = []
    for found in calibration.idk:
        scores = (_decimals(score, 3) for score in (found.accuracy, found.precision, found.recall))
        rows.append((found.source, f"{found.n_scored} of {found.n_labelled}", *scores))
    yield from _table(("judge", "scored", "accuracy", "precision of yes", "recall of yes"), rows)


def _decimals(score: Score, digits: int) -> str:
    return "-" if score.value is None else f"{score.value:.{digits}f}"


def _covered(text: str, n_scored: int, n_answers: int) -> str:
    return text if n_scored == n_answers else f"{text} ({n_scored}/{n_answers})"


def _table(heads: Iterable[str], rows: Iterable[Sequence[str]]) -> list[str]:
    return markdown_table(list(heads), rows, is_padded=False)


# A calibration as a picture: one panel a weighting, one group of bars a human value, one bar a column.
# Drawn on a score of its own, without pyplot, so that no window system and no state of the caller is involved.

PICTURE_FORMATS = (".png", ".svg", ".pdf")
"""File name endings that can be drawn."""

# Okabe and Ito's palette, which colour-blind readers can tell apart too; black is kept for the paper's scores.
_COLOURS = ("#0072B2", "#E69F00", "#009E73", "#CC79A7", "#56B4E9", "#D55E00", "#F0E442", "#999999")
_HATCHES = ("", "//", "..", "xx")
_GROUP_WIDTH = 0.8
_PAPER = "the paper's Table 7"
_ROOM_OF_A_SCORE = 0.07  # height of a written score, in units of the correlation
_STYLE: dict[Any, Any] = {
    "font.size": 10,
    "axes.facecolor": "white",
    "axes.edgecolor": "#444444",
    "svg.hashsalt": "ragtasks",
}


def plot_calibration(calibration: Calibration, path: Path) -> Path:
    """Return `path` after drawing the correlations there, on a light background.

    The reference answers are included, as in the paper's Table 7, whose scores are drawn as black lines over its own
    columns. Columns without a correlation leave a gap.
    """
    if path.suffix.lower() not in PICTURE_FORMATS:
        raise _unsaved(path, "a name that ends in " + ", ".join(PICTURE_FORMATS), path.name, "choose another name")
    try:
        import matplotlib as mpl
        from matplotlib.figure import Figure
    except ImportError as error:
        raise MissingExtraError("matplotlib", "report", "a picture of the calibration") from error
    with mpl.rc_context({**mpl.rcParamsDefault, **_STYLE}):
        canvas = Figure(figsize=(10, 3.2 * len(Weighting)), dpi=150, facecolor="white", layout="constrained")
        panels = canvas.subplots(len(Weighting), 1, sharex=True, sharey=True)
        for panel, weighting in zip(panels, Weighting, strict=True):
            _draw(panel, calibration, weighting)
        _label(canvas, panels, calibration)
        try:
            canvas.savefig(path, metadata={"Date": None} if path.suffix.lower() == ".svg" else None)
        except OSError as error:
            raise _unsaved(path, "a file that can be written", error.strerror or str(error), "name another") from error
    return path


def _draw(panel: Axes, calibration: Calibration, weighting: Weighting) -> None:
    columns = list(dict.fromkeys((cell.metric, cell.source) for cell in calibration.correlations))
    width = _GROUP_WIDTH / len(columns)
    for index, column in enumerate(columns):
        cells = [
            cell
            for cell in calibration.correlations
            if (cell.metric, cell.source, cell.weighting, cell.with_reference) == (*column, weighting, True)
        ]
        offset = (index + 0.5) * width - _GROUP_WIDTH / 2
        places = [HUMAN.index(cell.human) + offset for cell in cells]
        # A missing correlation is NaN here, which draws nothing: a bar of no height would read as 0.
        heights = [float("nan") if cell.score.value is None else cell.score.value for cell in cells]
        colour, hatch = _COLOURS[index % len(_COLOURS)], _HATCHES[index // len(_COLOURS) % len(_HATCHES)]
        label = f"{column[0]} ({column[1]})"
        panel.bar(places, heights, width * 0.92, color=colour, hatch=hatch, edgecolor="white", label=label)
        if len(columns) * len(HUMAN) <= 30:  # more scores than this would run into each other
            _write_scores(panel, places, cells)
        for place, cell in zip(places, cells, strict=True):
            if (line := _line_of(cell)) is not None:
                panel.hlines(line, place - width / 2, place + width / 2, "black", linewidth=2.5, label=_PAPER)
    panel.axhline(0, color="#444444", linewidth=0.8)
    panel.set_title(weighting.value, loc="left", fontsize=11)
    panel.grid(axis="y", color="#dddddd", linewidth=0.6)
    panel.set_axisbelow(True)


def _write_scores(panel: Axes, places: list[float], cells: list[Correlation]) -> None:
    """Write each correlation at the end of its bar, clear of the paper's line."""
    for place, cell in zip(places, cells, strict=True):
        value = cell.score.value
        if value is None:
            continue
        line = _line_of(cell)
        end = line if line is not None and 0 <= line - value < _ROOM_OF_A_SCORE else value
        side = 1 if value >= 0 else -1
        panel.annotate(
            f"{value:.2f}",
            (place, end),
            xytext=(0, 3 * side),
            textcoords="offset points",
            ha="center",
            va="bottom" if side > 0 else "top",
            fontsize=8,
        )


def _line_of(cell: Correlation) -> float | None:
    """Return the paper's score for a bar: its own columns, the win-rate."""
    is_paper = cell.source == PUBLISHED and cell.human == HUMAN[0]
    return PAPER_TABLE_7.get(cell.metric) if is_paper else None


def _label(canvas: Any, panels: Any, calibration: Calibration) -> None:
    n_answers = next((c.n_answers for c in calibration.correlations if c.with_reference), 0)
    canvas.suptitle(
        f"Spearman correlation of metrics with people: {n_answers} ANSWERABLE answers, with the reference answers\n"
        f"(human values: {_HUMAN_VALUES.value} of the raters)",
        fontsize=12,
    )
    panels[-1].set_xticks(range(len(HUMAN)), [name.replace("_", "-") for name in HUMAN])
    for panel in panels:
        panel.set_ylabel("correlation")
        panel.margins(y=0.15)
    # One entry for all of the paper's lines, and that after the bars.
    handles = dict(
        sorted(zip(*reversed(panels[0].get_legend_handles_labels()), strict=True), key=lambda entry: entry[0] == _PAPER)
    )
    canvas.legend(
        handles.values(), handles.keys(), loc="outside lower center", ncols=min(4, len(handles)), frameon=False
    )


def _unsaved(path: Path, expected: str, found: str, next_step: str) -> ConfigurationError:
    return ConfigurationError("drawing a picture", where=str(path), expected=expected, found=found, next_step=next_step)

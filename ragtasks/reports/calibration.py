"""Agreement of metrics and judges with the people who rated MTRAG's answers."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import datetime, timezone
from functools import partial
from pathlib import Path

from ragtasks.benchmarks.mtrag import (
    PUBLISHED_METRICS,
    RatedResponse,
    load_human_evaluation,
)
from ragtasks.benchmarks.ragchecker import load_labelled_pairs
from ragtasks.clients import Secrets, endpoint_of, is_preset
from ragtasks.errors import ConfigurationError
from ragtasks.judges import (
    PAIRWISE,
    RB_LLM,
    RL_F,
    CardRow,
    JudgeCard,
    Rubric,
    Verdicts,
    judge_responses,
    latest_card,
    pair_of,
    store_card,
)
from ragtasks.judges import pairwise as rubric_of_pairs
from ragtasks.metrics import (
    IdkLabel,
    NgramIdk,
    condition_paper,
)
from ragtasks.progress import progress_bars, step
from ragtasks.records import IdkVerdict, Score
from ragtasks.reports.agreement import (
    ALL,
    HUMAN,
    HUMAN_VALUES,
    PAPER_AGREEMENT,
    PAPER_TABLE_6,
    PAPER_TABLE_7,
    PUBLISHED,
    Calibration,
    Consolidation,
    MetricScores,
    Weighting,
    calibrate,
)
from ragtasks.reports.judge_card import (
    AnswerKey,
    JudgeResults,
    RatedPair,
    card_table,
    judge_card,
    pairwise_rows,
    rated_pairs,
)
from ragtasks.reports.panels import Panel, Picture
from ragtasks.reports.plots import draw_picture
from ragtasks.statistics import estimate_mean, repeatability
from ragtasks.suites import suite_named
from ragtasks.tables import Format, Section, Table, Value, render

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
    labelled = [RatedPair(pair.first, pair.second, pair.models, pair.labels) for pair in pairs_of_file]
    with step("rated answers, and refusals by n-grams"):
        answers = load_human_evaluation(root)
        responses = [row.response for row in answers]
        idk = {"ngrams": _refusals(answers, NgramIdk().detect(responses))}
    columns: list[MetricScores] = []
    verdicts: Verdicts | None = None
    judge_cards: list[JudgeCard] = []
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
            for card in _cards(answers, columns, idk["judges"], [verdicts, *again], rubrics=rubrics, seconds=seconds):
                complete = replace(
                    card, rows=(*card.rows, *(row for rows in pairwise for row in rows.get(card.judge, ())))
                )
                judge_cards.append(complete.with_cost_of(latest_card(cards, card.judge, card.rubrics)))
                if judge_cards[-1].is_of_verdicts:
                    store_card(cards, judge_cards[-1])
    if picture is not None:
        draw_picture(calibration_picture(calibration), picture)
    sections = [calibration_section(calibration)]
    if judge_cards:
        sections.append(Section("Cards of the judges", {}, tuple(map(card_table, judge_cards))))
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


def _cards(
    answers: Sequence[RatedResponse],
    columns: Sequence[MetricScores],
    idk: Mapping[AnswerKey, IdkVerdict | None],
    judgings: Sequence[Verdicts],
    *,
    rubrics: Sequence[Rubric],
    seconds: float,
) -> Iterator[JudgeCard]:
    now = datetime.now(timezone.utc).replace(tzinfo=None).isoformat(timespec="seconds")
    # The user's own ratings are read from the same layout.
    data = "MTRAG's human evaluation" if len(answers) == _OFFICIAL else f"{len(answers)} rated answers"
    fingerprints = {rubric.name: rubric.fingerprint for rubric in rubrics}
    clusters = [row.response.task.conversation_id for row in answers]
    for judge in judgings[0].judges:
        scores = {column.metric: column.values for column in columns if column.source == judge}
        repeated = {}
        for name in scores if len(judgings) > 1 else ():
            values = [[score.value for score in verdicts.judge_scores(name, judge)] for verdicts in judgings]
            repeated[name] = repeatability(values, clusters, estimate_mean(values[0], clusters), (0.0, 1.0))
        judged = JudgeResults(judge, scores, idk, judgings[0], seconds, repeated)
        yield judge_card(answers, judged, time=now, data=data, rubrics=fingerprints)


def _conditioned(
    answers: Sequence[RatedResponse], scores: Sequence[Score], idk: Mapping[AnswerKey, IdkVerdict | None]
) -> dict[AnswerKey, float | None]:
    """Return scores conditioned as in the paper."""
    return {
        row.key: condition_paper(score, row.response.task.answerability, idk[row.key]).value
        for row, score in zip(answers, scores, strict=True)
    }


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

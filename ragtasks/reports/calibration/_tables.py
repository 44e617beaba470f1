"""A calibration as Markdown: ours beside the paper's, with what each score covers and how it was made."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from ragtasks.records import Score
from ragtasks.reports.calibration._records import (
    ALL,
    HUMAN,
    PAPER_AGREEMENT,
    PAPER_TABLE_6,
    PAPER_TABLE_7,
    PUBLISHED,
    Calibration,
    Consolidation,
    ModelMean,
    Weighting,
)
from ragtasks.tables import markdown_table

_SHORT = ("WR", "F", "A", "N", "C", "All")
_ROWS = {True: "with the reference answers (as Table 7)", False: "without the reference answers (as Figure 4)"}
_NAMED = (*HUMAN, ALL)


def render_calibration(calibration: Calibration) -> str:
    """Return the calibration as Markdown tables.

    A dash means a score that there is none of; a score that leaves answers out says how many it covers.
    """
    return "\n".join(
        line
        for part in (_opening, _human_means, _metric_means, _correlation_tables, _raters, _idk)
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
            own = [m for m in calibration.means if (m.model_id, m.source) == (model_id, consolidation.value)]
            n_equal = sum(paper is not None and _rounded(m) == paper[m.column] for m in own)
            cells = [_decimals(mean.score, 1 if mean.column == HUMAN[0] else 2) for mean in own]
            rows.append((model_id, consolidation.value, *cells, f"{n_equal} of {len(own)}" if paper else "-"))
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
    yield f"Human values are the {calibration.consolidation.value} of the raters. The paper does not say how it weighs;"
    yield "its scores of Table 7 are for the win-rate, those of Figure 4 are printed as a picture only. By inverse"
    yield "frequency each distinct human value weighs the same, so a value that few answers have can decide the score."
    for with_reference, title in _ROWS.items():
        yield f"\n### {title}\n"
        rows: list[tuple[str, ...]] = []
        for human in HUMAN:
            for weighting in Weighting:
                cells = [by_place[m, source, human, with_reference, weighting] for m, source in columns]
                shown = [_covered(_decimals(c.score, 2), c.n_scored, c.n_answers) for c in cells]
                rows.append((human, weighting.value, *shown))
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


def _idk(calibration: Calibration) -> Iterator[str]:
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


__all__ = ["render_calibration"]

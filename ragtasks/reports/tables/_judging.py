"""Verdicts by judge, and the agreement of the judges.

A score in a report is the median over judges. It hides a judge that is stricter than the others or that answers at
random. So each judge has its own column, next to the agreement.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from ragtasks.judges import CLARIFICATION, IDK
from ragtasks.metrics import EncoderIdk, Level, NgramIdk, krippendorff_alpha, pairwise_spearman
from ragtasks.records import IdkVerdict, Score
from ragtasks.reports.judge_card import card_table, confusion_tables
from ragtasks.reports.tables._scores import plain_mean
from ragtasks.results import Evaluation, ScoredAnswer, cards_in
from ragtasks.tables import Cell, Table, Value, fixed, grouped

_LEVELS = {IDK: Level.ORDINAL, CLARIFICATION: Level.NOMINAL}
"""Rubric -> level of measurement of its verdicts. Verdicts of other rubrics are on an interval scale."""
_MEANS_NOTE = "Mean verdict of each judge, 0 to 1. In brackets: verdicts/requests, if verdicts are missing."
_AGREEMENT_NOTE = (
    "Over the responses of all settings. Items: responses with verdicts of at least two judges (alpha), or of both "
    "judges (Spearman). Alpha: 1 is complete agreement, 0 is chance."
)
_DETECTORS_NOTE = (
    "Both offline detectors on the same responses. If they often differ, scores that depend on refusals are only as "
    "reliable as the detector: read some of these responses, or use a judge (docs/metrics.md)."
)


def judge_tables(evaluations: Sequence[Evaluation]) -> list[Table]:
    """Return each judge's means and the judges' agreement. [] without verdicts, and no agreement with one judge.

    Agreement is Krippendorff's alpha over all judges of an evaluation under a rubric, and Spearman's rho of each pair.
    Alpha falls if one judge is stricter. Rho falls only if judges order responses differently.
    """
    judged = [evaluation for evaluation in evaluations if any(row.verdict_values for row in evaluation.rows)]
    if not judged:
        return []
    lines: list[tuple[Cell, ...]] = []
    for evaluation in judged:
        for rubric, between, score, n in _agreements(evaluation.rows):
            lines.append((evaluation.model, rubric, between, Value(score.value, n, n), n, score.reason))
    columns = ("model", "rubric", "agreement", "value", "items", "reason for a missing value")
    agreement = [Table("Agreement of judges", columns, tuple(lines), _AGREEMENT_NOTE)] if lines else []
    return [_means(judged), *agreement]


def _means(evaluations: Sequence[Evaluation]) -> Table:
    all_rows = [row for evaluation in evaluations for row in evaluation.rows]
    judges = _rubrics_and_judges(all_rows)[1]
    settings = dict.fromkeys(row.setting for row in all_rows)
    rows: list[tuple[Cell, ...]] = []
    for setting in settings:
        for evaluation in evaluations:
            chosen = [row for row in evaluation.rows if row.setting == setting]
            for rubric in _rubrics_and_judges(chosen)[0]:
                keys = [(rubric, judge) for judge in judges]
                means = (
                    plain_mean([row.verdict_values[key] for row in chosen if key in row.verdict_values]) for key in keys
                )
                rows.append((setting, evaluation.model, rubric, *means))
    return Table("Verdicts by judge", ("setting", "model", "rubric", *judges), tuple(rows), _MEANS_NOTE)


def _rubrics_and_judges(rows: Sequence[ScoredAnswer]) -> tuple[list[str], list[str]]:
    """Return the rubrics and the judges of the rows' verdicts, in the order of the file."""
    keys = dict.fromkeys(key for row in rows for key in row.verdict_values)
    return list(dict.fromkeys(rubric for rubric, _ in keys)), list(dict.fromkeys(judge for _, judge in keys))


def _agreements(rows: Sequence[ScoredAnswer]) -> Iterator[tuple[str, str, Score, int]]:
    """Yield (rubric, measure with its judges, agreement, number of responses). Yields nothing for one judge."""
    rubrics, judges = _rubrics_and_judges(rows)
    for rubric in rubrics if len(judges) > 1 else ():
        columns = {judge: [row.verdict_values.get((rubric, judge)) for row in rows] for judge in judges}
        verdicts_of_rows = list(zip(*columns.values(), strict=True))
        level = _LEVELS.get(rubric, Level.INTERVAL)
        n_rated = sum(sum(value is not None for value in verdicts) > 1 for verdicts in verdicts_of_rows)
        yield rubric, f"Krippendorff's alpha ({level.value})", krippendorff_alpha(verdicts_of_rows, level), n_rated
        for (first_judge, second_judge), rho in pairwise_spearman(columns).items():
            both = [None not in pair for pair in zip(columns[first_judge], columns[second_judge], strict=True)]
            yield rubric, f"Spearman: {first_judge}, {second_judge}", rho, sum(both)


def card_tables(evaluations: Sequence[Evaluation]) -> list[Table]:
    """Return the cards of the judges at the time of the scoring, each once."""
    return [table for card in cards_in(evaluations) for table in (card_table(card), *confusion_tables(card))]


def detectors_table(evaluations: Sequence[Evaluation]) -> Table:
    """Return how often the n-gram and the encoder detector disagree on refusals, by setting and model."""
    columns = ("setting", "model", "n", "differ", "share", "only ngrams: yes", "only encoder: yes", "example")
    lines: list[tuple[Cell, ...]] = []
    for evaluation in evaluations:
        rows = evaluation.rows if evaluation.samples else ()
        responses = [row.response for row in rows]
        labels = zip(rows, NgramIdk().detect(responses), EncoderIdk().detect(responses), strict=True)
        for setting, setting_rows in grouped(labels, lambda labeled: labeled[0].setting).items():
            differ = [labeled for labeled in setting_rows if labeled[1].verdict is not labeled[2].verdict]
            alone = [sum(both[index].verdict is IdkVerdict.YES for _, *both in differ) for index in (0, 1)]
            share = fixed(len(differ) / len(setting_rows))
            example = differ[0][0].task.task_id if differ else "-"
            lines.append((setting, evaluation.model, len(setting_rows), len(differ), share, *alone, example))
    return Table("Refusals by ngrams and by encoder", columns, tuple(lines), _DETECTORS_NOTE)

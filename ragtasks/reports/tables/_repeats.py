"""Stability of verdicts: answers that were judged several times, and anchors, which are judged every time."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from ragtasks.judges import drift_of
from ragtasks.metrics import Metric
from ragtasks.reports.tables._scores import by_setting, estimate_of, has_values, plain_mean, repeatability_of
from ragtasks.results import Evaluation, ScoredAnswer, anchors_in, drift_lines
from ragtasks.statistics import EXACT, Repeatability, detectable_difference
from ragtasks.tables import Cell, Difference, Table, Value, fixed, grouped, p_text

# The change of judged scores over repeated judgings, and judges with constant verdicts.

NOT_REPEATED = "without the noise of repeated judging: every verdict was requested once (`repeats`, docs/statistics.md)"
"""Remark on the intervals of a report with verdicts if no answer was judged again."""
_COVERAGE = "judge_coverage"
_NOTE = (
    "Some answers, as complete conversations, were judged several times. identical: share of pairs of judgings of one "
    "answer with the same score. move: mean distance between the scores of such a pair. noise in interval: share of "
    "the mean's variance that is the judge's noise, which its interval includes. mean moves by: expected distance "
    "between the means of two judgings of all answers. judged again: range that contains the mean of one more judging "
    "of the same answers with 95 % probability. shift p: probability of the observed difference between the judgings' "
    "means if only single verdicts vary. If it is at most 0.05, complete judgings shift, and all intervals of the "
    "score are widened by the shift (docs/statistics.md)."
)
_COLUMNS = (
    *("setting", "model", "metric", "mean", "judged", "answers", "conversations", "identical", "move"),
    *("noise in interval", "mean moves by", "judged again", "shift p", "remark"),
)


@dataclass(frozen=True, slots=True)
class Repeated:
    """One judged score with several judgings of some answers."""

    setting: str
    model: str
    metric: Metric
    mean: Value
    """Mean of the first judging over all answers, with the judge's noise in its interval."""
    repeatability: Repeatability


def repeated_scores(evaluations: Sequence[Evaluation]) -> list[Repeated]:
    """Return the scores with repeated judging: judged metrics, and other metrics that changed with a verdict."""
    repeated = []
    metrics_of = {evaluation.model: evaluation.metrics for evaluation in evaluations}
    for (setting, model), rows in by_setting(evaluations):
        for metric in metrics_of[model] if any(row.again for row in rows) else ():
            if _is_judged(metric, rows):
                estimate = estimate_of(rows, metric.name, metric.bounds)
                repeats = repeatability_of(rows, metric.name, estimate, metric.bounds)
                mean = repeats.widened(estimate.cell, estimate.standard_error, metric.bounds)
                repeated.append(Repeated(setting, model, metric, mean, repeats))
    return repeated


def _is_judged(metric: Metric, rows: Sequence[ScoredAnswer]) -> bool:
    """Return whether a score depends on judges, directly or through a judge's label of refusals that changed it."""
    if metric.name == _COVERAGE or metric.of_all is not None:
        return False
    moved = any(values.get(metric.name) != row.values.get(metric.name) for row in rows for values in row.again)
    return has_values(rows, metric.name) and (metric.needs_judges or moved)


def repeats_table(evaluations: Sequence[Evaluation]) -> list[Table]:
    """Return the results of repeated judging, one row per setting, model and metric. [] without repeated judging."""
    rows = tuple(_cells(score) for score in repeated_scores(evaluations))
    return [Table("Judged again", _COLUMNS, rows, _NOTE)] if rows else []


def _cells(score: Repeated) -> tuple[Cell, ...]:
    repeats = score.repeatability
    n = repeats.n_answers

    def value(number: float | None, low: float | None = None, high: float | None = None) -> Value:
        return Value(number, n, n, low, high)

    moves = value(*repeats.mean_move) if repeats.mean_move else value(None)
    again = f"{fixed(repeats.again[0])} to {fixed(repeats.again[1])}" if repeats.again else "-"
    return (
        *(score.setting, score.model, score.metric.name, score.mean),
        *(f"{repeats.n_judgings} times", n, repeats.n_clusters, value(repeats.identical), value(repeats.move)),
        *(value(repeats.own_share), moves, again, p_text(repeats.shift_p), _remark(repeats)),
    )


def _remark(repeats: Repeatability) -> str:
    shifts = f"complete judgings shift by up to {fixed(repeats.shift or 0.0)}" if repeats.shift_error else ""
    lost = f"{repeats.n_lost} more were not scored in every judging" if repeats.n_lost else ""
    return "; ".join(filter(None, (repeats.reason, shifts, lost)))


def verdict_lines(evaluations: Sequence[Evaluation]) -> Iterator[str]:
    """Yield a sentence for each warning about the verdicts."""
    yield from _constant_or_low(evaluations)
    yield from _served(evaluations)


def repeat_lines(evaluations: Sequence[Evaluation]) -> Iterator[str]:
    """Yield a sentence for each model and setting with repeated judging."""
    # A metric that ends in _raw has the same verdicts without conditioning. Only the table contains it.
    unconditioned = (score for score in repeated_scores(evaluations) if not score.metric.name.endswith("_raw"))
    for (model, setting), scores in grouped(unconditioned, lambda score: (score.model, score.setting)).items():
        texts = "; ".join(map(_moves, scores))
        yield f"Judged {scores[0].repeatability.n_judgings} times, {model} in {setting}: {texts}."


def _moves(score: Repeated) -> str:
    """Return the change of one score as a clause."""
    name, repeats = score.metric.name, score.repeatability
    answers = f"{repeats.n_answers} answers"
    if repeats.reason == EXACT:
        return f"{name} is identical on {answers}; other prompts, versions or judges may differ"
    if repeats.mean_move is None or repeats.identical is None:
        return f"{name} on {answers}: {repeats.reason}"
    opening = f"{name} is identical on {repeats.identical:.0%} of {answers}, "
    if not repeats.shift_error:
        return f"{opening}and the means of two judgings differ by about {fixed(repeats.mean_move[0])}"
    return f"{opening}and complete judgings shift by {fixed(repeats.shift or 0.0)} (p {p_text(repeats.shift_p)})"


_MIN_EQUAL = 20
"""Minimum number of equal verdicts for a warning."""
_DEGREES = ("rb_llm", "rl_f", "rl_r", "rl_mtb")
"""Rubrics with several degrees. Verdicts about refusals may be `no` for every answer without a problem."""
_RATINGS, _HALF = "rb_llm", 0.5


def _constant_or_low(evaluations: Sequence[Evaluation]) -> Iterator[str]:
    """Yield a line for each judge with one verdict for every response, then for each with low ratings only."""
    values: dict[tuple[str, str, str], list[float]] = {}
    for evaluation in evaluations:
        for row in evaluation.rows:
            for (rubric, judge), value in row.verdict_values.items():
                if value is not None:
                    values.setdefault((judge, rubric, evaluation.model), []).append(value)
    for (judge, rubric, model), numbers in values.items():
        if rubric in _DEGREES and len(numbers) >= _MIN_EQUAL and len(set(numbers)) == 1:
            yield (
                f"Always the same verdict: {judge} gave {fixed(numbers[0])} under {rubric} to all {len(numbers)} "
                f"answers of {model}: it does not distinguish answers."
            )
    for judge in dict.fromkeys(judge for judge, rubric, _ in values if rubric == _RATINGS):
        ratings = [value for key, numbers in values.items() if key[:2] == (judge, _RATINGS) for value in numbers]
        if len(ratings) >= _MIN_EQUAL and max(ratings) <= _HALF and len(set(ratings)) > 1:
            yield (
                f"Low ratings: {judge} gave none of {len(ratings)} answers more than 5 of 10 under {_RATINGS}: "
                "the answers are poor, or it rates from 1 to 5."
            )


def _served(evaluations: Sequence[Evaluation]) -> Iterator[str]:
    """Yield a line for each judge whose server named several models for the verdicts of one evaluation."""
    for evaluation in evaluations:
        counts: defaultdict[str, Counter[str]] = defaultdict(Counter)
        for judge, name in (served for row in evaluation.rows for served in row.served):
            counts[judge][name] += 1
        for judge, names in counts.items():
            if len(names) > 1:
                listed = ", ".join(f"{name} for {n} answers" for name, n in names.items())
                yield f"Judge changed: {judge} was served by several models on {evaluation.model}: {listed}."


# Anchors: the drift of each judge since its first time, and the smallest detectable drift.

_ANCHOR_COLUMNS = (
    *("judge", "rubric", "since", "anchors", "conversations"),
    *("then", "now", "difference", "p (Holm)", "detectable"),
)
_ANCHOR_NOTE = (
    "Anchors are the same answers every time. difference: now minus then, tested over conversations. p is corrected "
    "over the rubrics. detectable: the smallest drift that this many anchors detect with 80 % power."
)


def anchors_table(evaluations: Sequence[Evaluation]) -> list[Table]:
    """Return one row per judge and rubric with earlier verdicts. [] if no anchors were judged twice."""
    rows: dict[tuple[str, str, str], tuple[Cell, ...]] = {}
    for evaluation in evaluations:
        for judge, anchors in anchors_in(evaluation).items():
            if anchors.baseline is None:
                continue
            for drift in drift_of(anchors.baseline, anchors.now):
                difference, n = drift.difference, drift.difference.n_values
                if not n:
                    continue  # a rubric that applies to none of these answers
                then, now = (plain_mean(verdicts.values[drift.rubric]) for verdicts in (anchors.baseline, anchors.now))
                rows.setdefault(
                    (judge, drift.rubric, drift.after),
                    (
                        *(judge, drift.rubric, anchors.baseline.time[:16], n, difference.n_clusters, then, now),
                        Difference(difference.value, n, n, difference.low, difference.high),
                        "-" if drift.p is None else fixed(drift.p),
                        Value(detectable_difference(difference), n, n),
                    ),
                )
    return [Table("Anchors", _ANCHOR_COLUMNS, tuple(rows.values()), _ANCHOR_NOTE)] if rows else []


def anchor_lines(evaluations: Sequence[Evaluation]) -> Iterator[str]:
    """Yield a sentence for each judge that changed, by its verdicts or by the model that its server names."""
    lines: list[str] = []
    for evaluation in evaluations:
        anchors = anchors_in(evaluation)
        lines += drift_lines(
            [record.now for record in anchors.values()], {name: record.baseline for name, record in anchors.items()}
        )
        if evaluation.judge_drift:
            lines.append(
                f"Not comparable: judges changed before {evaluation.model} was scored: {evaluation.judge_drift}. "
                "`--recalibrate` maps its scores by the anchors."
            )
        if evaluation.recalibrated:
            lines.append(
                f"Recalibrated: scores of {evaluation.model} are mapped to the judge's earlier scale by the anchors, "
                f"{'; '.join(evaluation.recalibrated)}; intervals include the error of the mapping."
            )
    yield from dict.fromkeys(lines)

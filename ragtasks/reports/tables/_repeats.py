"""Stability of verdicts: answers that were judged several times, and anchors, which are judged every time."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from ragtasks.judges import drift_of
from ragtasks.metrics import Metric
from ragtasks.reports.tables._scores import by_setting, estimate_of, plain_mean, repeatability_of
from ragtasks.results import Evaluation, ScoredAnswer, anchors_in, drift_lines
from ragtasks.statistics import EXACT, Repeatability, detectable_difference
from ragtasks.tables import Cell, Difference, Table, Value, fixed, grouped, p_text

# The change of judged scores over repeated judgings, and judges with constant verdicts.

NOT_REPEATED = "without judges' noise between judgings: every verdict was asked once (`repeats`, docs/statistics.md)"
"""Remark on the intervals of a report with verdicts if no answer was judged again."""
_COVERAGE = "judge_coverage"
_NOTE = (
    "Some answers, whole conversations, were judged several times. identical: pairs of judgings of one answer with the "
    "same score; move: mean distance of the two. noise in interval: share of the mean's variance over conversations "
    "that is the judge's noise; its interval holds that already. mean moves by: expected distance of the means of two "
    "judgings of all answers. judged again: where one more judging of the same answers puts the mean in 95 of 100 "
    "cases. shift p: chance that the judgings' means differ so much by noise of single verdicts alone; at most 0.05: "
    "judgings shift as a whole, and all intervals of the score are widened by that (docs/statistics.md)."
)
_COLUMNS = (
    *("setting", "model", "metric", "mean", "judged", "answers", "conversations", "identical", "move"),
    *("noise in interval", "mean moves by", "judged again", "shift p", "what to know"),
)


@dataclass(frozen=True, slots=True)
class Repeated:
    """One judged score with several judgings of some answers."""

    setting: str
    model: str
    metric: Metric
    mean: Value
    """Mean of the first judging over all answers, with the judge's noise in its interval."""
    found: Repeatability


def repeated_scores(evaluations: Sequence[Evaluation]) -> list[Repeated]:
    """Return the scores with repeated judging: judged metrics, and other metrics that changed with a verdict."""
    found = []
    metrics_of = {item.model: item.metrics for item in evaluations}
    for (setting, model), rows in by_setting(evaluations):
        for metric in metrics_of[model] if any(row.again for row in rows) else ():
            if _is_judged(metric, rows):
                whole = estimate_of(rows, metric.name, metric.bounds)
                repeats = repeatability_of(rows, metric.name, whole, metric.bounds)
                mean = repeats.widened(whole.cell, whole.standard_error, metric.bounds)
                found.append(Repeated(setting, model, metric, mean, repeats))
    return found


def _is_judged(metric: Metric, rows: Sequence[ScoredAnswer]) -> bool:
    """Return whether a score depends on judges, directly or through a judge's label of refusals that changed it."""
    if metric.name == _COVERAGE or metric.aggregate is not None:
        return False
    given = any(row.values.get(metric.name) is not None for row in rows)
    moved = any(values.get(metric.name) != row.values.get(metric.name) for row in rows for values in row.again)
    return given and (metric.needs_judges or moved)


def repeats_table(evaluations: Sequence[Evaluation]) -> list[Table]:
    """Return the results of repeated judging, one row per setting, model and metric. [] without repeated judging."""
    rows = tuple(_cells(item) for item in repeated_scores(evaluations))
    return [Table("Judged again", _COLUMNS, rows, _NOTE)] if rows else []


def _cells(item: Repeated) -> tuple[Cell, ...]:
    found = item.found
    n = found.n_answers

    def value(number: float | None, low: float | None = None, high: float | None = None) -> Value:
        return Value(number, n, n, low, high)

    moves = value(*found.mean_move) if found.mean_move else value(None)
    again = f"{fixed(found.again[0])} to {fixed(found.again[1])}" if found.again else "-"
    return (
        *(item.setting, item.model, item.metric.name, item.mean),
        *(f"{found.n_judgings} times", n, found.n_clusters, value(found.identical), value(found.move)),
        *(value(found.own_share), moves, again, p_text(found.shift_p), _remark(found)),
    )


def _remark(found: Repeatability) -> str:
    shifts = f"judgings shift as a whole, by up to {fixed(found.shift or 0.0)}" if found.shift_error else ""
    lost = f"{found.n_lost} more were not scored each time" if found.n_lost else ""
    return "; ".join(filter(None, (found.reason, shifts, lost)))


def verdict_lines(evaluations: Sequence[Evaluation]) -> Iterator[str]:
    """Yield a sentence for each warning about the verdicts."""
    yield from _constant_or_low(evaluations)
    yield from _served(evaluations)


def repeat_lines(evaluations: Sequence[Evaluation]) -> Iterator[str]:
    """Yield a sentence for each model and setting with repeated judging."""
    # A metric that ends in _raw has the same verdicts without conditioning. Only the table contains it.
    shown = (item for item in repeated_scores(evaluations) if not item.metric.name.endswith("_raw"))
    for (model, setting), items in grouped(shown, lambda item: (item.model, item.setting)).items():
        texts = "; ".join(map(_moves, items))
        yield f"Judged {items[0].found.n_judgings} times, {model} in {setting}: {texts}."


def _moves(item: Repeated) -> str:
    """Return the change of one score as a part of a sentence."""
    name, found = item.metric.name, item.found
    answers = f"{found.n_answers} answers"
    if found.reason == EXACT:
        return f"{name} is the same each time on {answers}, which says nothing of another prompt, version or judge"
    if found.mean_move is None or found.identical is None:
        return f"{name} on {answers}: {found.reason}"
    moves = f"{name} is the same on {found.identical:.0%} of {answers}, "
    if not found.shift_error:
        return f"{moves}and two judgings of all differ by about {fixed(found.mean_move[0])}"
    return f"{moves}and whole judgings shift by {fixed(found.shift or 0.0)} (p {p_text(found.shift_p)})"


_FEWEST_ALIKE = 20
"""Minimum number of equal verdicts for a warning."""
_DEGREES = ("rb_llm", "rl_f", "rl_r", "rl_mtb")
"""Rubrics with several degrees. Verdicts about refusals may be `no` for every answer without a fault."""
_RATINGS, _HALF = "rb_llm", 0.5


def _constant_or_low(evaluations: Sequence[Evaluation]) -> Iterator[str]:
    """Yield a line for each judge with the same verdict for every response under a rubric of degrees.

    Then yield a line for each judge whose ratings are all in the lower half of the scale, as on a scale of 1 to 5.
    """
    values: dict[tuple[str, str, str], list[float]] = {}
    for item in evaluations:
        for row in item.rows:
            for (rubric, judge), value in row.verdict_values.items():
                if value is not None:
                    values.setdefault((judge, rubric, item.model), []).append(value)
    for (judge, rubric, model), given in values.items():
        if rubric in _DEGREES and len(given) >= _FEWEST_ALIKE and len(set(given)) == 1:
            yield (
                f"Always the same verdict: {judge} gave {fixed(given[0])} under {rubric} to all {len(given)} answers "
                f"of {model}: it tells nothing apart."
            )
    for judge in dict.fromkeys(judge for judge, rubric, _ in values if rubric == _RATINGS):
        ratings = [value for key, given in values.items() if key[:2] == (judge, _RATINGS) for value in given]
        if len(ratings) >= _FEWEST_ALIKE and max(ratings) <= _HALF and len(set(ratings)) > 1:
            yield (
                f"Low ratings: {judge} gave none of {len(ratings)} answers more than 5 of 10 under {_RATINGS}: "
                "these are poor answers, or it rates from 1 to 5."
            )


def _served(evaluations: Sequence[Evaluation]) -> Iterator[str]:
    """Yield a line for each judge whose server named several models for the verdicts of one evaluation."""
    for item in evaluations:
        counts: defaultdict[str, Counter[str]] = defaultdict(Counter)
        for judge, name in (served for row in item.rows for served in row.served):
            counts[judge][name] += 1
        for judge, names in counts.items():
            if len(names) > 1:
                listed = ", ".join(f"{name} for {n} answers" for name, n in names.items())
                yield f"Judge changed: {judge} was served by several models on {item.model}: {listed}."


# Anchors: the drift of each judge since its first time, and the smallest detectable drift.

_ANCHOR_COLUMNS = (
    *("judge", "rubric", "since", "anchors", "conversations"),
    *("then", "now", "difference", "p (Holm)", "detectable"),
)
_ANCHOR_NOTE = (
    "Anchors are the same answers each time. difference: now less then, tested over conversations; p is corrected over "
    "the rubrics; detectable: the smallest drift that so many anchors show four times out of five."
)


def anchors_table(evaluations: Sequence[Evaluation]) -> list[Table]:
    """Return one row per judge and rubric with earlier verdicts. [] if no anchors were judged twice."""
    rows: dict[tuple[str, str, str], tuple[Cell, ...]] = {}
    for evaluation in evaluations:
        for judge, found in anchors_in(evaluation).items():
            if found.baseline is None:
                continue
            for item in drift_of(found.baseline, found.now):
                gap, n = item.difference, item.difference.n_values
                if not n:
                    continue  # a rubric that applies to none of these answers
                then, now = (plain_mean(one.values[item.rubric]) for one in (found.baseline, found.now))
                rows.setdefault(
                    (judge, item.rubric, item.after),
                    (
                        *(judge, item.rubric, found.baseline.time[:16], n, gap.n_clusters, then, now),
                        Difference(gap.value, n, n, gap.low, gap.high),
                        "-" if item.p is None else fixed(item.p),
                        Value(detectable_difference(gap), n, n),
                    ),
                )
    return [Table("Anchors", _ANCHOR_COLUMNS, tuple(rows.values()), _ANCHOR_NOTE)] if rows else []


def anchor_lines(evaluations: Sequence[Evaluation]) -> Iterator[str]:
    """Yield a sentence for each judge that changed, by its verdicts or by the model that its server names."""
    lines: list[str] = []
    for evaluation in evaluations:
        found = anchors_in(evaluation)
        lines += drift_lines(
            [item.now for item in found.values()], {name: item.baseline for name, item in found.items()}
        )
        if evaluation.judge_drift:
            lines.append(
                f"Apart: judges changed before {evaluation.model} was scored: {evaluation.judge_drift}. "
                "`--recalibrate` maps its scores by the anchors."
            )
        if evaluation.recalibrated:
            lines.append(
                f"Recalibrated: scores of {evaluation.model} are mapped on the judge's earlier scale by the anchors, "
                f"{'; '.join(evaluation.recalibrated)}; intervals hold the map's error."
            )
    yield from dict.fromkeys(lines)

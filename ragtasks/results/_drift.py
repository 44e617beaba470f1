"""Evaluations whose judges changed between them: their scores do not compare, whatever the judges are called.

Results hold what each judge said of the anchors at their time, so two of them are enough to see that a judge moved.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from statistics import median

from ragtasks.errors import ConfigurationError
from ragtasks.judges import (
    CLARIFICATION,
    IDK,
    PREDICTED,
    AnchorVerdicts,
    Drift,
    Recalibration,
    comparable,
    drift_of,
    recalibration_of,
)
from ragtasks.results._evaluations import Evaluation
from ragtasks.results._rows import Row
from ragtasks.results._saved import value_at

DRIFT = "drift"
"""How the reason begins by which a judge is not anchored because it moved."""
_SAME = 1e-6
_NOT_MAPPED = "its judge changed, and a combination holds for the judge that it was fitted with"


@dataclass(frozen=True, slots=True)
class JudgeAnchors:
    """One judge's verdicts on the anchors, as the results of an evaluation hold them."""

    now: AnchorVerdicts
    """Asked beside the evaluation."""
    baseline: AnchorVerdicts | None
    """The first time on that machine; None where this was it."""


def anchors_in(evaluation: Evaluation) -> dict[str, JudgeAnchors]:
    """Return judge -> what it said of the anchors; {} where none were asked."""
    found: dict[str, JudgeAnchors] = {}
    for provenance in evaluation.provenance.values():
        saved = value_at(provenance, "scoring", "anchors", "judges")
        for item in saved if isinstance(saved, list) else []:
            now = AnchorVerdicts.of_json(item)
            if now is not None:
                found.setdefault(now.judge, JudgeAnchors(now, AnchorVerdicts.of_json(item.get("baseline"))))
    return found


def _drift_between(first: Evaluation, second: Evaluation) -> list[Drift] | None:
    """Return how far the judges of both moved from one to the other; None without the same anchors in both."""
    before, after = anchors_in(first), anchors_in(second)
    shared = [name for name in before if name in after and comparable(before[name].now, after[name].now)]
    if not shared:
        return None
    return [item for name in shared for item in drift_of(before[name].now, after[name].now)]


def with_drift(evaluations: Sequence[Evaluation]) -> list[Evaluation]:
    """Return the evaluations in order, those that judges scored after a change with what shows it.

    Each is held against the first one, and against the first of each state that was found since; the more there are,
    the stricter the test, so that one changed judge among many evaluations is not found by chance.
    """
    n_times = len({record.now.time for item in evaluations for record in anchors_in(item).values()})
    firsts: list[Evaluation] = []
    found = []
    for item in evaluations:
        if item.recalibrated:
            found.append(item)
            continue
        held = [(first, drifts) for first in firsts if (drifts := _drift_between(first, item)) is not None]
        moves = [(first, list(_moved(drifts, n_times))) for first, drifts in held]
        alike = next((first for first, moved in moves if not moved), None)
        drift = alike.judge_drift if alike else _text(*moves[0]) if moves else ""
        found.append(replace(item, judge_drift=drift))
        if alike is None and anchors_in(item):
            firsts.append(found[-1])
    return found


def _text(first: Evaluation, moved: Sequence[str]) -> str:
    times = {record.now.time for record in anchors_in(first).values()}
    return f"{', '.join(moved)} since {first.model} of {min(times)[:16]}"


def _moved(drifts: Sequence[Drift], n_times: int) -> Iterator[str]:
    for item in drifts:
        if item.is_drift_among(max(1, n_times - 1)):
            yield f"{item.judge}: {item.text}"


def why_not_anchored(records: Sequence[JudgeAnchors | None]) -> str:
    """Return why one judge's scores of several evaluations cannot be relied on to be alike; empty where they can.

    A judge is anchored when all of the evaluations asked the same anchors, and none shows drift: neither since the
    first time on its machine, nor between the evaluations.

    Args:
        records: what each evaluation says of the judge, at least one; None where no anchors were asked.
    """
    given = [record for record in records if record is not None]
    if len(given) < len(records):
        return "no anchors were asked"
    first = given[0].now
    pairs = [(record.baseline, record.now) for record in given if record.baseline is not None]
    pairs += [(first, record.now) for record in given[1:] if record.now != first]
    for before, after in pairs:
        if not comparable(before, after):
            return "other anchors, or other words, were asked"
        if moved := [item.text for item in drift_of(before, after) if item.is_drift]:
            return f"{DRIFT} since {before.time[:16]}: {', '.join(moved)}"
    return ""


# Recalibrated: the scores of a judge that changed, on the scale of its earlier verdicts.


def recalibrated(evaluations: Sequence[Evaluation]) -> list[Evaluation]:
    """Return the evaluations in order, those after a judge changed with its scores mapped by the anchors.

    The scores of the rubrics that drifted are put on the scale of the first evaluation with the same anchors; what
    those scores are not made of stays. Scores lie beyond their scale where the line leads there, so that means have no
    bias.

    Raises:
        ConfigurationError: a judge drifted so that no line says what it would have said.
    """
    found = []
    for item in with_drift(evaluations):
        firsts = (other for other in evaluations if _drift_between(other, item) is not None)
        found.append(_mapped(next(firsts), item) if item.judge_drift else item)
    return found


def _mapped(first: Evaluation, item: Evaluation) -> Evaluation:
    rows, lines = mapped_rows(item.rows, anchors_in(first), anchors_in(item), item.model)
    return replace(item, rows=rows, judge_drift="", recalibrated=tuple(line.text for line in lines))


def mapped_rows(
    rows: Sequence[Row], before: Mapping[str, JudgeAnchors], now: Mapping[str, JudgeAnchors], model: str
) -> tuple[tuple[Row, ...], list[Recalibration]]:
    """Return rows with what judges that changed gave mapped on their scale before, and the lines that do it.

    Raises:
        ConfigurationError: a judge drifted so that no line says what it would have said.
    """
    shared = [name for name in now if name in before and comparable(before[name].now, now[name].now)]
    drifts = [item for name in shared for item in drift_of(before[name].now, now[name].now) if item.is_drift]
    lines = [_line_of(item, before[item.judge].now, now[item.judge].now, model) for item in drifts]
    by_place = {(line.rubric, line.judge): line for line in lines}
    return tuple(_mapped_row(row, by_place) for row in rows), lines


def _line_of(drift: Drift, before: AnchorVerdicts, now: AnchorVerdicts, model: str) -> Recalibration:
    found = (
        "refusals are no numbers, and scores are conditioned on them"
        if drift.rubric in {IDK, CLARIFICATION}
        else recalibration_of(before, now, drift.rubric)
    )
    if isinstance(found, str):
        raise ConfigurationError(
            "--recalibrate",
            where=f"{model}, judged by {drift.judge}",
            expected=f"anchors that say what its {drift.rubric} would have been at {drift.before[:16]}",
            found=found,
            next_step="leave it out: the results then stand apart; or have all of them judged again",
        )
    return found


def _mapped_row(row: Row, maps: Mapping[tuple[str, str], Recalibration]) -> Row:
    """Return a row with the verdicts mapped, and the scores that are their median over judges."""
    verdicts, values, moves = dict(row.verdicts), dict(row.values), {}
    for rubric in dict.fromkeys(rubric for rubric, _ in maps):
        given = {judge: value for (name, judge), value in row.verdicts.items() if name == rubric and value is not None}
        if not given:
            continue
        lines = {judge: maps.get((rubric, judge)) for judge in given}
        mapped = {judge: line.of(given[judge]) if line else given[judge] for judge, line in lines.items()}
        verdicts |= {(rubric, judge): value for judge, value in mapped.items()}
        before, now = median(given.values()), median(mapped.values())
        # A score that a refusal decides is no verdict, and stays.
        for name in (rubric, f"{rubric}_raw"):
            if (value := values.get(name)) is not None and abs(value - before) < _SAME:
                values[name], moves[name] = now, _moves_of(given, mapped, lines)
    predicted = [name for name in values if moves and name.startswith(PREDICTED)]
    return replace(
        row,
        verdicts=verdicts,
        values=values | dict.fromkeys(predicted),
        unscored={**row.unscored, **dict.fromkeys(predicted, _NOT_MAPPED)},
        moves=moves,
        again=(),
    )


def _moves_of(
    given: Mapping[str, float], mapped: Mapping[str, float], lines: Mapping[str, Recalibration | None]
) -> tuple[float, ...]:
    """Return how far the median over judges moves: as the verdict, or the two, that it is."""
    order = sorted(mapped, key=lambda judge: mapped[judge])
    middle = (order[(len(order) - 1) // 2], order[len(order) // 2])
    moves = [line.moves(given[judge]) for judge in middle if (line := lines[judge]) is not None]
    return tuple(sum(column) / len(middle) for column in zip(*moves, strict=True))

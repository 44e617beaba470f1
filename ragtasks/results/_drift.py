"""Evaluations whose judges changed between them: their scores do not compare, whatever the judges are called.

Results hold what each judge said of the anchors at their time, so two of them are enough to see that a judge moved.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from ragtasks.judges import AnchorVerdicts, Drift, comparable, drift_of
from ragtasks.results._evaluations import Evaluation
from ragtasks.results._saved import value_at
from ragtasks.statistics import LEVEL

DRIFT = "drift"
"""How the reason begins by which a judge is not anchored because it moved."""


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
        if item.p is not None and item.p <= LEVEL / max(1, n_times - 1):
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

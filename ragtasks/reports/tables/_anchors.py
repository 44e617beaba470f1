"""What the anchors say of each judge: how far it moved since its first time, and what would have been found."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from ragtasks.judges import drift_of
from ragtasks.results import Evaluation, anchors_in
from ragtasks.scoring import drift_lines
from ragtasks.statistics import detectable_difference
from ragtasks.tables import Cell, Difference, Table, Value, fixed

_COLUMNS = (
    "judge",
    "rubric",
    "since",
    "anchors",
    "conversations",
    "then",
    "now",
    "difference",
    "p (Holm)",
    "detectable",
)
_NOTE = (
    "Anchors are the same answers each time. difference: now less then, tested over conversations; p is corrected over "
    "the rubrics; detectable: the smallest drift that so many anchors show four times out of five."
)


def anchors_table(evaluations: Sequence[Evaluation]) -> list[Table]:
    """Return a row a judge and rubric that was asked before; none where no anchors were asked twice."""
    rows: dict[tuple[str, str, str], tuple[Cell, ...]] = {}
    for evaluation in evaluations:
        for judge, found in anchors_in(evaluation).items():
            if found.baseline is None:
                continue
            for item in drift_of(found.baseline, found.now):
                gap, n = item.difference, item.difference.n_values
                if not n:
                    continue  # a rubric that asks none of these answers
                then, now = (_mean(one.values[item.rubric]) for one in (found.baseline, found.now))
                rows.setdefault(
                    (judge, item.rubric, item.after),
                    (
                        *(judge, item.rubric, found.baseline.time[:16], n, gap.n_clusters, then, now),
                        Difference(gap.value, n, n, gap.low, gap.high),
                        "-" if item.p is None else fixed(item.p),
                        Value(detectable_difference(gap), n, n),
                    ),
                )
    return [Table("Anchors", _COLUMNS, tuple(rows.values()), _NOTE)] if rows else []


def _mean(values: Sequence[float | None]) -> Value:
    given = [value for value in values if value is not None]
    return Value(sum(given) / len(given) if given else None, len(given), len(values))


def anchor_lines(evaluations: Sequence[Evaluation]) -> Iterator[str]:
    """Yield a sentence for each judge that changed, by its verdicts or by what its server names."""
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

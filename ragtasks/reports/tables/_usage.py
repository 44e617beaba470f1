"""Quality against cost: usage and quality of answers, and the systems that no other system beats in both.

The table contains only counts of the server, the file of answers or the traces. Without any counts there is no table.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

from ragtasks.clients import AMOUNTS, Spent
from ragtasks.metrics import Metric
from ragtasks.reports.tables._scores import by_setting, column_of, has_values, metric_columns
from ragtasks.results import MODEL, USAGE_METRICS, Evaluation, ScoredAnswer
from ragtasks.statistics import LEVEL, Column, compare_columns, estimate_quantile, estimate_ratio
from ragtasks.tables import Cell, Table, Value, table_of

TITLE = "Quality against cost"
"""Title of the table."""
FRONT = "front"
"""Head of the last column: the system's position relative to the front of quality against cost."""
ON_FRONT, UNSURE = "on it", "not significantly beaten"
COSTS = ("cost_per_1000", "tokens", "seconds")
"""Possible costs of the front. The first that all systems of a setting have is used."""

_SHARE = 0.95
_WITH_QUANTILE = ("seconds", "first_token_seconds", "tokens")
_AMOUNTS = (
    *("seconds", "first_token_seconds", "retriever_seconds", "tokens", "input_tokens", "output_tokens"),
    *("cached_tokens", "cost_per_1000", "judge_tokens", "judge_cost_per_1000"),
)
METRICS = {metric.name: metric for metric in USAGE_METRICS}
_NOTE = (
    "Means per answer with 95 % intervals over conversations. p95: 95 % of answers take at most this amount. Amounts "
    "are counts of the server, the file or the traces and are never estimated. A cost requires a price."
)


_System = tuple[str, str]
"""Setting and model."""
_Rows = Sequence[ScoredAnswer]


def usage_table(evaluations: Sequence[Evaluation], quality: Metric | None) -> list[Table]:
    """Return the table of quality against cost, or [] without counts."""
    systems = dict(by_setting(evaluations))
    legend = [line for evaluation in evaluations for line in _spending_lines(evaluation)]
    counted = {system: rows for system, rows in systems.items() if any(has_values(rows, name) for name in METRICS)}
    systems = counted or (systems if legend else {})
    if not systems:
        return []
    fronts = _fronts(systems, quality) if quality else {}
    columns = _columns(list(systems.values()), quality)
    if fronts and quality:
        cost = sorted({name for name, _ in fronts.values()}, key=COSTS.index)
        criterion = f"no other system is better in {quality.name} or {' or '.join(cost)} and worse in neither"
        legend.insert(0, f"on it: {criterion}; {_SURE}")
    table = replace(table_of(TITLE, ("setting", "model"), systems.items(), columns, _NOTE), legend=tuple(legend))
    if fronts:
        positions = (fronts.get(system, ("", "-"))[1] for system in systems)
        rows = tuple((*row, position) for row, position in zip(table.rows, positions, strict=True))
        table = replace(table, columns=(*table.columns, FRONT), rows=rows)
    return [table]


_SURE = (
    "beaten: another system is significantly better in both (Holm over all pairs); not significantly beaten: at least "
    "one difference is not significant."
)


def _columns(systems: Sequence[_Rows], quality: Metric | None) -> dict[str, Callable[[_Rows], Cell]]:
    """Return the columns: quality, the amounts of any system, p95 of some amounts, and quality per token."""
    columns = metric_columns([quality.name], {quality.name: quality}) if quality else {}
    for name in _AMOUNTS:
        if any(has_values(rows, name) for rows in systems):
            columns |= metric_columns([name], METRICS)
            if name in _WITH_QUANTILE:
                columns[f"{name} p95"] = partial(_p95, name=name)
    both = [rows for rows in systems if quality and has_values(rows, "tokens") and has_values(rows, quality.name)]
    if quality and both and quality.bounds[0] >= 0:
        columns[f"{quality.name} per 1,000 tokens"] = partial(_per_tokens, name=quality.name)
    return columns


def _p95(rows: _Rows, name: str) -> Value:
    return estimate_quantile([row.values.get(name) for row in rows], [row.task.conversation_id for row in rows], _SHARE)


def _per_tokens(rows: _Rows, name: str) -> Value:
    thousands = [None if (n := row.values.get("tokens")) is None else n / 1000 for row in rows]
    return estimate_ratio([row.values.get(name) for row in rows], thousands, [row.task.conversation_id for row in rows])


# The front: systems of one setting in pairs, on the answers that both scored, as in every comparison of systems.


def _fronts(systems: Mapping[_System, _Rows], quality: Metric) -> dict[_System, tuple[str, str]]:
    """Return system -> (its cost, its position). Settings whose systems share no cost are left out."""
    fronts: dict[_System, tuple[str, str]] = {}
    for setting in dict.fromkeys(name for name, _ in systems):
        members = [system for system in systems if system[0] == setting and has_values(systems[system], quality.name)]
        cost = next((name for name in COSTS if all(has_values(systems[system], name) for system in members)), None)
        if cost is None or len(members) < 2 or quality.higher_is_better is None:
            continue
        columns = [
            [column_of(systems[system], metric, system[1]) for system in members] for metric in (quality, METRICS[cost])
        ]
        fronts |= {system: (cost, text) for system, text in zip(members, front_of(*columns), strict=True)}
    return fronts


def front_of(quality: Sequence[Column], cost: Sequence[Column]) -> list[str]:
    """Return the position of each system: `ON_FRONT`, `UNSURE`, or the systems that significantly beat it in both."""
    better, cheaper = _advantages(quality), _advantages(cost)
    positions = []
    for index in range(len(quality)):
        both = {other: (better[other, index], cheaper[other, index]) for other in range(len(quality)) if other != index}
        # Others beat a system if they are better in one measure and not worse in the other.
        beating = [other for other, ((a, _), (b, _)) in both.items() if min(a, b) >= 0 and max(a, b) > 0]
        sure = [quality[other].name for other in beating if all(is_sure for _, is_sure in both[other])]
        positions.append(f"beaten by {', '.join(sure)}" if sure else UNSURE if beating else ON_FRONT)
    return positions


def _advantages(columns: Sequence[Column]) -> dict[tuple[int, int], tuple[float, bool]]:
    """Return indices of two columns -> the advantage of the first, and whether it is significant."""
    advantages = {}
    sign = 1 if columns[0].higher_is_better else -1
    for pair in compare_columns([replace(column, name=str(index)) for index, column in enumerate(columns)]).pairs:
        first, second = int(pair.first.name), int(pair.second.name)
        value, is_sure = sign * (pair.difference.value or 0.0), pair.adjusted_p is not None and pair.adjusted_p <= LEVEL
        advantages[second, first] = value, is_sure and value > 0
        advantages[first, second] = -value, is_sure and value < 0
    return advantages


# Spending for all purposes: sums of the servers' own counts.


def _spending_lines(evaluation: Evaluation) -> Iterator[str]:
    """Yield a line per model and judge with its total usage, failed replies apart, then a line with the total."""
    usage: dict[str, list[Mapping[str, Any]]] = {}
    for row in evaluation.rows:
        for name, calls in row.spending.items():
            label = f"{evaluation.model} in {row.setting}"
            usage.setdefault(label if name == MODEL else f"{label}, {name}", []).extend(calls)
    usage |= {f"{evaluation.model}, {name}": calls for name, calls in evaluation.spending.items()}
    lines = {label: line for label, calls in usage.items() if (line := spending_line(calls))}
    yield from (f"{label}: {line}" for label, line in lines.items())
    if len(lines) > 1:
        yield f"{evaluation.model}, total: {spending_line([call for calls in usage.values() for call in calls])}"


def spending_line(calls: Sequence[Mapping[str, Any]]) -> str:
    """Return the total usage in words: spent now, on unusable replies, and before. Shared replies cost nothing."""
    unshared = [call for call in calls if call.get("spent") != Spent.SHARED.value]
    counted = [call for call in unshared if any(name in call for name in AMOUNTS)]
    groups = {
        "spent": [call for call in counted if "spent" not in call],
        "spent before (cached)": [call for call in counted if "spent" in call],
        "of these, unusable replies": [call for call in counted if not call.get("is_used", True)],
    }
    n_lost = sum(_n(call) for call in unshared if call not in counted)
    requests = "1 request that was" if n_lost == 1 else f"{n_lost:,} requests that were"
    lost = [f"unknown: {requests} interrupted when a process ended"] if n_lost else []
    return "; ".join([*(f"{words} {_amounts(group)}" for words, group in groups.items() if group), *lost])


def _amounts(calls: Sequence[Mapping[str, Any]]) -> str:
    n_input, n_output = (sum(call.get(key, 0) for call in calls) for key in ("input_tokens", "output_tokens"))
    cost = [call["dollars"] for call in calls if "dollars" in call]
    seconds = [call["seconds"] for call in calls if "seconds" in call]
    time = f", {math.fsum(seconds):,.1f} s" if seconds else ""
    money = f", ${math.fsum(cost):.4f}" if len(cost) == len(calls) else ""
    n = sum(map(_n, calls))
    tokens = f"{n_input:,} + {n_output:,} tokens in " if any("input_tokens" in call for call in calls) else ""
    return f"{tokens}{n:,} {'reply' if n == 1 else 'replies'}{time}{money}"


def _n(call: Mapping[str, Any]) -> int:
    return int(call.get("n", 1))

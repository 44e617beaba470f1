"""Tables for people: settings side by side, then one metric by every dimension of the benchmark.

Evaluations on other data, with another encoder or another IDK detector never share a table. Every mean that leaves a
response out says how many it covers.
"""

from __future__ import annotations

import io
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from rich import box
from rich.console import Console
from rich.table import Table

from ragtasks.errors import ConfigurationError, close_matches
from ragtasks.records import Setting
from ragtasks.reports.results import Evaluation, Row

_SETTINGS = tuple(setting.value for setting in Setting)
_OVERVIEW = ("rl_f", "rb_llm", "rb_alg", "rb_alg_raw", "rb_alg_ibm", "ans_acc", "rouge_l", "coverage", "judge_coverage")
_WIDTH = 1_000_000  # Markdown is for files: nothing is wrapped or cut to fit a screen


@dataclass(frozen=True, slots=True)
class _Slice:
    """A part of the tasks: one value of one dimension."""

    dimension: str
    """Such as `domain`."""
    value: str
    """Such as `fiqa`."""
    holds: Callable[[Row], bool]
    """Whether a row belongs to it."""


def render_report(evaluations: Sequence[Evaluation], metric: str = "rb_alg") -> str:
    """Return the report as Markdown tables: one part for each kind of evaluation.

    Args:
        evaluations: as from `read_evaluations`.
        metric: what the tables by dimension show.

    Raises:
        ConfigurationError: unknown metric.
    """
    known = {item.name: item for evaluation in evaluations for item in evaluation.metrics}
    if metric not in known:
        raise ConfigurationError(f"unknown metric {metric!r}: {close_matches(metric, known)}")
    console = Console(file=io.StringIO(), width=_WIDTH, color_system=None, markup=False, emoji=False)
    for kind in sorted({evaluation.kind for evaluation in evaluations}):
        group = [evaluation for evaluation in evaluations if evaluation.kind == kind]
        for part in _part(group, metric):
            console.print(part)
    output = console.file
    assert isinstance(output, io.StringIO)
    return "\n".join(line.rstrip() for line in output.getvalue().splitlines())


def _part(evaluations: Sequence[Evaluation], metric: str) -> Iterator[Table | str]:
    benchmark, encoder, detector = evaluations[0].kind
    yield f"# {benchmark}\n\nencoder of BERTScore: {encoder}; IDK detector: {detector}"
    yield "profiles: rb_alg and ans_acc follow the paper, rb_alg_ibm the official scripts\n"
    yield from _overview(evaluations)
    description = next((item.description for item in evaluations[0].metrics if item.name == metric), "")
    for setting in _SETTINGS:
        if any(row.setting == setting for evaluation in evaluations for row in evaluation.rows):
            yield f"\n## {metric} in setting {setting}\n\n{description}\n"
            yield _dimension_table(evaluations, setting, metric)


def _overview(evaluations: Sequence[Evaluation]) -> Iterator[Table | str]:
    """Yield the settings side by side, on all their tasks and on those that all of them share (paper, Table 5)."""
    yield "## By setting\n"
    yield _overview_table(evaluations, None)
    common = _common_tasks(evaluations)
    if common is not None:
        yield f"\n## By setting, on the {len(common)} tasks that the settings share\n"
        yield _overview_table(evaluations, common)


def _common_tasks(evaluations: Sequence[Evaluation]) -> frozenset[str] | None:
    """Return the tasks that every evaluated setting has, None where there is only one setting."""
    sets = {
        setting: frozenset(r.task_id for e in evaluations for r in e.rows if r.setting == setting)
        for setting in _SETTINGS
    }
    present = [tasks for tasks in sets.values() if tasks]
    return frozenset.intersection(*present) if len(present) > 1 else None


def _overview_table(evaluations: Sequence[Evaluation], only: frozenset[str] | None) -> Table:
    shown = [name for name in _OVERVIEW if any(name in row.values for e in evaluations for row in e.rows)]
    table = _table("setting", "model", "n", *shown)
    for setting in _SETTINGS:
        for evaluation in evaluations:
            rows = [r for r in evaluation.rows if r.setting == setting and (only is None or r.task_id in only)]
            if rows:
                table.add_row(setting, evaluation.model, str(len(rows)), *(_cell(rows, name) for name in shown))
    return table


def _dimension_table(evaluations: Sequence[Evaluation], setting: str, metric: str) -> Table:
    rows_of = [[row for row in evaluation.rows if row.setting == setting] for evaluation in evaluations]
    chosen = [(evaluation, rows) for evaluation, rows in zip(evaluations, rows_of, strict=True) if rows]
    table = _table("dimension", "value", "n", *(evaluation.model for evaluation, _ in chosen))
    for part in _slices([row for _, rows in chosen for row in rows]):
        parts = [[row for row in rows if part.holds(row)] for _, rows in chosen]
        n = max(len(rows) for rows in parts)
        table.add_row(part.dimension, part.value, str(n), *(_cell(rows, metric) for rows in parts))
    return table


def _slices(rows: Sequence[Row]) -> Iterator[_Slice]:
    """Yield every slice that the rows have, by the dimensions of the paper's Table 16 and Figures 9 and 10."""
    yield _Slice("all", "", lambda _: True)
    yield from _labelled("answerability", rows, lambda row: (row.answerability,))
    yield _Slice("turn", "first", lambda row: row.turn == 1)
    yield _Slice("turn", "later", lambda row: row.turn > 1)
    yield from _labelled("domain", rows, lambda row: (row.domain,))
    yield from _labelled("question type", rows, lambda row: row.question_types)
    yield from _labelled("multi-turn type", rows, lambda row: (row.multi_turn,))


def _labelled(dimension: str, rows: Sequence[Row], labels: Callable[[Row], tuple[str, ...]]) -> Iterator[_Slice]:
    """Yield one slice for each label; a row with several labels is in several."""

    def having(label: str) -> _Slice:
        return _Slice(dimension, label, lambda row: label in labels(row))

    yield from (having(label) for label in sorted({label for row in rows for label in labels(row)}))


def _cell(rows: Sequence[Row], metric: str) -> str:
    """Return a mean over the scored rows, with the coverage where a row is not scored; a dash where none is."""
    scored = [value for row in rows if (value := row.values.get(metric)) is not None]
    if not scored:
        return "-"
    mean = f"{sum(scored) / len(scored):.3f}"
    return mean if len(scored) == len(rows) else f"{mean} ({len(scored)}/{len(rows)})"


def _table(*headers: str) -> Table:
    table = Table(box=box.MARKDOWN)
    for index, header in enumerate(headers):
        table.add_column(header, justify="left" if index < 2 else "right", no_wrap=True)
    return table


__all__ = ["render_report"]

"""Evaluations compared in pairs."""

from __future__ import annotations

import csv
import io
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from ragtasks.errors import ConfigurationError, close_matches
from ragtasks.records import Setting
from ragtasks.reports.tables import missing_from
from ragtasks.results import Evaluation, Row, comparable_evaluations, heading, request_differences, scored_on
from ragtasks.statistics import Column, Comparison, Comparisons, Estimate, Mean, compare_columns
from ragtasks.suites import suite_named
from ragtasks.tables import csv_text, fixed, markdown_table, plain

# Evaluations compared in pairs: models in each setting, or the settings of each model.
# Only evaluations that were scored alike are compared (data and its version, encoder, IDK detector, judges); others
# stand in sections of their own. Where they were asked otherwise (prompts, answer length), the heading says whose.
# Items are tasks, and their clusters are the conversations that they were cut from.

MODEL, SETTING = "model", "setting"
PAPER_METRICS = ("rl_f", "rb_llm", "rb_alg", "ans_acc")
"""What is compared where nothing is named: the scores of the MTRAG paper's Table 5 that the evaluations have."""

_ORDER = {setting.value: place for place, setting in enumerate(Setting)}


@dataclass(frozen=True, slots=True)
class _Part:
    """The rows of one model in one setting."""

    context: str
    """What they were scored on and with, and what else differs from the rows that they are compared with."""
    suite: str
    """Name of the suite of metrics."""
    setting: str
    model: str
    """Name for the tables."""
    rows: Mapping[str, Row]
    """Task id -> row."""
    n_tasks: int | None
    """Tasks that the setting has, where these are fewer."""


def compare_evaluations(
    evaluations: Sequence[Evaluation], *, metrics: Sequence[str] = (), by: str = MODEL, baseline: str | None = None
) -> Comparisons:
    """Return every column's mean, and the difference of every pair.

    Evaluations of one model are put together first (see `merge_evaluations`).
    """
    if by not in {MODEL, SETTING}:
        raise ConfigurationError(f"unknown way to compare {by!r}: {close_matches(by, (MODEL, SETTING))}")
    _check(evaluations, metrics)
    named = list(dict.fromkeys(metrics))
    columns = [column for part in _parts(evaluations) for column in _columns(part, named or _usual(part), by)]
    return compare_columns(columns, baseline)


def _check(evaluations: Sequence[Evaluation], metrics: Sequence[str]) -> None:
    """Refuse metrics that are unknown, or have nothing to pair because they are of all responses together."""
    offered = {metric.name: metric for evaluation in evaluations for metric in evaluation.metrics}
    for name in metrics:
        if name not in offered:
            known = [other for other, metric in offered.items() if metric.aggregate is None]
            raise ConfigurationError(f"unknown metric {name!r}: {close_matches(name, known)}")
        if offered[name].aggregate is not None:
            raise ConfigurationError(f"metric {name!r} is of all responses together and has no value of one to compare")


def _usual(part: _Part) -> Sequence[str]:
    """Return what is compared where nothing is named: `PAPER_METRICS`, or the first that the responses have."""
    given = {name for row in part.rows.values() for name in row.values}
    known = [item.name for item in suite_named(part.suite).metrics if item.aggregate is None and item.name in given]
    return [name for name in PAPER_METRICS if name in known] or known[:1]


def _parts(evaluations: Sequence[Evaluation]) -> list[_Part]:
    """Return the parts in the order of what compares, settings and evaluations."""
    parts = []
    for alike in comparable_evaluations(evaluations):
        context, suite = _context(alike), alike[0].suite
        rows_of: dict[tuple[str, str], dict[str, Row]] = {}
        for evaluation in alike:
            for row in evaluation.rows:
                rows_of.setdefault((row.setting, evaluation.model), {})[row.task_id] = row
        offered = {(setting, item.model): n for item in alike for setting, n in item.n_tasks.items()}
        own = [
            _Part(context, suite, *key, rows, missing_from(list(rows.values()), offered.get(key)))
            for key, rows in rows_of.items()
        ]
        parts += sorted(own, key=lambda part: (_ORDER.get(part.setting, len(_ORDER)), part.setting))
    return parts


def _context(alike: Sequence[Evaluation]) -> str:
    """Return what evaluations that compare share, and where they were asked otherwise, as a heading."""
    return heading(alike[0].kind[0], {**scored_on(alike[0]), **request_differences(alike)})


def _columns(part: _Part, metrics: Sequence[str], by: str) -> Iterator[Column]:
    """Yield a column for each metric that the rows know, if only as unscored."""
    group, name = (part.setting, part.model) if by == MODEL else (part.model, part.setting)
    known = {metric.name: metric for metric in suite_named(part.suite).metrics}
    for metric in metrics:
        if any(metric in row.values for row in part.rows.values()):
            yield Column(
                context=part.context,
                group=group,
                metric=metric,
                name=name,
                values={task_id: row.values.get(metric) for task_id, row in part.rows.items()},
                cluster_of={task_id: row.conversation_id for task_id, row in part.rows.items()},
                bounds=known[metric].bounds,
                higher_is_better=known[metric].higher_is_better,
                n_offered=part.n_tasks,
            )


# Comparisons as Markdown for people, or as CSV for programs.
# Every interval that is missing says why. Both standard errors stand side by side: the one over conversations, and
# the harness's own formula, which takes tasks for independent.

_NOT_COMPARED = ["", "Nothing else was scored alike: not compared.", ""]
_SMALLEST_P = 0.001

_NOTES = """
- difference: second less first, on the {items} that both scored. unscored: {items} that both have and at least one did
  not score; unshared: {items} that only one has. Both are left out, so no side gains by {items} that it left out.
- 95 % interval: over conversations (docs/statistics.md), each for itself. {Items} of one conversation are not
  independent.
- p: of no difference, two-sided, by the same statistic as the interval: at most 0.05 where that leaves 0 out. p (Holm):
  corrected for the {n_tests} comparisons of this call, so it may be above 0.05 where the interval leaves 0 out.
- detectable: the smallest true difference that a 5 % test over these conversations, without correction, finds four
  times out of five.
- stderr: over conversations. naive stderr: by the formula of the harness (lm_eval), which takes {items} for
  independent: too small where {items} of one conversation are alike.
"""

_CSV_COLUMNS = (
    *("context", "group", "metric", "first", "second", "first_mean", "second_mean", "difference", "low", "high"),
    *("standard_error", "p", "p_holm", "detectable", "n_items", "n_conversations", "n_unscored", "n_unshared"),
    "no_interval_because",
)


def render_comparisons(found: Comparisons, *, group: str, name: str, items: str) -> str:
    """Return the comparisons as Markdown: a part for each context with its means and its differences, then notes."""
    lines: list[str] = []
    for context in dict.fromkeys(mean.column.context for mean in found.means):
        lines += [f"# {plain(context)}", "", "## Means"]
        means = [mean for mean in found.means if mean.column.context == context]
        lines += [*_means(means, group, name, items), *_notes_of(means)]
        pairs = [pair for pair in found.pairs if pair.first.context == context]
        lines.append("## Differences")
        lines += _differences(pairs, group, items) if pairs else _NOT_COMPARED
    n_tests = sum(pair.p is not None for pair in found.pairs)
    lines.append(_NOTES.format(items=items, Items=items.capitalize(), n_tests=n_tests).strip())
    return "\n".join(lines)


def comparisons_csv(found: Comparisons) -> str:
    """Return one line a comparison, with a header, scores in full; an empty field is a score that is not there."""
    output = io.StringIO()
    writer = csv.writer(output, lineterminator="\n")
    writer.writerow(_CSV_COLUMNS)
    writer.writerows(_csv_row(pair) for pair in found.pairs)
    return output.getvalue().removesuffix("\n")


def _csv_row(pair: Comparison) -> Iterator[object]:
    first, gap = pair.first, pair.difference
    yield from map(csv_text, (first.context, first.group, first.metric, first.name, pair.second.name))
    yield from (pair.first_mean, pair.second_mean, gap.value, gap.low, gap.high, gap.standard_error)
    yield from (pair.p, pair.adjusted_p, pair.detectable)
    yield from (gap.n_values, gap.n_clusters, gap.n_unscored, pair.n_unshared, gap.reason)


def _means(means: list[Mean], group: str, name: str, items: str) -> list[str]:
    scores = ("mean", "95 % interval", "stderr", "naive stderr", items, "conversations", "unscored")
    rows: list[tuple[str, ...]] = []
    for mean in means:
        column, found = mean.column, mean.estimate
        errors = (_number(found.standard_error), _number(found.independent_error))
        counts = (str(found.n_values), str(found.n_clusters), str(found.n_unscored))
        names = (column.group, column.name, _metric(column))
        value = _number(found.value) + _missing(column, found, items)
        rows.append((*names, value, _interval(found), *errors, *counts))
    return _table((group, name, "metric"), scores, rows)


def _notes_of(means: list[Mean]) -> list[str]:
    """Return what must be known of the columns, each note once, and an empty line."""
    notes = dict.fromkeys(f"- {plain(mean.column.name)}: {mean.column.note}" for mean in means if mean.column.note)
    return [*notes, ""] if notes else []


def _missing(column: Column, found: Estimate, items: str) -> str:
    """Return that a mean is over fewer items than there are, and what it would be with the missing ones as 0."""
    if column.n_offered is None or found.value is None:
        return ""
    n_missing = column.n_offered - len(column.values)
    as_zero = found.value * found.n_values / (found.n_values + n_missing)
    return f" ({len(column.values)} of {column.n_offered} {items}; {fixed(as_zero)} with the missing as 0)"


def _differences(pairs: list[Comparison], group: str, items: str) -> list[str]:
    means = ("first mean", "second mean", "difference", "95 % interval", "p", "p (Holm)", "detectable")
    rows: list[tuple[str, ...]] = []
    for pair in pairs:
        first, gap = pair.first, pair.difference
        tested = (_p(pair.p), _p(pair.adjusted_p), _number(pair.detectable))
        counts = (str(gap.n_values), str(gap.n_clusters), str(gap.n_unscored), str(pair.n_unshared))
        names = (first.group, _metric(first), first.name, pair.second.name)
        sides = (_number(pair.first_mean), _number(pair.second_mean))
        rows.append((*names, *sides, _number(gap.value, _signed), _interval(gap, _signed), *tested, *counts))
    scores = (*means, items, "conversations", "unscored", "unshared")
    return _table((group, "metric", "first", "second"), scores, rows)


def _metric(column: Column) -> str:
    return f"{column.metric} (lower is better)" if column.higher_is_better is False else column.metric


def _number(value: float | None, write: Callable[[float], str] = fixed) -> str:
    return "-" if value is None else write(value)


def _interval(found: Estimate, write: Callable[[float], str] = fixed) -> str:
    if found.low is None or found.high is None:
        return f"- ({found.reason})"
    return f"{write(found.low)} to {write(found.high)}"


def _signed(value: float) -> str:
    text = fixed(value)
    return f"+{text}" if float(text) > 0 else text


def _p(value: float | None) -> str:
    return f"<{_SMALLEST_P}" if value is not None and value < _SMALLEST_P else _number(value)


def _table(names: tuple[str, ...], scores: tuple[str, ...], rows: list[tuple[str, ...]]) -> list[str]:
    """Return a table with its names flush left and its scores flush right, between blank lines."""
    right = [False] * len(names) + [True] * len(scores)
    return ["", *markdown_table((*names, *scores), rows, right=right, has_colons=False), ""]

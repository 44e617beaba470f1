"""Evaluations compared in pairs."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import Any

from ragtasks.config import FailedTurn
from ragtasks.errors import ConfigurationError, close_matches
from ragtasks.metrics import TURN_ERROR_METRICS
from ragtasks.reports.tables import (
    CONVERSATION_METRICS,
    METRICS,
    by_setting,
    column_of,
    conversation_columns,
    conversations_by_system,
    failed_turn_definition,
    means_table,
    missing_from,
    warnings_and_remarks,
)
from ragtasks.results import (
    Evaluation,
    comparable_evaluations,
    early_stop_text,
    request_differences,
    scored_on,
)
from ragtasks.statistics import (
    CONVERSATIONS,
    LEVEL,
    Column,
    Comparison,
    Comparisons,
    Mean,
    compare_columns,
    detectable_difference,
    mean_columns,
    planned_difference,
)
from ragtasks.suites import suite_named
from ragtasks.tables import (
    Cell,
    Format,
    Section,
    Table,
    Value,
    csv_lines,
    dashed,
    fixed,
    grouped,
    heading,
    p_text,
    render,
)

# Evaluations compared in pairs: models in each setting, or the settings of each model. Only evaluations with the same
# scoring are compared (data and its version, encoder, IDK detector, judges). Others have sections of their own. If
# their requests differ (prompts, answer length), the heading shows how. Items are tasks, and their clusters are the
# conversations that they were cut from.

MODEL, SETTING = "model", "setting"
PAPER_METRICS = ("rl_f", "rb_llm", "rb_alg", "ans_acc")
"""Default metrics, as far as the evaluations have them: those of the MTRAG paper's Table 5."""

_USAGE = ("seconds", "tokens", "cost_per_1000")
"""Usage metrics that are added to the default if they were counted."""
_CURES = defaultdict(
    lambda: "score both in the same way: ragtasks score RESULTS RESULTS --output alike, with one --encoder and --judge",
    {
        "benchmark": "evaluate both on the same benchmark and data",
        "data revision": "evaluate both on the same data",
        "judges drifted": "add --recalibrate, which maps the scores of a judge that drifted",
    },
)
_ONLY_LOOK = "p and intervals here assume a single test, so they are too optimistic; those of the decision are correct"


def compare_evaluations(
    evaluations: Sequence[Evaluation],
    *,
    metrics: Sequence[str] = (),
    by: str = MODEL,
    baseline: str | None = None,
    failed_turn: FailedTurn | None = None,
) -> Comparisons:
    """Return the mean of every column, and the difference of every pair.

    Evaluations of one model are merged first (see `merge_evaluations`). `failed_turn` replaces the definition of the
    results.
    """
    columns = evaluation_columns(evaluations, metrics, by, failed_turn)
    _require_pairs(evaluations, columns, by)
    # Usage and conversations are tested separately, so that they do not weaken the correction of quality scores.
    families = [[column for column in columns if _family(column) == family] for family in _FAMILIES]
    first, *others = filter(None, families)
    compared = [compare_columns(first, baseline)]
    for family in others:
        with suppress(ConfigurationError):  # fewer than two have values
            compared.append(compare_columns(family, baseline))
    return Comparisons(
        tuple(mean for part in compared for mean in part.means), tuple(pair for part in compared for pair in part.pairs)
    )


_FAMILIES = ("comparisons", "of usage", "of conversations")
"""Families of metrics. The tests of one family are corrected together."""


def _family(column: Column) -> str:
    metric = column.metric
    return _FAMILIES[1] if metric in METRICS else _FAMILIES[2] if metric in CONVERSATION_METRICS else _FAMILIES[0]


def evaluation_columns(
    evaluations: Sequence[Evaluation],
    metrics: Sequence[str] = (),
    by: str = MODEL,
    failed_turn: FailedTurn | None = None,
) -> list[Column]:
    """Return the columns of scores that `compare_evaluations` compares."""
    if by not in {MODEL, SETTING}:
        raise ConfigurationError(f"unknown way to compare {by!r}: {close_matches(by, (MODEL, SETTING))}")
    _check(evaluations, metrics)
    return [
        column
        for comparable in comparable_evaluations(evaluations)
        for column in (
            *_columns(comparable, list(dict.fromkeys(metrics)), by),
            *_conversation_columns(comparable, metrics, by, failed_turn),
        )
    ]


def _require_pairs(evaluations: Sequence[Evaluation], columns: Sequence[Column], by: str) -> None:
    """Raise ConfigurationError if no two results are comparable. The error names their difference."""
    if max(Counter((column.context, column.group, column.metric) for column in columns).values(), default=0) > 1:
        return
    groups = comparable_evaluations(evaluations)
    first, *more = [evaluation for group in groups for evaluation in group]
    settings = {
        evaluation.model: list(dict.fromkeys(row.setting for row in evaluation.rows)) for evaluation in (first, *more)
    }
    suffixes = {model: "" if first.has_own_rows else f" ({', '.join(names)})" for model, names in settings.items()}
    names = " and ".join(f"{model}{suffix}" for model, suffix in suffixes.items())
    if not more and len(settings[first.model]) > 1:
        problem, step = f"only one model, {names}", "add --by setting, or name results of another model too"
    elif not more:
        on = "" if first.has_own_rows else f" on {first.kind[0]}"
        problem = f"only one result, {names}"
        step = f"name results of another system{on} too; `ragtasks results list` lists all"
    elif len(groups) == 1 and by == MODEL:
        problem, step = f"no setting in common: {names}", "evaluate both in one setting"
    elif len(groups) == 1:
        problem, step = f"no model in two settings: {names}", "leave out --by setting"
    else:
        second = groups[1][0]
        fields = [{"benchmark": evaluation.kind[0], **scored_on(evaluation)} for evaluation in (first, second)]
        differing = next(name for name in {**fields[0], **fields[1]} if fields[0].get(name) != fields[1].get(name))
        values = " and ".join(texts.get(differing, "none") for texts in fields)
        problem, step = f"{first.model} and {second.model} differ in {differing}: {values}", _CURES[differing]
        if first.has_own_rows and differing == "data revision":
            problem = f"the rows of {first.model} and {second.model} differ in their questions, ids or references"
            step = "score the answers of both to the same questions, with the same `id`s"
    raise ConfigurationError(f"nothing to compare: {problem}. Next step: {step}")


def _check(evaluations: Sequence[Evaluation], metrics: Sequence[str]) -> None:
    """Raise ConfigurationError for unknown metrics, and for metrics over all responses together."""
    offered = {metric.name: metric for evaluation in evaluations for metric in evaluation.metrics}
    offered |= {metric.name: metric for metric in TURN_ERROR_METRICS} | CONVERSATION_METRICS
    for name in metrics:
        if name not in offered:
            names = [metric_name for metric_name, metric in offered.items() if metric.aggregate is None]
            raise ConfigurationError(f"unknown metric {name!r}: {close_matches(name, names)}")
        if offered[name].aggregate is not None:
            raise ConfigurationError(
                f"metric {name!r} is computed over all responses together, so responses have no values to compare"
            )


def _columns(evaluations: Sequence[Evaluation], metrics: Sequence[str], by: str) -> Iterator[Column]:
    """Yield a column for each metric of the rows of a model in a setting, even if all are unscored.

    Without named metrics, these are `PAPER_METRICS`, or the suite's first metric in the responses.
    """
    context, suite = _context(evaluations), suite_named(evaluations[0].suite).metrics
    by_name = {metric.name: metric for metric in (*suite, *TURN_ERROR_METRICS)} | METRICS
    of_model = {evaluation.model: evaluation for evaluation in evaluations}
    for (setting, model), rows in by_setting(evaluations):
        group, name = (setting, model) if by == MODEL else (model, setting)
        n_tasks = missing_from(rows, of_model[model].n_tasks.get(setting))
        stopped = early_stop_text(of_model[model].provenance.values())
        names_in_rows = {name for row in rows for name in row.values}
        names = [metric.name for metric in suite if metric.aggregate is None and metric.name in names_in_rows]
        usual = [name for name in PAPER_METRICS if name in names] or names[:1]
        for metric_name in metrics or (*usual, *_USAGE):
            if metric_name in names_in_rows:
                column = column_of(rows, by_name[metric_name], name, group=group, context=context, n_offered=n_tasks)
                yield replace(column, note=f"{stopped}. {_ONLY_LOOK}" if stopped else column.note)


def _context(evaluations: Sequence[Evaluation]) -> str:
    """Return the scoring that all evaluations share, and differences between their requests."""
    first = evaluations[0]
    return heading(first.kind[0], {**scored_on(first), **request_differences(evaluations)})


def _conversation_columns(
    evaluations: Sequence[Evaluation], metrics: Sequence[str], by: str, given: FailedTurn | None
) -> Iterator[Column]:
    """Yield the columns of the conversation metrics: the named ones, or all without named metrics."""
    named = CONVERSATION_METRICS.keys() & set(metrics or CONVERSATION_METRICS)
    if not named:
        return
    try:
        definition = failed_turn_definition(evaluations, given)
    except ConfigurationError:
        if given is not None or metrics:
            raise
        return
    context, note = _context(evaluations), f"a failed turn is {definition}"
    systems = conversations_by_system(evaluations, definition, across_settings=by == SETTING)
    for (setting, model), conversations in systems.items():
        group, name = (setting, model) if by == MODEL else (model, setting)
        for column in conversation_columns(conversations, name=name, group=group, context=context):
            if column.metric in named:
                yield replace(column, note=note)


# Comparisons as tables for people, or as CSV for programs. Each missing interval has a reason.

_NOT_COMPARED = "Not compared: no other evaluation has the same scoring."
_NOTES = (
    "difference: second minus first, on the n {items} that both scored. (n/m): both contain m {items}, and n of them "
    "have both scores. unshared: {items} that only one side contains. Neither kind is included in the difference, so "
    "skipping {items} gives no advantage.",
    "In brackets: 95 % intervals over {units} (docs/statistics.md), not corrected.{dependence}",
    "p: two-sided test of no difference, with the statistic of the interval: at most 0.05 exactly if the interval "
    "excludes 0. p (Holm): corrected for the {n_tests} of this call, so it may be above 0.05 although the interval "
    "excludes 0.",
    "detectable: the smallest true difference that an uncorrected 5 % test over these {units} detects with 80 % power.",
)
_CONVERSATION_NOTE = (
    f"{', '.join(CONVERSATION_METRICS)}: one value per conversation, on the conversations whose turns both have and "
    "scored. A conversation without a failure counts with all its turns, the same number on both sides. The test is "
    "that of the mean of paired differences; it assumes that conversations are independent."
)
_DEPENDENCE = " {Items} of one conversation are not independent."
_COLUMNS = (
    *("metric", "first", "second", "first mean", "second mean", "difference", "p", "p (Holm)", "detectable"),
    "n",
)
_CSV_COLUMNS = (
    *("context", "group", "metric", "first", "second", "first_mean", "second_mean", "difference", "low", "high"),
    *("standard_error", "p", "p_holm", "detectable", "n_items", "n_conversations", "n_unscored", "n_unshared"),
    "no_interval_because",
)


def warnings_of(evaluations: Sequence[Evaluation]) -> tuple[str, ...]:
    """Return the warnings about the compared evaluations, as in a report's conclusion."""
    return tuple(
        line for comparable in comparable_evaluations(evaluations) for line in warnings_and_remarks(comparable)
    )


def comparisons_text(comparisons: Comparisons, form: Format, **words: Any) -> str:
    """Return comparisons as text: tables (see `comparison_sections`), or one line of CSV per comparison."""
    if form is Format.CSV:
        return comparisons_csv([comparisons])
    return render(comparison_sections(comparisons, **words), form)


def comparisons_csv(comparisons: Iterable[Comparisons]) -> str:
    """Return one line of CSV per comparison."""
    return csv_lines(_CSV_COLUMNS, (_csv_row(pair) for compared in comparisons for pair in compared.pairs))


def differences_text(evaluations: Sequence[Evaluation]) -> str:
    """Return the table of differences of every pair of models, without means and explanations."""
    sections = comparison_sections(compare_evaluations(evaluations), group="setting", name="model", items="tasks")
    tables = [replace(section, tables=section.tables[1:2]) for section in sections]
    return render(tables, Format.MARKDOWN).rstrip("\n")


def comparison_sections(
    comparisons: Comparisons,
    *,
    group: str,
    name: str,
    items: str,
    warnings: Sequence[str] = (),
    units: str = CONVERSATIONS,
    note: str = "",
    notes: Sequence[str] = (),
    family: Callable[[Column], str] = _family,
) -> list[Section]:
    """Return one section per context with its means and its differences. The last section ends with explanations.

    Args:
        comparisons: the comparisons.
        group: head of the column with the groups.
        name: head of the column with the systems.
        items: name of the scored items.
        warnings: lines below the differences.
        units: name of the clusters.
        note: explanation of the standard errors; default: that of tasks of conversations.
        notes: explanations of the means.
        family: name of the family of tests that a column is corrected with.
    """
    n_of = Counter(family(pair.first) for pair in comparisons.pairs if pair.p is not None)
    counted = [f"{n} {'comparison' if (n, name) == (1, _FAMILIES[0]) else name}" for name, n in n_of.items()]
    n_tests = " and for the ".join(counted) or f"0 {_FAMILIES[0]}"
    dependence = "" if note else _DEPENDENCE.format(Items=items.capitalize())
    explanations = tuple(
        text.format(items=items, n_tests=n_tests, units=units, dependence=dependence) for text in _NOTES
    )
    if any(pair.first.metric in CONVERSATION_METRICS for pair in comparisons.pairs):
        explanations += (_CONVERSATION_NOTE,)
    sections = []
    for context in dict.fromkeys(mean.column.context for mean in comparisons.means):
        means = [mean for mean in comparisons.means if mean.column.context == context]
        rows = tuple(_cells(pair) for pair in comparisons.pairs if pair.first.context == context)
        table = means_table("Means", means, group, name, items, units, note)
        averages = replace(table, legend=(*notes, *_legend(means)))
        columns = (group, *_COLUMNS, units, "unshared", "reason for no interval")
        differences = Table("Differences", columns, rows, "" if rows else _NOT_COMPARED)
        sections.append(Section(context, {}, (averages, differences)))
    *earlier, last = sections
    warning_tables = [Table("Warnings", (), (), legend=tuple(warnings))] if warnings else []
    return [
        *earlier,
        replace(last, tables=(*last.tables, *warning_tables, Table("Explanations", (), (), legend=explanations))),
    ]


# Power: a difference that the data cannot show is no evidence of equality. The smallest one that they can show is known
# before a second system is evaluated.

_POWER_NOTE = (
    "detectable: the smallest true difference that an uncorrected 5 % test over these {units} detects with 80 % power. "
    "planned: a system to be evaluated, with answers as variable as the first's and independent of them. Answers to "
    "the same {items} usually correlate, and smaller differences are detected."
)
_PLANNED = "planned"


def power_sections(
    columns: Sequence[Column],
    *,
    group: str,
    items: str,
    units: str = CONVERSATIONS,
    baseline: str | None = None,
    notes: Sequence[str] = (),
) -> list[Section]:
    """Return one section per context with the smallest detectable difference of each pair of columns.

    A column without a second one is paired with a planned system. See `comparison_sections` for the arguments.
    """
    counts = (items,) if items == units else (items, units)
    heads = (group, "metric", "first", "second", "first mean", "stderr of difference", "detectable", *counts)
    sections = []
    for context, members in grouped(columns, lambda column: column.context).items():
        rows: list[tuple[Cell, ...]] = []
        for sides in grouped(members, lambda column: (column.group, column.metric)).values():
            pairs = compare_columns(sides, baseline).pairs if len(sides) > 1 else ()
            gaps = [(pair.first, pair.second.name, pair.first_mean, pair.difference) for pair in pairs]
            mean = mean_columns(sides)[0].estimate
            for first, second, value, gap in gaps or [(sides[0], _PLANNED, mean.value, planned_difference(mean))]:
                n = gap.n_values
                values = (Value(number, n, n) for number in (value, gap.standard_error, detectable_difference(gap)))
                sizes = (n, gap.n_clusters)[: len(counts)]
                rows.append(
                    (first.group, first.metric_text, first.name, second, *values, *sizes, gap.reason_over(units))
                )
        legend = (_POWER_NOTE.format(units=units, items=items), *notes)
        table = Table("Detectable differences", (*heads, "reason for no value"), tuple(rows), legend=legend)
        sections.append(Section(context, {}, (table,)))
    return sections


def _csv_row(pair: Comparison) -> Iterator[object]:
    first, gap = pair.first, pair.difference
    yield from (first.context, first.group, first.metric, first.name, pair.second.name)
    yield from (pair.first_mean, pair.second_mean, gap.value, gap.low, gap.high, gap.standard_error)
    yield from (pair.p, pair.adjusted_p, pair.detectable)
    yield from (gap.n_values, gap.n_clusters, gap.n_unscored, pair.n_unshared, gap.reason)


def _legend(means: Sequence[Mean]) -> Iterator[str]:
    """Yield the notes of columns, each once, and the incomplete means with missing tasks as 0."""
    yield from dict.fromkeys(f"{mean.column.name}: {mean.column.note}" for mean in means if mean.column.note)
    for mean in means:
        column, as_zero = mean.column, mean.cell.with_missing_as_zero
        if mean.cell.missing and as_zero is not None:
            yield f"{column.name} in {column.group}: {column.metric} is {fixed(as_zero)} with missing tasks as 0"


def _cells(pair: Comparison) -> tuple[Cell, ...]:
    first, gap, n = pair.first, pair.difference, pair.difference.n_values
    sides = (Value(mean, n, n) for mean in (pair.first_mean, pair.second_mean))
    tested = (p_text(pair.p), p_text(pair.adjusted_p), Value(pair.detectable, n, n))
    counts = (n, gap.n_clusters, pair.n_unshared, gap.reason)
    return (first.group, first.metric_text, first.name, pair.second.name, *sides, pair.cell, *tested, *counts)


# Runs of a retriever, with a conclusion as for evaluations.

_NDCG, _RECALL = "nDCG@5", "R@5"
_RUN_COLUMNS = ("benchmark", "run", "n", _NDCG, _RECALL, "vs. best")


def concluded_runs(section: Section, comparisons: Comparisons) -> Section:
    """Return the tables of runs, with a conclusion about the best run and its lead."""
    of_runs = {mean.column.name: mean for mean in comparisons.means if mean.column.metric == _NDCG}
    recall = {mean.column.name: mean for mean in comparisons.means if mean.column.metric == _RECALL}
    best, *other_runs = sorted(of_runs, key=lambda name: -(of_runs[name].estimate.value or 0.0))
    # The best run may be the first or the second of a pair.
    compared = [pair for pair in comparisons.pairs if pair.first.metric == _NDCG]
    pairs = {
        name: next(pair for pair in compared if {pair.first.name, pair.second.name} == {best, name})
        for name in other_runs
    }
    rows = tuple(
        (
            *(mean.column.context, name, mean.estimate.n_values, mean.cell, recall[name].cell),
            f"-{_gap(pairs[name])}, {_certainty(pairs[name])}" if name in pairs else "best",
        )
        for name, mean in of_runs.items()
    )
    notes = next((table.legend for table in section.tables if not table.columns), ())
    tables = tuple(table for table in section.tables if table.columns)
    conclusion = Table("Conclusion", _RUN_COLUMNS, rows, legend=notes)
    top = of_runs[best].estimate
    lead = (
        f", {_gap(pairs[other_runs[0]])} ahead of {other_runs[0]} ({_certainty(pairs[other_runs[0]])})"
        if other_runs
        else ""
    )
    sentence = f"{best} has {_NDCG} {dashed(top.value)} over {top.n_values} queries{lead}."
    return replace(section, tables=tables, conclusion=conclusion, sentence=sentence)


def _gap(pair: Comparison) -> str:
    value = pair.difference.value
    return dashed(None if value is None else abs(value))


def _certainty(pair: Comparison) -> str:
    p = pair.adjusted_p
    if p is None:
        return f"not tested: {pair.difference.reason}"
    return f"{'significant' if p <= LEVEL else 'not significant'}, p {p_text(p)}"

"""The conclusion of a report: the leader of each setting, the main loss, and warnings."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import combinations

from ragtasks.metrics import ANS_ACC, ANSWERABILITY_METRICS, Metric
from ragtasks.reports.tables._losses import loss_sentence
from ragtasks.reports.tables._published import published_sentences
from ragtasks.reports.tables._repeats import anchor_lines, repeat_lines, verdict_lines
from ragtasks.reports.tables._scores import (
    BOTH_SIDES,
    by_setting,
    checked_answers,
    column_of,
    has_values,
    is_baseline,
    is_undefined,
    mean_of,
    missing_tasks,
    plain_mean,
    score_cell,
    valued_metrics,
    with_sides,
)
from ragtasks.reports.tables._turn_errors import turn_error_sentence
from ragtasks.results import Evaluation, ScoredAnswer, early_stop_text, shortened_prompts
from ragtasks.statistics import (
    LEVEL,
    MIN_CLUSTERS,
    Column,
    Comparison,
    Estimate,
    compare_columns,
    holm,
    pairs_without_best,
)
from ragtasks.suites import AGENTIC, FOLLOWED, requested_metrics, suite_named
from ragtasks.tables import Cell, Section, Table, cell_text, fixed, grouped, p_text

SAMPLE_WARNING = "Sample data: these scores demonstrate the tools and are not benchmark results."
TO_THE_BEST = "vs. best"
"""Head of the column with the differences to the best model."""

COVERAGES = ("coverage", "judge_coverage")
_NOT_MAIN = (*(metric.name for metric in ANSWERABILITY_METRICS), *COVERAGES)
_WITHOUT_MAIN = ("rouge_l", "grounded")
"""Metrics of the first table if no response has the main score: refusals alone are not enough to judge the answers."""
_MAX_LISTED = 4  # models or evaluations in one line
_NOTE = (
    "{column}: difference on the tasks that both models scored. A difference with p above {level} may be chance. p is "
    "computed over conversations and corrected for all pairs of the table (Holm)."
)

_Group = tuple[str, str]
"""Setting and model."""
_Gap = tuple[Estimate, float | None]
"""A difference to the best model, and its p value corrected by Holm."""


def conclusion(
    evaluations: Sequence[Evaluation], present: Mapping[str, Metric], main: str, requested: Sequence[str] = ()
) -> tuple[Table, str]:
    """Return a table of models by setting, and one sentence about the leader.

    The table has the main score, its difference to the best, answerability accuracy and its two sides, the requested
    metrics, and coverage if it is below 1. Its legend has the main loss, the most frequent turn errors, and one warning
    per line.
    For the user's own rows, one system gets a table of all its scores, and several systems get no column of settings.
    """
    is_own = evaluations[0].has_own_rows
    if is_own and len(evaluations) == 1:
        table = rows_table(evaluations[0])
        warnings = _warnings(evaluations, _rows_of(evaluations), {}, present, main)
        legend = (turn_error_sentence(evaluations), *warnings)
        return replace(table, title="Conclusion", legend=tuple(filter(None, legend))), rows_sentence(evaluations[0])
    rows_of = _rows_of(evaluations)
    n_tasks = {} if is_own else missing_tasks(evaluations)
    complete = {key: rows for key, rows in rows_of.items() if key not in n_tasks}
    metric = present[main]
    bests, gaps = _differences(complete, metric)
    comparison_texts = {
        (setting, best): "best" for setting, best in bests.items() if any(key[0] == setting for key in gaps)
    }
    comparison_texts |= {key: _difference_text(*gap, metric) for key, gap in gaps.items()}
    more_metrics = _more_metrics(evaluations, present, main, requested)
    table_rows: list[tuple[Cell, ...]] = []
    for key, rows in rows_of.items():
        scores = [score_cell(rows, name, present, n_tasks=n_tasks.get(key)) for name in (main, *more_metrics)]
        rank = "baseline" if is_baseline(key[1]) else "fewer tasks: not ranked" if key in n_tasks else "-"
        comparison = [comparison_texts.get(key, rank)] if comparison_texts else []
        table_rows.append((*key[is_own:], len(rows), scores[0], *comparison, *scores[1:]))
    heads = ("setting", "model", "n", main, *([TO_THE_BEST] if comparison_texts else []), *more_metrics)[is_own:]
    loss = "" if is_own else loss_sentence(evaluations, main)
    published = published_sentences(evaluations, present, main)
    warnings = _warnings(evaluations, rows_of, n_tasks, present, main)
    legend = (loss, turn_error_sentence(evaluations), *published, *warnings)
    note = _NOTE.format(column=TO_THE_BEST, level=LEVEL) if comparison_texts else ""
    table = Table("Conclusion", heads, tuple(table_rows), note, tuple(filter(None, legend)))
    return table, _lead_sentence(evaluations, metric, rows_of, bests, gaps)


def _more_metrics(
    evaluations: Sequence[Evaluation], present: Mapping[str, Metric], main: str, requested: Sequence[str] = ()
) -> list[str]:
    """Return the other columns: `ans_acc` with its sides, the requested metrics, and coverage if it is below 1."""
    missing_main = unscored_main(evaluations, present)
    requested = [*requested, *(name for evaluation in evaluations for name in requested_metrics(evaluation.suite))]
    rows = [row for evaluation in evaluations for row in evaluation.rows]
    partial = partial_coverages(rows)
    if missing_main:
        partial.remove("coverage")  # a sentence reports that it is 0
    names = with_sides((ANS_ACC.name, *(_WITHOUT_MAIN if missing_main else ()), *requested, *partial), present)
    return [name for name in dict.fromkeys(names) if name == BOTH_SIDES or (name in present and name != main)]


def partial_coverages(rows: Sequence[ScoredAnswer]) -> list[str]:
    """Return the coverage metrics that are below 1 for any response."""
    return [name for name in COVERAGES if any(row.values.get(name, 1.0) not in {None, 1.0} for row in rows)]


def _lead_sentence(
    evaluations: Sequence[Evaluation],
    metric: Metric,
    rows_of: Mapping[_Group, Sequence[ScoredAnswer]],
    bests: Mapping[str, str],
    gaps: Mapping[_Group, _Gap],
) -> str:
    """Return one sentence about the leader, its lead, and the significance of the lead.

    The sentence is about full RAG, or about the last setting with a complete evaluation. It is empty without a complete
    evaluation, and for a metric without a better direction.
    """
    if not bests:
        return ""
    main, (setting, best) = metric.name, list(bests.items())[-1]
    score = cell_text(mean_of(rows_of[setting, best], main, metric.bounds))
    gap_of = {model: gap for (name, model), gap in gaps.items() if name == setting}
    rivals = {model: difference for model, (difference, _) in gap_of.items() if is_ahead(difference, metric)}
    second = _best([column_of(rows_of[setting, model], metric, model) for model in gap_of], metric)
    has_lead = bool(gap_of) and all(_is_significant(difference) for difference in gap_of.values())
    in_setting = f" in {setting}" if setting else ""
    if second is None:
        opening = f"{best} has {main} {score}{in_setting}"
    elif rivals:
        rival = max(rivals, key=lambda model: abs(rivals[model].value or 0.0))
        shared = f"on the {rivals[rival].n_values} tasks that both scored {rival} is"
        gap = _gap_text(*gap_of[rival])
        opening = f"{best} has the best mean {main} {score}{in_setting}, but {shared} {gap}"
    elif _is_equal(gap_of[second]):
        equal = [model for model in gap_of if model != second and _is_equal(gap_of[model])]
        last = f" and {second}" if not equal else f", {second} and {len(equal)} more"
        opening = f"{best}{last} share the best mean {main} {score}{in_setting}"
    else:
        verb = f"leads{in_setting} with" if has_lead else "has the best mean"
        location = "" if has_lead else in_setting
        is_paired = gap_of[second][0].value is not None
        ahead = _gap_text(*gap_of[second], f" of {second}") if is_paired else f"but {second} answered other tasks"
        opening = f"{best} {verb} {main} {score}{location}, {ahead}"
    behind = {name: gaps[name, best] for name in bests if (name, best) in gaps}
    elsewhere = [name for name, gap in behind.items() if _is_significant(gap) and not is_ahead(gap[0], metric)]
    leads = "".join(f"; in {name} {bests[name]} leads" for name in elsewhere)
    return f"{opening}{leads}."


def _is_equal(gap: _Gap) -> bool:
    return gap[0].value is not None and not float(fixed(gap[0].value)) and not _is_significant(gap)


def _is_significant(gap: _Gap) -> bool:
    """Return whether a difference to the best is significant."""
    return gap[1] is not None and gap[1] <= LEVEL


def is_ahead(difference: Estimate, metric: Metric) -> bool:
    """Return whether a model is better on the tasks that both scored than the one with the best mean of all tasks."""
    value = difference.value or 0.0
    return bool(float(fixed(value))) and (value > 0) is bool(metric.higher_is_better)


def _gap_text(difference: Estimate, p: float | None, relation: str = "") -> str:
    """Return a difference in words, with its significance."""
    gap = f"{fixed(abs(difference.value or 0.0))} ahead{relation}"
    if p is None:
        return f"{gap} (not tested: {difference.reason})"
    return f"{gap} (significant, p {p_text(p)})" if p <= LEVEL else f"{gap}, which may be chance (p {p_text(p)})"


def unscored_main(evaluations: Sequence[Evaluation], present: Mapping[str, Metric]) -> str:
    """Return the suite's main score if no response has it and coverage is 0. Empty otherwise."""
    values = {
        row.values.get("coverage") for evaluation in evaluations for row in evaluation.rows if "coverage" in row.values
    }
    unjudged = (metric.name for metric in evaluations[0].metrics if not metric.needs_judges)
    return next((name for name in unjudged if name not in present), "") if values == {0.0} else ""


def unscored_sentence(evaluation: Evaluation, main: str) -> str:
    """Return, without a full stop, that no response has the main score, and the reason if the evaluation records it."""
    is_semantic = main.startswith(("rb_", "bert"))  # other metrics are missing for other reasons
    reason = " (encoder: none)" if is_semantic and evaluation.kind[1] == "none" else ""
    return f"No response has the suite's main score {main}{reason}"


def _rows_of(evaluations: Sequence[Evaluation]) -> dict[_Group, list[ScoredAnswer]]:
    """Return (setting, or an empty text for the user's own rows; model) -> rows, with baselines last in a setting."""
    groups = by_setting(sorted(evaluations, key=lambda evaluation: is_baseline(evaluation.model)))
    return {("" if evaluations[0].has_own_rows else key[0], key[1]): rows for key, rows in groups}


def _differences(
    complete: Mapping[_Group, Sequence[ScoredAnswer]], metric: Metric
) -> tuple[dict[str, str], dict[_Group, _Gap]]:
    """Return the best model of each setting, and the others' differences to it with their p values by Holm."""
    # Baselines are ranked only if there is no other model.
    ranked = {key: rows for key, rows in complete.items() if not is_baseline(key[1])} or complete
    bests: dict[str, str] = {}
    pairs: list[Comparison] = []
    n_more = 0
    for setting in dict.fromkeys(name for name, _ in ranked):
        rows_of = {model: rows for (name, model), rows in ranked.items() if name == setting}
        columns = [column_of(rows, metric, model, group=setting) for model, rows in rows_of.items()]
        best = _best(columns, metric)
        if best is not None:
            bests[setting] = best
        if best is not None and len(columns) > 1:
            pairs += compare_columns(columns, best).pairs
            n_more += pairs_without_best(len(columns))
    adjusted = zip(pairs, holm([pair.p for pair in pairs], n_more), strict=True)
    # The best is the first of a pair, and differences are second minus first.
    return bests, {(pair.first.group, pair.second.name): (pair.difference, p) for pair, p in adjusted}


def _best(columns: Sequence[Column], metric: Metric) -> str | None:
    """Return the first model with the best mean; None without scores, or without a better direction."""
    means_or_none = {column.name: plain_mean(list(column.values.values())).value for column in columns}
    means = {name: value for name, value in means_or_none.items() if value is not None}
    if not means or metric.higher_is_better is None:
        return None
    return (max if metric.higher_is_better else min)(means, key=means.__getitem__)


def _difference_text(difference: Estimate, p: float | None, metric: Metric) -> str:
    if difference.value is None:
        return "no shared tasks"
    ahead = f" ahead on the {difference.n_values} tasks that both scored" if is_ahead(difference, metric) else ""
    gap = f"{fixed(difference.value)}{ahead}"
    if p is None:
        return f"{gap}, not tested ({difference.reason})"
    return f"{gap} (p {p_text(p)})"


def _warnings(
    evaluations: Sequence[Evaluation],
    rows_of: Mapping[_Group, Sequence[ScoredAnswer]],
    n_tasks: Mapping[_Group, int],
    present: Mapping[str, Metric],
    main: str,
) -> Iterator[str]:
    """Yield one warning per sentence."""
    if evaluations[0].kind[0].endswith("(sample)"):
        yield SAMPLE_WARNING
    if no_main := unscored_main(evaluations, present):
        yield f"{unscored_sentence(evaluations[0], no_main)}, so models are ranked by {main}."
    incomplete = {key: f"{len(rows)} of {n_tasks[key]}" for key, rows in rows_of.items() if key in n_tasks}
    yield from _remark_line("Missing tasks: not comparable with complete evaluations", incomplete)
    is_listed = evaluations[0].has_own_rows and len(evaluations) == 1  # its table has the count of every score
    listed = {} if is_listed else rows_of
    unscored = {
        key: sum(row.values.get(main) is None and not is_undefined(row, present[main]) for row in rows)
        for key, rows in listed.items()
    }
    yield from _remark_line(
        f"Coverage: {main} is missing for some responses",
        {key: f"{n} of {len(rows_of[key])}" for key, n in unscored.items() if n},
    )
    if "judge_coverage" in present:
        shares = {
            key: plain_mean([row.values.get("judge_coverage") for row in rows]).value for key, rows in rows_of.items()
        }
        low_coverage = {key: fixed(value) for key, value in shares.items() if value is not None and value < 1}
        yield from _remark_line("Judge coverage is below 1", low_coverage)
    yield from warning_lines(evaluations)
    n_conversations = {key: len({row.task.conversation_id for row in rows}) for key, rows in rows_of.items()}
    narrow = {key: str(n) for key, n in n_conversations.items() if n < MIN_CLUSTERS}
    yield from _remark_line(f"Fewer than {MIN_CLUSTERS} conversations, so no intervals", narrow)


def warning_lines(evaluations: Sequence[Evaluation]) -> Iterator[str]:
    """Yield one warning per sentence about answers or verdicts, for any use of them."""
    rows_of = _rows_of(evaluations)
    yield from anchor_lines(evaluations)
    yield from verdict_lines(evaluations)
    yield from implausible_lines(evaluations)
    yield from _twin_lines(rows_of)
    shortened = {
        ("", evaluation.model): text
        for evaluation in evaluations
        if (text := shortened_prompts(evaluation.provenance.values()))
    }
    yield from _remark_line("Prompts that did not fit", shortened)


def warnings_and_remarks(evaluations: Sequence[Evaluation]) -> Iterator[str]:
    """Yield the warnings about answers or verdicts, then the remarks."""
    yield from warning_lines(evaluations)
    yield from remark_lines(evaluations)


def remark_lines(evaluations: Sequence[Evaluation]) -> Iterator[str]:
    """Yield the remarks on repeated judging and injected passages, one sentence each."""
    yield from repeat_lines(evaluations)
    saw = {
        key: [value for row in rows if (value := row.values.get(FOLLOWED)) is not None]
        for key, rows in _rows_of(evaluations).items()
    }
    yield from _remark_line(
        "Injected passages: not comparable with runs without them; answers that follow the injected instruction",
        {key: f"{round(sum(values))} of {len(values)}" for key, values in saw.items() if values},
    )


def remarks_table(evaluations: Sequence[Evaluation]) -> list[Table]:
    """Return the remarks on partial judging, repeats and injected passages, one per row. [] without remarks."""
    lines = [*decision_lines(evaluations), *remark_lines(evaluations)]
    return [Table("Remarks", ("remark",), tuple((line,) for line in lines))] if lines else []


_MIN_SAME_SHARE = 0.9


def _twin_lines(rows_of: Mapping[_Group, Sequence[ScoredAnswer]]) -> Iterator[str]:
    """Yield a line for two models of a setting with nearly identical answers: likely one system under two names."""
    hashes = {
        key: {row.task.task_id: row.answer_hash for row in rows if row.answer_hash}
        for key, rows in rows_of.items()
        if not is_baseline(key[1])
    }
    for ((setting, model), first), ((other_setting, twin), second) in combinations(hashes.items(), 2):
        shared = first.keys() & second.keys() if setting == other_setting else set()
        n_same = sum(first[task_id] == second[task_id] for task_id in shared)
        if len(shared) >= MIN_CLUSTERS and n_same >= _MIN_SAME_SHARE * len(shared):
            in_setting = f" in {setting}" if setting else ""
            yield f"Same answers: {model} and {twin}{in_setting}, identical in {n_same} of {len(shared)} tasks."


def decision_lines(evaluations: Sequence[Evaluation]) -> Iterator[str]:
    """Yield a line about judging that stopped at a decision: such scores cover some tasks and favor the decision."""
    early = "Stopping early tends to overestimate differences"
    by_decision = grouped(evaluations, lambda evaluation: early_stop_text(evaluation.provenance.values()))
    for text, stopped in by_decision.items():
        if text:
            yield f"Partial judging of {' and '.join(evaluation.model for evaluation in stopped)}: {text}. {early}."


def _remark_line(remark: str, texts: Mapping[_Group, str]) -> Iterator[str]:
    """Yield one line with a remark and the first few models that it applies to."""
    if texts:
        groups = [f"{model}{f' in {setting}' if setting else ''} ({text})" for (setting, model), text in texts.items()]
        remainder = [f"{len(groups) - _MAX_LISTED} more"] if len(groups) > _MAX_LISTED else []
        yield f"{remark}: {', '.join(groups[:_MAX_LISTED] + remainder)}."


# The summary of a scored system: main score, answerability accuracy, coverage.


def summary_section(evaluation: Evaluation, n_answered: int, n_tasks: int) -> Section:
    """Return a section with one row: setting, system, answered tasks, the suite's first metric with values, coverage.

    If no response has the main score, a sentence replaces a coverage of 0.
    """
    if evaluation.has_own_rows:
        return Section(f"Your rows: {evaluation.model}", {}, (rows_table(evaluation),))
    rows = evaluation.rows
    valued = valued_metrics(rows)
    present = {metric.name: metric for metric in evaluation.metrics if metric.name in valued}
    main = [name for name in present if name not in _NOT_MAIN][:1]
    missing_main = unscored_main([evaluation], present)
    names = [*main, *_more_metrics([evaluation], present, "".join(main))]
    cells = (score_cell(rows, name, present) for name in names)
    line: tuple[Cell, ...] = (rows[0].setting, evaluation.model, f"{n_answered} of {n_tasks}", *cells)
    legend = (
        f"{unscored_sentence(evaluation, missing_main)}." if missing_main else "",
        turn_error_sentence([evaluation]),
    )
    heads = ("setting", "system", "answered", *names)
    table = Table("Scores", heads, (line,), legend=tuple(filter(None, legend)))
    searches = _described_rows(rows, suite_named(AGENTIC).metrics)
    did = (Table("Searches", _DESCRIBED_COLUMNS, searches),) if searches else ()
    return Section(evaluation.kind[0], {}, (table, *did))


def rows_sentence(evaluation: Evaluation) -> str:
    """Return the system of the user's own rows and their number, which their table does not contain."""
    n = len(evaluation.rows)
    return f"{evaluation.model}: {n} row{'s' if n != 1 else ''}."


def rows_table(evaluation: Evaluation) -> Table:
    """Return all scores of the user's own rows, one per line. Such rows have no main score."""
    rows = evaluation.rows
    names = {name for row in rows for name in row.values} - set(_NOT_MAIN)
    requested = requested_metrics(evaluation.suite)
    metrics = [metric for metric in evaluation.metrics if metric.name in names]
    lines = _described_rows(rows, sorted(metrics, key=lambda metric: metric.name not in requested))
    n = len({row.task.conversation_id for row in rows})
    few = f"Fewer than {MIN_CLUSTERS} conversations, so no intervals: {n} (docs/statistics.md)."
    return Table("Scores", _DESCRIBED_COLUMNS, lines, legend=(few,) if n < MIN_CLUSTERS else ())


_DESCRIBED_COLUMNS = ("metric", "score", "description")


def _described_rows(rows: Sequence[ScoredAnswer], metrics: Sequence[Metric]) -> tuple[tuple[Cell, ...], ...]:
    """Return one line per metric of the rows: its mean and its description."""
    return tuple(
        (metric.name, mean_of(rows, metric.name, metric.bounds), metric.description)
        for metric in metrics
        if has_values(rows, metric.name)
    )


# Implausible answers: a line in the conclusion and a table. Scores count such answers unchanged.

_PLAUSIBILITY_NOTE = (
    "Checks of whether an answer is plausible at all (docs/metrics.md, Plausibility). Scores count implausible "
    "answers unchanged."
)


def implausible_lines(evaluations: Sequence[Evaluation]) -> Iterator[str]:
    """Yield one line for each check with a result, with an example."""
    for (setting, model), rows in _rows_of(evaluations).items():
        location = f"{model} in {setting}" if setting else model
        yield from (f"Implausible: {location}: {check}." for check in checked_answers(rows).summary)


def plausibility_table(evaluations: Sequence[Evaluation]) -> list[Table]:
    """Return the results of the checks, one per row. [] without results."""
    rows: list[tuple[Cell, ...]] = [
        (*names, check.name, check.count, check.n, fixed(check.share), check.example, check.excerpt)
        for names, own in by_setting(evaluations)
        for check in checked_answers(own).summary
    ]
    columns = ("setting", "model", "check", "answers", "n", "share", "example", "excerpt")
    return [Table("Plausibility", columns, tuple(rows), _PLAUSIBILITY_NOTE)] if rows else []

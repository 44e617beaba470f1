"""The conclusion of a report: who leads in each setting and by how much, where the loss is, and what to distrust."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import combinations

from ragtasks.metrics import Metric
from ragtasks.reports.tables._losses import loss_sentence
from ragtasks.reports.tables._repeats import anchor_lines, repeat_lines, verdict_lines
from ragtasks.reports.tables._scores import (
    by_setting,
    checked_answers,
    column_of,
    is_baseline,
    mean_of,
    missing_from,
    offered_tasks,
    plain_mean,
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

SAMPLE_WARNING = "Sample data: these scores show how things work and are no benchmark results."
TO_THE_BEST = "to the best"
"""Head of the column that says who leads, and whether the others may be as good."""

COVERAGES = ("coverage", "judge_coverage")
_BESIDE = ("ans_acc", *COVERAGES)
_WITHOUT_MAIN = ("rouge_l", "grounded")
"""Metrics of the first table where no response has the main score: refusals alone say little of the answers."""
_MOST_NAMED = 4  # models or evaluations in one line
_NOTE = (
    "{column}: difference on the tasks that both models scored. Above p {level} it may be chance; p is over "
    "conversations, corrected for all pairs of the table."
)

_Group = tuple[str, str]
"""Setting and model."""
_Gap = tuple[Estimate, float | None]
"""A difference to the best, and its p value by Holm."""


def conclusion(
    evaluations: Sequence[Evaluation], present: Mapping[str, Metric], main: str, asked: Sequence[str] = ()
) -> tuple[Table, str]:
    """Return models by settings, and in one sentence who leads.

    The table has the main score, its difference to the best, answerability accuracy, the metrics that were asked for,
    and coverage where it is below 1. Its legend says where the loss is and what went wrong most, then each thing to
    distrust, a line each. Of rows of one's own it is every score of a system, or no column of settings for several.
    """
    is_own = evaluations[0].has_own_rows
    if is_own and len(evaluations) == 1:
        table = rows_table(evaluations[0])
        doubts = _distrust(evaluations, _rows_of(evaluations), {}, present, main)
        legend = (turn_error_sentence(evaluations), *doubts)
        return replace(table, title="Conclusion", legend=tuple(filter(None, legend))), rows_sentence(evaluations[0])
    rows_of = _rows_of(evaluations)
    offered = offered_tasks(evaluations)
    n_tasks = {key: missing_from(rows, offered.get((key[1], key[0]))) for key, rows in rows_of.items()}
    whole = {key: rows for key, rows in rows_of.items() if n_tasks[key] is None}
    metric = present[main]
    bests, gaps = _differences(whole, metric)
    words = {(setting, best): "best" for setting, best in bests.items() if any(key[0] == setting for key in gaps)}
    words |= {key: _difference(*gap, is_ahead=_is_ahead(gap[0], metric)) for key, gap in gaps.items()}
    beside = _beside(evaluations, present, main, asked)
    lines: list[tuple[Cell, ...]] = []
    for key, rows in rows_of.items():
        scores = [mean_of(rows, name, present[name].bounds, n_tasks=n_tasks[key]) for name in (main, *beside)]
        other = "baseline" if is_baseline(key[1]) else "-" if n_tasks[key] is None else "fewer tasks: not ranked"
        compared = [words.get(key, other)] if words else []
        lines.append((*key[is_own:], len(rows), scores[0], *compared, *scores[1:]))
    heads = ("setting", "model", "n", main, *([TO_THE_BEST] if words else []), *beside)[is_own:]
    loss = "" if is_own else loss_sentence(evaluations, main)
    legend = (loss, turn_error_sentence(evaluations), *_distrust(evaluations, rows_of, n_tasks, present, main))
    note = _NOTE.format(column=TO_THE_BEST, level=LEVEL) if words else ""
    table = Table("Conclusion", heads, tuple(lines), note, tuple(filter(None, legend)))
    return table, _lead_sentence(evaluations, metric, rows_of, bests, gaps)


def _beside(
    evaluations: Sequence[Evaluation], present: Mapping[str, Metric], main: str, asked: Sequence[str] = ()
) -> list[str]:
    """Return the other metrics of the first table: the requested ones, and coverage if it is below 1."""
    lacking = unscored_main(evaluations, present)
    asked = [*asked, *(name for item in evaluations for name in requested_metrics(item.suite))]
    rows = [row for item in evaluations for row in item.rows]
    partial = partial_coverages(rows)
    if lacking:
        partial.remove("coverage")  # a line says that it is 0
    wanted = ("ans_acc", *(_WITHOUT_MAIN if lacking else ()), *asked, *partial)
    return [name for name in dict.fromkeys(wanted) if name in present and name != main]


def partial_coverages(rows: Sequence[ScoredAnswer]) -> list[str]:
    """Return the metrics of coverage that are below 1 for any response."""
    return [name for name in COVERAGES if any(row.values.get(name, 1.0) not in {None, 1.0} for row in rows)]


def _lead_sentence(
    evaluations: Sequence[Evaluation],
    metric: Metric,
    rows_of: Mapping[_Group, Sequence[ScoredAnswer]],
    bests: Mapping[str, str],
    gaps: Mapping[_Group, _Gap],
) -> str:
    """Return in one sentence who leads, by how much, and whether that is sure.

    It is of full RAG, or of the last setting that anyone has answered whole; empty where nobody has, or where neither a
    higher nor a lower score is better.
    """
    if not bests:
        return ""
    main, (setting, best) = metric.name, list(bests.items())[-1]
    score = cell_text(mean_of(rows_of[setting, best], main, metric.bounds))
    others = {model: gap for (name, model), gap in gaps.items() if name == setting}
    rivals = {model: item for model, (item, _) in others.items() if _is_ahead(item, metric)}
    second = _best([column_of(rows_of[setting, model], metric, model) for model in others], metric)
    has_lead = bool(others) and all(_is_sure(item) for item in others.values())
    inside = f" in {setting}" if setting else ""
    if second is None:
        opening = f"{best} has {main} {score}{inside}"
    elif rivals:
        rival = max(rivals, key=lambda model: abs(rivals[model].value or 0.0))
        shared = f"on the {rivals[rival].n_values} tasks that both scored {rival} is"
        gap = _how_sure(*others[rival])
        opening = f"{best} has the best mean {main} {score}{inside}, but {shared} {gap}"
    elif _is_equal(others[second]):
        equal = [model for model in others if model != second and _is_equal(others[model])]
        last = f" and {second}" if not equal else f", {second} and {len(equal)} more"
        opening = f"{best}{last} share the best mean {main} {score}{inside}"
    else:
        words = f"leads{inside} with" if has_lead else "has the best mean"
        where = "" if has_lead else inside
        is_paired = others[second][0].value is not None
        ahead = _how_sure(*others[second], f" of {second}") if is_paired else f"and {second} answered other tasks"
        opening = f"{best} {words} {main} {score}{where}, {ahead}"
    behind = {name: gaps[name, best] for name in bests if (name, best) in gaps}
    elsewhere = [name for name, gap in behind.items() if _is_sure(gap) and not _is_ahead(gap[0], metric)]
    leads = "".join(f"; in {name} {bests[name]} leads" for name in elsewhere)
    return f"{opening}{leads}."


def _is_equal(found: _Gap) -> bool:
    return found[0].value is not None and not float(fixed(found[0].value)) and not _is_sure(found)


def _is_sure(found: _Gap) -> bool:
    """Return whether a difference to the best is significant."""
    return found[1] is not None and found[1] <= LEVEL


def _is_ahead(difference: Estimate, metric: Metric) -> bool:
    """Return whether who has no best mean is better on the tasks that both scored: the two left others unscored."""
    value = difference.value or 0.0
    return bool(float(fixed(value))) and (value > 0) is bool(metric.higher_is_better)


def _how_sure(difference: Estimate, p: float | None, other: str = "") -> str:
    """Return a gap, ahead of whom, and whether that is sure."""
    gap = f"{fixed(abs(difference.value or 0.0))} ahead{other}"
    if p is None:
        return f"{gap} (not tested: {difference.reason})"
    return f"{gap} (significant, p {p_text(p)})" if p <= LEVEL else f"{gap}, which may be chance (p {p_text(p)})"


def unscored_main(evaluations: Sequence[Evaluation], present: Mapping[str, Metric]) -> str:
    """Return the suite's main score where no response at all has it, as a coverage of 0 says; empty otherwise."""
    values = {row.values.get("coverage") for item in evaluations for row in item.rows if "coverage" in row.values}
    own = (metric.name for metric in evaluations[0].metrics if not metric.needs_judges)
    return next((name for name in own if name not in present), "") if values == {0.0} else ""


def unscored_sentence(evaluation: Evaluation, lacking: str) -> str:
    """Return, without its full stop, that nothing has the main score, and why where the evaluation says it."""
    is_semantic = lacking.startswith(("rb_", "bert"))  # others, as of facts chosen, lack something else
    without = " (encoder: none)" if is_semantic and evaluation.kind[1] == "none" else ""
    return f"No response has the suite's main score {lacking}{without}"


def _rows_of(evaluations: Sequence[Evaluation]) -> dict[_Group, list[ScoredAnswer]]:
    """Return setting and model -> rows: settings in their order, and in each the baselines last.

    The setting of rows of one's own is empty: they have none.
    """
    found = by_setting(sorted(evaluations, key=lambda item: is_baseline(item.model)))
    return {("" if evaluations[0].has_own_rows else key[0], key[1]): rows for key, rows in found}


def _differences(
    whole: Mapping[_Group, Sequence[ScoredAnswer]], metric: Metric
) -> tuple[dict[str, str], dict[_Group, _Gap]]:
    """Return the best model of each setting, and the others' differences to it with their p values by Holm."""
    # Baselines are ranked only where there is nothing else.
    ranked = {key: rows for key, rows in whole.items() if not is_baseline(key[1])} or whole
    bests: dict[str, str] = {}
    pairs: list[Comparison] = []
    n_more = 0
    for setting in dict.fromkeys(name for name, _ in ranked):
        inside = {model: rows for (name, model), rows in ranked.items() if name == setting}
        columns = [column_of(rows, metric, model, group=setting) for model, rows in inside.items()]
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
    """Return the model of the best mean, the first of equals; None where no direction is better, or nobody scored."""
    found = {column.name: plain_mean(list(column.values.values())).value for column in columns}
    means = {name: value for name, value in found.items() if value is not None}
    if not means or metric.higher_is_better is None:
        return None
    return (max if metric.higher_is_better else min)(means, key=means.__getitem__)


def _difference(found: Estimate, p: float | None, *, is_ahead: bool) -> str:
    if found.value is None:
        return "no shared tasks"
    gap = fixed(found.value) + (f" in its favour on the {found.n_values} tasks that both scored" if is_ahead else "")
    if p is None:
        return f"{gap}, not tested ({found.reason})"
    return f"{gap} (p {p_text(p)})"


def _distrust(
    evaluations: Sequence[Evaluation],
    rows_of: Mapping[_Group, Sequence[ScoredAnswer]],
    n_tasks: Mapping[_Group, int | None],
    present: Mapping[str, Metric],
    main: str,
) -> Iterator[str]:
    """Yield a sentence for each thing to distrust."""
    if evaluations[0].kind[0].endswith("(sample)"):
        yield SAMPLE_WARNING
    if no_main := unscored_main(evaluations, present):
        yield f"{unscored_sentence(evaluations[0], no_main)}, so {main} ranks."
    few = {key: f"{len(rows_of[key])} of {n}" for key, n in n_tasks.items() if n is not None}
    yield from _listed("Tasks missing: not to be ranked with the others", few)
    is_listed = evaluations[0].has_own_rows and len(evaluations) == 1  # its table has every score's own count
    shown = {} if is_listed else rows_of
    unscored = {key: sum(_lacks(row, present[main]) for row in rows) for key, rows in shown.items()}
    yield from _listed(
        f"Coverage: {main} is missing for some responses",
        {key: f"{n} of {len(rows_of[key])}" for key, n in unscored.items() if n},
    )
    if "judge_coverage" in present:
        shares = {
            key: plain_mean([row.values.get("judge_coverage") for row in rows]).value for key, rows in rows_of.items()
        }
        lacking = {key: fixed(value) for key, value in shares.items() if value is not None and value < 1}
        yield from _listed("Judge coverage is below 1", lacking)
    yield from doubt_lines(evaluations)
    n_conversations = {key: len({row.task.conversation_id for row in rows}) for key, rows in rows_of.items()}
    narrow = {key: str(n) for key, n in n_conversations.items() if n < MIN_CLUSTERS}
    yield from _listed(f"Fewer than {MIN_CLUSTERS} conversations, so no intervals", narrow)


def doubt_lines(evaluations: Sequence[Evaluation]) -> Iterator[str]:
    """Yield a sentence for each reason to distrust answers or verdicts, whatever they are used for."""
    rows_of = _rows_of(evaluations)
    yield from anchor_lines(evaluations)
    yield from verdict_lines(evaluations)
    yield from implausible_lines(evaluations)
    yield from _twin_lines(rows_of)
    cut = {("", item.model): text for item in evaluations if (text := shortened_prompts(item.provenance.values()))}
    yield from _listed("Prompts that did not fit", cut)


def doubts_and_remarks(evaluations: Sequence[Evaluation]) -> Iterator[str]:
    """Yield the reasons to distrust answers or verdicts, then the remarks."""
    yield from doubt_lines(evaluations)
    yield from remark_lines(evaluations)


def remark_lines(evaluations: Sequence[Evaluation]) -> Iterator[str]:
    """Yield the remarks on repeated judging and injected passages, a sentence each."""
    yield from repeat_lines(evaluations)
    saw = {
        key: [value for row in rows if (value := row.values.get(FOLLOWED)) is not None]
        for key, rows in _rows_of(evaluations).items()
    }
    yield from _listed(
        "Injected passages, so not to be set beside runs without; answers that follow the one they saw",
        {key: f"{round(sum(values))} of {len(values)}" for key, values in saw.items() if values},
    )


def remarks_table(evaluations: Sequence[Evaluation]) -> list[Table]:
    """Return the remarks on until-decided judging, repeats and injected passages, a row each; none without any."""
    lines = [*decision_lines(evaluations), *remark_lines(evaluations)]
    return [Table("Remarks", ("remark",), tuple((line,) for line in lines))] if lines else []


_NEARLY_ALL = 0.9


def _twin_lines(rows_of: Mapping[_Group, Sequence[ScoredAnswer]]) -> Iterator[str]:
    """Yield a line for two models of a setting that gave nearly all the same answers: one system under two names."""
    hashes = {
        key: {row.task.task_id: row.answer_hash for row in rows if row.answer_hash}
        for key, rows in rows_of.items()
        if not is_baseline(key[1])
    }
    for ((setting, one), first), ((other_setting, other), second) in combinations(hashes.items(), 2):
        shared = first.keys() & second.keys() if setting == other_setting else set()
        n_same = sum(first[task_id] == second[task_id] for task_id in shared)
        if len(shared) >= MIN_CLUSTERS and n_same >= _NEARLY_ALL * len(shared):
            inside = f" in {setting}" if setting else ""
            yield f"Same answers: {one} and {other}{inside}, word for word in {n_same} of {len(shared)} tasks."


def decision_lines(evaluations: Sequence[Evaluation]) -> Iterator[str]:
    """Yield what was judged only until a decision: such scores are of a part, and end on its side by chance."""
    for text, found in grouped(evaluations, lambda item: early_stop_text(item.provenance.values())).items():
        if text:
            early = "A race that ends early tends to show too large differences"
            yield f"Not a full judging, {' and '.join(item.model for item in found)}: {text}. {early}."


def _lacks(row: ScoredAnswer, metric: Metric) -> bool:
    if row.values.get(metric.name) is not None or row.task.answerability in metric.undefined_on:
        return False
    return not metric.undefined_reason or row.unscored.get(metric.name) != metric.undefined_reason


def _listed(what: str, found: Mapping[_Group, str]) -> Iterator[str]:
    """Yield one line that says whom it is about, as far as there is room."""
    if found:
        named = [f"{model}{f' in {setting}' if setting else ''} ({text})" for (setting, model), text in found.items()]
        more = [f"{len(named) - _MOST_NAMED} more"] if len(named) > _MOST_NAMED else []
        yield f"{what}: {', '.join(named[:_MOST_NAMED] + more)}."


# The few values that summarise a scored system: main score, answerability accuracy, coverage.


def summary_section(evaluation: Evaluation, n_answered: int, n_tasks: int) -> Section:
    """Return one line: setting, system, answered of all tasks, the suite's first metric that has values, and coverage.

    Where no response has the main score, a sentence below says so in the place of a coverage of 0.
    """
    if evaluation.has_own_rows:
        return Section(f"Your rows: {evaluation.model}", {}, (rows_table(evaluation),))
    rows = evaluation.rows
    valued = {name for row in rows for name, value in row.values.items() if value is not None}
    present = {metric.name: metric for metric in evaluation.metrics if metric.name in valued}
    main = [name for name in present if name not in _BESIDE][:1]
    lacking = unscored_main([evaluation], present)
    names = [*main, *_beside([evaluation], present, "".join(main))]
    cells = (mean_of(rows, name, present[name].bounds) for name in names)
    line: tuple[Cell, ...] = (rows[0].setting, evaluation.model, f"{n_answered} of {n_tasks}", *cells)
    legend = (f"{unscored_sentence(evaluation, lacking)}." if lacking else "", turn_error_sentence([evaluation]))
    heads = ("setting", "system", "answered", *names)
    table = Table("Scores", heads, (line,), legend=tuple(filter(None, legend)))
    searches = _described(rows, suite_named(AGENTIC).metrics)
    did = (Table("What it searched for", _DESCRIBED, searches),) if searches else ()
    return Section(evaluation.kind[0], {}, (table, *did))


def rows_sentence(evaluation: Evaluation) -> str:
    """Return whose rows of one's own these are, and how many: their table has neither."""
    n = len(evaluation.rows)
    return f"{evaluation.model}: {n} row{'s' if n != 1 else ''}."


def rows_table(evaluation: Evaluation) -> Table:
    """Return every score that rows of one's own have, a line each: no single one of them is the main score."""
    rows = evaluation.rows
    names = {name for row in rows for name in row.values} - set(_BESIDE)
    asked = requested_metrics(evaluation.suite)
    metrics = [metric for metric in evaluation.metrics if metric.name in names]
    lines = _described(rows, sorted(metrics, key=lambda metric: metric.name not in asked))
    n = len({row.task.conversation_id for row in rows})
    few = f"Fewer than {MIN_CLUSTERS} conversations, so no intervals: {n} (docs/statistics.md)."
    return Table("Scores", _DESCRIBED, lines, legend=(few,) if n < MIN_CLUSTERS else ())


_DESCRIBED = ("metric", "score", "what it is")


def _described(rows: Sequence[ScoredAnswer], metrics: Sequence[Metric]) -> tuple[tuple[Cell, ...], ...]:
    """Return a line a metric that the rows have: its mean, and what it is."""
    return tuple(
        (metric.name, mean_of(rows, metric.name, metric.bounds), metric.description)
        for metric in metrics
        if any(row.values.get(metric.name) is not None for row in rows)
    )


# Answers that cannot be answers, beside the scores that count them: a line in the conclusion and a table.

_PLAUSIBILITY_NOTE = (
    "Checks of whether answers can be answers at all (docs/metrics.md, Plausibility), by model and setting. The scores "
    "count these answers as they are."
)


def implausible_lines(evaluations: Sequence[Evaluation]) -> Iterator[str]:
    """Yield one line for each check that found anything, with an example."""
    for (setting, model), rows in _rows_of(evaluations).items():
        where = f"{model} in {setting}" if setting else model
        yield from (f"Implausible: {where}: {item}." for item in checked_answers(rows).summary)


def plausibility_table(evaluations: Sequence[Evaluation]) -> list[Table]:
    """Return what the checks found, a row a check; none where they found nothing."""
    rows: list[tuple[Cell, ...]] = [
        (*names, item.name, item.count, item.n, fixed(item.share), item.example, item.excerpt)
        for names, own in by_setting(evaluations)
        for item in checked_answers(own).summary
    ]
    columns = ("setting", "model", "check", "answers", "n", "share", "example", "excerpt")
    return [Table("Plausibility", columns, tuple(rows), _PLAUSIBILITY_NOTE)] if rows else []

"""The tables of a report: settings side by side, one metric by every dimension, losses, judges.

Evaluations with other data, another encoder or another IDK detector are not comparable: each kind has its own section.
Every mean that leaves a response out shows its coverage.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Protocol, runtime_checkable

from ragtasks.benchmarks.mtrag import RatedResponse
from ragtasks.config import FailedTurn
from ragtasks.errors import ConfigurationError, close_matches
from ragtasks.metrics import (
    ANS_ACC,
    ANSWERABILITY_METRICS,
    CITATION_METRICS,
    CITED_PRECISION,
    CITED_RECALL,
    KIND_METRICS,
    N_CITATIONS,
    N_STATEMENTS,
    RANKED_BY,
    SUPPORT_SCORES,
    CitationKind,
    Metric,
    ranking_score,
)
from ragtasks.plugins import ExtensionPoint
from ragtasks.records import Score, Setting
from ragtasks.reports.tables._conclusion import (
    COVERAGES,
    conclusion,
    partial_coverages,
    plausibility_table,
    remarks_table,
    rows_sentence,
    rows_table,
    unscored_main,
    unscored_sentence,
)
from ragtasks.reports.tables._conversations import conversation_tables
from ragtasks.reports.tables._judging import card_tables, judge_tables
from ragtasks.reports.tables._losses import loss_tables
from ragtasks.reports.tables._own_history import own_history_tables
from ragtasks.reports.tables._paper import conditioning_table, paper_tables
from ragtasks.reports.tables._people import people_table
from ragtasks.reports.tables._published import published_score_tables
from ragtasks.reports.tables._repeats import NOT_REPEATED, anchors_table, repeats_table
from ragtasks.reports.tables._scores import (
    EMPTY,
    as_zero_table,
    by_setting,
    empty_note,
    error_table,
    has_values,
    is_baseline,
    mean_of,
    metric_columns,
    missing_baselines,
    missing_from,
    missing_tasks,
    row_slices,
    score_cell,
    valued_metrics,
    with_baselines,
    with_sides,
)
from ragtasks.reports.tables._searching import behaviour_tables, gain_tables, recall_tables
from ragtasks.reports.tables._turn_errors import turn_error_tables
from ragtasks.reports.tables._usage import usage_table
from ragtasks.results import (
    USAGE_NAMES,
    Evaluation,
    ScoredAnswer,
    comparable_evaluations,
    request_differences,
    scored_on,
    shortened_prompts,
)
from ragtasks.statistics import MIN_CLUSTERS, estimate_ratio
from ragtasks.suites import requested_metrics
from ragtasks.tables import ALL, Cell, Section, Table, Value, table_of

_SETTINGS = tuple(setting.value for setting in Setting)
_MOST_OVERVIEW = 9
_OVERVIEW = (
    *("rl_f", "rb_llm", "rb_alg", "rb_alg_raw", "rl_f_ibm", "rb_llm_ibm", "rb_alg_ibm"),
    *("ans_acc", "rouge_l", "coverage", "judge_coverage"),
)
_ELSEWHERE = {metric.name for metric in (*ANSWERABILITY_METRICS, *CITATION_METRICS)} - {ANS_ACC.name}
"""Metrics with a column or table of their own, unless they were requested."""
_RANKED_SETTINGS = (Setting.REFERENCE.value, Setting.FULL_RAG.value)
_RANKING_NOTE = (
    "Harmonic mean of the means of rl_f, rb_llm and rb_alg, as MTRAGEval ranks its tasks B (reference) and C "
    "(full_rag), in the paper profile. In brackets: the smallest number of tasks in any of the three means."
)
_CITED = (
    "Support of a sentence by its first cited passage: support_ by judges' labels, cited_ by its words. Precision is "
    "over sentences with citations, recall over all sentences (docs/grounding.md)."
)
_KIND_COLUMNS = ("setting", "model", "kind", "n", "share")
_KINDS = (
    "Share of all citations; missing: of the sentences that cite or should. other passage: a wrong one is cited, but "
    "another one that was shown supports the sentence. Support is by judges' labels where a first citation was judged, "
    "else by words (docs/grounding.md)."
)
_LEAK = (
    "passages = none: tasks without passages in the prompt. If these are exactly the unanswerable tasks (MTRAG-UN's "
    "reference setting), an empty list reveals them."
)


@dataclass(frozen=True, slots=True)
class ReportOptions:
    """Selection of the tables of a report."""

    metrics: tuple[str, ...] = ()
    """Metrics of the tables by dimension and of losses. If empty, the first metric of the suite with values."""
    tables: tuple[str, ...] = ()
    """Tables of other packages: the last tables of every section, in this order."""
    rated: tuple[RatedResponse, ...] = ()
    """Answers with human ratings, for a final table of human means."""
    failed_turn: FailedTurn | None = None
    """Definition of a failed turn. None: that of the results."""
    only_conclusion: bool = False
    """Whether a section with a conclusion has no other table."""


def report_sections(evaluations: Sequence[Evaluation], options: ReportOptions | None = None) -> list[Section]:
    """Return one section per group of comparable evaluations, with the differences between their requests."""
    chosen = options or ReportOptions()
    metric_names = {metric.name for evaluation in evaluations for metric in evaluation.metrics}
    for name in chosen.metrics:
        if name not in metric_names:
            raise ConfigurationError(f"unknown metric {name!r}: {close_matches(name, metric_names)}")
    return [_section(comparable, chosen) for comparable in comparable_evaluations(evaluations)]


def overview_sections(evaluations: Sequence[Evaluation]) -> list[Section]:
    """Return the first table of each section without baselines: settings side by side, one line per model."""
    sections = []
    for comparable in comparable_evaluations(evaluations):
        present = _present(comparable)
        note = empty_note(present.values()) if _has_empty(comparable) else ""
        is_own = comparable[0].has_own_rows and len(comparable) == 1
        table = rows_table(comparable[0]) if is_own else _overview_table(comparable, present, None, "By setting", note)
        if not is_own and (missing_main := unscored_main(comparable, present)):
            table = replace(table, legend=(f"{unscored_sentence(comparable[0], missing_main)}.",))
        provenance = {**scored_on(comparable[0]), **request_differences(comparable)}
        tables = (table, *as_zero_table(table, list(present.values())))
        sentence = rows_sentence(comparable[0]) if is_own else ""
        sections.append(Section(comparable[0].kind[0], brief_provenance(provenance), tables, sentence=sentence))
    return sections


_BRIEF = {"encoder of BERTScore": "encoder", "IDK detector": "IDK detector", "retriever": "retriever"}
_INTERVALS = "95 % intervals"
_ONLY_FULL = {*_BRIEF, "data revision", "metrics", "rubrics", "profiles", "prompts that did not fit"}


def brief_provenance(provenance: Mapping[str, str]) -> dict[str, str]:
    """Return the basis of the scores in short: the scoring, and the differences between the models."""
    scoring = ", ".join(f"{word} {provenance[name]}" for name, word in _BRIEF.items() if name in provenance)
    remaining = {name: text for name, text in provenance.items() if name not in {*_ONLY_FULL, _INTERVALS}}
    intervals = {_INTERVALS: "over conversations"} if _INTERVALS in provenance else {}
    return {**({"scored with": scoring} if scoring else {}), **intervals, **remaining}


def _section(evaluations: Sequence[Evaluation], options: ReportOptions) -> Section:
    present = _present(evaluations)
    metrics = [name for name in options.metrics if name in present] or list(present)[:1]
    opening, sentence = conclusion(evaluations, present, metrics[0], metrics[1:]) if metrics else (None, "")
    tables = [] if opening and options.only_conclusion else _tables(evaluations, present, metrics, options)
    provenance = {**scored_on(evaluations[0]), **request_differences(evaluations), **_notes(evaluations)}
    tables += added_tables(options.tables, evaluations)
    tables += [people_table(evaluations, options.rated)] if options.rated else []
    return Section(evaluations[0].kind[0], provenance, tuple(tables), opening, sentence)


def _tables(
    evaluations: Sequence[Evaluation], present: Mapping[str, Metric], metrics: Sequence[str], options: ReportOptions
) -> list[Table]:
    with_rules = with_baselines(evaluations)
    settings = [
        name for name in _SETTINGS if any(row.setting == name for evaluation in evaluations for row in evaluation.rows)
    ]
    overview = list(_overview(with_rules, present))
    of_settings = [(present[name], setting) for name in metrics for setting in settings]
    return [
        *overview,
        *as_zero_table(overview[0], list(present.values())),
        *_citations(evaluations, present),
        *usage_table(evaluations, present[metrics[0]] if metrics else None),
        *plausibility_table(evaluations),
        *remarks_table(evaluations),
        *turn_error_tables(evaluations),
        *conversation_tables(evaluations, present[metrics[0]] if metrics else None, options.failed_turn),
        *_ranking(overview[0]),
        *paper_tables(evaluations, present),
        *published_score_tables(evaluations, present),
        *conditioning_table(evaluations, present),
        *judge_tables(evaluations),
        *card_tables(evaluations),
        *anchors_table(evaluations),
        *repeats_table(evaluations),
        *(table for metric, setting in of_settings for table in own_history_tables(evaluations, metric, setting)),
        *(table for name in metrics for table in gain_tables(evaluations, present[name])),
        *recall_tables(evaluations),
        *behaviour_tables(evaluations),
        *(table for name in metrics for table in loss_tables(evaluations, name)),
        *(_by_dimension(with_rules, metric, setting) for metric, setting in of_settings),
        error_table(with_rules, [present[name] for name in metrics]),
    ]


def _present(evaluations: Sequence[Evaluation]) -> dict[str, Metric]:
    """Return the metrics with a value in any response, in the order of the suite, without usage metrics."""
    valued = valued_metrics(row for evaluation in evaluations for row in evaluation.rows)
    richest = max(evaluations, key=lambda evaluation: len(evaluation.suite))  # the agentic suite has all metrics
    return {metric.name: metric for metric in richest.metrics if metric.name in valued - USAGE_NAMES}


def _notes(evaluations: Sequence[Evaluation]) -> Mapping[str, str]:
    few = f"fewer than {MIN_CLUSTERS} conversations or equal values"
    intervals = f"over conversations (docs/statistics.md), none for {few}"
    judged = [row for evaluation in evaluations for row in evaluation.rows if row.verdict_values]
    if judged and not any(row.again for row in judged):
        intervals += f"; {NOT_REPEATED}"
    profiles = {"profiles": "official scripts for metrics that end in _ibm, the paper for all others"}
    has_profiles = any(metric.name == "rb_alg_ibm" for metric in evaluations[0].metrics)
    texts = {evaluation.model: shortened_prompts(evaluation.provenance.values()) for evaluation in evaluations}
    shortened = ", ".join(f"{model}: {text}" for model, text in texts.items() if text)
    fitting = {"prompts that did not fit": shortened} if shortened else {}
    return {**fitting, **(profiles if has_profiles else {}), _INTERVALS: intervals}


def _overview(evaluations: Sequence[Evaluation], present: Mapping[str, Metric]) -> Iterator[Table]:
    """Yield the settings side by side, on all their tasks and on the tasks that all of them share (paper, Table 5)."""
    is_own = evaluations[0].has_own_rows
    baselines = "" if is_own else missing_baselines(evaluations)
    empty = empty_note(present.values()) if _has_empty(evaluations) else ""
    yield _overview_table(evaluations, present, None, "By setting", f"{baselines} {empty}".strip())
    tasks_of: dict[str, set[str]] = {}
    for (setting, _), rows in by_setting(evaluations):
        tasks_of.setdefault(setting, set()).update(row.task.task_id for row in rows)
    if len(tasks_of) > 1:
        common = frozenset(set.intersection(*tasks_of.values()))
        title = f"By setting, on the {len(common)} shared tasks"
        yield _overview_table(evaluations, present, common, title, "")


def _has_empty(evaluations: Sequence[Evaluation]) -> bool:
    return any(row.values.get(EMPTY) for evaluation in evaluations for row in evaluation.rows)


def _overview_table(
    evaluations: Sequence[Evaluation],
    present: Mapping[str, Metric],
    included: frozenset[str] | None,
    title: str,
    note: str,
) -> Table:
    is_own = evaluations[0].has_own_rows
    names = [name for name in _OVERVIEW if name in present] if "rb_alg" in evaluations[0].rows[0].values else []
    valued = [name for name in present if name not in _ELSEWHERE and not (is_own and name == "coverage")]
    requested = [name for evaluation in evaluations for name in requested_metrics(evaluation.suite) if name in present]
    columns = with_sides(dict.fromkeys([*(names or valued[:_MOST_OVERVIEW]), *requested]), present)
    below_1 = partial_coverages([row for evaluation in evaluations for row in evaluation.rows])
    is_main_missing = bool(unscored_main(evaluations, present))  # a sentence reports that
    columns = [name for name in columns if name not in COVERAGES or (name in below_1 and not is_main_missing)]
    if _has_empty(evaluations) and EMPTY not in columns:
        columns.append(EMPTY)
    missing = missing_tasks(evaluations)
    rows: list[tuple[bool, tuple[Cell, ...]]] = []
    for system, chosen in by_setting(evaluations, lambda row: included is None or row.task.task_id in included):
        n_tasks = missing.get(system) if included is None else missing_from(chosen, len(included))
        scores = [score_cell(chosen, name, present, n_tasks=n_tasks) for name in columns]
        rows.append((n_tasks is not None, (*system, len(chosen), *scores)))
    rows.sort(key=lambda row: (_SETTINGS.index(str(row[1][0])), row[0]))
    heads = ("setting", "model", "n", *columns)
    # The user's own rows have no setting.
    return Table("Scores" if is_own else title, heads[is_own:], tuple(cells[is_own:] for _, cells in rows), note)


def _citations(evaluations: Sequence[Evaluation], present: Mapping[str, Metric]) -> Iterator[Table]:
    """Yield precision and recall of citations, and their kinds. Yields nothing without such scores."""
    if columns := metric_columns((*SUPPORT_SCORES, CITED_PRECISION.name, CITED_RECALL.name), present):
        groups = by_setting(evaluations)
        yield table_of("Citations", ("setting", "model"), groups, {"n": len, **columns}, _CITED)
    if {metric.name for metric in (N_CITATIONS, N_STATEMENTS)} <= present.keys():
        rows = [
            (*names, kind.value.replace("_", " "), *_counted(answers, kind))
            for names, answers in by_setting(evaluations)
            for kind in CitationKind
            if KIND_METRICS[kind].name in present
        ]
        yield Table("Citations one by one", _KIND_COLUMNS, tuple(rows), _KINDS)


def _counted(rows: Sequence[ScoredAnswer], kind: CitationKind) -> tuple[int, Value]:
    """Return the number of citations of a kind, and its share of all; for `MISSING` of all statements."""
    of_what = N_STATEMENTS if kind is CitationKind.MISSING else N_CITATIONS
    amounts = [row.values.get(of_what.name) for row in rows]
    shares = [row.values.get(KIND_METRICS[kind].name) for row in rows]
    # Without citations, all counts are 0 and there is no share. A share may also miss a judge's label.
    counts = [
        0.0 if amount == 0 else share * amount if share is not None and amount is not None else None
        for share, amount in zip(shares, amounts, strict=True)
    ]
    total = round(sum(count for count in counts if count is not None))
    overall = estimate_ratio(counts, amounts, [row.task.conversation_id for row in rows])
    if overall.low is None or overall.high is None:
        return total, overall
    return total, replace(overall, low=max(0.0, overall.low), high=min(1.0, overall.high))


def _ranking(overview: Table) -> Iterator[Table]:
    """Yield MTRAGEval's ranking score in its settings, if the first table has all three means."""
    if not set(RANKED_BY) <= set(overview.columns):
        return
    rows = []
    for row in overview.rows:
        cells = dict(zip(overview.columns, row, strict=True))
        means = {name: cell for name in RANKED_BY if isinstance(cell := cells[name], Value)}
        if row[0] in _RANKED_SETTINGS:
            # The coverage of the score is that of the mean with the lowest coverage.
            n_scored, n = min(mean.n_scored for mean in means.values()), max(mean.n for mean in means.values())
            value = ranking_score({name: Score(mean.value) for name, mean in means.items()}).value
            rows.append((*row[:2], Value(value, n_scored, n, n_tasks=means[RANKED_BY[0]].n_tasks)))
    if rows:
        yield Table("Ranking score", ("setting", "model", "harmonic mean"), tuple(rows), _RANKING_NOTE)


def _by_dimension(evaluations: Sequence[Evaluation], metric: Metric, setting: str) -> Table:
    missing = missing_tasks(evaluations)
    # A baseline derived from labels has a column only if it has a value.
    with_column = {
        evaluation.model for evaluation in evaluations if evaluation.samples or not is_baseline(evaluation.model)
    }
    chosen = [
        (model, rows, missing.get((setting, model)))
        for (name, model), rows in by_setting(evaluations)
        if name == setting and (model in with_column or has_values(rows, metric.name))
    ]
    chosen.sort(key=lambda side: side[2] is not None)
    lines: list[tuple[Cell, ...]] = []
    for part in row_slices([row for _, rows, _ in chosen for row in rows]):
        sides = [(part.of(rows), n_tasks if part.dimension == ALL else None) for _, rows, n_tasks in chosen]
        n = len({row.task.task_id for rows, _ in sides for row in rows})  # over all models
        scores = [
            mean_of(rows, metric.name, metric.bounds, n_tasks=n_tasks, n_absent=0 if n_tasks else n - len(rows))
            for rows, n_tasks in sides
        ]
        lines.append((part.dimension, part.value, n, *scores))
    heads = ("dimension", "value", "n", *(model for model, *_ in chosen))
    splits = any(dimension == "passages" for dimension, *_ in lines)
    note = f"{metric.description[:1].upper()}{metric.description[1:]}." + (f" {_LEAK}" if splits else "")
    inside = "" if evaluations[0].has_own_rows else f" in setting {setting}"
    return Table(f"{metric.name}{inside}", heads, tuple(lines), note)


# Tables that a user requests by name: one of ragtasks, and those of other packages.


@runtime_checkable
class ReportTable(Protocol):
    """Protocol of a table of a report, usually a function."""

    def __call__(self, evaluations: Sequence[Evaluation], /) -> Table:
        """Return one table.

        Args:
            evaluations: the comparable evaluations of one section, at least one. `rows` has the scores of each
                response. `answers()` yields each row with its response, which has its text, its task and its passages.
        """


TABLES = ExtensionPoint(
    "ragtasks.tables",
    "table",
    ReportTable,  # type: ignore[type-abstract]  # a protocol
    {"idk-detectors": "ragtasks.reports.tables._judging:detectors_table"},
)
"""Tables by name."""


def added_tables(names: Sequence[str], evaluations: Sequence[Evaluation]) -> list[Table]:
    """Return the tables with these names, in order."""
    tables = []
    for name in names:
        table = TABLES.build(name, Table, lambda make: make(evaluations))
        if any(len(row) != len(table.columns) for row in table.rows):
            expected = f"{len(table.columns)} cells per row, one per column"
            raise TABLES.refusal(name, expected, "rows of a different length")
        tables.append(table)
    return tables

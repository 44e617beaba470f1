"""The tables of a report: scores by setting and by dimension, losses, judges, baselines."""

from ragtasks.reports.tables._benchmark import benchmark_section, question_labels_table
from ragtasks.reports.tables._conclusion import SAMPLE_WARNING, TO_THE_BEST, summary_section, warnings_and_remarks
from ragtasks.reports.tables._conversations import (
    CONVERSATION_METRICS,
    SURVIVAL,
    SURVIVAL_HEADS,
    check_failed_turn,
    conversation_columns,
    conversations_by_system,
    failed_turn_definition,
    has_failed,
)
from ragtasks.reports.tables._losses import CLASSES, NO_LOSS, NOT_USED, loss_class
from ragtasks.reports.tables._losses import TITLE as LOSS_TITLE
from ragtasks.reports.tables._people import rated_evaluations
from ragtasks.reports.tables._report import (
    ReportOptions,
    ReportTable,
    brief_provenance,
    overview_sections,
    report_sections,
)
from ragtasks.reports.tables._scores import (
    BOTH_SIDES,
    DIMENSIONS,
    EMPTY,
    by_setting,
    checked_answers,
    column_of,
    empty_note,
    estimate_of,
    is_baseline,
    mean_of,
    means_table,
    missing_from,
    row_slices,
)
from ragtasks.reports.tables._usage import COSTS, FRONT, METRICS, ON_FRONT, front_of, spending_line

__all__ = [
    "BOTH_SIDES",
    "CLASSES",
    "CONVERSATION_METRICS",
    "COSTS",
    "DIMENSIONS",
    "EMPTY",
    "FRONT",
    "LOSS_TITLE",
    "METRICS",
    "NOT_USED",
    "NO_LOSS",
    "ON_FRONT",
    "SAMPLE_WARNING",
    "SURVIVAL",
    "SURVIVAL_HEADS",
    "TO_THE_BEST",
    "ReportOptions",
    "ReportTable",
    "benchmark_section",
    "brief_provenance",
    "by_setting",
    "check_failed_turn",
    "checked_answers",
    "column_of",
    "conversation_columns",
    "conversations_by_system",
    "empty_note",
    "estimate_of",
    "failed_turn_definition",
    "front_of",
    "has_failed",
    "is_baseline",
    "loss_class",
    "mean_of",
    "means_table",
    "missing_from",
    "overview_sections",
    "question_labels_table",
    "rated_evaluations",
    "report_sections",
    "row_slices",
    "spending_line",
    "summary_section",
    "warnings_and_remarks",
]

"""MTRAG, MTRAG-UN and MTRAG-S: tasks, retrieval files, human evaluation, rewriting tasks."""

from ragtasks.benchmarks.mtrag._benchmark import NO_LABELS, StandaloneLabels, read_standalone_labels, rewriting_tasks
from ragtasks.benchmarks.mtrag._human_evaluation import (
    ALL_PROPERTIES,
    FANC,
    HUMAN_EVALUATION_FILE,
    PUBLISHED_METRICS,
    REFERENCE_MODEL,
    WIN_RATE,
    RatedResponse,
    load_human_evaluation,
)
from ragtasks.benchmarks.mtrag._rows import domain_of

__all__ = [
    "ALL_PROPERTIES",
    "FANC",
    "HUMAN_EVALUATION_FILE",
    "NO_LABELS",
    "PUBLISHED_METRICS",
    "REFERENCE_MODEL",
    "WIN_RATE",
    "RatedResponse",
    "StandaloneLabels",
    "domain_of",
    "load_human_evaluation",
    "read_standalone_labels",
    "rewriting_tasks",
]

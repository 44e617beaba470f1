"""The command line. Importing this package registers every command."""

from ragtasks.cli import (
    data,
    doctor,
    evaluation,
    gate,
    init,
    judges,
    reporting,
    results,
    retrieval,
    score,
    submissions,
    tasks,
    trec_rag,
)
from ragtasks.cli.app import app, main, put_in_groups

put_in_groups(app)

__all__ = [
    "app",
    "data",
    "doctor",
    "evaluation",
    "gate",
    "init",
    "judges",
    "main",
    "put_in_groups",
    "reporting",
    "results",
    "retrieval",
    "score",
    "submissions",
    "tasks",
    "trec_rag",
]

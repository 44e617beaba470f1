"""The command line; importing this package lets every command join the application."""

from ragtasks.cli import (
    arena,
    cache,
    calibrate,
    check,
    compare,
    corpus,
    describe,
    doctor,
    evaluate_run,
    fetch,
    judge,
    judge_passages,
    link,
    plan,
    report,
    results,
    retrieve,
    run,
    runs,
    score,
    submit,
    synthesize,
    trec_rag,
)
from ragtasks.cli._groups import put_in_groups
from ragtasks.cli.app import app, main

put_in_groups(app)

__all__ = [
    "app",
    "arena",
    "cache",
    "calibrate",
    "check",
    "compare",
    "corpus",
    "describe",
    "doctor",
    "evaluate_run",
    "fetch",
    "judge",
    "judge_passages",
    "link",
    "main",
    "plan",
    "report",
    "results",
    "retrieve",
    "run",
    "runs",
    "score",
    "submit",
    "synthesize",
    "trec_rag",
]

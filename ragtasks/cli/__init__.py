"""The command line; importing this package lets every command join the application."""

from ragtasks.cli import (
    cache,
    calibrate,
    compare,
    corpus,
    doctor,
    evaluate_run,
    fetch,
    judge,
    link,
    report,
    results,
    retrieve,
    run,
    runs,
    submit,
    trec_rag,
    validate,
)
from ragtasks.cli.app import app, main

__all__ = [
    "app",
    "cache",
    "calibrate",
    "compare",
    "corpus",
    "doctor",
    "evaluate_run",
    "fetch",
    "judge",
    "link",
    "main",
    "report",
    "results",
    "retrieve",
    "run",
    "runs",
    "submit",
    "trec_rag",
    "validate",
]

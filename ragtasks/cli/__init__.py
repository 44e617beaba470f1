"""The command line; importing this package lets every command join the application."""

from ragtasks.cli import cache, comparing, evaluation, history, reporting, retrieval, submission, trec_rag, validating
from ragtasks.cli.app import app, main

__all__ = [
    "app",
    "cache",
    "comparing",
    "evaluation",
    "history",
    "main",
    "reporting",
    "retrieval",
    "submission",
    "trec_rag",
    "validating",
]

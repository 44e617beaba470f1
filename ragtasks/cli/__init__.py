"""The command line; importing this package lets every command join the application."""

from ragtasks.cli import comparing, evaluation, retrieval, submission, trec_rag
from ragtasks.cli.app import app, main

__all__ = ["app", "comparing", "evaluation", "main", "retrieval", "submission", "trec_rag"]

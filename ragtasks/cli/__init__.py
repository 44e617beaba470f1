"""The command line; importing this package lets every command join the application."""

from ragtasks.cli import arena, doctor, evaluate, reporting, retrieval, setup, submissions, synthesis
from ragtasks.cli.app import app, main, put_in_groups

put_in_groups(app)

__all__ = [
    "app",
    "arena",
    "doctor",
    "evaluate",
    "main",
    "put_in_groups",
    "reporting",
    "retrieval",
    "setup",
    "submissions",
    "synthesis",
]

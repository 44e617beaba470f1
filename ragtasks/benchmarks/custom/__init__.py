"""Your own benchmark: a folder with conversations and passages, read, checked, searched."""

from ragtasks.benchmarks.custom._check import check_folder
from ragtasks.benchmarks.custom._rows import CONVERSATIONS, PASSAGES
from ragtasks.benchmarks.custom._search import search

__all__ = [
    "CONVERSATIONS",
    "PASSAGES",
    "check_folder",
    "search",
]

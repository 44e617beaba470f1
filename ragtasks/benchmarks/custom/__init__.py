"""Your own benchmark: a folder with conversations and passages, read, checked, searched."""

from ragtasks.benchmarks.custom._check import check_folder

__all__ = [
    "check_folder",
]

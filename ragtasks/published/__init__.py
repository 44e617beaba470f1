"""Scores that papers and shared tasks published, as data files with source and date, and their one reader."""

from ragtasks.published._corpora import OFFICIAL_CORPUS_SIZES, other_sizes
from ragtasks.published._tables import (
    PublishedTable,
    published_subsets,
    published_table,
    published_tables,
    read_published,
)

__all__ = [
    "OFFICIAL_CORPUS_SIZES",
    "PublishedTable",
    "other_sizes",
    "published_subsets",
    "published_table",
    "published_tables",
    "read_published",
]

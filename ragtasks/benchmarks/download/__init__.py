"""Official files: where they come from, fetched whole, proved by checksum."""

from ragtasks.benchmarks.download._fetch import DEFAULT_GROUPS, FileStatus, adopt, fetch, verify
from ragtasks.benchmarks.download._files import Source, SourceFile, listing, locate, source_files, storing

__all__ = [
    "DEFAULT_GROUPS",
    "FileStatus",
    "Source",
    "SourceFile",
    "adopt",
    "fetch",
    "listing",
    "locate",
    "source_files",
    "storing",
    "verify",
]

"""The ids of the documents in a benchmark's corpora, for the corpora on this machine."""

from __future__ import annotations

import io
import zipfile
import zlib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import cast

from ragtasks.benchmarks import Benchmark, retrieval_side
from ragtasks.errors import BenchmarkFileError
from ragtasks.files import bounded_lines, parse_json

_BLOCK = 1 << 20  # read ahead: a zip's own reader of bounded lines is slow

Documents = Mapping[str, frozenset[str]]
"""Short name of a corpus -> ids of its documents."""


def document_ids_by_domain(benchmark: Benchmark) -> Documents:
    """Return the ids of the documents of every corpus that the benchmark's tasks search."""
    side = retrieval_side(benchmark.name)
    present = {task.domain for task in benchmark.tasks}
    files = {domain: side.corpus_file(benchmark.root, domain) for domain in side.domains if domain in present}
    return {domain: frozenset(document_ids(path)) for domain, path in files.items()}


def document_ids(path: Path) -> Iterator[str]:
    """Yield the ids of the documents of a zipped corpus, which is read as a stream."""
    number = 0
    # `number` outlives the loop: the error below says how far the file could be read.
    try:
        with zipfile.ZipFile(path) as archive, archive.open(archive.namelist()[0]) as member:
            lines = io.BufferedReader(cast(io.RawIOBase, member), _BLOCK)
            for number, line in enumerate(bounded_lines(lines), start=1):  # noqa: B007
                if line.strip():
                    yield str(parse_json(line)["_id"])
    # A damaged stream shows as one of these; RuntimeError is zipfile's word for a password or an unknown method.
    except (zipfile.BadZipFile, zlib.error, EOFError, OSError, RuntimeError, ValueError, LookupError, TypeError) as e:
        raise BenchmarkFileError(
            "corpus",
            where=f"{path}, line {number}",
            expected="a zip with one file of JSON lines with `_id`",
            found=f"{type(e).__name__}: {e}",
            next_step="fetch the corpora again, or leave documents unchecked with --no-documents",
        ) from e

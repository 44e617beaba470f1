"""Requirements of a run: retriever, queries and rewriter, corpora, weights, servers and disk space."""

from __future__ import annotations

import zipfile
from collections.abc import Mapping, Sequence
from contextlib import suppress
from functools import partial
from itertools import islice
from pathlib import Path

import orjson

from ragtasks.benchmarks import retrieval_side
from ragtasks.clients import endpoint_of, endpoint_requirements
from ragtasks.errors import ConfigurationError, RagtasksError, close_matches, missing_path
from ragtasks.files import disk_space, writable_folder
from ragtasks.requirements import Requirement
from retrieval_cache.corpora.containers import shards_of
from retrieval_cache.corpora.passages import read_corpus
from retrieval_cache.retrievers.protocol import Retriever, index_bytes, names_passages, requirements_of
from retrieval_cache.service import Rewriter, Workspace, check_request
from retrieval_cache.spec import parse

_ROWS = 200
"""Rows of a corpus whose mean length is used to estimate the number of rows."""
_COMPRESSION = 4
"""Estimated bytes of English text per compressed byte."""


def retrieval_requirements(
    workspace: Workspace,
    line: str,
    forms: Sequence[str],
    *,
    rewriter: Rewriter,
    corpora: Mapping[str, str] | None = None,
    encode_with: str | None = None,
) -> list[Requirement]:
    """Return the requirements of `retrieve` for these arguments and each query form."""

    def check_data() -> str:
        benchmark = workspace.open()
        return f"{benchmark.label} in {benchmark.root}"

    def check_form(form: str) -> str:
        check_request(workspace, line, form, rewriter, encode_with)
        return form

    def check_corpora() -> str:
        return f"{len(_corpora(workspace, corpora or {}))} corpora"

    requirements = [Requirement("data", f"data of {workspace.benchmark}", check_data)]
    requirements += [Requirement("queries", "queries", partial(check_form, form)) for form in forms]
    requirements.append(Requirement("corpus", "corpora", check_corpora))
    with suppress(RagtasksError):  # reported by the requirement of the queries
        retriever = parse(line, workspace.secrets)
        requirements += requirements_of(retriever, workspace.secrets)
        requirements.append(
            disk_space(workspace.store, "runs", lambda: _index_bytes(retriever, workspace, corpora or {}))
        )
    if rewriter.model:
        endpoint = endpoint_of(rewriter.model)
        requirements += endpoint_requirements(endpoint, "rewriter", workspace.secrets)
    return [*requirements, writable_folder(workspace.store, "runs")]


def _index_bytes(retriever: Retriever, workspace: Workspace, replaced: Mapping[str, str]) -> float:
    """Return the estimated size in bytes of the indexes of all corpora, less the indexes already in the store.

    For a folder of shards the size is unknown, because only passages named by a run may be read.
    """
    with suppress(RagtasksError):  # reported by the requirement of the corpora
        sizes = [
            _size(location)
            for location in _corpora(workspace, replaced)
            if not (shards_of(location) and names_passages(retriever))
        ]
        needed = sum(index_bytes(retriever, n_passages, n_bytes) for n_passages, n_bytes in sizes)
        stored = [
            file for name in ("indexes", "vectors") for file in (workspace.store / name).rglob("*") if file.is_file()
        ]
        return max(0.0, needed - sum(file.stat().st_size for file in stored))
    return 0.0


def _size(location: str) -> tuple[float, float]:
    """Return passages and bytes of text of a corpus, estimated from file sizes and the first rows; 0 on the hub."""
    if location.startswith("hf:"):
        return 0.0, 0.0
    path = Path(location).expanduser()
    n_bytes = sum(
        map(_uncompressed, [path] if path.is_file() else [file for file in path.rglob("*") if file.is_file()])
    )
    rows = [len(orjson.dumps(passage)) for passage in islice(read_corpus(location), _ROWS)]
    return n_bytes * len(rows) / sum(rows), n_bytes


def _uncompressed(file: Path) -> float:
    """Return the size in bytes of a file, uncompressed (estimated for a compressed file)."""
    if file.suffix == ".zip":
        with zipfile.ZipFile(file) as archive:
            return sum(member.file_size for member in archive.infolist())
    return file.stat().st_size * (_COMPRESSION if file.suffix in {".gz", ".zst", ".parquet"} else 1)


def _corpora(workspace: Workspace, replaced: Mapping[str, str]) -> list[str]:
    """Return the locations of the domains' corpora, checked before requests to a rewriter cost money."""
    benchmark = workspace.open()
    side = retrieval_side(benchmark.name)
    domains = side.domains_of(benchmark.tasks)
    problems: list[str] = []
    for domain, location in replaced.items():
        if domain not in domains:
            problems.append(f"corpora: {benchmark.name} has no domain {domain!r}; {close_matches(domain, domains)}")
        elif not location.startswith("hf:") and not Path(location).expanduser().exists():
            problem, next_step = missing_path(Path(location))
            problems.append(f"corpora: {domain}: {location}: {problem}. Next step: {next_step}")
    files = {domain: side.corpus_file(benchmark.root, domain) for domain in domains if domain not in replaced}
    if missing := [str(file) for file in files.values() if not file.exists()]:
        problems.append(
            f"corpora of {benchmark.name}: missing: {', '.join(missing)}. Next step: `ragtasks data fetch "
            f"{benchmark.name} --group corpora`, or name another corpus for the domain"
        )
    if problems:
        raise ConfigurationError("\n".join(problems))
    return [*map(str, files.values()), *replaced.values()]

"""Stored runs: one folder each, complete or missing, under names chosen by users.

    <store>/runs/<name>/manifest.json
                        <domain>.trec
                        contexts/<setting>.jsonl
    <store>/indexes/<hash of corpus and retriever>/     shared by all query forms
    <store>/vectors/<hash of corpus and encoder>/       shared by retrievers and engines
    <store>/searches/<hash of corpus and retriever>/    searches of agentic tasks
    <store>/building/<key>/                             an unfinished run, continued by the next call
    <store>/replies.sqlite                              replies of language models

A run is published by renaming its folder once all files are written.
"""

from __future__ import annotations

import contextlib
import os
import shutil
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from filelock import FileLock

from ragtasks.errors import CacheError, close_matches, missing_path
from ragtasks.files import MANIFEST, Manifest, file_hash, new_run_name, read_manifest, run_folder, write_manifest

_SHORT = 12
SAME_AS = "same_as"
"""Key of a manifest: name of the run whose files are linked."""


@dataclass(frozen=True, slots=True)
class StoredRun:
    """A finished run on disk."""

    folder: Path
    manifest: Manifest


class RunStore:
    """The runs in one folder."""

    def __init__(self, root: Path) -> None:
        self.root = root

    @property
    def runs(self) -> Path:
        """Folder of the finished runs."""
        return self.root / "runs"

    @property
    def replies(self) -> Path:
        """File with replies of rewriters, rerankers and judges; may be missing."""
        return self.root / "replies.sqlite"

    def folder(self, kind: str, key: str) -> Path:
        """Return the folder of a hash. `kind` is `indexes`, `vectors`, `searches`, or `building` (unfinished runs)."""
        return self.root / kind / key[:32]

    def all(self) -> list[StoredRun]:
        """Return all readable finished runs by name. `unreadable` returns the errors of the others."""
        return [run for run in self._read() if isinstance(run, StoredRun)]

    def unreadable(self) -> list[str]:
        """Return one line per run with a corrupt manifest."""
        return [" ".join(str(error).split()) for error in self._read() if isinstance(error, CacheError)]

    def _read(self) -> Iterator[StoredRun | CacheError]:
        for folder in self._folders():
            try:
                yield StoredRun(folder, read_manifest(folder))
            except CacheError as error:
                yield error

    def _folders(self) -> list[Path]:
        return sorted(path.parent for path in self.runs.glob(f"*/{MANIFEST}"))

    def named(self, name: str, *, is_no_file: bool = False) -> StoredRun:
        """Return the run with a name."""
        folder = self._folder(name, is_no_file=is_no_file)
        return StoredRun(folder, read_manifest(folder))

    def _folder(self, name: str, *, is_no_file: bool = False) -> Path:
        folder = run_folder(self.root, name)
        if (folder / MANIFEST).is_file():
            return folder
        names = [path.name for path in self._folders()]
        no_runs = "no runs yet; `ragtasks retrieve --retriever bm25` makes a run"
        hint = close_matches(name, names) if names else no_runs
        near = missing_path(Path(name))[1].partition("; ")[2] if is_no_file else ""
        problem = f"no file or folder {name!r}, and no run of that name" if is_no_file else f"no run {name!r}"
        raise CacheError(f"{problem} in {self.runs}: {near or hint}")

    def with_key(self, key: str) -> StoredRun | None:
        """Return a run with this content, under any name; None if missing."""
        return next((run for run in self.all() if run.manifest.key == key), None)

    def publish(self, work: Path, name: str) -> StoredRun:
        """Move a finished work folder to its name, without the partial files of killed calls."""
        folder = run_folder(self.root, new_run_name(name))
        folder.parent.mkdir(parents=True, exist_ok=True)
        for part in work.rglob("*.part"):
            part.unlink()
        try:
            work.rename(folder)
        except OSError as error:
            raise CacheError(f"cannot publish run {name!r} at {folder}: {error.strerror or error}") from error
        return StoredRun(folder, read_manifest(folder))

    def linked(self, run: StoredRun, name: str) -> StoredRun:
        """Return a run under a second name, with hard links to the files if the disk supports them."""
        folder = run_folder(self.root, new_run_name(name))
        if (folder / MANIFEST).is_file():
            return self.named(name)
        work = self.root / "building" / f"linked-{name}"
        try:
            shutil.rmtree(work, ignore_errors=True)
            shutil.copytree(run.folder, work, copy_function=_link)
        except (OSError, shutil.Error) as error:
            raise CacheError(f"cannot write run {name!r} at {work}: {error}") from error
        same_as = run.manifest.metadata.get(SAME_AS, run.folder.name)
        write_manifest(work, replace(run.manifest, name=name, metadata={**run.manifest.metadata, SAME_AS: same_as}))
        return self.publish(work, name)

    def remove(self, name: str) -> None:
        """Delete a run, even a corrupt one. Its index is kept for other runs."""
        folder = self._folder(name)
        leaving = self.root / "building" / f"removed-{folder.name}"
        try:
            leaving.parent.mkdir(parents=True, exist_ok=True)
            shutil.rmtree(leaving, ignore_errors=True)
            folder.rename(leaving)
            shutil.rmtree(leaving)
        except OSError as error:
            raise CacheError(f"cannot remove run {name!r} at {folder}: {error.strerror or error}") from error

    @contextlib.contextmanager
    def only_builder(self, key: str) -> Iterator[None]:
        """Lock the run with this key, so that other processes wait and then find it.

        The lock ends with the process, even if it is killed.
        """
        path = self.root / "locks" / f"{key[:32]}.lock"
        lock = FileLock(path)
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            lock.acquire()
        except (OSError, NotImplementedError) as error:
            problem = error.strerror if isinstance(error, OSError) and error.strerror else error
            raise CacheError(f"cannot write to the run store {self.root}: {problem}") from error
        try:
            yield
        finally:
            lock.release()


def _link(source: str, target: str) -> None:
    """Hard-link a file under a second name, or copy it if the disk does not support links."""
    try:
        os.link(source, target)
    except OSError:
        shutil.copy2(source, target)


def list_runs(runs: Sequence[StoredRun]) -> list[str]:
    """Return a header and one line per run: name, data and revision, retriever, query form.

    A custom folder is shown under its name at the time of the run. The revision distinguishes folders of the same name.
    """
    rows = [("run", "data", "revision", "retriever", "queries")]
    for run in runs:
        spec, label = run.manifest.spec, data_label(run.manifest)
        retriever, queries = spec["retriever"]["name"], _queries_label(run.manifest)
        rows.append((run.folder.name, label, spec["revision"][:_SHORT], retriever, queries))
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return ["  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows]


def _queries_label(manifest: Manifest) -> str:
    """Return the query form, the rewriting model, and the number of queries without a rewrite."""
    queries, counts = manifest.spec["queries"], manifest.metadata.get("rewriting", {})
    labels = [str(form["client"]["model"]) for form in (queries, *queries.get("of", ())) if "client" in form]
    n_fallbacks = sum(counts.get("fallbacks", {}).values())
    labels += [f"{n_fallbacks} of {counts['asked']} are the last turn"] if n_fallbacks else []
    return f"{queries['form']} ({'; '.join(labels)})" if labels else str(queries["form"])


def data_label(manifest: Manifest) -> str:
    """Return the label of a run's data for tables, see `Benchmark.label`."""
    spec, metadata = manifest.spec, manifest.metadata
    copy = f": {metadata['copy']}" if "copy" in metadata else ""
    return f"{spec['benchmark']}{copy}{' (sample)' if spec['is_sample'] else ''}"


def fallbacks_of(manifest: Manifest) -> str:
    """Return the number of queries that fell back to the last turn, with the reasons; "" if 0."""
    counts = manifest.metadata.get("rewriting", {})
    fallbacks: Mapping[str, int] = counts.get("fallbacks", {})
    if not fallbacks:
        return ""
    reasons = "; ".join(f"{n}: {reason}" for reason, n in sorted(fallbacks.items(), key=lambda entry: -entry[1]))
    return f"{sum(fallbacks.values())} of {counts['asked']} queries are the last turn, not a rewrite ({reasons})"


def verify_run(run: StoredRun) -> list[str]:
    """Return the problems with a stored run's files, one per line; [] for an intact run."""
    problems = (file_error(run.folder / path, sha256) for path, sha256 in run.manifest.files.items())
    return [problem for problem in problems if problem]


def file_error(file: Path, sha256: str) -> str:
    """Return the problem with one file of a stored run; "" if its content is unchanged."""
    if not file.is_file():
        return f"{file}: missing"
    return "" if file_hash(file) == sha256 else f"{file}: content changed since it was written"


def diff_runs(first: Manifest, second: Manifest) -> list[str]:
    """Return the differing parts of two runs' specs, as `path: one | other`; [] for the same content."""
    left, right = dict(_leaves(first.spec)), dict(_leaves(second.spec))
    return [
        f"{path}: {left.get(path, '-')} | {right.get(path, '-')}"
        for path in sorted(left.keys() | right.keys())
        if left.get(path) != right.get(path)
    ]


def _leaves(value: Any, path: str = "") -> Iterator[tuple[str, str]]:
    if isinstance(value, dict):
        for key in value:
            yield from _leaves(value[key], f"{path}.{key}" if path else str(key))
    else:
        yield path, str(value)

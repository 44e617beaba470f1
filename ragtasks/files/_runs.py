"""Runs on disk: the contract between the precompute stage, which writes them, and the harness tasks, which read them.

A run is ranked passages for each query. It is stored as a TREC file a domain, beside the contexts that each setting
gives to each task, and a manifest that says what the run was made of. Text formats only, so that a run can be read,
compared and handed in without ragtasks.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path, PurePosixPath
from typing import Any

import orjson
from pydantic import BaseModel, ConfigDict, StrictStr, ValidationError

from ragtasks.errors import CacheError, ConfigurationError, misfits
from ragtasks.files._atomic import canonical_hash, write_atomically
from ragtasks.files._json_lines import bounded_lines
from ragtasks.files._trec import text_of, unreadable
from ragtasks.records import Contexts, Passage, Setting

OFFICIAL = "official"
"""Name of the run that a benchmark publishes itself."""

CLOSED_BOOK = "closed_book"
"""Stands for a run that finds nothing: what a model knows without any passage."""

_MAX_LISTED = 20  # errors of one file

MANIFEST = "manifest.json"
FORMAT = 1

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}")
_RESERVED = (OFFICIAL, CLOSED_BOOK)


@dataclass(frozen=True)
class Manifest:
    """What a stored run is made of; `key` changes when, and only when, something that changes the result does."""

    name: str
    """What users call the run."""
    spec: Mapping[str, Any]
    """Everything that decides the result: corpora, queries, retriever, parameters, versions."""
    files: Mapping[str, str] = field(default_factory=dict)
    """Path below the run's folder -> sha256."""
    metadata: Mapping[str, Any] = field(default_factory=dict)
    """What is worth knowing and decides nothing: times, counts, the machine."""

    @property
    def key(self) -> str:
        """Hash of the canonical JSON of `spec`."""
        return canonical_hash(self.spec)


def checked_run_name(name: str) -> str:
    """Return the name of a run, which is that of a folder in the store and never a path.

    Every run that is named anywhere passes here: a name that led out of the store would read, or remove, other files.
    """
    if not _NAME.fullmatch(name):
        raise ConfigurationError(
            f"run name {name[:120]!r}: expected letters, digits, `.`, `_` and `-`, at most 100, no path. Next step: "
            "name a stored run (`ragtasks results list`); `ragtasks retrieve --retriever run:FILE` makes one of a file"
        )
    return name


def new_run_name(name: str) -> str:
    """Return a name that a run can be stored under."""
    if name in _RESERVED:
        raise ConfigurationError(f"run name {name!r} is taken: it means no stored run. Next step: choose another")
    return checked_run_name(name)


def run_folder(store: Path, name: str) -> Path:
    """Return the folder of a stored run, which need not be there."""
    return store / "runs" / checked_run_name(name)


class _Part(BaseModel):
    """A part of a manifest: what is read of it, and whatever else is there."""

    model_config = ConfigDict(strict=True, extra="allow")


class _Corpus(_Part):
    n_passages: int | None = None


class _Queries(_Part):
    form: str


class _Retriever(_Part):
    name: str


class _Spec(_Part):
    benchmark: str
    is_sample: bool
    revision: str
    tasks: str
    corpora: dict[str, _Corpus]
    queries: _Queries
    retriever: _Retriever


class _Counted(_Part):
    left_out: list[str] = []


class _Rewriting(_Part):
    asked: int
    fallbacks: dict[str, int]


class _Metadata(_Part):
    retrieval: dict[str, _Counted] = {}
    rewriting: _Rewriting | None = None


class _ManifestFile(_Part):
    key: str
    name: str
    spec: _Spec
    files: dict[str, str]
    metadata: _Metadata


class _ContextsRow(BaseModel):
    """A line of the contexts of a setting."""

    model_config = ConfigDict(extra="forbid")

    task_id: StrictStr
    passages: tuple[Passage, ...]


def _corrupt(what: str, path: Path, expected: str, found: Sequence[str]) -> CacheError:
    n_more = len(found) - _MAX_LISTED
    shown = "; ".join(found[:_MAX_LISTED]) + (f"; and {n_more} more" if n_more > 0 else "")
    next_step = "remove the run with `ragtasks results remove NAME` and make it again"
    return CacheError(what, where=str(path), expected=expected, found=shown, next_step=next_step)


def write_contexts(path: Path, contexts: Mapping[str, tuple[Passage, ...]]) -> str:
    """Write the passages of each task as JSON lines, atomically, and return their sha256."""
    rows = [{"task_id": task_id, "passages": [asdict(item) for item in items]} for task_id, items in contexts.items()]
    return write_atomically(path, b"".join(orjson.dumps(row) + b"\n" for row in rows))


def read_contexts(folder: Path, setting: Setting) -> Contexts:
    """Return the passages that a stored run gives to each task of a setting."""
    manifest = read_manifest(folder)
    path = f"contexts/{setting.value}.jsonl"
    digest = hashlib.sha256()
    try:
        with (folder / path).open("rb") as stream:
            lines = list(bounded_lines(stream))
    except (OSError, ValueError) as error:
        raise unreadable(folder / path, str(error)) from error
    for line in lines:
        digest.update(line)
    if digest.hexdigest() != manifest.files.get(path):
        raise CacheError(f"{folder / path} has other bytes than were written; remove the run and make it again")
    return Contexts(manifest.name, setting, _contexts_of(folder / path, lines))


def _contexts_of(path: Path, lines: Iterable[bytes]) -> dict[str, tuple[Passage, ...]]:
    """Return task id -> passages of a file of contexts, each task once."""
    found: dict[str, tuple[Passage, ...]] = {}
    errors: list[str] = []
    for number, line in enumerate(lines, start=1):
        try:
            row = _ContextsRow.model_validate(orjson.loads(line))
        except orjson.JSONDecodeError as error:
            errors.append(f"line {number}: {error}")
        except ValidationError as error:
            errors += [f"line {number}: {text}" for text in misfits(error)]
        else:
            if row.task_id in found:
                errors.append(f"line {number}: task {row.task_id!r} is there already")
            found[row.task_id] = row.passages
    if errors:
        raise _corrupt("contexts of a stored run", path, "a task id and its passages in each line", errors)
    return found


def run_key(store: Path, name: str) -> str | None:
    """Return the key of a stored run, a hash of all it was made of; None for what is no stored run."""
    folder = run_folder(store, name)
    return read_manifest(folder).key if (folder / MANIFEST).is_file() else None


def seconds_a_query(store: Path, name: str) -> dict[str, float]:
    """Return domain -> seconds that searching took a query when a stored run was made; without what was not timed."""
    folder = run_folder(store, name)
    found = read_manifest(folder).metadata.get("searching", {}) if (folder / MANIFEST).is_file() else {}
    return {domain: timed["seconds"] / timed["queries"] for domain, timed in found.items()}


def spending_of_run(store: Path, name: str) -> dict[str, list[dict[str, Any]]]:
    """Return who was asked, such as `rewriter openai/m` -> sums of what the replies took when a stored run was made."""
    folder = run_folder(store, name)
    metadata = read_manifest(folder).metadata if (folder / MANIFEST).is_file() else {}
    found: dict[str, list[dict[str, Any]]] = {}
    for part in (metadata.get("rewriting", {}), *metadata.get("retrieval", {}).values()):
        for who, calls in part.get("spending", {}).items():
            found.setdefault(who, []).extend(calls)
    return found


def write_manifest(folder: Path, manifest: Manifest) -> None:
    """Write a run's manifest, last of its files: a run without one is not finished."""
    content = {"format": FORMAT, "key": manifest.key, **asdict(manifest)}
    write_atomically(folder / MANIFEST, orjson.dumps(content, option=orjson.OPT_INDENT_2 | orjson.OPT_SORT_KEYS))


def read_manifest(folder: Path) -> Manifest:
    """Return the manifest of a stored run."""
    path = folder / MANIFEST
    expected = "the manifest that `ragtasks retrieve` wrote"
    try:
        content = _renamed(orjson.loads(text_of(path)))
        _ManifestFile.model_validate(content)
        manifest = Manifest(content["name"], content["spec"], content["files"], content["metadata"])
        key = manifest.key
    except ValidationError as error:
        raise _corrupt("manifest of a run", path, expected, misfits(error)) from error
    except (orjson.JSONDecodeError, TypeError) as error:  # the second: nested too deeply for a hash
        raise _corrupt("manifest of a run", path, expected, [str(error)]) from error
    if content["key"] != key:
        raise CacheError(f"manifest {path} was changed by hand: its key does not fit its content")
    outside = [file for file in manifest.files if not _lies_below(file)]
    if outside:
        raise CacheError(f"manifest {path} names files outside of its folder ({outside[0]!r}): do not use this run")
    return manifest


def _renamed(content: Any) -> Any:
    """Return a manifest with the names of today: earlier versions wrote `facts` for `metadata`."""
    if not isinstance(content, dict) or "metadata" in content or "facts" not in content:
        return content
    return {**{key: value for key, value in content.items() if key != "facts"}, "metadata": content["facts"]}


def _lies_below(file: str) -> bool:
    """Return whether a path of a manifest stays in the run's folder."""
    path = PurePosixPath(file)
    return not path.is_absolute() and ".." not in path.parts

"""Segments by id from a source too large to be surveyed, such as the 113,520,750 segments of MS MARCO V2.1.

A run names some thousand segments, so only these are looked up: one pass over the shards, several at once, in memory
that depends on the run and not on the source. A line whose id is not wanted is not parsed: its id stands first, as in
the official files. What was found is kept for each shard, so a killed call reads only the shards that it had not
finished, and another run over the same segments reads none.

The fingerprint of a source is the sha256 of every shard's bytes, read anew each time. Size and time of change would be
faster and would miss a shard that was replaced with its time kept; the sha256 of the texts alone, as other corpora have
it, would need every line parsed. So the same segments compressed in another way are another source.

What only a survey sees is not seen: errors in lines that nobody asks for, unless they are cut off, and two
segments with an id that the run does not name.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor, as_completed
from functools import cached_property
from pathlib import Path
from typing import Any, TypeVar

import orjson

from ragtasks.errors import BenchmarkFileError, CacheError, clear_error
from ragtasks.files import canonical_hash, write_atomically
from ragtasks.records import Passage
from retrieval_cache.corpora._containers import Fields
from retrieval_cache.corpora._corpora import id_of, passage_of
from retrieval_cache.corpora._formats import shards_of
from retrieval_cache.corpora._json_rows import parsed, raw_lines
from retrieval_cache.retrievers import Progress, no_progress

_T = TypeVar("_T")
_FIELDS = Fields(passage_id=("docid", "_id", "id"))
_STARTS = (b'{"docid":"', b'{"docid": "')
_END = b"}\n"
_MOST_VIOLATIONS = 20
_MOST_WORKERS = 8
"""Unpacking a shard leaves the interpreter to others for nine tenths of the time, so more threads would wait."""
_FORMAT = 1


class SegmentSource:
    """The segments of a folder of shards that a run names."""

    def __init__(
        self,
        location: str,
        named: frozenset[str],
        folder_of: Callable[[str], Path],
        progress: Progress = no_progress,
    ) -> None:
        """Name the folder; nothing is read before it is needed.

        Args:
            location: folder of JSON-lines shards, each line with `docid` and `segment` (or `_id` and `text`).
            named: ids of the segments that are looked up.
            folder_of: gives the folder in which what was found is kept, for a hash of `named`.
            progress: told of every shard.
        """
        self._location = location
        self._shards = shards_of(location)
        self._named = named
        self._folder_of = folder_of
        self._progress = progress

    def describe(self) -> dict[str, Any]:
        """Return what decides the passages: the content of the shards, and which segments are looked up."""
        return dict(self._description)

    @cached_property
    def _description(self) -> dict[str, Any]:
        content = [[shard.name, shard.stat().st_size, self._sums[shard]] for shard in self._shards]
        return {
            "kind": "shards",
            "n_shards": len(self._shards),
            "sha256": canonical_hash(content),
            "n_named": len(self._named),
            "named": canonical_hash(sorted(self._named)),
        }

    @cached_property
    def _sums(self) -> Mapping[Path, str]:
        return self._by_shard("checksum", _sha256)

    def passages(self) -> Iterator[Passage]:
        """Yield the named segments, in the order of the source; a second call reads what the first one kept.

        Raises:
            BenchmarkFileError: named segments that are missing (all are listed), that stand twice or have no text; a
                shard that cannot be read on; lines that are no JSON: all errors of all shards.
            CacheError: the disk is full, or what was kept is corrupt.
        """
        folder = self._folder_of(canonical_hash({"format": _FORMAT, "named": sorted(self._named)}))
        kept = {shard: folder / f"{self._sums[shard]}.jsonl" for shard in self._shards}
        wanted = frozenset(passage_id.encode() for passage_id in self._named)
        violations = self._by_shard(
            "look up", lambda shard: [] if kept[shard].is_file() else _look_up(shard, wanted, kept[shard])
        )
        self._check([violation for shard in self._shards for violation in violations[shard]], kept)
        for shard in self._shards:
            yield from (passage for _, passage in _kept(kept[shard]))

    def _by_shard(self, what: str, work: Callable[[Path], _T]) -> dict[Path, _T]:
        """Return what `work` gives for each shard, several at once."""
        done: dict[Path, _T] = {}
        pool = ThreadPoolExecutor(min(_MOST_WORKERS, os.cpu_count() or 1))
        try:
            futures = {pool.submit(work, shard): shard for shard in self._shards}
            for future in as_completed(futures):
                done[futures[future]] = future.result()
                self._progress(what, len(done), len(self._shards))
        except OSError as error:
            raise BenchmarkFileError(f"cannot read the shards of {self._location}: {error}") from error
        finally:
            pool.shutdown(cancel_futures=True)
        return done

    def _check(self, violations: list[str], kept: Mapping[Path, Path]) -> None:
        """Raise one error for all errors, repeated and missing segments among them."""
        first: dict[str, str] = {}
        for shard, file in kept.items():
            for number, passage in _kept(file) if file.is_file() else ():
                place = f"{shard}, line {number}"
                if first.setdefault(passage.passage_id, place) != place:
                    violations.append(
                        f"{place}: the id {passage.passage_id!r} once more; first at {first[passage.passage_id]}"
                    )
        missing = sorted(self._named - first.keys())
        if missing and not first and not violations:
            violations.append(f"none of the {len(missing)} segments of the run; it names such as {missing[0]!r}")
        elif missing and all(file.is_file() for file in kept.values()):
            violations.append(f"{len(missing)} of {len(self._named)} segments are missing: {', '.join(missing)}")
        if violations:
            message = clear_error(
                "segments",
                where=self._location,
                expected="every segment that the run names, once, with a text",
                found="\n    ".join(violations),
                next_step="fetch broken shards anew; for missing segments name the source that the run was made over",
            )
            raise BenchmarkFileError(message)


def _sha256(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _look_up(shard: Path, wanted: frozenset[bytes], target: Path) -> list[str]:
    """Write the wanted segments of a shard with their lines, or return what is wrong with it and write nothing."""
    rows: list[bytes] = []
    violations: list[str] = []
    for number, line in raw_lines(shard):
        if isinstance(line, bytes) and _is_other(line, wanted):
            continue
        passage = line if isinstance(line, str) else _wanted_passage(line, wanted)
        if isinstance(passage, str):
            violations.append(f"{shard}, line {number}: {passage}")
            if len(violations) == _MOST_VIOLATIONS:
                return [*violations, f"{shard}: perhaps more, nothing was read after error {_MOST_VIOLATIONS}"]
        elif passage is not None:
            rows.append(orjson.dumps([number, passage]) + b"\n")
    if not violations:
        write_atomically(target, b"".join(rows))
    return violations


def _is_other(line: bytes, wanted: frozenset[bytes]) -> bool:
    """Return whether the first bytes of a whole line say that its segment is not wanted; False where they do not."""
    for start in _STARTS:
        if line.startswith(start):
            end = line.find(b'"', len(start))
            passage_id = line[len(start) : end]
            return end > 0 and passage_id not in wanted and b"\\" not in passage_id and line.endswith(_END)
    return False


def _wanted_passage(line: bytes, wanted: frozenset[bytes]) -> Passage | str | None:
    """Return the passage of a line, None where it is not wanted, or what is wrong with it."""
    row = parsed(line)
    if isinstance(row, str):
        return row
    passage_id = id_of(row, _FIELDS)
    if passage_id is not None and passage_id.encode() not in wanted:
        return None
    return passage_of(row, _FIELDS, "refuse")


def _kept(path: Path) -> Iterator[tuple[int, Passage]]:
    """Yield line and passage of what was found in a shard."""
    try:
        with path.open("rb") as file:
            for line in file:
                number, fields = orjson.loads(line)
                yield number, Passage(**fields)
    except (OSError, ValueError, TypeError) as error:
        raise CacheError(f"{path} is corrupt: {error}; next step: delete it, then run the same again") from error


__all__ = ["SegmentSource"]

"""Corpora: passages read from any container, with checks and a checksum of their content.

A corpus may be larger than memory, so passages are yielded as they are read. The check for unique ids stores eight
bytes per passage (a digest of the id); the ids are read a second time only if two digests are equal. A repeated id is
therefore reported at the end of the corpus, and other errors at their position. From the first error on, no passage is
yielded, the rest is only checked, and one error lists all problems.

`survey_corpus` reads a corpus once and returns what a run's key needs. Call it before expensive work: it raises every
error that reading can raise.
"""

from __future__ import annotations

import hashlib
import os
from array import array
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, TypeAlias, TypeVar

import orjson

from ragtasks.benchmarks import Benchmark, RetrievalSide, retrieval_side
from ragtasks.errors import BenchmarkFileError, CacheError, ConfigurationError, FetchError
from ragtasks.files import atomic_file, canonical_hash, file_hash, write_atomically
from ragtasks.progress import Progress, no_progress, progress_bars
from ragtasks.records import Passage
from ragtasks.tables import Cell, Table, Value
from retrieval_cache.corpora.containers import ID_FIELDS, TEXT_FIELDS, parsed, placed_rows, raw_lines, shards_of
from retrieval_cache.corpora.near_duplicates import SHINGLE_WORDS, NearDuplicates, near_duplicates
from retrieval_cache.corpora.segmenting import encoder_tokenizer, plain_tokenizer, segment, segment_lines

_MOST_PROBLEMS = 20
_PROGRESS_EVERY = 10_000


@dataclass(frozen=True, slots=True)
class Survey:
    """Checksum and counts of a corpus."""

    checksum: str
    """sha256 over ids, titles and texts of the passages, in order.

    Equal for every container and compression. Addresses are excluded because retrievers do not use them.
    """
    n_passages: int
    """Number of passages yielded by `read_corpus`."""
    n_blank: int
    """Number of passages without a visible character, which are left out."""
    n_characters: int


def read_rows(location: str) -> Iterator[tuple[Passage, Mapping[str, Any]]]:
    """Yield the passages with text, together with their rows."""
    return ((passage, row) for passage, row in _all_rows(location) if passage.text.strip())


def read_corpus(location: str) -> Iterator[Passage]:
    """Yield the passages with text in the order of the corpus, in one pass.

    Passages of white space only are left out; the official cloud corpus has three.
    """
    return (passage for passage, _ in read_rows(location))


def _all_rows(location: str) -> Iterator[tuple[Passage, Mapping[str, Any]]]:
    """Yield every passage with its row, storing eight bytes per passage. A corpus without any text is an error."""
    digests = array("Q")
    problems: list[str] = []
    has_text = False
    for source, number, row in placed_rows(location):
        passage = row if isinstance(row, str) else passage_of(row)
        if isinstance(row, str) or isinstance(passage, str):
            problems.append(f"{source} {number}: {passage}")
            if len(problems) == _MOST_PROBLEMS:
                problems.append(f"possibly more: reading stopped after error {_MOST_PROBLEMS}")
                break
        elif not problems:
            digests.append(_digest(passage.passage_id))
            has_text = has_text or bool(passage.text.strip())
            yield passage, row
    problems = problems or _duplicates(location, digests)
    if not problems and not has_text:
        problems = [f"no text in any of {len(digests)} passages" if digests else "no passage at all"]
    if problems:
        raise BenchmarkFileError(
            "corpus",
            where=location,
            expected="one passage per line or row, with a unique id and a text",
            found="\n    ".join(problems),
            next_step=f"correct it: ids are in {', '.join(ID_FIELDS)}, texts in {', '.join(TEXT_FIELDS)}",
        )


def survey_corpus(location: str, progress: Progress = no_progress) -> Survey:
    """Return checksum and counts of a corpus, reading it once. Raises the errors of `read_corpus`."""
    sha256 = hashlib.sha256()
    n_passages = n_blank = n_characters = 0
    for passage, _ in _all_rows(location):
        if not passage.text.strip():
            n_blank += 1
            continue
        n_passages += 1
        n_characters += len(passage.text)
        # Each preceded by its length, so that moving a character from one to the next changes the checksum.
        for part in (passage.passage_id.encode(), passage.title.encode(), passage.text.encode()):
            sha256.update(len(part).to_bytes(8, "little") + part)
        if n_passages % _PROGRESS_EVERY == 0:
            progress("corpus", n_passages, None)
    progress("corpus", n_passages, n_passages)
    return Survey(sha256.hexdigest(), n_passages, n_blank, n_characters)


def passage_of(row: Mapping[str, Any], ids: Sequence[str] = ID_FIELDS) -> Passage | str:
    """Return the passage in a row, or the problem; its text may be white space only."""
    passage_id = id_of(row, ids)
    if passage_id is None:
        return f"no id in {' or '.join(ids)}; the row has {_names(row)}"
    if passage_id.split() != [passage_id]:
        return f"an id that is empty or contains white space: {passage_id!r}"
    text = next((row[name] for name in TEXT_FIELDS if name in row), None)
    if not isinstance(text, str):
        return f"no text in {TEXT_FIELDS[0]!r} ({passage_id}); the row has {_names(row)}"
    title, url = row.get("title") or "", row.get("url") or ""
    if not isinstance(title, str) or not isinstance(url, str):
        return f"a title or url that is not text ({passage_id}): {title!r:.40}, {url!r:.40}"
    return Passage(passage_id, text, title, url)


def with_text(row: Mapping[str, Any], ids: Sequence[str] = ID_FIELDS) -> Passage | str:
    """Return the passage in a row that must have a text, or the problem."""
    passage = passage_of(row, ids)
    return passage if isinstance(passage, str) or passage.text.strip() else f"an empty text ({passage.passage_id})"


def id_of(row: Mapping[str, Any], ids: Sequence[str] = ID_FIELDS) -> str | None:
    """Return the id in a row; None if missing."""
    value = next((row[name] for name in ids if name in row), None)
    if isinstance(value, int) and not isinstance(value, bool):
        return str(value)
    return value if isinstance(value, str) else None


def _names(row: Mapping[str, Any]) -> str:
    return ", ".join(list(row)[:8]) or "no field"


def _digest(passage_id: str) -> int:
    return int.from_bytes(hashlib.blake2b(passage_id.encode(), digest_size=8).digest(), "little")


def _duplicates(location: str, digests: array[int]) -> list[str]:
    """Return one line per repeated passage id. Sorts `digests` in place."""
    import numpy as np

    values = np.frombuffer(digests, dtype=np.uint64)
    values.sort()
    suspects = set(values[1:][values[1:] == values[:-1]].tolist())
    if not suspects:
        return []
    first: dict[str, str] = {}
    problems: list[str] = []
    for source, number, row in placed_rows(location):
        passage_id = None if isinstance(row, str) else id_of(row)
        if passage_id is None or _digest(passage_id) not in suspects:
            continue
        position = f"{source} {number}"
        if first.setdefault(passage_id, position) != position:
            problems.append(f"{position}: the id {passage_id!r} once more; first at {first[passage_id]}")
            if len(problems) == _MOST_PROBLEMS:
                break
    return problems


# Sources of a domain's passages: a surveyed corpus, or the segments of a huge corpus that a run names. Both are
# described before searching, because the description is part of the run's key.


class WholeCorpus:
    """A complete corpus, read and checked before use."""

    def __init__(self, location: str, progress: Progress = no_progress) -> None:
        self._location = location
        self._survey = survey_corpus(location, progress)

    def describe(self) -> dict[str, Any]:
        """Return checksum and size."""
        return {"sha256": self._survey.checksum, "n_passages": self._survey.n_passages}

    def __iter__(self) -> Iterator[Passage]:
        return read_corpus(self._location)


PassageSource: TypeAlias = "WholeCorpus | SegmentSource"
"""Source of the passages of one domain."""


def open_source(
    location: str,
    named: Callable[[], frozenset[str] | None],
    folder_of: Callable[[str], Path],
    progress: Progress = no_progress,
) -> PassageSource:
    """Return the source at a location.

    In a folder of JSON-lines shards, only the passages named in advance by the retriever are read. Any other corpus is
    read completely.
    """
    ids = named() if shards_of(location) else None
    return WholeCorpus(location, progress) if ids is None else SegmentSource(location, ids, folder_of, progress)


# Segments by id from a source too large to be surveyed, such as the 113,520,750 segments of MS MARCO V2.1. A run names
# some thousand segments, so only these are read: one pass over the shards, several in parallel, in memory that depends
# on the run and not on the source. A line whose id is not wanted is not parsed, because its id comes first, as in the
# official files. Results are stored per shard, so a killed call reads only unfinished shards, and another run over the
# same segments reads none. The fingerprint of a source is the sha256 of every shard's bytes, computed each time. Size
# and modification time would be faster, but would miss a replaced shard with its time preserved. The sha256 of the
# texts alone, as for other corpora, would require parsing every line. The same segments with another compression are
# therefore another source. Not detected, unlike in a survey: errors in lines that are not wanted (except truncation),
# and repeated ids that the run does not name.

_T = TypeVar("_T")
_SEGMENT_IDS = ("docid", "_id", "id")
_STARTS = (b'{"docid":"', b'{"docid": "')
_END = b"}\n"
_MOST_WORKERS = 8
"""Threads that decompress shards. Decompression releases the interpreter for nine tenths of the time; more would
wait.
"""
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
        """Set the folder, which is read at first use."""
        self._location = location
        self._shards = shards_of(location)
        self._named = named
        self._folder_of = folder_of
        self._progress = progress

    def describe(self) -> dict[str, Any]:
        """Return the inputs that determine the passages: the content of the shards, and the wanted segments."""
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
        return self._by_shard("checksum", file_hash)

    def __iter__(self) -> Iterator[Passage]:
        """Yield the named segments in the order of the source. A second call reads the stored results."""
        folder = self._folder_of(canonical_hash({"format": _FORMAT, "named": sorted(self._named)}))
        files = {shard: folder / f"{self._sums[shard]}.jsonl" for shard in self._shards}
        wanted = frozenset(passage_id.encode() for passage_id in self._named)
        problems = self._by_shard(
            "look up", lambda shard: [] if files[shard].is_file() else _look_up(shard, wanted, files[shard])
        )
        self._check([problem for shard in self._shards for problem in problems[shard]], files)
        for shard in self._shards:
            yield from (passage for _, passage in _shard_passages(files[shard]))

    def _by_shard(self, label: str, work: Callable[[Path], _T]) -> dict[Path, _T]:
        """Return the result of `work` for each shard, several in parallel."""
        done: dict[Path, _T] = {}
        pool = ThreadPoolExecutor(min(_MOST_WORKERS, os.cpu_count() or 1))
        try:
            futures = {pool.submit(work, shard): shard for shard in self._shards}
            for future in as_completed(futures):
                done[futures[future]] = future.result()
                self._progress(label, len(done), len(self._shards))
        except OSError as error:
            raise BenchmarkFileError(f"cannot read the shards of {self._location}: {error}") from error
        finally:
            pool.shutdown(cancel_futures=True)
        return done

    def _check(self, problems: list[str], files: Mapping[Path, Path]) -> None:
        """Raise one error for all problems, including repeated and missing segments."""
        first: dict[str, str] = {}
        for shard, file in files.items():
            for number, passage in _shard_passages(file) if file.is_file() else ():
                location = f"{shard}, line {number}"
                if first.setdefault(passage.passage_id, location) != location:
                    problems.append(
                        f"{location}: the id {passage.passage_id!r} once more; first at {first[passage.passage_id]}"
                    )
        missing = sorted(self._named - first.keys())
        if missing and not first and not problems:
            problems.append(f"none of the {len(missing)} segments of the run; it names such as {missing[0]!r}")
        elif missing and all(file.is_file() for file in files.values()):
            problems.append(f"{len(missing)} of {len(self._named)} segments are missing: {', '.join(missing)}")
        if problems:
            raise BenchmarkFileError(
                "segments",
                where=self._location,
                expected="every segment that the run names, once, with a text",
                found="\n    ".join(problems),
                next_step="fetch broken shards again; for missing segments name the source of the run",
            )


def _look_up(shard: Path, wanted: frozenset[bytes], target: Path) -> list[str]:
    """Write the wanted segments of a shard with their lines; if there are problems, return them and write nothing."""
    rows: list[bytes] = []
    problems: list[str] = []
    for number, line in raw_lines(shard):
        if isinstance(line, bytes) and _is_other(line, wanted):
            continue
        passage = line if isinstance(line, str) else _wanted_passage(line, wanted)
        if isinstance(passage, str):
            problems.append(f"{shard}, line {number}: {passage}")
            if len(problems) == _MOST_PROBLEMS:
                return [*problems, f"{shard}: possibly more: reading stopped after error {_MOST_PROBLEMS}"]
        elif passage is not None:
            rows.append(orjson.dumps([number, passage]) + b"\n")
    if not problems:
        write_atomically(target, b"".join(rows))
    return problems


def _is_other(line: bytes, wanted: frozenset[bytes]) -> bool:
    """Return whether the first bytes of a line show that its segment is not wanted; False if undecided."""
    for start in _STARTS:
        if line.startswith(start):
            end = line.find(b'"', len(start))
            passage_id = line[len(start) : end]
            return end > 0 and passage_id not in wanted and b"\\" not in passage_id and line.endswith(_END)
    return False


def _wanted_passage(line: bytes, wanted: frozenset[bytes]) -> Passage | str | None:
    """Return the passage on a line, None if it is not wanted, or the problem."""
    row = parsed(line)
    if isinstance(row, str):
        return row
    passage_id = id_of(row, _SEGMENT_IDS)
    if passage_id is not None and passage_id.encode() not in wanted:
        return None
    return with_text(row, _SEGMENT_IDS)


def _shard_passages(path: Path) -> Iterator[tuple[int, Passage]]:
    """Yield line and passage of the segments stored for a shard."""
    try:
        with path.open("rb") as file:
            for line in file:
                number, fields = orjson.loads(line)
                yield number, Passage(**fields)
    except (OSError, ValueError, TypeError) as error:
        raise CacheError(f"{path} is corrupt: {error}; next step: delete it, then run the same again") from error


# The corpus commands: contents, near-duplicates, deduplication, segmentation.

_MAX_GROUPS = 20


def describe_corpus(location: str) -> list[str]:
    """Return the contents of a corpus as lines. Raises an error for any invalid row."""
    with progress_bars() as progress:
        survey = survey_corpus(location, progress)
    mean = survey.n_characters / survey.n_passages
    return [
        f"{survey.n_passages} passages of {mean:.0f} characters on average; {survey.n_blank} without text are left out",
        f"sha256 of their content: {survey.checksum}",
    ]


def describe_duplicates(location: str, threshold: float) -> list[str]:
    """Return the groups of near-duplicates of a corpus as lines: a summary, then the groups, largest first."""
    duplicates = _found_duplicates(location, threshold, SHINGLE_WORDS)
    shown = [
        ", ".join(
            f"{name} ({similarity:.2f})" for name, similarity in zip(group.passage_ids, group.similarities, strict=True)
        )
        for group in duplicates.groups[:_MAX_GROUPS]
    ]
    counts = _not_compared(duplicates) | {"groups not shown": len(duplicates.groups) - len(shown)}
    return [
        f"groups at a Jaccard similarity of {threshold}: {len(duplicates.groups)}",
        f"near-duplicates of another passage: {len(duplicates.redundant)} of {duplicates.n_passages}",
        *(f"{label}: {count}" for label, count in counts.items() if count),
        *(["one group per line, with the similarity to its first passage:"] if shown else []),
        *shown,
    ]


def deduplicate_corpus(location: str, target: Path, threshold: float) -> list[str]:
    """Write a corpus without near-duplicates and return a summary as lines.

    The first passage of each group is kept, its row unchanged. Passages without text are left out.
    """
    duplicates = _found_duplicates(location, threshold, 9)  # the rule of TREC RAG
    rows = ((passage.passage_id, row) for passage, row in read_rows(location))
    lines = (orjson.dumps(dict(row)) + b"\n" for passage_id, row in rows if passage_id not in duplicates.redundant)
    n_kept = _write(target, lines)
    n_left_out, n_groups = len(duplicates.redundant), len(duplicates.groups)
    return [
        f"{n_kept} of {duplicates.n_passages} passages in {target}",
        f"left out: {n_left_out} near-duplicates, in {n_groups} groups whose first passage is kept",
        *(f"{label}: {count}" for label, count in _not_compared(duplicates).items() if count),
    ]


def _found_duplicates(location: str, threshold: float, width: int) -> NearDuplicates:
    with progress_bars() as progress:
        return near_duplicates(lambda: read_corpus(location), threshold, progress, width)


def _not_compared(duplicates: NearDuplicates) -> dict[str, int]:
    return {
        "passages without words, not compared": duplicates.n_without_words,
        "candidate sets with more than 64 passages, each compared with 64 only": duplicates.n_crowded,
    }


def segment_corpus_by_sentences(location: str, target: Path, sentences: int, stride: int) -> int:
    """Write windows of sentences as in MS MARCO V2.1's segmented corpus and return their number."""
    return _write(target, segment_lines(read_rows(location), sentences, stride))


def segment_corpus(location: str, target: Path, size: int, overlap: int, tokenizer: str | None) -> int:
    """Write the passages of a corpus of documents as JSON lines and return their number."""
    cut = encoder_tokenizer(tokenizer) if tokenizer else plain_tokenizer
    passages = (passage for document in read_corpus(location) for passage in segment(document, size, overlap, cut))
    rows = (
        {"_id": passage.passage_id, "title": passage.title, "text": passage.text, "url": passage.url}
        for passage in passages
    )
    return _write(target, (orjson.dumps(row) + b"\n" for row in rows))


def _write(target: Path, lines: Iterable[bytes]) -> int:
    """Write lines atomically and return their number."""
    try:
        with atomic_file(target) as file:
            return sum(file.write(line) > 0 for line in lines)
    except OSError as error:
        raise BenchmarkFileError(f"cannot write {target}: {error.strerror or error}") from error


# The data table of a benchmark's corpora: documents and passages (MTRAG paper, Table 2).

_COLUMNS = ("domain", "documents", "passages", "passages a document", "words a passage")


def corpora_tables(benchmark: Benchmark) -> Sequence[Table]:
    """Return a table with one row per available corpus; () for a benchmark without corpora."""
    try:
        side = retrieval_side(benchmark.name)
    except ConfigurationError:
        return ()
    with progress_bars() as progress:
        rows = [_row(benchmark, side, domain, progress) for domain in side.domains_of(benchmark.tasks)]
    note = "Passages without text are left out. A dash: the corpus is missing, or its ids contain no document."
    return (Table("Corpora", _COLUMNS, tuple(rows), note),)


def _row(benchmark: Benchmark, side: RetrievalSide, domain: str, progress: Progress) -> tuple[Cell, ...]:
    try:
        path = side.corpus_file(benchmark.root, domain)
    except (BenchmarkFileError, FetchError):
        return (domain, *["-"] * (len(_COLUMNS) - 1))
    documents: set[str] = set()
    n_passages = n_words = 0
    for passage in read_corpus(str(path)):
        n_passages += 1
        n_words += len(passage.text.split())
        if side.document_of:
            documents.add(side.document_of(passage.passage_id))
        if n_passages % _PROGRESS_EVERY == 0:
            progress(f"corpus {domain}", n_passages, None)
    mean = Value(n_words / n_passages, n_passages, n_passages)
    if not documents:
        return domain, "-", n_passages, "-", mean
    return domain, len(documents), n_passages, Value(n_passages / len(documents), len(documents), len(documents)), mean

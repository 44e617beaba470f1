"""The corpus commands: contents, near-duplicates, deduplication, segmentation."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

import orjson

from ragtasks.benchmarks import Benchmark, RetrievalSide, retrieval_side
from ragtasks.errors import BenchmarkFileError, ConfigurationError, FetchError
from ragtasks.files import written_aside
from ragtasks.progress import progress_bars
from ragtasks.records import Passage
from ragtasks.tables import Cell, Table, Value
from retrieval_cache.corpora._corpora import read_corpus, read_rows, survey_corpus
from retrieval_cache.corpora._near_duplicates import SHINGLE_WORDS, NearDuplicates, near_duplicates
from retrieval_cache.corpora._segmenting import encoder_tokenizer, plain_tokenizer, segment_all, segment_lines
from retrieval_cache.retrievers import Progress

_MAX_GROUPS = 20


def describe_corpus(location: str) -> list[str]:
    """Return what a corpus holds, a line each; an error anywhere in it is an error."""
    with progress_bars() as progress:
        survey = survey_corpus(location, blank="skip", progress=progress)
    mean = survey.n_characters / survey.n_passages
    return [
        f"{survey.n_passages} passages of {mean:.0f} characters on average; {survey.n_blank} without text are left out",
        f"sha256 of what decides them: {survey.checksum}",
    ]


def describe_duplicates(location: str, threshold: float, width: int = SHINGLE_WORDS) -> list[str]:
    """Return the groups of near-duplicates of a corpus, the largest first, a line each below one that says so."""
    found = _duplicates(location, threshold, width)
    shown = [
        ", ".join(
            f"{name} ({similarity:.2f})" for name, similarity in zip(group.passage_ids, group.similarities, strict=True)
        )
        for group in found.groups[:_MAX_GROUPS]
    ]
    counts = _not_compared(found) | {"groups not shown": len(found.groups) - len(shown)}
    return [
        f"groups at a Jaccard similarity of {threshold}: {len(found.groups)}",
        f"passages that repeat another: {found.n_redundant} of {found.n_passages}",
        *(f"{what}: {count}" for what, count in counts.items() if count),
        *(["a group a line, with the similarity to its first passage:"] if shown else []),
        *shown,
    ]


def deduplicate_corpus(location: str, target: Path, threshold: float, width: int) -> list[str]:
    """Write a corpus without the passages that repeat another, and return what was left out, a line each.

    The first passage of each group stays; its row is written as it was read. Passages without text are left out.
    """
    found = _duplicates(location, threshold, width)
    rows = ((passage.passage_id, row) for passage, row in read_rows(location, blank="skip"))
    lines = (orjson.dumps(dict(row)) + b"\n" for passage_id, row in rows if passage_id not in found.redundant)
    n_kept = _write(target, lines)
    return [
        f"{n_kept} of {found.n_passages} passages in {target}",
        f"left out: {found.n_redundant} that repeat another, in {len(found.groups)} groups whose first passage stays",
        *(f"{what}: {count}" for what, count in _not_compared(found).items() if count),
    ]


def _duplicates(location: str, threshold: float, width: int) -> NearDuplicates:
    with progress_bars() as progress:
        return near_duplicates(lambda: read_corpus(location, blank="skip"), threshold, progress, width)


def _not_compared(found: NearDuplicates) -> dict[str, int]:
    return {
        "passages without a word, which were not compared": found.n_without_words,
        "times that more than 64 passages met, each compared with 64 only": found.n_crowded,
    }


def segment_corpus_by_sentences(location: str, target: Path, sentences: int, stride: int) -> int:
    """Write windows of sentences as in MS MARCO V2.1's segmented corpus and return how many there are."""
    return _write(target, segment_lines(read_rows(location, blank="skip"), sentences, stride))


def segment_corpus(location: str, target: Path, size: int, overlap: int, tokenizer: str | None) -> int:
    """Write the passages of a corpus of documents as JSON lines and return how many there are."""
    cut = encoder_tokenizer(tokenizer) if tokenizer else plain_tokenizer
    documents = read_corpus(location, blank="skip")
    return _write(target, _lines(segment_all(documents, size, overlap, cut)))


def _write(target: Path, lines: Iterable[bytes]) -> int:
    """Write lines, atomically, and return how many there are."""
    try:
        with written_aside(target) as file:
            return sum(file.write(line) > 0 for line in lines)
    except OSError as error:
        raise BenchmarkFileError(f"cannot write {target}: {error.strerror or error}") from error


def _lines(passages: Iterator[Passage]) -> Iterator[bytes]:
    for passage in passages:
        row = {"_id": passage.passage_id, "title": passage.title, "text": passage.text, "url": passage.url}
        yield orjson.dumps(row) + b"\n"


# The data table of a benchmark's corpora: documents and passages (MTRAG paper, Table 2).

_EVERY = 10_000
_COLUMNS = ("domain", "documents", "passages", "passages a document", "words a passage")


def corpora_tables(benchmark: Benchmark) -> Sequence[Table]:
    """Return one table with a row for each corpus that is there; () where the benchmark has none."""
    try:
        side = retrieval_side(benchmark.name)
    except ConfigurationError:
        return ()
    with progress_bars() as progress:
        rows = [_row(benchmark, side, domain, progress) for domain in side.domains_of(benchmark.tasks)]
    note = "Passages without text are left out. A dash: the corpus is not there, or its ids do not name documents."
    return (Table("Corpora", _COLUMNS, tuple(rows), note),)


def _row(benchmark: Benchmark, side: RetrievalSide, domain: str, progress: Progress) -> tuple[Cell, ...]:
    try:
        path = side.corpus_file(benchmark.root, domain)
    except (BenchmarkFileError, FetchError):
        return (domain, *["-"] * (len(_COLUMNS) - 1))
    documents: set[str] = set()
    n_passages = n_words = 0
    for passage in read_corpus(str(path), blank="skip"):
        n_passages += 1
        n_words += len(passage.text.split())
        if side.document_of:
            documents.add(side.document_of(passage.passage_id))
        if n_passages % _EVERY == 0:
            progress(f"corpus {domain}", n_passages, None)
    mean = Value(n_words / n_passages, n_passages, n_passages)
    if not documents:
        return domain, "-", n_passages, "-", mean
    return domain, len(documents), n_passages, Value(n_passages / len(documents), len(documents), len(documents)), mean

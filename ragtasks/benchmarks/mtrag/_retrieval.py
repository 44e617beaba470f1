"""MTRAG's retrieval side: corpora, queries in three forms, relevance judgements.

Passages are streamed, one at a time, because a real corpus does not fit in a small machine's memory as objects.
"""

from __future__ import annotations

import io
import re
import zipfile
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Any, cast

from ragtasks.benchmarks.mtrag._rows import DOMAINS, required_file
from ragtasks.errors import BenchmarkFileError, ConfigurationError, clear_error, close_matches
from ragtasks.files import Violations, bounded_lines, json_lines, parse_json, passage_of, read_whole
from ragtasks.ids import normalise_task_id
from ragtasks.records import Passage, Qrel

_BLOCK = 1 << 20  # read ahead: a zip's own reader of bounded lines is slow
QUERY_FORMS = {"last_turn": "lastturn", "rewrite": "rewrite", "all_questions": "questions"}
"""Query form -> the word that the official file names use for it."""

_SPEAKER_MARK = "|user|: "
_GRADE = re.compile(r"[0-9]{1,9}")
_NEXT_STEP = "delete the file and run `ragtasks fetch mtrag`"


def load_rewrites(root: Path, domain: str) -> dict[str, str]:
    """Return query id -> rewritten question of one domain.

    Raises:
        BenchmarkFileError: the file is missing or broken.
        ConfigurationError: unknown domain.
    """
    return load_queries(root, domain, "rewrite")


def load_queries(root: Path, domain: str, form: str) -> dict[str, str]:
    """Return query id -> text of one domain in one form, speaker marks removed, in the order of the file.

    Raises:
        BenchmarkFileError: the file is missing or broken.
        ConfigurationError: unknown domain or form.
    """
    _known(domain, DOMAINS, "domain")
    _known(form, QUERY_FORMS, "query form")
    name = f"{domain}_{QUERY_FORMS[form]}.jsonl"
    path = required_file(root / "mtrag-human/retrieval_tasks" / domain / name)
    violations = Violations(path, "MTRAG queries", _NEXT_STEP)
    queries: dict[str, str] = {}
    for line, row in json_lines(violations):
        query_id, text = _query_id(row.get("_id")), row.get("text")
        if query_id is None or not isinstance(text, str) or not text.strip():
            violations.add(line, "`_id` such as <conversation><::><turn>, and `text`", row)
        elif query_id in queries:
            violations.add(line, "each query once", "this query again", query_id)
        else:
            queries[query_id] = "\n".join(part.removeprefix(_SPEAKER_MARK) for part in text.split("\n"))
    violations.raise_if_any()
    return queries


def load_qrels(root: Path, domain: str) -> tuple[Qrel, ...]:
    """Return the relevance judgements of one domain, in the order of the file (2,128 over the official four).

    Raises:
        BenchmarkFileError: the file is missing, or a line is not query, passage and a whole number.
        ConfigurationError: unknown domain.
    """
    _known(domain, DOMAINS, "domain")
    return read_qrels(root / "mtrag-human/retrieval_tasks" / domain / "qrels" / "dev.tsv", "mtrag")


def read_qrels(path: Path, benchmark: str) -> tuple[Qrel, ...]:
    """Return the relevance judgements in a file of MTRAG's or MTRAG-UN's, in its order.

    Raises:
        BenchmarkFileError: the file is missing, or a line is not query, passage and a whole number.
    """
    violations = Violations(
        required_file(path, benchmark), "MTRAG qrels", f"delete the file and run `ragtasks fetch {benchmark}`"
    )
    qrels: dict[tuple[str, str], Qrel] = {}
    for number, line in enumerate(read_whole(violations).splitlines(), start=1):
        cells = line.decode("utf-8", errors="replace").split("\t")
        if number == 1 and cells[0] == "query-id":
            continue
        query_id = _query_id(cells[0])
        if query_id is None or len(cells) != 3 or not cells[1] or not _GRADE.fullmatch(cells[2]):
            violations.add(number, "query id, passage id and a whole number, separated by tabs", line)
        elif (query_id, cells[1]) in qrels:
            violations.add(number, "each judgement once", cells[1], query_id)
        else:
            qrels[query_id, cells[1]] = Qrel(query_id, cells[1], int(cells[2]))
    violations.raise_if_any()
    return tuple(qrels.values())


def _query_id(text: object) -> str | None:
    """Return a query id in the one form in use, or None where it is none."""
    try:
        return normalise_task_id(text) if isinstance(text, str) else None
    except ValueError:
        return None


def corpus_file(root: Path, domain: str) -> Path:
    """Return the file that holds the corpus of a domain.

    Raises:
        BenchmarkFileError: it is not there.
        ConfigurationError: unknown domain.
    """
    _known(domain, DOMAINS, "domain")
    return required_file(root / "corpora/passage_level" / f"{domain}.jsonl.zip")


def read_passages(root: Path, domain: str) -> Iterator[Passage]:
    """Yield the passages of one domain's corpus, in the order of the file, in constant memory.

    Raises:
        BenchmarkFileError: no corpus, a broken zip, or a line that is no passage (by its number).
        ConfigurationError: unknown domain.
    """
    path = corpus_file(root, domain)
    try:
        with zipfile.ZipFile(path) as archive:
            names = archive.namelist()
            if len(names) != 1:
                raise zipfile.BadZipFile(f"{len(names)} files")
            with archive.open(names[0]) as member:
                yield from _passages(path, io.BufferedReader(cast(io.RawIOBase, member), _BLOCK))
    # A damaged stream shows as any of these; RuntimeError is zipfile's word for a password or an unknown method.
    except (zipfile.BadZipFile, zlib.error, EOFError, OSError, RuntimeError, ValueError) as error:
        message = clear_error(
            "MTRAG corpus",
            where=str(path),
            expected="a zip with one file of JSON lines",
            found=str(error),
            next_step=_NEXT_STEP,
        )
        raise BenchmarkFileError(message) from error


def _passages(path: Path, lines: IO[bytes]) -> Iterator[Passage]:
    violations = Violations(path, "MTRAG corpus", _NEXT_STEP)
    number = 0
    for number, line in enumerate(bounded_lines(lines), start=1):
        if not line.strip():
            continue
        try:
            row = parse_json(line)
        except ValueError as error:
            row = str(error)
        passage = passage_of(row, "_id")
        if passage is None:
            violations.add(number, "an object with texts as `_id` and `text`", row)
            violations.raise_if_any()
        else:
            yield passage
    if not number:
        violations.add(0, "at least one line", "no line")
        violations.raise_if_any()


def _known(name: str, known: Any, what: str) -> None:
    if name not in known:
        raise ConfigurationError(f"unknown {what} {name!r}: {close_matches(name, known)}")


__all__ = [
    "QUERY_FORMS",
    "corpus_file",
    "load_qrels",
    "load_queries",
    "load_rewrites",
    "read_passages",
    "read_qrels",
]

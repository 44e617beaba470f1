"""MTRAG's retrieval side: where its corpora lie, rewritten questions, relevance judgements."""

from __future__ import annotations

import re
from pathlib import Path

from ragtasks.benchmarks.mtrag._rows import DOMAINS, required_file
from ragtasks.errors import ConfigurationError, close_matches
from ragtasks.files import Misfit, Violations, json_lines, qrel_lines, read_whole
from ragtasks.ids import normalise_task_id
from ragtasks.records import Qrel

_OFFSETS = re.compile(r"-\d+-\d+$")
_SECTION = re.compile(r"_\d+-\d+$")
_SPEAKER_MARK = "|user|: "
_NEXT_STEP = "delete the file and run `ragtasks fetch mtrag`"


def load_rewrites(root: Path, domain: str) -> dict[str, str]:
    """Return query id -> rewritten question of one domain.

    Raises:
        BenchmarkFileError: the file is missing or broken.
        ConfigurationError: unknown domain.
    """
    _known(domain)
    return read_queries(root / "mtrag-human/retrieval_tasks" / domain / f"{domain}_rewrite.jsonl")


def read_queries(path: Path) -> dict[str, str]:
    """Return query id -> text of an official file of queries, speaker marks removed, in the order of the file.

    Raises:
        BenchmarkFileError: the file is missing or broken.
    """
    violations = Violations(required_file(path), "MTRAG queries", _NEXT_STEP)
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
    _known(domain)
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
    lines = (line.decode("utf-8", errors="replace") for line in read_whole(violations).splitlines())
    for number, judged in qrel_lines(enumerate(lines, start=1), {3}, separator="\t"):
        query_id = _query_id(judged.query_id) if isinstance(judged, Qrel) else None
        if isinstance(judged, Misfit) or query_id is None or not judged.passage_id:
            found = judged.found if isinstance(judged, Misfit) else (judged.query_id, judged.passage_id)
            violations.add(number, "query id, passage id and a whole number, separated by tabs", found)
        elif (query_id, judged.passage_id) in qrels:
            violations.add(number, "each judgement once", judged.passage_id, query_id)
        else:
            qrels[query_id, judged.passage_id] = Qrel(query_id, judged.passage_id, judged.relevance)
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
    _known(domain)
    return required_file(root / "corpora/passage_level" / f"{domain}.jsonl.zip")


def document_of(passage_id: str) -> str:
    """Return the id of the document that a passage was cut from: without its offsets, and those of its section.

    `822086267_6698-7277-0-579` is of the document 822086267, `ibmcld_00007-7-2159` of ibmcld_00007.
    """
    document = _OFFSETS.sub("", passage_id)
    return _SECTION.sub("", document)


def _known(domain: str) -> None:
    if domain not in DOMAINS:
        raise ConfigurationError(f"unknown domain {domain!r}: {close_matches(domain, DOMAINS)}")


__all__ = ["corpus_file", "document_of", "load_qrels", "load_rewrites", "read_qrels", "read_queries"]

"""Answer files of TREC RAG 2026 and reports of TREC RAGTIME 2026: what is wrong with one, line by line.

Both are JSON lines of `metadata`, cited sentences and, in RAG, `references`. A citation is a position in these, an
id, or, in RAGTIME, an id with its score. What the organisers reject is a problem, what they take although it costs
points a warning. Topics of 2026 are for participants, so that each is answered, and in its words, is not checked.

Source: the guidelines as autojudge-base 0.4.6 (`track_specs.yml`, `rag26` and `ragtime26`) has them, and the schema of
hltcoe/rag-run-validator at 81c8565. There is no task of 2026 here: the topics and collections are not public.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ragtasks.files import parse_json
from ragtasks.submissions._findings import Finding, Problem, Report, Severity, Words, rules
from ragtasks.submissions._forms import FileForm
from ragtasks.submissions.trec_rag import lines_of

MAX_CITATIONS = 3
"""Citations of a sentence that are judged."""
MAX_WORDS = 1024
"""Words of an answer of RAG."""

_REJECTS, _TAKES = "the track rejects it", "the track takes it"
_RULES = rules(
    (Severity.PROBLEM, _REJECTS, "json metadata run_id sentence citation document_id references n_words"),
    (Severity.PROBLEM, _REJECTS, "duplicate_topic"),
    (Severity.WARNING, _TAKES, "run_description no_sentences duplicate_reference uncited_reference repeated_topic"),
    (Severity.WARNING, f"the track judges the first {MAX_CITATIONS}", "n_citations"),
)
_RUN_ID = re.compile(r"[A-Za-z0-9_-][A-Za-z0-9_.-]{0,19}")


@dataclass(frozen=True, slots=True)
class _Track:
    """What a track asks of its files."""

    sentences: str
    topic: str
    required: tuple[str, ...]
    document_id: re.Pattern[str]
    has_references: bool


_TRACKS = {
    FileForm.RAG_2026: _Track(
        "answer",
        "narrative_id",
        ("team_id", "narrative_id", "narrative", "run_id", "run_desc"),
        re.compile(r"shard_\d+_\d+"),
        has_references=True,
    ),
    FileForm.RAGTIME_2026: _Track(
        "responses",
        "topic_id",
        ("team_id", "topic_id", "run_id"),
        re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}_\d+"),
        has_references=False,
    ),
}


def check_reports(path: Path, form: FileForm) -> Report:
    """Return what is wrong with a file."""
    track, findings, seen, n_rows = _TRACKS[form], [], set(), 0
    for line, content in enumerate(lines_of(path), start=1):
        if not content.strip():
            continue
        n_rows += 1
        topic, problems = _line(content, track)
        if topic and topic in seen:
            rule = "duplicate_topic" if track.has_references else "repeated_topic"
            problems.append((rule, "each topic once", topic))
        seen.add(topic)
        findings += [_found(line, topic, problem) for problem in problems]
    unchecked: tuple[str, ...] = ("whether every topic is answered", "whether the documents exist")
    if not track.has_references:
        unchecked = ("the length, which a topic says", *unchecked)
    return Report(path.name, form.value, n_rows, tuple(findings), unchecked, warnings_fail=False)


def _found(line: int, topic: str, problem: Problem) -> Finding:
    rule, expected, found = problem
    return _RULES[rule].finding(line, topic, expected, found)


def _line(content: bytes, track: _Track) -> tuple[str, list[Problem]]:
    """Return (topic, what is wrong with the line)."""
    try:
        row = parse_json(content)
    except ValueError:
        row = None
    if not isinstance(row, dict):
        return "", [("json", "a JSON object", Words("none"))]
    metadata = row.get("metadata")
    fields = metadata if isinstance(metadata, dict) else {}
    problems = [*_metadata(fields, track), *_sentences(row, track)]
    return str(fields.get(track.topic, "")), problems


def _metadata(fields: Mapping[str, Any], track: _Track) -> Iterator[Problem]:
    if missing := [name for name in track.required if fields.get(name) in (None, "")]:
        yield "metadata", f"`metadata` with {', '.join(missing)}", Words("none")
    if fields.get("run_id") and not _RUN_ID.fullmatch(str(fields["run_id"])):
        yield "run_id", "20 letters, digits, -, _ or . at most, no . first", fields["run_id"]
    if not fields.get("run_desc") and "run_desc" not in track.required:
        yield "run_description", "`metadata` with run_desc", Words("none")


def _sentences(row: Mapping[str, Any], track: _Track) -> Iterator[Problem]:
    items, references = row.get(track.sentences), row.get("references", [])
    if not isinstance(items, list):
        yield "sentence", f"a list `{track.sentences}`", items
        return
    if track.has_references and ("references" not in row or not isinstance(references, list)):
        yield "references", "a list `references`", row.get("references")
        return
    known = references if isinstance(references, list) else []
    cited: set[str] = set()
    for number, item in enumerate(items):
        place = f"{track.sentences}[{number}]"
        if not isinstance(item, dict) or not isinstance(item.get("text"), str):
            yield "sentence", f"{place} with a `text`", item
            continue
        names = _cited(item.get("citations"), known if track.has_references else None)
        if names is None:
            yield "citation", f"{place} with `citations` as {_forms(track)}", item.get("citations")
            continue
        if len(names) > MAX_CITATIONS:
            yield "n_citations", f"{place} with {MAX_CITATIONS} citations at most", len(names)
        cited.update(names)
    if not any(isinstance(item, dict) and str(item.get("text", "")).strip() for item in items):
        yield "no_sentences", "an answer", Words("none")
    for name in sorted(cited):
        if not track.document_id.fullmatch(name):
            yield "document_id", "the id of a document of the collection", name
    if track.has_references:
        yield from _references(known, cited, items)


def _forms(track: _Track) -> str:
    return "positions in, or ids of, `references`" if track.has_references else "ids, or ids with their scores"


def _cited(citations: object, references: list[Any] | None) -> list[str] | None:
    """Return the ids that a sentence cites; None where they are not in one of the track's forms."""
    if references is None and isinstance(citations, dict):
        scores = citations.values()
        is_right = all(isinstance(score, int | float) and not isinstance(score, bool) for score in scores)
        return list(citations) if is_right else None
    if not isinstance(citations, list):
        return None
    if all(isinstance(one, str) for one in citations):
        return citations if references is None or set(citations) <= set(map(str, references)) else None
    positions = references if references is not None else []
    is_right = all(type(one) is int and 0 <= one < len(positions) for one in citations)
    return [str(positions[one]) for one in citations] if is_right else None


def _references(references: list[Any], cited: set[str], items: list[Any]) -> Iterator[Problem]:
    if len(set(map(str, references))) < len(references):
        yield "duplicate_reference", "each reference once", Words("one twice")
    if uncited := [one for one in references if str(one) not in cited]:
        yield "uncited_reference", "references that a sentence cites", Words(f"{len(uncited)} others")
    texts = [str(item.get("text", "")) for item in items if isinstance(item, dict)]
    length = len(unicodedata.normalize("NFKC", " ".join(texts)).split())
    if length > MAX_WORDS:
        yield "n_words", f"{MAX_WORDS:,} words at most", length

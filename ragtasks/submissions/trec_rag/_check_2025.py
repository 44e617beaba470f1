"""What is wrong with an answer file of TREC RAG 2025: what the organisers' checker finds, and what the guidelines ask.

The checker looks at one line after the other, and passes longer answers, more references, a narrative that is answered
twice or not at all; for these the guidelines' limits are named as warnings that begin with `guidelines:`.

Source: castorini/ragnarok at 7233fa7, `scripts/rag25_validation.py`, and the track's guidelines 2.0.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from ragtasks.benchmarks.trec_rag import MAX_WORDS, SEGMENT_ID
from ragtasks.files import parse_json
from ragtasks.metrics import CitedSentence
from ragtasks.submissions.trec_rag._answers import Answer
from ragtasks.submissions.trec_rag._check import CheckedFile, Remark, answers_without_errors, lines_of

MAX_REFERENCES = 100
"""Most references of an answer (guidelines)."""
TYPES = ("manual", "automatic")

_REQUIRED = ("team_id", "run_id", "narrative_id")
_OPTIONAL = ("type", "narrative", "prompt")
_GUIDELINES = "guidelines: "


def check_answers_2025(path: Path, narratives: Mapping[str, str]) -> CheckedFile:
    """Return the answers of a file and all that is wrong with it; `topic_id` is the narrative's id.

    Citations may be positions in the references or ids of segments; the file's first one says which.

    Args:
        path: JSON lines.
        narratives: narrative id -> text.

    Raises:
        BenchmarkFileError: the file cannot be read.
    """
    return check_lines_2025(lines_of(path), narratives)


def read_answers_2025(path: Path, narratives: Mapping[str, str]) -> list[Answer]:
    """Return the answers of a file, which has no errors; warnings are passed over.

    Raises:
        BenchmarkFileError: the file cannot be read, or has errors: the first twenty are listed.
    """
    return answers_without_errors(path, check_answers_2025(path, narratives))


def check_lines_2025(lines: Sequence[bytes], narratives: Mapping[str, str]) -> CheckedFile:
    """Return the answers in some lines and all that is wrong with them; blank lines are passed over."""
    checked = CheckedFile()
    rows = [(number, _row(line)) for number, line in enumerate(lines, start=1) if line.strip()]
    by_id = _cites_ids([row for _, row in rows])
    line_of: dict[str, int] = {}
    for number, row in rows:
        if not isinstance(row, dict):
            checked.remarks.append(Remark(number, True, "one JSON object"))
            continue
        errors = [*_metadata_errors(row.get("metadata"), narratives), *_content_errors(row, by_id=by_id)]
        warnings = [*_metadata_warnings(row.get("metadata")), *_reference_warnings(row.get("references"))]
        limits: list[str] = []
        if not errors:
            answer = _answer(row, narratives)
            first = line_of.setdefault(answer.topic_id, number)
            limits = list(_limits(answer, row, narratives))
            if first == number:
                checked.answers.append(answer)
            else:
                limits.append(f"each narrative once, and {answer.topic_id} stands in line {first}")
        checked.remarks += [Remark(number, True, text) for text in errors]
        checked.remarks += [Remark(number, False, text) for text in warnings]
        checked.remarks += [Remark(number, False, f"{_GUIDELINES}{text}") for text in limits]
    if not rows:
        checked.remarks.append(Remark(0, True, "at least one answer, not none"))
    missing = [narrative_id for narrative_id in narratives if narrative_id not in line_of]
    checked.remarks += [Remark(0, False, f"{_GUIDELINES}no answer to narrative {one}") for one in missing]
    return checked


def row_2025(answer: Answer, team_id: str) -> dict[str, Any]:
    """Return an answer as the JSON object of its line, citations as positions."""
    metadata = {
        "team_id": team_id,
        "run_id": answer.run_id,
        "type": "automatic",
        "narrative_id": answer.topic_id,
        "narrative": answer.topic,
    }
    sentences = [{"text": item.text, "citations": list(item.citations)} for item in answer.sentences]
    return {"metadata": metadata, "references": list(answer.references), "answer": sentences}


def _row(line: bytes) -> Any:
    try:
        return parse_json(line)
    except ValueError:
        return None


def _cites_ids(rows: Sequence[Any]) -> bool:
    """Return whether the first citation of a file is an id."""
    items = (item for row in rows if isinstance(row, dict) for item in _list(row.get("answer")))
    cited = (one for item in items if isinstance(item, dict) for one in _list(item.get("citations")))
    return isinstance(next(cited, 0), str)


def _list(value: object) -> list[Any]:
    return value if isinstance(value, list) else []


def _metadata_errors(metadata: object, narratives: Mapping[str, str]) -> Iterator[str]:
    if not isinstance(metadata, dict):
        yield "`metadata` as an object"
        return
    if missing := [key for key in _REQUIRED if key not in metadata]:
        yield f"metadata with {', '.join(missing)}"
    elif str(metadata["narrative_id"]) not in narratives:
        yield f"a known narrative_id, not {metadata['narrative_id']!r}"
    if "type" in metadata and metadata["type"] not in TYPES:
        yield f"metadata.type of {' or '.join(TYPES)}, not {metadata['type']!r}"


def _metadata_warnings(metadata: object) -> Iterator[str]:
    if isinstance(metadata, dict):
        yield from (f"metadata.{key} is missing" for key in _OPTIONAL if key not in metadata)


def _reference_warnings(references: object) -> Iterator[str]:
    for index, one in enumerate(_list(references)):
        if not isinstance(one, str) or not SEGMENT_ID.fullmatch(one):
            yield f"references[{index}] as the id of a segment, not {one!r}"


def _content_errors(row: Mapping[str, Any], *, by_id: bool) -> Iterator[str]:
    references = row.get("references")
    if not isinstance(references, list):
        yield "a list `references`"
    if not isinstance(row.get("answer", []), list):
        yield "a list `answer`"
    for index, item in enumerate(_list(row.get("answer"))):
        if not isinstance(item, dict):
            yield f"answer[{index}] as an object"
            continue
        if not isinstance(item.get("text"), str):
            yield f"answer[{index}] with a `text`"
        citations = item.get("citations")
        if not isinstance(citations, list):
            yield f"answer[{index}] with a list `citations`"
            continue
        kind = str if by_id else int
        if not all(isinstance(one, kind) for one in citations):
            yield f"answer[{index}]: citations as {'ids of segments' if by_id else 'positions in the references'}"
            continue
        known = _list(references) if by_id else range(len(_list(references)))
        yield from (f"answer[{index}]: a citation of a reference, not {one!r}" for one in citations if one not in known)


def _answer(row: Mapping[str, Any], narratives: Mapping[str, str]) -> Answer:
    """Return the answer of a line without errors."""
    metadata, references = row["metadata"], [str(one) for one in row["references"]]
    sentences = tuple(
        CitedSentence(
            item["text"],
            tuple(dict.fromkeys(references.index(one) if isinstance(one, str) else one for one in item["citations"])),
        )
        for item in row.get("answer", [])
    )
    narrative_id = str(metadata["narrative_id"])
    return Answer(str(metadata["run_id"]), narrative_id, narratives[narrative_id], tuple(references), sentences)


def _limits(answer: Answer, row: Mapping[str, Any], narratives: Mapping[str, str]) -> Iterator[str]:
    """Yield what the guidelines ask for and the checker lets pass."""
    if answer.length > MAX_WORDS:
        yield f"at most {MAX_WORDS} words, not {answer.length}"
    if len(answer.references) > MAX_REFERENCES:
        yield f"at most {MAX_REFERENCES} references, not {len(answer.references)}"
    if len(set(answer.references)) < len(answer.references):
        yield "each reference once"
    if not answer.sentences:
        yield "an answer, not none"
    if row["metadata"].get("narrative", narratives[answer.topic_id]) != narratives[answer.topic_id]:
        yield f"metadata.narrative as the text of narrative {answer.topic_id}"


__all__ = ["MAX_REFERENCES", "check_answers_2025", "check_lines_2025", "read_answers_2025", "row_2025"]

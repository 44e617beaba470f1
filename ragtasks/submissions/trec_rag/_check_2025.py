"""Check of an answer file of TREC RAG 2025 by the rules of the organizers' checker and the guidelines.

The checker examines each line on its own. It accepts longer answers, more references, and repeated or missing
narratives. Exceeding a limit of the guidelines is a warning here. Source: castorini/ragnarok at 7233fa7,
`scripts/rag25_validation.py`, and the track's guidelines 2.0.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from ragtasks.benchmarks.trec_rag import MAX_WORDS, SEGMENT_ID
from ragtasks.files import parse_json
from ragtasks.metrics import CitedSentence
from ragtasks.submissions._findings import Problem, Severity, Words, rules
from ragtasks.submissions.trec_rag._answer import REFUSES, WARNS, CheckedFile, CitedAnswer, unchecked_topics

MAX_REFERENCES = 100
"""Maximum references of an answer (guidelines)."""
TYPES = ("manual", "automatic")

_REQUIRED = ("team_id", "run_id", "narrative_id")
_OPTIONAL = ("type", "narrative", "prompt")

GUIDELINES = "against the guidelines; the track's checker passes it"
"""Effect of exceeding a limit of the guidelines."""

RULES_2025 = rules(
    (Severity.PROBLEM, REFUSES, "json metadata unknown_narrative type field sentence citation no_answers"),
    (Severity.WARNING, WARNS, "optional_metadata reference_id"),
    (Severity.WARNING, GUIDELINES, "n_words n_references duplicate_reference no_sentences narrative_text"),
    (Severity.WARNING, GUIDELINES, "duplicate_narrative missing_narrative"),
)
"""For files of 2025."""


def check_lines_2025(lines: Sequence[bytes], narratives: Mapping[str, str] | None) -> CheckedFile:
    """Return the answers in lines and their findings; `topic_id` is the narrative's id.

    Citations may be positions in the references or segment ids, as decided by the first citation of the file.
    """
    checked = CheckedFile("TREC RAG 2025", RULES_2025)
    rows = [(number, _row(line)) for number, line in enumerate(lines, start=1) if line.strip()]
    checked.n_rows = len(rows)
    by_id = _cites_ids([row for _, row in rows])
    line_of: dict[str, int] = {}
    for number, row in rows:
        if not isinstance(row, dict):
            checked.add(number, "", ("json", "one JSON object", row if row is not None else Words("no JSON")))
            continue
        metadata = row.get("metadata")
        errors = [*_metadata_errors(metadata, narratives), *_content_errors(row, by_id=by_id)]
        problems = [*errors, *_warnings(metadata, _list(row.get("references")))]
        if not errors:
            answer = _answer(row, narratives)
            first = line_of.setdefault(answer.topic_id, number)
            problems += _limits(answer, row)
            if first == number:
                checked.answers.append(answer)
            else:
                again = Words(f"the narrative of line {first} again")
                problems.append(("duplicate_narrative", "each narrative once", again))
        topic_id = metadata.get("narrative_id", "") if isinstance(metadata, dict) else ""
        for problem in problems:
            checked.add(number, str(topic_id), problem)
    if not rows:
        checked.add(0, "", ("no_answers", "at least one answer", Words("none")))
    for narrative_id in narratives or ():
        if narrative_id not in line_of:
            checked.add(0, narrative_id, ("missing_narrative", "an answer to this narrative", Words("none")))
    checked.unchecked = unchecked_topics(narratives, "narrative", "trec_rag25")
    return checked


def row_2025(answer: CitedAnswer, team_id: str) -> dict[str, Any]:
    """Return an answer as the JSON object of its line, with positions as citations."""
    metadata = {
        "team_id": team_id,
        "run_id": answer.run_id,
        "type": "automatic",
        "narrative_id": answer.topic_id,
        "narrative": answer.topic,
    }
    sentences = [{"text": sentence.text, "citations": list(sentence.citations)} for sentence in answer.sentences]
    return {"metadata": metadata, "references": list(answer.references), "answer": sentences}


def _row(line: bytes) -> Any:
    try:
        return parse_json(line)
    except ValueError:
        return None


def _cites_ids(rows: Sequence[Any]) -> bool:
    """Return whether the first citation of a file is an id."""
    sentences = (sentence for row in rows if isinstance(row, dict) for sentence in _list(row.get("answer")))
    citations = (
        citation
        for sentence in sentences
        if isinstance(sentence, dict)
        for citation in _list(sentence.get("citations"))
    )
    return isinstance(next(citations, 0), str)


def _list(value: object) -> list[Any]:
    return value if isinstance(value, list) else []


def _metadata_errors(metadata: object, narratives: Mapping[str, str] | None) -> Iterator[Problem]:
    if not isinstance(metadata, dict):
        yield "metadata", "`metadata` as an object", metadata
        return
    if missing := [key for key in _REQUIRED if key not in metadata]:
        yield "metadata", f"metadata with {', '.join(missing)}", Words("no such field")
    elif narratives is not None and str(metadata["narrative_id"]) not in narratives:
        yield "unknown_narrative", "a known narrative_id", metadata["narrative_id"]
    if "type" in metadata and metadata["type"] not in TYPES:
        yield "type", f"metadata.type of {' or '.join(TYPES)}", metadata["type"]


def _warnings(metadata: object, references: Sequence[Any]) -> Iterator[Problem]:
    for key in _OPTIONAL:
        if isinstance(metadata, dict) and key not in metadata:
            yield "optional_metadata", f"metadata.{key}", Words("no such field")
    for index, segment_id in enumerate(references):
        if not isinstance(segment_id, str) or not SEGMENT_ID.fullmatch(segment_id):
            yield "reference_id", f"references[{index}] as the id of a segment", segment_id


def _content_errors(row: Mapping[str, Any], *, by_id: bool) -> Iterator[Problem]:
    references = row.get("references")
    if not isinstance(references, list):
        yield "field", "a list `references`", references
    if not isinstance(row.get("answer", []), list):
        yield "field", "a list `answer`", row["answer"]
    for index, sentence in enumerate(_list(row.get("answer"))):
        if not isinstance(sentence, dict):
            yield "sentence", f"answer[{index}] as an object", sentence
            continue
        if not isinstance(sentence.get("text"), str):
            yield "sentence", f"answer[{index}] with a `text`", sentence.get("text")
        citations = sentence.get("citations")
        if not isinstance(citations, list):
            yield "sentence", f"answer[{index}] with a list `citations`", citations
            continue
        citation_type = str if by_id else int
        if not all(isinstance(citation, citation_type) for citation in citations):
            expected = "ids of segments" if by_id else "positions in the references"
            yield "citation", f"answer[{index}]: citations as {expected}", citations
            continue
        targets = _list(references) if by_id else range(len(_list(references)))
        yield from (
            ("citation", f"answer[{index}]: a citation of a reference", citation)
            for citation in citations
            if citation not in targets
        )


def _answer(row: Mapping[str, Any], narratives: Mapping[str, str] | None) -> CitedAnswer:
    """Return the answer of a line without problems."""
    metadata, references = row["metadata"], [str(segment_id) for segment_id in row["references"]]
    sentences = tuple(
        CitedSentence(
            sentence["text"],
            tuple(
                dict.fromkeys(
                    references.index(citation) if isinstance(citation, str) else citation
                    for citation in sentence["citations"]
                )
            ),
        )
        for sentence in row.get("answer", [])
    )
    narrative_id = str(metadata["narrative_id"])
    text = str(metadata.get("narrative", "")) if narratives is None else narratives[narrative_id]
    return CitedAnswer(str(metadata["run_id"]), narrative_id, text, tuple(references), sentences)


def _limits(answer: CitedAnswer, row: Mapping[str, Any]) -> Iterator[Problem]:
    """Yield requirements of the guidelines that the checker does not enforce."""
    if answer.length > MAX_WORDS:
        yield "n_words", f"at most {MAX_WORDS} words", answer.length
    if len(answer.references) > MAX_REFERENCES:
        yield "n_references", f"at most {MAX_REFERENCES} references", len(answer.references)
    if len(set(answer.references)) < len(answer.references):
        yield "duplicate_reference", "each reference once", Words("one twice")
    if not answer.sentences:
        yield "no_sentences", "an answer", Words("none")
    text = row["metadata"].get("narrative", answer.topic)
    if text != answer.topic:
        yield "narrative_text", f"metadata.narrative as the text of narrative {answer.topic_id}", text

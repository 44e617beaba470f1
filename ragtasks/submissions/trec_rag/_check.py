"""What is wrong with an answer file, line by line: errors, for which the track refuses it, and warnings.

Errors and warnings are those of the organisers' validator for 2024, except that every problem of a line is named, not
the first only, and that types are checked: there, a list in the place of a text ends the validation.

Source: castorini/ragnarok at 7233fa7, `scripts/`, and the track's guidelines.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ragtasks.benchmarks.trec_rag import MAX_WORDS, N_PASSAGES
from ragtasks.benchmarks.trec_rag_files import SEGMENT_ID
from ragtasks.errors import BenchmarkFileError, ConfigurationError, clear_error
from ragtasks.files import bounded_lines, parse_json, write_atomically
from ragtasks.metrics import CitedSentence, n_words, parse_cited, within
from ragtasks.records import Response

_KEYS = {"run_id": str, "topic_id": str, "topic": str, "references": list, "response_length": int, "answer": list}
_MAX_LISTED = 20


@dataclass(frozen=True, slots=True)
class Remark:
    """One problem of an answer file."""

    line: int
    """Line from 1; 0 for the file as a whole."""
    is_error: bool
    """Whether the track refuses the file for it."""
    text: str
    """What was expected, and what was found."""

    def __str__(self) -> str:
        """Return the line that people read."""
        place = f"line {self.line}" if self.line else "file"
        return f"{'error' if self.is_error else 'warning'}: {place}: {self.text}"


@dataclass(slots=True)
class CheckedFile:
    """An answer file and its problems."""

    answers: list[Answer] = field(default_factory=list)
    """The answers without errors, in the order of the file."""
    remarks: list[Remark] = field(default_factory=list)
    """All problems, by line."""
    repaired: list[dict[str, Any]] = field(default_factory=list)
    """The same answers as the track of 2024 repairs them, as the objects of their lines; empty for 2025."""

    @property
    def n_errors(self) -> int:
        """Number of errors; 0 says that the track takes the file."""
        return sum(remark.is_error for remark in self.remarks)

    def summary(self) -> str:
        """Return one line that counts answers, errors and warnings."""
        n_warnings = len(self.remarks) - self.n_errors
        return f"{len(self.answers)} answers without errors, {self.n_errors} errors, {n_warnings} warnings"


def check_answers(path: Path, topics: Mapping[str, str]) -> CheckedFile:
    """Return the answers of a file and all that is wrong with it."""
    return check_lines(lines_of(path), topics)


def lines_of(path: Path) -> list[bytes]:
    """Return the lines of an answer file."""
    try:
        with path.open("rb") as stream:
            return [line for ended in bounded_lines(stream) for line in ended.splitlines()]
    except (OSError, ValueError) as error:
        found = (error.strerror if isinstance(error, OSError) else "") or str(error)
        message = clear_error(
            "answer file", where=str(path), expected="a file", found=found, next_step="check the path"
        )
        raise BenchmarkFileError(message) from error


def check_lines(lines: list[bytes], topics: Mapping[str, str]) -> CheckedFile:
    """Return the answers in some lines and all that is wrong with them; blank lines are passed over."""
    checked = CheckedFile()
    line_of: dict[str, int] = {}
    run_id: str | None = None
    for number, content in enumerate(lines, start=1):
        if not content.strip():
            continue
        line = _Line(number, topics, checked)
        row = line.row(content)
        if row is None:
            continue
        run_id = row["run_id"] if run_id is None else run_id
        if row["run_id"] != run_id:
            line.error(f"run_id {run_id!r}, as in the lines before, not {row['run_id']!r}")
        if line_of.setdefault(row["topic_id"], number) != number:
            line.error(f"each topic once, and {row['topic_id']} stands in line {line_of[row['topic_id']]}")
        line.take(row)
    if not line_of:
        checked.remarks.append(Remark(0, True, "at least one answer, not none"))
    missing = [topic_id for topic_id in topics if topic_id not in line_of]
    checked.remarks += [Remark(0, False, f"no answer to topic {topic_id}") for topic_id in missing]
    return checked


def read_answers(path: Path, topics: Mapping[str, str]) -> list[Answer]:
    """Return the answers of a file, which has no errors; warnings are passed over."""
    return answers_without_errors(path, check_answers(path, topics))


def answers_without_errors(path: Path, checked: CheckedFile) -> list[Answer]:
    """Return the answers of a checked file, warnings passed over."""
    errors = [str(remark) for remark in checked.remarks if remark.is_error]
    if errors:
        listed = [*errors[:_MAX_LISTED], *([f"and {len(errors) - _MAX_LISTED} more"] if errors[_MAX_LISTED:] else [])]
        message = clear_error(
            "answer file",
            where=str(path),
            expected="a file that the track takes",
            found="\n    ".join([f"{len(errors)} errors", *listed]),
            next_step="fix these lines; `ragtasks trec-rag check` lists all",
        )
        raise BenchmarkFileError(message)
    return checked.answers


class _Line:
    """One line under examination."""

    def __init__(self, number: int, topics: Mapping[str, str], checked: CheckedFile) -> None:
        self._number, self._topics, self._checked = number, topics, checked
        self._n_errors = checked.n_errors

    def error(self, text: str) -> None:
        """Note what the track refuses."""
        self._checked.remarks.append(Remark(self._number, True, text))

    def warn(self, text: str) -> None:
        """Note what the track fixes or passes."""
        self._checked.remarks.append(Remark(self._number, False, text))

    def row(self, content: bytes) -> dict[str, Any] | None:
        """Return the object of a line with all keys in the right types, None after noting what is wrong."""
        try:
            row = parse_json(content)
        except ValueError as error:
            self.error(f"one JSON object ({error})")
            return None
        if not isinstance(row, dict):
            self.error(f"one JSON object, not {type(row).__name__}")
            return None
        for key, kind in _KEYS.items():
            value = row.get(key)
            if not isinstance(value, kind) or isinstance(value, bool):
                self.error(f"`{key}` as {kind.__name__}, not {'missing' if key not in row else repr(value)[:80]}")
        return row if self._checked.n_errors == self._n_errors else None

    def take(self, row: Mapping[str, Any]) -> None:
        """Examine an object and keep its answer where nothing is wrong."""
        topic_id = row["topic_id"]
        if topic_id not in self._topics:
            self.error(f"a known topic_id, not {topic_id!r}")
            return
        if row["topic"] != self._topics[topic_id]:
            self.error(f"`topic` of {topic_id} as {self._topics[topic_id]!r}, not {row['topic']!r}")
        self._references(row["references"])
        sentences = tuple(self._sentences(row))
        answer = Answer(row["run_id"], topic_id, row["topic"], tuple(row["references"]), sentences)
        if row["response_length"] > MAX_WORDS:
            self.warn(f"response_length of at most {MAX_WORDS}, not {row['response_length']}")
        if answer.length > MAX_WORDS:  # the track's repair sets response_length right as well
            self.warn(f"at most {MAX_WORDS} words, not {answer.length}: the track cuts sentences off the end")
        elif row["response_length"] != answer.length:
            self.warn(f"response_length {answer.length}, not {row['response_length']}")
        if self._checked.n_errors == self._n_errors:
            self._checked.answers.append(answer)
            self._checked.repaired.append(_repaired(row, answer))

    def _references(self, references: list[Any]) -> None:
        if len(references) > N_PASSAGES:
            self.error(f"at most {N_PASSAGES} references, not {len(references)}")
        for index, segment_id in enumerate(references):
            if not isinstance(segment_id, str) or not SEGMENT_ID.fullmatch(segment_id):
                self.error(f"references[{index}] as the id of a segment, not {segment_id!r}")
            elif segment_id in references[:index]:
                self.error(f"each reference once, and {segment_id} appears twice")

    def _sentences(self, row: Mapping[str, Any]) -> Iterator[CitedSentence]:
        for index, item in enumerate(row["answer"]):
            text = item.get("text") if isinstance(item, dict) else None
            citations = item.get("citations") if isinstance(item, dict) else None
            if not isinstance(text, str) or not isinstance(citations, list):
                self.error(f"answer[{index}] with `text` and a list `citations`, not {item!r:.80}")
                continue
            n_references = len(row["references"])
            for citation in citations:
                is_whole = isinstance(citation, int) and not isinstance(citation, bool)
                if not is_whole or not 0 <= citation < n_references:
                    self.error(f"answer[{index}]: citations from 0 to {n_references - 1}, not {citation!r}")
            unique = list(dict.fromkeys(map(repr, citations)))
            if len(unique) < len(citations):
                self.warn(f"answer[{index}]: each citation once, not {citations}")
            whole = [citation for citation in citations if isinstance(citation, int)]
            yield CitedSentence(text, tuple(dict.fromkeys(whole)))


def _repaired(row: Mapping[str, Any], answer: Answer) -> dict[str, Any]:
    """Return an object with citations in order and once, cut to 400 words by whole sentences, its length right."""
    sentences = within(answer.sentences, MAX_WORDS)
    items = [{**item, "citations": _in_order(item["citations"])} for item in row["answer"][: len(sentences)]]
    return {**row, "response_length": n_words(sentence.text for sentence in sentences), "answer": items}


def _in_order(citations: list[int]) -> list[int]:
    """Return citations once each in the order of the track's tool: that of Python's sets of integers, mostly ascending.

    The tool makes a set of every sentence's citations, and one more before it where some stand twice: [15, 7] and
    [15, 7, 7] come out in different orders, since both numbers compete for one place in the set's table.
    """
    once = list(set(citations)) if len(set(citations)) < len(citations) else citations
    return list(set(once))


# What is wrong with an answer file of TREC RAG 2025: what the organisers' checker finds, and what the guidelines
# ask.
# The checker looks at one line after the other, and passes longer answers, more references, a narrative that is
# answered twice or not at all; for these the guidelines' limits are named as warnings that begin with
# `guidelines:`.
# Source: castorini/ragnarok at 7233fa7, `scripts/rag25_validation.py`, and the track's guidelines 2.0.

MAX_REFERENCES = 100
"""Most references of an answer (guidelines)."""
TYPES = ("manual", "automatic")

_REQUIRED = ("team_id", "run_id", "narrative_id")
_OPTIONAL = ("type", "narrative", "prompt")
_GUIDELINES = "guidelines: "


def check_answers_2025(path: Path, narratives: Mapping[str, str]) -> CheckedFile:
    """Return the answers of a file and all that is wrong with it; `topic_id` is the narrative's id.

    Citations may be positions in the references or ids of segments; the file's first one says which.
    """
    return check_lines_2025(lines_of(path), narratives)


def read_answers_2025(path: Path, narratives: Mapping[str, str]) -> list[Answer]:
    """Return the answers of a file, which has no errors; warnings are passed over."""
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
        targets = _list(references) if by_id else range(len(_list(references)))
        yield from (
            f"answer[{index}]: a citation of a reference, not {one!r}" for one in citations if one not in targets
        )


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


# Answers in the track's format: sentences that cite positions in a list of segment ids.
# Source: guidelines of TREC RAG 2024 and the organisers' validator.


@dataclass(frozen=True, slots=True)
class Answer:
    """One line of an answer file."""

    run_id: str
    """Name of the system's run."""
    topic_id: str
    topic: str
    """Its text."""
    references: tuple[str, ...]
    """Segment ids, at most 20, best first."""
    sentences: tuple[CitedSentence, ...]
    """What is said; citations are positions in `references`."""

    @property
    def text(self) -> str:
        """The sentences joined by blanks, as they are searched for nuggets."""
        return " ".join(sentence.text for sentence in self.sentences)

    @property
    def length(self) -> int:
        """Words, as the track counts them."""
        return n_words(sentence.text for sentence in self.sentences)

    def row(self) -> dict[str, Any]:
        """Return the answer as the JSON object of its line."""
        return {
            "run_id": self.run_id,
            "topic_id": self.topic_id,
            "topic": self.topic,
            "references": list(self.references),
            "response_length": self.length,
            "answer": [{"text": item.text, "citations": list(item.citations)} for item in self.sentences],
        }


def answer_of(response: Response, run_id: str, *, cut: bool = False) -> Answer:
    """Return a model's free text as an answer; citations that name no passage are left out."""
    references = tuple(passage.passage_id for passage in response.passages)
    if len(references) > N_PASSAGES:
        message = clear_error(
            "answer for TREC RAG",
            where=f"topic {response.task.task_id}",
            expected=f"at most {N_PASSAGES} passages, which become its references",
            found=f"{len(references)} passages",
            next_step="evaluate with a run of fewer passages",
        )
        raise ConfigurationError(message)
    # Half a character, which models do write now and then, can stand in no file.
    text = response.text.encode("utf-8", errors="replace").decode("utf-8")
    sentences = parse_cited(text, len(references))
    kept = within(sentences, MAX_WORDS) if cut else sentences
    return Answer(run_id, response.task.task_id, response.task.question, references, kept)


def write_rows(path: Path, rows: Iterable[dict[str, Any]], *, is_ascii: bool = False) -> None:
    """Write JSON lines, atomically; other characters as escapes where `is_ascii`, as Python's own writer has them."""
    lines = "".join(json.dumps(row, ensure_ascii=is_ascii) + "\n" for row in rows)
    write_atomically(path, lines.encode("utf-8", errors="replace"))

"""What is wrong with an answer file, line by line: errors, for which the track refuses it, and warnings.

Errors and warnings are those of the organisers' validator for 2024, except that every violation of a line is named, not
the first only, and that types are checked: there, a list in the place of a text ends the validation.

Source: castorini/ragnarok at 7233fa7, `scripts/`, and the track's guidelines.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ragtasks.benchmarks.trec_rag import MAX_WORDS, N_PASSAGES, SEGMENT_ID
from ragtasks.errors import BenchmarkFileError, clear_error
from ragtasks.files import bounded_lines, parse_json
from ragtasks.metrics import CitedSentence, n_words, within
from ragtasks.submissions.trec_rag._answers import Answer

_KEYS = {"run_id": str, "topic_id": str, "topic": str, "references": list, "response_length": int, "answer": list}
_MOST_SHOWN = 20


@dataclass(frozen=True, slots=True)
class Remark:
    """One violation of an answer file."""

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
    """An answer file and its violations."""

    answers: list[Answer] = field(default_factory=list)
    """The answers without errors, in the order of the file."""
    remarks: list[Remark] = field(default_factory=list)
    """All violations, by line."""
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
    """Return the answers of a file and all that is wrong with it.

    Args:
        path: JSON lines.
        topics: topic id -> text, of the topics that are to be answered.

    Raises:
        BenchmarkFileError: the file cannot be read.
    """
    return check_lines(lines_of(path), topics)


def lines_of(path: Path) -> list[bytes]:
    """Return the lines of an answer file.

    Raises:
        BenchmarkFileError: the file cannot be read.
    """
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
    """Return the answers of a file, which has no errors; warnings are passed over.

    Raises:
        BenchmarkFileError: the file cannot be read, or has errors: the first twenty are listed.
    """
    return answers_without_errors(path, check_answers(path, topics))


def answers_without_errors(path: Path, checked: CheckedFile) -> list[Answer]:
    """Return the answers of a checked file, warnings passed over.

    Raises:
        BenchmarkFileError: it has errors: the first twenty are listed.
    """
    errors = [str(remark) for remark in checked.remarks if remark.is_error]
    if errors:
        shown = [*errors[:_MOST_SHOWN], *([f"and {len(errors) - _MOST_SHOWN} more"] if errors[_MOST_SHOWN:] else [])]
        message = clear_error(
            "answer file",
            where=str(path),
            expected="a file that the track takes",
            found="\n    ".join([f"{len(errors)} errors", *shown]),
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
                self.error(f"each reference once, and {segment_id} stands twice")

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


__all__ = [
    "CheckedFile",
    "Remark",
    "answers_without_errors",
    "check_answers",
    "check_lines",
    "lines_of",
    "read_answers",
]

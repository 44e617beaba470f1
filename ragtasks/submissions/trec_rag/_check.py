"""Check of an answer file, line by line: problems, for which the track refuses the file, and warnings.

Both follow the organizers' validator for 2024, with two differences. Every problem of a line is reported, not only the
first. Types are checked too: the validator stops at a list in place of a text.

Source: castorini/ragnarok at 7233fa7, `scripts/`, and the track's guidelines.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from ragtasks.benchmarks.trec_rag import MAX_WORDS, N_PASSAGES, SEGMENT_ID
from ragtasks.files import bounded_lines, parse_json
from ragtasks.metrics import CitedSentence, cut_to_words, n_words
from ragtasks.submissions._findings import Severity, Words, reading, refuse_problems, rules
from ragtasks.submissions.trec_rag._answer import REFUSES, WARNS, CheckedFile, CitedAnswer, unchecked_topics
from ragtasks.submissions.trec_rag._check_2025 import check_lines_2025

_KEYS = {"run_id": str, "topic_id": str, "topic": str, "references": list, "response_length": int, "answer": list}
_FORM = "TREC RAG 2024"
_CORRECTS = "the track corrects it"

RULES = rules(
    (Severity.PROBLEM, REFUSES, "json field run_id unknown_topic duplicate_topic topic_text n_references"),
    (Severity.PROBLEM, REFUSES, "reference_id duplicate_reference sentence citation no_answers"),
    (Severity.WARNING, _CORRECTS, "reported_length response_length duplicate_citation"),
    (Severity.WARNING, "the track removes sentences at the end", "n_words"),
    (Severity.WARNING, WARNS, "missing_topic"),
)
"""For files of 2024."""


def check_answers(path: Path, topics: Mapping[str, str] | None, *, is_2025: bool = False) -> CheckedFile:
    """Return the answers of a file and its findings. Without topics, some checks are omitted."""
    with reading("answer file", path) as stream:
        lines = [line for ended in bounded_lines(stream) for line in ended.splitlines()]
    return (check_lines_2025 if is_2025 else check_lines)(lines, topics)


def check_lines(lines: list[bytes], topics: Mapping[str, str] | None) -> CheckedFile:
    """Return the answers in lines and their findings. Blank lines are skipped."""
    checked = CheckedFile(_FORM, RULES)
    line_of: dict[str, int] = {}
    run_id: str | None = None
    for number, content in enumerate(lines, start=1):
        if not content.strip():
            continue
        checked.n_rows += 1
        line = _AnswerLine(number, topics, checked)
        row = line.row(content)
        if row is None:
            continue
        run_id = row["run_id"] if run_id is None else run_id
        if row["run_id"] != run_id:
            line.add("run_id", f"{run_id!r}, as in the lines before", row["run_id"])
        if line_of.setdefault(row["topic_id"], number) != number:
            line.add("duplicate_topic", "each topic once", Words(f"the topic of line {line_of[row['topic_id']]} again"))
        line.check(row)
    if not line_of:
        checked.add(0, "", ("no_answers", "at least one answer", Words("none")))
    for topic_id in topics or ():
        if topic_id not in line_of:
            checked.add(0, topic_id, ("missing_topic", "an answer to this topic", Words("none")))
    checked.unchecked = unchecked_topics(topics, "topic", "trec_rag24")
    return checked


def read_answers(path: Path, topics: Mapping[str, str], *, is_2025: bool = False) -> list[CitedAnswer]:
    """Return the answers of a file. Problems raise an error, and warnings are ignored."""
    checked = check_answers(path, topics, is_2025=is_2025)
    refuse_problems("answer file", path, checked.findings, f"fix these lines; `ragtasks check {path}` lists all")
    return checked.answers


class _AnswerLine:
    def __init__(self, number: int, topics: Mapping[str, str] | None, checked: CheckedFile) -> None:
        self._number, self._topics, self._checked = number, topics, checked
        self._topic_id = ""
        self._is_valid = True

    def add(self, rule: str, expected: str, found: object) -> None:
        self._checked.add(self._number, self._topic_id, (rule, expected, found))
        self._is_valid &= self._checked.rules[rule].severity is not Severity.PROBLEM

    def row(self, content: bytes) -> dict[str, Any] | None:
        """Return the object of a line with all keys in the right types.

        For an invalid line, add findings and return None.
        """
        try:
            row = parse_json(content)
        except ValueError as error:
            self.add("json", "one JSON object", Words(str(error)))
            return None
        if not isinstance(row, dict):
            self.add("json", "one JSON object", row)
            return None
        self._topic_id = row["topic_id"] if isinstance(row.get("topic_id"), str) else ""
        for key, value_type in _KEYS.items():
            value = row.get(key)
            if not isinstance(value, value_type) or isinstance(value, bool):
                self.add("field", f"`{key}` as {value_type.__name__}", row.get(key, Words("no such field")))
        return row if self._is_valid else None

    def check(self, row: Mapping[str, Any]) -> None:
        """Check an object and store its answer if it has no problem."""
        topic_id = row["topic_id"]
        text = row["topic"] if self._topics is None else self._topics.get(topic_id)
        if text is None:
            self.add("unknown_topic", "a known topic_id", topic_id)
            return
        if row["topic"] != text:
            self.add("topic_text", f"`topic` as {text!r}", row["topic"])
        self._references(row["references"])
        sentences = tuple(self._sentences(row))
        answer = CitedAnswer(row["run_id"], topic_id, row["topic"], tuple(row["references"]), sentences)
        if row["response_length"] > MAX_WORDS:
            self.add("reported_length", f"response_length of at most {MAX_WORDS}", row["response_length"])
        if answer.length > MAX_WORDS:  # the track's repair also corrects response_length
            self.add("n_words", f"at most {MAX_WORDS} words", answer.length)
        elif row["response_length"] != answer.length:
            self.add("response_length", f"response_length {answer.length}", row["response_length"])
        if self._is_valid:
            self._checked.answers.append(answer)
            sentences = cut_to_words(answer.sentences, MAX_WORDS)
            sentence_rows = [
                {**sentence_row, "citations": _distinct_citations(sentence_row["citations"])}
                for sentence_row in row["answer"][: len(sentences)]
            ]
            length = n_words(sentence.text for sentence in sentences)
            self._checked.repaired.append({**row, "response_length": length, "answer": sentence_rows})

    def _references(self, references: list[Any]) -> None:
        if len(references) > N_PASSAGES:
            self.add("n_references", f"at most {N_PASSAGES} references", len(references))
        for index, segment_id in enumerate(references):
            if not isinstance(segment_id, str) or not SEGMENT_ID.fullmatch(segment_id):
                self.add("reference_id", f"references[{index}] as the id of a segment", segment_id)
            elif segment_id in references[:index]:
                self.add("duplicate_reference", "each reference once", segment_id)

    def _sentences(self, row: Mapping[str, Any]) -> Iterator[CitedSentence]:
        for index, sentence in enumerate(row["answer"]):
            text = sentence.get("text") if isinstance(sentence, dict) else None
            citations = sentence.get("citations") if isinstance(sentence, dict) else None
            if not isinstance(text, str) or not isinstance(citations, list):
                self.add("sentence", f"answer[{index}] with `text` and a list `citations`", sentence)
                continue
            n_references = len(row["references"])
            for citation in citations:
                is_whole = isinstance(citation, int) and not isinstance(citation, bool)
                if not is_whole or not 0 <= citation < n_references:
                    self.add("citation", f"answer[{index}]: citations from 0 to {n_references - 1}", citation)
            unique = list(dict.fromkeys(map(repr, citations)))
            if len(unique) < len(citations):
                self.add("duplicate_citation", f"answer[{index}]: each citation once", citations)
            positions = [citation for citation in citations if isinstance(citation, int)]
            yield CitedSentence(text, tuple(dict.fromkeys(positions)))


def _distinct_citations(citations: list[int]) -> list[int]:
    """Return the distinct citations in the order of the track's tool: that of a Python set, mostly ascending.

    The tool creates a set of each sentence's citations. If citations are repeated, it creates a set twice. So [15, 7]
    and [15, 7, 7] get different orders, because the two numbers collide in the hash table of the set.
    """
    distinct = list(set(citations)) if len(set(citations)) < len(citations) else citations
    return list(set(distinct))

"""Answers in the track's format: sentences that cite positions in a list of segment ids.

Source: guidelines of TREC RAG 2024 and the organizers' validator.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ragtasks.benchmarks.trec_rag import MAX_WORDS, N_PASSAGES
from ragtasks.errors import ConfigurationError
from ragtasks.files import write_atomically, written_lines
from ragtasks.metrics import CitedSentence, cut_to_words, n_words, parse_cited
from ragtasks.records import Response
from ragtasks.submissions._findings import Diagnostic, Problem, Report, Rule


@dataclass(frozen=True, slots=True)
class CitedAnswer:
    """A line of an answer file."""

    run_id: str
    topic_id: str
    topic: str
    references: tuple[str, ...]
    """Segment ids, at most 20, best first."""
    sentences: tuple[CitedSentence, ...]
    """Sentences with citations, which are positions in `references`."""

    @property
    def text(self) -> str:
        """The sentences joined by blanks, for nugget assignment."""
        return " ".join(sentence.text for sentence in self.sentences)

    @property
    def length(self) -> int:
        """Number of words, counted as in the track."""
        return n_words(sentence.text for sentence in self.sentences)

    def row(self) -> dict[str, Any]:
        """Return the answer as the JSON object of its line."""
        return {
            "run_id": self.run_id,
            "topic_id": self.topic_id,
            "topic": self.topic,
            "references": list(self.references),
            "response_length": self.length,
            "answer": [{"text": sentence.text, "citations": list(sentence.citations)} for sentence in self.sentences],
        }


def answer_of(response: Response, run_id: str, *, cut: bool = False) -> CitedAnswer:
    """Return a model's free text as an answer, without citations of unknown passages."""
    references = tuple(passage.passage_id for passage in response.passages)
    if len(references) > N_PASSAGES:
        raise ConfigurationError(
            "answer for TREC RAG",
            where=f"topic {response.task.task_id}",
            expected=f"at most {N_PASSAGES} passages, which become its references",
            found=f"{len(references)} passages",
            next_step="evaluate with a run of fewer passages",
        )
    # Models occasionally write unpaired surrogates, which no file can encode.
    text = response.text.encode("utf-8", errors="replace").decode("utf-8")
    sentences = parse_cited(text, len(references))
    shortened = cut_to_words(sentences, MAX_WORDS) if cut else sentences
    return CitedAnswer(run_id, response.task.task_id, response.task.question, references, shortened)


def write_rows(path: Path, rows: Iterable[dict[str, Any]], *, is_ascii: bool = False) -> None:
    """Write JSON lines atomically. `is_ascii` escapes other characters, as json.dumps does by default."""
    write_atomically(path, written_lines(rows, is_ascii=is_ascii))


# The answers of a file with its findings, for every year of the track.

REFUSES = "the track refuses the file"
WARNS = "the track prints a warning"


@dataclass(slots=True)
class CheckedFile:
    """An answer file and its findings."""

    form: str
    rules: Mapping[str, Rule]
    answers: list[CitedAnswer] = field(default_factory=list)
    """The answers without problems, in file order."""
    findings: list[Diagnostic] = field(default_factory=list)
    repaired: list[dict[str, Any]] = field(default_factory=list)
    """The same answers as JSON objects, repaired like the track of 2024 repairs them; empty for 2025."""
    n_rows: int = 0
    """Number of lines that are not blank."""
    unchecked: tuple[str, ...] = ()

    def add(self, line: int, topic_id: str, problem: Problem) -> None:
        """Add a finding for a line; 0 means the complete file."""
        rule, expected, found = problem
        self.findings.append(self.rules[rule].finding(line, topic_id, expected, found))

    def report(self, name: str) -> Report:
        """Return the report of the file. Warnings do not fail it: the track repairs or accepts them."""
        return Report(name, self.form, self.n_rows, tuple(self.findings), self.unchecked, warnings_fail=False)


def unchecked_topics(topics: object, noun: str, benchmark: str) -> tuple[str, ...]:
    """Return the checks that require the topics; () if the topics are available."""
    checks = f"whether each {noun} belongs to the track and has the official text, and whether any is missing"
    return () if topics is not None else (f"{checks}: no local {noun}s (`ragtasks data fetch {benchmark}`)",)

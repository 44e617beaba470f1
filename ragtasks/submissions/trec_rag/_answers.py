"""Answers in the track's format: sentences that cite positions in a list of segment ids.

Source: guidelines of TREC RAG 2024 and the organisers' validator.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ragtasks.benchmarks.trec_rag import MAX_WORDS, N_PASSAGES
from ragtasks.errors import ConfigurationError, clear_error
from ragtasks.files import write_atomically
from ragtasks.metrics import CitedSentence, n_words, parse_cited, within
from ragtasks.records import Response


@dataclass(frozen=True, slots=True)
class Answer:
    """One line of an answer file."""

    run_id: str
    """Name of the system's run."""
    topic_id: str
    """Topic."""
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
    """Return a model's free text as an answer; citations that name no passage are left out.

    Args:
        response: the text, and the passages that the model was shown, which become the references.
        run_id: name of the run.
        cut: leave out sentences at the end until the answer has at most 400 words.

    Raises:
        ConfigurationError: the model was shown more than 20 passages, more than the format takes.
    """
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
    """Write JSON lines, atomically; other characters as escapes where `is_ascii`, as Python's own writer has them.

    Raises:
        CacheError: the file cannot be written.
    """
    lines = "".join(json.dumps(row, ensure_ascii=is_ascii) + "\n" for row in rows)
    write_atomically(path, lines.encode("utf-8", errors="replace"))


__all__ = ["Answer", "answer_of", "write_rows"]

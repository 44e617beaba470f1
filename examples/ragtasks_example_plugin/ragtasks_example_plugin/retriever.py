"""A retriever that ranks passages by the share of the query's words that they contain."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from ragtasks.files import Ranked, Run
from ragtasks.records import Passage
from retrieval_cache.retrievers import Progress, no_progress


class SharedWords:
    """Ranks by shared words; equal scores are ordered by passage id."""

    def __init__(self, min_length: int = 3) -> None:
        """Ignore words with fewer letters than `min_length`."""
        self._min_length = min_length
        self._words: dict[str, list[str]] = {}

    @property
    def name(self) -> str:
        """The canonical line of the retriever."""
        return f"shared_words:min_length={self._min_length}"

    def describe(self) -> Mapping[str, Any]:
        """Return the inputs that determine its rankings."""
        return {"retriever": "shared_words", "version": 1, "min_length": self._min_length}

    def index(self, passages: Iterable[Passage], folder: Path, progress: Progress = no_progress) -> None:
        """Write the words of every passage, or read the existing file."""
        file = folder / "words.json"
        if not file.is_file():
            words = {passage.passage_id: sorted(self._of(passage.text)) for passage in passages}
            file.write_text(json.dumps(words), encoding="utf-8")
        self._words = json.loads(file.read_text(encoding="utf-8"))

    def search(self, queries: Mapping[str, str], k: int, progress: Progress = no_progress) -> Run:
        """Return the best passages of each query."""
        return {query_id: self._best(self._of(text), k) for query_id, text in queries.items()}

    def _best(self, query: set[str], k: int) -> tuple[Ranked, ...]:
        scores = {name: len(query & set(words)) / len(query) for name, words in self._words.items() if query}
        best = sorted((-score, name) for name, score in scores.items() if score)[:k]
        return tuple(Ranked(name, -score) for score, name in best)

    def _of(self, text: str) -> set[str]:
        words = {word.strip(".,?") for word in text.lower().split()}
        return {word for word in words if len(word) >= self._min_length}

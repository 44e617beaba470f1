"""BERTScore by workers of a Ray cluster: each holds the encoder and scores pairs of texts, only scores travel back.

Runs of pairs that stand next to each other share texts, so a worker gets a run of them. What is lost with a worker or
its machine is scored by another. Every machine needs the same ragtasks and the same encoder.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from typing import Any

from ragtasks.errors import RagtasksError
from ragtasks.metrics import BertScore, BertScorer, EmbeddingCache, EncoderSpec
from retrieval_cache.engines._ray_encoding import encoding_workers

_RUN = 128
"""Pairs that a worker gets at once: a dozen responses with their passages."""


class RayBertScorer(BertScorer):
    """BERTScore on one encoder, in the processes of a cluster."""

    def __init__(
        self,
        spec: EncoderSpec,
        line: str,
        *,
        device: str | None = None,
        progress: Callable[[int, int], None] | None = None,
    ) -> None:
        """Keep the choices; nothing is connected or loaded yet."""
        super().__init__(spec, device=device, progress=progress)
        self._workers = encoding_workers(line)

    def connect(self) -> None:
        """Connect to the cluster now rather than at the first pair: before a model's answers depend on it."""
        self._workers.connect()

    def score(self, pairs: Sequence[tuple[str, str]], cache: EmbeddingCache | None = None) -> list[BertScore]:
        """Return the BERTScore of each (candidate, reference), as `BertScorer.score` does.

        A worker with another number of threads than this process may differ in the last bits of a score.
        """
        self._count([text.strip() for pair in pairs for text in pair])
        rows = [
            {"start": start, "pairs": json.dumps(pairs[start : start + _RUN])} for start in range(0, len(pairs), _RUN)
        ]
        if not rows:
            return []
        found: dict[int, list[BertScore]] = {}
        for row in self._workers.mapped(_Worker, (self.spec, self._device), rows):
            found[row["start"]] = [BertScore(*scores) for scores in json.loads(row["scores"])]
            if self.progress is not None:
                self.progress(self.n_texts * len(found) // len(rows), self.n_texts)
        return [score for _, scores in sorted(found.items()) for score in scores]

    def _count(self, texts: Sequence[str]) -> None:
        """Count texts, and those that are cut, with this process's own copy of the encoder."""
        unique = list(dict.fromkeys(texts))
        self.n_texts, self.n_from_cache, self.n_truncated = len(unique), 0, 0
        if unique:
            _, self.n_truncated = self.loaded().token_ids(unique)


class _Worker:
    """Scores runs of pairs on one machine; holds the encoder."""

    def __init__(self, spec: EncoderSpec, device: str | None) -> None:
        self._scorer = BertScorer(spec, device=device)

    def __call__(self, row: dict[str, Any]) -> dict[str, Any]:
        try:
            scores = self._scorer.score([(candidate, reference) for candidate, reference in json.loads(row["pairs"])])
        except RagtasksError as error:
            # As a value, because Ray keeps of what is raised only the text of a traceback.
            return {"problem": str(error), "start": row["start"], "scores": "[]"}
        values = [(score.precision, score.recall, score.f1) for score in scores]
        return {"problem": "", "start": row["start"], "scores": json.dumps(values)}

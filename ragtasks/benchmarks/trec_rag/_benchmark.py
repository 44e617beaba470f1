"""TREC RAG: topics that ask for a long, cited answer from MS MARCO V2.1 (paper: Ragnarok, Pradeep et al. 2024).

Of 2024 there are three sets of topics, one domain each: `test` (301), `raggy` (120) and `researchy` (600, the latter
two for development). Of 2025 there are 105 narratives: several sentences each, whose nuggets name the part of the
narrative that they belong to. A task is a topic; its id is the topic's own, so that the track's runs and judgements
join as they are. There is no reference answer: the target is the topic's nuggets in a row, which is the ceiling of
nugget recall.

The corpus has 113,520,750 segments, so passages come from a run: the benchmark's own where `runs/` and `segments/`
hold one, else a stored run that `ragtasks retrieve --retriever run:FILE` makes from a run and the segments' shards.
"""

from __future__ import annotations

from ragtasks.benchmarks.download import Source, SourceFile
from ragtasks.benchmarks.mtrag import Counts
from ragtasks.benchmarks.trec_rag._track import Track

_COMMIT = "5b819c1a45c8a0a3ec9426f476694f44a29dfaf3"

MAX_WORDS = 400
"""Longest answer that the track takes."""
NARRATIVES = "narratives"
"""The set of topics of 2025."""


def _source(name: str, *files: SourceFile) -> Source:
    """Return topics and relevance judgements, in the repository that was called anserini-tools.

    Their official checksums are not known here. Nuggets, runs and segments come from the track and Microsoft. A run
    must cover every set that is there, so development sets are a group of their own, `dev`, and not fetched unasked.
    """
    return Source(
        name=name,
        folder=name,
        marker="topics",
        repository="https://github.com/castorini/eval",
        commit=_COMMIT,
        base_url=f"https://raw.githubusercontent.com/castorini/eval/{_COMMIT}/",
        files=files,
    )


TRACK_2024 = Track(
    _source(
        "trec_rag24",
        SourceFile("topics/topics.rag24.test.txt", None, None, "tasks"),
        SourceFile("qrels/qrels.rag24.test.txt", None, None, "tasks"),
        SourceFile("topics/topics.rag24.raggy-dev.txt", None, None, "dev"),
        SourceFile("topics/topics.rag24.researchy-dev.txt", None, None, "dev"),
    ),
    "TREC RAG 2024",
    {"test": "rag24.test", "raggy": "rag24.raggy-dev", "researchy": "rag24.researchy-dev"},
    Counts(tasks=1021, by_domain={"test": 301, "raggy": 120, "researchy": 600}, by_answerability={"ANSWERABLE": 1021}),
)
"""Counts: paper, section 5, and the track's pages."""

TRACK_2025 = Track(
    _source(
        "trec_rag25",
        SourceFile("topics/topics.rag25.test.jsonl", None, None, "tasks"),
        SourceFile("qrels/qrels.rag25.test.txt", None, None, "tasks"),
    ),
    "TREC RAG 2025",
    {NARRATIVES: "rag25.test"},
    Counts(tasks=105, by_domain={NARRATIVES: 105}, by_answerability={"ANSWERABLE": 105}),
    has_narratives=True,
)
"""Counts: guidelines 2.0."""

TREC_RAG24 = TRACK_2024.definition()
TREC_RAG25 = TRACK_2025.definition()

__all__ = ["MAX_WORDS", "NARRATIVES", "TRACK_2024", "TRACK_2025", "TREC_RAG24", "TREC_RAG25"]

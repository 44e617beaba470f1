"""Retrieval results with the texts of what was found: JSON lines, one topic with its candidates a line.

Anserini writes them (`-outputRerankerRequests`), Ragnarok and RankLLM read them: `query` {`qid`, `text`}, `candidates`
[{`docid`, `score`, `doc` {`segment`, `title`, `url`, ...}}].

Source: castorini/ragnarok at 7233fa7, `src/ragnarok/data.py`.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class Candidate:
    """One passage that was found for a topic."""

    passage_id: str
    """Passage."""
    score: float
    """Higher is better; finite."""
    doc: Mapping[str, Any]
    """Its record; empty where the line has none."""


@dataclass(frozen=True, slots=True)
class RetrievedTopic:
    """What was found for one topic."""

    topic_id: str
    """Topic."""
    text: str
    """Its text; empty where the line has none."""
    candidates: tuple[Candidate, ...]
    """In the order of the line; no passage twice."""


def has_candidates(row: object) -> bool:
    """Return whether a row of JSON lines is a topic with its candidates."""
    return isinstance(row, dict) and "candidates" in row


def retrieved_topic(row: Mapping[str, Any]) -> RetrievedTopic:
    """Return what a row says.

    Raises:
        ValueError: it is not in the format, which the text says.
    """
    query, candidates = row.get("query"), row.get("candidates")
    topic_id = query.get("qid") if isinstance(query, dict) else None
    if not isinstance(query, dict) or not isinstance(topic_id, str | int) or isinstance(topic_id, bool):
        raise ValueError(f"`query` with a `qid`, found {query!r:.80}")
    if not isinstance(candidates, list):
        raise ValueError(f"a list `candidates`, found {candidates!r:.80}")
    found = {candidate.passage_id: candidate for candidate in map(_candidate, candidates)}
    if len(found) < len(candidates):
        raise ValueError("each candidate of a topic once, found one twice")
    return RetrievedTopic(str(topic_id), str(query.get("text") or ""), tuple(found.values()))


def _candidate(item: object) -> Candidate:
    passage_id = item.get("docid") if isinstance(item, dict) else None
    if not isinstance(item, dict) or not isinstance(passage_id, str) or not passage_id:
        raise ValueError(f"candidates with a `docid`, found {item!r:.80}")
    score, doc = item.get("score"), item.get("doc") or {}
    if isinstance(score, bool) or not isinstance(score, int | float) or not math.isfinite(score):
        raise ValueError(f"a finite `score` of {passage_id}, found {score!r}")
    if not isinstance(doc, dict):
        raise ValueError(f"`doc` of {passage_id} as an object, found {doc!r:.80}")
    return Candidate(passage_id, float(score), doc)


__all__ = ["Candidate", "RetrievedTopic", "has_candidates", "retrieved_topic"]

"""The files of TREC RAG: topics, runs, relevance judgements, segments; each is checked whole, line by line."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator
from pathlib import Path
from typing import Any

from ragtasks.files import (
    Misfit,
    Violations,
    has_candidates,
    json_lines,
    qrel_lines,
    read_whole,
    retrieved_topic,
    run_line,
)
from ragtasks.records import Passage, Qrel

SEGMENT_ID = re.compile(r"msmarco_v2\.1_doc_[0-9]+_[0-9]+#[0-9]+_[0-9]+")
"""The id of a segment of MS MARCO V2.1: file, offset of the document's line, number and offset of the segment."""

_NEXT_STEP = "fix these lines, or take the official file"
_RANK = re.compile(r"[0-9]{1,7}")
_LEAST_GRADE = -9999  # below 0 the track has grades of its own, such as for spam


def read_topics(path: Path) -> dict[str, str]:
    """Return topic id -> text of a file of `id<TAB>text` lines, in its order; ends of lines may be CR LF.

    Raises:
        BenchmarkFileError: the file is missing or empty, or has errors: all of them, by line.
    """
    violations = Violations(path, "TREC RAG topics", _NEXT_STEP)
    topics: dict[str, str] = {}
    for number, line in _lines(violations):
        topic_id, tab, text = line.partition("\t")
        topic_id, text = topic_id.strip(), text.strip()
        if not topic_id or not tab or not text:
            violations.add(number, "id, a tab and a text", line)
        elif topic_id in topics:
            violations.add(number, "each topic once", "this topic again", topic_id)
        else:
            topics[topic_id] = text
    violations.raise_if_any()
    return topics


def read_narratives(path: Path) -> dict[str, str]:
    """Return id -> narrative of the topics of 2025 (JSON lines with `id` and `title`), in their order.

    Raises:
        BenchmarkFileError: the file is missing or empty, or has errors: all of them, by line.
    """
    violations = Violations(path, "TREC RAG narratives", _NEXT_STEP)
    found: dict[str, str] = {}
    for number, row in json_lines(violations):
        topic_id, text = row.get("id"), row.get("title")
        if not isinstance(topic_id, str | int) or isinstance(topic_id, bool) or not str(topic_id).strip():
            violations.add(number, "`id` of a narrative", topic_id)
        elif not isinstance(text, str) or not text.strip():
            violations.add(number, "`title`, the narrative", text, str(topic_id))
        elif str(topic_id) in found:
            violations.add(number, "each narrative once", "this narrative again", str(topic_id))
        else:
            found[str(topic_id)] = text
    violations.raise_if_any()
    return found


def read_ranking(path: Path, topics: Collection[str]) -> dict[str, tuple[str, ...]]:
    """Return topic id -> segment ids in rank order, of a TREC run of these topics.

    Ranks must go up by one from 0 or 1 and scores must not rise, as the track asks; a topic without a line is left out.

    Raises:
        BenchmarkFileError: the file is missing or empty, or has errors: all of them, by line.
    """
    violations = Violations(path, "TREC RAG run", _NEXT_STEP)
    rankings: dict[str, dict[str, None]] = {}
    last: dict[str, tuple[int, float]] = {}
    for number, line in _lines(violations):
        found = run_line(line)
        if isinstance(found, Misfit):
            violations.add(number, found.expected, found.found)
            continue
        topic_id, segment_id, score = found.query_id, found.passage_id, found.score
        if not _RANK.fullmatch(found.rank):
            violations.add(number, "a rank", found.rank, topic_id)
            continue
        rank = int(found.rank)
        ranking = rankings.setdefault(topic_id, {})
        last_rank, last_score = last.get(topic_id, (min(rank, 1) - 1, score))
        if topic_id not in topics:
            violations.add(number, "a known topic", topic_id)
        elif segment_id in ranking:
            violations.add(number, "each segment once for a topic", segment_id, topic_id)
        elif rank != last_rank + 1:
            violations.add(number, f"rank {last_rank + 1}", rank, topic_id)
        elif score > last_score:
            violations.add(number, f"a score of at most {last_score}, as in the rank before", score, topic_id)
        ranking[segment_id] = None
        last[topic_id] = rank, score
    violations.raise_if_any()
    return {topic_id: tuple(ranking) for topic_id, ranking in rankings.items()}


def read_qrels(path: Path, topics: Collection[str]) -> tuple[Qrel, ...]:
    """Return the relevance judgements of a file, in its order: grade 0 to 4; its second column is not looked at.

    Raises:
        BenchmarkFileError: the file is missing or empty, or has errors: all of them, by line.
    """
    violations = Violations(path, "TREC RAG qrels", _NEXT_STEP)
    found: dict[tuple[str, str], Qrel] = {}
    for number, judged in qrel_lines(_lines(violations), {4}, least=_LEAST_GRADE):
        if isinstance(judged, Misfit):
            violations.add(number, judged.expected, judged.found)
        elif judged.query_id not in topics:
            violations.add(number, "a known topic", judged.query_id)
        elif found.setdefault((judged.query_id, judged.passage_id), judged) is not judged:
            violations.add(number, "each judgement once", judged.passage_id, judged.query_id)
    violations.raise_if_any()
    return tuple(found.values())


def read_segments(path: Path, wanted: Collection[str] | None = None) -> dict[str, Passage]:
    """Return segment id -> passage of a file of segment records (JSON lines), the wanted ones or all, in its order.

    The lines may be retrieval results too: then the segments are those of the candidates.

    Raises:
        BenchmarkFileError: the file is missing or empty, has errors (all of them, by line), or lacks wanted segments.
    """
    violations = Violations(
        path, "MS MARCO V2.1 segments", "fix these lines, or take the segments from the official archive"
    )
    found: dict[str, Passage] = {}
    for number, row in json_lines(violations):
        if has_candidates(row):
            found |= {item.passage_id: item for item in _candidates(number, row, violations)[1]}
            continue
        passage = _segment(number, row, violations)
        if passage and found.setdefault(passage.passage_id, passage) is not passage:
            violations.add(number, "each segment once", passage.passage_id)
    for segment_id in sorted(set(wanted or ()) - set(found)):
        violations.add(0, f"segment {segment_id}, which is cited or retrieved", "no line")
    violations.raise_if_any()
    return found if wanted is None else {key: passage for key, passage in found.items() if key in wanted}


def read_retrieved(path: Path, topics: Collection[str]) -> dict[str, tuple[Passage, ...]]:
    """Return topic id -> segments in the order of its line, of retrieval results of these topics.

    Raises:
        BenchmarkFileError: the file is missing or empty, or has errors: all of them, by line.
    """
    violations = Violations(path, "retrieval results", "fix these lines, or take the file as the retriever wrote it")
    found: dict[str, tuple[Passage, ...]] = {}
    for number, row in json_lines(violations):
        topic_id, passages = _candidates(number, row, violations)
        if topic_id in found:
            violations.add(number, "each topic once", "this topic again", topic_id)
        elif topic_id and topic_id not in topics:
            violations.add(number, "a known topic", topic_id)
        found[topic_id] = passages
    violations.raise_if_any()
    return found


def _candidates(number: int, row: dict[str, Any], violations: Violations) -> tuple[str, tuple[Passage, ...]]:
    """Return the topic and the segments of a line of retrieval results; what is wrong with it is noted."""
    try:
        topic = retrieved_topic(row)
    except ValueError as error:
        violations.add(number, str(error).partition(", found ")[0], str(error).partition(", found ")[2])
        return "", ()
    records = ({**candidate.doc, "docid": candidate.passage_id} for candidate in topic.candidates)
    passages = [_segment(number, record, violations) for record in records]
    return topic.topic_id, tuple(passage for passage in passages if passage)


def _segment(number: int, row: dict[str, Any], violations: Violations) -> Passage | None:
    """Return the passage of a segment record, None after noting what is wrong with it."""
    before = len(violations)
    segment_id = row.get("docid")
    if not isinstance(segment_id, str) or not SEGMENT_ID.fullmatch(segment_id):
        violations.add(number, "`docid` such as msmarco_v2.1_doc_00_0#0_0", segment_id)
    for key in ("url", "title", "headings", "segment"):
        if not isinstance(row.get(key), str):
            violations.add(number, f"`{key}` as a text", row.get(key, f"no {key}"), str(segment_id))
    for key in ("start_char", "end_char"):
        if not isinstance(row.get(key), int):
            violations.add(number, f"`{key}` as a whole number", row.get(key, f"no {key}"), str(segment_id))
    if len(violations) > before:
        return None
    return Passage(str(segment_id), row["segment"], row["title"], row["url"])


def _lines(violations: Violations) -> Iterator[tuple[int, str]]:
    """Yield (line number from 1, text) of each line that is not blank; one that is no UTF-8 is noted."""
    for number, line in enumerate(read_whole(violations).splitlines(), start=1):
        try:
            text = line.decode("utf-8-sig" if number == 1 else "utf-8")
        except UnicodeDecodeError as error:
            violations.add(number, "UTF-8", str(error))
            continue
        if text.strip():
            yield number, text


__all__ = [
    "SEGMENT_ID",
    "read_narratives",
    "read_qrels",
    "read_ranking",
    "read_retrieved",
    "read_segments",
    "read_topics",
]

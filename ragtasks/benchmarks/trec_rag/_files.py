"""The files of TREC RAG: topics, runs, relevance judgements, segments."""

from __future__ import annotations

import re
from collections.abc import Collection
from pathlib import Path
from typing import Annotated, Any

from pydantic import Field, TypeAdapter

from ragtasks.benchmarks._fields import (
    Fields,
    Label,
    Text,
    Whole,
    checked,
    matching,
    rows_by_id,
    text_lines,
    unique_rows,
)
from ragtasks.files import (
    Misfit,
    Problems,
    has_candidates,
    json_lines,
    qrel_lines,
    retrieved_topic,
    run_lines,
)
from ragtasks.records import (
    Passage,
    Qrel,
)

SEGMENT_ID = re.compile(r"msmarco_v2\.1_doc_[0-9]+_[0-9]+#[0-9]+_[0-9]+")
"""Id of a segment of MS MARCO V2.1: file, offset of the document's line, number and offset of the segment."""

_NEXT_STEP = "fix these lines, or take the official file"
_RANK = re.compile(r"[0-9]{1,7}")
_LEAST_GRADE = -9999  # the track uses grades below 0, such as for spam


def read_topics(path: Path) -> dict[str, str]:
    """Return topic id -> text of a file of `id<TAB>text` lines, in file order. Line ends may be CR LF."""
    problems = Problems(path, "TREC RAG topics", _NEXT_STEP)
    topics: dict[str, str] = {}
    for number, line in text_lines(problems):
        topic_id, tab, text = line.partition("\t")
        topic_id, text = topic_id.strip(), text.strip()
        if not topic_id or not tab or not text:
            problems.add(number, "id, a tab and a text", line)
        elif topic_id in topics:
            problems.add(number, "each topic once", "this topic again", topic_id)
        else:
            topics[topic_id] = text
    problems.raise_if_any()
    return topics


class _Narrative(Fields):
    topic_id: Label = Field(alias="id")
    text: Text = Field(alias="title")


def read_narratives(path: Path) -> dict[str, str]:
    """Return id -> narrative of the topics of 2025 (JSON lines with `id` and `title`), in file order."""
    problems = Problems(path, "TREC RAG narratives", _NEXT_STEP)
    rows = rows_by_id(problems, _Narrative, lambda row: row.topic_id, "narrative", "id")
    problems.raise_if_any()
    return {topic_id: row.text for topic_id, row in rows.items()}


def read_ranking(path: Path, topics: Collection[str]) -> dict[str, tuple[str, ...]]:
    """Return topic id -> segment ids in rank order, from a TREC run of these topics.

    As the track requires, ranks must increase by one from 0 or 1, and scores must not increase. Topics without a line
    are omitted.
    """
    problems = Problems(path, "TREC RAG run", _NEXT_STEP)
    rankings: dict[str, dict[str, None]] = {}
    last_of: dict[str, tuple[int, float]] = {}
    for number, line in run_lines(text_lines(problems)):
        if isinstance(line, Misfit):
            problems.add(number, line.expected, line.found)
            continue
        topic_id, segment_id, score = line.query_id, line.passage_id, line.score
        if not _RANK.fullmatch(line.rank):
            problems.add(number, "a rank", line.rank, topic_id)
            continue
        rank = int(line.rank)
        ranking = rankings.setdefault(topic_id, {})
        last_rank, last_score = last_of.get(topic_id, (min(rank, 1) - 1, score))
        if topic_id not in topics:
            problems.add(number, "a known topic", topic_id)
        elif segment_id in ranking:
            problems.add(number, "each segment once for a topic", segment_id, topic_id)
        elif rank != last_rank + 1:
            problems.add(number, f"rank {last_rank + 1}", rank, topic_id)
        elif score > last_score:
            problems.add(number, f"a score of at most {last_score}, as in the rank before", score, topic_id)
        ranking[segment_id] = None
        last_of[topic_id] = rank, score
    problems.raise_if_any()
    return {topic_id: tuple(ranking) for topic_id, ranking in rankings.items()}


def read_qrels(path: Path, topics: Collection[str]) -> tuple[Qrel, ...]:
    """Return the relevance judgements in a file, in file order: grades 0 to 4. The second column is ignored."""
    problems = Problems(path, "TREC RAG qrels", _NEXT_STEP)
    qrels: dict[tuple[str, str], Qrel] = {}
    for number, judged in qrel_lines(text_lines(problems), {4}, least=_LEAST_GRADE):
        if isinstance(judged, Misfit):
            problems.add(number, judged.expected, judged.found)
        elif judged.query_id not in topics:
            problems.add(number, "a known topic", judged.query_id)
        elif qrels.setdefault((judged.query_id, judged.passage_id), judged) is not judged:
            problems.add(number, "each judgement once", judged.passage_id, judged.query_id)
    problems.raise_if_any()
    return tuple(qrels.values())


class _Segment(Fields):
    docid: Annotated[str, matching(SEGMENT_ID.pattern, "an id such as msmarco_v2.1_doc_00_0#0_0")]
    url: str
    title: str
    headings: str
    text: str = Field(alias="segment")
    start_char: Whole
    end_char: Whole

    def passage(self) -> Passage:
        return Passage(self.docid, self.text, self.title, self.url)


_SEGMENT = TypeAdapter(_Segment)


def read_segments(path: Path, wanted: Collection[str] | None = None) -> dict[str, Passage]:
    """Return segment id -> passage from a file of segment records (JSON lines), in file order.

    Lines may also be retrieval results, whose candidates contain the segments. Without `wanted`, all segments are
    returned.
    """
    problems = Problems(
        path, "MS MARCO V2.1 segments", "fix these lines, or take the segments from the official archive"
    )
    candidates: dict[str, Passage] = {}
    segments: list[tuple[int, str, Passage]] = []
    for line, row in json_lines(problems):
        if has_candidates(row):
            candidates |= {candidate.passage_id: candidate for candidate in _candidates(line, row, problems)[1]}
        elif segment := checked(_SEGMENT, row, problems, line, str(row.get("docid") or "")):
            segments.append((line, segment.docid, segment.passage()))
    passages = candidates | unique_rows(problems, segments, "segment")
    for segment_id in sorted(set(wanted or ()) - set(passages)):
        problems.add(0, f"segment {segment_id}, which is cited or retrieved", "no line")
    problems.raise_if_any()
    return passages if wanted is None else {key: passage for key, passage in passages.items() if key in wanted}


def read_retrieved(path: Path, topics: Collection[str]) -> dict[str, tuple[Passage, ...]]:
    """Return topic id -> segments in the order of the line, from retrieval results of these topics."""
    problems = Problems(path, "retrieval results", "fix these lines, or take the file as the retriever wrote it")
    rows = [(line, *_candidates(line, row, problems)) for line, row in json_lines(problems)]
    for line, topic_id, _ in rows:
        if topic_id and topic_id not in topics:
            problems.add(line, "a known topic", topic_id)
    segments_of = unique_rows(problems, (row for row in rows if row[1]), "topic")
    problems.raise_if_any()
    return segments_of


def _candidates(line: int, row: dict[str, Any], problems: Problems) -> tuple[str, tuple[Passage, ...]]:
    """Return the topic and the segments of a line of retrieval results. Mismatches are added to `problems`."""
    try:
        topic = retrieved_topic(row)
    except ValueError as error:
        problems.add(line, str(error).partition(", found ")[0], str(error).partition(", found ")[2])
        return "", ()
    records = ({**candidate.doc, "docid": candidate.passage_id} for candidate in topic.candidates)
    segments = [checked(_SEGMENT, record, problems, line, record["docid"]) for record in records]
    return topic.topic_id, tuple(segment.passage() for segment in segments if segment)

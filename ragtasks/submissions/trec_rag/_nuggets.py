"""Creation of nuggets for topics without any, by a judge, from retrieved segments.

Segments that people judged below 2 are excluded; unjudged segments are included, as in castorini/nuggetizer at d00dc3e.
The file is written only if the judge replied for every topic, because a partial list would look complete.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from ragtasks.benchmarks.trec_rag import TopicNuggets, nugget_rows
from ragtasks.errors import JudgeError
from ragtasks.judges import NUGGET_CREATION, nugget_creation
from ragtasks.records import Importance, Nugget, Passage, Qrel, Response, Task
from ragtasks.submissions.trec_rag._answer import write_rows
from ragtasks.submissions.trec_rag._score import Judge

MIN_GRADE = 2
"""Minimum grade of a judged segment for nugget creation."""

_MAX_LISTED = 5


def pool(tasks: Sequence[Task], passages: Mapping[str, Sequence[Passage]], qrels: Iterable[Qrel]) -> list[Response]:
    """Return the input of nugget creation: each topic with its segments in rank order, without an answer."""
    irrelevant = {(qrel.query_id, qrel.passage_id) for qrel in qrels if qrel.relevance < MIN_GRADE}
    return [
        Response(
            task,
            tuple(
                passage
                for passage in passages.get(task.task_id, ())
                if (task.task_id, passage.passage_id) not in irrelevant
            ),
            "",
        )
        for task in tasks
    ]


def create_nuggets(pooled: Sequence[Response], judge: Judge) -> tuple[list[TopicNuggets], list[str]]:
    """Return (nuggets by topic, ids of the topics that no segment answers)."""
    verdicts = judge(pooled, [nugget_creation()])
    (name,) = verdicts.judges
    rows = [verdicts.verdict(index, NUGGET_CREATION, name) for index in range(len(pooled))]
    failed = [row for row in rows if not row.is_answered]
    if failed:
        raise JudgeError(
            "nuggets",
            where=name,
            expected=f"nuggets for all {len(rows)} topics",
            found=f"none for {len(failed)}: "
            + "; ".join(f"{row.task_id}: {row.reason}" for row in failed[:_MAX_LISTED]),
            next_step="run the command again: replies so far are saved, and nothing was written",
        )
    topics = [
        TopicNuggets(
            response.task.task_id,
            response.task.question,
            tuple(Nugget(nugget["text"], Importance(nugget["importance"])) for nugget in json.loads(row.label)),
        )
        for response, row in zip(pooled, rows, strict=True)
        if row.label is not None
    ]
    return topics, [row.task_id for row in rows if row.label is None]


def write_nuggets(path: Path, topics: Iterable[TopicNuggets]) -> None:
    """Write nuggets in the track's format, atomically."""
    rows = ({"query": topic.query, "qid": topic.topic_id, "nuggets": nugget_rows(topic.nuggets)} for topic in topics)
    write_rows(path, rows)

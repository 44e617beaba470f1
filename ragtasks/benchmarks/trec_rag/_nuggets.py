"""Nuggets of TREC RAG: short statements that a good answer to a topic makes, read from the track's files.

Two files hold them: nuggets (`qid`, `query`, `nuggets`), and assignments, where every nugget has a grade too. Those of
2025 name the part of the narrative as `mapped_sub_narrative`. A nugget without importance is an error here; the track's
own reader takes it for vital.

Source: castorini/nuggetizer at d00dc3e, `cli/adapters.py`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ragtasks.files import Violations, json_lines
from ragtasks.records import Grade, Importance, Nugget

_NEXT_STEP = "fix these lines; each needs qid and nuggets [{text, importance}]"


@dataclass(frozen=True, slots=True)
class TopicNuggets:
    """The nuggets of one topic."""

    topic_id: str
    """Topic."""
    query: str
    """Text of the topic; empty where the file has none."""
    nuggets: tuple[Nugget, ...]
    """At least one, most important first as a rule; no text twice."""


@dataclass(frozen=True, slots=True)
class Assignment:
    """The nuggets of one topic with the grades of one answer to it."""

    nuggets: TopicNuggets
    """What was looked for."""
    run_id: str
    """Whose answer it is."""
    grades: tuple[Grade | None, ...]
    """One a nugget; None where the file says that the judge failed."""


def read_nuggets(path: Path) -> dict[str, TopicNuggets]:
    """Return topic id -> nuggets, in the order of the file.

    Raises:
        BenchmarkFileError: the file is missing or empty, or has errors: all of them, by line.
    """
    violations = Violations(path, "nuggets", _NEXT_STEP)
    found: dict[str, TopicNuggets] = {}
    for line, row in json_lines(violations):
        topic = _topic(line, row, violations)
        if topic.topic_id and found.setdefault(topic.topic_id, topic) is not topic:
            violations.add(line, "each topic once", "this topic again", topic.topic_id)
    violations.raise_if_any()
    return found


def read_assignments(path: Path) -> list[Assignment]:
    """Return the assignments of a file, in its order; a run and a topic come once together.

    Raises:
        BenchmarkFileError: the file is missing or empty, or has errors: all of them, by line.
    """
    violations = Violations(path, "nugget assignments", f"{_NEXT_STEP}, and each nugget an assignment")
    found: list[Assignment] = []
    seen: set[tuple[str, str]] = set()
    for line, row in json_lines(violations):
        topic = _topic(line, row, violations)
        grades = tuple(_grades(line, row, violations))
        run_id = row.get("run_id")
        if not isinstance(run_id, str):
            violations.add(line, "a text `run_id`", run_id, topic.topic_id)
        elif (run_id, topic.topic_id) in seen:
            violations.add(line, "each topic once for a run", f"run {run_id} again", topic.topic_id)
        else:
            seen.add((run_id, topic.topic_id))
            found.append(Assignment(topic, run_id, grades))
    violations.raise_if_any()
    return found


def nugget_rows(nuggets: Iterable[Nugget]) -> list[dict[str, str]]:
    """Return nuggets as a task carries them; the part of a narrative only where there is one."""
    rows = (
        {"text": one.text, "importance": one.importance.value, "sub_narrative": one.sub_narrative} for one in nuggets
    )
    return [{key: value for key, value in row.items() if value or key != "sub_narrative"} for row in rows]


def _topic(line: int, row: dict[str, Any], violations: Violations) -> TopicNuggets:
    topic_id, query = row.get("qid"), row.get("query", "")
    # Some writers give the id as a number.
    topic_id = str(topic_id) if isinstance(topic_id, (str, int)) and not isinstance(topic_id, bool) else ""
    if not topic_id:
        violations.add(line, "`qid`, a topic's id", row.get("qid"))
    if not isinstance(query, str):
        violations.add(line, "`query` as a text", query, topic_id)
    nuggets: dict[str, Nugget] = {}
    for item in _items(line, row, violations):
        nugget = _nugget(line, item, topic_id, violations)
        if nugget and nuggets.setdefault(nugget.text, nugget) is not nugget:
            violations.add(line, "each nugget once", nugget.text, topic_id)
    return TopicNuggets(topic_id, str(query), tuple(nuggets.values()))


def _items(line: int, row: dict[str, Any], violations: Violations) -> list[Any]:
    items = row.get("nuggets")
    if isinstance(items, list) and items:
        return items
    violations.add(line, "`nuggets` with at least one nugget", items, str(row.get("qid") or ""))
    return []


def _nugget(line: int, item: object, topic_id: str, violations: Violations) -> Nugget | None:
    text = item.get("text") if isinstance(item, dict) else None
    if not isinstance(item, dict) or not isinstance(text, str) or not text.strip():
        violations.add(line, "a nugget with a `text`", item, topic_id)
        return None
    label = item.get("importance", "no importance")
    try:
        return Nugget(text, Importance(label), _part(str(item.get("mapped_sub_narrative") or "")))
    except ValueError:
        violations.add(line, "`importance`: vital or okay", label, topic_id)
        return None


def _part(label: str) -> str:
    """Return the name of a part of a narrative, without quotes; assessors put `New: ` before parts that they added."""
    added, new, name = label.rpartition("New:")
    return " ".join(
        [new, *name.replace('"', "").split()] if new and not added.strip(' "') else label.replace('"', "").split()
    )


def _grades(line: int, row: dict[str, Any], violations: Violations) -> Iterator[Grade | None]:
    items = row.get("nuggets")
    for item in items if isinstance(items, list) else []:
        label = item.get("assignment") if isinstance(item, dict) else None
        try:
            yield None if label == "failed" else Grade(label)
        except ValueError:
            known = ", ".join(grade.value for grade in Grade)
            violations.add(line, f"`assignment`: {known} or failed", label, str(row.get("qid") or ""))


__all__ = [
    "Assignment",
    "TopicNuggets",
    "nugget_rows",
    "read_assignments",
    "read_nuggets",
]

"""Nuggets of topics, and judgements of answers: nuggets in an answer, and support of citations.

A nugget is a short statement that a good answer to a topic contains. Two types of files contain nuggets. Nugget files
have `qid`, `query` and `nuggets`; assignment files have a grade for every nugget too. Nuggets of 2025 name their part
of the narrative in `mapped_sub_narrative`. A nugget without importance is an error here; the track's own reader counts
it as vital. Source: castorini/nuggetizer at d00dc3e, `cli/adapters.py`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, TypeVar

from pydantic import AfterValidator, BeforeValidator, Field

from ragtasks.benchmarks._fields import Fields, Label, Text, rows_by_id
from ragtasks.files import (
    Problems,
)
from ragtasks.records import (
    Grade,
    Importance,
    Nugget,
    Support,
)

_NUGGETS_NEXT_STEP = "fix these lines; each needs qid and nuggets [{text, importance}]"


@dataclass(frozen=True, slots=True)
class TopicNuggets:
    """The nuggets of one topic."""

    topic_id: str
    query: str
    """Text of the topic; empty if the file contains no text."""
    nuggets: tuple[Nugget, ...]
    """At least one, usually ordered by importance, with distinct texts."""


@dataclass(frozen=True, slots=True)
class GradedNuggets:
    """The nuggets of one topic with the grades of one answer."""

    nuggets: TopicNuggets
    run_id: str
    grades: tuple[Grade | None, ...]
    """One per nugget; None if the file records a failed judge."""


def _part(label: object) -> str:
    """Return the name of a part of a narrative, without quotes.

    Assessors prefix the parts that they added with `New: `.
    """
    text = str(label or "")
    added, new, name = text.rpartition("New:")
    return " ".join(
        [new, *name.replace('"', "").split()] if new and not added.strip(' "') else text.replace('"', "").split()
    )


class _Nugget(Fields):
    text: Text
    importance: Importance
    part: Annotated[str, BeforeValidator(_part)] = Field("", alias="mapped_sub_narrative")


_AnyNugget = TypeVar("_AnyNugget", bound=_Nugget)


def _each_text_once(nuggets: list[_AnyNugget]) -> list[_AnyNugget]:
    repeated = [text for text, n in Counter(nugget.text for nugget in nuggets).items() if n > 1]
    if repeated:
        raise ValueError(f"a list with each nugget once, not {repeated[0]!r} again")
    return nuggets


class _NuggetRow(Fields):
    topic_id: Label = Field(alias="qid")
    query: str = ""
    nuggets: Annotated[list[_Nugget], AfterValidator(_each_text_once)] = Field(min_length=1)

    def topic_nuggets(self) -> TopicNuggets:
        nuggets = tuple(Nugget(nugget.text, nugget.importance, nugget.part) for nugget in self.nuggets)
        return TopicNuggets(self.topic_id, self.query, nuggets)


class _GradedNugget(_Nugget):
    grade: Annotated[Grade | None, BeforeValidator(lambda label: None if label == "failed" else Grade(label))] = Field(
        alias="assignment"
    )


class _AssignmentRow(_NuggetRow):
    run_id: str
    nuggets: Annotated[list[_GradedNugget], AfterValidator(_each_text_once)] = Field(min_length=1)  # type: ignore[assignment]


def read_nuggets(path: Path) -> dict[str, TopicNuggets]:
    """Return topic id -> nuggets, in file order."""
    problems = Problems(path, "nuggets", _NUGGETS_NEXT_STEP)
    rows = rows_by_id(problems, _NuggetRow, lambda row: row.topic_id, "topic", "qid")
    problems.raise_if_any()
    return {topic_id: row.topic_nuggets() for topic_id, row in rows.items()}


def read_assignments(path: Path) -> list[GradedNuggets]:
    """Return the assignments in a file, in file order. Each pair of run and topic occurs once."""
    problems = Problems(path, "nugget assignments", f"{_NUGGETS_NEXT_STEP}, and each nugget an assignment")
    rows = rows_by_id(problems, _AssignmentRow, _run_key, "topic of a run", "qid").values()
    problems.raise_if_any()
    return [
        GradedNuggets(row.topic_nuggets(), row.run_id, tuple(nugget.grade for nugget in row.nuggets)) for row in rows
    ]


def _run_key(row: _AssignmentRow | _SupportRow) -> str:
    return f"{row.topic_id} of run {row.run_id}"


def nugget_rows(nuggets: Iterable[Nugget]) -> list[dict[str, str]]:
    """Return nuggets in the format of a task; the part of a narrative only if it exists."""
    rows = (
        {"text": nugget.text, "importance": nugget.importance.value, "sub_narrative": nugget.sub_narrative}
        for nugget in nuggets
    )
    return [{key: value for key, value in row.items() if value or key != "sub_narrative"} for row in rows]


# Labels of 2024 (`final.citation_judgments_*.jsonl`): "2", "1", "0", and "-1" for unjudged citations, such as 110 of
# the 4,855 in `final.citation_judgments_Webassess.20241031.jsonl`.
_LEVELS = {"2": Support.FULL, "1": Support.PARTIAL, "0": Support.NO, "-1": None, "None": None}


def _level(label: object) -> Support | None:
    if str(label) not in _LEVELS:
        raise ValueError("0, 1 or 2, or -1 for not judged")
    return _LEVELS[str(label)]


class _Citation(Fields):
    level: Annotated[Support | None, BeforeValidator(_level)] = Field(None, alias="support")


class _JudgedSentence(Fields):
    citations: list[_Citation]


class _SupportRow(Fields):
    topic_id: Label
    run_id: str
    sentences: list[_JudgedSentence]


@dataclass(frozen=True, slots=True)
class SupportJudgement:
    """The judged citations of one answer. Sequences have one item per sentence."""

    topic_id: str
    run_id: str
    cites: tuple[bool, ...]
    """Whether the sentence cites a segment."""
    levels: tuple[Support | None, ...]
    """Support from the first citation; None without a citation or judgement."""
    n_not_judged: int = 0
    """Number of citations without a judgement. Only the first citation of a sentence affects the scores."""


def read_support(path: Path) -> list[SupportJudgement]:
    """Return the judgements in a file, in file order. Each pair of run and topic occurs once.

    Citations without a label (no `support`, null, or -1) are not judged.
    """
    problems = Problems(
        path, "support judgements", "fix these lines; each needs topic_id, run_id and sentences [{citations}]"
    )
    rows = rows_by_id(problems, _SupportRow, _run_key, "topic of a run", "topic_id").values()
    problems.raise_if_any()
    return [
        SupportJudgement(
            row.topic_id,
            row.run_id,
            cites=tuple(bool(sentence.citations) for sentence in row.sentences),
            levels=tuple(sentence.citations[0].level if sentence.citations else None for sentence in row.sentences),
            n_not_judged=sum(citation.level is None for sentence in row.sentences for citation in sentence.citations),
        )
        for row in rows
    ]

"""Published scores: each JSON file of this folder contains the tables of one paper or shared task.

A table has the digits of its source. It names what its scores depend on: benchmark, profile, judge, encoder and number
of tasks. Scores of an evaluation are shown next to it only if these are equal
(docs/background/official.md).
"""

from __future__ import annotations

from functools import cache
from importlib import resources
from pathlib import Path
from typing import Any, Literal

import orjson
from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from ragtasks.errors import BenchmarkFileError, close_matches, misfits
from ragtasks.metrics import METRICS, RETRIEVAL_METRICS
from ragtasks.tables import ALL

RANKING = "ranking score"
"""Name of MTRAGEval's ranking score of tasks B and C: the harmonic mean of RL_F, RB_llm and RB_alg."""
_METRICS = {RANKING} | {metric.name for metric in METRICS} | {metric.name for metric in RETRIEVAL_METRICS}


class PublishedRow(BaseModel):
    """The scores of one model or retriever."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    name: str = Field(min_length=1)
    setting: str = Field(min_length=1)
    """Setting of an answer, or query form of a retriever."""
    subset: str = ""
    """The part of the queries that the scores cover. Empty: all."""
    n: int | None = None
    """Number of tasks, if it is not that of the table."""
    rank: int | None = Field(None, ge=1)
    """Rank in a shared task; None for the organizers' baseline, and outside of shared tasks."""
    is_target: bool = False
    """Whether the reference answers were scored, not a model."""
    scores: tuple[str, ...]
    """One per metric of the table, with the digits of the source."""


class PublishedTable(BaseModel):
    """One table of a paper, or the results of a shared task."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    title: str = Field(min_length=1)
    source: str = Field(min_length=1)
    """Addresses of the papers that print the scores."""
    date: str = Field(min_length=len("2026-02"))
    """Day, or month, of publication."""
    benchmark: str
    profile: Literal["paper", "ibm"]
    """Definition of the metrics: that of the paper, or the official scripts."""
    judge: str | None = None
    """Model of the judge, without its provider. None if no judge is used, or the source does not name it."""
    encoder: str | None = None
    """Encoder of BERTScore, if a metric depends on it."""
    n: int
    """Number of tasks, or of judged queries of a retriever."""
    n_released: int | None = None
    """How many of them are public, if not all are."""
    n_teams: int | None = None
    """Number of teams in a shared task."""
    note: str = ""
    metrics: tuple[str, ...]
    rows: tuple[PublishedRow, ...]

    @model_validator(mode="after")
    def _is_consistent(self) -> PublishedTable:
        for name in self.metrics:
            if name not in _METRICS:
                raise ValueError(f"unknown metric {name!r}: {close_matches(name, _METRICS)}")
        seen = set()
        for row in self.rows:
            key = (row.name, row.setting, row.subset)
            label = ", ".join(filter(None, key))
            if key in seen:
                raise ValueError(f"{label} twice")
            seen.add(key)
            if len(row.scores) != len(self.metrics):
                raise ValueError(f"{label}: {len(row.scores)} scores for {len(self.metrics)} metrics")
            for score in row.scores:
                if not _is_share(score):
                    raise ValueError(f"{label}: {score!r}")
        return self

    def of(self, setting: str) -> list[PublishedRow]:
        """Return the rows of a setting or query form."""
        return [row for row in self.rows if row.setting == setting]

    def score(self, row: PublishedRow, metric: str) -> str:
        """Return the score of a row, with the digits of the source."""
        return row.scores[self.metrics.index(metric)]

    def is_covered_by(self, n: int) -> bool:
        """Return whether an evaluation of `n` tasks covers all tasks of the table, or all public ones."""
        return n in {self.n, self.n_released}

    def note_for(self, n: int) -> str:
        """Return source, judge and number of tasks, for a reader whose scores cover `n` tasks."""
        judged = f", judged by {self.judge} with the official prompts" if self.judge else ""
        over = f"Over {self.n:,} tasks, of which {n:,} are public: a guide, not a comparison." if n != self.n else ""
        return " ".join(filter(None, (f"{self.source} ({self.date}){judged}.", over, self.note)))


def _is_share(text: str) -> bool:
    try:
        return 0.0 <= float(text) <= 1.0
    except ValueError:
        return False


def read_published(path: Path) -> tuple[PublishedTable, ...]:
    """Return the tables of a file.

    Raises:
        BenchmarkFileError: a table lists a model twice, has an unknown metric or a value outside 0 to 1, or the file
            has another form.
    """
    try:
        contents = orjson.loads(path.read_bytes())
        return tuple(_table(content, path) for content in contents)
    except (orjson.JSONDecodeError, TypeError) as error:
        raise _refusal(f"{path}", str(error)) from None


def _table(content: Any, path: Path) -> PublishedTable:
    try:
        return PublishedTable.model_validate(content)
    except ValidationError as error:
        title = content.get("title", "a table without title") if isinstance(content, dict) else "no table"
        raise _refusal(f"{path}, {title}", "; ".join(misfits(error, ""))) from None


def _refusal(where: str, found: str) -> BenchmarkFileError:
    return BenchmarkFileError(
        "published scores",
        where=where,
        expected="each model once per setting, with scores from 0 to 1 of known metrics",
        found=found,
        next_step="correct the file, or reinstall ragtasks",
    )


@cache
def _all_tables() -> dict[str, PublishedTable]:
    """Return title -> table."""
    with resources.as_file(resources.files("ragtasks.published")) as folder:
        return {table.title: table for path in sorted(folder.glob("*.json")) for table in read_published(path)}


def published_table(title: str) -> PublishedTable:
    """Return the table with this title."""
    return _all_tables()[title]


def published_tables(benchmark: str) -> list[PublishedTable]:
    """Return the published tables of a benchmark."""
    return [table for table in _all_tables().values() if table.benchmark == benchmark]


def published_subsets() -> dict[tuple[str, str], tuple[int, str]]:
    """Return (dimension, value) -> number of queries and R@5 of Elser with rewritten questions (MTRAG, Tables 3, 4)."""
    all_queries, parts = published_table("MTRAG paper, Table 3"), published_table("MTRAG paper, Table 4")
    (total,) = (row for row in all_queries.of("rewrite") if row.name == parts.rows[0].name)
    subsets = {(ALL, ""): (all_queries.n, all_queries.score(total, "R@5"))}
    for row in parts.rows:
        dimension, _, value = row.subset.partition(": ")
        subsets[dimension, value] = (row.n or parts.n, row.scores[0])
    return subsets

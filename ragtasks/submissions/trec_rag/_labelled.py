"""Scores of runs from existing labels: nugget assignments and support judgements of people or of a judge.

No judge, topics or texts are needed. A run is scored on its labeled topics. For a run with fewer labeled topics than
others, the tables show the number of topics and the mean with missing topics at 0. Nuggets and support have separate
tables, because NIST's two files cover different topics and name the same runs differently.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean
from typing import Any

from ragtasks.benchmarks.trec_rag import GradedNuggets, SupportJudgement
from ragtasks.metrics import (
    NUGGET_SCORES,
    SUPPORT_SCORES,
    nugget_scores,
    nugget_scores_official,
    support_scores,
)
from ragtasks.submissions.trec_rag._answer import write_rows
from ragtasks.tables import Cell, Table, Value

_ALL = "all"


@dataclass(frozen=True, slots=True)
class LabelledRuns:
    """Scores of runs from labels of one type."""

    names: tuple[str, ...]
    """Names of the scores. Runs are ranked by the first."""
    values: Mapping[str, Mapping[str, Mapping[str, float | None]]]
    """Run -> topic -> score -> value; None without a value."""
    note: str = ""

    @property
    def n_topics(self) -> int:
        """Number of topics with labels for any run."""
        return len({topic for rows in self.values.values() for topic in rows})

    def mean(self, run_id: str, name: str, *, missing: float | None = None) -> Value:
        """Return the mean of a score over a run's topics, and how many of all topics it covers."""
        rows, n_topics = self.values[run_id], self.n_topics
        present = [value for scores in rows.values() if (value := scores[name]) is not None]
        present += [missing] * (n_topics - len(rows)) if missing is not None else []
        return Value(fmean(present) if present else None, len(present), n_topics)

    def rows(self) -> list[dict[str, Any]]:
        """Return a row per run and topic, in file order, and a row `all` with the means of each run."""
        return [
            {"run_id": run_id, "qid": topic_id, **scores}
            for run_id, by_metric in self.values.items()
            for topic_id, scores in [
                *by_metric.items(),
                (_ALL, {name: self.mean(run_id, name).value for name in self.names}),
            ]
        ]


def assigned_runs(assignments: Sequence[GradedNuggets]) -> LabelledRuns:
    """Return the six nugget scores of every run."""
    values: dict[str, dict[str, dict[str, float | None]]] = {}
    for assignment in assignments:
        scores = nugget_scores([nugget.importance for nugget in assignment.nuggets.nuggets], assignment.grades)
        row = {name: score.value for name, score in scores.items()}
        values.setdefault(assignment.run_id, {})[assignment.nuggets.topic_id] = row
    return LabelledRuns(NUGGET_SCORES, values)


def assigned_runs_official(assignments: Sequence[GradedNuggets]) -> LabelledRuns:
    """Return the four scores of the track's own tool. Nuggets without a grade and scores without nuggets count as 0."""
    values: dict[str, dict[str, dict[str, float | None]]] = {}
    for assignment in assignments:
        scores = nugget_scores_official([nugget.importance for nugget in assignment.nuggets.nuggets], assignment.grades)
        values.setdefault(assignment.run_id, {})[assignment.nuggets.topic_id] = {**scores}
    return LabelledRuns(NUGGET_SCORES[:4], values)


def supported_runs(judgements: Sequence[SupportJudgement]) -> LabelledRuns:
    """Return both support scores of every run."""
    values: dict[str, dict[str, dict[str, float | None]]] = {}
    for judgement in judgements:
        scores = support_scores(judgement.cites, judgement.levels)
        values.setdefault(judgement.run_id, {})[judgement.topic_id] = {
            name: score.value for name, score in scores.items()
        }
    return LabelledRuns(SUPPORT_SCORES, values, _unjudged_note(judgements))


def _unjudged_note(judgements: Sequence[SupportJudgement]) -> str:
    """Return the number of unjudged citations, and how many of them are the first of a sentence; "" without any."""
    n = sum(judgement.n_not_judged for judgement in judgements)
    first = sum(
        cited and level is None
        for judgement in judgements
        for cited, level in zip(judgement.cites, judgement.levels, strict=True)
    )
    return (
        f"Citations not judged: {n}. Of these {first} are the first in a sentence and count in neither score."
        if n
        else ""
    )


def labelled_tables(title: str, runs: LabelledRuns) -> list[Table]:
    """Return a table of all runs and, if needed, a table of the runs with missing topics.

    Runs with all topics come first. Within both groups, the best run comes first.
    """
    incomplete = {run_id for run_id, rows in runs.values.items() if len(rows) < runs.n_topics}
    ordered = sorted(
        runs.values, key=lambda run_id: (run_id in incomplete, -(runs.mean(run_id, runs.names[0]).value or 0))
    )

    def row(run_id: str, missing: float | None) -> tuple[Cell, ...]:
        n_labelled: Cell = f"{len(runs.values[run_id])} of {runs.n_topics}"
        return (run_id, n_labelled, *(runs.mean(run_id, name, missing=missing) for name in runs.names))

    columns = ("run", "topics", *runs.names)
    tables = [Table(title, columns, tuple(row(run_id, None) for run_id in ordered), runs.note)]
    if incomplete:
        note = "These runs have no labels for some topics. They are listed last above, regardless of their scores."
        chosen = tuple(row(run_id, 0.0) for run_id in ordered if run_id in incomplete)
        tables.append(Table(f"{title}, with the missing topics at 0", columns, chosen, note))
    return tables


def write_labelled(folder: Path, runs: Mapping[str, LabelledRuns]) -> list[Path]:
    """Write name -> runs as JSON lines, each atomically, and return the paths."""
    for name, labelled in runs.items():
        write_rows(folder / name, labelled.rows())
    return [folder / name for name in runs]

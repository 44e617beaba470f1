"""Where a ranking score lies between the published scores of MTRAGEval: the baseline and the best team of the task.

The track used the official scripts, so only scores of the profile `ibm` over all tasks of its test set are compared.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from ragtasks.benchmarks import Benchmark, stored_name
from ragtasks.files import MANIFEST, read_manifest, run_folder
from ragtasks.metrics import RANKED_BY, ranking_score
from ragtasks.published import other_sizes, published_table
from ragtasks.records import Score
from ragtasks.results import SavedEvaluation, value_at
from ragtasks.submissions._findings import SubmissionTask


def standing(task: SubmissionTask, benchmark: str, n_tasks: int, score: float | None, basis: str = "") -> Iterator[str]:
    """Yield a line that compares a score with the published ones; no line for other data or without a score."""
    table = published_table(f"MTRAGEval task {task.value}")
    if table.benchmark != benchmark or score is None or not table.is_covered_by(n_tasks):
        return
    marks = []
    for row in reversed(table.rows):
        rank = f"rank {row.rank} of {table.n_teams} teams, " if row.rank else ""
        marks.append(f"{_relation(score, row.scores[0])} {row.scores[0]} ({rank}{row.name})")
    yield f"{table.title}: {score:.4f} is {', '.join(marks)}; {table.source} ({table.date}){basis}"


def _relation(score: float, published: str) -> str:
    """Return how a score compares with a published one, at the digits of the source."""
    rounded, other = round(score, len(published.partition(".")[2])), float(published)
    return "equal to" if rounded == other else "above" if rounded > other else "below"


def standing_of_answers(
    task: SubmissionTask, benchmark: str, saved: SavedEvaluation, values: Mapping[str, Sequence[float | None]]
) -> Iterator[str]:
    """Yield the line of tasks B and C for the values of `rl_f_ibm`, `rb_llm_ibm` and `rb_alg_ibm` of each task."""
    table = published_table(f"MTRAGEval task {task.value}")
    scoring = {_scoring(saved_task.provenance) for saved_task in saved.tasks}
    if len(scoring) > 1:
        return
    ((encoder, judges),) = scoring
    means = {name: _complete_mean(column) for name, column in values.items()}
    if encoder == table.encoder:
        basis = f"; judged by {judges}, the judge of the track is not recorded"
        yield from standing(task, benchmark, len(values[RANKED_BY[0]]), ranking_score(means).value, basis)


def searched_all(store: Path, run: str, benchmark: Benchmark) -> bool:
    """Return whether a stored run searched the complete corpora. True for passages of another source."""
    folder = run_folder(store, stored_name(store, run, benchmark))
    if not (folder / MANIFEST).is_file():
        return True
    corpora = read_manifest(folder).spec["corpora"]
    sizes = {domain: corpus.get("n_passages") for domain, corpus in corpora.items()}
    return not any(other_sizes(sizes, corpora))


def _scoring(provenance: Mapping[str, object]) -> tuple[object, object]:
    return value_at(provenance, "scoring", "encoder"), value_at(provenance, "scoring", "judges")


def _complete_mean(values: Sequence[float | None]) -> Score:
    """Return the mean, unscored unless every task has a value."""
    numbers = [value for value in values if value is not None]
    is_complete = len(numbers) == len(values) > 0
    return Score(sum(numbers) / len(numbers)) if is_complete else Score(None, "not every task is scored")

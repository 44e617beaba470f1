"""Puts a submission together: for each task of the input one object, with contexts in rank order and any answer.

What is not official input, a ranking or an answer does not get in: no targets, no labels.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import orjson

from ragtasks.benchmarks import Benchmark, contexts_of_run, published_passages
from ragtasks.errors import BenchmarkFileError, CacheError, ConfigurationError, clear_error
from ragtasks.files import OFFICIAL, Ranked, read_manifest, read_trec, run_folder
from ragtasks.records import Passage, Setting
from ragtasks.results import SavedEvaluation, SavedTask, evaluation_files, own_history, read_results
from ragtasks.submissions._findings import SubmissionTask
from ragtasks.submissions.mtrageval._check import MAX_CONTEXTS
from ragtasks.submissions.mtrageval._inputs import Inputs, InputTask, official_scores, rank_scores


@dataclass(frozen=True, slots=True)
class Entry:
    """What a submission says about one task."""

    passages: tuple[Passage, ...]
    """Contexts, best first."""
    scores: tuple[float, ...] | None = None
    """One a context; None where they were not kept: then the rank is the score."""
    answer: str = ""
    """The model's answer; empty where there is none."""


@dataclass(frozen=True, slots=True)
class Built:
    """A submission before it is written."""

    rows: tuple[dict[str, Any], ...]
    """One object a task, in the order of the input."""
    n_rescored: int
    """Tasks whose scores do not rank officially as they stand, and were replaced by scores from the rank."""
    n_by_rank: int
    """Tasks whose contexts came without scores."""
    n_cut: int
    """Tasks with more contexts than are handed in."""

    @property
    def content(self) -> bytes:
        """The file."""
        return b"".join(orjson.dumps(row) + b"\n" for row in self.rows)


def build(task: SubmissionTask, inputs: Inputs, entries: Mapping[str, Entry], limit: int = MAX_CONTEXTS) -> Built:
    """Return the submission that answers every task of the input."""
    kept = {key: _cut(entries[key], limit) for key in inputs}
    scored = {key: _scores(entry) for key, entry in kept.items()}
    return Built(
        rows=tuple(_row(task, given, kept[key], scored[key]) for key, given in inputs.items()),
        n_rescored=sum(entry.scores is not None and entry.scores != scored[key] for key, entry in kept.items()),
        n_by_rank=sum(entry.scores is None and bool(entry.passages) for entry in kept.values()),
        n_cut=sum(len(entries[key].passages) > limit for key in inputs),
    )


def _cut(entry: Entry, limit: int) -> Entry:
    return Entry(entry.passages[:limit], None if entry.scores is None else entry.scores[:limit], entry.answer)


def _scores(entry: Entry) -> tuple[float, ...]:
    return rank_scores(len(entry.passages)) if entry.scores is None else official_scores(entry.scores)


def _row(task: SubmissionTask, given: InputTask, entry: Entry, scores: tuple[float, ...]) -> dict[str, Any]:
    """Return the object of one task; a ranking needs no texts, and is small without them."""
    answers = task is not SubmissionTask.A
    row: dict[str, Any] = {
        "task_id": given.task_id,
        **given.along,
        "Collection": given.collection,
        "input": [{"speaker": speaker, "text": text} for speaker, text in given.messages],
        "contexts": [_context(item, score, answers) for item, score in zip(entry.passages, scores, strict=True)],
    }
    return {**row, "predictions": [{"text": entry.answer}]} if answers else row


def _context(passage: Passage, score: float, with_text: bool) -> dict[str, Any]:
    context: dict[str, Any] = {"document_id": passage.passage_id, "score": score}
    if with_text:
        context |= {"text": passage.text} | ({"title": passage.title} if passage.title else {})
    return context


# Where a submission's contexts and answers come from: a stored run, the published passages, or logged answers.

_SCORE_FIRST = (
    "a file of predictions is scored first: `ragtasks score {path} --benchmark mtrag --setting reference --output "
    "DIR --metadata '{{\"conversational\": true}}'` (task C: --setting full_rag); then name DIR as --results. A file "
    "that is a submission already: `ragtasks check {path} --task B`"
)
_SETTINGS = {
    SubmissionTask.A: Setting.FULL_RAG,
    SubmissionTask.B: Setting.REFERENCE,
    SubmissionTask.C: Setting.FULL_RAG,
}


def entries_of_run(store: Path, name: str, benchmark: Benchmark) -> dict[str, Entry]:
    """Return task id -> ranking, of a stored run of this very benchmark; tasks without a passage are left out."""
    if name == OFFICIAL:
        return {task_id: Entry(passages) for task_id, passages in published_passages(benchmark).items() if passages}
    contexts_of_run(store, name, benchmark, Setting.FULL_RAG)  # refuses a run of other data
    folder = run_folder(store, name)
    rankings: dict[str, tuple[Ranked, ...]] = {}
    for file, sha256 in read_manifest(folder).files.items():
        if file.endswith(".trec"):
            rankings |= read_trec(_whole(folder / file, sha256))
    return {
        task_id: Entry(tuple(Passage(item.passage_id, "") for item in ranking), tuple(item.score for item in ranking))
        for task_id, ranking in rankings.items()
        if ranking
    }


def _whole(path: Path, sha256: str) -> Path:
    """Return the path of a file that has the bytes that were written."""
    if path.is_file() and hashlib.sha256(path.read_bytes()).hexdigest() == sha256:
        return path
    raise CacheError(f"{path} is missing or has other bytes than were written; remove the run and make it again")


def answered(path: Path) -> SavedEvaluation:
    """Return the one evaluation at a path: a results file of the harness, or a folder that holds one."""
    files, predictions = evaluation_files(path)
    if len(files) == 1:
        return read_results(files[0], path, {})
    message = clear_error(
        "results to submit",
        where=str(path),
        expected="one results_*.json, of one model",
        found=", ".join(map(str, files or predictions)),
        next_step="name the results file itself" if files else _SCORE_FIRST.format(path=predictions[0]),
    )
    raise BenchmarkFileError(message)


def entries_of_answers(saved: SavedEvaluation, task: SubmissionTask, benchmark: Benchmark) -> dict[str, Entry]:
    """Return task id -> answer and the contexts that the model was shown, of the setting that the task is about."""
    setting = _SETTINGS[task]
    entries: dict[str, Entry] = {}
    origins: set[tuple[Any, ...]] = set()
    for part in _with_gold_history(saved):
        for row, response in zip(part.rows, part.responses, strict=True):
            doc = row["doc"]
            if doc.get("setting") != setting.value:
                continue
            origins.add((doc.get("benchmark"), doc.get("is_sample"), part.provenance.get("revision")))
            task_id = response.task.task_id
            if response.no_answer:
                continue  # a request that failed: the task is missing, not answered with nothing
            if task_id in entries:
                raise BenchmarkFileError(f"{saved.source}: task {task_id} is answered twice in setting {setting.value}")
            entries[task_id] = Entry(response.passages, None, response.text)
    _check_origin(saved, setting, origins, benchmark)
    return entries


def _with_gold_history(saved: SavedEvaluation) -> list[SavedTask]:
    """Return the harness tasks whose questions are those of the track: its conversations have answers of their own."""
    return [part for part in saved.tasks if not own_history(part.provenance)]


def _check_origin(
    saved: SavedEvaluation, setting: Setting, origins: set[tuple[Any, ...]], benchmark: Benchmark
) -> None:
    if origins == {(benchmark.name, benchmark.is_sample, benchmark.revision)}:
        return
    message = clear_error(
        "results to submit",
        where=str(saved.source),
        expected=f"answers to {benchmark.label} ({benchmark.revision}) in setting {setting.value}",
        found=f"answers to {sorted(map(str, origins))}" if origins else "no answers in this setting",
        next_step="name the benchmark and its files with --benchmark and --data, or other results",
    )
    raise ConfigurationError(message)


def values_of(saved: SavedEvaluation, task: SubmissionTask, task_ids: Iterable[str], metric: str) -> list[float | None]:
    """Return a metric's value for each task, None where it is unscored, not in the results, or not answered."""
    rows = [
        row
        for part in _with_gold_history(saved)
        for row in part.rows
        if row["doc"].get("setting") == _SETTINGS[task].value
    ]
    found = {row["doc"]["task_id"]: row.get(metric) for row in rows if metric in row.get("metrics", ())}
    return [found.get(task_id) for task_id in task_ids]

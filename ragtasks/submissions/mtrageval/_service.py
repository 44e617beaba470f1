"""What the command line asks for: a submission checked, and one built, checked and put in place."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ragtasks.benchmarks import Benchmark, retrieval_side
from ragtasks.errors import BenchmarkFileError, ConfigurationError, MissingExtraError, clear_error
from ragtasks.files import Ranked, Run, in_rank_order, write_atomically
from ragtasks.metrics import CUTOFFS, RANKED_BY, ranking_score, score_run, score_run_ibm
from ragtasks.records import Answerability, Passage, Qrel, Score, normalise_task_id
from ragtasks.results import SavedEvaluation
from ragtasks.submissions._findings import Finding, Report, Severity, SubmissionTask, render_text
from ragtasks.submissions.mtrageval._build import (
    Built,
    Entry,
    answered,
    build,
    entries_of_answers,
    entries_of_run,
    values_of,
)
from ragtasks.submissions.mtrageval._check import MAX_CONTEXTS, Against, check_file, check_lines
from ragtasks.submissions.mtrageval._inputs import (
    Documents,
    Inputs,
    benchmark_inputs,
    document_ids_by_domain,
    read_inputs,
)

_MOST_NAMED = 20


@dataclass(frozen=True, slots=True)
class Request:
    """A submission that is asked for."""

    task: SubmissionTask
    """What it is handed in for."""
    target: Path
    """File to write."""
    run: str | None = None
    """Stored run to take rankings from (task A)."""
    results: Path | None = None
    """Results to take contexts and answers from."""
    input_file: Path | None = None
    """Official input; None for the benchmark's own tasks."""
    limit: int = MAX_CONTEXTS
    """Contexts that a task may have."""
    allow_missing: bool = False
    """Whether a task without a ranking or an answer is handed in empty."""
    documents: bool = True
    """Whether documents are looked up in the corpora."""


def against(benchmark: Benchmark | None, input_file: Path | None, *, documents: bool) -> Against:
    """Return what a submission is to be compared with, and what cannot be compared."""
    unchecked = []
    inputs: Inputs | None = None
    if input_file is not None:
        inputs = read_inputs(input_file)
    elif benchmark is not None:
        inputs = benchmark_inputs(benchmark)
    else:
        unchecked.append("task ids, conversations: name the official input with --input, or a --benchmark")
    known, reason = _documents(benchmark) if documents else (None, "not asked for")
    if known is None:
        unchecked.append(f"whether documents exist: {reason}")
    return Against(inputs, known, tuple(unchecked))


def _documents(benchmark: Benchmark | None) -> tuple[Documents | None, str]:
    """Return the documents that there are, or None and why they are not known."""
    if benchmark is None:
        return None, "name a --benchmark whose corpora are here"
    try:
        return document_ids_by_domain(benchmark), ""
    except (BenchmarkFileError, ConfigurationError) as error:
        return None, str(error).splitlines()[0]


def check(
    path: Path, task: SubmissionTask, benchmark: Benchmark | None, input_file: Path | None, *, documents: bool
) -> Report:
    """Return everything that is wrong with a submission on disk."""
    return check_file(path, task, against(benchmark, input_file, documents=documents))


def submit(request: Request, benchmark: Benchmark, store: Path) -> list[str]:
    """Write a submission that passes the check, and return what is worth saying: its scores first."""
    entries, saved = _entries(request, benchmark, store)
    compared = against(benchmark, request.input_file, documents=request.documents)
    inputs = compared.inputs or {}
    missing = [key for key in inputs if _is_missing(request.task, entries.get(key))]
    if missing and not request.allow_missing:
        raise ConfigurationError(_naming(missing, request, benchmark))
    entries |= {key: _empty(request.task, inputs, key, entries.get(key)) for key in missing}
    built = build(request.task, inputs, entries, request.limit)
    content = built.content
    report = check_lines(
        content.splitlines(keepends=True), request.target.name, request.task, compared, n_bytes=len(content)
    )
    _refuse(report, {inputs[key].task_id for key in missing}, request.target)
    scores = list(_scores(request.task, built, benchmark, saved, missing))
    write_atomically(request.target, content)
    changes = _changes(built, request.limit, len(missing))
    return [
        *_sample(benchmark),
        *scores,
        *changes,
        *render_text(report),
        f"wrote {request.target} ({len(content)} bytes)",
    ]


def _entries(request: Request, benchmark: Benchmark, store: Path) -> tuple[dict[str, Entry], SavedEvaluation | None]:
    if (request.run is None) == (request.results is None):
        raise ConfigurationError("a submission is made from either --run NAME (task A) or --results PATH: give one")
    if not 1 <= request.limit <= MAX_CONTEXTS:
        raise ConfigurationError(f"--limit-contexts {request.limit}: expected 1 to {MAX_CONTEXTS}")
    if request.results is not None:
        saved = answered(request.results)
        return entries_of_answers(saved, request.task, benchmark), saved
    if request.task is not SubmissionTask.A:
        raise ConfigurationError(f"task {request.task.value} needs answers, which a run has not: give --results PATH")
    return entries_of_run(store, request.run or "", benchmark), None


def _is_missing(task: SubmissionTask, entry: Entry | None) -> bool:
    if entry is None:
        return True
    return not entry.passages if task is SubmissionTask.A else not entry.answer.strip()


def _empty(task: SubmissionTask, inputs: Inputs, key: str, entry: Entry | None) -> Entry:
    """Return what is handed in for a task without an answer: its contexts where they are known, and no text."""
    given: tuple[Passage, ...] = (inputs[key].contexts or ()) if task is SubmissionTask.B else ()
    return Entry(entry.passages if entry else given)


def _naming(missing: list[str], request: Request, benchmark: Benchmark) -> str:
    labels = {task.task_id: task.answerability for task in benchmark.tasks}
    lacks = "a ranking" if request.task is SubmissionTask.A else "an answer"
    if request.results is not None and all(labels.get(key) is Answerability.CONVERSATIONAL for key in missing):
        again = f"ragtasks run --for-submission {request.task.value} --model MODEL --output DIR"
        hint = f"run the model with `{again}` (or lm_eval with --metadata '{{\"conversational\": true}}')"
    else:
        hint = "make them"
    more = [f"and {len(missing) - _MOST_NAMED} more"] if len(missing) > _MOST_NAMED else []
    return clear_error(
        "submission",
        where=str(request.target),
        expected=f"{lacks} for every task of the input",
        found=f"none for {len(missing)}: {', '.join([*missing[:_MOST_NAMED], *more])}",
        next_step=f"{hint}, or hand them in empty with --allow-missing",
    )


def _refuse(report: Report, allowed: set[str], target: Path) -> None:
    """Raise where a submission would not pass; answers that the user allows to be missing are no reason."""
    bad = [finding for finding in report.findings if not _is_allowed(finding, allowed)]
    if bad:
        listed = [str(finding) for finding in bad[:_MOST_NAMED]]
        more = [f"and {len(bad) - _MOST_NAMED} more"] if len(bad) > _MOST_NAMED else []
        message = "\n  ".join([f"submission {target}: {len(bad)} findings, nothing is written", *listed, *more])
        raise BenchmarkFileError(f"{message}\n  next step: {_next_step(bad)}")


def _is_allowed(finding: Finding, allowed: set[str]) -> bool:
    empty = finding.rule == "empty_prediction" and finding.task_id in allowed
    return empty or finding.severity is Severity.NOTE


def _next_step(bad: list[Finding]) -> str:
    steps = {
        "file_size": "hand in fewer contexts with --limit-contexts",
        "file_name": "name the file .jsonl",
        "unknown_document": "make the run with the official corpora, or skip the look-up with --no-documents",
    }
    return next((steps[finding.rule] for finding in bad if finding.rule in steps), "fix the lines listed above")


def _scores(
    task: SubmissionTask, built: Built, benchmark: Benchmark, saved: SavedEvaluation | None, missing: Collection[str]
) -> Iterator[str]:
    """Yield the scores of a submission, or why there are none: that is no reason not to hand it in."""
    if task is not SubmissionTask.A:
        if saved is not None:
            yield from _scores_of_answers(task, built, saved, missing)
        return
    try:
        side = retrieval_side(benchmark.name)
        present = [domain for domain in side.domains if any(one.domain == domain for one in benchmark.tasks)]
        qrels = [qrel for domain in present for qrel in side.load_qrels(benchmark.root, domain)]
        yield from describe_ranking(built.rows, qrels, {one.task_id: one.domain for one in benchmark.tasks})
    except (BenchmarkFileError, ConfigurationError, MissingExtraError) as error:
        yield f"no scores: {str(error).splitlines()[0]}"


def _scores_of_answers(
    task: SubmissionTask, built: Built, saved: SavedEvaluation, missing: Collection[str]
) -> Iterator[str]:
    ids = [normalise_task_id(row["task_id"]) for row in built.rows]
    columns = {name: values_of(saved, task, ids, name) for name in RANKED_BY}
    rows = zip(ids, *columns.values(), strict=True)
    # An answer without text has scores of its own; a task that nobody was asked has none.
    n_missing = sum(key in missing and all(value is None for value in values) for key, *values in rows)
    yield from describe_answers(columns, n_missing)


def _sample(benchmark: Benchmark) -> list[str]:
    return [f"{benchmark.label}: not benchmark scores, and nothing to hand in"] if benchmark.is_sample else []


def _changes(built: Built, limit: int, n_missing: int) -> Iterator[str]:
    """Yield what was done to contexts and scores on the way."""
    if built.n_rescored:
        yield f"{built.n_rescored} tasks: scores tie as 32-bit numbers, replaced by scores from the rank"
    if built.n_by_rank:
        yield f"{built.n_by_rank} tasks: contexts have no scores of their own, scored by rank"
    if built.n_cut:
        yield f"{built.n_cut} tasks: cut to the first {limit} contexts"
    if n_missing:
        yield f"{n_missing} tasks: submitted empty"


# Estimated ranking score of a submission.
# Source: MTRAGEval (SemEval-2026 task 8). Task A ranks by nDCG@5; B and C by the harmonic mean of the three dataset
# means RL_F, RB_llm and RB_alg, each conditioned on answerability.

_RANKING_CUTOFF = 5


def dataset_mean(values: Sequence[float | None]) -> Score:
    """Return the mean of what is scored; unscored where nothing is. None and NaN are unscored."""
    scored = [value for value in values if value is not None and not math.isnan(value)]
    return Score(sum(scored) / len(scored)) if scored else Score(None, "nothing is scored")


def describe_answers(values: Mapping[str, Sequence[float | None]], n_missing: int = 0) -> Iterator[str]:
    """Yield lines with the ranking score of tasks B and C, or with what it lacks."""
    means = {name: dataset_mean(column) for name, column in values.items()}
    as_zero = {name: _with_missing_as_zero(means[name], column, n_missing) for name, column in values.items()}
    partial = []
    for name in RANKED_BY:
        column = values.get(name, ())
        n_scored = sum(value is not None and not math.isnan(value) for value in column)
        worst = f"; {_fixed(as_zero.get(name, Score(None)))} with the {n_missing} missing as 0" if n_missing else ""
        yield f"{name}: {_fixed(means.get(name, Score(None)))} over {n_scored} scored of {len(column)} tasks{worst}"
        if n_scored < len(column):
            partial.append(f"{name} {n_scored}/{len(column)}")
    ranking = ranking_score(means)
    if ranking.value is None:
        note = f" ({ranking.reason}; `ragtasks score` adds what judges give)"
    else:
        note = f" ({', '.join(partial)})" if partial else ""
    yield f"ranking score, harmonic mean of the three (paper profile): {_fixed(ranking)}{note}"
    if n_missing:
        n = max(map(len, values.values()))
        yield (
            f"ranking score with the {n_missing} missing as 0: {_fixed(ranking_score(as_zero))}; the one above is over "
            f"{n - n_missing} of {n} tasks, and does not compare with whole submissions"
        )


def _with_missing_as_zero(mean: Score, column: Sequence[float | None], n_missing: int) -> Score:
    """Return what a mean would be if tasks that are handed in empty had 0; other unscored ones stay left out."""
    n_scored = sum(value is not None and not math.isnan(value) for value in column)
    return mean if mean.value is None else Score(mean.value * n_scored / (n_scored + n_missing))


def describe_ranking(rows: Sequence[Mapping[str, Any]], qrels: Sequence[Qrel], domains: Mapping[str, str]) -> list[str]:
    """Return lines with the scores of task A, from the rows as they are handed in.

    Two ways of averaging stand side by side: the official script's (a mean over collections, weighted by predictions),
    which ranks, and the plain mean over judged queries. Judgements of tasks that are not handed in do not count.
    """
    run: Run = {normalise_task_id(row["task_id"]): in_rank_order(_ranked(row)) for row in rows}
    judged = [qrel for qrel in qrels if qrel.query_id in run]
    official, own = score_run_ibm(run, judged, domains), score_run(run, judged).values
    lines = [f"{len(own)} of {len(rows)} tasks are judged; official averaging | mean over the judged tasks"]
    for name, title in (("ndcg", "nDCG"), ("recall", "Recall")):
        for k in CUTOFFS:
            plain = dataset_mean([values[f"{name}_{k}"] for values in own.values()])
            mark = " (ranking score)" if (name, k) == ("ndcg", _RANKING_CUTOFF) else ""
            lines.append(f"{title}@{k}: {_fixed(official[f'{name}_{k}'])}{mark} | {_fixed(plain)}")
    return lines


def _ranked(row: Mapping[str, Any]) -> Iterator[Ranked]:
    return (Ranked(context["document_id"], context["score"]) for context in row["contexts"])


def _fixed(score: Score) -> str:
    return "-" if score.value is None else f"{score.value:.4f}"

"""Commands for MTRAGEval submissions: check a file, or build, check and write one."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import orjson

from ragtasks.benchmarks import Benchmark, contexts_of_run, published_passages, retrieval_side, stored_name
from ragtasks.errors import (
    BenchmarkFileError,
    CacheError,
    ConfigurationError,
    MissingExtraError,
    one_line,
    shortened_list,
)
from ragtasks.files import OFFICIAL, Ranked, Run, in_rank_order, read_manifest, read_trec, run_folder, write_atomically
from ragtasks.metrics import CUTOFFS, RANKED_BY, ranking_score, score_run, score_run_ibm
from ragtasks.progress import step
from ragtasks.records import Answerability, Passage, Qrel, Score, Setting, normalise_task_id
from ragtasks.results import SavedEvaluation, SavedTask, evaluation_files, own_history, read_results
from ragtasks.submissions._findings import Report, Severity, SubmissionTask, render_text
from ragtasks.submissions.mtrageval._check import Comparison, check_file, check_lines
from ragtasks.submissions.mtrageval._inputs import (
    Documents,
    Inputs,
    InputTask,
    benchmark_inputs,
    document_ids_by_domain,
    read_inputs,
)
from ragtasks.submissions.mtrageval._line_rules import MAX_CONTEXTS, official_scores, rank_scores
from ragtasks.submissions.mtrageval._standing import searched_all, standing, standing_of_answers
from ragtasks.tables import dashed

_MOST_NAMED, _FEW = 20, 3


@dataclass(frozen=True, slots=True)
class Submission:
    """Options of a new submission."""

    task: SubmissionTask
    target: Path
    run: str | None = None
    results: Path | None = None
    input_file: Path | None = None
    """Official input; None for the benchmark's own tasks."""
    limit: int = MAX_CONTEXTS
    allow_missing: bool = False
    """Whether tasks without a ranking or an answer are submitted empty."""
    documents: bool = True
    """Whether document ids are looked up in the corpora."""


def comparison_of(benchmark: Benchmark | None, input_file: Path | None, *, documents: bool) -> Comparison:
    """Return the data for checking a submission, with a list of checks that are not possible."""
    unchecked = []
    inputs: Inputs | None = None
    if input_file is not None:
        inputs = read_inputs(input_file)
    elif benchmark is not None:
        inputs = benchmark_inputs(benchmark)
    else:
        unchecked.append("task ids, conversations: name the official input with --input, or a --benchmark")
    known_documents: Documents | None = None
    if not documents:
        unchecked.append("whether documents exist: skipped")
    elif benchmark is None:
        unchecked.append("whether documents exist: name a --benchmark with local corpora")
    else:
        try:
            known_documents = document_ids_by_domain(benchmark)
        except (BenchmarkFileError, ConfigurationError) as error:
            unchecked.append(f"whether documents exist: {one_line(error)}")
    return Comparison(inputs, known_documents, tuple(unchecked))


def check(
    path: Path, task: SubmissionTask, benchmark: Benchmark | None, input_file: Path | None, *, documents: bool
) -> Report:
    """Check a submission on disk."""
    return check_file(path, task, comparison_of(benchmark, input_file, documents=documents))


def submit(request: Submission, benchmark: Benchmark, store: Path) -> list[str]:
    """Write a submission that passes the check, and return the lines of the report, scores first."""
    with step("reading the entries of the submission, and their texts"):
        entries, saved = _entries(request, benchmark, store)
        compared = comparison_of(benchmark, request.input_file, documents=request.documents)
    inputs = compared.inputs or {}
    missing = [key for key in inputs if _is_missing(request.task, entries.get(key))]
    left_out = _left_out(missing, request, benchmark)
    if len(left_out) < len(missing) and not request.allow_missing:
        raise _missing_error(missing, request, benchmark)
    entries |= {key: _empty(request.task, inputs, key, entries.get(key)) for key in missing}
    with step(f"checking {request.target.name} and estimating its ranking score"):
        built = build(request.task, inputs, entries, request.limit)
        content = built.content
        lines = content.splitlines(keepends=True)
        report = check_lines(lines, request.target.name, request.task, compared, n_bytes=len(content))
        _refuse(report, {inputs[key].task_id for key in missing}, request.target)
        run = request.run or (saved.tasks[0].config.run if saved else OFFICIAL)
        is_complete = request.task is SubmissionTask.B or searched_all(store, run, benchmark)
        published = benchmark.label if is_complete else ""
        scores = list(_estimated_scores(request.task, built, benchmark, saved, missing, published=published))
    write_atomically(request.target, content)
    notes = (
        (built.n_rescored, "scores tie as 32-bit numbers, replaced by scores from the rank"),
        (built.n_by_rank, "contexts have no scores of their own, scored by rank"),
        (built.n_cut, f"cut to the first {request.limit} contexts"),
        (len(missing) - len(left_out), "submitted empty"),
        (
            len(left_out),
            "conversational and not answered, submitted empty, as the track's checker allows. "
            f"To answer them as well: {_run_command(request.task, benchmark)}",
        ),
    )
    sample = [f"{benchmark.label}: not benchmark scores, and not a submission"] if benchmark.is_sample else []
    return [
        *sample,
        *scores,
        *(f"{n} tasks: {text}" for n, text in notes if n),
        *render_text(report),
        f"wrote {request.target} ({len(content)} bytes)",
    ]


def _entries(
    request: Submission, benchmark: Benchmark, store: Path
) -> tuple[dict[str, SubmittedTask], SavedEvaluation | None]:
    if (request.run is None) == (request.results is None):
        raise ConfigurationError("a submission requires either --run NAME (task A) or --results PATH")
    if not 1 <= request.limit <= MAX_CONTEXTS:
        raise ConfigurationError(f"--limit-contexts {request.limit}: expected 1 to {MAX_CONTEXTS}")
    if request.results is not None:
        saved = single_evaluation(request.results)
        tasks = tuple(saved_task for saved_task in saved.tasks if saved_task.benchmark == benchmark.name)
        saved = replace(saved, tasks=tasks or saved.tasks)  # one evaluation may contain several benchmarks
        return entries_of_answers(saved, request.task, benchmark), saved
    if request.task is not SubmissionTask.A:
        raise ConfigurationError(
            f"task {request.task.value} requires answers, which a run does not contain: use --results PATH"
        )
    return entries_of_run(store, request.run or "", benchmark), None


def _is_missing(task: SubmissionTask, entry: SubmittedTask | None) -> bool:
    if entry is None:
        return True
    return not entry.passages if task is SubmissionTask.A else not entry.answer.strip()


def _empty(task: SubmissionTask, inputs: Inputs, key: str, entry: SubmittedTask | None) -> SubmittedTask:
    """Return the entry of a task without an answer: its contexts if known, and no text."""
    passages: tuple[Passage, ...] = (inputs[key].contexts or ()) if task is SubmissionTask.B else ()
    return SubmittedTask(entry.passages if entry else passages)


def _left_out(missing: Sequence[str], request: Submission, benchmark: Benchmark) -> list[str]:
    """Return the missing tasks that evaluations omit by default: the conversational ones."""
    labels = {task.task_id: task.answerability for task in benchmark.tasks}
    conversational = [key for key in missing if labels.get(key) is Answerability.CONVERSATIONAL]
    return conversational if request.results is not None and request.task is not SubmissionTask.A else []


def _run_command(task: SubmissionTask, benchmark: Benchmark) -> str:
    """Return the command that answers every task of a submission."""
    option = SubmissionTask.B if task is SubmissionTask.B else SubmissionTask.C
    options = f"--tasks {benchmark.name}_{_SETTINGS[task].value}{_data_option(benchmark)}"
    return f"ragtasks run --for-submission {option.value} {options} --model MODEL --output DIR"


def _data_option(benchmark: Benchmark) -> str:
    return " --data sample" if benchmark.is_sample else ""


def _missing_error(missing: Sequence[str], request: Submission, benchmark: Benchmark) -> ConfigurationError:
    is_ranking = request.task is SubmissionTask.A
    retrieve = f"ragtasks retrieve --retriever bm25 --benchmark {benchmark.name}{_data_option(benchmark)}"
    command = retrieve if is_ranking else _run_command(request.task, benchmark)
    return ConfigurationError(
        "submission",
        where=str(request.target),
        expected=f"{'a ranking' if is_ranking else 'an answer'} for every task of the input",
        found=f"none for {len(missing)}: {shortened_list(missing, _FEW)}",
        next_step=f"create them with `{command}`, or submit them empty with --allow-missing",
    )


def _refuse(report: Report, allowed: set[str], target: Path) -> None:
    """Raise BenchmarkFileError if a submission would not pass. Empty answers of `allowed` tasks are accepted."""
    failures = [
        finding
        for finding in report.findings
        if finding.severity is not Severity.NOTE
        and not (finding.rule == "empty_prediction" and finding.task_id in allowed)
    ]
    if failures:
        steps = {
            "file_size": "submit fewer contexts with --limit-contexts",
            "file_name": "name the file .jsonl",
            "unknown_document": "make the run with the official corpora, or skip the look-up with --no-documents",
        }
        step = next(
            (steps[finding.rule] for finding in failures if finding.rule in steps), "fix the lines listed above"
        )
        listed = shortened_list(list(map(str, failures)), _MOST_NAMED, "\n  ")
        message = f"submission {target}: {len(failures)} findings, nothing is written\n  {listed}"
        raise BenchmarkFileError(f"{message}\n  next step: {step}")


def _estimated_scores(
    task: SubmissionTask,
    built: Built,
    benchmark: Benchmark,
    saved: SavedEvaluation | None,
    missing: Collection[str],
    *,
    published: str,
) -> Iterator[str]:
    """Yield the estimated scores of a submission. If they are missing, yield the reason, which is not an error.

    `published` is the benchmark whose published scores are comparable; empty if none are.
    """
    if task is not SubmissionTask.A:
        if saved is not None:
            ids = [normalise_task_id(row["task_id"]) for row in built.rows]
            columns = {name: values_of(saved, task, ids, name) for name in RANKED_BY}
            rows = zip(ids, *columns.values(), strict=True)
            # An empty answer has scores; a task without a request has none.
            n_missing = sum(key in missing and all(value is None for value in values) for key, *values in rows)
            yield from describe_answers(columns, n_missing)
            by_scripts = {name: values_of(saved, task, ids, f"{name}_ibm") for name in RANKED_BY}
            yield from standing_of_answers(task, published, saved, by_scripts)
        return
    try:
        side = retrieval_side(benchmark.name)
        present = [
            domain
            for domain in side.domains
            if any(benchmark_task.domain == domain for benchmark_task in benchmark.tasks)
        ]
        qrels = [qrel for domain in present for qrel in side.load_qrels(benchmark.root, domain)]
        domains = {benchmark_task.task_id: benchmark_task.domain for benchmark_task in benchmark.tasks}
        yield from describe_ranking(built.rows, qrels, domains, published)
    except (BenchmarkFileError, ConfigurationError, MissingExtraError) as error:
        yield f"no scores: {one_line(error)}"


# Estimated ranking score of a submission. Source: MTRAGEval (SemEval-2026 task 8). Task A ranks by nDCG@5. B and C rank
# by the harmonic mean of the three dataset means RL_F, RB_llm and RB_alg, each conditioned on answerability.

_RANKING_CUTOFF = 5


def dataset_mean(values: Sequence[float | None]) -> Score:
    """Return the mean of the scored values, unscored if there are none. None and NaN are unscored."""
    scored = _scored(values)
    return Score(sum(scored) / len(scored)) if scored else Score(None, "nothing is scored")


def _scored(values: Sequence[float | None]) -> list[float]:
    return [value for value in values if value is not None and not math.isnan(value)]


def describe_answers(values: Mapping[str, Sequence[float | None]], n_missing: int = 0) -> Iterator[str]:
    """Yield lines with the ranking score of tasks B and C, or the reason if it is missing."""
    means = {name: dataset_mean(column) for name, column in values.items()}
    as_zero = {name: _with_missing_as_zero(means[name], column, n_missing) for name, column in values.items()}
    partial = []
    for name in RANKED_BY:
        column = values[name]
        n_scored = len(_scored(column))
        worst = f"; {dashed(as_zero[name].value, 4)} with the {n_missing} missing as 0" if n_missing else ""
        yield f"{name}: {dashed(means[name].value, 4)} over {n_scored} scored of {len(column)} tasks{worst}"
        if n_scored < len(column):
            partial.append(f"{name} {n_scored}/{len(column)}")
    ranking = ranking_score(means)
    if ranking.value is None:
        note = f" ({ranking.reason}; `ragtasks score` adds judge scores)"
    else:
        note = f" ({', '.join(partial)})" if partial else ""
    yield f"ranking score, harmonic mean of the three (paper profile): {dashed(ranking.value, 4)}{note}"
    if n_missing:
        n = max(map(len, values.values()))
        yield (
            f"ranking score with the {n_missing} missing as 0: {dashed(ranking_score(as_zero).value, 4)}; the score "
            f"above is over {n - n_missing} of {n} tasks, and is not comparable with complete submissions"
        )


def _with_missing_as_zero(mean: Score, column: Sequence[float | None], n_missing: int) -> Score:
    """Return the mean with missing tasks as 0. Other unscored tasks are still excluded."""
    n_scored = len(_scored(column))
    return mean if mean.value is None else Score(mean.value * n_scored / (n_scored + n_missing))


def describe_ranking(
    rows: Sequence[Mapping[str, Any]], qrels: Sequence[Qrel], domains: Mapping[str, str], published: str = ""
) -> list[str]:
    """Return lines with the scores of task A, computed from the submitted rows.

    Two averages are listed side by side. The official script's average, which determines the ranking, is a mean over
    collections, weighted by predictions. The other is the plain mean over judged queries. Judgements of tasks that are
    not submitted are ignored. A last line compares the ranking score with the published ones of the benchmark
    `published`.
    """
    run: Run = {
        normalise_task_id(row["task_id"]): in_rank_order(
            Ranked(context["document_id"], context["score"]) for context in row["contexts"]
        )
        for row in rows
    }
    judged = [qrel for qrel in qrels if qrel.query_id in run]
    official, own = score_run_ibm(run, judged, domains), score_run(run, judged).values
    lines = [f"{len(own)} of {len(rows)} tasks are judged; official averaging | mean over the judged tasks"]
    for measure, title in (("nDCG", "nDCG"), ("R", "Recall")):
        for k in CUTOFFS:
            plain = dataset_mean([values[f"{measure}@{k}"] for values in own.values()])
            mark = " (ranking score)" if (measure, k) == ("nDCG", _RANKING_CUTOFF) else ""
            lines.append(f"{title}@{k}: {dashed(official[f'{measure}@{k}'].value, 4)}{mark} | {dashed(plain.value, 4)}")
    ranking = official[f"nDCG@{_RANKING_CUTOFF}"].value
    return [*lines, *standing(SubmissionTask.A, published, len(own), ranking)]


# Assembly of a submission: one object per task of the input, with contexts in rank order and any answer. It only
# contains official input, rankings and answers, never targets or labels.


@dataclass(frozen=True, slots=True)
class SubmittedTask:
    """The ranking and answer of a task in a submission."""

    passages: tuple[Passage, ...]
    """Contexts, best first."""
    scores: tuple[float, ...] | None = None
    """One per context; None if unknown. Then scores are derived from the rank."""
    answer: str = ""
    """The model's answer; empty without an answer."""


@dataclass(frozen=True, slots=True)
class Built:
    """A submission before it is written."""

    rows: tuple[dict[str, Any], ...]
    """One object per task, in input order."""
    n_rescored: int
    """Number of tasks whose scores were replaced by scores from the rank, to keep their order in the official
    evaluation.
    """
    n_by_rank: int
    """Number of tasks whose contexts have no scores."""
    n_cut: int
    """Number of tasks with more contexts than the limit."""

    @property
    def content(self) -> bytes:
        """Bytes of the file."""
        return b"".join(orjson.dumps(row) + b"\n" for row in self.rows)


def build(
    task: SubmissionTask, inputs: Inputs, entries: Mapping[str, SubmittedTask], limit: int = MAX_CONTEXTS
) -> Built:
    """Return the submission for every task of the input."""
    selected: dict[str, SubmittedTask] = {}
    scored: dict[str, tuple[float, ...]] = {}
    for key in inputs:
        passages, scores = entries[key].passages[:limit], entries[key].scores
        own_scores = None if scores is None else scores[:limit]
        selected[key] = SubmittedTask(passages, own_scores, entries[key].answer)
        scored[key] = rank_scores(len(passages)) if own_scores is None else official_scores(own_scores)
    return Built(
        rows=tuple(_row(task, input_task, selected[key], scored[key]) for key, input_task in inputs.items()),
        n_rescored=sum(entry.scores is not None and entry.scores != scored[key] for key, entry in selected.items()),
        n_by_rank=sum(entry.scores is None and bool(entry.passages) for entry in selected.values()),
        n_cut=sum(len(entries[key].passages) > limit for key in inputs),
    )


def _row(
    task: SubmissionTask, input_task: InputTask, entry: SubmittedTask, scores: tuple[float, ...]
) -> dict[str, Any]:
    """Return the object of a task. Rankings are submitted without texts."""
    answers = task is not SubmissionTask.A
    row: dict[str, Any] = {
        "task_id": input_task.task_id,
        **input_task.further_fields,
        "Collection": input_task.collection,
        "input": [{"speaker": speaker, "text": text} for speaker, text in input_task.messages],
        "contexts": [_context(passage, score, answers) for passage, score in zip(entry.passages, scores, strict=True)],
    }
    return {**row, "predictions": [{"text": entry.answer}]} if answers else row


def _context(passage: Passage, score: float, with_text: bool) -> dict[str, Any]:
    context: dict[str, Any] = {"document_id": passage.passage_id, "score": score}
    if with_text:
        context |= {"text": passage.text} | ({"title": passage.title} if passage.title else {})
    return context


# Sources of contexts and answers: a stored run, the published passages, or logged answers.

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


def entries_of_run(store: Path, name: str, benchmark: Benchmark) -> dict[str, SubmittedTask]:
    """Return task id -> ranking of a stored run of this benchmark, without tasks that have no passages."""
    if name == OFFICIAL:
        return {
            task_id: SubmittedTask(passages) for task_id, passages in published_passages(benchmark).items() if passages
        }
    contexts_of_run(store, name, benchmark, Setting.FULL_RAG)  # raises an error for a run of other data
    folder = run_folder(store, stored_name(store, name, benchmark))
    rankings: dict[str, tuple[Ranked, ...]] = {}
    for file, sha256 in read_manifest(folder).files.items():
        if file.endswith(".trec"):
            path = folder / file
            if not path.is_file() or hashlib.sha256(path.read_bytes()).hexdigest() != sha256:
                raise CacheError(
                    f"{path} is missing or was changed after it was written; remove the run and make it again"
                )
            rankings |= read_trec(path)
    return {
        task_id: SubmittedTask(
            tuple(Passage(passage.passage_id, "") for passage in ranking), tuple(passage.score for passage in ranking)
        )
        for task_id, ranking in rankings.items()
        if ranking
    }


def single_evaluation(path: Path) -> SavedEvaluation:
    """Return the single evaluation at a path: a results file of the harness, or a folder with one."""
    files, predictions = evaluation_files(path)
    if len(files) == 1:
        return read_results(files[0], path, {})
    raise BenchmarkFileError(
        "results to submit",
        where=str(path),
        expected="one results_*.json, of one model",
        found=", ".join(map(str, files or predictions)),
        next_step="name the results file itself" if files else _SCORE_FIRST.format(path=predictions[0]),
    )


def entries_of_answers(saved: SavedEvaluation, task: SubmissionTask, benchmark: Benchmark) -> dict[str, SubmittedTask]:
    """Return task id -> answer with the contexts in its prompt, in the setting of the submission task."""
    setting = _SETTINGS[task]
    entries: dict[str, SubmittedTask] = {}
    origins: set[tuple[str, bool, str]] = set()
    for saved_task in _with_official_history(saved):
        for answer in saved_task.answers:
            if answer.setting != setting.value:
                continue
            is_sample = bool(answer.sample["doc"].get("is_sample"))
            origins.add((saved_task.benchmark, is_sample, str(saved_task.provenance.get("revision"))))
            response, task_id = answer.response, answer.task.task_id
            if response.no_answer:
                continue  # a failed request is a missing task, not an empty answer
            if task_id in entries:
                raise BenchmarkFileError(f"{saved.source}: task {task_id} is answered twice in setting {setting.value}")
            entries[task_id] = SubmittedTask(response.passages, None, response.text)
    _check_origin(saved, task, origins, benchmark)
    return entries


def _with_official_history(saved: SavedEvaluation) -> list[SavedTask]:
    """Return the harness tasks with the track's conversations, without those whose history is the model's own."""
    return [saved_task for saved_task in saved.tasks if not own_history(saved_task.provenance)]


def _check_origin(
    saved: SavedEvaluation, task: SubmissionTask, origins: set[tuple[str, bool, str]], benchmark: Benchmark
) -> None:
    setting = _SETTINGS[task]
    if origins == {(benchmark.name, benchmark.is_sample, benchmark.revision)}:
        return
    benchmarks = [
        f"{name}{' (sample)' if is_sample else ''} ({revision})" for name, is_sample, revision in sorted(origins)
    ]
    settings = sorted({answer.setting for saved_task in _with_official_history(saved) for answer in saved_task.answers})
    alternative = (
        f"answers in {', '.join(settings)} only" if settings else "only answers whose history is the model's own"
    )
    raise ConfigurationError(
        "results to submit",
        where=str(saved.source),
        expected=f"answers to {benchmark.label} ({benchmark.revision}) in setting {setting.value}",
        found=f"answers to {', '.join(benchmarks)}" if benchmarks else alternative,
        next_step="name the benchmark and its files with --benchmark and --data, or other results"
        if benchmarks
        else f"name a --task that the answers are for, or run `{_run_command(task, benchmark)}`",
    )


def values_of(saved: SavedEvaluation, task: SubmissionTask, task_ids: Iterable[str], metric: str) -> list[float | None]:
    """Return a metric's value for each task; None if it is unscored, missing from the results, or not answered."""
    value_of = {
        answer.task.task_id: answer.scores.get(metric)
        for saved_task in _with_official_history(saved)
        for answer in saved_task.answers
        if answer.setting == _SETTINGS[task].value
    }
    return [value_of.get(task_id) for task_id in task_ids]

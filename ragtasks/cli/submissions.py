"""`ragtasks submit` writes files for MTRAGEval, TREC RAG and TREC iKAT; `ragtasks check` lists the errors of a file."""

from __future__ import annotations

import json
import shlex
import zipfile
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Annotated, Any, Literal

import typer

from ragtasks.benchmarks import Benchmark, benchmark_folder, open_benchmark, source_of
from ragtasks.cli.app import app, echo
from ragtasks.cli.options import DATA, DOCUMENTS, FORCE, INPUT, is_path, named_benchmark, named_folder
from ragtasks.cli.trec_rag import FORMS, TOPICS, check_track, write_track
from ragtasks.config import read_evaluation_file
from ragtasks.config.environment import data_folder, run_store
from ragtasks.errors import BenchmarkFileError, ConfigurationError, missing_path
from ragtasks.files import first_row, read_qrels, read_run, read_yaml, yaml_text
from ragtasks.records import Setting
from ragtasks.submissions import (
    FileForm,
    Report,
    SubmissionTask,
    form_of_file,
    render_json,
    render_text,
)

_MTRAGEVAL, _TREC = "Of MTRAGEval", "Of TREC RAG and TREC iKAT"


@app.command()
def submit(  # noqa: PLR0917 (one parameter an option)
    output: Annotated[Path, typer.Option(help="File to write, .jsonl.")],
    track: Annotated[
        Literal["mtrageval", "trec-rag", "ikat"],
        typer.Option(metavar="<track>", help="Track: mtrageval (default), trec-rag or ikat.", show_default=False),
    ] = "mtrageval",
    task: Annotated[
        SubmissionTask | None,
        typer.Option(
            help="Task: A (retrieval), B (answers) or C (both).", case_sensitive=False, rich_help_panel=_MTRAGEVAL
        ),
    ] = None,
    run: Annotated[
        str | None, typer.Option(help="Stored run (task A), or `official`.", rich_help_panel=_MTRAGEVAL)
    ] = None,
    results: Annotated[Path | None, typer.Option(help="Results of one model or system.")] = None,
    benchmark: Annotated[str, typer.Option(help="mtrag or mtrag_un.", rich_help_panel=_MTRAGEVAL)] = "mtrag",
    data: DATA = None,
    input_file: INPUT = None,
    limit_contexts: Annotated[
        int, typer.Option(help="Maximum contexts per task, up to 10.", hidden=True, rich_help_panel=_MTRAGEVAL)
    ] = 10,
    allow_missing: Annotated[
        bool,
        typer.Option("--allow-missing", help="Submit empty answers for missing tasks.", rich_help_panel=_MTRAGEVAL),
    ] = False,
    documents: DOCUMENTS = True,
    run_id: Annotated[str | None, typer.Option(help="Name of the run.", rich_help_panel=_TREC)] = None,
    topics: TOPICS = None,
    cut: Annotated[
        bool,
        typer.Option("--cut", help="Cut answers to 400 words.", rich_help_panel=_TREC),
    ] = False,
    team_id: Annotated[
        str,
        typer.Option(help="Name of the team, required for 2025.", rich_help_panel=_TREC),
    ] = "",
    force: FORCE = False,
) -> None:
    """Write and check a file for MTRAGEval, TREC RAG or TREC iKAT.

    TREC RAG: --results may be an answer file of 2024, written in the format of 2025.
    """
    if output.exists() and not force:
        raise ConfigurationError(f"{output} exists. Next step: --force replaces it, --output names another")
    if track == "trec-rag":
        if results is None or task or run or input_file:
            raise ConfigurationError("--track trec-rag: give --results, and leave out --task, --run and --input")
        echo(*write_track(output, results, run_id, topics, data, cut=cut, team_id=team_id))
        return
    if track == "ikat":
        if results is None or not run_id or task or run or input_file or topics or cut:
            raise ConfigurationError(
                "--track ikat: give --results and --run-id, for 2025 --team-id, and no other option"
            )
        from ragtasks.submissions import ikat

        echo(*ikat.build_run(results, run_id, team_id, output))
        return
    if task is None:
        raise ConfigurationError("--task is missing: A (retrieval), B (answers) or C (both), or --track trec-rag, ikat")
    if run_id or topics or cut or team_id:
        raise ConfigurationError("--run-id, --set, --cut, --team-id: require --track trec-rag or ikat")

    from ragtasks.submissions import mtrageval

    request = mtrageval.Submission(task, output, run, results, input_file, limit_contexts, allow_missing, documents)
    echo(*mtrageval.submit(request, named_benchmark(benchmark, data), run_store()))
    options = ["--benchmark", benchmark, *(["--data", data] if data else [])]
    echo(f"next: {shlex.join(['ragtasks', 'check', str(output), '--task', task.value, *options])}")


# `ragtasks check`: errors of a submission, or of your own benchmark.

_PUBLISHED_FORMS = ("mtrag_s", "multihop_rag")  # benchmarks whose format users may use for their own folder


@app.command()
def check(  # noqa: PLR0917 (one parameter an option)
    path: Annotated[
        str,
        typer.Argument(
            metavar="FILE | FOLDER | RUN",
            help="Submission, answers, rows, run, qrels, corpus, your own benchmark, results, evaluation.yaml.",
        ),
    ],
    task: Annotated[
        SubmissionTask | None,
        typer.Option(
            help="Task of MTRAGEval: A (retrieval), B (answers) or C (both); default: detected from the fields.",
            case_sensitive=False,
        ),
    ] = None,
    input_file: INPUT = None,
    benchmark: Annotated[
        str | None, typer.Option(help="Benchmark of a submission or answers: mtrag, mtrag_un.")
    ] = None,
    data: DATA = None,
    documents: DOCUMENTS = True,
    as_json: Annotated[bool, typer.Option("--json", help="Print the report as JSON.", hidden=True)] = False,
    every: Annotated[bool, typer.Option("--all", help="Print every error on its own line.", hidden=True)] = False,
    topics: TOPICS = None,
    narratives: Annotated[
        Path | None, typer.Option(help="JSON lines file with the topics of 2025.", hidden=True)
    ] = None,
    fixed: Annotated[
        Path | None, typer.Option(help="File for the answers, repaired by the track's rules of 2024.", hidden=True)
    ] = None,
) -> None:
    """List errors in a submission, answers, data, a run or qrels.

    The format of a file is detected from its content. Exits with 1 if there is an error.
    """
    file = Path(path).expanduser()
    form = _form(file, path, task, benchmark)
    submission, is_track, is_answers = _TASKS.get(form), form in FORMS, form == FileForm.ANSWERS
    has_report = submission is not None or is_track or form.startswith("TREC iKAT")
    exclusive = {
        "--json": as_json and not has_report,
        "--input, --no-documents": (input_file or not documents) and not submission,
        "--set, --narratives, --fixed": (topics or narratives or fixed) and not is_track,
        "--benchmark": benchmark and not (submission or is_answers),
        "--data": data and not (has_report or is_answers),
    }
    if unread := [option for option, is_unread in exclusive.items() if is_unread]:
        raise ConfigurationError(
            f"{', '.join(unread)}: not used when {path} is checked as {form}. Next step: leave it out"
        )
    if has_report:
        if submission:
            from ragtasks.submissions import mtrageval

            source = named_benchmark(benchmark or "mtrag", data) if benchmark or data else None
            report = mtrageval.check(file, submission, source, input_file, documents=documents)
        elif is_track:
            report = check_track(file, FileForm(form), topics, narratives, data, fixed)
        else:
            report = _ikat_report(file, FileForm(form), data)
        echo(*([json.dumps(render_json(report))] if as_json else render_text(report, every=every)))
        if submission is SubmissionTask.C and task is None and not as_json:
            echo("checked as task C, by its fields; --task B checks the same file for task B")
        passes = report.passes
    elif is_answers:
        passes = _check_answers(file, benchmark or "mtrag", data)
    elif form == FileForm.CORPUS:
        from retrieval_cache import describe_corpus

        echo(*describe_corpus(path))
        passes = True
    else:
        passes = _CHECKS[form](file)
    raise typer.Exit(int(not passes))


_RUN, _FOLDER, _EVALUATION = "a stored run", "a folder of your own", "an evaluation file"
_TASKS: dict[str, SubmissionTask] = {f"MTRAGEval, task {task.value}": task for task in SubmissionTask}
_SAMPLE_KEYS = {"doc", "resps", "filtered_resps"}
_CORPUS_ENDINGS = (".zip", ".parquet", ".gz", ".zst")
_TEXT_ENDINGS = (".jsonl", ".json", ".yaml", ".yml", ".txt", ".tsv", ".csv", ".trec", ".run", ".qrels")


def _form(file: Path, name: str, task: SubmissionTask | None, benchmark: str | None) -> str:
    """Return the form of a path or name. Raises ConfigurationError if it cannot be checked."""
    if task is not None:
        return next(form for form, candidate in _TASKS.items() if candidate is task)
    if file.is_dir():
        return _form_of_folder(file)
    if file.is_file():
        return _form_of_file(file, benchmark)
    if name.startswith("hf:"):
        return FileForm.CORPUS.value
    if is_path(name) or file.suffix in (*_CORPUS_ENDINGS, *_TEXT_ENDINGS):  # names of runs may contain dots too
        problem, next_step = missing_path(file)
        raise ConfigurationError(f"{file}: {problem}. Next step: {next_step}")
    return _RUN


def _form_of_folder(folder: Path) -> str:
    if form_of(folder) is not None:
        return _FOLDER
    if (folder / "corpus.jsonl").is_file():
        return FileForm.CORPUS.value
    if next(folder.rglob("results_*.json"), None):
        return FileForm.RESULTS.value
    return FileForm.CORPUS.value if any(file.name.endswith(_CORPUS_ENDINGS) for file in folder.iterdir()) else _FOLDER


def _form_of_file(file: Path, benchmark: str | None) -> str:
    if zipfile.is_zipfile(file):
        return FileForm.CORPUS.value
    if (form := form_of_file(file)) is not None:
        return (FileForm.ANSWERS if form is FileForm.ROWS and benchmark else form).value
    if (row := first_row(file)) or not _is_mapping(file):
        raise _unknown(file, row)
    return _EVALUATION


def _is_mapping(file: Path) -> bool:
    """Return whether a file is a YAML mapping, or has a YAML suffix (the reader then reports its errors)."""
    try:
        if file.suffix in {".yaml", ".yml"}:
            return True
        content = read_yaml(yaml_text(file))[1]
        return isinstance(content, dict) and bool(content)
    except Exception:  # noqa: BLE001 (the reader may raise anything for an arbitrary file)
        return False


def _unknown(file: Path, row: Mapping[str, Any]) -> BenchmarkFileError:
    keys = ", ".join(f"`{key}`" for key in list(row)[:10])
    next_step = (
        f"for rows with other keys: ragtasks score {file} --keys question=KEY,answer=KEY; for a submission: add --task"
    )
    if row.keys() >= _SAMPLE_KEYS:
        command = f"ragtasks submit --task B --results {file.parent} --output FILE"
        next_step = f"these are samples of lm_eval; `{command}` writes a submission from them"
    content = "none of these in the first lines" if file.stat().st_size else "an empty file"
    return BenchmarkFileError(
        "file to check",
        where=str(file),
        expected="rows or answers, a TREC run or judgements, a corpus, results, or a submission of MTRAGEval or TREC",
        found=f"an object with {keys}" if keys else content,
        next_step=next_step,
    )


def _check_answers(file: Path, benchmark: str, data: str | None) -> bool:
    """Print the number of answered tasks. Errors are raised together, by line."""
    from ragtasks.results import read_answers

    opened = named_benchmark(benchmark, data)
    answers = read_answers(file, opened, data_folder())
    n_passages = sum(answer.passages is not None for answer in answers.values())
    options = ["--data", data] if data else []
    echo(
        f"{file}: no error",
        f"answers to {len(answers)} of the {len(opened.tasks)} tasks of {opened.label}, {n_passages} with contexts",
        f"next: {shlex.join(['ragtasks', 'score', str(file), '--benchmark', benchmark, *options])}",
    )
    return True


def _check_rows(file: Path) -> bool:
    """Print the number of own rows. Errors are raised together, by line."""
    from ragtasks.results import read_own_rows

    rows = read_own_rows(file)
    if rows.unread_note:
        echo(rows.unread_note)
    n_contexts = sum(answer.passages is not None for answer in rows.answers.values())
    echo(f"{file}: no error", f"{len(rows.answers)} own rows, {n_contexts} with contexts")
    echo(f"next: {shlex.join(['ragtasks', 'score', str(file)])}")
    return True


def _check_evaluation(file: Path) -> bool:
    """Print the system and tasks of an evaluation file. Errors are raised together."""
    read = read_evaluation_file(file)
    on = ", ".join(read.evaluation.tasks) or read.evaluation.benchmark
    echo(f"{file}: no error", f"evaluates {read.evaluation.name} on {on}")
    echo(f"next: {shlex.join(['ragtasks', 'eval', str(file), '--dry-run'])}")
    return True


def _check_results(path: Path) -> bool:
    """Print the evaluations in results, after reading every logged sample."""
    from ragtasks.results import read_evaluations

    evaluations = read_evaluations([path])
    echo(
        f"{path}: no error",
        *(f"{evaluation.model} on {evaluation.kind[0]}: {len(evaluation.rows)} answers" for evaluation in evaluations),
    )
    echo(f"next: {shlex.join(['ragtasks', 'report', str(path)])}")
    return True


def _check_ranking(file: Path) -> bool:
    """Print the size of a file of rankings. Errors are raised together, by line."""
    run = read_run(file)
    echo(f"{file}: no error", f"a run: {sum(map(len, run.values()))} passages for {len(run)} queries")
    echo(*filter(None, [run.order_note(run)]), f"next: ragtasks evaluate-run {shlex.quote(str(file))} --qrels QRELS")
    return True


def _check_judgements(file: Path) -> bool:
    qrels = read_qrels(file)
    n_queries, n_relevant = len({qrel.query_id for qrel in qrels}), sum(qrel.relevance > 0 for qrel in qrels)
    echo(f"{file}: no error", f"{len(qrels)} judgements of {n_queries} queries, {n_relevant} relevant")
    echo(f"next: ragtasks evaluate-run RUN --qrels {shlex.quote(str(file))}")
    return True


def _check_run(path: Path) -> bool:
    """Compare the files of a stored run with its manifest and print the differences."""
    from retrieval_cache import RunStore, verify_run

    problems = verify_run(RunStore(run_store()).named(str(path), is_no_file=True))
    echo(*problems or ["all files are unchanged"])
    return not problems


def _check_folder(folder: Path) -> bool:
    from ragtasks.benchmarks.custom import CONVERSATIONS, PASSAGES, check_folder

    form = form_of(folder)
    if form in _PUBLISHED_FORMS:
        return _check_published_form(folder, form)
    report = check_folder(folder)
    files = {name: ", ".join(_task_files(name)) for name in _PUBLISHED_FORMS}
    looked_for = {"your own": f"{CONVERSATIONS}, {PASSAGES}"} | files
    expected = "; or ".join(f"{names} ({label})" for label, names in looked_for.items())
    echo(*report.lines, *([] if form else [f"expected files: {expected}"]))
    return report.passes


_CHECKS = {
    _RUN: _check_run,
    _FOLDER: _check_folder,
    FileForm.ROWS.value: _check_rows,
    FileForm.RESULTS.value: _check_results,
    FileForm.RUN.value: _check_ranking,
    FileForm.QRELS.value: _check_judgements,
    _EVALUATION: _check_evaluation,
}


def form_of(folder: Path) -> str | None:
    """Return the benchmark whose files a folder contains, `custom` for the user's own; None if there is no match."""
    from ragtasks.benchmarks.custom import CONVERSATIONS, PASSAGES

    if (folder / CONVERSATIONS).exists() or (folder / PASSAGES).exists():
        return "custom"
    published = (name for name in _PUBLISHED_FORMS if any((folder / file).is_file() for file in _task_files(name)))
    return next(published, None)


def _task_files(benchmark: str) -> list[str]:
    """Return the paths of the files that tasks are read from, without prompts."""
    return [file.path for file in source_of(benchmark).in_groups("tasks")]


def named_or_own(name: str, data: str | None) -> Benchmark:
    """Return a benchmark by name, or from the files of a folder."""
    folder = named_folder(name, data)
    opened: Benchmark = (
        named_benchmark(name, data) if folder is None else named_benchmark(form_of(folder) or "custom", str(folder))
    )
    return opened


def _check_published_form(folder: Path, name: str) -> bool:
    """Print the result of loading a folder in the format of a published benchmark."""
    try:
        benchmark = open_benchmark(name, folder.resolve())
        with suppress(ConfigurationError):  # no file of retrieved passages, or no such setting
            benchmark.read_contexts(Setting.FULL_RAG)
    except BenchmarkFileError as error:
        echo(f"{folder}: in the form of {name}, with errors", str(error))
        return False
    echo(f"{folder}: no error", *_form_lines(folder, benchmark))
    return True


def _form_lines(folder: Path, benchmark: Benchmark) -> Iterator[str]:
    """Yield the contents of a folder in a published format, and the next commands."""
    edition = "with statistics of its own" if benchmark.is_sample else "with the official counts"
    yield f"in the form of {benchmark.name}, {edition}: {len(benchmark.tasks)} tasks"
    for heading, counts in (
        ("domain", Counter(task.domain for task in benchmark.tasks)),
        ("answerability", Counter(task.answerability.value for task in benchmark.tasks)),
        ("question type", Counter(question_type for task in benchmark.tasks for question_type in task.question_types)),
    ):
        yield f"  by {heading}: {', '.join(f'{label} {count}' for label, count in counts.items())}"
    data = shlex.join(["--data", str(folder)])
    yield "next:"
    if benchmark.name == "multihop_rag":
        yield f"  ragtasks retrieve --benchmark multihop_rag {data} --retriever bm25 --name mine"
        yield f"  ragtasks run --model ragtasks-extractive --tasks multihop_rag {data} --run mine"
    else:
        yield f"  ragtasks run --model ragtasks-extractive --tasks {benchmark.name} {data}"


def _ikat_report(file: Path, form: FileForm, data: str | None) -> Report:
    """Return the errors of a TREC iKAT run. Topics are checked only if they were fetched."""
    from ragtasks.submissions import ikat

    name = ikat.BENCHMARKS[form]
    try:
        benchmark_folder(name, data, data_folder())
    except BenchmarkFileError:
        if data is not None:
            raise
        return ikat.check_run(file, form, None)
    return ikat.check_run(file, form, named_benchmark(name, data))

"""`ragtasks check`: what is wrong with a submission, or with a benchmark of your own."""

from __future__ import annotations

import json
import shlex
from collections import Counter
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ragtasks.cli.app import app, echo
from ragtasks.cli.options import ALL_PROBLEMS, AS_JSON, DATA, DOCUMENTS, INPUT, is_path, named_benchmark
from ragtasks.errors import BenchmarkFileError, ConfigurationError
from ragtasks.submissions import SubmissionTask, render_json, render_text

if TYPE_CHECKING:
    from ragtasks.benchmarks import Benchmark


_PUBLISHED_FORMS = ("mtrag_s", "multihop_rag")  # what `ragtasks synthesize` writes beside folders of your own


@app.command()
def check(  # noqa: PLR0917 (one parameter an option)
    path: Annotated[Path, typer.Argument(help="Submission (JSON lines, with --task), or your own benchmark's folder.")],
    task: Annotated[
        SubmissionTask | None,
        typer.Option(help="Task of MTRAGEval: A retrieval, B answers, C both.", case_sensitive=False),
    ] = None,
    input_file: INPUT = None,
    benchmark: Annotated[
        str | None, typer.Option(help="Benchmark with the tasks and corpora: mtrag, mtrag_un.")
    ] = None,
    data: DATA = None,
    documents: DOCUMENTS = True,
    as_json: AS_JSON = False,
    every: ALL_PROBLEMS = False,
) -> None:
    """List every error in a submission or a benchmark of your own, with its line; exits with 1 if there is any."""
    path = path.expanduser()
    if task is None:
        if not path.exists() and not is_path(str(path)):
            raise typer.Exit(int(not _run_passes(str(path))))
        if path.is_file():
            raise ConfigurationError(f"{path}: a submission is checked for its task. Next step: add --task A, B or C")
        if input_file or benchmark or data or as_json:
            raise ConfigurationError("--input, --benchmark, --data, --json go with --task, and only a folder is given")
        passes = _folder_passes(path)
    else:
        source = named_benchmark(benchmark or "mtrag", data) if benchmark or data else None
        passes = _submission_passes(path, task, source, input_file, documents=documents, as_json=as_json, every=every)
    raise typer.Exit(int(not passes))


def _run_passes(name: str) -> bool:
    """Print what is wrong with a stored run's files, beside its manifest."""
    from ragtasks.environment import run_store
    from retrieval_cache import RunStore, verify_run

    problems = verify_run(RunStore(run_store()).named(name, is_no_file=True))
    echo(*problems or ["all files are as they were written"])
    return not problems


def _folder_passes(folder: Path) -> bool:
    from ragtasks.benchmarks.custom import check_folder

    form = form_of(folder)
    if form in _PUBLISHED_FORMS:
        return _published_form_passes(folder, form)
    report = check_folder(folder)
    echo(*report.lines, *([] if form else [f"looked for: {'; or '.join(_looked_for())}"]))
    return report.passes


def form_of(folder: Path) -> str | None:
    """Return the benchmark whose files a folder has: `custom` for one's own; None where it has none."""
    from ragtasks.benchmarks import source_of
    from ragtasks.benchmarks.custom import CONVERSATIONS, PASSAGES

    if (folder / CONVERSATIONS).exists() or (folder / PASSAGES).exists():
        return "custom"
    published = (name for name in _PUBLISHED_FORMS if any((folder / f.path).is_file() for f in source_of(name).files))
    return next(published, None)


def _looked_for() -> Iterator[str]:
    from ragtasks.benchmarks import source_of
    from ragtasks.benchmarks.custom import CONVERSATIONS, PASSAGES

    yield f"{CONVERSATIONS}, {PASSAGES} (your own)"
    yield from (f"{', '.join(file.path for file in source_of(name).files)} ({name})" for name in _PUBLISHED_FORMS)


def _published_form_passes(folder: Path, name: str) -> bool:
    """Print what the loader of a published benchmark makes of a folder in its form."""
    from ragtasks.benchmarks import open_benchmark
    from ragtasks.records import Setting

    try:
        benchmark = open_benchmark(name, folder.resolve())
        with suppress(ConfigurationError):  # there is no file with retrieved passages, or no such setting
            benchmark.read_contexts(Setting.FULL_RAG)
    except BenchmarkFileError as error:
        echo(f"{folder}: in the form of {name}, with errors", str(error))
        return False
    echo(f"{folder}: no error", *_form_lines(folder, benchmark))
    return True


def _form_lines(folder: Path, benchmark: Benchmark) -> Iterator[str]:
    """Yield what a folder in a published form holds, and what to run next."""
    edition = "with statistics of its own" if benchmark.is_sample else "with the official counts"
    yield f"in the form of {benchmark.name}, {edition}: {len(benchmark.tasks)} tasks"
    for heading, found in (
        ("domain", Counter(task.domain for task in benchmark.tasks)),
        ("answerability", Counter(task.answerability.value for task in benchmark.tasks)),
        ("question type", Counter(kind for task in benchmark.tasks for kind in task.question_types)),
    ):
        yield f"  by {heading}: {', '.join(f'{label} {count}' for label, count in found.items())}"
    data = shlex.join(["--data", str(folder)])
    yield "next:"
    if benchmark.name == "multihop_rag":
        yield f"  ragtasks retrieve --benchmark multihop_rag {data} --retriever bm25 --name mine"
        yield f"  ragtasks run --model ragtasks-extractive --tasks multihop_rag {data} --run mine"
    else:
        yield f"  ragtasks run --model ragtasks-extractive --tasks {benchmark.name} {data}"


def _submission_passes(
    file: Path,
    task: SubmissionTask,
    source: Any,
    input_file: Path | None,
    *,
    documents: bool,
    as_json: bool,
    every: bool,
) -> bool:
    from ragtasks.submissions import mtrageval

    report = mtrageval.check(file, task, source, input_file, documents=documents)
    echo(*([json.dumps(render_json(report))] if as_json else render_text(report, every=every)))
    return report.passes

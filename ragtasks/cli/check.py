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

from ragtasks.cli.app import app, say
from ragtasks.cli.options import DATA, DOCUMENTS, INPUT, named_benchmark
from ragtasks.errors import BenchmarkFileError, ConfigurationError
from ragtasks.submissions import SubmissionTask

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
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
    every: Annotated[
        bool, typer.Option("--all", help="One line for each violation, instead of one for all equal ones.")
    ] = False,
) -> None:
    """List every error in a submission or a benchmark of your own, with its line; exits with 1 if there is any."""
    path = path.expanduser()
    if task is None:
        if path.is_file():
            raise ConfigurationError(f"{path}: a submission is checked for its task. Next step: add --task A, B or C")
        if input_file or benchmark or data or as_json:
            raise ConfigurationError("--input, --benchmark, --data, --json go with --task, and only a folder is given")
        passes = _folder_passes(path)
    else:
        source = named_benchmark(benchmark or "mtrag", data) if benchmark or data else None
        passes = _submission_passes(path, task, source, input_file, documents=documents, as_json=as_json, every=every)
    raise typer.Exit(int(not passes))


app.command("validate", hidden=True)(check)


def _folder_passes(folder: Path) -> bool:
    from ragtasks.benchmarks import source_of
    from ragtasks.benchmarks.custom import CONVERSATIONS, PASSAGES, check_folder

    looked_for = [f"{CONVERSATIONS}, {PASSAGES} (your own)"]
    is_custom = (folder / CONVERSATIONS).exists() or (folder / PASSAGES).exists()
    for name in () if is_custom else _PUBLISHED_FORMS:
        files = [file.path for file in source_of(name).files]
        if any((folder / file).is_file() for file in files):
            return _published_form_passes(folder, name)
        looked_for.append(f"{', '.join(files)} ({name})")
    report = check_folder(folder)
    say(*report.lines, *([] if is_custom else [f"looked for: {'; or '.join(looked_for)}"]))
    return report.passes


def _published_form_passes(folder: Path, name: str) -> bool:
    """Print what the loader of a published benchmark makes of a folder in its form."""
    from ragtasks.benchmarks import open_benchmark
    from ragtasks.records import Setting

    try:
        benchmark = open_benchmark(name, folder.resolve())
        with suppress(ConfigurationError):  # there is no file with retrieved passages, or no such setting
            benchmark.read_contexts(Setting.FULL_RAG)
    except BenchmarkFileError as error:
        say(f"{folder}: in the form of {name}, with errors", str(error))
        return False
    say(f"{folder}: no error", *_form_lines(folder, benchmark))
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
    from ragtasks.submissions.mtrageval import render_json, render_text

    report = mtrageval.check(file, task, source, input_file, documents=documents)
    say(*([json.dumps(render_json(report))] if as_json else render_text(report, every=every)))
    return report.passes


__all__ = ["check"]

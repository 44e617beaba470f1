"""`ragtasks check`: what is wrong with a submission, or with a benchmark of your own."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated, Any

import typer

from ragtasks.cli.app import app, say
from ragtasks.cli.options import DATA, DOCUMENTS, INPUT, named_benchmark
from ragtasks.errors import ConfigurationError
from ragtasks.submissions import SubmissionTask


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
    from ragtasks.benchmarks.custom import check_folder

    report = check_folder(folder)
    say(*report.lines)
    return report.passes


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

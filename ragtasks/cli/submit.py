"""`ragtasks submit` and `check`: files to hand in."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer

from ragtasks.cli.app import app, say
from ragtasks.cli.options import DATA, named_benchmark
from ragtasks.submissions.mtrageval import SubmissionTask

_TASK = Annotated[
    SubmissionTask,
    typer.Option(help="Task of MTRAGEval: A retrieval, B answers, C both.", case_sensitive=False),
]
_INPUT = Annotated[Path | None, typer.Option("--input", help="Official input file; default: the benchmark's tasks.")]
_DOCUMENTS = Annotated[bool, typer.Option(help="Look documents up in the benchmark's corpora, where they are here.")]


@app.command()
def check(  # noqa: PLR0917 (one parameter an option)
    file: Annotated[Path, typer.Argument(help="Submission (JSON lines).")],
    task: _TASK,
    input_file: _INPUT = None,
    benchmark: Annotated[
        str | None, typer.Option(help="Benchmark with the tasks and corpora: mtrag, mtrag_un.")
    ] = None,
    data: DATA = None,
    documents: _DOCUMENTS = True,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
    every: Annotated[
        bool, typer.Option("--all", help="A line a violation, in place of one for all equal ones.")
    ] = False,
) -> None:
    """Say everything that is wrong with a submission, by rule and line; status 1 where anything is."""
    from ragtasks.submissions import mtrageval
    from ragtasks.submissions.mtrageval import render_json, render_text

    source = named_benchmark(benchmark or "mtrag", data) if benchmark or data else None
    report = mtrageval.check(file, task, source, input_file, documents=documents)
    say(*([json.dumps(render_json(report))] if as_json else render_text(report, every=every)))
    raise typer.Exit(int(not report.passes))


@app.command()
def submit(  # noqa: PLR0917 (one parameter an option)
    task: _TASK,
    output: Annotated[Path, typer.Option(help="File to write, .jsonl.")],
    run: Annotated[
        str | None, typer.Option(help="Stored run (task A); `official` is the benchmark's own passages.")
    ] = None,
    results: Annotated[
        Path | None, typer.Option(help="What lm_eval wrote with --log_samples for one model: file or folder.")
    ] = None,
    benchmark: Annotated[str, typer.Option(help="Benchmark: mtrag, mtrag_un.")] = "mtrag",
    data: DATA = None,
    input_file: _INPUT = None,
    limit_contexts: Annotated[int, typer.Option(help="Contexts that a task may have, 10 at most.")] = 10,
    allow_missing: Annotated[
        bool, typer.Option("--allow-missing", help="Hand in tasks without a ranking or an answer empty.")
    ] = False,
    documents: _DOCUMENTS = True,
) -> None:
    """Write a file for MTRAGEval from a run or results, checked, and print the number it will be ranked by."""
    from ragtasks.environment import run_store
    from ragtasks.submissions import mtrageval

    request = mtrageval.Request(task, output, run, results, input_file, limit_contexts, allow_missing, documents)
    say(*mtrageval.submit(request, named_benchmark(benchmark, data), run_store()))


__all__ = ["check", "submit"]

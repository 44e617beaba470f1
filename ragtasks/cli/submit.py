"""`ragtasks submit`: files to hand in."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from ragtasks.cli.app import app, say
from ragtasks.cli.options import DATA, DOCUMENTS, INPUT, named_benchmark
from ragtasks.submissions import SubmissionTask

_TASK = Annotated[
    SubmissionTask,
    typer.Option(help="Task of MTRAGEval: A retrieval, B answers, C both.", case_sensitive=False),
]


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
    input_file: INPUT = None,
    limit_contexts: Annotated[int, typer.Option(help="Contexts that a task may have, 10 at most.")] = 10,
    allow_missing: Annotated[
        bool, typer.Option("--allow-missing", help="Submit tasks without a ranking or an answer as empty.")
    ] = False,
    documents: DOCUMENTS = True,
) -> None:
    """Write a file for MTRAGEval from a run or results, checked, and print the number it will be ranked by."""
    from ragtasks.environment import run_store
    from ragtasks.submissions import mtrageval

    request = mtrageval.Request(task, output, run, results, input_file, limit_contexts, allow_missing, documents)
    say(*mtrageval.submit(request, named_benchmark(benchmark, data), run_store()))


__all__ = ["submit"]

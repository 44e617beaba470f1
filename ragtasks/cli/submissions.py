"""`ragtasks submit`: files for MTRAGEval, TREC RAG and TREC iKAT."""

from __future__ import annotations

from enum import Enum
from pathlib import Path
from typing import Annotated

import typer

from ragtasks.cli.app import TREC_RAG, app, echo
from ragtasks.cli.options import DATA, DOCUMENTS, INPUT, named_benchmark
from ragtasks.cli.trec_rag import TOPICS, write_track
from ragtasks.errors import ConfigurationError
from ragtasks.submissions import SubmissionTask


class Track(str, Enum):
    """Whom a file is for."""

    MTRAGEVAL = "mtrageval"
    TREC_RAG = "trec-rag"
    IKAT = "ikat"


@app.command()
def submit(  # noqa: PLR0917 (one parameter an option)
    output: Annotated[Path, typer.Option(help="File to write, .jsonl.")],
    track: Annotated[Track, typer.Option(help="Whom the file is for.")] = Track.MTRAGEVAL,
    task: Annotated[
        SubmissionTask | None,
        typer.Option(help="Task of MTRAGEval: A retrieval, B answers, C both.", case_sensitive=False),
    ] = None,
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
    run_id: Annotated[
        str | None, typer.Option(help="Name of the run, the same on all lines.", rich_help_panel=TREC_RAG)
    ] = None,
    topics: TOPICS = None,
    cut: Annotated[
        bool,
        typer.Option("--cut", help="Cut answers to 400 words, sentence by sentence.", rich_help_panel=TREC_RAG),
    ] = False,
    team_id: Annotated[
        str,
        typer.Option(help="Name of the team; for the format of 2025, where it is required.", rich_help_panel=TREC_RAG),
    ] = "",
) -> None:
    """Write a file for MTRAGEval, TREC RAG or TREC iKAT from a run or results, checked.

    For MTRAGEval its estimated ranking score is printed.
    For TREC iKAT, --results of 2023, 2024 or 2025 say the year.
    For TREC RAG, --results may also be an answer file of 2024: it is written in the format of 2025.
    """
    if track is Track.TREC_RAG:
        if results is None or task or run or input_file:
            raise ConfigurationError("--track trec-rag: give --results, and leave out --task, --run and --input")
        echo(*write_track(output, results, run_id, topics, data, cut=cut, team_id=team_id))
        return
    if track is Track.IKAT:
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
        raise ConfigurationError("--run-id, --set, --cut, --team-id go with --track trec-rag or ikat")
    from ragtasks.config.environment import run_store
    from ragtasks.submissions import mtrageval

    request = mtrageval.Request(task, output, run, results, input_file, limit_contexts, allow_missing, documents)
    echo(*mtrageval.submit(request, named_benchmark(benchmark, data), run_store()))

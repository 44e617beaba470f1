"""`ragtasks describe`: what a benchmark holds, as its paper's data tables report it."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from ragtasks.cli.app import TableFormat, app, put


@app.command()
def describe(
    benchmark: Annotated[str, typer.Argument(help="Benchmark, such as mtrag or multihop_rag.")],
    data: Annotated[str | None, typer.Option(help="`sample`, or a folder with the official files.")] = None,
    form: Annotated[TableFormat, typer.Option("--format", help="How the tables are written.")] = TableFormat.MARKDOWN,
    corpora: Annotated[bool, typer.Option(help="Count documents and passages of the corpora, which are read.")] = True,
    output: Annotated[Path | None, typer.Option(help="File for the tables, in place of the screen.")] = None,
) -> None:
    """Print what a benchmark holds: conversations, turns, words, question types, answerability, corpora."""
    from ragtasks.benchmarks import benchmark_folder, open_benchmark
    from ragtasks.environment import data_folder
    from ragtasks.reports.rendering import Format, render
    from ragtasks.reports.tables import benchmark_section
    from retrieval_cache.corpora import corpora_tables

    opened = open_benchmark(benchmark, benchmark_folder(benchmark, data, data_folder()).resolve())
    section = benchmark_section(opened, corpora_tables(opened) if corpora else ())
    put(render([section], Format(form.value)), output)


__all__ = ["describe"]

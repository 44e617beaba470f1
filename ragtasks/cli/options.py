"""Options that several commands have, and what they name."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

DATA = Annotated[str | None, typer.Option(help="`sample`, or a folder with the official files.")]
BENCHMARK = Annotated[str, typer.Option(help="Such as mtrag, mtrag_un, multihop_rag, trec_rag24, custom.")]
INPUT = Annotated[Path | None, typer.Option("--input", help="Official input file; default: the benchmark's tasks.")]
DOCUMENTS = Annotated[bool, typer.Option(help="Look documents up in the benchmark's corpora, if these were fetched.")]


def retrieval_place(benchmark: str, data: str | None) -> Any:
    """Return where runs of a benchmark are made and judged: a `retrieval_cache.service.Place`."""
    from ragtasks.environment import data_folder, run_store, secret
    from retrieval_cache.service import Place

    return Place(benchmark, data, data_folder(), run_store(), secret)


def named_benchmark(name: str, data: str | None) -> Any:
    """Return a benchmark, from its files in a folder, the sample, or the data folder."""
    from ragtasks.benchmarks import benchmark_folder, open_benchmark
    from ragtasks.environment import data_folder

    return open_benchmark(name, benchmark_folder(name, data, data_folder()).resolve())


__all__ = ["BENCHMARK", "DATA", "DOCUMENTS", "INPUT", "named_benchmark", "retrieval_place"]

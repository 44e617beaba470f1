"""Options that several commands have, and what they name."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

import typer

DATA = Annotated[str | None, typer.Option(help="`sample`, or a folder with the official files.")]
BENCHMARK = Annotated[str, typer.Option(help="Such as mtrag, mtrag_un, multihop_rag, trec_rag24, custom.")]
REWRITER = Annotated[str | None, typer.Option(help="Endpoint for the query form llm_rewrite, such as openai/NAME.")]
REWRITER_ADDRESS = Annotated[
    str | None, typer.Option("--base-url", help="Address of the rewriter's OpenAI-compatible server.")
]
INPUT = Annotated[Path | None, typer.Option("--input", help="Official input file; default: the benchmark's tasks.")]
HOST = Annotated[str, typer.Option(help="Outside this machine, --typed-names needs a token in RAGTASKS_ARENA_TOKEN.")]
PORT = Annotated[int, typer.Option(min=0, max=65535, help="0 takes a free one.")]
TYPED_NAMES = Annotated[
    bool,
    typer.Option(
        "--typed-names",
        help="Let in everybody who reaches the page, under any name that they type: nobody can tell then who it was. "
        "Default: invited people only.",
    ),
]
NAMES = Annotated[list[str], typer.Argument(help="Names of raters; a new link takes the place of an earlier one.")]
ADDRESS = Annotated[str, typer.Option(help="Where raters reach the server.")]
DOCUMENTS = Annotated[bool, typer.Option(help="Look documents up in the benchmark's corpora, if these were fetched.")]


def retrieval_place(benchmark: str, data: str | None) -> Any:
    """Return where runs of a benchmark are made and judged: a `retrieval_cache.service.Place`."""
    from ragtasks.environment import data_folder, run_store, secret
    from retrieval_cache import Place

    return Place(benchmark, data, data_folder(), run_store(), secret)


def named_benchmark(name: str, data: str | None) -> Any:
    """Return a benchmark, from its files in a folder, the sample, or the data folder."""
    from ragtasks.benchmarks import benchmark_folder, open_benchmark
    from ragtasks.environment import data_folder

    return open_benchmark(name, benchmark_folder(name, data, data_folder()).resolve())


def invited(database: Path, names: Sequence[str], address: str) -> list[str]:
    """Return a line a rater: the name, and the link that lets the rater in."""
    from ragtasks.arena.store import VoteStore

    store = VoteStore(database)
    try:
        known = [store.invite(name) for name in names]
    finally:
        store.close()
    return [f"{rater}: {address.rstrip('/')}/enter?invitation={token}" for rater, token in known]


def asking(judges: Sequence[str]) -> Any:
    """Return the function that asks the named judges: (responses, rubrics) -> verdicts; bars show how far it is."""
    from ragtasks.clients import endpoint_of
    from ragtasks.environment import reply_cache_file, secret
    from ragtasks.judges import judge_responses
    from ragtasks.progress import progress_bars

    endpoints = [endpoint_of(text) for text in judges]

    def ask(responses: Any, rubrics: Any) -> Any:
        with progress_bars() as progress:
            return judge_responses(
                responses,
                endpoints,
                secrets=secret,
                cache_file=reply_cache_file(),
                rubrics=rubrics,
                progress=progress,
            )

    return ask

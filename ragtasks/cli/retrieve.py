"""`ragtasks retrieve`: a run of a retriever, made once."""

from __future__ import annotations

import shlex
from collections.abc import Iterator
from typing import Annotated

import typer

from ragtasks.cli.app import app, say
from ragtasks.cli.options import BENCHMARK, DATA, REWRITER, REWRITER_ADDRESS, retrieval_place
from ragtasks.errors import ConfigurationError

_RETRIEVED = ("reference_rag", "full_rag")


@app.command()
def retrieve(  # noqa: PLR0917 (one parameter an option)
    retriever: Annotated[str, typer.Option(help="Such as bm25, dense:minilm, hybrid(bm25,dense:minilm), run:FILE.")],
    queries: Annotated[
        str,
        typer.Option(help="Query form: last_turn, rewrite, all_questions, llm_rewrite, ...; FORM/FORM fuses several."),
    ] = "last_turn",
    benchmark: BENCHMARK = "mtrag",
    data: DATA = None,
    name: Annotated[str | None, typer.Option(help="Name of the run; default: retriever, query form and data.")] = None,
    depth: Annotated[int, typer.Option(min=1, help="Passages kept for each query.")] = 100,
    rewriter: REWRITER = None,
    base_url: REWRITER_ADDRESS = None,
    min_rewritten: Annotated[
        float, typer.Option(min=0, max=1, help="Share of the questions that must be rewritten, else nothing is stored.")
    ] = 0.95,
    corpus: Annotated[
        list[str] | None, typer.Option(help="DOMAIN=LOCATION: search another corpus for a domain; repeatable.")
    ] = None,
    encode_with: Annotated[
        str | None,
        typer.Option(help="Encode passages on other machines or GPUs: ray[:ADDRESS][,workers=8][,gpus=1]."),
    ] = None,
) -> None:
    """Make a run of a retriever over a benchmark's queries, once; an interrupted one resumes where it stopped."""
    from ragtasks.environment import forbid_usage_reports
    from retrieval_cache.service import Rewriter, has_judgements
    from retrieval_cache.service import retrieve as make
    from retrieval_cache.store import SAME_AS, fallbacks_of

    model, place = Rewriter(rewriter, base_url, min_rewritten), retrieval_place(benchmark, data)
    if encode_with is not None:
        forbid_usage_reports()
    run = make(
        place,
        retriever,
        queries,
        name=name,
        depth=depth,
        rewriter=model,
        corpora=_pairs(corpus),
        encode_with=encode_with,
    )
    made = run.folder.name
    say(f"run {made} in {run.folder}")
    if same_as := run.manifest.metadata.get(SAME_AS):
        say(f"this very run is there as {same_as}: {made} is linked to its files")
    if fallbacks := fallbacks_of(run.manifest):
        say(fallbacks)
    say(*_next_steps(made, benchmark, data, has_judgements(place)))


def _pairs(options: list[str] | None) -> dict[str, str]:
    pairs = [option.partition("=") for option in options or []]
    for name, sign, value in pairs:
        if not (name and sign and value):
            raise ConfigurationError(f"--corpus: expected DOMAIN=LOCATION, found {name + sign + value!r}")
    return {name: value for name, _, value in pairs}


def _next_steps(run: str, benchmark: str, data: str | None, is_judged: bool) -> Iterator[str]:
    """Yield how to go on with a run on the data that it was made for, to be pasted into a shell."""
    if is_judged:
        place = ["--benchmark", benchmark, *(["--data", data] if data else [])]
        yield f"next: {shlex.join(['ragtasks', 'evaluate-run', run, *place])}"
    if _has_tasks_on_runs(benchmark):
        options = shlex.join([*(["--data", data] if data else []), "--run", run])
        yield f"use it in tasks of {benchmark} with ragtasks run {options}"


def _has_tasks_on_runs(benchmark: str) -> bool:
    """Return whether a harness task of the benchmark is given retrieved passages."""
    import yaml

    from ragtasks.harness.link import task_folder

    # The base loader leaves the harness's `!function` tags alone.
    files = (yaml.load(path.read_text("utf-8"), yaml.BaseLoader) for path in task_folder().rglob("*.yaml"))
    options = (file.get("dataset_kwargs", {}) for file in files)
    return any(one.get("benchmark") == benchmark and one.get("setting") in _RETRIEVED for one in options)


__all__ = ["retrieve"]

"""`ragtasks retrieve` makes runs, `ragtasks evaluate-run` scores them."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any

import typer

from ragtasks.cli.app import app, echo, put
from ragtasks.cli.look_ahead import PROBE
from ragtasks.cli.options import BENCHMARK, DATA, FORMAT, REWRITER, TABLES, retrieval_workspace
from ragtasks.errors import ConfigurationError
from ragtasks.files import write_atomically, written_lines
from ragtasks.harness.tasks import task_settings
from ragtasks.records import Setting
from ragtasks.requirements import require
from ragtasks.tables import Format, render

_RETRIEVED = (Setting.REFERENCE_RAG, Setting.FULL_RAG)


@app.command()
def retrieve(  # noqa: PLR0917 (one parameter an option)
    retriever: Annotated[str, typer.Option(help="bm25, dense:minilm, hybrid(bm25,dense:minilm), run:FILE, ...")],
    queries: Annotated[str, typer.Option(help="Query form: last_turn, rewrite, all_questions, ...")] = "last_turn",
    benchmark: BENCHMARK = "mtrag",
    data: DATA = None,
    name: Annotated[str | None, typer.Option(help="Name of the run.")] = None,
    depth: Annotated[int, typer.Option(min=1, metavar="<int>", help="Passages stored per query.")] = 100,
    rewriter: REWRITER = None,
    min_rewritten: Annotated[
        float, typer.Option(min=0, max=1, metavar="<share>", help="Minimum share of rewritten questions.", hidden=True)
    ] = 0.95,
    corpus: Annotated[
        list[str] | None,
        typer.Option(help="Corpus that replaces a domain's own, as DOMAIN=LOCATION; repeatable.", hidden=True),
    ] = None,
    encode_with: Annotated[
        str | None, typer.Option(help="Workers that encode passages: KIND[:ADDRESS][,option=value].", hidden=True)
    ] = None,
    probe: PROBE = True,
) -> None:
    """Make a run of a retriever over a benchmark's queries.

    An interrupted run is continued.
    """
    from retrieval_cache import SAME_AS, Rewriter, fallbacks_of, has_judgements, retrieval_requirements
    from retrieval_cache import retrieve as make

    workspace = retrieval_workspace(benchmark, data)
    arguments: dict[str, Any] = {"rewriter": Rewriter(rewriter, min_rewritten), "encode_with": encode_with}
    arguments["corpora"] = _pairs(corpus)
    require(retrieval_requirements(workspace, retriever, [queries], **arguments), with_requests=probe)
    run = make(workspace, retriever, queries, name=name, depth=depth, **arguments)
    made = run.folder.name
    echo(f"run {made} in {run.folder}")
    if same_as := run.manifest.metadata.get(SAME_AS):
        echo(f"the same run exists as {same_as}: {made} is linked to its files")
    if fallbacks := fallbacks_of(run.manifest):
        echo(fallbacks)
    echo(*_next_steps(made, benchmark, data, has_judgements(workspace)))


def _pairs(options: list[str] | None) -> dict[str, str]:
    pairs = [option.partition("=") for option in options or []]
    for name, sign, value in pairs:
        if not (name and sign and value):
            raise ConfigurationError(f"--corpus: expected DOMAIN=LOCATION, found {name + sign + value!r}")
    return {name: value for name, _, value in pairs}


def _next_steps(run: str, benchmark: str, data: str | None, is_judged: bool) -> Iterator[str]:
    """Yield commands that use the run."""
    if is_judged:
        arguments = ["--benchmark", benchmark, *(["--data", data] if data else [])]
        yield f"next: {shlex.join(['ragtasks', 'evaluate-run', run, *arguments])}"
    if any(part.benchmark == benchmark and part.setting in _RETRIEVED for part in task_settings(["*"])):
        options = shlex.join([*(["--data", data] if data else []), "--run", run])
        yield f"use it in tasks of {benchmark} with ragtasks run {options}"


# `ragtasks evaluate-run`: score rankings by relevance judgements.


@app.command()
def evaluate_run(  # noqa: PLR0917 (one parameter an option)
    names: Annotated[
        list[str],
        typer.Argument(
            help="Runs: files (TREC, JSON, also compressed), MultiHop-RAG's results, stored runs, `official`."
        ),
    ],
    benchmark: BENCHMARK = "mtrag",
    data: DATA = None,
    qrels: Annotated[
        list[Path] | None, typer.Option(help="File of judgements (TREC or BEIR), instead of a benchmark; repeatable.")
    ] = None,
    domain: Annotated[list[str] | None, typer.Option(help="Only this domain; repeatable.", hidden=True)] = None,
    measures: Annotated[
        list[str] | None,
        typer.Option(help="Measures in the notation of ir_measures, such as 'nDCG@20 R@100 RR@10'; repeatable."),
    ] = None,
    form: FORMAT = Format.MARKDOWN,
    output: TABLES = None,
    per_query: Annotated[
        Path | None, typer.Option(help="JSON lines file for the scores of each query.", hidden=True)
    ] = None,
) -> None:
    """Score rankings by relevance judgements."""
    if qrels and domain:
        raise ConfigurationError(
            "--domain: judgements in a file have no domains. Next step: name the files of these domains"
        )

    from ragtasks.metrics import RETRIEVAL_METRICS, retrieval_metric
    from retrieval_cache import evaluate_runs, judge_files, judge_runs, query_rows, retrieval_section, wrong_order_error

    # In `--measures R@5 nDCG@10` the shell passes the second measure as a run. Names of runs contain no `@`.
    further = [name for name in names if measures and "@" in name and not Path(name).exists()]
    names = [name for name in names if name not in further]
    # A comma or blank within brackets belongs to the measure.
    measure_names = (
        name for option in (*(measures or ()), *further) for name in re.split(r"[,\s]+(?![^(]*\))", option)
    )
    metrics = list(dict.fromkeys(retrieval_metric(name) for name in measure_names if name)) or RETRIEVAL_METRICS
    if not qrels and (error := wrong_order_error([Path(name) for name in names], [])):
        raise error
    workspace = retrieval_workspace(benchmark, data)
    if not (qrels or measures or per_query):
        put(render([evaluate_runs(workspace, names, domain or ())], form), output)
        return
    if qrels:
        judged = judge_files([Path(name) for name in dict.fromkeys(names)], qrels, metrics)
    else:
        judged = judge_runs(workspace.open(), workspace.store, list(dict.fromkeys(names)), metrics, domain or ())
    put(render([retrieval_section(judged, metrics)], form), output)
    if per_query:
        write_atomically(per_query, written_lines(query_rows(judged, metrics)))
        typer.echo(f"wrote {per_query}", err=True)  # standard output may be JSON or CSV

"""`ragtasks evaluate-run`: rankings scored by relevance judgements."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from pathlib import Path
from typing import Annotated

import typer

from ragtasks.cli.app import TableFormat, app, put
from ragtasks.cli.options import BENCHMARK, DATA, retrieval_place
from ragtasks.errors import ConfigurationError


@app.command()
def evaluate_run(  # noqa: PLR0917 (one parameter an option)
    names: Annotated[
        list[str],
        typer.Argument(
            help="Runs: files (TREC, JSON lines of MTRAGEval, MultiHop-RAG's results), stored runs, `official`."
        ),
    ],
    benchmark: BENCHMARK = "mtrag",
    data: DATA = None,
    qrels: Annotated[
        list[Path] | None, typer.Option(help="File of judgements (TREC or BEIR): no benchmark is needed; repeatable.")
    ] = None,
    domain: Annotated[list[str] | None, typer.Option(help="Judge this domain only; repeatable.")] = None,
    measures: Annotated[
        list[str] | None, typer.Option(help="Such as nDCG@20,R@100: measures as ir_measures writes them; repeatable.")
    ] = None,
    form: Annotated[TableFormat, typer.Option("--format", help="How the scores are written.")] = TableFormat.MARKDOWN,
    output: Annotated[Path | None, typer.Option(help="File for the scores, in place of the screen.")] = None,
    per_query: Annotated[Path | None, typer.Option(help="JSON lines to write: the scores of each query.")] = None,
) -> None:
    """Score rankings by relevance judgements, without any corpus: over all judged queries, by subset, by query."""
    if qrels and domain:
        raise ConfigurationError("--domain: judgements of a file have no domains. Next step: give the files of these")
    if not (qrels or measures or per_query) and form is TableFormat.MARKDOWN:
        from retrieval_cache.evaluation import render_report
        from retrieval_cache.service import evaluate_runs

        put(render_report(evaluate_runs(retrieval_place(benchmark, data), names, domain or ())), output)
        return
    from ragtasks.metrics import RETRIEVAL_METRICS, retrieval_metric
    from ragtasks.reports.rendering import Format, render
    from ragtasks.reports.tables import query_rows, ranking_section
    from retrieval_cache.judging import judge_files
    from retrieval_cache.service import judge_runs

    metrics = [retrieval_metric(name) for name in _measure_names(measures or ())] or RETRIEVAL_METRICS
    if qrels:
        title = f"Retrieval by {', '.join(path.name for path in qrels)}"
        judged = judge_files([Path(name) for name in dict.fromkeys(names)], qrels, metrics)
    else:
        label, judged = judge_runs(retrieval_place(benchmark, data), names, metrics, domain or ())
        title = f"Retrieval on {label}"
    put(render([ranking_section(title, judged, metrics)], Format(form.value)), output)
    if per_query:
        from ragtasks.files import write_atomically

        lines = (json.dumps(row, ensure_ascii=False) + "\n" for row in query_rows(judged, metrics))
        write_atomically(per_query, "".join(lines).encode())
        typer.echo(f"wrote {per_query}", err=True)  # standard output may be JSON or CSV


def _measure_names(options: Iterable[str]) -> list[str]:
    """Return the measures of some options, each once; a comma inside of brackets is the measure's own."""
    names = (name.strip() for option in options for name in re.split(r",(?![^(]*\))", option))
    return list(dict.fromkeys(name for name in names if name))


__all__ = ["evaluate_run"]

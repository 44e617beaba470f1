"""Commands of the precompute stage: runs, their evaluation, corpora. Each parses, calls one function, and prints."""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Annotated, Any

import typer

from ragtasks.cli.app import TableFormat, app, put, say
from ragtasks.errors import ConfigurationError

_BENCHMARK = Annotated[str, typer.Option(help="Benchmark.")]
_RETRIEVED = ("reference_rag", "full_rag")
_DATA = Annotated[str | None, typer.Option(help="`sample`, or a folder with the official files.")]


def _place(benchmark: str, data: str | None) -> Any:
    from ragtasks.environment import data_folder, run_store, secret
    from retrieval_cache.service import Place

    return Place(benchmark, data, data_folder(), run_store(), secret)


def _pairs(options: list[str] | None) -> dict[str, str]:
    pairs = [option.partition("=") for option in options or []]
    for name, sign, value in pairs:
        if not (name and sign and value):
            raise ConfigurationError(f"--corpus: expected DOMAIN=LOCATION, found {name + sign + value!r}")
    return {name: value for name, _, value in pairs}


def _store() -> Any:
    from ragtasks.environment import run_store
    from retrieval_cache.store import RunStore

    return RunStore(run_store())


@app.command()
def retrieve(  # noqa: PLR0917 (one parameter an option)
    retriever: Annotated[str, typer.Option(help="Such as bm25, dense:minilm, hybrid(bm25,dense:minilm), run:FILE.")],
    queries: Annotated[
        str, typer.Option(help="Query form: last_turn, rewrite, all_questions, llm_rewrite, ...")
    ] = "last_turn",
    benchmark: _BENCHMARK = "mtrag",
    data: _DATA = None,
    name: Annotated[str | None, typer.Option(help="Name of the run; default: retriever and query form.")] = None,
    depth: Annotated[int, typer.Option(min=1, help="Passages kept for each query.")] = 100,
    rewriter: Annotated[
        str | None, typer.Option(help="Endpoint for the query form llm_rewrite, such as openai/NAME.")
    ] = None,
    base_url: Annotated[str | None, typer.Option(help="Address of the rewriter's OpenAI-compatible server.")] = None,
    corpus: Annotated[
        list[str] | None, typer.Option(help="DOMAIN=LOCATION: search another corpus for a domain; repeatable.")
    ] = None,
) -> None:
    """Make a run of a retriever over a benchmark's queries, once; a killed call is taken up again."""
    from retrieval_cache.service import Rewriter, has_judgements
    from retrieval_cache.service import retrieve as make

    model, place = Rewriter(rewriter, base_url), _place(benchmark, data)
    run = make(place, retriever, queries, name=name, depth=depth, rewriter=model, corpora=_pairs(corpus))
    made = run.folder.name
    say(f"run {made} in {run.folder}")
    if name not in (None, made):
        say(f"this very run was there under that name: {name} is not made")
    say(*_next_steps(made, benchmark, data, has_judgements(place)))


def _next_steps(run: str, benchmark: str, data: str | None, is_judged: bool) -> Iterator[str]:
    """Yield how to go on with a run on the data that it was made for, to be pasted into a shell."""
    if is_judged:
        place = ["--benchmark", benchmark, *(["--data", data] if data else [])]
        yield f"next: {shlex.join(['ragtasks', 'evaluate-run', run, *place])}"
    if _has_tasks_on_runs(benchmark):
        metadata = shlex.quote(json.dumps({**({"data": data} if data else {}), "run": run}, ensure_ascii=False))
        yield f"use it in tasks of {benchmark} with --metadata {metadata}"


def _has_tasks_on_runs(benchmark: str) -> bool:
    """Return whether a harness task of the benchmark is given retrieved passages."""
    import yaml

    from ragtasks.harness.link import task_folder

    # The base loader leaves the harness's `!function` tags alone.
    files = (yaml.load(path.read_text("utf-8"), yaml.BaseLoader) for path in task_folder().rglob("*.yaml"))
    options = (file.get("dataset_kwargs", {}) for file in files)
    return any(one.get("benchmark") == benchmark and one.get("setting") in _RETRIEVED for one in options)


@app.command()
def evaluate_run(  # noqa: PLR0917 (one parameter an option)
    names: Annotated[
        list[str],
        typer.Argument(help="Runs to compare: files (TREC, or JSON lines of MTRAGEval), stored runs, `official`."),
    ],
    benchmark: _BENCHMARK = "mtrag",
    data: _DATA = None,
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

        put(render_report(evaluate_runs(_place(benchmark, data), names, domain or ())), output)
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
        label, judged = judge_runs(_place(benchmark, data), names, metrics, domain or ())
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


corpus_commands = typer.Typer(help="Look at a corpus, find what it repeats, cut documents.", no_args_is_help=True)
app.add_typer(corpus_commands, name="corpus")
_LOCATION = Annotated[str, typer.Argument(help="Zip, BEIR folder, .jsonl[.gz|.zst], Parquet, or hf:NAME.")]


@corpus_commands.command("check")
def corpus_check(location: _LOCATION) -> None:
    """Read a corpus once: counts, checksum, and every error."""
    from retrieval_cache.corpora import describe_corpus

    say(*describe_corpus(location))


@corpus_commands.command("duplicates")
def corpus_duplicates(
    location: _LOCATION, threshold: Annotated[float, typer.Option(help="Least Jaccard similarity.")] = 0.8
) -> None:
    """List passages that say nearly the same."""
    from retrieval_cache.corpora import describe_duplicates

    say(*describe_duplicates(location, threshold))


@corpus_commands.command("segment")
def corpus_segment(
    location: _LOCATION,
    target: Annotated[Path, typer.Argument(help="JSON lines to write.")],
    size: Annotated[int, typer.Option(help="Most tokens in a passage.")] = 512,
    overlap: Annotated[int, typer.Option(help="Tokens shared by neighbours.")] = 100,
    tokenizer: Annotated[str | None, typer.Option(help="Hugging Face tokeniser; default: words and signs.")] = None,
) -> None:
    """Cut documents into passages whose ids keep their offsets."""
    from retrieval_cache.corpora import segment_corpus

    say(f"{segment_corpus(location, target, size, overlap, tokenizer)} passages in {target}")


runs = typer.Typer(help="List, show, compare, check and remove stored runs.", no_args_is_help=True)
app.add_typer(runs, name="runs")


@runs.command("list")
def runs_list() -> None:
    """List the stored runs."""
    from retrieval_cache.store import list_runs

    store = _store()
    stored = store.all()
    say(*list_runs(stored) if stored else [f"no runs in {store.runs}: make one with `ragtasks retrieve`"])


@runs.command("show")
def runs_show(name: str) -> None:
    """Print what a run was made of."""
    say((_store().named(name).folder / "manifest.json").read_text(encoding="utf-8"))


@runs.command("diff")
def runs_diff(first: str, second: str) -> None:
    """Print the parts of two runs that differ; status 1 where any does."""
    from retrieval_cache.store import diff_runs

    store = _store()
    lines = diff_runs(store.named(first).manifest, store.named(second).manifest)
    say(*lines or ["no difference"])
    raise typer.Exit(int(bool(lines)))


@runs.command("verify")
def runs_verify(name: str) -> None:
    """Check a run's files against its manifest; status 1 where one is missing or changed."""
    from retrieval_cache.store import verify_run

    violations = verify_run(_store().named(name))
    say(*violations or ["all files are as they were written"])
    raise typer.Exit(int(bool(violations)))


@runs.command("remove")
def runs_remove(name: str) -> None:
    """Delete a run."""
    _store().remove(name)
    say(f"removed {name}")


__all__ = [
    "corpus_check",
    "corpus_commands",
    "corpus_duplicates",
    "corpus_segment",
    "evaluate_run",
    "retrieve",
    "runs",
    "runs_diff",
    "runs_list",
    "runs_remove",
    "runs_show",
    "runs_verify",
]

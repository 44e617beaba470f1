"""`ragtasks fetch`: a benchmark's official files."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from ragtasks.cli.app import TableFormat, app, echo, put
from ragtasks.cli.options import DATA, FORMAT, TABLES


@app.command()
def fetch(
    benchmark: Annotated[str | None, typer.Argument(help="Benchmark to fetch; --list names them.")] = None,
    *,
    listed: Annotated[bool, typer.Option("--list", help="List what can be fetched, and fetch nothing.")] = False,
    checkout: Annotated[Path | None, typer.Option("--from", help="Take the files from an existing checkout.")] = None,
    group: Annotated[list[str] | None, typer.Option(help="Files to fetch; repeat for several. Default: tasks.")] = None,
    base_url: Annotated[str | None, typer.Option(help="Address of a mirror.")] = None,
) -> None:
    """Fetch a benchmark's official files into the data folder, verified by checksum; --list says what there is."""
    from ragtasks.benchmarks import benchmark_names, download, source_of
    from ragtasks.benchmarks.download import DEFAULT_GROUPS
    from ragtasks.environment import data_folder

    if listed or benchmark is None:
        echo(*download.listing([source_of(name) for name in benchmark_names()]))
        return
    source, groups = source_of(benchmark), group or DEFAULT_GROUPS
    if checkout:
        done = download.adopt(source, checkout, data_folder(), groups=groups)
    else:
        done = download.fetch(source, data_folder(), groups=groups, base_url=base_url)
    echo(done.describe())


# `ragtasks link`, `unlink` and `path`: how lm_eval finds our tasks.


@app.command()
def link() -> None:
    """Let the stock `lm_eval` that imports here find our tasks without a flag."""
    from ragtasks.harness import link as linking

    done = linking.link()
    echo(*(f"wrote {path}" for path in done.written), *(f"removed {path}" for path in done.removed))
    echo(f"{len(done.written)} written, {len(done.kept)} already right, {len(done.removed)} removed in {done.folder}")


@app.command()
def unlink() -> None:
    """Remove what `link` wrote."""
    from ragtasks.harness import link as linking

    done = linking.unlink()
    echo(*(f"removed {path}" for path in done.removed), f"{len(done.removed)} removed from {done.folder}")


@app.command()
def path() -> None:
    """Print the folder with our task YAML files, for `lm_eval --include_path`."""
    from ragtasks.harness.link import task_folder

    echo(task_folder())


# `ragtasks describe`: what a benchmark holds, as its paper's data tables report it.


@app.command()
def describe(
    benchmark: Annotated[str, typer.Argument(help="Benchmark, such as mtrag or multihop_rag.")],
    data: DATA = None,
    form: FORMAT = TableFormat.MARKDOWN,
    corpora: Annotated[bool, typer.Option(help="Count documents and passages of the corpora, which are read.")] = True,
    output: TABLES = None,
) -> None:
    """Print what a benchmark holds: conversations, turns, words, question types, answerability, corpora."""
    from ragtasks.benchmarks import benchmark_folder, open_benchmark
    from ragtasks.environment import data_folder
    from ragtasks.reports.tables import benchmark_section
    from ragtasks.tables import Format, render
    from retrieval_cache import corpora_tables

    opened = open_benchmark(benchmark, benchmark_folder(benchmark, data, data_folder()).resolve())
    section = benchmark_section(opened, corpora_tables(opened) if corpora else ())
    put(render([section], Format(form.value)), output)


# `ragtasks cache`: what language models replied and encoders computed, and is neither asked nor computed again.

cache = typer.Typer(help="Show or prune the caches: replies of judges, rewriters, rerankers; embeddings.")
app.add_typer(cache, name="cache", invoke_without_command=True)


@cache.callback(invoke_without_command=True)
def show(context: typer.Context) -> None:
    """Say where replies and embeddings are kept, and how many of which model."""
    if context.invoked_subcommand is not None:
        return
    from ragtasks.clients import describe_cache
    from ragtasks.environment import embedding_cache_bytes, embedding_cache_file, reply_cache_file
    from ragtasks.metrics import describe_embeddings

    echo(*describe_cache(reply_cache_file()))
    echo(*describe_embeddings(embedding_cache_file(), embedding_cache_bytes()))


@cache.command("prune")
def prune_replies(
    older_than: Annotated[
        float | None, typer.Option(min=0, help="Remove what was stored more days ago than this.")
    ] = None,
    model: Annotated[
        str | None, typer.Option(help="Remove replies of this model, as `ragtasks cache` names it.")
    ] = None,
    outcome: Annotated[
        str | None, typer.Option(help="Remove replies of this outcome: answered, refused, filtered, ...")
    ] = None,
    embeddings: Annotated[
        bool, typer.Option("--embeddings", help="Remove embeddings in the place of replies: all, or by age and model.")
    ] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only count: remove nothing.")] = False,
) -> None:
    """Remove replies that fit all that is given; they are then asked again. With --embeddings: embeddings."""
    if embeddings:
        _prune_embeddings(older_than, model, outcome, dry_run=dry_run)
        return
    from ragtasks.clients import Choice, ReplyCache, prune
    from ragtasks.environment import reply_cache_file

    file, choice = reply_cache_file(), Choice(older_than, model, outcome)
    choice.condition()
    if not file.exists():
        echo(f"{file}: no cached replies yet")
        return
    with ReplyCache(file) as replies:
        n_chosen = prune(replies, choice, dry_run=dry_run)
        n_left = len(replies)
    done = "would be removed" if dry_run else "removed"
    echo(f"{n_chosen:,} replies {done}, {n_left - (n_chosen if dry_run else 0):,} stay in {file}")


def _prune_embeddings(older_than: float | None, model: str | None, outcome: str | None, *, dry_run: bool) -> None:
    """Remove embeddings that fit all that is given."""
    from ragtasks.environment import embedding_cache_bytes, embedding_cache_file
    from ragtasks.errors import ConfigurationError
    from ragtasks.metrics import EmbeddingCache

    if outcome is not None:
        raise ConfigurationError("embeddings have no outcome: leave --outcome out, or --embeddings")
    file = embedding_cache_file()
    if not file.exists():
        echo(f"{file}: no cached embeddings yet")
        return
    with EmbeddingCache(file, embedding_cache_bytes()) as kept:
        n_chosen, n_left = kept.prune(older_than_days=older_than, encoder=model, dry_run=dry_run)
    done = "would be removed" if dry_run else "removed"
    echo(f"embeddings of {n_chosen:,} texts {done}, {n_left:,} stay in {file}")

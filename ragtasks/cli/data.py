"""`ragtasks data`: fetch and describe benchmarks, process corpora, prune caches."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from ragtasks.benchmarks import added_benchmark_names, benchmark_names, download, retrieval_side, source_of
from ragtasks.cli.app import app, echo, put
from ragtasks.cli.options import (
    DATA,
    FORMAT,
    NAME_OR_FOLDER,
    named_benchmark,
    named_folder,
)
from ragtasks.cli.submissions import form_of, named_or_own
from ragtasks.clients import ReplyCache, describe_cache, prune
from ragtasks.config.environment import (
    data_folder,
    embedding_cache_bytes,
    embedding_cache_file,
    reply_cache_file,
    run_store,
    secret,
)
from ragtasks.errors import ConfigurationError, close_matches, missing_path
from ragtasks.tables import Format, render

commands = typer.Typer(help="Fetch and describe benchmarks, work on corpora, prune caches.", no_args_is_help=True)
app.add_typer(commands, name="data")


@commands.command()
def fetch(
    benchmark: Annotated[str | None, typer.Argument(help="Benchmark to fetch; default: list all.")] = None,
    checkout: Annotated[Path | None, typer.Option("--from", help="Checkout to copy the files from.")] = None,
    group: Annotated[
        list[str] | None, typer.Option(help="Group of files to fetch; repeatable. Default: tasks.")
    ] = None,
    base_url: Annotated[str | None, typer.Option(help="Address of a mirror.", hidden=True)] = None,
) -> None:
    """Fetch a benchmark's official files, verified by checksum; without a name, list benchmarks."""
    from ragtasks.benchmarks.download import DEFAULT_GROUPS
    from ragtasks.benchmarks.sources import listing

    if benchmark is None:
        sources, broken = [source_of(name) for name in benchmark_names()], []
        for name in added_benchmark_names():
            try:
                sources.append(source_of(name))
            except ConfigurationError as error:
                broken.append(str(error))
        echo(*listing(sources), *broken)
        return
    source, groups = source_of(benchmark), group or DEFAULT_GROUPS
    if checkout and not checkout.is_dir():
        problem, next_step = missing_path(checkout)
        raise ConfigurationError(f"--from {checkout}: {problem}. Next step: {next_step}")
    if checkout:
        done = download.adopt(source, checkout, data_folder(), groups=groups)
    else:
        done = download.fetch(source, data_folder(), groups=groups, base_url=base_url)
    echo(done.describe())


# `ragtasks data describe`: the contents of a benchmark, as in the data tables of its paper.


@commands.command()
def describe(
    name: NAME_OR_FOLDER,
    data: DATA = None,
    form: FORMAT = Format.MARKDOWN,
    corpora: Annotated[bool, typer.Option(help="Read the corpora and count documents and passages.")] = True,
) -> None:
    """Print the contents of a benchmark: conversations, turns, words, question types, answerability, corpora."""
    from ragtasks.reports.tables import benchmark_section
    from retrieval_cache import corpora_tables

    folder = named_folder(name, data)
    benchmark, location = (name, data) if folder is None else (form_of(folder) or "custom", str(folder))
    opened = named_benchmark(benchmark, location)
    put(render([benchmark_section(opened, corpora_tables(opened) if corpora else ())], form))


# `ragtasks data serve`: search tools over a benchmark's corpora for any agent.


@commands.command()
def serve(  # noqa: PLR0917 (one parameter an option)
    name: NAME_OR_FOLDER,
    domain: Annotated[
        list[str] | None, typer.Option(help="Domain whose corpus is served; repeatable. Default: all.")
    ] = None,
    retriever: Annotated[str, typer.Option(help="Retriever: bm25, hybrid(bm25,dense:minilm), ...")] = "bm25",
    data: DATA = None,
    host: Annotated[str, typer.Option(help="Address to listen on.")] = "127.0.0.1",
    port: Annotated[
        int | None,
        typer.Option(min=0, max=65535, help="HTTP port; 0 selects a free port. Default: standard input and output."),
    ] = None,
) -> None:
    """Serve the tools search and read over a benchmark's corpora by the Model Context Protocol (MCP)."""
    from ragtasks.scoring import Toolbox, serve_tools

    opened = named_or_own(name, data)
    all_domains = retrieval_side(opened.name).domains_of(opened.tasks)
    if unknown := sorted(set(domain or ()) - set(all_domains)):
        raise ConfigurationError(f"--domain {unknown[0]}: {close_matches(unknown[0], all_domains)}")
    domains = [candidate for candidate in all_domains if not domain or candidate in domain]
    serve_tools(Toolbox(opened, retriever, run_store(), secret), domains, host, port, echo)


# `ragtasks data duplicates` and `segment`: remove near-duplicates, cut documents into passages.

_LOCATION = Annotated[str, typer.Argument(help="Zip, BEIR folder, .jsonl[.gz|.zst], Parquet, or hf:NAME.")]


@commands.command("duplicates")
def near_duplicates(
    location: _LOCATION,
    output: Annotated[Path | None, typer.Option(help="JSON lines file for the corpus without near-duplicates.")] = None,
    threshold: Annotated[float, typer.Option(help="Minimum Jaccard similarity of near-duplicates.")] = 0.8,
) -> None:
    """List near-duplicate passages of a corpus, or write the corpus without them."""
    from retrieval_cache import deduplicate_corpus, describe_duplicates

    if output is None:
        echo(*describe_duplicates(location, threshold))
    else:
        echo(*deduplicate_corpus(location, output, threshold))


@commands.command("segment")
def segment(  # noqa: PLR0917 (one parameter an option)
    location: _LOCATION,
    target: Annotated[Path, typer.Argument(help="JSON lines file to write.")],
    size: Annotated[int | None, typer.Option(help="Maximum tokens per passage; default: 512.")] = None,
    overlap: Annotated[int | None, typer.Option(help="Tokens shared by adjacent passages; default: 100.")] = None,
    tokenizer: Annotated[
        str | None, typer.Option(help="Hugging Face tokenizer; default: words and punctuation.")
    ] = None,
    sentences: Annotated[
        int | None, typer.Option(min=1, help="Sentences per segment; 10 in MS MARCO V2.1.", hidden=True)
    ] = None,
) -> None:
    """Cut documents into passages that keep their offsets."""
    from retrieval_cache import segment_corpus, segment_corpus_by_sentences

    if sentences is None:
        n = segment_corpus(
            location, target, 512 if size is None else size, 100 if overlap is None else overlap, tokenizer
        )
    elif size is None and overlap is None and tokenizer is None:
        n = segment_corpus_by_sentences(location, target, sentences, max(sentences // 2, 1))
    else:
        raise ConfigurationError("data segment: --sentences excludes --size, --overlap and --tokenizer")
    echo(f"{n} passages in {target}")


# `ragtasks data cache`: cached replies of language models and embeddings of encoders.


@commands.command()
def cache(
    older_than: Annotated[float | None, typer.Option(min=0, help="Minimum age of entries, in days.")] = None,
    model: Annotated[str | None, typer.Option(help="Only this model, as listed.")] = None,
    outcome: Annotated[
        str | None, typer.Option(help="Only replies with this outcome: answered, refused, filtered, ...")
    ] = None,
    embeddings: Annotated[bool, typer.Option("--embeddings", help="Select embeddings instead of replies.")] = False,
    remove: Annotated[bool, typer.Option("--remove", help="Remove the selected entries.")] = False,
) -> None:
    """List cached replies and embeddings. Options select entries, which are counted or removed."""
    from ragtasks.metrics import EmbeddingCache, describe_embeddings

    if not (embeddings or remove or model or outcome) and older_than is None:
        echo(*describe_cache(reply_cache_file()))
        echo(*describe_embeddings(embedding_cache_file(), embedding_cache_bytes()))
        return
    if embeddings and outcome is not None:
        raise ConfigurationError("embeddings have no outcome. Next step: leave out --outcome or --embeddings")
    file, dry_run = embedding_cache_file() if embeddings else reply_cache_file(), not remove
    if not file.exists():
        echo(f"{file}: no cached {'embeddings' if embeddings else 'replies'} yet")
        return
    if embeddings:
        with EmbeddingCache(file, embedding_cache_bytes()) as vectors:
            n_chosen, n_left = vectors.prune(older_than_days=older_than, encoder=model, dry_run=dry_run)
    else:
        with ReplyCache(file) as replies:
            n_chosen, n_left = prune(replies, older_than_days=older_than, model=model, outcome=outcome, dry_run=dry_run)
    selection = f"embeddings of {n_chosen:,} texts" if embeddings else f"{n_chosen:,} replies"
    echo(f"{selection} {'would be removed' if dry_run else 'removed'}, {n_left:,} remain in {file}")

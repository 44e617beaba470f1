"""`ragtasks review`: people accept, edit or reject the pairs of a benchmark, and its dialogues are measured."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path
from typing import Annotated, Any

import typer

from ragtasks.arena.commands import HOST, PORT, TOKEN_VARIABLE, TYPED_NAMES, open_votes
from ragtasks.cli.app import MOVED, echo, put
from ragtasks.cli.options import FORMAT, REWRITER
from ragtasks.config.environment import run_store, secret
from ragtasks.errors import ConfigurationError, close_matches
from ragtasks.progress import progress_bars
from ragtasks.tables import Format, render

commands = typer.Typer(
    help="Review the pairs of a benchmark; measure its dialogues.",
    rich_help_panel="Your own data",
    epilog="Example: ragtasks review serve benchmark",
    no_args_is_help=True,
)

MOVED["review"] = {
    "agreement": "ragtasks review results FOLDER",
    "export": "ragtasks review results FOLDER --accepted reviewed",
}

_FOLDER = Annotated[Path, typer.Argument(help="Folder that `ragtasks synthesize` made, or your own conversations.")]
_FILE = "reviews.sqlite"
_DATABASE = Annotated[Path | None, typer.Option(help=f"File of decisions (SQLite). Default: {_FILE} in FOLDER.")]


@commands.command(epilog="Example: ragtasks review serve benchmark")
def serve(
    folder: _FOLDER,
    database: _DATABASE = None,
    host: HOST = "127.0.0.1",
    port: PORT = 8765,
    *,
    typed_names: TYPED_NAMES = False,
) -> None:
    """Serve pages for reviewing pairs until Ctrl-C. Every decision is saved at once."""
    from ragtasks.arena.web import Application, serve_application
    from ragtasks.synthesis.review import read_pairs
    from ragtasks.synthesis.review_pages import ReviewDesk, review_application

    pairs = read_pairs(folder)

    def made(store: Any, identity: Any, hosts: frozenset[str] | None) -> Application:
        return review_application(ReviewDesk(store, pairs), identity, hosts, folder.resolve().name)

    token = secret(TOKEN_VARIABLE)
    serve_application(made, database or folder / _FILE, host, port, echo, token=token, types_names=typed_names)


@commands.command("results", epilog="Example: ragtasks review results benchmark --accepted reviewed")
def review_results(  # noqa: PLR0917 (one parameter per option)
    folder: _FOLDER,
    accepted: Annotated[Path | None, typer.Option(help="Folder for the accepted pairs, as a benchmark.")] = None,
    output: Annotated[Path | None, typer.Option(help="File for the decisions, .jsonl.")] = None,
    database: _DATABASE = None,
    reviewer: Annotated[str | None, typer.Option(help="Use one reviewer's decisions. Default: all reviewers'.")] = None,
    form: FORMAT = Format.MARKDOWN,
) -> None:
    """Print each reviewer's decisions, kappa of two reviewers and alpha of all; write the accepted pairs."""
    from ragtasks.synthesis.review import export_reviewed, read_pairs, read_reviews, review_section, write_reviews

    pairs = read_pairs(folder)
    with closing(open_votes(database or folder / _FILE)) as store:
        every, n_others = read_reviews(pairs, store.reviews())
    if n_others:
        typer.echo(f"{n_others} decisions are on other versions of these texts", err=True)
    names = sorted({review.reviewer for review in every})
    if reviewer is not None and reviewer not in names:
        raise ConfigurationError(f"--reviewer {reviewer!r}: {close_matches(reviewer, names)}")
    selected = [review for review in every if reviewer in {None, review.reviewer}]
    put(render([review_section(folder.resolve().name, pairs, every)], form))
    lines = []
    if output is not None:
        write_reviews(output, selected)
        lines.append(f"wrote {output}: {len(selected)} decisions")
    if accepted is not None:
        lines += [*export_reviewed(folder, accepted, selected), f"next: ragtasks check {accepted}"]
    for line in lines:
        typer.echo(line, err=True)  # standard output may be JSON or CSV


@commands.command(epilog="Example: ragtasks review quality benchmark --retriever bm25 --queries context")
def quality(  # noqa: PLR0917 (one parameter per option)
    folder: _FOLDER,
    encoder: Annotated[str, typer.Option(help="Encoder of QRelScore.", hidden=True)] = "minilm",
    language_model: Annotated[
        str | None, typer.Option(help="Language model of QRelScore, such as gpt2.", hidden=True)
    ] = None,
    retriever: Annotated[
        list[str] | None, typer.Option(help="Retriever to search with, such as hybrid(bm25,dense:minilm); repeatable.")
    ] = None,
    queries: Annotated[
        list[str] | None,
        typer.Option(
            help="Query form of --retriever, llm_rewrite or llm_rewrite:FOLDER; FORM/FORM fuses several; repeatable. "
            "Default: context, contextualized, decontextualized."
        ),
    ] = None,
    rewriter: REWRITER = None,
    form: FORMAT = Format.MARKDOWN,
) -> None:
    """Print the quality of synthetic dialogues: lengths, rewriting and repetition, next to published dialogues."""
    from ragtasks.synthesis.qrelscore import QRelScore
    from ragtasks.synthesis.quality import PAPER_FORMS, quality_section
    from retrieval_cache import LLM_REWRITE, Rewriter, needs_model

    if not retriever and (queries or rewriter):
        raise ConfigurationError("--queries and --rewriter require a search: add --retriever, such as bm25")
    forms = queries or PAPER_FORMS
    if rewriter and not any(map(needs_model, forms)):
        raise ConfigurationError(f"--rewriter is for the query form {LLM_REWRITE}: add --queries {LLM_REWRITE}")
    with progress_bars() as progress:
        section = quality_section(
            folder,
            QRelScore(encoder, language_model) if language_model else None,
            retriever or [],
            forms,
            progress,
            store=run_store(),
            rewriter=Rewriter(rewriter),
            secrets=secret,
        )
    put(render([section], form))

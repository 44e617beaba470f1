"""`ragtasks quality`: what can be counted of synthetic dialogues, and QRelScore."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from ragtasks.cli.app import TableFormat, app, put
from ragtasks.cli.options import REWRITER, REWRITER_ADDRESS
from ragtasks.errors import ConfigurationError


@app.command()
def quality(  # noqa: PLR0917 (one parameter an option)
    folder: Annotated[Path, typer.Argument(help="Folder that `ragtasks synthesize` made.")],
    encoder: Annotated[str, typer.Option(help="Encoder of QRelScore: minilm, name on the hub, or folder.")] = "minilm",
    language_model: Annotated[
        str | None,
        typer.Option(
            help="Language model of QRelScore: name on the hub, such as gpt2, or folder. Default: no QRelScore."
        ),
    ] = None,
    retriever: Annotated[
        list[str] | None,
        typer.Option(help="Search with it, such as hybrid(bm25,dense:minilm); repeatable."),
    ] = None,
    queries: Annotated[
        list[str] | None,
        typer.Option(
            help="Query form of --retriever, llm_rewrite or llm_rewrite:FOLDER; FORM/FORM fuses several; repeatable. "
            "Default: context, contextualized, decontextualized."
        ),
    ] = None,
    rewriter: REWRITER = None,
    base_url: REWRITER_ADDRESS = None,
    min_rewritten: Annotated[
        float, typer.Option(min=0, max=1, help="Share of the questions that must be rewritten, else it stops.")
    ] = 0.95,
    form: Annotated[TableFormat, typer.Option("--format", help="How the tables are written.")] = TableFormat.MARKDOWN,
    output: Annotated[Path | None, typer.Option(help="File for the tables, in place of the screen.")] = None,
) -> None:
    """Print turns, passages, lengths, rewriting and repetition of synthetic dialogues, beside published ones."""
    from ragtasks.environment import run_store, secret
    from ragtasks.progress import progress_bars
    from ragtasks.reports.rendering import Format, render
    from ragtasks.synthesis import PAPER_FORMS, QRelScore, quality_section
    from retrieval_cache.queries import LLM_REWRITE, SEPARATOR
    from retrieval_cache.service import Rewriter

    forms = queries or PAPER_FORMS
    if not retriever and (queries or rewriter or base_url):
        raise ConfigurationError("--queries, --rewriter and --base-url are for a search: add --retriever, such as bm25")
    if (rewriter or base_url) and not any(LLM_REWRITE in form.split(SEPARATOR) for form in forms):
        raise ConfigurationError(
            f"--rewriter and --base-url are for the query form {LLM_REWRITE}: add --queries {LLM_REWRITE}"
        )
    relevance = QRelScore(encoder, language_model) if language_model else None
    with progress_bars() as progress:
        section = quality_section(
            folder,
            relevance,
            retriever or [],
            forms,
            progress,
            store=run_store(),
            rewriter=Rewriter(rewriter, base_url, min_rewritten),
            secrets=secret,
        )
    put(render([section], Format(form.value)), output)


__all__ = ["quality"]

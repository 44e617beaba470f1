"""`ragtasks quality`: what can be counted of synthetic dialogues, and QRelScore."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from ragtasks.cli.app import TableFormat, app, put


@app.command()
def quality(  # noqa: PLR0917 (one parameter an option)
    folder: Annotated[Path, typer.Argument(help="Folder that `ragtasks synthesize` made.")],
    encoder: Annotated[str, typer.Option(help="Of QRelScore: minilm, name on the hub, or folder.")] = "minilm",
    language_model: Annotated[
        str | None, typer.Option(help="Of QRelScore, such as gpt2: name on the hub, or folder. Default: no QRelScore.")
    ] = None,
    retriever: Annotated[
        list[str] | None,
        typer.Option(help="Search with it, such as hybrid(bm25,dense:minilm); repeatable."),
    ] = None,
    queries: Annotated[
        list[str] | None,
        typer.Option(
            help="Query form of --retriever, or llm_rewrite:FOLDER; repeatable. Default: context, contextualized, "
            "decontextualized."
        ),
    ] = None,
    form: Annotated[TableFormat, typer.Option("--format", help="How the tables are written.")] = TableFormat.MARKDOWN,
    output: Annotated[Path | None, typer.Option(help="File for the tables, in place of the screen.")] = None,
) -> None:
    """Print turns, passages, lengths, rewriting and repetition of synthetic dialogues, beside published ones."""
    from ragtasks.progress import progress_bars
    from ragtasks.reports.rendering import Format, render
    from ragtasks.synthesis import PAPER_FORMS, QRelScore, quality_section

    relevance = QRelScore(encoder, language_model) if language_model else None
    with progress_bars() as progress:
        section = quality_section(folder, relevance, retriever or [], queries or PAPER_FORMS, progress)
    put(render([section], Format(form.value)), output)


__all__ = ["quality"]

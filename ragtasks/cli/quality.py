"""`ragtasks quality`: what can be counted of synthetic dialogues."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from ragtasks.cli.app import TableFormat, app, put


@app.command()
def quality(
    folder: Annotated[Path, typer.Argument(help="Folder that `ragtasks synthesize` made.")],
    form: Annotated[TableFormat, typer.Option("--format", help="How the tables are written.")] = TableFormat.MARKDOWN,
    output: Annotated[Path | None, typer.Option(help="File for the tables, in place of the screen.")] = None,
) -> None:
    """Print turns, passages, lengths, rewriting and repetition of synthetic dialogues, beside published ones."""
    from ragtasks.reports.rendering import Format, render
    from ragtasks.synthesis import quality_section

    put(render([quality_section(folder)], Format(form.value)), output)


__all__ = ["quality"]

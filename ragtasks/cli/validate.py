"""`ragtasks validate`: what is wrong with a benchmark of your own."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from ragtasks.cli.app import app, say


@app.command()
def validate(
    folder: Annotated[Path, typer.Argument(help="Folder with conversations.jsonl and passages.jsonl.")],
) -> None:
    """Say everything that is wrong with a benchmark of your own, by line; status 1 where anything is."""
    from ragtasks.benchmarks.custom import check_folder

    report = check_folder(folder.expanduser())
    say(*report.lines)
    raise typer.Exit(int(not report.passes))


__all__ = ["validate"]

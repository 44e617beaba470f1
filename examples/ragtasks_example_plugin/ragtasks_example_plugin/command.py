"""A command that prints questions of the sample. Its requirements are imported when it is called, not for the help."""

from __future__ import annotations

from typing import Annotated

import typer

command = typer.Typer(rich_help_panel="Your own data")


@command.command(epilog="Example: ragtasks harbour-questions --word ferry")
def harbour_questions(
    word: Annotated[str, typer.Option(help="Print the questions with this word. Default: all.")] = "",
) -> None:
    """Print the questions of the harbour sample."""
    from ragtasks_example_plugin.benchmark import SAMPLE, load

    for task in load(SAMPLE).tasks:
        if word in task.messages[-1].text:
            typer.echo(task.messages[-1].text)

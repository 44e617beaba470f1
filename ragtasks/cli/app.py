"""The command line's frame: the application that commands join, what they print with, and how errors end it."""

from __future__ import annotations

import sys
from typing import Annotated, Any, NoReturn

import typer

from ragtasks import __version__
from ragtasks.errors import RagtasksError

app = typer.Typer(
    help="Multi-turn RAG benchmarks as tasks of lm-evaluation-harness.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def say(*lines: object) -> None:
    """Print lines."""
    for line in lines:
        typer.echo(line)


@app.callback(invoke_without_command=True)
def _root(version: Annotated[bool, typer.Option("--version", help="Print the version.")] = False) -> None:
    if version:
        say(__version__)
        raise typer.Exit


def main(arguments: list[str] | None = None) -> Any:
    """Run the command line; a clear error goes to standard error and ends with status 1."""
    try:
        return app(args=arguments, standalone_mode=True)
    except RagtasksError as error:
        _fail(error)


def _fail(error: RagtasksError) -> NoReturn:
    typer.echo(f"ragtasks: {error}", err=True)
    sys.exit(1)


__all__ = ["app", "main", "say"]

"""The command line's frame: the application that commands join, what they print with, and how errors end it."""

from __future__ import annotations

import sys
from collections.abc import Collection, Sequence
from enum import Enum
from pathlib import Path
from typing import Annotated, Any, NoReturn

import typer
from typer.core import TyperGroup

from ragtasks._version import __version__
from ragtasks.cli._groups import THREE_WAYS
from ragtasks.errors import RagtasksError

_MOST_CHARACTERS = 6_000  # of an error
_END_CHARACTERS = 500  # where the next step stands

_OLD_NAMES = frozenset({"--output_path", "--output-path"})  # of --output
_HAD_OUT = frozenset({"synthesize", "train"})  # commands whose --output was --out


class _Commands(TyperGroup):
    """The commands; but for `run`, whose arguments are the harness's, they take old spellings of options too."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Return the arguments that are left for the command."""
        command = next(iter(args), "")
        old = _OLD_NAMES | ({"--out"} if command in _HAD_OUT else set())
        left: list[str] = super().parse_args(
            ctx, args if command == "run" else [_renamed(argument, old) for argument in args]
        )
        return left


def _renamed(argument: str, old: Collection[str]) -> str:
    name, *value = argument.split("=", 1)
    return "=".join(["--output" if name in old else name, *value])


app = typer.Typer(
    cls=_Commands,
    help="Multi-turn RAG benchmarks as tasks of lm-evaluation-harness.",
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


class TableFormat(str, Enum):
    """The forms that tables are written in."""

    MARKDOWN = "markdown"
    CSV = "csv"
    JSON = "json"
    LATEX = "latex"


def say(*lines: object) -> None:
    """Print lines."""
    for line in lines:
        typer.echo(line)


def leave_out(reason: str) -> None:
    """Say that a file of a folder cannot be used and the others are, beside what is printed."""
    typer.echo(f"ragtasks: left out: {_cut(reason)}", err=True)


def put(text: str, output: Path | None) -> None:
    """Print a text, or write it to a file and say so."""
    from ragtasks.files import write_atomically

    if output is None:
        say(text.removesuffix("\n"))
    else:
        write_atomically(output, (text.removesuffix("\n") + "\n").encode())
        say(f"wrote {output}")


def may_be_replaced(files: Sequence[Path], *, force: bool) -> bool:
    """Return whether files may be replaced: with `--force`, or where somebody at a terminal says so."""
    if force or not sys.stdin.isatty():
        return force
    more = f" and {len(files) - 1} more" if len(files) > 1 else ""
    return typer.confirm(f"Replace {files[0]}{more}?", err=True)


@app.callback(invoke_without_command=True)
def _root(
    context: typer.Context,
    version: Annotated[bool, typer.Option("--version", help="Print the version.")] = False,
) -> None:
    if version:
        say(__version__)
        raise typer.Exit
    if context.invoked_subcommand is None:
        say(THREE_WAYS.rstrip())


def main(arguments: list[str] | None = None) -> Any:
    """Run the command line; a clear error goes to standard error, not too long, and ends with its status."""
    try:
        return app(args=arguments, standalone_mode=True)
    except RagtasksError as error:
        _fail(str(error), error.exit_status)
    except OSError as error:  # a full disk, a read-only folder, a file that vanished
        where = f"{error.filename}: " if error.filename else ""
        _fail(f"{where}{error.strerror or error}. Next step: check the disk, the path and its permissions")


def _fail(text: str, status: int = RagtasksError.exit_status) -> NoReturn:
    typer.echo(f"ragtasks: {_cut(text)}", err=True)
    sys.exit(status)


def _cut(text: str) -> str:
    """Return a text, or its beginning and its end with the number of characters between them that are left out."""
    left_out = len(text) - _MOST_CHARACTERS
    if left_out <= 0:
        return text
    return f"{text[: -left_out - _END_CHARACTERS]}\n[... {left_out:,} characters ...]\n{text[-_END_CHARACTERS:]}"


__all__ = ["TableFormat", "app", "leave_out", "main", "may_be_replaced", "put", "say"]

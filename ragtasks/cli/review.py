"""`ragtasks review`: people accept, edit or reject the pairs of a benchmark."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from ragtasks.cli.app import TableFormat, app, put, say
from ragtasks.cli.options import ADDRESS, HOST, NAMES, PORT, TYPED_NAMES, invited
from ragtasks.errors import ConfigurationError

review_commands = typer.Typer(help="Accept, edit or reject the pairs of a benchmark.", no_args_is_help=True)
app.add_typer(review_commands, name="review")

_FOLDER = Annotated[Path, typer.Argument(help="Folder that `ragtasks synthesize` made, or one's own conversations.")]
_DATABASE = Annotated[Path | None, typer.Option(help="File of decisions (SQLite). Default: reviews.sqlite in FOLDER.")]
_REVIEWER = Annotated[str | None, typer.Option(help="Take one reviewer's decisions. Default: everybody's.")]


@review_commands.command()
def serve(
    folder: _FOLDER,
    database: _DATABASE = None,
    host: HOST = "127.0.0.1",
    port: PORT = 8765,
    *,
    typed_names: TYPED_NAMES = False,
) -> None:
    """Serve pages on which people review pairs, saved as they go, until Ctrl-C."""
    from ragtasks.arena.web import serve_review
    from ragtasks.environment import ARENA_TOKEN_VARIABLE, secret

    serve_review(
        _pairs(folder),
        _file(folder, database),
        host=host,
        port=port,
        token=secret(ARENA_TOKEN_VARIABLE),
        types_names=typed_names,
        title=folder.resolve().name,
        say=say,
    )


@review_commands.command()
def invite(
    folder: _FOLDER, names: NAMES, database: _DATABASE = None, address: ADDRESS = "http://127.0.0.1:8765"
) -> None:
    """Print a link for each reviewer, which lets in this reviewer only."""
    say(*invited(_file(folder, database), names, address))


@review_commands.command()
def export(
    folder: _FOLDER,
    out: Annotated[
        Path | None, typer.Option("--out", help="Folder for the pairs that were kept, as a benchmark.")
    ] = None,
    output: Annotated[Path | None, typer.Option(help="File for the decisions, .jsonl.")] = None,
    database: _DATABASE = None,
    reviewer: _REVIEWER = None,
) -> None:
    """Write the decisions as JSON lines, and what everybody keeps as a benchmark; one rejection removes a pair."""
    from ragtasks.synthesis import export_reviewed, write_reviews

    if out is None and output is None:
        raise ConfigurationError("nothing to write: name a folder with --out, a file with --output, or both")
    found = _reviews(folder, database, reviewer)
    if output is not None:
        write_reviews(output, found)
        say(f"wrote {output}: {len(found)} decisions")
    if out is not None:
        say(*export_reviewed(folder, out, found), f"next: ragtasks check {out}")


@review_commands.command()
def agreement(
    folder: _FOLDER,
    database: _DATABASE = None,
    form: Annotated[TableFormat, typer.Option("--format", help="Form of the tables.")] = TableFormat.MARKDOWN,
    output: Annotated[Path | None, typer.Option(help="File to write; default: print.")] = None,
) -> None:
    """Print what each reviewer decided, and how far they agree: kappa of two, alpha of all."""
    from ragtasks.reports.rendering import Format, render
    from ragtasks.synthesis import review_section

    section = review_section(folder.resolve().name, _pairs(folder), _reviews(folder, database, None))
    put(render([section], Format(form.value)), output)


def _pairs(folder: Path) -> Any:
    from ragtasks.synthesis import read_pairs

    return read_pairs(folder)


def _file(folder: Path, database: Path | None) -> Path:
    return database or folder / "reviews.sqlite"


def _reviews(folder: Path, database: Path | None, reviewer: str | None) -> Any:
    """Return the decisions of a database on the pairs of a folder, and say how many are on other texts."""
    from ragtasks.arena.votes import VoteStore
    from ragtasks.errors import close_matches
    from ragtasks.synthesis import read_reviews

    file, pairs = _file(folder, database), _pairs(folder)
    if not file.is_file():
        raise ConfigurationError(f"--database {file}: there is no such file. Next step: name the one that was served")
    found, n_others = read_reviews(pairs, VoteStore(file, is_read_only=True).reviews())
    if n_others:
        typer.echo(f"{n_others} decisions are on other texts than these", err=True)
    names = sorted({review.reviewer for review in found})
    if reviewer is not None and reviewer not in names:
        raise ConfigurationError(f"--reviewer {reviewer!r}: {close_matches(reviewer, names)}")
    return [review for review in found if reviewer in {None, review.reviewer}]


__all__ = ["review_commands"]

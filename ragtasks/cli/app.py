"""The command line's frame: the application that commands join, what they print with, and how errors end it."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from enum import Enum
from pathlib import Path
from typing import Annotated, Any, NoReturn

import typer
from typer.core import TyperGroup
from typer.models import CommandInfo, TyperInfo

from ragtasks._version import __version__
from ragtasks.cli.configured import add_config_option
from ragtasks.config import KEYS
from ragtasks.errors import RagtasksError

_MOST_CHARACTERS = 6_000  # of an error
_END_CHARACTERS = 500  # where the next step stands
_USAGE = 2  # status of a command line that cannot be read

_HAD_OUT = frozenset({"synthesize", "train"})  # commands whose --output was --out


OLD_NAMES = {
    "fetch": "data fetch",
    "cache": "data cache show",
    "cache prune": "data cache prune",
    "corpus": "data corpus",
    "corpus check": "data corpus check",
    "corpus duplicates": "data corpus duplicates",
    "corpus deduplicate": "data corpus deduplicate",
    "corpus segment": "data corpus segment",
    "describe": "data describe NAME",
    "quality": "data describe FOLDER",
    "calibrate": "judges calibrate",
    "judge-passages": "judges passages",
    "export-tasks": "tasks export",
    "link": "tasks link",
    "unlink": "tasks unlink",
    "path": "tasks path",
    "runs": "results",
    "runs list": "results list",
    "runs show": "results show RUN",
    "runs compare": "results diff RUN RUN",
    "runs diff": "results diff RUN RUN",
    "runs check": "check RUN",
    "runs verify": "check RUN",
    "runs remove": "results remove RUN",
    "results compare": "results diff",
    "compare-runs": "compare",
    "validate": "check",
    "trec-rag": "submit --track trec-rag, check FILE, score FILE, judges nuggets",
    "trec-rag answers": "submit --track trec-rag",
    "trec-rag convert": "submit --track trec-rag",
    "trec-rag check": "check FILE",
    "trec-rag score": "score FILE",
    "trec-rag nuggets": "judges nuggets",
}
"""Command that was -> the command line that does it now, or several with commas; an entry stays for a release."""


class _Commands(TyperGroup):
    """The commands, which take `--max_words` as `--max-words`, old names of options, and `--config` each.

    Old commands name the new.
    """

    def __init__(self, **given: Any) -> None:
        """Take the commands as Typer builds them."""
        super().__init__(**given)
        add_config_option(self)

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        """Return the command of some arguments; an old name ends with the new one."""
        for n_words in (2, 1):
            old = " ".join(args[:n_words])
            if old in OLD_NAMES:
                new = " or ".join(f"`ragtasks {one}`" for one in OLD_NAMES[old].split(", "))
                _fail(f"`{old}` is now {new}", _USAGE)
        return super().resolve_command(ctx, args)

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Return the arguments that are left for the command."""
        left: list[str] = super().parse_args(ctx, [_renamed(argument, next(iter(args))) for argument in args])
        return left


def _renamed(argument: str, command: str) -> str:
    """Return an argument with its option's present name; those of `run` that are not ours are the harness's."""
    name, *value = argument.split("=", 1)
    if name.startswith("--") and (command != "run" or name[2:] in KEYS):
        name = name.replace("_", "-")
    if name in {"--output", "--output-path"} or (name == "--out" and command in _HAD_OUT):
        name = "--output_path" if command == "run" else "--output"
    return "=".join([name, *value])


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


def echo(*lines: object) -> None:
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
        echo(text.removesuffix("\n"))
    else:
        write_atomically(output, (text.removesuffix("\n") + "\n").encode())
        echo(f"wrote {output}")


def may_be_replaced(files: Sequence[Path], *, force: bool, doing: str = "Replace") -> bool:
    """Return whether files may be replaced or removed: with `--force`, or where somebody at a terminal says so."""
    if force or not sys.stdin.isatty():
        return force
    more = f" and {len(files) - 1} more" if len(files) > 1 else ""
    return typer.confirm(f"{doing} {files[0]}{more}?", err=True)


@app.callback(invoke_without_command=True)
def _root(
    context: typer.Context,
    version: Annotated[bool, typer.Option("--version", help="Print the version.")] = False,
) -> None:
    if version:
        echo(__version__)
        raise typer.Exit
    if context.invoked_subcommand is None:
        echo(THREE_WAYS.rstrip())


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


# How the help is ordered, with an example a command, and the three ways in.
# Commands do not say their group themselves, so that the order stands in one place; a test holds every command to a
# group, and every example to the options that there are.

GROUPS = {
    "Evaluate": {
        "init": "ragtasks init --model ragtasks-extractive --data sample",
        "eval": "ragtasks eval evaluation.yaml",
        "run": "ragtasks run --model ragtasks-extractive --tasks mtrag --data sample --output results",
        "score": "ragtasks score answers.jsonl --benchmark mtrag --setting full_rag --output results/mine",
        "judge": "ragtasks judge results --output judged --judge openai/gpt-4o-mini",
        "plan": "ragtasks plan --tasks mtrag --judge openai/gpt-4o-mini",
        "arena": "ragtasks arena --help",
    },
    "Retrieve": {
        "retrieve": "ragtasks retrieve --retriever bm25 --queries rewrite",
        "evaluate-run": "ragtasks evaluate-run FILE.trec --qrels QRELS --measures nDCG@20,R@100",
        "train": "ragtasks train --help",
    },
    "Report": {
        "report": "ragtasks report results --html page.html",
        "compare": "ragtasks compare results/a results/b",
        "gate": "ragtasks gate results/new --baseline results/old --margin ans_acc=0.03",
        "results": "ragtasks results leaderboard results --output leaderboard.html",
    },
    "Submit": {
        "submit": "ragtasks submit --task C --results results/mine --benchmark mtrag_un --output mine.jsonl",
        "check": "ragtasks check mine.jsonl --benchmark mtrag_un; ragtasks check handbook",
    },
    "Your own data": {
        "synthesize": "ragtasks synthesize DOCUMENTS --output benchmark --model openai/gpt-4o-mini",
        "review": "ragtasks review serve benchmark",
        "data": "ragtasks data fetch mtrag; ragtasks data describe mtrag --data sample",
    },
    "Maintenance": {
        "judges": "ragtasks judges calibrate --judge openai/gpt-4o-mini",
        "tasks": "ragtasks tasks list --benchmark mtrag",
        "doctor": "ragtasks doctor --model hf",
    },
}
"""Group -> command -> an example, in the order of the help."""

THREE_WAYS = """\
Three ways in; each runs offline, on the sample that is inside the package (the last needs the extra retrieval):

  a model             ragtasks run --model ragtasks-extractive --tasks mtrag --data sample
  my own RAG system   ragtasks tasks export --benchmark mtrag --data sample --setting full_rag --output tasks.jsonl
  a retriever         ragtasks retrieve --retriever bm25 --queries last_turn --data sample

ragtasks --help lists all commands, ragtasks COMMAND --help has an example of each.
"""


def put_in_groups(app: typer.Typer) -> None:
    """Give the commands of an application their groups, examples and order."""
    places = {name: (group, example) for group, commands in GROUPS.items() for name, example in commands.items()}
    order = list(places)

    def rank(item: CommandInfo | TyperInfo) -> int:
        return order.index(_name(item)) if _name(item) in places else len(order)

    items: list[CommandInfo | TyperInfo] = [*app.registered_commands, *app.registered_groups]
    for item in items:
        group, example = places.get(_name(item), ("Maintenance", ""))
        item.rich_help_panel = group
        if example:
            item.epilog = f"Example: {example}"
    app.registered_commands.sort(key=rank)
    app.registered_groups.sort(key=rank)


def _name(item: CommandInfo | TyperInfo) -> str:
    """Return the name of a command or a group of commands as users type it."""
    return str(item.name or getattr(item.callback, "__name__", "")).replace("_", "-")

"""The application of the command line: commands, help, output and error exit."""

from __future__ import annotations

import atexit
import copy
import gc
import io
import itertools
import os
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, NoReturn, cast

import typer
from typer.core import TyperCommand, TyperGroup
from typer.models import CommandInfo, TyperInfo

from ragtasks.errors import ConfigurationError, RagtasksError, masked_text
from ragtasks.files import write_atomically
from ragtasks.plugins import ExtensionPoint
from ragtasks.tables import plain, without_commands

_MOST_CHARACTERS = 6_000  # of an error
_END_CHARACTERS = 500  # for the end of an error, which contains the next step


HELP_ALL = "--help-all"
"""Option that prints all options, including those declared with `hidden=True`."""


class _TwoScreens:
    """A command whose help shows the common options, or all of them with `--help-all`."""

    def get_help_option_names(self, ctx: Any) -> list[str]:
        """Return the names of the help options; [] for a command that prints its own help."""
        return ["--help", "-h", HELP_ALL] if ctx.help_option_names else []

    def get_help_option(self, ctx: Any) -> Any:
        """Return the help option, hidden from the list of options."""
        option = super().get_help_option(ctx)  # type: ignore[misc]
        if option is not None:
            option.hidden = True
        return option

    def format_help(self, ctx: Any, formatter: Any) -> None:
        """Print the help with the common options, or with all options."""
        shown: Any = copy.copy(self)
        n_hidden = sum(option.hidden for option in shown.params)
        if ctx.meta.get(HELP_ALL):
            shown.params = [copy.copy(option) for option in shown.params]
            for option in shown.params:
                option.hidden = False
        elif n_hidden:
            shown.epilog = "\n\n".join(
                [*filter(None, [shown.epilog]), f"{n_hidden} more options: {ctx.command_path} {HELP_ALL}"]
            )
        super(_TwoScreens, shown).format_help(ctx, formatter)  # type: ignore[misc]

    def parse_args(self, ctx: Any, args: list[str]) -> Any:
        """Return the remaining arguments, after recording whether `--help-all` is among them."""
        ctx.meta[HELP_ALL] = HELP_ALL in args
        return super().parse_args(ctx, args)  # type: ignore[misc]


class Command(_TwoScreens, TyperCommand):
    """A command that refuses former options and names their replacement."""

    def parse_args(self, ctx: Any, args: list[str]) -> Any:
        """Return the remaining arguments. A former option is an error that names its replacement."""
        _refuse_moved(ctx, args, {name for parameter in self.params for name in parameter.opts})
        try:
            return super().parse_args(ctx, args)
        except typer.BadParameter as error:
            # Pydantic's prefix is no help to a user, and the error of a missing option has no message.
            error.message = error.message.replace("Value error, ", "") or str(getattr(error.param, "help", ""))
            raise


COMMANDS = ExtensionPoint("ragtasks.commands", "command", typer.Typer, {})
"""Commands added by entry points, each a Typer application. `rich_help_panel` is its section of the help."""


class _AllCommands(Mapping[str, Any]):
    """The commands of ragtasks, then those of `ragtasks.commands`, imported at first access."""

    def __init__(self, own: Mapping[str, Any]) -> None:
        self._own, self._loaded = tuple(own), dict(own)

    def __iter__(self) -> Iterator[str]:
        return iter(dict.fromkeys([*self._own, *COMMANDS.plugin_names()]))

    def __len__(self) -> int:
        return len(list(iter(self)))

    def __getitem__(self, name: str) -> Any:
        """Return the command with a name.

        Raises:
            KeyError: unknown name.
            ConfigurationError: an added command cannot be imported, is not a Typer application, or is refused by Typer.
        """
        if name not in self._loaded:
            added = COMMANDS.find(name)
            if added is None:
                raise KeyError(name)
            try:
                self._loaded[name] = _build_command(added, name)
            except Exception as error:  # Typer evaluates types, defaults and annotations of foreign code
                problem = f"{type(error).__name__}: {error}"
                raise COMMANDS.refusal(name, "an application that Typer can build", problem) from error
        return self._loaded[name]


def _build_command(added: typer.Typer, name: str) -> Any:
    """Return the click command of a Typer application: its only command, or the group of its commands."""
    holder = typer.Typer(add_completion=False)
    if len(added.registered_commands) == 1 and not added.registered_groups and added.registered_callback is None:
        (only,) = holder.registered_commands = added.registered_commands
        only.name, only.rich_help_panel = name, added.rich_help_panel
    else:
        holder.add_typer(added, name=name, rich_help_panel=added.rich_help_panel)
    put_in_groups(holder)
    return typer.main.get_group(holder).commands[name]


def metadata_keys(*names: str) -> dict[str, str]:
    """Return former option -> `--metadata KEY=VALUE`."""
    return {f"--{name.replace('_', '-')}": f"--metadata {name}=VALUE" for name in names}


_DECIDES = {"--until-decided": "leave it out; --judge implies it"}
_REWRITER = {"--base-url": "--rewriter NAME,base_url=ADDRESS"}
_ESTIMATE = {
    f"--{key}": f"ragtasks eval --set estimate.{key.replace('-', '_')}=VALUE"
    for key in ("tokenizer", "prompts-per-minute")
}
_LEADERBOARD = "ragtasks results list results --leaderboard page.html"
_COMPARE = "ragtasks compare RESULTS RESULTS"
_EVAL_KEYS = {f"--{key}": f"--set {key}=VALUE" for key in ("benchmark", "data", "output", "tasks")} | {
    "--judge": "--set judges=[openai/NAME]",
    "--limit": "--set model.limit=VALUE",
    "--model": "--set model.name=NAME",
    "--encoder": "--set options.encoder=NAME",
    "--setting": "--set settings=[SETTING]",
}
_GATE_SECTION = {
    f"--{key.replace('_', '-')}": f"`gate: {{{key}: VALUE}}` in the file that --config names"
    for key in ("alpha", "may_differ", "recalibrate")
}
_SCORED = {f"--{name}": "ragtasks score FILE" for name in ("traces", "assignments", "support")} | {
    "--endpoint": "ragtasks score ADDRESS",
    "--no-support": "--metadata segments=none",
    "--rows-output": "leave it out, the rows of spans are written next to the results",
}
MOVED = {
    "": {"leaderboard": _LEADERBOARD, "diff": _COMPARE, "help": "ragtasks --help"},
    "compare": metadata_keys("margin", "setting", "seed")
    | _DECIDES
    | {"--qrels": "ragtasks evaluate-run RUN RUN --qrels QRELS"},
    "data": {"corpus": "ragtasks check CORPUS"},
    "data cache": {"show": "ragtasks data cache", "prune": "ragtasks data cache --remove"},
    "eval": _ESTIMATE | _EVAL_KEYS,
    "gate": metadata_keys("setting", "seed") | _DECIDES | _GATE_SECTION | {"--judged": "--output"},
    "report": {"--examples": "--html page.html", "--run": "ragtasks evaluate-run RUN"},
    "results": {
        "check": "ragtasks check RUN",
        "compare": _COMPARE,
        "diff": _COMPARE,
        "leaderboard": _LEADERBOARD,
    },
    "retrieve": _REWRITER,
    "run": _ESTIMATE,
    "score": metadata_keys("narratives", "nuggets", "segments") | _SCORED | {"--set": "--metadata topics=VALUE"},
    "tasks": {"unlink": "ragtasks tasks link --remove"},
}
"""Command -> former option or command -> replacement. Commands of other packages add theirs."""


def _refuse_moved(context: Any, arguments: Sequence[str], current: set[str]) -> None:
    """Raise ConfigurationError for a former option, or one that is now a key of `--metadata`."""
    from ragtasks.config import KEYS

    command = " ".join(context.command_path.split()[1:])
    moved = (metadata_keys(*KEYS) if command in {"compare", "gate", "score"} else {}) | MOVED.get(command, {})
    for name in (argument.partition("=")[0] for argument in arguments):
        if name in moved.keys() - current:
            description = f"option {name}" if name.startswith("-") else " ".join(["command", *command.split(), name])
            problem = ConfigurationError(f"no {description}. Next step: {moved[name]}")
            problem.exit_status = 2
            raise problem


class Group(_TwoScreens, TyperGroup):
    """A group of commands that refuses former commands and names their replacement."""

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        """Return the name of a command, the command, and its arguments."""
        _refuse_moved(ctx, args[:1], set(self.commands))
        return super().resolve_command(ctx, args)


class _Commands(Group):
    """The top-level commands, which accept `--per_query` as `--per-query`."""

    def __init__(self, **settings: Any) -> None:
        """Add the commands of entry points to those built by Typer."""
        super().__init__(**settings)
        self.commands = cast("Any", _AllCommands(self.commands))

    def list_commands(self, ctx: Any) -> list[str]:
        """Return the names of all commands by section. Added commands that cannot be imported are left out."""
        sections: dict[str, list[str]] = {section: [] for section in GROUPS}
        order = [name for commands in GROUPS.values() for name in commands]
        for name in sorted(self.commands, key=lambda name: order.index(name) if name in order else len(order)):
            try:
                command: Any = self.commands[name]
                sections.setdefault(command.rich_help_panel, []).append(name)
            except ConfigurationError as error:
                leave_out(str(error))
        return list(itertools.chain(*sections.values()))

    def parse_args(self, ctx: Any, args: list[str]) -> Any:
        """Return the remaining arguments for the command."""
        for option in cast("Any", self.params):
            option.hidden = True  # the options for shell completion, added by Typer
        return super().parse_args(ctx, [_renamed(argument, next(iter(args))) for argument in args])


def _renamed(argument: str, command: str) -> str:
    """Return an argument with the current name of its option. Options of `run` keep lm_eval's names."""
    name, *value = argument.split("=", 1)
    if name.startswith("--") and command != "run":
        name = name.replace("_", "-")
    if name in {"--output", "--output-path"}:
        name = "--output_path" if command == "run" else "--output"
    return "=".join([name, *value])


app = typer.Typer(
    cls=_Commands,
    help="Evaluate multi-turn RAG: models, your own system, retrievers.",
    pretty_exceptions_enable=False,
)


def echo(*lines: object) -> None:
    """Print lines, escaped so that a CI runner does not execute them as workflow commands."""
    for line in lines:
        typer.echo(without_commands(str(line)))


def leave_out(reason: str) -> None:
    """Print to standard error why a file or an added command is skipped."""
    typer.echo(f"ragtasks: left out: {_printable(reason)}", err=True)


def put(text: str, output: Path | None = None) -> None:
    """Print a text, or write it to a file and print the path."""
    if output is None:
        echo(text.removesuffix("\n"))
    else:
        write_atomically(output, (text.removesuffix("\n") + "\n").encode())
        echo(f"wrote {output}")


def may_be_replaced(files: Sequence[Path], *, force: bool, doing: str = "Replace") -> bool:
    """Return whether files may be replaced or removed: with `--force`, or after confirmation at a terminal."""
    if force or not sys.stdin.isatty():
        return force
    more = f" and {len(files) - 1} more" if len(files) > 1 else ""
    return typer.confirm(f"{doing} {files[0]}{more}?", err=True)


@app.callback(invoke_without_command=True)
def _root(
    context: typer.Context,
    version: Annotated[bool, typer.Option("--version", help="Print the version.", show_default=False)] = False,
) -> None:
    if version:
        from importlib import metadata

        echo(metadata.version("ragtasks"))
        raise typer.Exit
    if context.invoked_subcommand is None:
        echo(THREE_WAYS.rstrip())


def main(arguments: list[str] | None = None) -> Any:
    """Run the command line. Errors are printed to standard error, shortened, and set the exit status."""
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="replace")  # some encodings lack characters, such as cp1252 of a Windows redirect
    atexit.register(gc.freeze)  # saves Python's last garbage collection at exit
    try:
        return app(args=arguments, standalone_mode=True)
    except RagtasksError as error:
        _fail(str(error), error.exit_status)
    except OSError as error:  # full disk, read-only folder, deleted file
        prefix = f"{error.filename}: " if error.filename else ""
        problem = f"{prefix}{error.strerror or error}. Next step: check the disk, the path and its permissions"
        _fail(problem, getattr(error, "exit_status", RagtasksError.exit_status))


def _fail(text: str, status: int) -> NoReturn:
    typer.echo(f"ragtasks: {_printable(text)}", err=True)
    try:
        sys.stdout.flush()
    except OSError:  # at exit, Python would write the remaining output again and print a traceback
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    sys.exit(status)


def _printable(text: str) -> str:
    """Return an error without secrets and control characters, shortened for a terminal."""
    return "\n".join(map(plain, _cut(masked_text(text)).split("\n")))


def _cut(text: str) -> str:
    """Return a text; if it is too long, its middle is replaced by the number of omitted characters."""
    left_out = len(text) - _MOST_CHARACTERS
    if left_out <= 0:
        return text
    return f"{text[: -left_out - _END_CHARACTERS]}\n[... {left_out:,} characters ...]\n{text[-_END_CHARACTERS:]}"


# The order of the help, an example for each command, and the introduction. Commands do not declare their group
# themselves, so that the order is defined once. Tests check that every command has a group and that examples use
# existing options.

GROUPS = {
    "Evaluate": {
        "init": "ragtasks init --model ragtasks-extractive --data sample",
        "eval": "ragtasks eval evaluation.yaml",
        "score": "ragtasks score rows.jsonl; ragtasks score results --judge openai/gpt-4o-mini --output judged",
    },
    "Retrieve": {
        "retrieve": "ragtasks retrieve --retriever bm25 --queries rewrite",
        "evaluate-run": "ragtasks evaluate-run FILE.trec --qrels QRELS --measures nDCG@20,R@100",
    },
    "Report": {
        "report": "ragtasks report results --html page.html",
        "compare": "ragtasks compare results/a results/b",
        "gate": "ragtasks gate results/new --baseline results/old --margin ans_acc=0.03",
        "results": "ragtasks results list results --leaderboard leaderboard.html",
    },
    "Submit": {
        "submit": "ragtasks submit --task C --results results/mine --benchmark mtrag_un --output mine.jsonl",
        "check": "ragtasks check mine.jsonl --benchmark mtrag_un; ragtasks check handbook",
    },
    "Your own data": {
        "data": "ragtasks data fetch mtrag; ragtasks data describe mtrag --data sample",
    },
    "For lm_eval users": {
        "run": "ragtasks run --model ragtasks-extractive --tasks mtrag --data sample --output results",
        "tasks": "ragtasks tasks list --benchmark mtrag",
    },
    "Maintenance": {
        "judges": "ragtasks judges calibrate labels.csv --rubric rl_f --judge openai/gpt-4o-mini",
        "doctor": "ragtasks doctor --model hf",
    },
}
"""Group -> command -> example, in the order of the help."""

SUBCOMMANDS = {
    "results list": "ragtasks results list results --leaderboard leaderboard.html",
    "results show": "ragtasks results show results/a; ragtasks results show results/a results/b",
    "results remove": "ragtasks results remove mine",
    "results export": "ragtasks results export rows results --output rows.csv; "
    "ragtasks results export benchmark results --kind missed --output failed",
    "data fetch": "ragtasks data fetch mtrag --group tasks --group corpora",
    "data describe": "ragtasks data describe mtrag --data sample",
    "data serve": "ragtasks data serve mtrag --data sample --port 8765",
    "data duplicates": "ragtasks data duplicates corpus.jsonl --output unique.jsonl",
    "data segment": "ragtasks data segment documents.jsonl passages.jsonl --size 256 --overlap 50",
    "data cache": "ragtasks data cache --outcome refused --remove",
    "judges calibrate": "ragtasks judges calibrate labels.csv --rubric rl_f --judge openai/gpt-4o-mini",
    "judges label": "ragtasks judges label results --n 50 --output to_label.jsonl",
    "judges anchors": "ragtasks judges anchors results --output anchors.jsonl",
    "judges passages": "ragtasks judges passages mine --benchmark mtrag --judge openai/gpt-4o --output qrels.txt",
    "judges questions": "ragtasks judges questions benchmark --judge openai/gpt-4o --output conversations.jsonl",
    "judges nuggets": "ragtasks judges nuggets --judge openai/gpt-4o --output nuggets.jsonl",
    "tasks list": "ragtasks tasks list --benchmark mtrag",
    "tasks export": "ragtasks tasks export --benchmark mtrag --setting full_rag --output tasks.jsonl",
    "tasks link": "ragtasks tasks link; ragtasks tasks link --remove",
    "tasks path": 'lm_eval --include_path "$(ragtasks tasks path)" --tasks mtrag_full_rag --model dummy',
}
"""Subcommand -> example."""

THREE_WAYS = """\
Three ways to start. Each writes evaluation.yaml for the sample; `ragtasks init` alone prompts for the values:

  a model             ragtasks init --data sample --model ragtasks-extractive
  my own RAG system   ragtasks init --data sample --endpoint http://localhost:8010 --protocol plain
  a retriever         ragtasks init --data sample --retriever bm25

Then `ragtasks eval evaluation.yaml` runs the evaluation offline, prints the scores and writes a page.

ragtasks --help lists all commands; ragtasks COMMAND --help shows an example.
"""


def put_in_groups(app: typer.Typer, *above: str) -> None:
    """Set the class, section and example of each command of an application."""
    panels = {name: group for group, commands in GROUPS.items() for name in commands}
    examples = {name: example for commands in GROUPS.values() for name, example in commands.items()} | SUBCOMMANDS
    for command in app.registered_commands:
        command.cls = Command
    items: list[CommandInfo | TyperInfo] = [*app.registered_commands, *app.registered_groups]
    for entry in items:
        name = " ".join([*above, _name(entry)])
        entry.rich_help_panel = panels.get(name, entry.rich_help_panel)
        if name in examples:
            entry.epilog = f"Example: {examples[name]}"
    for group in app.registered_groups:
        group.cls = Group
        if group.typer_instance:
            put_in_groups(group.typer_instance, *above, _name(group))


def _name(command: CommandInfo | TyperInfo) -> str:
    """Return the name of a command or group as users type it."""
    return str(command.name or getattr(command.callback, "__name__", "")).replace("_", "-")

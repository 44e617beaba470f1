"""The command line: each command parses, calls one function, and prints."""

from __future__ import annotations

import sys
from pathlib import Path
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
_PASS_THROUGH = {"allow_extra_args": True, "ignore_unknown_options": True, "help_option_names": []}


def _say(*lines: object) -> None:
    for line in lines:
        typer.echo(line)


@app.callback(invoke_without_command=True)
def _root(version: Annotated[bool, typer.Option("--version", help="Print the version.")] = False) -> None:
    if version:
        _say(__version__)
        raise typer.Exit


@app.command(context_settings=_PASS_THROUGH)
def run(context: typer.Context) -> None:
    """Evaluate a model: takes lm_eval's own arguments, starts faster, and knows the ragtasks-* baselines."""
    from ragtasks.harness.run import run_harness

    run_harness(context.args)


@app.command()
def link() -> None:
    """Let the stock `lm_eval` that imports here find our tasks without a flag."""
    from ragtasks.harness import link as linking

    done = linking.link()
    _say(*(f"wrote {path}" for path in done.written), *(f"removed {path}" for path in done.removed))
    _say(f"{len(done.written)} written, {len(done.kept)} already right, {len(done.removed)} removed in {done.folder}")


@app.command()
def unlink() -> None:
    """Take away what `link` wrote."""
    from ragtasks.harness import link as linking

    done = linking.unlink()
    _say(*(f"removed {path}" for path in done.removed), f"{len(done.removed)} removed from {done.folder}")


@app.command()
def path() -> None:
    """Print the folder with our task YAML files, for `lm_eval --include_path`."""
    from ragtasks.harness.link import task_folder

    _say(task_folder())


@app.command()
def fetch(
    benchmark: Annotated[str, typer.Argument(help="Benchmark to fetch: mtrag.")],
    checkout: Annotated[
        Path | None, typer.Option("--from", help="Take the files from a checkout that is there.")
    ] = None,
    group: Annotated[list[str] | None, typer.Option(help="Files to fetch; repeat for several. Default: tasks.")] = None,
    base_url: Annotated[str | None, typer.Option(help="Address of a mirror.")] = None,
) -> None:
    """Fetch a benchmark's official files into the data folder, verified."""
    from ragtasks.benchmarks import fetch as fetching
    from ragtasks.benchmarks.fetch import DEFAULT_GROUPS
    from ragtasks.benchmarks.registry import source_of
    from ragtasks.environment import data_folder

    source, groups = source_of(benchmark), group or DEFAULT_GROUPS
    if checkout:
        done = fetching.adopt(source, checkout, data_folder(), groups=groups)
    else:
        done = fetching.fetch(source, data_folder(), groups=groups, base_url=base_url)
    _say(done.describe())


@app.command()
def doctor(
    endpoint: Annotated[
        list[str] | None,
        typer.Option(help="Base URL of an OpenAI-compatible server to ask for its models; repeatable."),
    ] = None,
) -> None:
    """Say what is installed, which data is where and verified, which endpoints answer, and what to do next."""
    from ragtasks.doctor import diagnose

    _say(*diagnose(endpoint or []))


@app.command()
def report(
    results: Annotated[list[Path], typer.Argument(help="Folders that lm_eval wrote with --output_path --log_samples.")],
    metric: Annotated[str, typer.Option(help="Metric of the tables by dimension.")] = "rb_alg",
) -> None:
    """Print the figures by setting and by dimension, from the logged samples of one or more evaluations."""
    from ragtasks.reports.results import read_evaluations
    from ragtasks.reports.tables import render_report

    _say(render_report(read_evaluations(results), metric))


def main(arguments: list[str] | None = None) -> Any:
    """Run the command line; a clear error goes to standard error and ends with status 1."""
    try:
        return app(args=arguments, standalone_mode=True)
    except RagtasksError as error:
        _fail(error)


def _fail(error: RagtasksError) -> NoReturn:
    typer.echo(f"ragtasks: {error}", err=True)
    sys.exit(1)


__all__ = ["app", "main"]

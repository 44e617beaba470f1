"""`ragtasks tasks`: list harness tasks, make them known to lm_eval, and export questions."""

from __future__ import annotations

import json
import shlex
from pathlib import Path
from typing import Annotated

import typer

from ragtasks.benchmarks import contexts_to_export, exported_tasks
from ragtasks.cli.app import app, echo, put
from ragtasks.cli.options import BENCHMARK, DATA, FORMAT, key_option, named_benchmark
from ragtasks.config.environment import run_store
from ragtasks.errors import ConfigurationError, close_matches
from ragtasks.harness.tasks import harness_tasks, task_folder
from ragtasks.records import Setting
from ragtasks.tables import Format, Section, Table, render

commands = typer.Typer(help="List harness tasks, export questions, link them to lm_eval.", no_args_is_help=True)
app.add_typer(commands, name="tasks")


@commands.command("list")
def list_tasks(
    benchmark: Annotated[str | None, typer.Option(help="Only tasks of this benchmark.")] = None,
    form: FORMAT = Format.MARKDOWN,
) -> None:
    """List harness tasks and groups by benchmark: the names for `run --tasks`."""
    tasks = harness_tasks().values()
    folders = {task.folder for task in tasks}
    if benchmark is not None and benchmark not in folders:
        raise ConfigurationError(f"no harness tasks of {benchmark!r}: {close_matches(benchmark, folders)}")
    chosen = sorted((task for task in tasks if benchmark in {None, task.folder}), key=lambda task: task.folder)
    rows = tuple((task.folder, task.name, ", ".join(task.members) or "-") for task in chosen)
    table = Table("Names for --tasks", ("benchmark", "name", "group of"), rows)
    put(render([Section("Harness tasks", {}, (table,))], form))


@commands.command("export")
def export_tasks(
    output: Annotated[Path, typer.Option(help="JSON lines file to write.")],
    benchmark: BENCHMARK = "mtrag",
    setting: Annotated[
        Setting,
        typer.Option(
            metavar="<setting>", help="Source of the passages: reference, reference_rag, full_rag or agentic."
        ),
    ] = Setting.FULL_RAG,
    data: DATA = None,
    run: Annotated[str, key_option("run")] = "official",
    *,
    contexts: Annotated[
        bool, typer.Option("--contexts/--no-contexts", help="Include the setting's passages.", hidden=True)
    ] = True,
    conversational: Annotated[bool, key_option("conversational", hidden=True)] = False,
    diverse: Annotated[
        int | None, typer.Option(min=1, help="Number of questions to select, as diverse as possible.", hidden=True)
    ] = None,
) -> None:
    """Write a benchmark's questions for your own system, one per line; add `answer` to each."""
    opened = named_benchmark(benchmark, data)
    gives = contexts and setting is not Setting.AGENTIC
    exported = contexts_to_export(opened, setting, run, run_store(), is_needed=gives)
    rows = exported_tasks(opened, exported, conversational=conversational, with_contexts=gives)
    if diverse is not None:
        from ragtasks.metrics import most_different

        every = list(rows)
        spoken = [[turn["content"] for turn in row["messages"] if turn["role"] == "user"] for row in every]
        rows = (every[options] for options in most_different(["\n".join(texts) for texts in spoken], diverse))
    lines = [json.dumps(row, ensure_ascii=False) for row in rows]
    put("\n".join(lines), output)
    options = ["--benchmark", benchmark, "--setting", setting.value, *(["--data", data] if data else [])]
    also = "`searches`" if setting is Setting.AGENTIC else "`contexts` if your system retrieves"
    echo(f"{len(lines)} tasks of {opened.label}: add `answer` to each line, and {also}")
    echo(f"next: {shlex.join(['ragtasks', 'score', 'answers.jsonl', *options])}")


# `ragtasks tasks link` and `path`: how lm_eval finds the tasks.


@commands.command()
def link(*, remove: Annotated[bool, typer.Option("--remove", help="Remove the links.")] = False) -> None:
    """Make the tasks available to the installed `lm_eval` without a flag."""
    from ragtasks.harness import link as linking

    done = linking.unlink() if remove else linking.link()
    echo(f"{len(done.written)} written, {len(done.kept)} unchanged, {len(done.removed)} removed in {done.folder}")


@commands.command()
def path() -> None:
    """Print the folder of task YAML files for `lm_eval --include_path`."""
    echo(task_folder())

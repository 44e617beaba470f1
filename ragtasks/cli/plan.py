"""`ragtasks plan`: what an evaluation will take, before any model runs."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer

from ragtasks.cli.app import TableFormat, app, put


@app.command()
def plan(  # noqa: PLR0917 (options by name)
    tasks: Annotated[str, typer.Option(help="Harness tasks and groups, separated by commas.")] = "mtrag",
    data: Annotated[str | None, typer.Option(help="`sample`, or a folder with the official files.")] = None,
    metadata: Annotated[str, typer.Option(help="The evaluation's other options, as JSON, as for `run`.")] = "{}",
    judge: Annotated[list[str] | None, typer.Option(help="A judge, as in docs/endpoints.md; repeatable.")] = None,
    tokenizer: Annotated[
        str | None, typer.Option(help="The model's tokeniser, a name or a folder; without it tokens are estimated.")
    ] = None,
    prompts_per_minute: Annotated[
        float | None, typer.Option(min=0.001, help="Rate of the model under test, for the time that answers take.")
    ] = None,
    form: Annotated[TableFormat, typer.Option("--format", help="How the tables are written.")] = TableFormat.MARKDOWN,
    output: Annotated[Path | None, typer.Option(help="File for the tables, in place of the screen.")] = None,
) -> None:
    """Estimate an evaluation before any model runs: prompts, tokens, context length, judge calls, cost, time."""
    from ragtasks.config import config_from_metadata
    from ragtasks.errors import ConfigurationError
    from ragtasks.harness import planning
    from ragtasks.reports.rendering import Format, render
    from ragtasks.tables import Section

    try:
        options = dict(json.loads(metadata))
    except (ValueError, TypeError) as error:
        raise ConfigurationError(f"--metadata is not a JSON object: {error}") from error
    if data is not None:
        options["data"] = data
    if judge:
        options["judges"] = [json.loads(item) if item.startswith("{") else item for item in judge]
    evaluation = config_from_metadata(options)
    names = [name for name in tasks.split(",") if name]
    settings, judging = planning.plan(names, options, planning.counter(tokenizer))
    tables = [planning.prompts_table(settings, is_estimate=tokenizer is None)]
    if evaluation.judges:
        tables.append(planning.judges_table(judging, evaluation))
    provenance = {"tasks": ", ".join(names)}
    if prompts_per_minute:
        provenance["answers take"] = (
            f"{planning.hours(settings, prompts_per_minute):.1f} hours at {prompts_per_minute:g} prompts a minute"
        )
    put(render([Section("What it will take", provenance, tuple(tables))], Format(form.value)), output)


__all__ = ["plan"]

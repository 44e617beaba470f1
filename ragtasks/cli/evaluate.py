"""`ragtasks run`: it hands lm_eval's own arguments on."""

from __future__ import annotations

import json
import shlex
from functools import partial
from pathlib import Path
from typing import Annotated, Any

import typer

from ragtasks.cli.app import TableFormat, app, echo, may_be_replaced, put
from ragtasks.cli.options import BENCHMARK, DATA, named_benchmark
from ragtasks.errors import ConfigurationError, RagtasksError
from ragtasks.records import Setting

_PASS_THROUGH = {"allow_extra_args": True, "ignore_unknown_options": True, "help_option_names": []}


@app.command(context_settings=_PASS_THROUGH)
def run(context: typer.Context) -> None:
    """Evaluate a model: takes lm_eval's arguments, and --data, --judge, --encoder and the other keys of --metadata.

    The models ragtasks-extractive, ragtasks-oracle, ragtasks-refuse and ragtasks-refuse-on-empty need no weights. With
    --for-submission B (or C) it asks for all tasks that `ragtasks submit --task B` (or C) hands in.
    """
    from ragtasks.harness.run import run_harness

    run_harness(context.args)


# `ragtasks plan`: what an evaluation will take, before any model runs.


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


# `ragtasks score` and `ragtasks export-tasks`: a system of one's own, without a model of the harness.


@app.command()
def score(  # noqa: PLR0917 (one parameter an option)
    answers: Annotated[
        Path | None, typer.Argument(help="JSON lines: id, answer, and contexts if the system retrieved any.")
    ] = None,
    benchmark: BENCHMARK = "mtrag",
    setting: Annotated[
        Setting | None,
        typer.Option(help="Setting whose passages the answers without `contexts` used."),
    ] = None,
    data: DATA = None,
    run: Annotated[str, typer.Option(help="Stored run that gave the setting's passages.")] = "official",
    judge: Annotated[list[str] | None, typer.Option(help="LLM judge: openai/NAME, or JSON; repeatable.")] = None,
    encoder: Annotated[str | None, typer.Option(help="Encoder of BERTScore, or `none`.")] = None,
    name: Annotated[str | None, typer.Option(help="The system's name; default: the file's.")] = None,
    endpoint: Annotated[
        str | None, typer.Option(help="Address of a running system, or JSON with the keys of an endpoint.")
    ] = None,
    protocol: Annotated[str, typer.Option(help="How the endpoint is asked: openai or plain.")] = "openai",
    metadata: Annotated[str, typer.Option(help="JSON object with any other keys, as for lm_eval.")] = "{}",
    output: Annotated[Path, typer.Option(help="Folder for the results.")] = Path("results"),
    *,
    force: Annotated[bool, typer.Option("--force", help="Replace results of the same system without asking.")] = False,
) -> None:
    """Score the answers of your own RAG system; the results are read by report, compare, submit and the others."""
    from ragtasks.scoring import ScoredSystem

    options = _options(metadata, data=data, run=run, judges=judge, encoder=encoder)
    if endpoint is not None and answers is None:
        named, answering = _endpoint_answers(endpoint, protocol, name, setting or Setting.FULL_RAG)
        system = ScoredSystem(named, benchmark, setting or Setting.FULL_RAG, output)
    elif answers is not None and endpoint is None:
        system, answering = ScoredSystem(name or answers.stem, benchmark, setting, answers), _read(answers)
    else:
        raise ConfigurationError("name a file of answers, or --endpoint, and not both")
    _score(system, answering, options, output, force=force)


def _read(file: Path) -> Any:
    from ragtasks.results import read_answers

    return lambda benchmark, _config, _results: read_answers(file, benchmark)


def _endpoint_answers(endpoint: str, protocol: str, name: str | None, setting: Setting) -> tuple[str, Any]:
    from ragtasks.clients import system_endpoint
    from ragtasks.environment import run_store, secret
    from ragtasks.scoring import System, ask_endpoint

    found, chosen = system_endpoint(endpoint, name or "rag-system", protocol)
    return name or found.model, ask_endpoint(System(found, chosen, secret), setting, run_store())


def _score(system: Any, answering: Any, options: dict[str, Any], output: Path, *, force: bool) -> None:
    from ragtasks.environment import data_folder, run_store
    from ragtasks.harness.judge_model import JudgeModel
    from ragtasks.reports.system_scores import describe_scores
    from ragtasks.scoring import Place, score_system

    place = Place(data_folder(), run_store())
    leave = partial(may_be_replaced, force=force)
    done = score_system(system, answering, options, output, place, may_replace=leave, local_judge=JudgeModel)
    echo(describe_scores(done))
    echo(f"next: {shlex.join(['ragtasks', 'report', str(output), '--html', 'page.html'])}")
    if done.problems:
        raise RagtasksError(f"everything is saved in {done.file}, but:\n" + "\n".join(done.problems))
    done.require_plausible()


@app.command(name="export-tasks")
def export_tasks(
    output: Annotated[Path, typer.Option(help="File to write, JSON lines.")],
    benchmark: BENCHMARK = "mtrag",
    setting: Annotated[Setting, typer.Option(help="Whose tasks and passages.")] = Setting.FULL_RAG,
    data: DATA = None,
    run: Annotated[str, typer.Option(help="Stored run that gives the passages.")] = "official",
    *,
    contexts: Annotated[
        bool, typer.Option("--contexts/--no-contexts", help="Give the setting's passages, or leave retrieval to you.")
    ] = True,
    conversational: Annotated[bool, typer.Option("--conversational", help="Include conversational tasks.")] = False,
) -> None:
    """Write a benchmark's questions for your own system, one a line; add `answer` to each."""
    from ragtasks.benchmarks import contexts_to_export, exported_tasks
    from ragtasks.environment import run_store

    opened = named_benchmark(benchmark, data)
    given = contexts_to_export(opened, setting, run, run_store(), is_needed=contexts)
    rows = exported_tasks(opened, given, conversational=conversational, with_contexts=contexts)
    lines = [json.dumps(row, ensure_ascii=False) for row in rows]
    put("\n".join(lines), output)
    place = ["--benchmark", benchmark, "--setting", setting.value, *(["--data", data] if data else [])]
    echo(f"{len(lines)} tasks of {opened.label}: add `answer` to each line, and `contexts` where you retrieve yourself")
    echo(f"next: {shlex.join(['ragtasks', 'score', 'answers.jsonl', *place])}")


def _options(metadata: str, **named: Any) -> dict[str, Any]:
    """Return the keys of the metadata with those that have an option of their own."""
    from ragtasks.scoring import parsed_metadata

    given = parsed_metadata(metadata)
    named["judges"] = [_judge(text) for text in named.get("judges") or ()]
    return {**given, **{key: value for key, value in named.items() if value}}


def _judge(text: str) -> Any:
    """Return the object in a judge's JSON; any other text as it is, which the configuration reads."""
    try:
        return json.loads(text)
    except ValueError:
        return text


# `ragtasks judge`: saved answers are scored again.


@app.command()
def judge(
    paths: Annotated[
        list[Path], typer.Argument(help="Folders that lm_eval wrote with --log_samples, or predictions (JSON lines).")
    ],
    output: Annotated[Path, typer.Option(help="Folder for the new results.")],
    metadata: Annotated[str, typer.Option(help="JSON object, as for lm_eval: judges, encoder, data, idk, ...")] = "{}",
    benchmark: Annotated[str | None, typer.Option(help="Benchmark of predictions: mtrag, mtrag_un.")] = None,
    setting: Annotated[
        str | None, typer.Option(help="Setting of predictions: reference, reference_rag, full_rag.")
    ] = None,
    *,
    force: Annotated[bool, typer.Option("--force", help="Replace results of the same answers without asking.")] = False,
) -> None:
    """Score saved answers again, with or without judges, without running the model again."""
    from ragtasks.environment import data_folder, run_store
    from ragtasks.harness.judge_model import JudgeModel
    from ragtasks.scoring import Place, rescore

    place = Place(data_folder(), run_store())
    may_replace = partial(may_be_replaced, force=force)
    lines = rescore(
        paths,
        metadata,
        output,
        place,
        benchmark=benchmark,
        setting=setting,
        may_replace=may_replace,
        local_judge=JudgeModel,
    )
    echo(*lines)

"""`ragtasks run`: passes lm_eval's arguments on."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Annotated, Any

import typer

from ragtasks.cli.app import HELP_ALL, TableFormat, app, echo, may_be_replaced, put
from ragtasks.cli.configured import FOR_HARNESS
from ragtasks.cli.evaluation import label_of, results_folder
from ragtasks.cli.options import BENCHMARK, FORCE, FORMAT, TABLES, evaluation_options
from ragtasks.cli.reporting import conclude
from ragtasks.cli.trec_rag import scores_track
from ragtasks.errors import ConfigurationError, RagtasksError
from ragtasks.records import Setting

_PASS_THROUGH = {"allow_extra_args": True, "ignore_unknown_options": True, "help_option_names": []}


@app.command(context_settings=_PASS_THROUGH)
@evaluation_options(asks_model=True, metadata=False)
def run(
    context: typer.Context,
    *,
    options: dict[str, Any],
    full: Annotated[
        bool, typer.Option("--full", help="Print lm_eval's table of every value of every task too.")
    ] = False,
) -> None:
    """Evaluate a model on harness tasks: the arguments of `lm_eval run`, and these.

    Of lm_eval: --model KIND, --model_args KEY=VALUE,..., --tasks NAMES, --limit N, --apply_chat_template
    and all that --help-all prints; --output FOLDER logs samples too. `ragtasks tasks list` has the names.
    Models without weights: ragtasks-extractive, ragtasks-oracle, ragtasks-refuse, ragtasks-refuse-on-empty.
    --for-submission B (or C) runs all tasks that `ragtasks submit --task B` (or C) needs.
    """
    if wanted := {"-h", "--help", HELP_ALL} & set(context.args):
        echo(context.get_help())
        if HELP_ALL not in wanted:
            return
    from ragtasks.harness.run import Ending, harness_arguments, run_harness

    if wanted:
        run_harness(["--help"])
        return
    arguments = [*context.args, *harness_arguments(context.meta.get(FOR_HARNESS, {}), context.args)]
    ending = Ending(
        default_output=lambda model, tasks: results_folder(Path(model).name, label_of(tasks)),
        finished=_end_of_run,
        with_tables=full,
    )
    run_harness(arguments, options, ending)


def _end_of_run(folder: Path, files: Sequence[Path]) -> None:
    conclude(files, None)
    echo(f"wrote {folder}")
    echo(f"next: {shlex.join(['ragtasks', 'report', str(folder), '--html', 'page.html'])}")


# `ragtasks plan`: what an evaluation will take, before any model runs.


@app.command()
@evaluation_options(asks_model=True)
def plan(
    *,
    options: dict[str, Any],
    tasks: Annotated[str, typer.Option(help="Harness tasks and groups, separated by commas.")] = "mtrag",
    tokenizer: Annotated[
        str | None, typer.Option(help="The model's tokeniser, a name or a folder; without it tokens are estimated.")
    ] = None,
    prompts_per_minute: Annotated[
        float | None, typer.Option(min=0.001, help="Rate of the model under test, for the time that answers take.")
    ] = None,
    form: FORMAT = TableFormat.MARKDOWN,
    output: TABLES = None,
) -> None:
    """Estimate an evaluation before it runs: prompts, tokens, judge calls, cost, time."""
    from ragtasks.config import config_from_metadata
    from ragtasks.harness import planning
    from ragtasks.tables import Format, Section, render

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


# `ragtasks score`: a system of one's own, without a model of the harness.


@app.command()
@scores_track
@evaluation_options(asks_model=False)
def score(
    answers: Annotated[
        Path | None, typer.Argument(help="JSON lines: id, answer, and contexts if the system retrieved any.")
    ] = None,
    *,
    options: dict[str, Any],
    benchmark: BENCHMARK = "mtrag",
    setting: Annotated[
        Setting | None,
        typer.Option(
            metavar="<setting>",
            help="reference, reference_rag or full_rag: whose passages answers without `contexts` used.",
        ),
    ] = None,
    name: Annotated[str | None, typer.Option(help="The system's name; default: the file's.")] = None,
    endpoint: Annotated[
        str | None, typer.Option(help="Address of a running system, or JSON with the keys of an endpoint.")
    ] = None,
    protocol: Annotated[str, typer.Option(help="How the endpoint is asked: openai or plain.")] = "openai",
    output: Annotated[Path, typer.Option(help="Folder for the results.")] = Path("results"),
    force: FORCE = False,
) -> None:
    """Score the answers of your own RAG system.

    The results are read by report, compare, submit and the others.
    """
    from ragtasks.scoring import ScoredSystem

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


# `ragtasks judge`: saved answers are scored again.


@app.command()
@evaluation_options(asks_model=False)
def judge(
    paths: Annotated[
        list[Path], typer.Argument(help="Folders that lm_eval wrote with --log_samples, or predictions (JSON lines).")
    ],
    *,
    options: dict[str, Any],
    output: Annotated[Path, typer.Option(help="Folder for the new results.")],
    benchmark: Annotated[str | None, typer.Option(help="Benchmark of predictions: mtrag, mtrag_un.")] = None,
    setting: Annotated[
        str | None, typer.Option(help="Setting of predictions: reference, reference_rag, full_rag.")
    ] = None,
    force: FORCE = False,
) -> None:
    """Score saved answers again, without running the model again."""
    from ragtasks.environment import data_folder, run_store
    from ragtasks.harness.judge_model import JudgeModel
    from ragtasks.scoring import Place, rescore

    place = Place(data_folder(), run_store())
    may_replace = partial(may_be_replaced, force=force)
    lines = rescore(
        paths,
        options,
        output,
        place,
        benchmark=benchmark,
        setting=setting,
        may_replace=may_replace,
        local_judge=JudgeModel,
    )
    echo(*lines)

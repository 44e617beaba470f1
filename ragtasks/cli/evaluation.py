"""Commands on evaluations: set-up, harness runs, judges. Each parses, calls one function, and prints."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Annotated

import typer

from ragtasks.cli.app import app, may_be_replaced, say

_PASS_THROUGH = {"allow_extra_args": True, "ignore_unknown_options": True, "help_option_names": []}


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
    say(*(f"wrote {path}" for path in done.written), *(f"removed {path}" for path in done.removed))
    say(f"{len(done.written)} written, {len(done.kept)} already right, {len(done.removed)} removed in {done.folder}")


@app.command()
def unlink() -> None:
    """Take away what `link` wrote."""
    from ragtasks.harness import link as linking

    done = linking.unlink()
    say(*(f"removed {path}" for path in done.removed), f"{len(done.removed)} removed from {done.folder}")


@app.command()
def path() -> None:
    """Print the folder with our task YAML files, for `lm_eval --include_path`."""
    from ragtasks.harness.link import task_folder

    say(task_folder())


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
    from ragtasks.benchmarks import download, source_of
    from ragtasks.benchmarks.download import DEFAULT_GROUPS
    from ragtasks.environment import data_folder

    source, groups = source_of(benchmark), group or DEFAULT_GROUPS
    if checkout:
        done = download.adopt(source, checkout, data_folder(), groups=groups)
    else:
        done = download.fetch(source, data_folder(), groups=groups, base_url=base_url)
    say(done.describe())


@app.command()
def doctor(
    endpoint: Annotated[
        list[str] | None,
        typer.Option(help="Base URL of an OpenAI-compatible server to ask for its models; repeatable."),
    ] = None,
) -> None:
    """Say what is installed, which data is where and verified, which endpoints answer, and what to do next."""
    from ragtasks.doctor import diagnose

    say(*diagnose(endpoint or []))


@app.command()
def judge(
    paths: Annotated[
        list[Path], typer.Argument(help="Folders that lm_eval wrote with --log_samples, or predictions (JSON lines).")
    ],
    output_path: Annotated[Path, typer.Option("--output_path", "--output-path", help="Folder for the new results.")],
    metadata: Annotated[str, typer.Option(help="JSON object, as for lm_eval: judges, encoder, data, idk, ...")] = "{}",
    benchmark: Annotated[str | None, typer.Option(help="Benchmark of predictions: mtrag, mtrag_un.")] = None,
    setting: Annotated[
        str | None, typer.Option(help="Setting of predictions: reference, reference_rag, full_rag.")
    ] = None,
    *,
    force: Annotated[bool, typer.Option("--force", help="Replace results of the same answers without asking.")] = False,
) -> None:
    """Score saved answers again, with judges or without, and without the model that gave them."""
    from ragtasks.environment import data_folder, run_store
    from ragtasks.harness.judge_model import JudgeModel
    from ragtasks.scoring import Place, rescore

    place = Place(data_folder(), run_store())
    may_replace = partial(may_be_replaced, force=force)
    lines = rescore(
        paths,
        metadata,
        output_path,
        place,
        benchmark=benchmark,
        setting=setting,
        may_replace=may_replace,
        local_judge=JudgeModel,
    )
    say(*lines)


@app.command()
def calibrate(
    data: Annotated[
        Path | None, typer.Option(help="Folder with MTRAG's official files; default: the data folder.")
    ] = None,
    judge: Annotated[
        list[str] | None, typer.Option(help="Judge to calibrate, openai/NAME or a JSON object; repeatable.")
    ] = None,
    plot: Annotated[Path | None, typer.Option(help="Picture to write, .png or .svg.")] = None,
) -> None:
    """Print how far metrics and judges agree with the people who rated MTRAG's answers."""
    from ragtasks.benchmarks import benchmark_folder
    from ragtasks.environment import data_folder, reply_cache_file, secret
    from ragtasks.reports.calibration import calibrate_judges

    root = benchmark_folder("mtrag", str(data) if data else None, data_folder())
    text, verdicts = calibrate_judges(root, judge or [], secrets=secret, cache_file=reply_cache_file(), picture=plot)
    say(text)
    if verdicts is not None:
        verdicts.require_coverage()


__all__ = ["calibrate", "doctor", "fetch", "judge", "link", "path", "run", "unlink"]

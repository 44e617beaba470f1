"""`ragtasks calibrate`: metrics and judges beside the people who rated answers."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from ragtasks.cli.app import app, say


@app.command()
def calibrate(
    data: Annotated[
        Path | None, typer.Option(help="Folder with MTRAG's official files; default: the data folder.")
    ] = None,
    judge: Annotated[
        list[str] | None, typer.Option(help="Judge to calibrate, openai/NAME or a JSON object; repeatable.")
    ] = None,
    metric: Annotated[
        list[str] | None, typer.Option(help="Further metric that the judges are asked for, rl_mtb or rl_r; repeatable.")
    ] = None,
    plot: Annotated[Path | None, typer.Option(help="Picture to write, .png or .svg.")] = None,
) -> None:
    """Print how well metrics and judges agree with the people who rated MTRAG's answers."""
    from ragtasks.benchmarks import benchmark_folder
    from ragtasks.environment import data_folder, reply_cache_file, secret
    from ragtasks.reports.calibration import calibrate_judges

    root = benchmark_folder("mtrag", str(data) if data else None, data_folder())
    text, verdicts = calibrate_judges(
        root, judge or [], secrets=secret, cache_file=reply_cache_file(), metrics=metric or (), picture=plot
    )
    say(text)
    if verdicts is not None:
        verdicts.require_coverage()


__all__ = ["calibrate"]

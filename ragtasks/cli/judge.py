"""`ragtasks judge`: saved answers are scored again."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Annotated

import typer

from ragtasks.cli.app import app, may_be_replaced, say


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
    say(*lines)


__all__ = ["judge"]

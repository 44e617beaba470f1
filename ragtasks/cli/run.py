"""`ragtasks run`: it hands lm_eval's own arguments on."""

from __future__ import annotations

import typer

from ragtasks.cli.app import app

_PASS_THROUGH = {"allow_extra_args": True, "ignore_unknown_options": True, "help_option_names": []}


@app.command(context_settings=_PASS_THROUGH)
def run(context: typer.Context) -> None:
    """Evaluate a model: takes lm_eval's arguments, and --data, --judge, --encoder and the other keys of --metadata.

    The models ragtasks-extractive, ragtasks-oracle, ragtasks-refuse and ragtasks-refuse-on-empty need no weights. With
    --for-submission B (or C) it asks for all tasks that `ragtasks submit --task B` (or C) hands in.
    """
    from ragtasks.harness.run import run_harness

    run_harness(context.args)


__all__ = ["run"]

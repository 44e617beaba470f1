"""`ragtasks run`: passes lm_eval's arguments on."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

import typer

from ragtasks.cli.app import HELP_ALL, app, echo
from ragtasks.cli.configured import FOR_HARNESS
from ragtasks.cli.evaluation import label_of, results_folder
from ragtasks.cli.look_ahead import DRY_RUN, PROBE, PROMPTS_PER_MINUTE, TOKENIZER, LookAhead
from ragtasks.cli.options import evaluation_options
from ragtasks.cli.reporting import conclude
from ragtasks.progress import step

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
    dry_run: DRY_RUN = False,
    probe: PROBE = True,
    tokenizer: TOKENIZER = None,
    prompts_per_minute: PROMPTS_PER_MINUTE = None,
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
    with step("loading lm_eval"):
        from ragtasks.harness.run import Ending, harness_arguments, run_harness

    if wanted:
        run_harness(["--help"])
        return
    arguments = [*context.args, *harness_arguments(context.meta.get(FOR_HARNESS, {}), context.args)]
    look = LookAhead(dry_run, probe, tokenizer, prompts_per_minute)
    ending = Ending(
        begin=look.begin_run,
        default_output=lambda model, tasks: results_folder(Path(model).name, label_of(tasks)),
        finished=_end_of_run,
        with_tables=full,
    )
    run_harness(arguments, options, ending)


def _end_of_run(folder: Path, files: Sequence[Path]) -> None:
    conclude(files, None)
    echo(f"wrote {folder}")
    echo(f"next: {shlex.join(['ragtasks', 'report', str(folder), '--html', 'page.html'])}")

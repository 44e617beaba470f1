"""Before an evaluation: what it lacks is said at once, and `--dry-run` prints what it will take and stops there."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ragtasks.cli.app import echo

if TYPE_CHECKING:
    from ragtasks.harness.preflight import Intention
    from ragtasks.harness.run import Request

_PANEL = "Before the first request"
DRY_RUN = Annotated[
    bool,
    typer.Option("--dry-run", help="Print what it will take, check what it needs, ask nobody.", rich_help_panel=_PANEL),
]
PROBE = Annotated[
    bool, typer.Option(help="Ask each server one short question before the first prompt.", rich_help_panel=_PANEL)
]
TOKENIZER = Annotated[
    str | None,
    typer.Option(help="Of --dry-run: a tokeniser that counts tokens; default: an estimate.", rich_help_panel=_PANEL),
]
PROMPTS_PER_MINUTE = Annotated[
    float | None,
    typer.Option(min=0.001, help="Of --dry-run: the model's rate, for the hours.", rich_help_panel=_PANEL),
]


@dataclass(frozen=True, slots=True)
class LookAhead:
    """How far an evaluation is looked at before it begins."""

    dry_run: bool = False
    probe: bool = True
    tokenizer: str | None = None
    prompts_per_minute: float | None = None

    def begin_run(self, request: Request, problems: Sequence[str] = ()) -> bool:
        """Return whether what the harness is asked for shall be evaluated; refuse what lacks something."""
        from ragtasks.harness.preflight import intention_of

        return self.begin(replace(intention_of(request), problems=problems), request.tasks, request.metadata)

    def begin(self, intention: Intention, tasks: Sequence[str], options: Mapping[str, Any]) -> bool:
        """Return whether to go on; `tasks` are the harness tasks that a dry run looks at."""
        from ragtasks.harness.preflight import require

        require(intention, probes=self.probe and not self.dry_run)
        if self.dry_run:
            if tasks:
                self._print_plan(tasks, options, has_judges=bool(intention.config.judges))
            echo("checked: data, keys, encoder, disk; no server was asked and nothing was evaluated (--dry-run)")
        elif any(getattr(judge, "price", None) for judge in intention.config.judges) and tasks:
            self._print_cost(tasks, options)
        return not self.dry_run

    def _print_plan(self, tasks: Sequence[str], options: Mapping[str, Any], *, has_judges: bool) -> None:
        """Print prompts, tokens, contexts, and what judges will be asked and cost."""
        from ragtasks.harness import planning
        from ragtasks.progress import progress_bars
        from ragtasks.tables import Format, Section, render

        with progress_bars() as progress:
            count = planning.counter(self.tokenizer)
            settings, judging = planning.plan(tasks, options, count, with_judges=has_judges, progress=progress)
        tables = [planning.prompts_table(settings, is_estimate=self.tokenizer is None)]
        if has_judges:
            tables.append(planning.judges_table(judging, _config(options)))
        provenance = {"tasks": ", ".join(tasks)}
        if rate := self.prompts_per_minute:
            hours = planning.hours(settings, rate)
            provenance["answers take"] = f"{hours:.1f} hours at {rate:g} prompts a minute"
        echo(render([Section("What it will take", provenance, tuple(tables))], Format.MARKDOWN))

    def _print_cost(self, tasks: Sequence[str], options: Mapping[str, Any]) -> None:
        """Say what judges will cost, as far as their prices are known."""
        from ragtasks.harness import planning
        from ragtasks.progress import progress_bars

        with progress_bars() as progress:
            _, judging = planning.plan(tasks, options, planning.estimated_tokens, progress=progress)
        table = planning.judges_table(judging, _config(options))
        for row in table.rows:
            judge, n_calls, _, least, most, _ = row
            if least != "-":
                typer.echo(
                    f"judge {judge}: {n_calls:,} calls, about ${least} to ${most} (cached replies are free)", err=True
                )


def _config(options: Mapping[str, Any]) -> Any:
    from ragtasks.config import config_from_metadata

    return config_from_metadata(options)

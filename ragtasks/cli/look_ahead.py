"""Checks before an evaluation; `--dry-run` prints them with an estimate of the cost."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ragtasks.cli.app import echo
from ragtasks.config import EvaluationConfig, config_from_metadata, config_from_options
from ragtasks.config.environment import data_folder, run_store
from ragtasks.harness.tasks import own_tasks_of
from ragtasks.progress import progress_bars
from ragtasks.records import Setting
from ragtasks.requirements import Requirement, require
from ragtasks.tables import Format, Section, Table, render

if TYPE_CHECKING:
    from ragtasks.harness.run import Request
    from ragtasks.results import SavedTask
    from ragtasks.scoring import Count, Folders

    Estimate = Callable[[Count], Section]
    """Function from a token counter to tables of prompts, requests and dollars."""

_NOT_SENT = "no request was sent and nothing was evaluated (--dry-run)"
_SPENDING = "Requests, tokens, dollars"
DRY_RUN = Annotated[
    bool,
    typer.Option("--dry-run", help="Check and estimate, send no requests."),
]
PROBE = Annotated[bool, typer.Option(help="Test each server with a short request first.", hidden=True)]


@dataclass(frozen=True, slots=True)
class LookAhead:
    """Options of the checks before an evaluation."""

    dry_run: bool = False
    probe: bool = True
    tokenizer: str | None = None
    prompts_per_minute: float | None = None

    def begin(
        self, requirements: Sequence[Requirement], config: EvaluationConfig, estimate: Estimate | None = None
    ) -> bool:
        """Check all requirements and return whether to evaluate: False for a dry run.

        Prints the estimate for a dry run, and the cost of judges with a price.
        """
        checks = require(requirements, with_requests=self.sends_requests)
        is_priced = any(getattr(judge, "price", None) for judge in config.judges)
        if estimate is not None and (self.dry_run or is_priced):
            from ragtasks.scoring import token_counter

            section = estimate(token_counter(self.tokenizer))
            if self.dry_run:
                echo(render([section], Format.MARKDOWN))
            else:
                _print_dollars(section)
        if self.dry_run:
            rows = tuple((check.requirement.part, check.requirement.category, check.state) for check in checks)
            table = Table("Checked", ("part", "requirement", "state"), rows)
            echo(render([Section("Requirements", {}, (table,))], Format.MARKDOWN), _NOT_SENT)
        return not self.dry_run

    @property
    def sends_requests(self) -> bool:
        """Whether a short test request is sent to each server."""
        return self.probe and not self.dry_run

    def begin_run(self, request: Request, further: Sequence[Requirement] = ()) -> bool:
        """Return whether the harness should evaluate the model."""
        from ragtasks.harness.preflight import run_requirements

        requirements = run_requirements(request, tokenizer=self.tokenizer, with_requests=self.sends_requests)
        config = config_from_metadata(request.metadata)
        estimate = partial(
            self._estimate, request.tasks, request.metadata, limit=request.limit, reply_tokens=request.reply_tokens
        )
        return self.begin([*further, *requirements], config, estimate if request.tasks else None)

    def begin_system(
        self,
        requirements: Sequence[Requirement],
        parts: Sequence[tuple[str, Setting]],
        options: Mapping[str, Any],
        *,
        has_endpoint: bool,
    ) -> bool:
        """Return whether to score a system whose answers do not exist yet: an endpoint, or a missing file."""
        settings: dict[str, list[Setting]] = {}
        for benchmark, setting in parts:
            settings.setdefault(benchmark, []).append(setting)
        tasks = [task for name, chosen in settings.items() for task in own_tasks_of(name, chosen)]
        estimate = partial(self._estimate, tasks, options, has_model=False, has_endpoint=has_endpoint)
        return self.begin(requirements, config_from_options(options), estimate if tasks else None)

    def _estimate(
        self,
        tasks: Sequence[str],
        options: Mapping[str, Any],
        count: Count,
        *,
        has_model: bool = True,
        has_endpoint: bool = False,
        limit: float | None = None,
        reply_tokens: int | None = None,
    ) -> Section:
        """Return the estimate of prompts, tokens and contexts, and of the requests and dollars of model and judges."""
        from ragtasks.harness.planning import plan
        from ragtasks.reports import planned

        config = config_from_metadata(options)
        with progress_bars() as progress:
            settings, judging = plan(
                tasks,
                options,
                count,
                with_judges=bool(config.judges),
                limit=limit,
                reply_tokens=reply_tokens,
                progress=progress,
            )
        tables: list[Table] = []
        if has_model:
            tables.append(planned.prompts_table(settings, is_estimate=self.tokenizer is None))
        elif has_endpoint:
            tables.append(planned.system_table(settings))
        if has_model or config.judges:
            tables.append(planned.spending_table(settings if has_model else (), judging, config))
        notes = {"tasks": ", ".join(tasks)}
        if rate := self.prompts_per_minute:
            hours = planned.hours(settings, rate)
            notes["answers take"] = f"{hours:.1f} hours at {rate:g} prompts a minute"
        return Section("Estimate", notes, tuple(tables))

    def begin_answers(
        self,
        requirements: Sequence[Requirement],
        config: EvaluationConfig,
        answers: Callable[[], Mapping[str, Sequence[SavedTask]]],
    ) -> bool:
        """Return whether to score existing answers. `answers` returns them by system."""

        def estimate(count: Count) -> Section:
            from ragtasks.reports import planned
            from ragtasks.scoring import planning

            answered = answers()
            tasks = [task for members in answered.values() for task in members]
            tables = [planned.answers_table(answered)]
            if config.judges:
                with progress_bars() as progress:
                    judging = planning.judging_of(tasks, count, local_folders(), progress)
                tables.append(planned.spending_table((), judging, config, are_there=True))
            return Section("Estimate", planning.scores_note(tasks), tuple(tables))

        return self.begin(requirements, config, estimate)


def _print_dollars(section: Section) -> None:
    """Print the estimated cost of each judge with a price."""
    rows = (row for table in section.tables if table.title == _SPENDING for row in table.rows)
    for judge, n_calls, _, _, expected, most, _ in rows:
        if expected != "-":
            line = f"{judge}: {n_calls:,} calls, about ${expected}, at most ${most} (cached replies are free)"
            typer.echo(line, err=True)


def local_folders() -> Folders:
    """Return the folders of fetched benchmarks and stored runs."""
    from ragtasks.scoring import Folders

    return Folders(data_folder(), run_store())

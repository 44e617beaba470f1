"""Before an evaluation: what it lacks is said at once, and `--dry-run` prints what it will take and stops there."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ragtasks.cli.app import echo
from ragtasks.cli.options import retrieval_place
from ragtasks.clients import Endpoint, endpoint_of
from ragtasks.config import config_from_metadata, config_from_options
from ragtasks.config.environment import data_folder, run_store, secret
from ragtasks.errors import RagtasksError
from ragtasks.harness.tasks import own_tasks_of
from ragtasks.progress import progress_bars
from ragtasks.records import Setting
from ragtasks.tables import Format, Section, Table, render

if TYPE_CHECKING:
    from ragtasks.harness.preflight import Intention
    from ragtasks.harness.run import Request
    from ragtasks.results import SavedTask
    from ragtasks.scoring import Place

    SystemTasks = Mapping[str, Sequence[SavedTask]]
    """System -> its answers."""
    Answers = Callable[[], SystemTasks]

_PANEL = "Before the first request"
_CHECKED = "checked: data, keys, encoder, disk; no server was asked and nothing was evaluated (--dry-run)"
DRY_RUN = Annotated[
    bool,
    typer.Option("--dry-run", help="Print what it will take, check what it needs, ask nobody.", rich_help_panel=_PANEL),
]
PROBE = Annotated[
    bool, typer.Option(help="Ask each server one short question before the first prompt.", rich_help_panel=_PANEL)
]
TOKENIZER = Annotated[
    str | None,
    typer.Option(help="A tokeniser that counts the tokens of prompts; default: an estimate.", rich_help_panel=_PANEL),
]
PROMPTS_PER_MINUTE = Annotated[
    float | None,
    typer.Option(min=0.001, help="Of --dry-run: the model's rate, for the hours.", rich_help_panel=_PANEL),
]


_ENCODERS = re.compile(r"\b(?:dense|sparse|cross-encoder):([^,;()\"]+)")
"""Weights in the line of a retriever that the hub has."""


@dataclass(frozen=True, slots=True)
class Retrieval:
    """What a run needs beside its retriever."""

    rewriter: str | None = None
    base_url: str | None = None
    corpora: Mapping[str, str] = field(default_factory=dict)
    """Domain -> another corpus than the benchmark's own."""
    queries: Sequence[str] = ("last_turn",)
    encode_with: str | None = None


@dataclass(frozen=True, slots=True)
class LookAhead:
    """How far an evaluation is looked at before it begins."""

    dry_run: bool = False
    probe: bool = True
    tokenizer: str | None = None
    prompts_per_minute: float | None = None
    limit: float | None = None
    """How many prompts of each harness task are asked, as lm_eval's --limit."""
    reply_tokens: int | None = None
    """The longest reply, where that is not the tasks' own."""

    def begin_run(self, request: Request, problems: Sequence[str] = ()) -> bool:
        """Return whether what the harness is asked for shall be evaluated; refuse what lacks something."""
        from ragtasks.harness.preflight import intention_of

        intention = replace(intention_of(request), problems=problems, tokenizer=self.tokenizer)
        look = replace(self, limit=request.limit, reply_tokens=request.reply_tokens)
        return look.begin(intention, request.tasks, request.metadata)

    def begin_system(self, intention: Intention, options: Mapping[str, Any], answers: Answers | None = None) -> bool:
        """Return whether to score a system's answers, given or requested: to a benchmark, or to the user's rows."""
        if answers is not None:
            return self.begin_answers(replace(intention, needs_passages=False), answers)
        settings: dict[str, list[Setting]] = {}
        for benchmark, setting in intention.parts:
            settings.setdefault(benchmark, []).append(setting)
        tasks = [task for name, chosen in settings.items() for task in own_tasks_of(name, chosen)]
        # What an answers file or an endpoint brings needs no passages of the setting.
        return self.begin(replace(intention, needs_passages=False), tasks, options, has_model=False)

    def begin_answers(self, intention: Intention, answers: Answers | SystemTasks) -> bool:
        """Return whether to score answers that are there; judges' requests are counted on these."""
        from ragtasks.harness.preflight import require
        from ragtasks.reports import planned
        from ragtasks.scoring import planning

        require(intention, probes=self.probe and not self.dry_run)
        is_priced = any(getattr(judge, "price", None) for judge in intention.config.judges)
        if not (self.dry_run or is_priced):
            return True
        found = answers() if callable(answers) else answers
        tasks = [task for members in found.values() for task in members]
        with progress_bars() as progress:
            judging = (
                planning.judging_of(tasks, planning.counter(self.tokenizer), own_place(), progress)
                if intention.config.judges
                else planning.JudgingPlan(0, 0)
            )
        spending = planned.spending_table((), judging, intention.config, are_there=True)
        if not self.dry_run:
            _say_cost(spending)
            return True
        tables = (planned.answers_table(found), *([spending] if intention.config.judges else []))
        echo(render([Section("What it will take", planning.scores_note(tasks), tables)], Format.MARKDOWN))
        echo(_CHECKED)
        return False

    def begin_retrieval(self, benchmark: str, data: str | None, line: str, asked: Retrieval) -> bool:
        """Return whether to make runs of a retriever."""
        from ragtasks.harness.preflight import Intention
        from retrieval_cache import Rewriter, check_request, served_encoders

        config, problems = config_from_options({"data": data} if data else {}), []
        served: list[Endpoint] = []
        weights: list[str] = []
        rewriting = Rewriter(asked.rewriter, asked.base_url)
        for form in asked.queries:
            try:
                check_request(retrieval_place(benchmark, data), line, form, rewriting, asked.encode_with)
            except RagtasksError as error:
                problems.append(str(error))
        try:
            served = served_encoders(line, secret)
            weights = [name for name in _ENCODERS.findall(line) if name not in {one.model for one in served}]
        except RagtasksError as error:
            problems.append(str(error))
        if asked.rewriter:
            rewriter = endpoint_of(asked.rewriter, base_url=asked.base_url)
            config = config.model_copy(update={"rewriter": rewriter})
        intention = Intention(
            parts=[(benchmark, Setting.FULL_RAG)],
            config=config,
            output=run_store(),
            is_scored=False,
            needs_passages=False,
            encoders=weights,
            served_encoders=served,
            corpora=asked.corpora,
            problems=problems,
        )
        return self.begin(intention, (), {})

    def begin(
        self, intention: Intention, tasks: Sequence[str], options: Mapping[str, Any], *, has_model: bool = True
    ) -> bool:
        """Return whether to go on; `tasks` are the harness tasks that a dry run looks at.

        Without `has_model` the answers come from the system of the intention or from a file, not from a harness model.
        """
        from ragtasks.harness.preflight import require

        require(intention, probes=self.probe and not self.dry_run)
        if self.dry_run:
            if tasks:
                self._print_plan(intention, tasks, options, has_model=has_model)
            echo(_CHECKED)
        elif any(getattr(judge, "price", None) for judge in intention.config.judges) and tasks:
            self._print_cost(tasks, options)
        return not self.dry_run

    def _print_plan(
        self, intention: Intention, tasks: Sequence[str], options: Mapping[str, Any], *, has_model: bool
    ) -> None:
        """Print prompts, tokens, contexts, and what judges will be asked and cost."""
        from ragtasks.harness.planning import plan
        from ragtasks.reports import planned
        from ragtasks.scoring.planning import counter

        has_judges = bool(intention.config.judges)
        with progress_bars() as progress:
            count = counter(self.tokenizer)
            settings, judging = plan(
                tasks,
                options,
                count,
                with_judges=has_judges,
                limit=self.limit,
                reply_tokens=self.reply_tokens,
                progress=progress,
            )
        tables: list[Table] = []
        if has_model:
            tables.append(planned.prompts_table(settings, is_estimate=self.tokenizer is None))
        elif intention.system is not None:
            tables.append(planned.system_table(settings))
        if has_model or has_judges:
            asked = settings if has_model else ()
            tables.append(planned.spending_table(asked, judging, config_from_metadata(options)))
        provenance = {"tasks": ", ".join(tasks)}
        if rate := self.prompts_per_minute:
            hours = planned.hours(settings, rate)
            provenance["answers take"] = f"{hours:.1f} hours at {rate:g} prompts a minute"
        echo(render([Section("What it will take", provenance, tuple(tables))], Format.MARKDOWN))

    def _print_cost(self, tasks: Sequence[str], options: Mapping[str, Any]) -> None:
        """Say what judges will cost, as far as their prices are known."""
        from ragtasks.harness.planning import plan
        from ragtasks.reports.planned import spending_table
        from ragtasks.scoring.planning import estimated_tokens

        with progress_bars() as progress:
            _, judging = plan(tasks, options, estimated_tokens, limit=self.limit, progress=progress)
        _say_cost(spending_table((), judging, config_from_metadata(options)))


def _say_cost(spending: Table) -> None:
    """Say what each judge with a price will cost."""
    for judge, n_calls, _, _, expected, most, _ in spending.rows:
        if expected != "-":
            line = f"{judge}: {n_calls:,} calls, about ${expected}, at most ${most} (cached replies are free)"
            typer.echo(line, err=True)


def own_place() -> Place:
    """Return where fetched benchmarks and stored runs are."""
    from ragtasks.scoring import Place

    return Place(data_folder(), run_store())

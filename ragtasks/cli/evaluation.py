"""`ragtasks eval` runs an evaluation file; `ragtasks run` passes arguments to lm_eval."""

from __future__ import annotations

import json
import shlex
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ragtasks.cli.app import HELP_ALL, app, echo
from ragtasks.cli.look_ahead import DRY_RUN, PROBE, LookAhead
from ragtasks.cli.options import (
    DATA,
    ENCODER,
    FORCE,
    JUDGE,
    METRIC,
    RUN,
    decide_as_named,
    given_options,
    retrieval_workspace,
)
from ragtasks.cli.reporting import conclude, conclude_runs
from ragtasks.cli.score import Scoring, SystemInput, input_of_file, input_of_traces, is_of_own_rows
from ragtasks.clients import judge_requirements
from ragtasks.config import (
    FILE_NAME,
    EvaluationConfig,
    EvaluationFile,
    ReadEvaluation,
    UntilDecidedSection,
    as_yaml,
    config_from_options,
    named_systems,
    read_evaluation_file,
    slug,
)
from ragtasks.config.environment import secret
from ragtasks.errors import ConfigurationError, ImplausibleError, RagtasksError, close_matches
from ragtasks.files import canonical_hash, writable_file, writable_folder, write_atomically
from ragtasks.harness.names import model_types, reject_unknown_names
from ragtasks.harness.tasks import tasks_of
from ragtasks.progress import step
from ragtasks.records import Setting
from ragtasks.requirements import Requirement
from ragtasks.tables import Format, render

if TYPE_CHECKING:
    from ragtasks.harness.run import Request
    from ragtasks.results import Evaluation
    from ragtasks.scoring import SystemScores

RESULTS = Path("results")
"""Default folder for results."""
_COPY_HEAD = "# This evaluation: the file with the values of --set; written by `ragtasks eval`.\n"

FILE = Annotated[Path, typer.Argument(help="Evaluation file, written by `ragtasks init`.")]
SET = Annotated[
    list[str] | None,
    typer.Option("--set", metavar="KEY=VALUE", help="Override a key, such as model.limit=20; repeatable."),
]


@app.command("eval")
def evaluate(  # noqa: PLR0917 (one parameter an option)
    file: FILE = Path("evaluation.yaml"),
    overrides: SET = None,
    full: Annotated[
        bool, typer.Option("--full", help="Also print lm_eval's table of all values.", hidden=True)
    ] = False,
    force: FORCE = False,
    dry_run: DRY_RUN = False,
    probe: PROBE = True,
) -> None:
    """Run evaluation.yaml: check, evaluate, print the conclusion."""
    read = read_evaluation_file(file, overrides or ())
    subject = read.evaluation.subject
    folder = read.evaluation.output or results_folder(read.evaluation.name, _label(read.evaluation))
    estimate = read.evaluation.estimate
    look = LookAhead(dry_run, probe, *((estimate.tokenizer, estimate.prompts_per_minute) if estimate else ()))
    session = _Session(read, folder, look, force=force, full=full)
    _check_later_sections(read.evaluation)
    run = _run_harness if subject == "model" or read.evaluation.tasks else _score_system
    (_run_retriever if subject == "retriever" else run)(session)


def _check_later_sections(evaluation: EvaluationFile) -> None:
    """Check the sections `gate` and `until_decided` and the option `failed_turn` before the model answers."""
    from ragtasks.suites import known_metric_names

    if definition := evaluation.config.failed_turn:
        from ragtasks.reports.tables import check_failed_turn
        from ragtasks.results import USAGE_NAMES

        check_failed_turn(definition, {*known_metric_names(), *USAGE_NAMES})

    if evaluation.gate is not None:
        from ragtasks.metrics import TURN_ERROR_NAMES
        from ragtasks.reports import gate

        gate.reject_unknown_names(evaluation.gate, {*known_metric_names(), *TURN_ERROR_NAMES})
    if evaluation.until_decided is not None:
        from ragtasks.results import read_evaluations

        metric, metric_names = evaluation.until_decided.metric, known_metric_names()
        if metric is not None and metric not in metric_names:
            raise ConfigurationError(
                f"until_decided.metric: no metric {metric!r}; {close_matches(metric, metric_names)}"
            )
        read_evaluations(evaluation.until_decided.against)


def _label(evaluation: EvaluationFile) -> str:
    """Return the part of a folder name for the benchmark or the tasks of an evaluation."""
    from ragtasks.benchmarks import ROWS

    answers, named = evaluation.answers, evaluation.named_benchmark
    if evaluation.traces is not None or (answers is not None and is_of_own_rows(answers.file, named, answers.keys)):
        return ROWS
    return label_of(evaluation.tasks) if evaluation.tasks else evaluation.benchmark


def label_of(tasks: Sequence[str]) -> str:
    """Return a name for harness tasks: the first task and the number of further tasks."""
    return f"{tasks[0]}-and-{len(tasks) - 1}-more" if len(tasks) > 1 else tasks[0] if tasks else "tasks"


def results_folder(model: str, data: str) -> Path:
    """Return a folder for results, named by model, benchmark and time. A folder with unfinished work is continued."""
    begin = f"{slug(model)}-{slug(data)}"
    unfinished = {file.relative_to(RESULTS).parts[0] for file in RESULTS.glob(f"{begin}-*/**/unfinished_*.sqlite")}
    if unfinished:
        return RESULTS / max(unfinished)
    return RESULTS / f"{begin}-{datetime.now():%Y%m%d-%H%M%S}"


@dataclass(frozen=True)
class _Session:
    """One evaluation, its folder and its options."""

    source: ReadEvaluation
    folder: Path
    look: LookAhead
    force: bool
    full: bool
    started: float = field(default_factory=time.monotonic)

    @property
    def evaluation(self) -> EvaluationFile:
        """The contents of the evaluation file."""
        return self.source.evaluation

    @property
    def page(self) -> Path | None:
        """Path of the HTML page; None with `html: null`."""
        report = self.evaluation.report
        return self.folder / "page.html" if report is None or "html" not in report.model_fields_set else report.html

    def requirements(self) -> list[Requirement]:
        """Return the requirements of the folder, the page and the judges of `until_decided`."""
        page = [writable_file(self.page, "report.html")] if self.page is not None else []
        later = self.evaluation.judges if self.evaluation.until_decided is not None else ()
        judges = config_from_options({"judges": list(later)}).judges
        return [writable_folder(self.folder, "output"), *page, *judge_requirements(judges, secret)]

    def notes(self) -> dict[str, Any]:
        """Return the evaluation file as stored with the results."""
        content = json.loads(json.dumps(self.source.content, default=str))  # YAML has dates
        return {"evaluation_file": {"name": FILE_NAME, "hash": canonical_hash(content), "content": content}}

    def keep_file(self) -> None:
        """Write the evaluation file to the results folder. A file that a user wrote there is kept."""
        self.folder.mkdir(parents=True, exist_ok=True)
        target = self.folder / FILE_NAME
        if not target.exists() or target.read_text("utf-8").startswith(_COPY_HEAD):
            write_atomically(target, (_COPY_HEAD + as_yaml(self.source.content)).encode())

    def end(self, files: Sequence[Path], notes: Sequence[str] = (), *, failed: bool = False) -> None:
        """Print the conclusion, the duration, one wrong answer, the page and the next step.

        No next step is printed for a failed evaluation, because the error raised afterwards contains one.
        """
        conclude(files, self.page, lambda evaluations: self._ending(evaluations, notes))
        if self.evaluation.until_decided is not None:
            self._decide(self.evaluation.until_decided)
        if not failed:
            echo(f"next: {next_step(self.folder, self.page, self.evaluation)}")

    def _ending(self, evaluations: Sequence[Evaluation], notes: Sequence[str]) -> Iterator[str]:
        from ragtasks.reports.comparison import differences_text
        from ragtasks.reports.outcome import example_lines, work_lines

        yield from notes
        if len(evaluations) > 1 and "arms" in (self.evaluation.endpoint or {}):
            yield from (differences_text(evaluations), "")
        if evaluations:
            yield from work_lines(evaluations, time.monotonic() - self.started)
            yield from example_lines(evaluations)
        yield f"wrote {self.folder}"

    def _decide(self, wanted: UntilDecidedSection) -> None:
        """Judge this system and the systems of `against` until the better system is decided."""
        from ragtasks.scoring import RaceOptions

        evaluation_options = self.evaluation.given_options
        names = ("data", "prompts", "idk", "skip_settled", "min_judge_coverage")
        options: dict[str, Any] = {key: evaluation_options[key] for key in names if key in evaluation_options}
        echo("judging until decided:")
        decide_as_named(
            [*wanted.against, self.folder],
            {"judges": list(self.evaluation.judges), **options},
            RaceOptions(wanted.metric, None, wanted.margin, wanted.seed),
            self.folder.with_name(f"{self.folder.name}-decided"),
            force=self.force,
        )


def next_step(folder: Path, page: Path | None, evaluation: EvaluationFile) -> str:
    """Return the next step after an evaluation: fetch the full data after the sample, else the report."""
    if evaluation.data == "sample" and evaluation.benchmark != "custom":
        return f"ragtasks data fetch {evaluation.benchmark}\n      then evaluate again without `data: sample`"
    how = ["--full"] if page is not None else ["--html", "page.html"]
    return shlex.join(["ragtasks", "report", str(folder), *how])


# The evaluated system: models by the harness, answers and endpoints by scoring, runs by relevance judgements.


def _run_harness(session: _Session) -> None:
    """Run the harness with the model, or with each arm of the endpoint, and end the session after the last one."""
    evaluation, runs = session.evaluation, _harness_runs(session)
    for arguments in runs.values():
        reject_unknown_names(arguments)
    with step("loading lm_eval"):
        from ragtasks.harness.run import Callbacks, run_harness

    def begin(request: Request) -> bool:
        is_started = session.look.begin_run(request, [*session.requirements(), *_key(evaluation)])
        if is_started:
            session.keep_file()
        return is_started

    files = {folder: _complete_files(folder, session.folder) for folder in runs}
    waiting = [folder for folder in runs if not files[folder]]
    has_failed = False
    errors: list[RagtasksError] = []

    def finished(folder: Path, written: Sequence[Path], failed: bool) -> None:
        nonlocal has_failed
        files[folder], has_failed = list(written), has_failed or failed
        if folder == waiting[-1]:
            session.end([file for own in files.values() for file in own], failed=has_failed)

    ending = Callbacks(
        begin=begin,
        default_output=lambda *_: session.folder,
        finished=finished,
        with_tables=session.full,
        notes=session.notes(),
    )
    for folder in waiting:
        try:
            run_harness(runs[folder], evaluation.given_options, ending)
        except RagtasksError as error:
            if not files[folder]:
                raise
            errors.append(error)  # the results of this arm are saved, so the others are evaluated
    if errors:
        raise errors[0]


def _complete_files(folder: Path, above: Path) -> list[Path]:
    """Return the results files of an arm that is complete, if another arm of the same call is not; else []."""
    unfinished = {file.parent for file in above.glob("*/unfinished_*")}
    return sorted(folder.glob("*/results_*.json")) if unfinished - {folder} and folder not in unfinished else []


def _harness_runs(session: _Session) -> dict[Path, list[str]]:
    """Return folder -> arguments of lm_eval, for the model, or for each arm of the endpoint."""
    evaluation, folder = session.evaluation, session.folder
    if evaluation.endpoint is None:
        return {folder: [*_harness_arguments(evaluation), "--output_path", str(folder)]}
    systems = named_systems(evaluation.endpoint)
    runs = {}
    for endpoint, protocol in systems:
        fields = {**endpoint.model_dump(mode="json", exclude_defaults=True), "protocol": protocol.value}
        output = folder / slug(endpoint.model) if len(systems) > 1 else folder
        arguments = ["--model", "ragtasks-endpoint", "--model_args", json.dumps(fields)]
        runs[output] = [*arguments, "--tasks", ",".join(evaluation.tasks), "--output_path", str(output)]
    return runs


def _harness_arguments(evaluation: EvaluationFile) -> list[str]:
    """Return the model's section and its tasks as arguments of lm_eval."""
    model = evaluation.model
    assert model is not None
    key = secret(model.api_key_env) if model.api_key_env else None
    # `run_harness` masks the header in all output.
    header = {"header": {"Authorization": f"Bearer {key}"}} if key else {}
    model_arguments = {**model.harness_arguments, **header}
    tasks = evaluation.tasks or tasks_of(evaluation.benchmark, evaluation.settings)
    arguments = ["--model", model.harness_kind, "--tasks", ",".join(tasks)]
    if model_arguments:
        arguments += ["--model_args", json.dumps(model_arguments)]
    if model.chat and not model.is_baseline:
        arguments.append("--apply_chat_template")
    if model.generation:
        arguments += ["--gen_kwargs", json.dumps(model.generation)]
    for option, value in (("--limit", model.limit), ("--batch_size", model.batch_size)):
        arguments += [option, str(value)] if value is not None else []
    return arguments


def _key(evaluation: EvaluationFile) -> list[Requirement]:
    """Return the requirement that the variable `api_key_env` is set."""
    model = evaluation.model
    if model is None or model.api_key_env is None:
        return []
    part, variable = f"model {model.name}", model.api_key_env

    def check() -> str:
        if not secret(variable):
            raise ConfigurationError(
                f"{part}: api_key_env names {variable}, which is not set. Next step: export {variable}"
            )
        return f"{variable} is set"

    return [Requirement("key", part, check)]


def _score_system(session: _Session) -> None:
    from ragtasks.reports.outcome import score_notes

    scoring = Scoring(session.evaluation.given_options, session.folder, session.look, session.force, session.notes())
    inputs = _inputs(session)
    if not scoring.begin(inputs, session.requirements()):
        return
    session.keep_file()
    done = [scoring.score(system) for system in inputs]
    error = _error_of(done, session.folder)
    notes = [line for scores in done for line in score_notes(scores)]
    session.end([scores.file for scores in done], notes, failed=error is not None)
    if error is not None:
        raise error


def _error_of(done: Sequence[SystemScores], folder: Path) -> RagtasksError | None:
    """Return the first failure, or an error for too many implausible answers; None if all went well."""
    if problems := [problem for scores in done for problem in scores.problems]:
        return RagtasksError(f"everything is saved in {folder}, but:\n" + "\n".join(problems))
    try:
        for scores in done:
            scores.require_plausible()
    except ImplausibleError as error:
        return error
    return None


def _inputs(session: _Session) -> list[SystemInput]:
    """Return the user's system, once for each setting."""
    evaluation = session.evaluation
    options, settings = evaluation.given_options, evaluation.settings
    if evaluation.traces is not None:
        return [input_of_traces(options, evaluation.traces.file, evaluation.traces.name)]
    if evaluation.answers is not None:
        if len(settings) > 1:
            raise ConfigurationError(
                "settings: a file of answers has one setting. Next step: name the setting of these answers"
            )
        answers, setting = evaluation.answers, settings[0] if settings else None
        return [
            input_of_file(options, answers.file, answers.name, evaluation.named_benchmark, setting, keys=answers.keys)
        ]
    return [
        SystemInput(system[0].model, session.folder, None, evaluation.benchmark, setting, system)
        for system in named_systems(evaluation.endpoint or {})
        for setting in settings or (Setting.FULL_RAG,)
    ]


def _run_retriever(session: _Session) -> None:
    from ragtasks.reports.comparison import concluded_runs
    from retrieval_cache import (
        Rewriter,
        compare_runs,
        evaluate_runs,
        has_judgements,
        retrieval_requirements,
        retrieve,
    )

    evaluation = session.evaluation
    retriever = evaluation.retriever
    assert retriever is not None
    workspace = retrieval_workspace(evaluation.benchmark, evaluation.data)
    arguments: dict[str, Any] = {"rewriter": Rewriter(retriever.rewriter)}
    arguments |= {"corpora": retriever.corpora, "encode_with": retriever.encode_with}
    requirements = retrieval_requirements(workspace, retriever.line, retriever.queries, **arguments)
    if not session.look.begin([*session.requirements(), *requirements], EvaluationConfig()):
        return
    session.keep_file()
    runs = [retrieve(workspace, retriever.line, form, depth=retriever.depth, **arguments) for form in retriever.queries]
    names = [run.folder.name for run in runs]
    echo(*(f"run {run.folder.name} in {run.folder}" for run in runs))
    if has_judgements(workspace):
        section = concluded_runs(evaluate_runs(workspace, names), compare_runs(workspace, names, n_least=1))
        tables = session.folder / "retrieval.md"
        write_atomically(tables, render([section], Format.MARKDOWN).encode())
        conclude_runs(section, session.page, full=session.full)
        echo(f"wrote {tables}")
    else:
        echo("no scores and no page: this benchmark has no relevance judgements")
    echo(f"wrote {session.folder}")
    data = ["--data", evaluation.data] if evaluation.data else []
    compared = names if len(names) > 1 else ["official", names[0]]
    step = ["ragtasks", "compare", *compared, "--benchmark", evaluation.benchmark, *data]
    echo(f"next: {shlex.join(step)}")


# `ragtasks run`: passes arguments on to lm_eval.

_PASS_THROUGH = {"allow_extra_args": True, "ignore_unknown_options": True, "help_option_names": []}


@app.command(context_settings=_PASS_THROUGH)
def run(  # noqa: PLR0917 (one parameter an option)
    context: typer.Context,
    data: DATA = None,
    run: RUN = None,
    judges: JUDGE = None,
    encoder: ENCODER = None,
    metrics: METRIC = None,
    full: Annotated[
        bool, typer.Option("--full", help="Also print lm_eval's table of all values.", hidden=True)
    ] = False,
    dry_run: DRY_RUN = False,
    probe: PROBE = True,
) -> None:
    """Run harness tasks with the arguments of `lm_eval run`.

    Arguments of lm_eval: --model KIND, --model_args KEY=VALUE,...,
    --tasks NAMES, --limit N, --apply_chat_template; --help-all lists all.
    --metadata KEY=VALUE sets any other option of an evaluation,
    such as max_words=50 (docs/evaluate-a-model.md).
    --output FOLDER saves results and samples. `ragtasks tasks list` lists tasks.
    Models without weights: ragtasks-extractive, ragtasks-oracle,
    ragtasks-refuse, ragtasks-refuse-on-empty.
    --for-submission B (or C) runs all tasks required by `submit --task B`.
    """
    if wanted := {"-h", "--help", HELP_ALL} & set(context.args):
        echo(context.get_help())
        if HELP_ALL not in wanted:
            return
    if context.args and not wanted and not context.args[0].startswith("-"):
        raise ConfigurationError(f"run: {context.args[0]!r} follows no option. Next step: --tasks {context.args[0]}")
    reject_unknown_names(context.args)
    with step("loading lm_eval"):
        from ragtasks.harness.run import Callbacks, run_harness

    if wanted:
        echo(f"Kinds of --model: {', '.join(sorted(model_types()))}\n")
        run_harness(["--help"])
        return
    look = LookAhead(dry_run, probe)
    ending = Callbacks(
        begin=look.begin_run,
        default_output=lambda model, tasks: results_folder(Path(model).name, label_of(tasks)),
        finished=_end_of_run,
        with_tables=full,
    )
    options = given_options(None, data=data, run=run, judges=judges, encoder=encoder, metrics=metrics)
    run_harness(context.args, options, ending)


def _end_of_run(folder: Path, files: Sequence[Path], failed: bool) -> None:
    conclude(files, None)
    echo(f"wrote {folder}")
    if not failed:
        echo(f"next: {shlex.join(['ragtasks', 'report', str(folder), '--html', 'page.html'])}")

"""`ragtasks score`: scores existing answers, saved results, and running systems."""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ragtasks.benchmarks import DEFAULT_BENCHMARK
from ragtasks.cli.app import app, echo, may_be_replaced
from ragtasks.cli.look_ahead import DRY_RUN, PROBE, LookAhead, local_folders
from ragtasks.cli.options import DATA, ENCODER, FORCE, JUDGE, METADATA, METRIC, given_options, key_option
from ragtasks.cli.trec_rag import is_of_track, score_track
from ragtasks.clients import Endpoint, SystemProtocol, system_endpoint, system_requirements
from ragtasks.config import config_from_options
from ragtasks.config.environment import data_folder, run_store, secret
from ragtasks.errors import ConfigurationError, RagtasksError, missing_path, shortened_list
from ragtasks.files import first_row, write_atomically, written_lines
from ragtasks.records import Setting
from ragtasks.requirements import Requirement
from ragtasks.submissions import FileForm, form_of_file

if TYPE_CHECKING:
    from ragtasks.results import OwnRows, SavedEvaluation, SavedTask
    from ragtasks.scoring import SystemAnswers, SystemScores

_DEFAULT_OUTPUT = Path("results")


@app.command()
def score(  # noqa: PLR0917 (one parameter an option)
    answers: Annotated[
        list[str],
        typer.Argument(
            metavar="ANSWERS",
            help="Rows (question, answer, contexts), a benchmark's answers (id, answer), OpenTelemetry spans, saved "
            "results, or the address of a running system.",
        ),
    ],
    benchmark: Annotated[
        str | None, typer.Option(help="Benchmark of the answers. Default: mtrag; none for rows with questions.")
    ] = None,
    setting: Annotated[
        Setting | None,
        typer.Option(
            metavar="<setting>",
            help="Source of the passages: reference, reference_rag, full_rag or agentic.",
        ),
    ] = None,
    name: Annotated[str | None, typer.Option(help="Name of the system; default: name of the file.")] = None,
    keys: Annotated[
        str | None,
        typer.Option(metavar="NAME=KEY,...", help="Keys of your file, such as answer=response,question=inputs.query."),
    ] = None,
    protocol: Annotated[str, typer.Option(help="Protocol: openai (default) or plain.", show_default=False)] = "openai",
    output: Annotated[Path | None, typer.Option(help="Folder for results; default: results.")] = None,
    data: DATA = None,
    run: Annotated[str | None, key_option("run", hidden=True)] = None,
    judges: JUDGE = None,
    encoder: ENCODER = None,
    metrics: METRIC = None,
    metadata: METADATA = None,
    force: FORCE = False,
    dry_run: DRY_RUN = False,
    probe: PROBE = True,
) -> None:
    """Score rows, answers, a running system, or saved results again.

    Rows with a question are your own; other files answer a benchmark.
    """
    options = given_options(metadata, data=data, run=run, judges=judges, encoder=encoder, metrics=metrics)
    scoring = Scoring(options, output or _DEFAULT_OUTPUT, LookAhead(dry_run, probe), force=force)
    paths = [Path(endpoint) for endpoint in answers]
    if is_of_track(paths):
        track_options = {"name": name, "setting": setting, "keys": keys, "dry-run": dry_run}
        score_track(paths, options, output, [key for key, value in track_options.items() if value])
        return
    config_from_options(options)  # its errors take precedence over those of files
    if name is not None and len(answers) > 1:
        raise ConfigurationError(
            "--name: requires a single file; several systems are named by their files. Next step: leave out --name"
        )
    if any(text.startswith(("http://", "https://", "{")) for text in answers):
        if len(answers) > 1:
            raise ConfigurationError("score: an address must be the only argument. Next step: leave out the others")
        if keys is not None:
            raise ConfigurationError(
                "--keys: applies to files only; docs/score-your-system.md lists the keys of a reply"
            )
        system, answered_setting = (
            system_endpoint(answers[0], name or "rag-system", protocol),
            setting or Setting.FULL_RAG,
        )
        endpoint = SystemInput(
            name or system[0].model, scoring.output, None, benchmark or DEFAULT_BENCHMARK, answered_setting, system
        )
        _score_inputs(scoring, [endpoint])
    elif any(map(_is_saved, _require_answers(paths))):
        if output is None or name is not None or keys is not None:
            command = shlex.join(["ragtasks", "score", *answers, "--output", "again"])
            raise ConfigurationError(
                f"scoring results again keeps their names and requires another folder. Next step: {command}"
            )
        _score_again(scoring, paths, benchmark, setting)
    else:
        inputs = [input_of_file(options, file, name, benchmark, setting, keys=keys or {}) for file in paths]
        _score_inputs(scoring, inputs)


def _require_answers(paths: Sequence[Path]) -> Sequence[Path]:
    """Return the paths. Raises ConfigurationError for a file without answers, with the command for its content."""
    for path in paths:
        if not path.exists():
            has_port = re.match(r"[\w.-]+:\d+(/|$)", str(path))
            raise _no_answers(path, *(("no scheme", f"write http://{path}") if has_port else missing_path(path)))
        form = None if path.is_dir() else form_of_file(path)
        if path.suffix in {".yaml", ".yml"}:
            raise _no_answers(path, "an evaluation file", f"ragtasks eval {path}")
        if form in {FileForm.RUN, FileForm.QRELS}:
            raise _no_answers(path, form.value, "ragtasks evaluate-run RUN --qrels QRELS")
        if path.is_dir() and not any(file.suffix in {".json", ".jsonl"} for file in path.rglob("*")):
            names = shortened_list(sorted(file.name for file in path.iterdir()), 3)
            raise _no_answers(path, f"a folder with {names or 'nothing'}", "name a file: ragtasks score FILE")
    return paths


def _no_answers(path: Path, found: str, next_step: str) -> ConfigurationError:
    expected = "a file of rows, answers or spans, a folder of results (results_*.json), or an address"
    return ConfigurationError("answers", where=str(path), expected=expected, found=found, next_step=next_step)


def _score_inputs(scoring: Scoring, inputs: Sequence[SystemInput]) -> None:
    if scoring.begin(inputs):
        for system in inputs:
            _show(scoring.score(system), scoring.output)


@dataclass(frozen=True)
class SystemInput:
    """The source of a system's answers: own rows, answers to a benchmark, or a running system."""

    name: str
    source: Path
    """The file, or the folder for the replies of an endpoint."""
    rows: OwnRows | None = None
    """The user's own rows; None for answers to a benchmark."""
    benchmark: str = ""
    setting: Setting | None = None
    endpoint: tuple[Endpoint, SystemProtocol] | None = None
    """The running system; None if a file contains the answers."""
    keys: Mapping[str, str] = field(default_factory=dict)
    """Mapping of the file's keys, given by the user."""
    lines: bytes = b""
    """Rows extracted from a file of spans, as JSON lines."""


@dataclass(frozen=True)
class Scoring:
    """The options shared by all systems of one call."""

    options: Mapping[str, Any]
    output: Path
    look: LookAhead
    force: bool = False
    notes: Mapping[str, Any] = field(default_factory=dict)

    def begin(self, inputs: Sequence[SystemInput], further: Sequence[Requirement] = ()) -> bool:
        """Check all requirements and return whether to score."""
        from ragtasks.scoring import evaluation_requirements

        own = [system.rows.benchmark for system in inputs if system.rows is not None]
        parts = [(system.benchmark, system.setting or Setting.FULL_RAG) for system in inputs if system.rows is None]
        systems = [system.endpoint for system in inputs if system.endpoint is not None]
        files = [system.source for system in inputs if system.endpoint is None and system.rows is None]
        config = config_from_options(self.options)
        requirements = [
            *further,
            *(_answers_file(file, may_be_missing=self.look.dry_run) for file in files),
            # An answers file or an endpoint supplies its own passages.
            *evaluation_requirements(parts, config, self.output, local_folders(), opened=own, needs_passages=False),
            *(requirement for system in dict.fromkeys(systems) for requirement in system_requirements(*system, secret)),
        ]
        if all(system.endpoint is None and system.source.is_file() for system in inputs):
            return self.look.begin_answers(requirements, config, partial(self._tasks_of, inputs))
        return self.look.begin_system(requirements, parts, self.options, has_endpoint=bool(systems))

    def _tasks_of(self, inputs: Sequence[SystemInput]) -> dict[str, list[SavedTask]]:
        """Return system -> its answers in files."""
        tasks: dict[str, list[SavedTask]] = {}
        for system in inputs:
            tasks.setdefault(system.name, []).extend(self._read(system).evaluation.tasks)
        return tasks

    def begin_saved(self, evaluations: Sequence[SavedEvaluation]) -> bool:
        """Check all requirements of saved evaluations and return whether to score them again."""
        from ragtasks.benchmarks import ROWS
        from ragtasks.scoring import evaluation_requirements

        # The configuration of each: the saved one, overridden by the options.
        groups: dict[tuple[bool, str | None], dict[str, list[SavedTask]]] = {}
        for evaluation in evaluations:
            for task in evaluation.tasks:
                members = groups.setdefault((task.benchmark == ROWS, task.config.data), {})
                members.setdefault(str(evaluation.folder), []).append(task)
        is_started = True
        for (are_rows, _), systems in groups.items():
            tasks = [task for members in systems.values() for task in members]
            config = tasks[0].config
            requirements = evaluation_requirements(
                [] if are_rows else list(dict.fromkeys((task.benchmark, Setting.FULL_RAG) for task in tasks)),
                config,
                self.output,
                local_folders(),
                suites={task.benchmark: task.provenance["suite"] for task in tasks if task.provenance.get("suite")},
                needs_passages=False,
            )
            is_started = self.look.begin_answers(requirements, config, partial(dict, systems)) and is_started
        return is_started

    def score(self, system: SystemInput) -> SystemScores:
        """Score a system and save it; rows of spans are saved next to the results."""
        from ragtasks.scoring import score_answers

        done = score_answers(self._read(system), local_folders(), _local_judge, self.notes)
        if system.lines:
            rows = done.file.with_name("rows.jsonl")
            write_atomically(rows, system.lines)
            echo(f"wrote {rows} ({len(system.lines.splitlines())} rows)")
        return done

    def _read(self, answered: SystemInput) -> SystemAnswers:
        """Return the answers in a system's file, or its replies."""
        from ragtasks.scoring import ScoredSystem, rows_to_score, system_to_score

        replaces = partial(may_be_replaced, force=self.force)
        if answered.rows is not None:
            name, source = answered.name, answered.source
            return rows_to_score(
                answered.rows, self.options, self.output, name=name, source=source, may_replace=replaces
            )
        system = ScoredSystem(answered.name, answered.benchmark, answered.setting, answered.source)
        return system_to_score(
            system, _answering(answered), self.options, self.output, local_folders(), may_replace=replaces
        )


def _answers_file(file: Path, *, may_be_missing: bool) -> Requirement:
    """Return the requirement that a file of answers exists. A dry run with a missing file plans for all tasks."""

    def check() -> str:
        if file.is_file():
            return f"{file} exists"
        problem = "no such file"
        next_step = "correct its path; `ragtasks tasks export --output tasks.jsonl` writes the tasks"
        if file.is_dir():
            more = f"`ragtasks score {file} --output DIR` scores saved results"
            problem, next_step = "a folder", f"name the file with answers; {more}"
        elif may_be_missing:
            hint = "".join(missing_path(file)[1].partition("; ")[1:])
            return f"{file} does not exist yet, so the plan includes every task{hint}"
        raise ConfigurationError(f"answers {file}: {problem}. Next step: {next_step}")

    return Requirement("answers", f"answers {file}", check)


def _answering(system: SystemInput) -> Callable[..., Any]:
    """Return the function that reads or requests the answers to a benchmark."""
    from ragtasks.results import read_answers
    from ragtasks.scoring import System, ask_endpoint

    if system.endpoint is None:
        return lambda benchmark, _config, _results: read_answers(system.source, benchmark, data_folder(), system.keys)
    return ask_endpoint(System(*system.endpoint, secret), system.setting or Setting.FULL_RAG, run_store())


def _is_saved(path: Path) -> bool:
    """Return whether a path is a results file, a folder, or a missing path without a suffix."""
    is_folder = path.is_dir() or not (path.suffix or path.exists())
    is_broken = path.name.startswith("results_") and path.suffix == ".json" and not first_row(path)
    return is_folder or is_broken or form_of_file(path) is FileForm.RESULTS


def is_of_own_rows(file: Path, benchmark: str | None, keys: Mapping[str, str] = MappingProxyType({})) -> bool:
    """Return whether a file contains its own questions instead of answers to a benchmark."""
    from ragtasks.benchmarks import ROWS
    from ragtasks.results import contains_own_rows

    return benchmark == ROWS or (benchmark is None and file.is_file() and contains_own_rows(file, keys))


def input_of_file(
    options: Mapping[str, Any],
    file: Path,
    name: str | None,
    benchmark: str | None,
    setting: Setting | None,
    *,
    keys: str | Mapping[str, str],
) -> SystemInput:
    """Return the content of a file: spans, own rows if no benchmark is named, else answers."""
    from ragtasks.results import is_span, named_keys, read_own_rows

    keys = named_keys(keys)
    first = first_row(file)
    if benchmark is None and not keys and is_span(first):
        return input_of_traces(options, file, name)
    name = name or file.stem
    if is_of_own_rows(file, benchmark, keys):
        _refuse_setting(options, file, setting)
        rows = read_own_rows(file, keys)
        if rows.unread_note:
            typer.echo(f"ragtasks: {file}: {rows.unread_note}", err=True)
        return SystemInput(name, file, rows)
    return SystemInput(name, file, benchmark=benchmark or DEFAULT_BENCHMARK, setting=setting, keys=keys)


def input_of_traces(options: Mapping[str, Any], traces: Path, name: str | None) -> SystemInput:
    """Return the answers in a file of spans, as rows."""
    from ragtasks.results import own_rows, read_traces

    _refuse_setting(options, traces, None)
    traced = read_traces(traces)
    for note in traced.notes:
        typer.echo(f"ragtasks: {traces}: {note}", err=True)
    problems: list[str] = []
    rows = own_rows(enumerate(traced.rows, start=1), lambda *problem: problems.append(str(problem)))
    assert not problems, problems
    return SystemInput(name or traces.stem, traces, rows, lines=written_lines(traced.rows))


def _refuse_setting(options: Mapping[str, Any], file: Path, setting: Setting | None) -> None:
    named = [f"--{key}" for key in ("run", "data") if key in options] + (["--setting"] if setting else [])
    if named:
        raise ConfigurationError(
            f"{file}: {', '.join(named)}: your own rows contain their contexts and use no benchmark's. "
            "Next step: leave it out, or name the benchmark of the answers with --benchmark"
        )


def _show(done: SystemScores, output: Path) -> None:
    from ragtasks.reports.outcome import describe_scores

    echo(describe_scores(done))
    echo(f"next: {shlex.join(['ragtasks', 'report', str(output), '--html', 'page.html'])}")
    if done.problems:
        raise RagtasksError(f"everything is saved in {done.file}, but:\n" + "\n".join(done.problems))
    done.require_plausible()


def _score_again(scoring: Scoring, paths: Sequence[Path], benchmark: str | None, setting: Setting | None) -> None:
    """Score saved answers again, with or without judges. The answering model is not needed."""
    from ragtasks.scoring import rescore

    lines = rescore(
        paths,
        scoring.options,
        scoring.output,
        local_folders(),
        benchmark=benchmark,
        setting=None if setting is None else setting.value,
        may_replace=partial(may_be_replaced, force=scoring.force),
        local_judge=_local_judge,
        before=scoring.begin_saved,
    )
    if scoring.look.dry_run:
        return
    echo(*lines)
    echo(f"next: {shlex.join(['ragtasks', 'report', str(scoring.output), '--html', 'page.html'])}")


def _local_judge(model: Any) -> Any:
    """Return a judge run by the harness, which is imported only here."""
    from ragtasks.harness.judge_model import JudgeModel

    return JudgeModel(model)

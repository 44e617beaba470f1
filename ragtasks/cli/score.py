"""`ragtasks score`: answers that are there already, whoever gave them, and those of a running system."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ragtasks.benchmarks import DEFAULT_BENCHMARK
from ragtasks.cli.app import app, echo, may_be_replaced
from ragtasks.cli.look_ahead import DRY_RUN, PROBE, LookAhead, own_place
from ragtasks.cli.options import DATA, ENCODER, FORCE, JUDGE, METADATA, METRIC, RUN, given_options
from ragtasks.cli.trec_rag import scores_track
from ragtasks.clients import Endpoint, SystemProtocol, system_endpoint, system_requirements
from ragtasks.config import config_from_options
from ragtasks.config.environment import data_folder, run_store, secret
from ragtasks.errors import ConfigurationError, RagtasksError, missing_path
from ragtasks.files import write_atomically, written_lines
from ragtasks.records import Setting
from ragtasks.requirements import Requirement

if TYPE_CHECKING:
    from ragtasks.results import OwnRows, SavedEvaluation, SavedTask
    from ragtasks.scoring import SystemAnswers, SystemScores

_DEFAULT_OUTPUT = Path("results")


@app.command()
@scores_track
def score(  # noqa: PLR0917 (one parameter an option)
    answers: Annotated[
        list[Path] | None,
        typer.Argument(
            metavar="ROWS|ANSWERS|RESULTS",
            help="Your rows (question, answer, contexts), a benchmark's answers (id, answer), or saved results.",
        ),
    ] = None,
    benchmark: Annotated[
        str | None, typer.Option(help="What was answered; default: the rows' own questions, else mtrag.")
    ] = None,
    setting: Annotated[
        Setting | None,
        typer.Option(
            metavar="<setting>",
            help="reference, reference_rag, full_rag: whose passages answers without any used; agentic: by `searches`.",
        ),
    ] = None,
    name: Annotated[str | None, typer.Option(help="The system's name; default: the file's.")] = None,
    endpoint: Annotated[
        str | None, typer.Option(help="Address of a running system, or JSON with the keys of an endpoint.")
    ] = None,
    protocol: Annotated[str, typer.Option(help="How the endpoint is asked: openai or plain.")] = "openai",
    traces: Annotated[
        Path | None,
        typer.Option(help="Spans of OpenTelemetry or OpenInference, JSON lines: each trace is a row of your own."),
    ] = None,
    rows_output: Annotated[Path | None, typer.Option(help="File for the rows that --traces holds.")] = None,
    output: Annotated[Path | None, typer.Option(help="Folder for the results; default: results.")] = None,
    data: DATA = None,
    run: RUN = None,
    judges: JUDGE = None,
    encoder: ENCODER = None,
    metrics: METRIC = None,
    metadata: METADATA = None,
    force: FORCE = False,
    dry_run: DRY_RUN = False,
    probe: PROBE = True,
) -> None:
    """Score rows of your own, answers, a running system, or saved results again.

    JSON lines with a question are rows of your own; others answer a benchmark; folders are results.
    """
    options = given_options(metadata, data=data, run=run, judges=judges, encoder=encoder, metrics=metrics)
    given = answers or []
    _refuse_mixed(given, endpoint, traces, rows_output, name)
    scoring = Scoring(options, output or _DEFAULT_OUTPUT, LookAhead(dry_run, probe), force=force)
    scoring.check_options()
    _require_there(given)
    if any(map(_is_saved, given)):
        if output is None or name is not None:
            raise ConfigurationError(
                "results that are scored again keep their names and go to another folder: give --output DIR, and no "
                "--name"
            )
        _score_again(scoring, given, benchmark, setting)
        return
    if endpoint is not None:
        found = system_endpoint(endpoint, name or "rag-system", protocol)
        chosen, where = benchmark or DEFAULT_BENCHMARK, setting or Setting.FULL_RAG
        pieces = [Piece(name or found[0].model, scoring.output, None, chosen, where, found)]
    elif traces is not None:
        _refuse_setting(options, traces, setting)
        pieces = [piece_of_traces(options, traces, name)]
        if rows_output is not None and not dry_run:
            _write_rows(rows_output, pieces[0].lines, force=force)
    else:
        pieces = [piece_of_file(options, file, name, benchmark, setting) for file in given]
    if scoring.goes_on(pieces):
        for piece in pieces:
            _show(scoring.score(piece), scoring.output)


def _require_there(paths: Sequence[Path]) -> None:
    for path in paths:
        if not path.exists():
            found, next_step = missing_path(path)
            raise ConfigurationError(
                "answers",
                where=str(path),
                expected="a file of rows or answers, JSON lines, or a folder of results",
                found=found,
                next_step=next_step,
            )


def _refuse_mixed(
    given: Sequence[Path], endpoint: str | None, traces: Path | None, rows_output: Path | None, name: str | None
) -> None:
    if [bool(given), endpoint is not None, traces is not None].count(True) != 1:
        raise ConfigurationError(
            "name a file of answers or a folder of results, or --endpoint, or --traces: one of them"
        )
    if rows_output is not None and traces is None:
        raise ConfigurationError("--rows-output writes the rows of --traces; name these, or leave it out")
    if name is not None and len(given) > 1:
        raise ConfigurationError("--name is for one file; several have the names of their files")


@dataclass(frozen=True)
class Piece:
    """What is scored as one: rows of one's own, answers to a benchmark, or those that a running system will give."""

    name: str
    source: Path
    """The file, or the folder of what an endpoint replies."""
    rows: OwnRows | None = None
    """Rows of one's own; None where a benchmark was answered."""
    benchmark: str = ""
    setting: Setting | None = None
    endpoint: tuple[Endpoint, SystemProtocol] | None = None
    """The running system; None where a file holds the answers."""
    lines: bytes = b""
    """The rows that a file of spans came to, as JSON lines."""


@dataclass(frozen=True)
class Scoring:
    """How answers are scored, and where to: what is the same for all that one call scores."""

    options: Mapping[str, Any]
    output: Path
    look: LookAhead
    force: bool = False
    notes: Mapping[str, Any] = field(default_factory=dict)

    def check_options(self) -> None:
        """Find what is wrong with the options before any file is read."""
        config_from_options(self.options)

    def goes_on(self, pieces: Sequence[Piece], further: Sequence[Requirement] = ()) -> bool:
        """Return whether to score, after a check of all requirements."""
        from ragtasks.scoring import evaluation_requirements

        own = [piece.rows.benchmark for piece in pieces if piece.rows is not None]
        parts = [(piece.benchmark, piece.setting or Setting.FULL_RAG) for piece in pieces if piece.rows is None]
        systems = [piece.endpoint for piece in pieces if piece.endpoint is not None]
        files = [piece.source for piece in pieces if piece.endpoint is None and piece.rows is None]
        config = config_from_options(self.options)
        requirements = [
            *further,
            *(_answers_file(file, may_be_missing=self.look.dry_run) for file in files),
            # An answers file or an endpoint brings passages of its own.
            *evaluation_requirements(parts, config, self.output, own_place(), opened=own, needs_passages=False),
            *(system_requirements(*systems[0], secret) if systems else ()),
        ]
        if all(piece.endpoint is None and piece.source.is_file() for piece in pieces):
            return self.look.begin_answers(requirements, config, partial(self._tasks_of, pieces))
        return self.look.begin_system(requirements, parts, self.options, has_endpoint=bool(systems))

    def _tasks_of(self, pieces: Sequence[Piece]) -> dict[str, list[SavedTask]]:
        """Return system -> its answers, of files."""
        tasks: dict[str, list[SavedTask]] = {}
        for piece in pieces:
            tasks.setdefault(piece.name, []).extend(self._read(piece).evaluation.tasks)
        return tasks

    def look_at_saved(self, evaluations: Sequence[SavedEvaluation]) -> bool:
        """Return whether to score saved evaluations again, after a check of all requirements."""
        from ragtasks.benchmarks import ROWS
        from ragtasks.scoring import evaluation_requirements

        # What each will be scored with: the saved configuration where it may be taken, and the options.
        groups: dict[tuple[bool, str | None], dict[str, list[SavedTask]]] = {}
        for evaluation in evaluations:
            for task in evaluation.tasks:
                members = groups.setdefault((task.benchmark == ROWS, task.config.data), {})
                members.setdefault(str(evaluation.folder), []).append(task)
        goes_on = True
        for (are_rows, _), systems in groups.items():
            tasks = [task for members in systems.values() for task in members]
            config = tasks[0].config
            requirements = evaluation_requirements(
                [] if are_rows else list(dict.fromkeys((task.benchmark, Setting.FULL_RAG) for task in tasks)),
                config,
                self.output,
                own_place(),
                suites={task.benchmark: task.provenance["suite"] for task in tasks if task.provenance.get("suite")},
                needs_passages=False,
            )
            goes_on = self.look.begin_answers(requirements, config, partial(dict, systems)) and goes_on
        return goes_on

    def score(self, piece: Piece) -> SystemScores:
        """Score one and save it."""
        from ragtasks.scoring import score_answers

        return score_answers(self._read(piece), own_place(), _local_judge, self.notes)

    def _read(self, piece: Piece) -> SystemAnswers:
        """Return the answers that one will be scored by: those of its file, or what its system replies."""
        from ragtasks.scoring import ScoredSystem, rows_to_score, system_to_score

        replaces = partial(may_be_replaced, force=self.force)
        if piece.rows is not None:
            name, source = piece.name, piece.source
            return rows_to_score(piece.rows, self.options, self.output, name=name, source=source, may_replace=replaces)
        system = ScoredSystem(piece.name, piece.benchmark, piece.setting, piece.source)
        return system_to_score(system, _answering(piece), self.options, self.output, own_place(), may_replace=replaces)


def _answers_file(file: Path, *, may_be_missing: bool) -> Requirement:
    """Return the requirement of a file of answers; a dry run plans for all tasks if it is still missing."""

    def check() -> str:
        if file.is_file():
            return f"{file} exists"
        problem, next_step = "there is no such file", "correct its path; `ragtasks tasks export` writes the tasks"
        if file.is_dir():
            more = f"`ragtasks score {file} --output DIR` scores saved results"
            problem, next_step = "a folder", f"name the file with answers; {more}"
        elif may_be_missing:
            hint = "".join(missing_path(file)[1].partition("; ")[1:])
            return f"{file} does not exist yet, so every task is planned for{hint}"
        raise ConfigurationError(f"answers {file}: {problem}. Next step: {next_step}")

    return Requirement("answers", f"answers {file}", check)


def _answering(piece: Piece) -> Callable[..., Any]:
    """Return what gives the answers to a benchmark."""
    from ragtasks.results import read_answers
    from ragtasks.scoring import System, ask_endpoint

    if piece.endpoint is None:
        return lambda benchmark, _config, _results: read_answers(piece.source, benchmark, data_folder())
    return ask_endpoint(System(*piece.endpoint, secret), piece.setting or Setting.FULL_RAG, run_store())


def _is_saved(path: Path) -> bool:
    """Return whether a path is results of an evaluation, or a folder of them, be it one that is not there."""
    is_folder = path.is_dir() or not (path.suffix or path.exists())
    return is_folder or (path.name.startswith("results_") and path.suffix == ".json")


def is_of_own_rows(file: Path, benchmark: str | None) -> bool:
    """Return whether a file answers questions of its own, where a benchmark is named or not."""
    from ragtasks.benchmarks import ROWS
    from ragtasks.results import holds_own_rows

    return benchmark == ROWS or (benchmark is None and file.is_file() and holds_own_rows(file))


def piece_of_file(
    options: Mapping[str, Any], file: Path, name: str | None, benchmark: str | None, setting: Setting | None
) -> Piece:
    """Return what a file holds: rows of one's own where no benchmark is named and it has questions, else answers."""
    from ragtasks.results import read_own_rows

    name = name or file.stem
    if is_of_own_rows(file, benchmark):
        _refuse_setting(options, file, setting)
        rows = read_own_rows(file)
        if rows.unread_note:
            typer.echo(f"ragtasks: {file}: {rows.unread_note}", err=True)
        return Piece(name, file, rows)
    return Piece(name, file, benchmark=benchmark or DEFAULT_BENCHMARK, setting=setting)


def piece_of_traces(options: Mapping[str, Any], traces: Path, name: str | None) -> Piece:
    """Return the answers that a file of spans holds, as rows."""
    from ragtasks.results import own_rows, read_traces

    _refuse_setting(options, traces, None)
    found = read_traces(traces)
    for note in found.notes:
        typer.echo(f"ragtasks: {traces}: {note}", err=True)
    problems: list[str] = []
    rows = own_rows(enumerate(found.rows, start=1), lambda *problem: problems.append(str(problem)))
    assert not problems, problems
    return Piece(name or traces.stem, traces, rows, lines=written_lines(found.rows))


def _write_rows(target: Path, lines: bytes, *, force: bool) -> None:
    if target.exists() and not may_be_replaced([target], force=force):
        raise ConfigurationError(f"--rows-output {target} is there already: name another file, or add --force")
    write_atomically(target, lines)
    echo(f"wrote {target} ({len(lines.splitlines())} rows)")


def _refuse_setting(options: Mapping[str, Any], file: Path, setting: Setting | None) -> None:
    named = [f"--{key}" for key in ("run", "data") if key in options] + (["--setting"] if setting else [])
    if named:
        raise ConfigurationError(
            f"{file}: {', '.join(named)}: rows of your own rest on the contexts that they name, and on no benchmark's. "
            "Next step: leave that out; or name the benchmark that was answered with --benchmark"
        )


def _show(done: SystemScores, output: Path) -> None:
    from ragtasks.reports.outcome import describe_scores

    echo(describe_scores(done))
    echo(f"next: {shlex.join(['ragtasks', 'report', str(output), '--html', 'page.html'])}")
    if done.problems:
        raise RagtasksError(f"everything is saved in {done.file}, but:\n" + "\n".join(done.problems))
    done.require_plausible()


def _score_again(scoring: Scoring, paths: Sequence[Path], benchmark: str | None, setting: Setting | None) -> None:
    """Score what was saved, with judges or without, and without the model that answered."""
    from ragtasks.scoring import rescore

    lines = rescore(
        paths,
        scoring.options,
        scoring.output,
        own_place(),
        benchmark=benchmark,
        setting=None if setting is None else setting.value,
        may_replace=partial(may_be_replaced, force=scoring.force),
        local_judge=_local_judge,
        before=scoring.look_at_saved,
    )
    if scoring.look.dry_run:
        return
    echo(*lines)
    echo(f"next: {shlex.join(['ragtasks', 'report', str(scoring.output), '--html', 'page.html'])}")


def _local_judge(model: Any) -> Any:
    """Return a judge that the harness loads; the harness is imported for such a one only."""
    from ragtasks.harness.judge_model import JudgeModel

    return JudgeModel(model)

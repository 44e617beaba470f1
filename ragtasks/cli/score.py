"""`ragtasks score`: answers that are there already, whoever gave them, and those of a running system."""

from __future__ import annotations

import json
import shlex
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Annotated, Any

import typer

from ragtasks.cli.app import app, echo, may_be_replaced
from ragtasks.cli.options import FORCE, evaluation_options
from ragtasks.cli.trec_rag import scores_track
from ragtasks.errors import ConfigurationError, RagtasksError
from ragtasks.records import Setting

_DEFAULT_OUTPUT = Path("results")


@app.command()
@scores_track
@evaluation_options(asks_model=False)
def score(
    answers: Annotated[
        list[Path] | None,
        typer.Argument(
            metavar="ROWS|ANSWERS|RESULTS",
            help="Your rows (question, answer, contexts), a benchmark's answers (id, answer), or saved results.",
        ),
    ] = None,
    *,
    options: dict[str, Any],
    benchmark: Annotated[
        str | None, typer.Option(help="What was answered; default: the rows' own questions, else mtrag.")
    ] = None,
    setting: Annotated[
        Setting | None,
        typer.Option(
            metavar="<setting>",
            help="reference, reference_rag or full_rag: whose passages answers without `contexts` used.",
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
    force: FORCE = False,
) -> None:
    """Score rows of your own, answers, a running system, or saved results again.

    JSON lines with a question are rows of your own; others answer a benchmark; folders are results.
    """
    given = answers or []
    if [bool(given), endpoint is not None, traces is not None].count(True) != 1:
        raise ConfigurationError(
            "name a file of answers or a folder of results, or --endpoint, or --traces: one of them"
        )
    if rows_output is not None and traces is None:
        raise ConfigurationError("--rows-output writes the rows of --traces; name these, or leave it out")
    places = _Places(options, output, force=force)
    if endpoint is not None:
        asked = (endpoint, protocol, name)
        _score_endpoint(places, asked, benchmark, setting or Setting.FULL_RAG)
    elif traces is not None:
        _refuse_setting(places, traces, setting)
        _score_rows(places, _rows_of_traces(traces, rows_output, force=force), name or traces.stem, traces)
    elif any(map(_is_saved, given)):
        _score_again(places, given, benchmark, setting, name)
    elif name is not None and len(given) > 1:
        raise ConfigurationError("--name is for one file; several have the names of their files")
    else:
        for file in given:
            _score_file(places, file, name or file.stem, benchmark, setting)


class _Places:
    """Where things are, and what is the same for all that one call scores."""

    def __init__(self, options: dict[str, Any], output: Path | None, *, force: bool) -> None:
        from ragtasks.config import config_from_options
        from ragtasks.config.environment import data_folder, run_store
        from ragtasks.scoring import Place

        config_from_options(options)  # before any file is read: what is wrong with them is found at once

        self.options = options
        self.named_output, self.output = output, output or _DEFAULT_OUTPUT
        self.place = Place(data_folder(), run_store())
        self.may_replace = partial(may_be_replaced, force=force)


def _is_saved(path: Path) -> bool:
    """Return whether a path is results of an evaluation, or a folder of them, be it one that is not there."""
    is_folder = path.is_dir() or not (path.suffix or path.exists())
    return is_folder or (path.name.startswith("results_") and path.suffix == ".json")


def _score_file(places: _Places, file: Path, name: str, benchmark: str | None, setting: Setting | None) -> None:
    from ragtasks.benchmarks import DEFAULT_BENCHMARK
    from ragtasks.results import ROWS, holds_own_rows, read_answers, read_own_rows
    from ragtasks.scoring import ScoredSystem

    if benchmark == ROWS or (benchmark is None and holds_own_rows(file)):
        _refuse_setting(places, file, setting)
        _score_rows(places, read_own_rows(file), name, file)
    else:
        system = ScoredSystem(name, benchmark or DEFAULT_BENCHMARK, setting, file)
        _score_answers(places, system, lambda opened, _config, _results: read_answers(file, opened))


def _rows_of_traces(traces: Path, target: Path | None, *, force: bool) -> Any:
    """Return the rows that a file of spans holds, and write them where a file is named for them."""
    from ragtasks.files import write_atomically
    from ragtasks.results import own_rows, read_traces

    found = read_traces(traces)
    for note in found.notes:
        typer.echo(f"ragtasks: {traces}: {note}", err=True)
    if target is not None:
        if target.exists() and not may_be_replaced([target], force=force):
            raise ConfigurationError(f"--rows-output {target} is there already: name another file, or add --force")
        lines = [json.dumps(row, ensure_ascii=False) + "\n" for row in found.rows]
        write_atomically(target, "".join(lines).encode())
        echo(f"wrote {target} ({len(lines)} rows)")
    problems: list[str] = []
    rows = own_rows(enumerate(found.rows, start=1), lambda *problem: problems.append(str(problem)))
    assert not problems, problems
    return rows


def _refuse_setting(places: _Places, file: Path, setting: Setting | None) -> None:
    named = [f"--{key}" for key in ("run", "data") if key in places.options] + (["--setting"] if setting else [])
    if named:
        raise ConfigurationError(
            f"{file}: {', '.join(named)}: rows of your own rest on the contexts that they name, and on no benchmark's. "
            "Next step: leave that out; or name the benchmark that was answered with --benchmark"
        )


def _score_rows(places: _Places, rows: Any, name: str, source: Path) -> None:
    from ragtasks.scoring import score_rows

    if rows.unread_note:
        typer.echo(f"ragtasks: {source}: {rows.unread_note}", err=True)
    done = score_rows(
        rows,
        places.options,
        places.output,
        places.place,
        name=name,
        source=source,
        may_replace=places.may_replace,
        local_judge=_local_judge,
    )
    _show(done, places.output)


def _score_endpoint(
    places: _Places, endpoint: tuple[str, str, str | None], benchmark: str | None, setting: Setting
) -> None:
    """Ask a running system, given as address, protocol and name, and score what it answers."""
    from ragtasks.benchmarks import DEFAULT_BENCHMARK
    from ragtasks.clients import system_endpoint
    from ragtasks.config.environment import run_store, secret
    from ragtasks.scoring import ScoredSystem, System, ask_endpoint

    address, protocol, name = endpoint
    found, chosen = system_endpoint(address, name or "rag-system", protocol)
    system = ScoredSystem(name or found.model, benchmark or DEFAULT_BENCHMARK, setting, places.output)
    _score_answers(places, system, ask_endpoint(System(found, chosen, secret), setting, run_store()))


def _score_answers(places: _Places, system: Any, answering: Any) -> None:
    from ragtasks.scoring import score_system

    done = score_system(
        system,
        answering,
        places.options,
        places.output,
        places.place,
        may_replace=places.may_replace,
        local_judge=_local_judge,
    )
    _show(done, places.output)


def _show(done: Any, output: Path) -> None:
    from ragtasks.reports.system_scores import describe_scores

    echo(describe_scores(done))
    echo(f"next: {shlex.join(['ragtasks', 'report', str(output), '--html', 'page.html'])}")
    if done.problems:
        raise RagtasksError(f"everything is saved in {done.file}, but:\n" + "\n".join(done.problems))
    done.require_plausible()


def _score_again(
    places: _Places, paths: Sequence[Path], benchmark: str | None, setting: Setting | None, name: str | None
) -> None:
    """Score what was saved, with judges or without, and without the model that answered."""
    from ragtasks.scoring import rescore

    if places.named_output is None or name is not None:
        raise ConfigurationError(
            "results that are scored again keep their names and go to another folder: give --output DIR, and no --name"
        )
    lines = rescore(
        paths,
        places.options,
        places.output,
        places.place,
        benchmark=benchmark,
        setting=None if setting is None else setting.value,
        may_replace=places.may_replace,
        local_judge=_local_judge,
    )
    echo(*lines)
    echo(f"next: {shlex.join(['ragtasks', 'report', str(places.output), '--html', 'page.html'])}")


def _local_judge(model: Any) -> Any:
    """Return a judge that the harness loads; the harness is imported for such a one only."""
    from ragtasks.harness.judge_model import JudgeModel

    return JudgeModel(model)

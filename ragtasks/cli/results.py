"""`ragtasks results`: evaluations and stored runs listed, shown, compared and removed; a leaderboard, and exports."""

from __future__ import annotations

from collections.abc import Iterator
from enum import Enum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ragtasks.cli.app import app, echo, leave_out, may_be_replaced, put
from ragtasks.cli.options import names_results
from ragtasks.config.environment import run_store
from ragtasks.errors import BenchmarkFileError, ConfigurationError
from ragtasks.progress import step

if TYPE_CHECKING:
    from ragtasks.reports.history import History

results = typer.Typer(help="List, show, compare, remove, rank and export results and runs.", no_args_is_help=True)
export = typer.Typer(help="Write results in the format of another tool.", no_args_is_help=True)
app.add_typer(results, name="results")
results.add_typer(export, name="export")


class _Relationship(str, Enum):
    """Relationship of whoever ran an evaluation to the model, in the words of Every Eval Ever."""

    FIRST_PARTY = "first_party"
    THIRD_PARTY = "third_party"
    COLLABORATIVE = "collaborative"
    OTHER = "other"


_FOLDER = Annotated[Path, typer.Argument(help="Folder that lm_eval wrote to with --output_path --log_samples.")]
_BENCHMARK = Annotated[str | None, typer.Option(help="Only this benchmark.")]
_MODEL = Annotated[str | None, typer.Option(help="Only models with this in their name.")]
_SETTING = Annotated[str | None, typer.Option(help="Only this setting: reference, reference_rag, full_rag.")]
_SINCE = Annotated[str | None, typer.Option(help="Only from this day or time (ISO 8601, UTC).")]


_EITHER = Annotated[
    str, typer.Argument(metavar="RESULTS | RUN", help="Results file, folder with one, or name of a stored run.")
]


@results.command("list")
def list_results(
    folder: Annotated[
        Path | None, typer.Argument(help="Folder of results; without it: `results`, and the stored runs.")
    ] = None,
    benchmark: _BENCHMARK = None,
    model: _MODEL = None,
    setting: _SETTING = None,
    since: _SINCE = None,
) -> None:
    """Print one line for each model, benchmark and setting, and for each stored run; files that cannot be read too."""
    from ragtasks.reports.history import read_history, render_list, render_skipped, select_entries

    place = folder or Path("results")
    if folder or place.is_dir():
        history = read_history(place)
        found = select_entries(history.entries, benchmark=benchmark, model=model, setting=setting, since=since)
        echo(render_list(found, place))
        if history.skipped:
            echo("", render_skipped(history.skipped, place))
    if folder is None:
        echo(*([""] if place.is_dir() else []), *_stored_runs())


def _stored_runs() -> Iterator[str]:
    from retrieval_cache import list_runs

    store = _store()
    stored, unreadable = store.all(), store.unreadable()
    yield from list_runs(stored) if stored else [f"no runs in {store.runs}: make one with `ragtasks retrieve`"]
    if unreadable:
        yield from ("", f"runs that cannot be read: {len(unreadable)}", *(f"  {line}" for line in unreadable))


def _store() -> Any:
    from retrieval_cache import RunStore

    return RunStore(run_store())


@results.command()
def show(name: _EITHER) -> None:
    """Print the scores of a results file and the settings behind them, or what a stored run was made of."""
    if not names_results(name):
        echo((_store().named(name, is_no_file=True).folder / "manifest.json").read_text(encoding="utf-8"))
        return
    from ragtasks.reports.history import read_file, render_entries

    echo(render_entries(read_file(Path(name))))


@results.command("diff")
def diff_results(first: _EITHER, second: _EITHER) -> None:
    """Print what differs; exits with 1 if scores are not comparable, or if runs are not the same."""
    are_results = [names_results(name) for name in (first, second)]
    if not any(are_results):
        _diff_runs(first, second)
        return
    if not all(are_results):
        raise ConfigurationError(f"diff: {first} and {second} are not both results, nor both stored runs")
    from ragtasks.reports.history import diff_entries, read_file, render_differences

    found = diff_entries(read_file(Path(first)), read_file(Path(second)))
    echo(render_differences(found))
    if not found.comparable:
        raise typer.Exit(1)


def _diff_runs(first: str, second: str) -> None:
    from retrieval_cache import diff_runs

    store = _store()
    lines = diff_runs(*(store.named(name, is_no_file=True).manifest for name in (first, second)))
    echo(*lines or ["no difference"])
    raise typer.Exit(int(bool(lines)))


@results.command()
def remove(
    name: _EITHER, *, force: Annotated[bool, typer.Option("--force", help="Remove results without asking.")] = False
) -> None:
    """Delete a stored run, or a results file with its samples."""
    if not names_results(name):
        _store().remove(name)
        echo(f"removed {name}")
        return
    from ragtasks.reports.history import files_of_results

    files = files_of_results(Path(name))
    if not may_be_replaced(files, force=force, doing="Remove"):
        raise ConfigurationError(f"{files[0]}: nothing was removed. Next step: add --force")
    for file in files:
        file.unlink()
    echo(*(f"removed {file}" for file in files))


@results.command()
def leaderboard(  # noqa: PLR0917 (one parameter an option)
    folder: _FOLDER,
    output: Annotated[Path, typer.Option(help="Page to write, .html.")],
    benchmark: _BENCHMARK = None,
    model: _MODEL = None,
    setting: _SETTING = None,
    since: _SINCE = None,
) -> None:
    """Write a page that ranks models, with intervals and ties, a table for each benchmark and setting."""
    from ragtasks.reports.history import History, render_skipped, select_entries
    from ragtasks.reports.leaderboard import write_leaderboard

    with step("reading and ranking the results"):
        history = _ranked(folder)
        found = select_entries(history.entries, benchmark=benchmark, model=model, setting=setting, since=since)
        write_leaderboard(History(tuple(found), history.skipped), folder, output)
    echo(f"wrote {output}, evaluations: {len(found)}")
    if history.skipped:
        echo(render_skipped(history.skipped, folder))


@export.command("every-eval-ever")
def every_eval_ever(
    folder: _FOLDER,
    output: Annotated[Path, typer.Option(help="Folder for the records, BENCHMARK/DEVELOPER/MODEL/ID.json.")],
    organization: Annotated[str, typer.Option(help="Who ran the evaluation.")] = "unknown",
    relationship: Annotated[
        _Relationship, typer.Option(help="Relationship of the evaluator to the model.")
    ] = _Relationship.OTHER,
    model: _MODEL = None,
) -> None:
    """Write the records of Every Eval Ever (schema 0.3.0), with intervals, one for each model and benchmark."""
    from ragtasks.reports import exports

    records = exports.every_eval_ever(_chosen(folder, model), organization, relationship.value)
    echo(*(f"wrote {path}" for path in exports.write_every_eval_ever(records, output)))


@export.command("model-card")
def model_card(
    folder: _FOLDER,
    output: Annotated[Path | None, typer.Option(help="File for the YAML, in place of the screen.")] = None,
    model: _MODEL = None,
) -> None:
    """Write one model's main scores as the `model-index` of a model card on the Hugging Face hub."""
    from ragtasks.reports import exports

    put(exports.model_card(_chosen(folder, model)), output)


@export.command("rows")
def rows(
    folder: _FOLDER,
    output: Annotated[Path, typer.Option(help="File to write: .csv, .json or .jsonl.")],
    model: _MODEL = None,
) -> None:
    """Write one row for each score, with its interval and provenance, for pandas or a spreadsheet."""
    from ragtasks.reports import exports

    put(exports.written(exports.rows_of(_chosen(folder, model)), output.suffix), output)


@export.command()
def benchmark(
    paths: Annotated[list[Path], typer.Argument(metavar="RESULTS...", help="Folders of results, or results files.")],
    output: Annotated[Path, typer.Option(help="Folder to write.")],
    kind: Annotated[list[str] | None, typer.Option(help="What went wrong, such as invented; repeatable.")] = None,
    notes: Annotated[Path | None, typer.Option(help="Export of a page's notes: what is flagged there.")] = None,
) -> None:
    """Write turns that went wrong as a benchmark of your own: a folder that `ragtasks check` reads."""
    from ragtasks.reports.failed_turns import write_failed_turns
    from ragtasks.results import read_evaluations

    echo(*write_failed_turns(read_evaluations(paths), output, kind or (), notes))


def _chosen(folder: Path, model: str | None) -> list[Any]:
    from ragtasks.reports.history import below, select_entries

    history = _ranked(folder)
    for item in history.skipped:
        leave_out(f"{below(item.path, folder)}: {item.reason}")
    return select_entries(history.entries, model=model)


def _ranked(folder: Path) -> History:
    """Return the results of a folder; none that can be read is an error."""
    from ragtasks.reports.history import read_history, render_skipped

    history = read_history(folder, is_ranked=True)
    if not history.entries:
        raise BenchmarkFileError(
            "results",
            where=str(folder),
            expected="a results file of the harness that can be read",
            found=render_skipped(history.skipped, folder) or "none",
            next_step="run the evaluation again, or name the folder that was given as --output_path",
        )
    return history

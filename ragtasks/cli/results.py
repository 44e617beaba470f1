"""`ragtasks results`: list, show, compare, leaderboard and export, on a folder of results."""

from __future__ import annotations

from enum import Enum
from pathlib import Path
from typing import Annotated, Any

import typer

from ragtasks.cli.app import app, put, say

results = typer.Typer(help="Results in a folder: list, show, compare, a leaderboard, exports.", no_args_is_help=True)
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
_FILE = Annotated[Path, typer.Argument(help="Results file, or a folder with one.")]
_BENCHMARK = Annotated[str | None, typer.Option(help="Only this benchmark.")]
_MODEL = Annotated[str | None, typer.Option(help="Only models with this in their name.")]
_SETTING = Annotated[str | None, typer.Option(help="Only this setting: reference, reference_rag, full_rag.")]
_SINCE = Annotated[str | None, typer.Option(help="Only from this day or time (ISO 8601, UTC).")]


@results.command("list")
def list_results(
    folder: _FOLDER,
    benchmark: _BENCHMARK = None,
    model: _MODEL = None,
    setting: _SETTING = None,
    since: _SINCE = None,
) -> None:
    """Print one line for each model, benchmark and setting, and the files that could not be read."""
    from ragtasks.reports.history import read_history, render_list, render_skipped, select_entries

    history = read_history(folder)
    found = select_entries(history.entries, benchmark=benchmark, model=model, setting=setting, since=since)
    say(render_list(found, folder))
    if history.skipped:
        say("", render_skipped(history.skipped, folder))


@results.command()
def show(file: _FILE) -> None:
    """Print the scores of a results file, and the settings behind them."""
    from ragtasks.reports.history import read_file, render_entries

    say(render_entries(read_file(file)))


@results.command("compare")
def compare_results(first: _FILE, second: _FILE) -> None:
    """Print what differs between two results files; exits with 1 if their scores are not comparable."""
    from ragtasks.reports.history import diff_entries, read_file, render_differences

    found = diff_entries(read_file(first), read_file(second))
    say(render_differences(found))
    if not found.comparable:
        raise typer.Exit(1)


results.command("diff", hidden=True)(compare_results)


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
    from ragtasks.reports.history import History, read_history, render_skipped, select_entries, write_leaderboard

    history = read_history(folder, is_ranked=True)
    found = select_entries(history.entries, benchmark=benchmark, model=model, setting=setting, since=since)
    write_leaderboard(History(tuple(found), history.skipped), folder, output)
    say(f"wrote {output}, evaluations: {len(found)}")
    if history.skipped:
        say(render_skipped(history.skipped, folder))


@export.command()
def inspector(
    paths: Annotated[
        list[Path], typer.Argument(metavar="RESULTS...", help="Folders that lm_eval wrote to, or results files.")
    ],
    output: Annotated[Path, typer.Option(help="File to write, .json.")],
    setting: _SETTING = None,
    most_unscored: Annotated[
        float, typer.Option(help="Leave out a metric if a larger share of tasks lacks it, otherwise those tasks.")
    ] = 0.05,
) -> None:
    """Write one file for InspectorRAGet (version 2 of its format), and say what does not fit into it."""
    from ragtasks.logs import read_evaluations
    from ragtasks.reports.inspector import export_inspector

    say(*export_inspector(read_evaluations(paths), output, setting=setting, most_unscored=most_unscored).describe())


@export.command("every-eval-ever")
def every_eval_ever(
    folder: _FOLDER,
    output: Annotated[Path, typer.Option(help="Folder for the records, BENCHMARK/DEVELOPER/MODEL/ID.json.")],
    organization: Annotated[str, typer.Option(help="Who ran the evaluation.")] = "unknown",
    relationship: Annotated[
        _Relationship, typer.Option(help="How whoever ran it is related to the model.")
    ] = _Relationship.OTHER,
    model: _MODEL = None,
) -> None:
    """Write the records of Every Eval Ever (schema 0.3.0), with intervals, one for each model and benchmark."""
    from ragtasks.reports import exports

    records = exports.every_eval_ever(_chosen(folder, model), organization, relationship.value)
    say(*(f"wrote {path}" for path in exports.write_every_eval_ever(records, output)))


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


def _chosen(folder: Path, model: str | None) -> list[Any]:
    from ragtasks.reports.history import read_history, select_entries

    return select_entries(read_history(folder, is_ranked=True).entries, model=model)


__all__: list[str] = []

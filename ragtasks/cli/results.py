"""`ragtasks results`: list, show, compare, rank, export and remove evaluations and stored runs."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from ragtasks.cli.app import app, echo, leave_out, may_be_replaced, put
from ragtasks.cli.options import CLUSTER, check_cluster, given_failed_turn, names_results
from ragtasks.config.environment import run_store
from ragtasks.errors import BenchmarkFileError, ConfigurationError
from ragtasks.progress import step

if TYPE_CHECKING:
    from ragtasks.reports.history import History

results = typer.Typer(help="List, show, remove and export results and runs; leaderboard.", no_args_is_help=True)
app.add_typer(results, name="results")


_MODEL = Annotated[str | None, typer.Option(help="Only models whose name contains this text.")]


_EITHER = Annotated[
    str, typer.Argument(metavar="RESULTS | RUN", help="Results file or folder, or name of a stored run.")
]


@results.command("list")
def list_results(  # noqa: PLR0917 (one parameter an option)
    folder: Annotated[
        Path | None, typer.Argument(help="Folder of results; default: `results`, and the stored runs.")
    ] = None,
    benchmark: Annotated[str | None, typer.Option(help="Only this benchmark.")] = None,
    model: _MODEL = None,
    setting: Annotated[str | None, typer.Option(help="Only this setting: reference, reference_rag, full_rag.")] = None,
    leaderboard: Annotated[
        Path | None,
        typer.Option(help="HTML page to write: models ranked by benchmark and setting, with intervals and ties."),
    ] = None,
    cluster: CLUSTER = "",
) -> None:
    """List results by model, benchmark and setting, stored runs, and unreadable files."""
    from ragtasks.reports.history import History, read_history, select_entries
    from ragtasks.reports.history_output import render_list, render_skipped

    check_cluster(cluster)
    root, chosen = folder or Path("results"), {"benchmark": benchmark, "model": model, "setting": setting}
    if leaderboard is not None:
        from ragtasks.reports.leaderboard import write_leaderboard

        with step("reading and ranking the results"):
            history = _ranked(root, cluster)
            entries = select_entries(history.entries, **chosen)
            write_leaderboard(History(tuple(entries), history.skipped), root, leaderboard)
        echo(f"wrote {leaderboard}, evaluations: {len(entries)}")
        if history.skipped:
            echo(render_skipped(history.skipped, root))
        return
    if folder or root.is_dir():
        history = read_history(root)
        if not history.entries:
            echo(f"no results in {root}; `ragtasks eval`, `run` and `score` write results", "")
        echo(render_list(select_entries(history.entries, **chosen), root))
        if history.skipped:
            echo("", render_skipped(history.skipped, root))
    if folder is None:
        echo(*([""] if root.is_dir() else []), *_stored_runs())


def _stored_runs() -> Iterator[str]:
    from retrieval_cache import list_runs

    store = _store()
    stored, unreadable = store.all(), store.unreadable()
    no_runs = f"no runs in {store.runs}; `ragtasks retrieve --retriever bm25` makes a run"
    yield from list_runs(stored) if stored else [no_runs]
    if unreadable:
        yield from ("", f"runs that cannot be read: {len(unreadable)}", *(f"  {line}" for line in unreadable))


def _store() -> Any:
    from retrieval_cache import RunStore

    return RunStore(run_store())


@results.command()
def show(
    name: _EITHER,
    other: Annotated[str | None, typer.Argument(help="Second results or run: print the differences.")] = None,
) -> None:
    """Print the scores and settings of results, or the manifest of a run; for two, their differences.

    For two: exits with 1 if the scores are not comparable, or if the runs differ.
    """
    names = [name] if other is None else [name, other]
    are_results = [names_results(text) for text in names]
    if any(are_results) and not all(are_results):
        raise ConfigurationError(f"results show: {name} and {other} are not both results, nor both stored runs")
    show_them = _show_results if all(are_results) else _show_runs
    raise typer.Exit(show_them(*names))


def _show_results(name: str, second: str | None = None) -> int:
    from ragtasks.reports.history import read_file
    from ragtasks.reports.history_output import diff_entries, render_differences, render_entries

    if second is None:
        echo(render_entries(read_file(Path(name))))
        return 0
    differences = diff_entries(read_file(Path(name)), read_file(Path(second)))
    echo(render_differences(differences))
    return int(not differences.comparable)


def _show_runs(name: str, second: str | None = None) -> int:
    from retrieval_cache import diff_runs

    first = _store().named(name, is_no_file=True)
    if second is None:
        echo((first.folder / "manifest.json").read_text(encoding="utf-8"))
        return 0
    lines = diff_runs(first.manifest, _store().named(second, is_no_file=True).manifest)
    echo(*lines or ["no difference"])
    return int(bool(lines))


@results.command()
def remove(
    name: _EITHER,
    *,
    force: Annotated[bool, typer.Option("--force", help="Remove results without confirmation.")] = False,
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
def export(  # noqa: PLR0917 (one parameter an option)
    form: Annotated[
        Literal["rows", "model-card", "every-eval-ever", "benchmark"],
        typer.Argument(
            metavar="rows|model-card|every-eval-ever|benchmark",
            help="Rows of scores; the `model-index` of a model card; records of Every Eval Ever (schema 0.3.0); "
            "or a benchmark of the turns with errors.",
        ),
    ],
    paths: Annotated[list[Path], typer.Argument(metavar="RESULTS...", help="Folders of results, or results files.")],
    output: Annotated[
        Path | None,
        typer.Option(help="File (rows: .csv, .json or .jsonl) or folder to write; default for a model card: print."),
    ] = None,
    model: _MODEL = None,
    organization: Annotated[
        str | None, typer.Option(help="every-eval-ever: name of the evaluator.", hidden=True)
    ] = None,
    relationship: Annotated[
        Literal["first_party", "third_party", "collaborative", "other"] | None,
        typer.Option(help="every-eval-ever: relationship of the evaluator to the model.", hidden=True),
    ] = None,
    kind: Annotated[
        list[str] | None,
        typer.Option(
            help="benchmark: failed turns, such as invented or 'rb_alg<0.3'; default: as the results define them.",
            hidden=True,
        ),
    ] = None,
    notes: Annotated[Path | None, typer.Option(help="benchmark: notes exported from a page.", hidden=True)] = None,
) -> None:
    """Write results in the format of another tool, or the turns with errors as a benchmark."""
    is_record, is_benchmark = form == "every-eval-ever", form == "benchmark"
    exclusive = {
        "--model": model is not None and is_benchmark,
        "--organization, --relationship": bool(organization or relationship) and not is_record,
        "--kind, --notes": bool(kind or notes) and not is_benchmark,
    }
    if unread := [option for option, is_unread in exclusive.items() if is_unread]:
        raise ConfigurationError(f"results export {form}: leave out {', '.join(unread)}")
    from ragtasks.reports import exports

    if form == "model-card":
        put(exports.model_card(_chosen(paths, model)), output)
    elif output is None:
        raise ConfigurationError(f"results export {form}: requires a file or folder to write. Next step: add --output")
    elif form == "rows":
        put(exports.written(exports.rows_of(_chosen(paths, model)), output.suffix), output)
    elif is_record:
        evaluator = (organization or "unknown", relationship or "other")
        records = exports.every_eval_ever(_chosen(paths, model), *evaluator)
        echo(*(f"wrote {path}" for path in exports.write_every_eval_ever(records, output)))
    else:
        from ragtasks.reports.failed_turns import write_failed_turns
        from ragtasks.results import read_evaluations

        failed_turn = given_failed_turn(",".join(kind)) if kind else None
        echo(*write_failed_turns(read_evaluations(paths), output, failed_turn, notes))


def _chosen(folders: Sequence[Path], model: str | None) -> list[Any]:
    from ragtasks.reports.history import select_entries
    from ragtasks.reports.history_output import below

    entries = []
    for folder in folders:
        history = _ranked(folder)
        history = replace(history, entries=tuple(entry for entry in history.entries if not entry.of_lm_eval))
        for skipped in history.skipped:
            leave_out(f"{below(skipped.path, folder)}: {skipped.reason}")
        entries += select_entries(history.entries, model=model)
    return entries


def _ranked(folder: Path, cluster: str = "") -> History:
    """Return the results of a folder. Raises BenchmarkFileError if it contains no readable results."""
    from ragtasks.reports.history import read_history
    from ragtasks.reports.history_output import render_skipped

    history = read_history(folder, is_ranked=True, cluster=cluster)
    if not history.entries:
        raise BenchmarkFileError(
            "results",
            where=str(folder),
            expected="a readable results file of the harness",
            found=render_skipped(history.skipped, folder) or "none",
            next_step="run the evaluation again, or name the folder of --output_path",
        )
    return history

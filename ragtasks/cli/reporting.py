"""`ragtasks report`: tables, pictures and the page, of harness results, of the human evaluation, and of stored runs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from enum import Enum
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ragtasks.cli.app import TableFormat, app, echo, leave_out, put
from ragtasks.cli.options import DATA, FORMAT, TABLES, retrieval_place
from ragtasks.errors import ConfigurationError

if TYPE_CHECKING:
    from ragtasks.results import Evaluation
    from ragtasks.statistics import Comparisons
    from ragtasks.tables import Section


@app.command()
def report(  # noqa: PLR0917 (one parameter an option)
    results: Annotated[
        list[Path] | None,
        typer.Argument(help="Folders that lm_eval wrote with --output_path --log_samples, or that `judge` wrote."),
    ] = None,
    metric: Annotated[
        list[str] | None, typer.Option(help="Metric of the tables by dimension and of losses; repeat for several.")
    ] = None,
    form: FORMAT = TableFormat.MARKDOWN,
    full: Annotated[
        bool, typer.Option("--full", help="Print all tables, not only the conclusion; files always have all of them.")
    ] = False,
    intervals: Annotated[bool, typer.Option(help="95 % intervals over conversations beside each mean.")] = True,
    examples: Annotated[int, typer.Option(min=0, help="Tasks named for each kind of loss.")] = 3,
    table: Annotated[
        list[str] | None,
        typer.Option(
            help="A table more: idk-detectors, or one that another package adds (docs/extending.md); repeatable."
        ),
    ] = None,
    output: TABLES = None,
    plots: Annotated[Path | None, typer.Option(help="Folder for pictures of the tables.")] = None,
    html: Annotated[Path | None, typer.Option(help="Page to write: tables, pictures, every conversation.")] = None,
    human_evaluation: Annotated[
        bool, typer.Option("--human-evaluation", help="Add the three systems of MTRAG's human evaluation.")
    ] = False,
    run: Annotated[list[str] | None, typer.Option(help="Stored run to add the tables of; repeatable.")] = None,
    benchmark: Annotated[str, typer.Option(help="Benchmark of the runs.")] = "mtrag",
    data: DATA = None,
) -> None:
    """Print who leads in each setting, where the loss is and what to distrust; --full adds every table."""
    from ragtasks.reports.tables import ReportOptions, report_sections
    from ragtasks.tables import Format, render

    evaluations = _evaluations(results or [], human_evaluation, data)
    if not evaluations and not run:
        raise ConfigurationError("nothing to report. Next step: name results, --human-evaluation, or --run NAME")
    if not evaluations and (plots or html):
        raise ConfigurationError(
            "--plots, --html: there are no results to show. Next step: name some, or leave out both"
        )
    options = ReportOptions(tuple(metric or ()), intervals, examples, tuple(table or ()))
    sections = [*report_sections(evaluations, options), *_of_runs(run or [], benchmark, data)]
    is_short = form is TableFormat.MARKDOWN and output is None and not full
    put(
        render([_opening(one, len(options.tables)) for one in sections] if is_short else sections, Format(form.value)),
        output,
    )
    drawn = None
    if plots is not None:
        from ragtasks.reports.plots import plot_sections

        drawn = plot_sections(sections, plots)
        echo(*(f"wrote {path}" for path in drawn))
    if html is not None:
        _write_page(evaluations, sections, html, drawn, options.metrics)
        echo(f"wrote {html}")


def _opening(section: Section, n_added: int) -> Section:
    """Return a section with its conclusion and added tables alone; one without a conclusion as it is."""
    if section.conclusion is None:
        return section
    n_left = len(section.tables) - n_added
    rest = f"{n_left} more tables: --full; with pictures and every conversation: --html page.html."
    return replace(
        section,
        tables=section.tables[n_left:],
        conclusion=replace(section.conclusion, legend=(*section.conclusion.legend, rest)),
    )


def _evaluations(results: list[Path], human_evaluation: bool, data: str | None) -> list[Evaluation]:
    from ragtasks.results import read_evaluations
    from ragtasks.scoring import checked_again

    found = [checked_again(item) for item in read_evaluations(results, left_out=leave_out)] if results else []
    if human_evaluation:
        from ragtasks.benchmarks import benchmark_folder
        from ragtasks.benchmarks.mtrag import HUMAN_EVALUATION_FILE, load_human_evaluation
        from ragtasks.environment import data_folder
        from ragtasks.reports.tables import rated_evaluations

        root = benchmark_folder("mtrag", data, data_folder())
        found += rated_evaluations(load_human_evaluation(root), root / HUMAN_EVALUATION_FILE)
    return found


def _of_runs(names: list[str], benchmark: str, data: str | None) -> list[Section]:
    """Return the tables of stored runs, with what must be known before them, as a section of the report."""
    if not names:
        return []
    from ragtasks.environment import data_folder, run_store
    from retrieval_cache import Place, evaluate_runs

    return [evaluate_runs(Place(benchmark, data, data_folder(), run_store()), names)]


def _write_page(
    evaluations: list[Evaluation],
    sections: list[Section],
    path: Path,
    drawn: dict[Path, str] | None,
    metrics: tuple[str, ...],
) -> None:
    """Write the page; pictures that are not drawn yet are drawn by another process meanwhile, as both take long."""
    from ragtasks.reports.page import drawn_meanwhile, write_page

    if drawn is not None:
        plots = [(caption, picture.read_bytes()) for picture, caption in drawn.items()]
        write_page(evaluations, sections, path, plots, metrics=metrics)
        return
    if find_spec("matplotlib") is None:
        write_page(evaluations, sections, path, metrics=metrics)
        echo("the page has no plots. Next step: pip install 'ragtasks[report]'")
        return
    with drawn_meanwhile(sections) as plots_drawn:
        write_page(evaluations, sections, path, plots_drawn, metrics=metrics)


# `ragtasks results`: list, show, compare, leaderboard and export, on a folder of results.

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
    echo(render_list(found, folder))
    if history.skipped:
        echo("", render_skipped(history.skipped, folder))


@results.command()
def show(file: _FILE) -> None:
    """Print the scores of a results file, and the settings behind them."""
    from ragtasks.reports.history import read_file, render_entries

    echo(render_entries(read_file(file)))


@results.command("compare")
def compare_results(first: _FILE, second: _FILE) -> None:
    """Print what differs between two results files; exits with 1 if their scores are not comparable."""
    from ragtasks.reports.history import diff_entries, read_file, render_differences

    found = diff_entries(read_file(first), read_file(second))
    echo(render_differences(found))
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
    from ragtasks.reports.history import History, read_history, render_skipped, select_entries
    from ragtasks.reports.leaderboard import write_leaderboard

    history = read_history(folder, is_ranked=True)
    found = select_entries(history.entries, benchmark=benchmark, model=model, setting=setting, since=since)
    write_leaderboard(History(tuple(found), history.skipped), folder, output)
    echo(f"wrote {output}, evaluations: {len(found)}")
    if history.skipped:
        echo(render_skipped(history.skipped, folder))


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
    from ragtasks.reports.inspector import export_inspector
    from ragtasks.results import read_evaluations

    echo(*export_inspector(read_evaluations(paths), output, setting=setting, most_unscored=most_unscored).describe())


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


def _chosen(folder: Path, model: str | None) -> list[Any]:
    from ragtasks.reports.history import read_history, select_entries

    return select_entries(read_history(folder, is_ranked=True).entries, model=model)


__all__: list[str] = []


# `ragtasks compare`: evaluations, or runs, in pairs.


class _By(str, Enum):
    MODEL = "model"
    SETTING = "setting"
    ALL = "all"
    DOMAIN = "domain"


def _print_comparisons(found: Comparisons, form: TableFormat, group: str, name: str, items: str) -> None:
    from ragtasks.reports.comparison import comparison_sections, comparisons_csv
    from ragtasks.tables import Format, render

    sections = comparison_sections(found, group=group, name=name, items=items)
    put(comparisons_csv(found) if form is TableFormat.CSV else render(sections, Format(form.value)), None)


@app.command()
def compare(  # noqa: PLR0917 (one parameter an option)
    names: Annotated[
        list[str],
        typer.Argument(
            metavar="RESULTS... | RUNS...",
            help="Folders that lm_eval wrote with --output_path --log_samples, or retrieval runs (`official` is the "
            "benchmark's own); the earlier one is the first.",
        ),
    ],
    metric: Annotated[
        list[str] | None, typer.Option(help="Metric to compare; repeat for several. Default: the paper's.")
    ] = None,
    by: Annotated[
        _By | None,
        typer.Option(
            help="Results: models in each setting, or settings of each model. Runs: all queries, or by domain."
        ),
    ] = None,
    baseline: Annotated[
        str | None, typer.Option(help="Compare with this model, setting or run only; default: every pair.")
    ] = None,
    form: Annotated[
        TableFormat, typer.Option("--format", help="How the tables are written; csv: one line a comparison.")
    ] = TableFormat.MARKDOWN,
    benchmark: Annotated[str, typer.Option(help="Benchmark of the runs.")] = "mtrag",
    data: DATA = None,
) -> None:
    """Print differences of results or runs with intervals and tests over conversations, corrected for their number."""
    of_results = [_names_results(name) for name in names]
    if all(of_results):
        _compare_results(
            [Path(name) for name in names], metric or (), _compare_chosen(by, _By.MODEL, _By.SETTING), baseline, form
        )
    elif any(of_results):
        runs = ", ".join(name for name, is_results in zip(names, of_results, strict=True) if not is_results)
        raise ConfigurationError(f"compare: runs ({runs}) beside results. Next step: name either results or runs")
    else:
        place = retrieval_place(benchmark, data)
        _compare_runs(place, names, metric or (), _compare_chosen(by, _By.ALL, _By.DOMAIN), baseline, form)


app.command("compare-runs", hidden=True)(compare)


def _names_results(name: str) -> bool:
    """Return whether a name is of results: a folder, a results file, or a path with nothing at its end."""
    path = Path(name)
    return path.is_dir() or path.suffix == ".json" or (len(path.parts) > 1 and not path.exists())


def _compare_chosen(by: _By | None, *possible: _By) -> _By:
    if by is None or by in possible:
        return by or possible[0]
    raise ConfigurationError(f"--by {by.value}: for these it is {' or '.join(one.value for one in possible)}")


def _compare_results(
    paths: list[Path], metrics: Sequence[str], by: _By, baseline: str | None, form: TableFormat
) -> None:
    from ragtasks.reports.comparison import compare_evaluations
    from ragtasks.results import read_evaluations

    found = compare_evaluations(
        read_evaluations(paths, left_out=leave_out), metrics=metrics, by=by.value, baseline=baseline
    )
    _print_comparisons(found, form, "setting" if by is _By.MODEL else "model", by.value, "tasks")


def _compare_runs(  # noqa: PLR0917 (as the options)
    place: Any, names: list[str], metrics: Sequence[str], by: _By, baseline: str | None, form: TableFormat
) -> None:
    from retrieval_cache import compare_runs

    found = compare_runs(place, names, metrics=metrics, by=by.value, baseline=baseline)
    _print_comparisons(found, form, "domain" if by is _By.DOMAIN else "queries", "run", "queries")


# `ragtasks calibrate`: metrics and judges beside the people who rated answers.


@app.command()
def calibrate(
    data: Annotated[
        Path | None, typer.Option(help="Folder with MTRAG's official files; default: the data folder.")
    ] = None,
    judge: Annotated[
        list[str] | None, typer.Option(help="Judge to calibrate, openai/NAME or a JSON object; repeatable.")
    ] = None,
    metric: Annotated[
        list[str] | None, typer.Option(help="Further metric that the judges are asked for, rl_mtb or rl_r; repeatable.")
    ] = None,
    plot: Annotated[Path | None, typer.Option(help="Picture to write, .png or .svg.")] = None,
) -> None:
    """Print how well metrics and judges agree with the people who rated MTRAG's answers."""
    from ragtasks.benchmarks import benchmark_folder
    from ragtasks.environment import data_folder, reply_cache_file, secret
    from ragtasks.reports.calibration import calibrate_judges

    root = benchmark_folder("mtrag", str(data) if data else None, data_folder())
    text, verdicts = calibrate_judges(
        root, judge or [], secrets=secret, cache_file=reply_cache_file(), metrics=metric or (), picture=plot
    )
    echo(text)
    if verdicts is not None:
        verdicts.require_coverage()

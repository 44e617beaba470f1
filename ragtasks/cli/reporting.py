"""`ragtasks report` and `ragtasks compare`: tables, pictures and the page."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from ragtasks.cli.app import app, echo, leave_out, put
from ragtasks.cli.options import (
    CLUSTER,
    DATA,
    DECIDING,
    DECIDING_KEYS,
    FAILED_TURN,
    FORCE,
    FORMAT,
    RECALIBRATE,
    TABLES,
    check_cluster,
    decide_as_named,
    given_failed_turn,
    given_options,
    names_results,
    race_options,
    retrieval_workspace,
)
from ragtasks.config.environment import run_store
from ragtasks.errors import ConfigurationError, RagtasksError
from ragtasks.files import OFFICIAL, writable_file, writable_folder
from ragtasks.progress import step
from ragtasks.tables import Format, Section, render

if TYPE_CHECKING:
    from ragtasks.benchmarks.mtrag import RatedResponse
    from ragtasks.results import Evaluation, TaskResults
    from ragtasks.statistics import Comparisons


@app.command()
def report(  # noqa: PLR0917 (one parameter an option)
    results: Annotated[
        list[Path] | None,
        typer.Argument(help="Folders or files of results; default: the most recent in `results`."),
    ] = None,
    metric: Annotated[list[str] | None, typer.Option(help="Metric in the tables; repeatable.")] = None,
    form: FORMAT = Format.MARKDOWN,
    full: Annotated[bool, typer.Option("--full", help="Print all tables.")] = False,
    table: Annotated[
        list[str] | None, typer.Option(help="Additional table, such as idk-detectors; repeatable.", hidden=True)
    ] = None,
    output: TABLES = None,
    plots: Annotated[Path | None, typer.Option(help="Folder for pictures of the tables.", hidden=True)] = None,
    html: Annotated[Path | None, typer.Option(help="HTML page to write, with every conversation.")] = None,
    recalibrate: RECALIBRATE = False,
    failed_turn: FAILED_TURN = None,
    ratings: Annotated[Path | None, typer.Option(help="Folder with human ratings of answers.", hidden=True)] = None,
) -> None:
    """Print the ranking, losses of score and reasons for caution."""
    from ragtasks.reports.tables import ReportOptions, report_sections

    if not results:
        results = [_newest_results(Path("results"))]
        typer.echo(f"ragtasks: report of {results[0]}, the newest results", err=True)
    with step("reading the results"):
        evaluations = _evaluations(results, recalibrate=recalibrate)
    for option, path, check in (
        *(("--html", html, writable_file), ("--output", output, writable_file)),
        ("--plots", plots, writable_folder),
    ):
        if path is not None:
            check(path, option).check()
    for path in (html, html and html.with_name(f"{html.stem}_files"), output, plots):
        if path is not None:
            path.exists()  # raises OSError for a name that is too long, before the work
    rated = _ratings(ratings, evaluations) if ratings is not None else ()
    options = ReportOptions(tuple(metric or ()), tuple(table or ()), rated, given_failed_turn(failed_turn))
    with step("tables and intervals"):
        sections = report_sections(evaluations, options)
    is_short = form is Format.MARKDOWN and output is None and not full
    n_added = len(options.tables) + bool(rated)
    put(render([_opening(section, n_added) for section in sections] if is_short else sections, form), output)
    if plots is not None:
        from ragtasks.reports.plots import plot_sections

        echo(*(f"wrote {path}" for path in plot_sections(sections, plots)))
    if html is not None:
        _write_page(evaluations, sections, html, options.metrics)
        echo(f"wrote {html}")


def _newest_results(folder: Path) -> Path:
    """Return the folder of the most recent results."""
    files = sorted(folder.glob("*/**/results_*.json"), key=lambda file: file.stat().st_mtime)
    if not files:
        raise ConfigurationError(
            f"report: no results in {folder.resolve()}. Next step: ragtasks report FOLDER; `ragtasks init` starts an "
            "evaluation"
        )
    return folder / files[-1].relative_to(folder).parts[0]


def conclude(
    results: Sequence[Path], page: Path | None, ending: Callable[[Sequence[Evaluation]], Iterable[str]] = lambda _: ()
) -> None:
    """Print the conclusion of results files and further lines, and write the page if a path is given.

    Results that cannot be read give a message instead of a conclusion.
    """
    from ragtasks.reports.tables import ReportOptions, report_sections

    try:
        with step("reading the results"):
            evaluations = _evaluations(list(results))
        with step("tables and intervals"):
            sections = report_sections(evaluations, ReportOptions(only_conclusion=page is None))
    except RagtasksError as error:  # results are saved, and may contain tasks of others
        typer.echo(f"ragtasks: no conclusion: {error}", err=True)
        echo(*ending([]))
        return
    echo(render([_without_tables(section) if section.conclusion else section for section in sections], Format.MARKDOWN))
    echo(*ending(evaluations))
    if page is not None:
        _write_page(evaluations, sections, page, ())
        echo(f"page: {page.resolve().as_uri()}")


def conclude_runs(section: Section, page: Path | None, *, full: bool) -> None:
    """Print the conclusion of a retriever's runs, with `full` all tables, and write the page."""
    echo(render([section if full else replace(section, tables=())], Format.MARKDOWN))
    if page is not None:
        _write_page([], [section], page, ())
        echo(f"page: {page.resolve().as_uri()}")


def _opening(section: Section, n_added: int) -> Section:
    """Return a section with only its conclusion and added tables; unchanged without a conclusion."""
    if section.conclusion is None:
        return section
    n_left = len(section.tables) - n_added
    hint = f"--full prints {n_left} more tables and all settings; --html page.html shows every conversation."
    conclusion = replace(section.conclusion, legend=(*section.conclusion.legend, hint))
    return replace(_without_tables(section), tables=section.tables[n_left:], conclusion=conclusion)


def _without_tables(section: Section) -> Section:
    """Return a section without tables, with its provenance on one line."""
    from ragtasks.reports.tables import brief_provenance

    return replace(section, provenance=brief_provenance(section.provenance), tables=())


def _evaluations(results: list[Path], *, recalibrate: bool = False) -> list[Evaluation]:
    from ragtasks.results import read_evaluations, recalibrated

    evaluations = read_evaluations(results, left_out=leave_out)
    return recalibrated(evaluations) if recalibrate else evaluations


def _ratings(folder: Path, evaluations: Sequence[Evaluation]) -> tuple[RatedResponse, ...]:
    """Return people's ratings in a folder. Raises ConfigurationError if no model of the results is rated."""
    from ragtasks.benchmarks.mtrag import HUMAN_EVALUATION_FILE, load_human_evaluation

    if not (folder / HUMAN_EVALUATION_FILE).is_file():
        raise ConfigurationError(
            f"--ratings {folder}: no file {HUMAN_EVALUATION_FILE}. Next step: name a folder with human ratings "
            "in the format of MTRAG's human evaluation (docs/judges.md)"
        )
    rated = load_human_evaluation(folder)
    models = {evaluation.model for evaluation in evaluations}
    if not any(row.model_id in models for row in rated):
        raise ConfigurationError(
            "--ratings",
            where=str(folder),
            expected=f"ratings of answers of {', '.join(sorted(models)) or 'results'}",
            found=f"of {', '.join(sorted({row.model_id for row in rated}))}",
            next_step="name the results whose answers were rated",
        )
    return rated


def _write_page(evaluations: list[Evaluation], sections: list[Section], path: Path, metrics: tuple[str, ...]) -> None:
    from ragtasks.reports.page import files_folder, write_page

    with step("writing the page"):
        write_page(evaluations, sections, path, metrics=metrics)
    folder = files_folder(path)
    if folder.is_dir():  # a large page stores its answers in this folder
        size = sum(file.stat().st_size for file in folder.iterdir()) / 1e6
        echo(f"the page is large, so its answers are separate files: keep {folder} ({size:,.0f} MB) next to it")


# `ragtasks compare`: pairwise comparison of evaluations or runs.


@app.command()
def compare(  # noqa: PLR0917 (one parameter an option)
    names: Annotated[
        list[str],
        typer.Argument(
            metavar="RESULTS... | RUNS...",
            help="Folders of results, or retrieval runs; the earlier first.",
        ),
    ],
    metric: Annotated[
        list[str] | None,
        typer.Option(help="Metric to compare; default: the paper's, or all of lm_eval tasks; repeatable."),
    ] = None,
    by: Annotated[
        Literal["model", "setting", "all", "domain"] | None,
        typer.Option(
            metavar="<group>",
            help="Grouping of results: model (default) or setting; of runs: all (default) or domain.",
        ),
    ] = None,
    baseline: Annotated[str | None, typer.Option(help="Compare only with this model, setting or run.")] = None,
    form: Annotated[
        Format,
        typer.Option("--format", metavar="<form>", help="markdown (default), csv, json or latex.", show_default=False),
    ] = Format.MARKDOWN,
    benchmark: Annotated[str, typer.Option(help="Benchmark of the runs.")] = "mtrag",
    data: DATA = None,
    judge: DECIDING = None,
    metadata: DECIDING_KEYS = None,
    output: Annotated[Path, typer.Option(help="With --judge: folder for the scores.", hidden=True)] = Path("decided"),
    recalibrate: RECALIBRATE = False,
    failed_turn: FAILED_TURN = None,
    cluster: CLUSTER = "",
    power: Annotated[
        bool, typer.Option("--power", help="Print the smallest differences that the data can show.")
    ] = False,
    force: FORCE = False,
) -> None:
    """Compare results or runs: differences, intervals and tests.

    p values of one call are corrected for multiple tests (Holm).
    """
    of_results = [names_results(name) for name in names]
    if judge:
        if not all(of_results) or by or baseline or len(metric or ()) > 1:
            raise ConfigurationError(
                "--judge compares saved results by one metric. Next step: name folders of results and at most one "
                "--metric, and leave out --by and --baseline"
            )
        options = given_options(metadata, judges=judge, data=data)
        wanted = race_options(options, metric=metric[0] if metric else None)
        decide_as_named([Path(name) for name in names], options, wanted, output, force=force)
        return
    if metadata:
        raise ConfigurationError("--metadata is used with --judge only. Next step: leave it out, or add --judge")
    if (cluster or power) and not all(of_results):
        raise ConfigurationError("--cluster and --power are used with results only. Next step: leave them out")
    if all(of_results):
        wanted = _Comparing(
            metric or [], _compare_chosen(by, "model", "setting"), baseline, power, given_failed_turn(failed_turn)
        )
        _compare_results([Path(name) for name in names], wanted, cluster, form, recalibrate=recalibrate)
    elif any(of_results):
        runs = [name for name, is_results in zip(names, of_results, strict=True) if not is_results]
        _require_runs(runs)
        listed = ", ".join(runs)
        raise ConfigurationError(f"compare: both runs ({listed}) and results. Next step: name either results or runs")
    else:
        chosen = _compare_chosen(by, "all", "domain")
        _require_runs(names)
        workspace = retrieval_workspace(benchmark, data)
        _compare_runs(workspace, names, metric or (), chosen, baseline, form)


def _require_runs(names: Sequence[str]) -> None:
    """Raise ConfigurationError for a name that is neither a run nor a file, before any data is read."""
    from ragtasks.submissions import FileForm, form_of_file
    from retrieval_cache import RunStore

    store = RunStore(run_store())
    for name in names:
        if Path(name).is_file() and form_of_file(Path(name)) is FileForm.ROWS:
            raise ConfigurationError(f"{name}: neither results nor a run. Next step: ragtasks score {name}")
        if (Path("results") / name).is_dir():
            raise ConfigurationError(f"no file, folder or run {name!r}. Next step: did you mean results/{name}?")
        # The name of a run may omit its data.
        if name != OFFICIAL and not Path(name).exists() and not any(store.runs.glob(f"{name}.*")):
            store.named(name, is_no_file=True)


def _compare_chosen(by: str | None, *possible: str) -> str:
    if by is None or by in possible:
        return by or possible[0]
    raise ConfigurationError(f"--by {by}: expected {' or '.join(possible)}")


@dataclass(frozen=True, slots=True)
class _Comparing:
    """Options of a comparison of results."""

    metrics: Sequence[str]
    by: str
    baseline: str | None
    is_power: bool
    failed_turn: Any


def _compare_results(paths: list[Path], wanted: _Comparing, cluster: str, form: Format, *, recalibrate: bool) -> None:
    """Print the comparison of evaluations, and of lm_eval tasks of others, as far as the results contain them."""
    from ragtasks.reports.comparison import comparisons_csv
    from ragtasks.results import read_evaluations, read_harness_tasks, recalibrated

    check_cluster(cluster)
    skipped: dict[str, None] = {}
    parts: list[Callable[[], tuple[list[Section], Comparisons | None]]] = []
    with step("reading the results, differences and intervals"):
        tasks = read_harness_tasks(paths, cluster=cluster, left_out=skipped.setdefault)
        evaluations = read_evaluations(paths, left_out=skipped.setdefault, skip_others=True)
        evaluations = recalibrated(evaluations) if recalibrate else evaluations
        if cluster and not tasks:
            raise ConfigurationError(
                "--cluster: tasks of ragtasks have conversations as clusters. Next step: leave it out"
            )
        of_others = {name for task in tasks for metric in task.metrics for name in (metric, metric.partition(",")[0])}
        theirs = [
            name for name in wanted.metrics if tasks and (not evaluations or name.removesuffix(",none") in of_others)
        ]
        own = [name for name in wanted.metrics if name not in theirs]
        if not tasks or (evaluations and (own or not theirs)):
            parts.append(partial(_compared_evaluations, evaluations, replace(wanted, metrics=own)))
        if tasks and (theirs or not own):
            parts.append(partial(_compared_tasks, tasks, replace(wanted, metrics=theirs)))
        done, errors = [], []
        for part in parts:
            try:
                done.append(part())
            except ConfigurationError as error:
                errors.append(error)
    if tasks and skipped and not done:
        read_harness_tasks(paths, cluster=cluster)  # raises the error of the unreadable file
    for line in (*skipped, *map(str, errors if done else [])):
        leave_out(line)
    if not done:
        raise errors[0]
    compared = [comparisons for _, comparisons in done if comparisons is not None]
    is_csv = compared and form is Format.CSV
    put(comparisons_csv(compared) if is_csv else render([section for found, _ in done for section in found], form))


def _compared_evaluations(
    evaluations: list[Evaluation], wanted: _Comparing
) -> tuple[list[Section], Comparisons | None]:
    """Return the sections of evaluations, and their comparisons unless only the power is printed."""
    from ragtasks.reports import comparison

    group = "setting" if wanted.by == "model" else "model"
    if wanted.is_power:
        columns = comparison.evaluation_columns(evaluations, wanted.metrics, wanted.by, wanted.failed_turn)
        return comparison.power_sections(columns, group=group, items="tasks", baseline=wanted.baseline), None
    compared = comparison.compare_evaluations(
        evaluations,
        metrics=wanted.metrics,
        by=wanted.by,
        baseline=wanted.baseline,
        failed_turn=wanted.failed_turn,
    )
    sections = comparison.comparison_sections(
        compared, group=group, name=wanted.by, items="tasks", warnings=comparison.warnings_of(evaluations)
    )
    return sections, compared


def _compared_tasks(tasks: list[TaskResults], wanted: _Comparing) -> tuple[list[Section], Comparisons | None]:
    """Return the sections of lm_eval tasks of others, and their comparisons unless only the power is printed."""
    from ragtasks.reports.comparison import comparison_sections, power_sections
    from ragtasks.reports.harness_comparison import compare_harness_columns, harness_columns

    if wanted.by != "model":
        raise ConfigurationError(f"--by {wanted.by}: lm_eval tasks have no settings. Next step: leave it out")
    found = harness_columns(tasks, wanted.metrics, are_pairs=not wanted.is_power)
    if wanted.is_power:
        return power_sections(found.columns, baseline=wanted.baseline, **found.power_words), None
    compared = compare_harness_columns(found, wanted.baseline)
    return comparison_sections(compared, **found.words), compared


def _compare_runs(  # noqa: PLR0917 (as the options)
    workspace: Any, names: list[str], metrics: Sequence[str], by: str, baseline: str | None, form: Format
) -> None:
    from ragtasks.reports.comparison import comparisons_text
    from retrieval_cache import compare_runs

    comparisons = compare_runs(workspace, names, metrics=metrics, by=by, baseline=baseline)
    group = "domain" if by == "domain" else "queries"
    put(comparisons_text(comparisons, form, group=group, name="run", items="queries"))

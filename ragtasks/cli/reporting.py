"""`ragtasks report`: tables, pictures and the page, of harness results, of the human evaluation, and of stored runs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from enum import Enum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ragtasks.benchmarks import benchmark_folder
from ragtasks.cli.app import MORE, app, echo, leave_out, put
from ragtasks.cli.options import (
    DATA,
    DECIDED_SEED,
    DECIDED_SETTING,
    FORCE,
    FORMAT,
    JUDGE,
    METADATA,
    RECALIBRATE,
    TABLES,
    decide_as_named,
    given_options,
    names_results,
    retrieval_place,
)
from ragtasks.config.environment import data_folder, run_store
from ragtasks.errors import ConfigurationError, RagtasksError
from ragtasks.files import OFFICIAL
from ragtasks.progress import step
from ragtasks.tables import Format, Section, render

if TYPE_CHECKING:
    from ragtasks.benchmarks.mtrag import RatedResponse
    from ragtasks.results import Evaluation


@app.command()
def report(  # noqa: PLR0917 (one parameter an option)
    results: Annotated[
        list[Path] | None,
        typer.Argument(
            help="Folders or files of results, as eval, run, score or lm_eval with --log_samples wrote them."
        ),
    ] = None,
    metric: Annotated[
        list[str] | None, typer.Option(help="Metric of the tables by dimension and of losses; repeat for several.")
    ] = None,
    form: FORMAT = Format.MARKDOWN,
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
    recalibrate: RECALIBRATE = False,
    ratings: Annotated[
        Path | None,
        typer.Option(
            help="Folder with people's ratings of some answers: adds what they say of all, with the judge's help."
        ),
    ] = None,
    run: Annotated[list[str] | None, typer.Option(help="Stored run to add the tables of; repeatable.")] = None,
    benchmark: Annotated[str, typer.Option(help="Benchmark of the runs.")] = "mtrag",
    data: DATA = None,
) -> None:
    """Print who leads in each setting, where the loss is and what to distrust."""
    from ragtasks.reports.tables import ReportOptions, report_sections

    with step("reading the results"):
        evaluations = _evaluations(results or [], human_evaluation, data, recalibrate=recalibrate)
    if not evaluations and not run:
        raise ConfigurationError("nothing to report. Next step: name results, --human-evaluation, or --run NAME")
    if not evaluations and (plots or html):
        raise ConfigurationError(
            "--plots, --html: there are no results to show. Next step: name some, or leave out both"
        )
    for path in (html, html and html.with_name(f"{html.stem}_files"), output, plots):
        if path is not None:
            path.exists()  # OSError where the name is too long, before the work
    rated = _ratings(ratings, evaluations) if ratings is not None else ()
    options = ReportOptions(tuple(metric or ()), intervals, examples, tuple(table or ()), rated)
    with step("tables and intervals"):
        sections = [*report_sections(evaluations, options), *_of_runs(run or [], benchmark, data)]
    is_short = form is Format.MARKDOWN and output is None and not full
    n_added = len(options.tables) + bool(rated)
    put(render([_opening(one, n_added) for one in sections] if is_short else sections, form), output)
    if plots is not None:
        from ragtasks.reports.plots import plot_sections

        echo(*(f"wrote {path}" for path in plot_sections(sections, plots)))
    if html is not None:
        _write_page(evaluations, sections, html, options.metrics)
        echo(f"wrote {html}")


def conclude(results: Sequence[Path], page: Path | None, notes: Sequence[str] = ()) -> None:
    """Print the conclusion of results files and further notes, and write the page of them where one is named."""
    from ragtasks.reports.tables import ReportOptions, report_sections

    try:
        with step("reading the results"):
            evaluations = _evaluations(list(results), human_evaluation=False, data=None)
        with step("tables and intervals"):
            sections = report_sections(evaluations, ReportOptions(only_conclusion=page is None))
    except RagtasksError as error:  # everything is saved, and what is saved may be of tasks that are not ours
        typer.echo(f"ragtasks: no conclusion: {error}", err=True)
        return
    echo(render([replace(one, tables=() if one.conclusion else one.tables) for one in sections], Format.MARKDOWN))
    echo(*notes)
    if page is not None:
        _write_page(evaluations, sections, page, ())
        echo(f"wrote {page}")


def conclude_runs(section: Section, page: Path | None, *, full: bool) -> None:
    """Print the conclusion of a retriever's runs, with all tables where they are wanted, and write the page of it."""
    echo(render([section if full else replace(section, tables=())], Format.MARKDOWN))
    if page is not None:
        _write_page([], [section], page, ())
        echo(f"wrote {page}")


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


def _evaluations(
    results: list[Path], human_evaluation: bool, data: str | None, *, recalibrate: bool = False
) -> list[Evaluation]:
    from ragtasks.results import read_evaluations, recalibrated

    found = read_evaluations(results, left_out=leave_out) if results else []
    found = recalibrated(found) if recalibrate else found
    if human_evaluation:
        from ragtasks.benchmarks.mtrag import HUMAN_EVALUATION_FILE, load_human_evaluation
        from ragtasks.reports.tables import rated_evaluations

        root = benchmark_folder("mtrag", data, data_folder())
        found += rated_evaluations(load_human_evaluation(root), root / HUMAN_EVALUATION_FILE)
    return found


def _ratings(folder: Path, evaluations: Sequence[Evaluation]) -> tuple[RatedResponse, ...]:
    """Return people's ratings in a folder; some must be of models of the results."""
    from ragtasks.benchmarks.mtrag import HUMAN_EVALUATION_FILE, load_human_evaluation

    if not (folder / HUMAN_EVALUATION_FILE).is_file():
        raise ConfigurationError(
            f"--ratings {folder}: it has no file {HUMAN_EVALUATION_FILE}. Next step: name a folder with ratings by "
            "people in the format of MTRAG's human evaluation (docs/judges.md)"
        )
    rated = load_human_evaluation(folder)
    models = {item.model for item in evaluations}
    if not any(row.model_id in models for row in rated):
        raise ConfigurationError(
            "--ratings",
            where=str(folder),
            expected=f"ratings of answers of {', '.join(sorted(models)) or 'results'}",
            found=f"of {', '.join(sorted({row.model_id for row in rated}))}",
            next_step="name the results whose answers were rated",
        )
    return rated


def _of_runs(names: list[str], benchmark: str, data: str | None) -> list[Section]:
    """Return the tables of stored runs, with what must be known before them, as a section of the report."""
    if not names:
        return []
    from retrieval_cache import evaluate_runs

    return [evaluate_runs(retrieval_place(benchmark, data), names)]


def _write_page(evaluations: list[Evaluation], sections: list[Section], path: Path, metrics: tuple[str, ...]) -> None:
    from ragtasks.reports.page import write_page

    with step("writing the page"):
        write_page(evaluations, sections, path, metrics=metrics)
    _tell_of_files(path)


def _tell_of_files(path: Path) -> None:
    """Say where the answers of a large page are."""
    from ragtasks.reports.page import files_folder

    folder = files_folder(path)
    if folder.is_dir():
        size = sum(file.stat().st_size for file in folder.iterdir()) / 1e6
        echo(f"the page is large, so its answers are files beside it: keep {folder} ({size:,.0f} MB) with it")


# `ragtasks compare`: evaluations, or runs, in pairs.


class _By(str, Enum):
    MODEL = "model"
    SETTING = "setting"
    ALL = "all"
    DOMAIN = "domain"


@app.command()
def compare(  # noqa: PLR0917 (one parameter an option)
    names: Annotated[
        list[str],
        typer.Argument(
            metavar="RESULTS... | RUNS...",
            help="Folders of results, or retrieval runs (`official` is the "
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
        Format, typer.Option("--format", help="How the tables are written; csv: one line a comparison.")
    ] = Format.MARKDOWN,
    benchmark: Annotated[str, typer.Option(help="Benchmark of the runs.")] = "mtrag",
    data: DATA = None,
    until_decided: Annotated[
        bool,
        typer.Option(
            "--until-decided", help="Ask the judges of --judge about saved answers, no more than a decision takes."
        ),
    ] = False,
    judge: JUDGE = None,
    metadata: METADATA = None,
    margin: Annotated[
        float | None,
        typer.Option(
            help="Until decided: systems that differ by less are equal; default: 5 % of the metric's range.",
            rich_help_panel=MORE,
        ),
    ] = None,
    setting: DECIDED_SETTING = None,
    seed: DECIDED_SEED = 0,
    output: Annotated[
        Path, typer.Option(help="Until decided: folder for the scores of what was asked.", rich_help_panel=MORE)
    ] = Path("decided"),
    recalibrate: RECALIBRATE = False,
    force: FORCE = False,
) -> None:
    """Compare results or runs: differences with intervals and tests over conversations.

    Everything that is tested in one call is corrected for its number (Holm). With --until-decided, judges are asked
    about one part of the tasks after the other, until it can be told which system is better.
    """
    of_results = [names_results(name) for name in names]
    if until_decided or judge:
        if not (until_decided and judge and all(of_results)):
            raise ConfigurationError(
                "--until-decided needs --judge and folders of saved results, and --judge needs --until-decided"
            )
        if by or baseline:
            raise ConfigurationError("--by, --baseline: until decided, every system races every other. Leave them out")
        options = given_options(metadata, judges=judge, data=data)
        _decide([Path(name) for name in names], options, metric or [], (margin, setting, seed), output, force=force)
        return
    if metadata:
        raise ConfigurationError(
            "--metadata is used with --until-decided only. Next step: leave it out, or add --until-decided"
        )
    if all(of_results):
        _compare_results(
            [Path(name) for name in names],
            metric or (),
            _compare_chosen(by, _By.MODEL, _By.SETTING),
            baseline,
            form,
            recalibrate=recalibrate,
        )
    elif any(of_results):
        runs = [name for name, is_results in zip(names, of_results, strict=True) if not is_results]
        _require_runs(runs)
        listed = ", ".join(runs)
        raise ConfigurationError(f"compare: runs ({listed}) beside results. Next step: name either results or runs")
    else:
        chosen = _compare_chosen(by, _By.ALL, _By.DOMAIN)
        _require_runs(names)
        place = retrieval_place(benchmark, data)
        _compare_runs(place, names, metric or (), chosen, baseline, form)


def _decide(
    paths: list[Path],
    options: Mapping[str, Any],
    metrics: list[str],
    how: tuple[float | None, str | None, int],
    output: Path,
    *,
    force: bool,
) -> None:
    from ragtasks.scoring import Question

    if len(metrics) > 1:
        raise ConfigurationError(f"--metric: one decides, not {', '.join(metrics)}. Next step: name one")
    margin, setting, seed = how
    question = Question(metrics[0] if metrics else None, setting, margin, seed)
    decide_as_named(paths, dict(options), question, output, force=force)


def _require_runs(names: Sequence[str]) -> None:
    """Refuse a name of nothing before any data is wanted: what was meant may be a folder of results."""
    from retrieval_cache import RunStore

    for name in names:
        if name != OFFICIAL and not Path(name).exists():
            RunStore(run_store()).named(name, is_no_file=True)


def _compare_chosen(by: _By | None, *possible: _By) -> _By:
    if by is None or by in possible:
        return by or possible[0]
    raise ConfigurationError(f"--by {by.value}: for these it is {' or '.join(one.value for one in possible)}")


def _compare_results(
    paths: list[Path], metrics: Sequence[str], by: _By, baseline: str | None, form: Format, *, recalibrate: bool
) -> None:
    from ragtasks.reports.comparison import compare_evaluations, comparisons_text, doubts_of
    from ragtasks.results import read_evaluations, recalibrated

    with step("reading the results, differences and intervals"):
        evaluations = read_evaluations(paths, left_out=leave_out)
        evaluations = recalibrated(evaluations) if recalibrate else evaluations
        found = compare_evaluations(evaluations, metrics=metrics, by=by.value, baseline=baseline)
        doubts = doubts_of(evaluations)
    group = "setting" if by is _By.MODEL else "model"
    put(comparisons_text(found, form, group=group, name=by.value, items="tasks", doubts=doubts), None)


def _compare_runs(  # noqa: PLR0917 (as the options)
    place: Any, names: list[str], metrics: Sequence[str], by: _By, baseline: str | None, form: Format
) -> None:
    from ragtasks.reports.comparison import comparisons_text
    from retrieval_cache import compare_runs

    found = compare_runs(place, names, metrics=metrics, by=by.value, baseline=baseline)
    group = "domain" if by is _By.DOMAIN else "queries"
    put(comparisons_text(found, form, group=group, name="run", items="queries"), None)

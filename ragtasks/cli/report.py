"""`ragtasks report`: tables, pictures and the page, of harness results, of the human evaluation, and of stored runs."""

from __future__ import annotations

from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from ragtasks.cli.app import TableFormat, app, leave_out, put, say
from ragtasks.errors import ConfigurationError

if TYPE_CHECKING:
    from collections.abc import Iterable

    from ragtasks.logs import Evaluation
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
    form: Annotated[TableFormat, typer.Option("--format", help="How the tables are written.")] = TableFormat.MARKDOWN,
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
    output: Annotated[Path | None, typer.Option(help="File for the tables, in place of the screen.")] = None,
    plots: Annotated[Path | None, typer.Option(help="Folder for pictures of the tables.")] = None,
    html: Annotated[Path | None, typer.Option(help="Page to write: tables, pictures, every conversation.")] = None,
    human_evaluation: Annotated[
        bool, typer.Option("--human-evaluation", help="Add the three systems of MTRAG's human evaluation.")
    ] = False,
    run: Annotated[list[str] | None, typer.Option(help="Stored run to add the tables of; repeatable.")] = None,
    benchmark: Annotated[str, typer.Option(help="Benchmark of the runs.")] = "mtrag",
    data: Annotated[
        str | None, typer.Option(help="`sample`, or a folder with the official files: for runs and human evaluation.")
    ] = None,
) -> None:
    """Print who leads in each setting, where the loss is and what to distrust; --full adds every table."""
    from ragtasks.reports.rendering import Format, render
    from ragtasks.reports.tables import ReportOptions, report_sections

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
        say(*(f"wrote {path}" for path in drawn))
    if html is not None:
        _write_page(evaluations, sections, html, drawn, options.metrics)
        say(f"wrote {html}")


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
    from ragtasks.logs import read_evaluations
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
    from ragtasks.tables import Section, Table
    from retrieval_cache.service import Place, evaluate_runs

    found = evaluate_runs(Place(benchmark, data, data_folder(), run_store()), names)
    notes = [Table("Before the scores", (), (), _sentences(found.notes))] if found.notes else []
    tables = (replace(t, note=_sentences([t.note, *t.legend]), legend=()) for t in found.tables)
    return [Section(f"Retrieval on {found.benchmark}", {"runs": ", ".join(names)}, (*notes, *tables))]


def _sentences(texts: Iterable[str]) -> str:
    return " ".join(f"{text.removesuffix('.')}." for text in texts if text)


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
        say("the page has no plots. Next step: pip install 'ragtasks[report]'")
        return
    with drawn_meanwhile(sections) as plots_drawn:
        write_page(evaluations, sections, path, plots_drawn, metrics=metrics)


__all__ = ["report"]

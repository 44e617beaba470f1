"""`ragtasks compare` and `compare-runs`: evaluations, and runs, in pairs."""

from __future__ import annotations

from enum import Enum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from ragtasks.cli.app import app, leave_out, say

if TYPE_CHECKING:
    from ragtasks.statistics import Comparisons


class _Format(str, Enum):
    MARKDOWN = "markdown"
    CSV = "csv"


class _By(str, Enum):
    MODEL = "model"
    SETTING = "setting"


class _RunsBy(str, Enum):
    ALL = "all"
    DOMAIN = "domain"


_METRIC = Annotated[list[str] | None, typer.Option(help="Metric to compare; repeat for several. Default: the paper's.")]
_FORMAT = Annotated[_Format, typer.Option("--format", help="Tables to read, or one line a comparison.")]


def _say(found: Comparisons, form: _Format, group: str, name: str, items: str) -> None:
    from ragtasks.reports.comparison import comparisons_csv, render_comparisons

    say(
        comparisons_csv(found)
        if form is _Format.CSV
        else render_comparisons(found, group=group, name=name, items=items)
    )


@app.command()
def compare(
    results: Annotated[
        list[Path],
        typer.Argument(
            help="Folders that lm_eval wrote with --output_path --log_samples; the earlier one is the first."
        ),
    ],
    metric: _METRIC = None,
    by: Annotated[
        _By, typer.Option(help="Compare the models in each setting, or the settings of each model.")
    ] = _By.MODEL,
    baseline: Annotated[
        str | None, typer.Option(help="Compare with this model (or setting) only; default: every pair.")
    ] = None,
    form: _FORMAT = _Format.MARKDOWN,
) -> None:
    """Print differences of evaluations with intervals and tests over conversations, corrected for their number."""
    from ragtasks.logs import read_evaluations
    from ragtasks.reports.comparison import compare_evaluations

    found = compare_evaluations(
        read_evaluations(results, left_out=leave_out), metrics=metric or (), by=by.value, baseline=baseline
    )
    _say(found, form, "setting" if by is _By.MODEL else "model", by.value, "tasks")


@app.command()
def compare_runs(  # noqa: PLR0917 (one parameter an option)
    names: Annotated[list[str], typer.Argument(help="Runs to compare; `official` is the benchmark's own.")],
    benchmark: Annotated[str, typer.Option(help="Benchmark.")] = "mtrag",
    data: Annotated[str | None, typer.Option(help="`sample`, or a folder with the official files.")] = None,
    metric: _METRIC = None,
    by: Annotated[_RunsBy, typer.Option(help="Compare over all judged queries, or in each domain.")] = _RunsBy.ALL,
    baseline: Annotated[str | None, typer.Option(help="Compare with this run only; default: every pair.")] = None,
    form: _FORMAT = _Format.MARKDOWN,
) -> None:
    """Print differences of retrieval runs with intervals and tests over conversations, corrected for their number."""
    from ragtasks.environment import data_folder, run_store
    from retrieval_cache.comparison import compare_runs as compare_all
    from retrieval_cache.service import Place

    place = Place(benchmark, data, data_folder(), run_store())
    found = compare_all(place, names, metrics=metric or (), by=by.value, baseline=baseline)
    _say(found, form, "domain" if by is _RunsBy.DOMAIN else "queries", "run", "queries")


__all__ = ["compare", "compare_runs"]

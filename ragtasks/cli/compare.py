"""`ragtasks compare`: evaluations, or runs, in pairs."""

from __future__ import annotations

from collections.abc import Sequence
from enum import Enum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ragtasks.cli.app import app, leave_out, say
from ragtasks.cli.options import DATA, retrieval_place
from ragtasks.errors import ConfigurationError

if TYPE_CHECKING:
    from ragtasks.statistics import Comparisons


class _Format(str, Enum):
    MARKDOWN = "markdown"
    CSV = "csv"


class _By(str, Enum):
    MODEL = "model"
    SETTING = "setting"
    ALL = "all"
    DOMAIN = "domain"


def _say(found: Comparisons, form: _Format, group: str, name: str, items: str) -> None:
    from ragtasks.reports.comparison import comparisons_csv, render_comparisons

    say(
        comparisons_csv(found)
        if form is _Format.CSV
        else render_comparisons(found, group=group, name=name, items=items)
    )


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
    form: Annotated[_Format, typer.Option("--format", help="Tables to read, or one line a comparison.")] = (
        _Format.MARKDOWN
    ),
    benchmark: Annotated[str, typer.Option(help="Benchmark of the runs.")] = "mtrag",
    data: DATA = None,
) -> None:
    """Print differences of results or runs with intervals and tests over conversations, corrected for their number."""
    of_results = [_names_results(name) for name in names]
    if all(of_results):
        _compare_results(
            [Path(name) for name in names], metric or (), _chosen(by, _By.MODEL, _By.SETTING), baseline, form
        )
    elif any(of_results):
        runs = ", ".join(name for name, is_results in zip(names, of_results, strict=True) if not is_results)
        raise ConfigurationError(f"compare: runs ({runs}) beside results. Next step: name either results or runs")
    else:
        place = retrieval_place(benchmark, data)
        _compare_runs(place, names, metric or (), _chosen(by, _By.ALL, _By.DOMAIN), baseline, form)


app.command("compare-runs", hidden=True)(compare)


def _names_results(name: str) -> bool:
    """Return whether a name is of results: a folder, a results file, or a path with nothing at its end."""
    path = Path(name)
    return path.is_dir() or path.suffix == ".json" or (len(path.parts) > 1 and not path.exists())


def _chosen(by: _By | None, *possible: _By) -> _By:
    if by is None or by in possible:
        return by or possible[0]
    raise ConfigurationError(f"--by {by.value}: for these it is {' or '.join(one.value for one in possible)}")


def _compare_results(paths: list[Path], metrics: Sequence[str], by: _By, baseline: str | None, form: _Format) -> None:
    from ragtasks.logs import read_evaluations
    from ragtasks.reports.comparison import compare_evaluations

    found = compare_evaluations(
        read_evaluations(paths, left_out=leave_out), metrics=metrics, by=by.value, baseline=baseline
    )
    _say(found, form, "setting" if by is _By.MODEL else "model", by.value, "tasks")


def _compare_runs(  # noqa: PLR0917 (as the options)
    place: Any, names: list[str], metrics: Sequence[str], by: _By, baseline: str | None, form: _Format
) -> None:
    from retrieval_cache.comparison import compare_runs

    found = compare_runs(place, names, metrics=metrics, by=by.value, baseline=baseline)
    _say(found, form, "domain" if by is _By.DOMAIN else "queries", "run", "queries")


__all__ = ["compare"]

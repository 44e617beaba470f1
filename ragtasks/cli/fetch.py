"""`ragtasks fetch`: a benchmark's official files."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from ragtasks.cli.app import app, say


@app.command()
def fetch(
    benchmark: Annotated[str | None, typer.Argument(help="Benchmark to fetch; --list names them.")] = None,
    *,
    listed: Annotated[bool, typer.Option("--list", help="List what can be fetched, and fetch nothing.")] = False,
    checkout: Annotated[Path | None, typer.Option("--from", help="Take the files from an existing checkout.")] = None,
    group: Annotated[list[str] | None, typer.Option(help="Files to fetch; repeat for several. Default: tasks.")] = None,
    base_url: Annotated[str | None, typer.Option(help="Address of a mirror.")] = None,
) -> None:
    """Fetch a benchmark's official files into the data folder, verified by checksum; --list says what there is."""
    from ragtasks.benchmarks import benchmark_names, download, source_of
    from ragtasks.benchmarks.download import DEFAULT_GROUPS
    from ragtasks.environment import data_folder

    if listed or benchmark is None:
        say(*download.listing([source_of(name) for name in benchmark_names()]))
        return
    source, groups = source_of(benchmark), group or DEFAULT_GROUPS
    if checkout:
        done = download.adopt(source, checkout, data_folder(), groups=groups)
    else:
        done = download.fetch(source, data_folder(), groups=groups, base_url=base_url)
    say(done.describe())


__all__ = ["fetch"]

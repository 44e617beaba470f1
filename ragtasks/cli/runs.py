"""`ragtasks runs`: the stored runs."""

from __future__ import annotations

from typing import Any

import typer

from ragtasks.cli.app import app, say

runs = typer.Typer(help="List, show, compare, check and remove stored runs.", no_args_is_help=True)
app.add_typer(runs, name="runs")


def _store() -> Any:
    from ragtasks.environment import run_store
    from retrieval_cache.store import RunStore

    return RunStore(run_store())


@runs.command("list")
def runs_list() -> None:
    """List the stored runs, and those that cannot be read."""
    from retrieval_cache.store import list_runs

    store = _store()
    stored, unreadable = store.all(), store.unreadable()
    say(*list_runs(stored) if stored else [f"no runs in {store.runs}: make one with `ragtasks retrieve`"])
    if unreadable:
        say("", f"runs that cannot be read: {len(unreadable)}", *(f"  {line}" for line in unreadable))


@runs.command("show")
def runs_show(name: str) -> None:
    """Print what a run was made of."""
    say((_store().named(name).folder / "manifest.json").read_text(encoding="utf-8"))


@runs.command("compare")
def runs_compare(first: str, second: str) -> None:
    """Print the parts of two runs that differ; exits with 1 if any do."""
    from retrieval_cache.store import diff_runs

    store = _store()
    lines = diff_runs(store.named(first).manifest, store.named(second).manifest)
    say(*lines or ["no difference"])
    raise typer.Exit(int(bool(lines)))


runs.command("diff", hidden=True)(runs_compare)


@runs.command("check")
def runs_check(name: str) -> None:
    """Check a run's files against its manifest; exits with 1 if one is missing or changed."""
    from retrieval_cache.store import verify_run

    violations = verify_run(_store().named(name))
    say(*violations or ["all files are as they were written"])
    raise typer.Exit(int(bool(violations)))


runs.command("verify", hidden=True)(runs_check)


@runs.command("remove")
def runs_remove(name: str) -> None:
    """Delete a run."""
    _store().remove(name)
    say(f"removed {name}")


__all__ = ["runs", "runs_check", "runs_compare", "runs_list", "runs_remove", "runs_show"]

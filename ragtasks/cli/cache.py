"""`ragtasks cache`: what language models replied as judges, rewriters and rerankers, and is not asked again."""

from __future__ import annotations

from typing import Annotated

import typer

from ragtasks.cli.app import app, say

cache = typer.Typer(help="Show or prune what judges, rewriters and rerankers replied: it is kept and not asked again.")
app.add_typer(cache, name="cache", invoke_without_command=True)


@cache.callback(invoke_without_command=True)
def show(context: typer.Context) -> None:
    """Say where the replies are kept, and how many of which model, kind and outcome."""
    if context.invoked_subcommand is not None:
        return
    from ragtasks.clients import describe_cache
    from ragtasks.environment import reply_cache_file

    say(*describe_cache(reply_cache_file()))


@cache.command("prune")
def prune_replies(
    older_than: Annotated[
        float | None, typer.Option(min=0, help="Remove what was stored more days ago than this.")
    ] = None,
    model: Annotated[
        str | None, typer.Option(help="Remove replies of this model, as `ragtasks cache` names it.")
    ] = None,
    outcome: Annotated[
        str | None, typer.Option(help="Remove replies of this outcome: answered, refused, filtered, ...")
    ] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only say how many would go.")] = False,
) -> None:
    """Remove replies that fit all that is given; they are then asked again."""
    from ragtasks.clients import Choice, ReplyCache, prune
    from ragtasks.environment import reply_cache_file

    file, choice = reply_cache_file(), Choice(older_than, model, outcome)
    choice.condition()
    if not file.exists():
        say(f"{file}: no replies are kept yet")
        return
    with ReplyCache(file) as replies:
        n_chosen = prune(replies, choice, dry_run=dry_run)
        n_left = len(replies)
    done = "would be removed" if dry_run else "removed"
    say(f"{n_chosen:,} replies {done}, {n_left - (n_chosen if dry_run else 0):,} stay in {file}")


__all__ = ["cache", "prune_replies", "show"]

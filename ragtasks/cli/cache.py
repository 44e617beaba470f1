"""`ragtasks cache`: what language models replied and encoders computed, and is neither asked nor computed again."""

from __future__ import annotations

from typing import Annotated

import typer

from ragtasks.cli.app import app, say

cache = typer.Typer(help="Show or prune what is kept: replies of judges, rewriters, rerankers; embeddings.")
app.add_typer(cache, name="cache", invoke_without_command=True)


@cache.callback(invoke_without_command=True)
def show(context: typer.Context) -> None:
    """Say where replies and embeddings are kept, and how many of which model."""
    if context.invoked_subcommand is not None:
        return
    from ragtasks.clients import describe_cache
    from ragtasks.environment import embedding_cache_bytes, embedding_cache_file, reply_cache_file
    from ragtasks.metrics import describe_embeddings

    say(*describe_cache(reply_cache_file()))
    say(*describe_embeddings(embedding_cache_file(), embedding_cache_bytes()))


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
    embeddings: Annotated[
        bool, typer.Option("--embeddings", help="Remove embeddings in the place of replies: all, or by age and model.")
    ] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only say how many would go.")] = False,
) -> None:
    """Remove replies that fit all that is given; they are then asked again. With --embeddings: embeddings."""
    if embeddings:
        _prune_embeddings(older_than, model, outcome, dry_run=dry_run)
        return
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


def _prune_embeddings(older_than: float | None, model: str | None, outcome: str | None, *, dry_run: bool) -> None:
    """Remove embeddings that fit all that is given."""
    from ragtasks.environment import embedding_cache_bytes, embedding_cache_file
    from ragtasks.errors import ConfigurationError
    from ragtasks.metrics import EmbeddingCache

    if outcome is not None:
        raise ConfigurationError("embeddings have no outcome: leave --outcome out, or --embeddings")
    file = embedding_cache_file()
    if not file.exists():
        say(f"{file}: no embeddings are kept yet")
        return
    with EmbeddingCache(file, embedding_cache_bytes()) as kept:
        n_chosen, n_left = kept.prune(older_than_days=older_than, encoder=model, dry_run=dry_run)
    done = "would be removed" if dry_run else "removed"
    say(f"embeddings of {n_chosen:,} texts {done}, {n_left:,} stay in {file}")


__all__ = ["cache", "prune_replies", "show"]

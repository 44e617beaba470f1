"""`ragtasks corpus`: check, duplicates and segment."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from ragtasks.cli.app import app, say

corpus_commands = typer.Typer(help="Look at a corpus, find what it repeats, cut documents.", no_args_is_help=True)
app.add_typer(corpus_commands, name="corpus")
_LOCATION = Annotated[str, typer.Argument(help="Zip, BEIR folder, .jsonl[.gz|.zst], Parquet, or hf:NAME.")]


@corpus_commands.command("check")
def corpus_check(location: _LOCATION) -> None:
    """Read a corpus once: counts, checksum, and every error."""
    from retrieval_cache.corpora import describe_corpus

    say(*describe_corpus(location))


@corpus_commands.command("duplicates")
def corpus_duplicates(
    location: _LOCATION, threshold: Annotated[float, typer.Option(help="Least Jaccard similarity.")] = 0.8
) -> None:
    """List passages that say nearly the same."""
    from retrieval_cache.corpora import describe_duplicates

    say(*describe_duplicates(location, threshold))


@corpus_commands.command("segment")
def corpus_segment(
    location: _LOCATION,
    target: Annotated[Path, typer.Argument(help="JSON lines to write.")],
    size: Annotated[int, typer.Option(help="Most tokens in a passage.")] = 512,
    overlap: Annotated[int, typer.Option(help="Tokens shared by neighbours.")] = 100,
    tokenizer: Annotated[str | None, typer.Option(help="Hugging Face tokeniser; default: words and signs.")] = None,
) -> None:
    """Cut documents into passages whose ids keep their offsets."""
    from retrieval_cache.corpora import segment_corpus

    say(f"{segment_corpus(location, target, size, overlap, tokenizer)} passages in {target}")


__all__ = ["corpus_check", "corpus_commands", "corpus_duplicates", "corpus_segment"]

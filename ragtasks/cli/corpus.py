"""`ragtasks corpus`: check, duplicates, deduplicate and segment."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from ragtasks.cli.app import app, say
from ragtasks.errors import ConfigurationError

corpus_commands = typer.Typer(help="Check a corpus, find near-duplicates, cut documents.", no_args_is_help=True)
app.add_typer(corpus_commands, name="corpus")
_LOCATION = Annotated[str, typer.Argument(help="Zip, BEIR folder, .jsonl[.gz|.zst], Parquet, or hf:NAME.")]


@corpus_commands.command("check")
def corpus_check(location: _LOCATION) -> None:
    """Read a corpus once: counts, checksum, and every error."""
    from retrieval_cache.corpora import describe_corpus

    say(*describe_corpus(location))


_THRESHOLD = Annotated[float, typer.Option(help="Least Jaccard similarity.")]
_WIDTH = Annotated[int, typer.Option("--shingle", help="Words in a shingle, the unit that passages are compared by.")]


@corpus_commands.command("duplicates")
def corpus_duplicates(location: _LOCATION, threshold: _THRESHOLD = 0.8, width: _WIDTH = 5) -> None:
    """List near-duplicate passages."""
    from retrieval_cache.corpora import describe_duplicates

    say(*describe_duplicates(location, threshold, width))


@corpus_commands.command("deduplicate")
def corpus_deduplicate(
    location: _LOCATION,
    target: Annotated[Path, typer.Argument(help="JSON lines to write.")],
    threshold: _THRESHOLD = 0.8,
    width: _WIDTH = 9,
) -> None:
    """Write a corpus without passages that repeat another: the first of each group stays."""
    from retrieval_cache.corpora import deduplicate_corpus

    say(*deduplicate_corpus(location, target, threshold, width))


@corpus_commands.command("segment")
def corpus_segment(  # noqa: PLR0917 (one parameter an option)
    location: _LOCATION,
    target: Annotated[Path, typer.Argument(help="JSON lines to write.")],
    size: Annotated[int | None, typer.Option(help="Most tokens in a passage; default: 512.")] = None,
    overlap: Annotated[int | None, typer.Option(help="Tokens shared by neighbours; default: 100.")] = None,
    tokenizer: Annotated[str | None, typer.Option(help="Hugging Face tokeniser; default: words and signs.")] = None,
    sentences: Annotated[
        int | None, typer.Option(help="Cut into segments of so many sentences, as MS MARCO V2.1 is (10).")
    ] = None,
    stride: Annotated[int | None, typer.Option(help="Sentences from one segment to the next; default: 5.")] = None,
) -> None:
    """Cut documents into passages whose ids or records keep their offsets."""
    from retrieval_cache.corpora import segment_corpus, segment_corpus_by_sentences

    if sentences is None and stride is None:
        n = segment_corpus(
            location, target, 512 if size is None else size, 100 if overlap is None else overlap, tokenizer
        )
    elif sentences is None or not (size is None and overlap is None and tokenizer is None):
        raise ConfigurationError(
            "corpus segment: give --sentences and --stride, or --size, --overlap and --tokenizer, not some of both"
        )
    else:
        n = segment_corpus_by_sentences(location, target, sentences, 5 if stride is None else stride)
    say(f"{n} passages in {target}")


__all__ = ["corpus_check", "corpus_commands", "corpus_deduplicate", "corpus_duplicates", "corpus_segment"]

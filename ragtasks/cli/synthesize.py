"""`ragtasks synthesize`: one's own documents made into a benchmark."""

from __future__ import annotations

import shlex
import time
from enum import Enum
from pathlib import Path
from typing import Annotated, Any

import typer

from ragtasks.cli.app import app, say


class Kind(str, Enum):
    """What is made."""

    DIALOGUES = "dialogues"
    MULTIHOP = "multihop"
    MTRAG_S = "mtrag-s"


_DOCUMENTS = Annotated[Path, typer.Argument(help="Folder with .txt, .md, .html and .pdf files, at any depth.")]
_OUT = Annotated[Path, typer.Option("--output", help="Folder for the benchmark; not there, or empty.")]
_MODEL = Annotated[
    str, typer.Option(help="Who writes: openai/NAME, NAME with --base-url, or a JSON object (docs/endpoints.md).")
]
_BASE_URL = Annotated[str | None, typer.Option(help="Address of an OpenAI-compatible server.")]
_JSON_MODE = Annotated[bool, typer.Option("--json-mode", help="Ask the server for JSON objects, where it can.")]


@app.command()
def synthesize(  # noqa: PLR0917 (one parameter an option)
    documents: _DOCUMENTS,
    out: _OUT,
    model: _MODEL,
    base_url: _BASE_URL = None,
    kind: Annotated[
        Kind,
        typer.Option(help="dialogues; multihop: questions over several articles, as MultiHop-RAG has them; mtrag-s."),
    ] = Kind.DIALOGUES,
    cut_by: Annotated[str, typer.Option(help="Unit of --size and --overlap: tokens or sentences.")] = "tokens",
    size: Annotated[int | None, typer.Option(help="Largest passage; default: 512 tokens, 10 sentences.")] = None,
    overlap: Annotated[
        int | None, typer.Option(help="Shared by neighbouring passages; default: 100 tokens, 5 sentences.")
    ] = None,
    tokenizer: Annotated[str, typer.Option(help="An encoder's tokeniser; default: words and signs.")] = "",
    unit: Annotated[
        str, typer.Option(help="What dialogues are written from: propositions or sentences.")
    ] = "propositions",
    list_size: Annotated[
        int, typer.Option(min=1, help="Propositions or sentences for one dialogue, each used once.")
    ] = 30,
    turns: Annotated[int, typer.Option(min=1, help="Largest number of turns in a dialogue.")] = 8,
    dialogues: Annotated[
        int | None, typer.Option(min=1, help="Largest number of dialogues, or of sets of claims.")
    ] = None,
    types: Annotated[str | None, typer.Option(help="Question types, separated by commas; default: MTRAG's.")] = None,
    unanswerable: Annotated[
        float, typer.Option(min=0, max=1, help="Share of questions that lose their passages.")
    ] = 0.0,
    pool: Annotated[str, typer.Option(help="What is searched: passages or propositions.")] = "passages",
    domains: Annotated[
        bool, typer.Option("--domains", help="Make each folder in DOCUMENTS a corpus of its own.")
    ] = False,
    most_megabytes: Annotated[float, typer.Option(min=0, help="Largest file that is read.")] = 50.0,
    collection: Annotated[str, typer.Option(help="mtrag-s: the corpus of MTRAG that DOCUMENTS stand for.")] = "govt",
    json_mode: _JSON_MODE = False,
) -> None:
    """Make conversations with reference answers out of documents: a folder for `check` and the tasks custom_*."""
    from ragtasks.progress import progress_bars
    from ragtasks.synthesis import MultihopSettings, Settings, synthesize_multihop
    from ragtasks.synthesis import synthesize as make

    more: dict[str, Any] = {"question_types": tuple(part.strip() for part in types.split(","))} if types else {}
    settings = Settings(
        cut=_cut(cut_by, size, overlap, tokenizer),
        unit="passages" if kind is Kind.MTRAG_S else unit,
        mtrag_s=collection if kind is Kind.MTRAG_S else "",
        list_size=list_size,
        turns=turns,
        unanswerable=unanswerable,
        pool=pool,
        folders_are_domains=domains,
        most_bytes=int(most_megabytes * 1_000_000),
        most_dialogues=dialogues,
        **more,
    )
    client, price = named_writer(model, base_url, json_mode=json_mode)
    begin = time.monotonic()
    with progress_bars() as progress:
        if kind is Kind.MULTIHOP:
            outcome = synthesize_multihop(
                documents, out, client, MultihopSettings(most_bridges=dialogues), price=price, progress=progress
            )
        else:
            outcome = make(documents, out, client, settings, price=price, progress=progress)
    say(*outcome.lines, f"replies: {outcome.usage.note(time.monotonic() - begin, whole=True)}")
    say(_next(kind, out))


def _next(kind: Kind, out: Path) -> str:
    if kind is Kind.MULTIHOP:
        return f"next: ragtasks retrieve --benchmark multihop_rag --data {out} --retriever bm25 --name mine"
    if kind is Kind.MTRAG_S:
        return f"next: ragtasks run --model MODEL --tasks mtrag_s --data {shlex.quote(str(out))}"
    return f"next: ragtasks check {out}"


def _cut(cut_by: str, size: int | None, overlap: int | None, tokenizer: str) -> Any:
    from ragtasks.synthesis import Cut

    usual_size, usual_overlap = (10, 5) if cut_by == "sentences" else (512, 100)
    size = usual_size if size is None else size
    overlap = min(usual_overlap, size // 2) if overlap is None else overlap
    return Cut(cut_by, size, size - overlap, tokenizer)


def named_writer(model: str, base_url: str | None, *, json_mode: bool) -> tuple[Any, Any]:
    """Return a client that keeps replies, and its price."""
    from ragtasks.clients import Decoding, KeptReplies, OpenAIClient, credentials_for, endpoint_of
    from ragtasks.environment import reply_cache_file, secret

    named = {"base_url": base_url} if base_url else {}
    endpoint = endpoint_of(model, **named)
    if json_mode:
        fields = endpoint.model_dump(exclude_unset=True)
        body = {**fields.get("extra_body", {}), "response_format": {"type": "json_object"}}
        endpoint = endpoint_of({**fields, "extra_body": body})
    client = OpenAIClient(endpoint, credentials_for(endpoint, secret), Decoding(max_tokens=4096))
    return KeptReplies(client, reply_cache_file()), endpoint.price


__all__ = ["Kind", "named_writer", "synthesize"]

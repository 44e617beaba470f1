"""`ragtasks synthesize` and `ragtasks train`: make a benchmark from documents, and train models on it."""

from __future__ import annotations

import math
import shlex
import time
from collections.abc import Iterator
from enum import Enum
from pathlib import Path
from typing import Annotated, Any

import typer

from ragtasks.cli.app import MORE, echo
from ragtasks.cli.options import named_benchmark
from ragtasks.clients import CachedClient, Decoding, OpenAIClient, credentials_for, endpoint_of
from ragtasks.config.environment import reply_cache_file, secret
from ragtasks.errors import ConfigurationError
from ragtasks.progress import progress_bars


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
_JSON_MODE = Annotated[
    bool, typer.Option("--json-mode", help="Ask the server for JSON objects, where it can.", rich_help_panel=MORE)
]


synthesize_command = typer.Typer(rich_help_panel="Your own data")


@synthesize_command.command(
    epilog="Example: ragtasks synthesize DOCUMENTS --output benchmark --model openai/gpt-4o-mini"
)
def synthesize(  # noqa: PLR0917 (one parameter an option)
    documents: _DOCUMENTS,
    out: _OUT,
    model: _MODEL,
    base_url: _BASE_URL = None,
    kind: Annotated[
        Kind,
        typer.Option(help="dialogues; multihop: questions over several articles, as MultiHop-RAG has them; mtrag-s."),
    ] = Kind.DIALOGUES,
    cut_by: Annotated[
        str, typer.Option(help="Unit of --size and --overlap: tokens or sentences.", rich_help_panel=MORE)
    ] = "tokens",
    size: Annotated[int | None, typer.Option(help="Largest passage; default: 512 tokens, 10 sentences.")] = None,
    overlap: Annotated[
        int | None,
        typer.Option(help="Shared by neighbouring passages; default: 100 tokens, 5 sentences.", rich_help_panel=MORE),
    ] = None,
    tokenizer: Annotated[
        str, typer.Option(help="An encoder's tokeniser; default: words and signs.", rich_help_panel=MORE)
    ] = "",
    unit: Annotated[
        str, typer.Option(help="What dialogues are written from: propositions or sentences.", rich_help_panel=MORE)
    ] = "propositions",
    list_size: Annotated[
        int,
        typer.Option(min=1, help="Propositions or sentences for one dialogue, each used once.", rich_help_panel=MORE),
    ] = 30,
    turns: Annotated[int, typer.Option(min=1, help="Largest number of turns in a dialogue.")] = 8,
    dialogues: Annotated[
        int | None, typer.Option(min=1, help="Largest number of dialogues, or of sets of claims.")
    ] = None,
    types: Annotated[str | None, typer.Option(help="Question types, separated by commas; default: MTRAG's.")] = None,
    unanswerable: Annotated[
        float, typer.Option(min=0, max=1, help="Share of questions that lose their passages.", rich_help_panel=MORE)
    ] = 0.0,
    pool: Annotated[
        str, typer.Option(help="What is searched: passages or propositions.", rich_help_panel=MORE)
    ] = "passages",
    domains: Annotated[
        bool, typer.Option("--domains", help="Make each folder in DOCUMENTS a corpus of its own.", rich_help_panel=MORE)
    ] = False,
    most_megabytes: Annotated[
        float, typer.Option(min=0, help="Largest file that is read.", rich_help_panel=MORE)
    ] = 50.0,
    collection: Annotated[
        str, typer.Option(help="mtrag-s: the corpus of MTRAG that DOCUMENTS stand for.", rich_help_panel=MORE)
    ] = "govt",
    json_mode: _JSON_MODE = False,
) -> None:
    """Make conversations with reference answers out of documents.

    The folder is for `ragtasks check` and the harness tasks custom_*.
    """
    from ragtasks.synthesis.multihop import MultihopSettings, synthesize_multihop
    from ragtasks.synthesis.pipeline import synthesize as make
    from ragtasks.synthesis.settings import Settings

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
    echo(*outcome.lines, f"replies: {outcome.usage.note(time.monotonic() - begin, whole=True)}")
    echo(_next(kind, out))


def _next(kind: Kind, out: Path) -> str:
    if kind is Kind.MULTIHOP:
        return f"next: ragtasks retrieve --benchmark multihop_rag --data {out} --retriever bm25 --name mine"
    if kind is Kind.MTRAG_S:
        return f"next: ragtasks run --model MODEL --tasks mtrag_s --data {shlex.quote(str(out))}"
    return f"next: ragtasks check {out}"


def _cut(cut_by: str, size: int | None, overlap: int | None, tokenizer: str) -> Any:
    from ragtasks.synthesis.cutting import Cut

    usual_size, usual_overlap = (10, 5) if cut_by == "sentences" else (512, 100)
    size = usual_size if size is None else size
    overlap = min(usual_overlap, size // 2) if overlap is None else overlap
    return Cut(cut_by, size, size - overlap, tokenizer)


def named_writer(model: str, base_url: str | None, *, json_mode: bool) -> tuple[Any, Any]:
    """Return a client that keeps replies, and its price."""
    named = {"base_url": base_url} if base_url else {}
    endpoint = endpoint_of(model, **named)
    if json_mode:
        fields = endpoint.model_dump(exclude_unset=True)
        body = {**fields.get("extra_body", {}), "response_format": {"type": "json_object"}}
        endpoint = endpoint_of({**fields, "extra_body": body})
    client = OpenAIClient(endpoint, credentials_for(endpoint, secret), Decoding(max_tokens=4096))
    return CachedClient(client, reply_cache_file()), endpoint.price


# `ragtasks train`: a light query rewriter and a bi-encoder, trained on synthetic dialogues.

train_commands = typer.Typer(
    help="Train a query rewriter or a retriever on dialogues.",
    rich_help_panel="Retrieve",
    epilog="Example: ragtasks train rewriter benchmark --base t5-small --output rewriter",
    no_args_is_help=True,
)

_DATA = Annotated[Path, typer.Argument(help="Folder that `ragtasks synthesize` made, or your own conversations.")]
_QUESTIONS = Annotated[
    Path, typer.Argument(help="Such a folder, your own conversations, or a JSON file in the form of QReCC.")
]
_TRAIN_OUT = Annotated[Path, typer.Option("--output", help="Folder for the model; not there, or empty.")]
_EPOCHS = Annotated[int, typer.Option(min=1, help="Largest number of passes over the training dialogues.")]
_BATCH = Annotated[int, typer.Option(min=1, help="Examples per step.")]
_RATE = Annotated[float, typer.Option(min=0, help="Learning rate.")]
_PATIENCE = Annotated[int, typer.Option(min=1, help="Stop after so many epochs without improvement.")]
_SEEDS = Annotated[
    str, typer.Option(help="Separated by commas: one model for each, on its own split, in OUTPUT/seed-N if several.")
]


@train_commands.command(epilog="Example: ragtasks train rewriter benchmark --base t5-small --output rewriter")
def rewriter(  # noqa: PLR0917 (one parameter an option)
    data: _QUESTIONS,
    out: _TRAIN_OUT,
    base: Annotated[str, typer.Option(help="T5, GPT-2, Mamba and their like: name on the hub, or folder.")],
    seeds: _SEEDS = "0",
    epochs: _EPOCHS = 100,
    batch_size: _BATCH = 8,
    learning_rate: _RATE = 1e-4,
    patience: _PATIENCE = 15,
    plain: Annotated[
        bool, typer.Option("--plain", help="Train without the first word that says whether to rewrite.")
    ] = False,
) -> None:
    """Train a model to write questions so that they can be understood alone."""
    from ragtasks.synthesis.qrecc import read_qrecc
    from ragtasks.synthesis.rewriter_training import train_rewriter
    from ragtasks.synthesis.training import Fitting

    benchmark = read_qrecc(data) if data.is_file() else named_benchmark("custom", str(data))
    numbers = _numbers(seeds)
    for number, folder in _places(out, numbers):
        fitting = Fitting(epochs, batch_size, learning_rate, patience, number)
        with progress_bars() as progress:
            made = train_rewriter(benchmark, base, folder, fitting, is_conditional=not plain, progress=progress)
        scores = made.scores
        echo(f"{folder}: {_course(made.statistics)}")
        echo(
            f"held out, {scores.n} questions: token F1 with the standalone question {scores.f1:.3f} "
            f"(unchanged {scores.f1_unchanged:.3f}), rewritten or not as it should {scores.right_decision:.3f}, "
            f"{scores.seconds_a_question:.3f} s a question"
        )
        place = "mtrag" if data.is_file() else f"custom --data {data}"  # a file of questions has no passages
        echo(f"next: ragtasks retrieve --benchmark {place} --retriever bm25 --queries llm_rewrite:{folder}")


@train_commands.command(epilog="Example: ragtasks train retriever benchmark --output encoder")
def retriever(  # noqa: PLR0917 (one parameter an option)
    data: _DATA,
    out: _TRAIN_OUT,
    base: Annotated[str, typer.Option(help="minilm, name on the hub, or folder.")] = "minilm",
    queries: Annotated[str, typer.Option(help="Query form that questions are read in.")] = "context",
    seeds: _SEEDS = "0",
    epochs: _EPOCHS = 100,
    batch_size: _BATCH = 16,
    learning_rate: _RATE = 1e-5,
    patience: _PATIENCE = 15,
) -> None:
    """Train an encoder to find what a question in its conversation rests on."""
    from ragtasks.synthesis.encoder_training import train_retriever
    from ragtasks.synthesis.training import Fitting

    benchmark, numbers = named_benchmark("custom", str(data)), _numbers(seeds)
    for number, folder in _places(out, numbers):
        fitting = Fitting(epochs, batch_size, learning_rate, patience, number)
        with progress_bars() as progress:
            made = train_retriever(benchmark, base, folder, fitting, form=queries, progress=progress)
        echo(f"{folder}: {_course(made.statistics)}")
        echo(
            "held out: "
            + ", ".join(f"{name} {made.scores_before[name]:.3f} -> {made.scores[name]:.3f}" for name in made.scores)
        )
        echo(f"next: ragtasks retrieve --benchmark custom --data {data} --retriever dense:{folder} --queries {queries}")


def _numbers(text: str) -> list[int]:
    try:
        return [int(part) for part in text.split(",")]
    except ValueError:
        raise ConfigurationError(f"--seeds: expected whole numbers with commas between, found {text!r}") from None


def _places(out: Path, seeds: list[int]) -> Iterator[tuple[int, Path]]:
    """Yield where each seed's model goes; those that are there already are left."""
    if len(seeds) == 1:
        yield seeds[0], out
        return
    for seed in seeds:
        folder = out / f"seed-{seed}"
        if folder.is_dir() and any(folder.iterdir()):
            echo(f"{folder}: there already")
            continue
        out.mkdir(parents=True, exist_ok=True)
        yield seed, folder


def _course(statistics: dict[str, Any]) -> str:
    loss = statistics["best_validation_loss"]
    shown = f", best validation loss {loss:.4f}" if loss is not None and math.isfinite(loss) else ""
    return (
        f"{statistics['train']} dialogues trained on, {statistics['validation']} stopped by, "
        f"{statistics['test']} held out, {statistics['epochs']:g} epochs{shown}"
    )

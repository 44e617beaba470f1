"""`ragtasks synthesize` and `ragtasks train`: make a benchmark from documents, and train models on it."""

from __future__ import annotations

import math
import shlex
import time
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from ragtasks.cli.app import MOVED, echo, metadata_keys
from ragtasks.cli.options import given_options, named_benchmark
from ragtasks.clients import (
    CachedClient,
    Decoding,
    OpenAIClient,
    credentials_for,
    endpoint_of,
    endpoint_requirements,
)
from ragtasks.config import validated
from ragtasks.config.environment import reply_cache_file, secret
from ragtasks.errors import ConfigurationError
from ragtasks.progress import progress_bars
from ragtasks.requirements import require

if TYPE_CHECKING:
    from ragtasks.synthesis.training import Hyperparameters


_METADATA = Annotated[
    list[str] | None,
    typer.Option(metavar="KEY=VALUE", help="Any other setting (docs/synthesis.md), or a JSON object; repeatable."),
]

MOVED["synthesize"] = metadata_keys("unit", "list_size", "turns", "unanswerable", "pool") | {
    "--base-url": "--model NAME,base_url=ADDRESS",
    "--types": "--metadata 'question_types=[\"TYPE\"]'",
    "--domains": "--metadata folders_are_domains=true",
    "--most-megabytes": "--metadata most_bytes=VALUE",
    "--collection": "--metadata mtrag_s=VALUE",
    "--json-mode": 'in --model, "extra_body": {"response_format": {"type": "json_object"}}',
}
MOVED["train"] = metadata_keys("epochs", "batch_size", "learning_rate", "patience")

synthesize_command = typer.Typer(rich_help_panel="Your own data")


@synthesize_command.command(
    epilog="Example: ragtasks synthesize DOCUMENTS --output benchmark --model openai/gpt-4o-mini"
)
def synthesize(  # noqa: PLR0917 (one parameter per option)
    documents: Annotated[Path, typer.Argument(help="Folder with .txt, .md, .html and .pdf files, at any depth.")],
    out: Annotated[Path, typer.Option("--output", help="Folder for the benchmark; must be new or empty.")],
    model: Annotated[str, typer.Option(help="Model that writes the texts: openai/NAME, or NAME,base_url=ADDRESS.")],
    kind: Annotated[
        Literal["dialogues", "multihop", "mtrag-s"],
        typer.Option(metavar="<kind>", help="dialogues, multihop (several articles) or mtrag-s."),
    ] = "dialogues",
    cut_by: Annotated[str, typer.Option(help="Unit of passages: tokens or sentences.", hidden=True)] = "tokens",
    size: Annotated[
        int | None, typer.Option(help="Largest passage; default: 512 tokens, 10 sentences.", hidden=True)
    ] = None,
    overlap: Annotated[
        int | None, typer.Option(help="Overlap of adjacent passages; default: 100 tokens, 5 sentences.", hidden=True)
    ] = None,
    dialogues: Annotated[int | None, typer.Option(min=1, help="Maximum number of dialogues, or of claim sets.")] = None,
    metadata: _METADATA = None,
) -> None:
    """Make conversations with reference answers from documents.

    Check the folder with `ragtasks check`; evaluate it with the harness tasks custom_*.
    """
    from ragtasks.synthesis.multihop import MultihopSettings, synthesize_multihop
    from ragtasks.synthesis.pipeline import Settings
    from ragtasks.synthesis.pipeline import synthesize as make

    values = given_options(metadata, most_dialogues=dialogues, cut=_cut(cut_by, size, overlap))
    form = {"mtrag_s": "govt", "unit": "passages"} if kind == "mtrag-s" else {}
    settings = validated(Settings, form | values)
    endpoint = endpoint_of(model)
    require(endpoint_requirements(endpoint, "writer", secret), with_requests=False)
    client = OpenAIClient(endpoint, credentials_for(endpoint, secret), Decoding(max_tokens=4096))
    kept, price, begin = CachedClient(client, reply_cache_file()), endpoint.price, time.monotonic()
    with progress_bars() as progress:
        if kind == "multihop":
            bridges = MultihopSettings(most_bridges=dialogues)
            outcome = synthesize_multihop(documents, out, kept, bridges, price=price, progress=progress)
        else:
            outcome = make(documents, out, kept, settings, price=price, progress=progress)
    echo(*outcome.lines, f"replies: {outcome.usage.note(time.monotonic() - begin, is_final=True)}")
    echo(_next(kind, out))


def _cut(cut_by: str, size: int | None, overlap: int | None) -> Any:
    from ragtasks.synthesis.cutting import Cut

    usual_size, usual_overlap = (10, 5) if cut_by == "sentences" else (512, 100)
    size = usual_size if size is None else size
    overlap = min(usual_overlap, size // 2) if overlap is None else overlap
    return Cut(cut_by, size, size - overlap)


def _next(kind: str, out: Path) -> str:
    if kind == "multihop":
        return f"next: ragtasks retrieve --benchmark multihop_rag --data {out} --retriever bm25 --name mine"
    if kind == "mtrag-s":
        return f"next: ragtasks run --model MODEL --tasks mtrag_s --data {shlex.quote(str(out))}"
    return f"next: ragtasks check {out}"


# `ragtasks train`: a small query rewriter and a bi-encoder, trained on synthetic dialogues.


train_command = typer.Typer(rich_help_panel="Retrieve")


@train_command.command(
    epilog="Example: ragtasks train rewriter benchmark --base t5-small --output rewriter; "
    "ragtasks train retriever benchmark --output encoder"
)
def train(  # noqa: PLR0917 (one parameter per option)
    what: Annotated[
        Literal["retriever", "rewriter"],
        typer.Argument(metavar="retriever|rewriter", help="An encoder, or a model that rewrites questions."),
    ],
    data: Annotated[
        Path,
        typer.Argument(
            help="Folder that `ragtasks synthesize` made, your own conversations, or for a rewriter a JSON file in the "
            "form of QReCC."
        ),
    ],
    out: Annotated[Path, typer.Option("--output", help="Folder for the model; must be new or empty.")],
    base: Annotated[
        str | None,
        typer.Option(
            help="Name on the hub, or folder. Rewriter: T5, GPT-2, Mamba and similar models. Retriever: default minilm."
        ),
    ] = None,
    queries: Annotated[
        str | None, typer.Option(help="Retriever: query form of the questions; default: context.")
    ] = None,
    plain: Annotated[bool, typer.Option("--plain", help="Rewriter that always rewrites.", hidden=True)] = False,
    seeds: Annotated[
        str, typer.Option(help="Random seeds separated by commas; trains one model each.", hidden=True)
    ] = "0",
    metadata: _METADATA = None,
) -> None:
    """Train an encoder, or a model that rewrites questions."""
    from ragtasks.synthesis.encoder_training import FORM, RETRIEVER_FITTING
    from ragtasks.synthesis.training import Hyperparameters

    is_rewriter = what == "rewriter"
    if is_rewriter and (base is None or queries):
        raise ConfigurationError("train rewriter: give --base, such as google-t5/t5-base, and omit --queries")
    if plain and not is_rewriter:
        raise ConfigurationError("train retriever: --plain is for rewriters only. Next step: omit --plain")
    usual = asdict(Hyperparameters() if is_rewriter else RETRIEVER_FITTING)
    for seed, folder in _seed_folders(out, _numbers(seeds)):
        fitting = validated(Hyperparameters, usual | given_options(metadata) | {"seed": seed})
        if is_rewriter:
            _train_rewriter(data, str(base), folder, fitting, is_conditional=not plain)
        else:
            _train_retriever(data, base or "minilm", folder, fitting, queries or FORM)


def _train_rewriter(data: Path, base: str, folder: Path, fitting: Hyperparameters, *, is_conditional: bool) -> None:
    from ragtasks.synthesis.qrecc import read_qrecc
    from ragtasks.synthesis.rewriter_training import train_rewriter

    benchmark = read_qrecc(data) if data.is_file() else named_benchmark("custom", str(data))
    with progress_bars() as progress:
        made = train_rewriter(benchmark, base, folder, fitting, is_conditional=is_conditional, progress=progress)
    scores = made.scores
    echo(f"{folder}: {_training_summary(made.statistics)}")
    echo(
        f"held out, {scores.n} questions: token F1 with the standalone question {scores.f1:.3f} "
        f"(unchanged {scores.f1_unchanged:.3f}), correctly rewritten or left unchanged {scores.right_decision:.3f}, "
        f"{scores.seconds_a_question:.3f} s a question"
    )
    benchmark_options = "mtrag" if data.is_file() else f"custom --data {data}"  # a file of questions has no passages
    echo(f"next: ragtasks retrieve --benchmark {benchmark_options} --retriever bm25 --queries llm_rewrite:{folder}")


def _train_retriever(data: Path, base: str, folder: Path, fitting: Hyperparameters, queries: str) -> None:
    from ragtasks.synthesis.encoder_training import train_retriever

    benchmark = named_benchmark("custom", str(data))
    with progress_bars() as progress:
        made = train_retriever(benchmark, base, folder, fitting, form=queries, progress=progress)
    scores = (f"{name} {made.scores_before[name]:.3f} -> {value:.3f}" for name, value in made.scores.items())
    echo(f"{folder}: {_training_summary(made.statistics)}", f"held out: {', '.join(scores)}")
    echo(f"next: ragtasks retrieve --benchmark custom --data {data} --retriever dense:{folder} --queries {queries}")


def _numbers(text: str) -> list[int]:
    try:
        return [int(part) for part in text.split(",")]
    except ValueError:
        raise ConfigurationError(f"--seeds: expected integers separated by commas, found {text!r}") from None


def _seed_folders(out: Path, seeds: list[int]) -> Iterator[tuple[int, Path]]:
    """Yield (seed, model folder), without folders that already contain a model."""
    if len(seeds) == 1:
        yield seeds[0], out
        return
    for seed in seeds:
        folder = out / f"seed-{seed}"
        if folder.is_dir() and any(folder.iterdir()):
            echo(f"{folder} already exists")
            continue
        out.mkdir(parents=True, exist_ok=True)
        yield seed, folder


def _training_summary(statistics: dict[str, Any]) -> str:
    loss = statistics["best_validation_loss"]
    shown = f", best validation loss {loss:.4f}" if loss is not None and math.isfinite(loss) else ""
    return (
        f"{statistics['train']} dialogues for training, {statistics['validation']} for early stopping, "
        f"{statistics['test']} held out, {statistics['epochs']:g} epochs{shown}"
    )

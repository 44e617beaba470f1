"""`ragtasks train`: a light query rewriter and a bi-encoder, trained on synthetic dialogues."""

from __future__ import annotations

import math
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any

import typer

from ragtasks.cli.app import app, say
from ragtasks.cli.options import named_benchmark
from ragtasks.errors import ConfigurationError

train_commands = typer.Typer(help="Train a query rewriter or a retriever on dialogues.", no_args_is_help=True)
app.add_typer(train_commands, name="train")

_DATA = Annotated[Path, typer.Argument(help="Folder that `ragtasks synthesize` made, or one's own conversations.")]
_OUT = Annotated[Path, typer.Option("--output", help="Folder for the model; not there, or empty.")]
_EPOCHS = Annotated[int, typer.Option(min=1, help="Largest number of passes over the training dialogues.")]
_BATCH = Annotated[int, typer.Option(min=1, help="Examples per step.")]
_RATE = Annotated[float, typer.Option(min=0, help="Learning rate.")]
_PATIENCE = Annotated[int, typer.Option(min=1, help="Stop after so many epochs without improvement.")]
_SEEDS = Annotated[
    str, typer.Option(help="Separated by commas: one model for each, on its own split, in OUTPUT/seed-N if several.")
]


@train_commands.command()
def rewriter(  # noqa: PLR0917 (one parameter an option)
    data: _DATA,
    out: _OUT,
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
    from ragtasks.progress import progress_bars
    from ragtasks.synthesis import Fitting, train_rewriter

    benchmark, numbers = named_benchmark("custom", str(data)), _numbers(seeds)
    for number, folder in _places(out, numbers):
        fitting = Fitting(epochs, batch_size, learning_rate, patience, number)
        with progress_bars() as progress:
            made = train_rewriter(benchmark, base, folder, fitting, is_conditional=not plain, progress=progress)
        scores = made.scores
        say(f"{folder}: {_course(made.statistics)}")
        say(
            f"held out, {scores.n} questions: token F1 with the standalone question {scores.f1:.3f} "
            f"(unchanged {scores.f1_unchanged:.3f}), rewritten or not as it should {scores.right_decision:.3f}, "
            f"{scores.seconds_a_question:.3f} s a question"
        )
        say(f"next: ragtasks retrieve --benchmark custom --data {data} --retriever bm25 --queries llm_rewrite:{folder}")


@train_commands.command()
def retriever(  # noqa: PLR0917 (one parameter an option)
    data: _DATA,
    out: _OUT,
    base: Annotated[str, typer.Option(help="minilm, name on the hub, or folder.")] = "minilm",
    queries: Annotated[str, typer.Option(help="Query form that questions are read in.")] = "context",
    seeds: _SEEDS = "0",
    epochs: _EPOCHS = 100,
    batch_size: _BATCH = 16,
    learning_rate: _RATE = 1e-5,
    patience: _PATIENCE = 15,
) -> None:
    """Train an encoder to find what a question in its conversation rests on."""
    from ragtasks.progress import progress_bars
    from ragtasks.synthesis import Fitting, train_retriever

    benchmark, numbers = named_benchmark("custom", str(data)), _numbers(seeds)
    for number, folder in _places(out, numbers):
        fitting = Fitting(epochs, batch_size, learning_rate, patience, number)
        with progress_bars() as progress:
            made = train_retriever(benchmark, base, folder, fitting, form=queries, progress=progress)
        say(f"{folder}: {_course(made.statistics)}")
        say(
            "held out: "
            + ", ".join(f"{name} {made.scores_before[name]:.3f} -> {made.scores[name]:.3f}" for name in made.scores)
        )
        say(f"next: ragtasks retrieve --benchmark custom --data {data} --retriever dense:{folder} --queries {queries}")


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
            say(f"{folder}: there already")
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


__all__ = ["retriever", "rewriter", "train_commands"]

"""A training that kills itself at the n-th file that it opens for writing, renames or removes."""

from __future__ import annotations

import os
import signal
import sys
from multiprocessing import get_context
from pathlib import Path
from typing import Any

from ragtasks.benchmarks import open_benchmark
from ragtasks.synthesis.encoder_training import train_retriever
from ragtasks.synthesis.rewriter_training import train_rewriter
from ragtasks.synthesis.training import Hyperparameters

_CHANGES = {"os.mkdir", "os.remove", "os.rename", "os.rmdir", "shutil.rmtree"}
FITTINGS = {
    "rewriter": Hyperparameters(epochs=8, learning_rate=0.3, patience=1),  # so high that it stops early
    "retriever": Hyperparameters(epochs=3, batch_size=16, learning_rate=5e-3),
}


def train(kind: str, root: Path, base: Path, folder: Path) -> None:
    """Train a model on a benchmark."""
    benchmark = open_benchmark("custom", root)
    (train_rewriter if kind == "rewriter" else train_retriever)(benchmark, str(base), folder, FITTINGS[kind])


def _child(kind: str, root: Path, base: Path, folder: Path, moment: int) -> None:
    import torch

    torch.set_num_threads(1)
    n_changes = 0

    def count(event: str, arguments: tuple[Any, ...]) -> None:
        nonlocal n_changes
        is_change = event in _CHANGES or (event == "open" and isinstance(arguments[1], str) and "w" in arguments[1])
        if is_change and str(folder.parent) in str(arguments[0]):
            n_changes += 1
            if n_changes == moment:
                os.kill(os.getpid(), signal.SIGKILL)

    sys.addaudithook(count)
    train(kind, root, base, folder)
    (folder.parent / "changes").write_text(str(n_changes), "utf-8")


def train_and_kill(kind: str, root: Path, base: Path, folder: Path, moment: int = 0) -> int:
    """Train in a separate process, which is killed at a file change; 0 for never. Return its exit status."""
    context = get_context("forkserver")
    context.set_forkserver_preload(["torch", "sentence_transformers", "transformers", "ragtasks.synthesis.training"])
    process = context.Process(target=_child, args=(kind, root, base, folder, moment))
    process.start()
    process.join()
    return int(process.exitcode or 0)

"""The only module that reads environment variables; everything else takes arguments."""

from __future__ import annotations

import os
from pathlib import Path

from platformdirs import user_cache_dir

from ragtasks.errors import ConfigurationError

DATA_VARIABLE = "RAGTASKS_DATA"
"""Names the data folder: a checkout of a benchmark, or the folder that `ragtasks data fetch` fills."""

RUNS_VARIABLE = "RAGTASKS_RUNS"
"""Names the folder that `ragtasks retrieve` writes runs to and the harness tasks read them from."""

EMBEDDINGS_VARIABLE = "RAGTASKS_EMBEDDINGS_GB"
"""Bounds the vectors of texts that BERTScore keeps, in GB; 0 keeps none."""

_SECRET_NAMES = ("KEY", "TOKEN", "SECRET", "PASSWORD")
_SECRET_LENGTH = 6  # shorter ones are placeholders, and words of any message


def data_folder() -> Path:
    """Return the data folder: RAGTASKS_DATA, else a folder in the user's cache directory. It need not exist."""
    named = os.environ.get(DATA_VARIABLE)
    return Path(named).expanduser() if named else Path(user_cache_dir("ragtasks", appauthor=False)) / "data"


def run_store() -> Path:
    """Return the folder of the precompute stage's runs: RAGTASKS_RUNS, else one in the user's cache directory."""
    named = os.environ.get(RUNS_VARIABLE)
    return Path(named).expanduser() if named else Path(user_cache_dir("ragtasks", appauthor=False)) / "retrieval"


def reply_cache_file() -> Path:
    """Return the file that keeps what language models replied as judges and rewriters; it need not exist."""
    return run_store() / "replies.sqlite"


def anchor_file() -> Path:
    """Return the file with what judges said of anchors, each time that they were asked; it need not exist."""
    return run_store() / "anchors.jsonl"


def card_folder() -> Path:
    """Return the folder of judges' cards; it need not exist."""
    return run_store() / "judge_cards"


def embedding_cache_file() -> Path:
    """Return the file that keeps the vectors of references and passages for BERTScore; it need not exist."""
    return run_store() / "embeddings.sqlite"


def embedding_cache_bytes() -> int:
    """Return the bound on the vectors that are kept, in bytes: RAGTASKS_EMBEDDINGS_GB, else 8 GB; 0 keeps none."""
    named = os.environ.get(EMBEDDINGS_VARIABLE, "").strip() or "8"
    try:
        size = int(float(named) * 1e9)
    except (ValueError, OverflowError):
        size = -1
    if size < 0:
        raise ConfigurationError(
            "the limit of the embedding cache",
            where=EMBEDDINGS_VARIABLE,
            expected="a number of GB, such as 8 or 0.5; 0 keeps none",
            found=repr(named),
            next_step="correct it, or leave it out: 8 GB",
        )
    return size


def secret(name: str) -> str | None:
    """Return the value of a variable that holds a key, None where it is not set. Never printed, logged or stored."""
    return os.environ.get(name) or None


def environment_secrets() -> frozenset[str]:
    """Return what the environment's variables for keys hold: what may show in no message."""
    named = {value for name, value in os.environ.items() if name.upper().endswith(_SECRET_NAMES)}
    return frozenset(value for value in named if len(value) >= _SECRET_LENGTH)


def data_folder_is_named() -> bool:
    """Return whether the user chose the data folder."""
    return bool(os.environ.get(DATA_VARIABLE))


def is_github_action() -> bool:
    """Return whether a workflow of GitHub runs this: then lines that begin with `::` annotate a pull request."""
    return os.environ.get("GITHUB_ACTIONS") == "true"


def github_summary_file() -> Path | None:
    """Return the file that GitHub shows as the summary of a step; None outside of its workflows."""
    named = os.environ.get("GITHUB_STEP_SUMMARY")
    return Path(named) if named else None

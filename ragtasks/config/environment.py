"""Access to environment variables. Other modules receive their values as arguments."""

from __future__ import annotations

import os
from pathlib import Path

from platformdirs import user_cache_dir

from ragtasks.errors import ConfigurationError

DATA_VARIABLE = "RAGTASKS_DATA"
"""Data folder: a checkout of a benchmark, or the folder that `ragtasks data fetch` writes."""

RUNS_VARIABLE = "RAGTASKS_RUNS"
"""Folder of retrieval runs. `ragtasks retrieve` writes them, and the harness tasks read them."""

EMBEDDINGS_VARIABLE = "RAGTASKS_EMBEDDINGS_GB"
"""Maximum size of the BERTScore vector cache in GB; 0 disables the cache."""

_SECRET_NAMES = ("KEY", "TOKEN", "SECRET", "PASSWORD")
_SECRET_LENGTH = 6  # shorter values are placeholders or common words


def data_folder() -> Path:
    """Return the data folder: RAGTASKS_DATA, else a folder in the user's cache directory. It may not exist."""
    named = os.environ.get(DATA_VARIABLE)
    return Path(named).expanduser() if named else Path(user_cache_dir("ragtasks", appauthor=False)) / "data"


def run_store() -> Path:
    """Return the folder of retrieval runs: RAGTASKS_RUNS, else a folder in the user's cache directory."""
    named = os.environ.get(RUNS_VARIABLE)
    return Path(named).expanduser() if named else Path(user_cache_dir("ragtasks", appauthor=False)) / "retrieval"


def reply_cache_file() -> Path:
    """Return the cache file for replies of judges and rewriters; it may not exist."""
    return run_store() / "replies.sqlite"


def anchor_file() -> Path:
    """Return the file with all anchor verdicts; it may not exist."""
    return run_store() / "anchors.jsonl"


def card_folder() -> Path:
    """Return the folder of judge cards; it may not exist."""
    return run_store() / "judge_cards"


def embedding_cache_file() -> Path:
    """Return the cache file for the BERTScore vectors of references and passages; it may not exist."""
    return run_store() / "embeddings.sqlite"


def embedding_cache_bytes() -> int:
    """Return the maximum size of the vector cache in bytes: RAGTASKS_EMBEDDINGS_GB, else 8 GB. 0 disables the cache.

    Raises:
        ConfigurationError: if the variable is not a number of GB.
    """
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
    """Return the key in an environment variable, or None if it is unset. Keys are never printed, logged or stored."""
    return os.environ.get(name) or None


def environment_secrets() -> frozenset[str]:
    """Return the values of all environment variables for keys. Messages must not contain them."""
    named = {value for name, value in os.environ.items() if name.upper().endswith(_SECRET_NAMES)}
    return frozenset(value for value in named if len(value) >= _SECRET_LENGTH)


def data_folder_is_named() -> bool:
    """Return whether RAGTASKS_DATA is set."""
    return bool(os.environ.get(DATA_VARIABLE))


def vllm_target() -> str:
    """Return the device that the environment sets for vLLM, such as `cpu`; empty if it sets none."""
    return os.environ.get("VLLM_TARGET_DEVICE", "").lower()


def is_github_action() -> bool:
    """Return whether a GitHub workflow runs this process. Lines that begin with `::` then annotate a pull request."""
    return os.environ.get("GITHUB_ACTIONS") == "true"


def github_summary_file() -> Path | None:
    """Return the file for the summary of a GitHub workflow step; None outside a workflow."""
    named = os.environ.get("GITHUB_STEP_SUMMARY")
    return Path(named) if named else None

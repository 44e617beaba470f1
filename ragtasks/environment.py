"""The only module that reads environment variables; everything else is told."""

from __future__ import annotations

import os
from pathlib import Path

from platformdirs import user_cache_dir

DATA_VARIABLE = "RAGTASKS_DATA"
"""Names the data folder: a checkout of a benchmark, or the folder that `ragtasks fetch` fills."""

RUNS_VARIABLE = "RAGTASKS_RUNS"
"""Names the folder that `ragtasks retrieve` writes runs to and the harness tasks read them from."""


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


def endpoint_key() -> str | None:
    """Return the key for OpenAI-compatible endpoints, if one is set. Never printed, logged or stored."""
    return os.environ.get("OPENAI_API_KEY")


def engine_keys() -> dict[str, str]:
    """Return retriever -> key of its server, for those that are set. Never printed, logged or stored."""
    named = {
        "elser": os.environ.get("ELASTIC_API_KEY"),
        "milvus": os.environ.get("MILVUS_TOKEN"),
        "listwise": endpoint_key(),
    }
    return {retriever: key for retriever, key in named.items() if key}


def data_folder_is_named() -> bool:
    """Return whether the user chose the data folder."""
    return bool(os.environ.get(DATA_VARIABLE))


__all__ = [
    "DATA_VARIABLE",
    "RUNS_VARIABLE",
    "data_folder",
    "data_folder_is_named",
    "endpoint_key",
    "engine_keys",
    "reply_cache_file",
    "run_store",
]

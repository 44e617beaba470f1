"""A synthesis with a scripted model."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from ragtasks.clients import CachedClient, OpenAIClient, endpoint_of
from ragtasks.synthesis.cutting import Cut
from ragtasks.synthesis.folder import SynthesisReport
from ragtasks.synthesis.pipeline import Settings, synthesize

SETTINGS: dict[str, Any] = {"cut": Cut(size=60, stride=50), "list_size": 8}
ENDPOINT: dict[str, Any] = {"attempts": 1, "backoff_seconds": 0.01, "slots": 2}


def writer(base_url: str, cache: Path) -> CachedClient:
    """Return a client that caches replies in a file."""
    return CachedClient(OpenAIClient(endpoint_of({"model": "writer", "base_url": base_url, **ENDPOINT}), "key"), cache)


def make(base_url: str, folder: Path, out: str = "out", **settings: Any) -> SynthesisReport:
    """Return the result of a synthesis over `folder/docs`, with replies cached in `folder/replies.sqlite`."""
    client = writer(base_url, folder / "replies.sqlite")
    return synthesize(folder / "docs", folder / out, client, Settings(**{**SETTINGS, **settings}))


def rows(path: Path) -> list[dict[str, Any]]:
    """Return the objects of a file of JSON lines."""
    return [json.loads(line) for line in path.read_text("utf-8").splitlines()]


def content(folder: Path) -> dict[str, bytes]:
    """Return every file below a folder."""
    return {str(path.relative_to(folder)): path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file()}

"""Asks a server through a cache, in a process that a test may kill: `python -m tests.clients._asking URL FILE N`."""

from __future__ import annotations

import sys
from pathlib import Path

from ragtasks.clients.openai_client import OpenAIClient
from ragtasks.clients.protocol import Prompt
from ragtasks.clients.reply_cache import CachedClient, ReplyCache


def main(url: str, file: str, n_prompts: str) -> None:
    """Answer prompts `0` to `n - 1`."""
    with ReplyCache(Path(file)) as cache:
        client = CachedClient(OpenAIClient({"model": "m", "base_url": url, "slots": 4}), cache)
        client.answer([Prompt.of(str(number)) for number in range(int(n_prompts))])


if __name__ == "__main__":
    main(*sys.argv[1:])

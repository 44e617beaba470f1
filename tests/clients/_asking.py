"""Sends prompts to a server through a cache, in a process that a test may kill: `... URL FILE N [SLOTS]`."""

from __future__ import annotations

import sys
from pathlib import Path

from ragtasks.clients import CachedClient, OpenAIClient, Prompt, ReplyCache


def main(url: str, file: str, n_prompts: str, slots: str = "4") -> None:
    """Send prompts `0` to `n - 1`; the server repeats each."""
    texts = [str(number) for number in range(int(n_prompts))]
    with ReplyCache(Path(file)) as cache:
        client = CachedClient(OpenAIClient({"model": "m", "base_url": url, "slots": int(slots)}), cache)
        replies = client.answer([Prompt.of(text) for text in texts])
    assert [reply.text for reply in replies] == texts


if __name__ == "__main__":
    main(*sys.argv[1:])

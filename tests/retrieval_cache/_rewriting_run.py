"""Rewrites the sample's questions in a process that a test may kill: `... URL CACHE OUTPUT`."""

from __future__ import annotations

import json
import sys
from pathlib import Path

from ragtasks.benchmarks import SAMPLE, benchmark_folder, open_benchmark
from ragtasks.clients import CachedClient, OpenAIClient, ReplyCache
from retrieval_cache.queries import rewrite_queries

SLOTS = 2


def main(url: str, cache_file: str, output: str) -> None:
    """Write the queries and the reasons of fallbacks as JSON."""
    tasks = open_benchmark("mtrag", benchmark_folder("mtrag", SAMPLE, Path())).tasks
    with ReplyCache(Path(cache_file)) as cache:
        client = CachedClient(OpenAIClient({"model": "m", "base_url": url, "slots": SLOTS}), cache)
        queries = rewrite_queries(tasks, client)
    Path(output).write_text(json.dumps([dict(queries.texts), dict(queries.fallbacks)]))


if __name__ == "__main__":
    main(*sys.argv[1:])

"""Time and peak memory of a run over a segment source, by size of the source.

CPU seconds over all threads are more reliable than wall-clock seconds on a busy machine.

The source has the form of MS MARCO V2.1's segments: gzipped JSON-lines shards of 100,000 generated segments each (about
1,100 bytes per line before gzip). The run names 100 segments for each of 301 queries, spread over the complete source,
like a TREC RAG run. For every size, a separate process makes the stored run, as `ragtasks retrieve --retriever run:FILE
--corpus DOMAIN=FOLDER --depth 20` does, and then requests it again, which finds it by its key.

    python perf/segments.py [--sizes 500000 1000000 2000000]

Requires about 0.4 kB of disk per segment in the temporary folder, which is deleted afterwards.
"""

from __future__ import annotations

import argparse
import gzip
import json
import os
import random
import resource
import subprocess
import sys
import tempfile
import time
from dataclasses import replace
from pathlib import Path

import orjson

A_SHARD = 100_000
N_QUERIES = 301
"""Topics of TREC RAG 2024."""
N_RANKED = 100
DOMAIN = "clapnq"
"""The sample's domain whose corpus is replaced by the source."""


def segment_id(number: int) -> str:
    """Return an id in the official form."""
    shard, row = divmod(number, A_SHARD)
    return f"msmarco_v2.1_doc_{shard:02}_{row // 10 * 9000}#{row % 10}_{row * 1100}"


def write_shard(path: Path, shard: int) -> None:
    """Write one shard. Texts are cut from a long text of generated words, so that gzip has realistic work."""
    chance = random.Random(shard)
    letters = "etaoinshrdlucmwfgypbvk"
    words = ["".join(chance.choices(letters, k=chance.randint(2, 9))) for _ in range(20_000)]
    text = " ".join(chance.choices(words, k=200_000))
    with gzip.open(path, "wb", compresslevel=3) as file:
        for number in range(shard * A_SHARD, (shard + 1) * A_SHARD):
            start = chance.randrange(len(text) - 1000)
            row = {
                "docid": segment_id(number),
                "url": f"https://example.org/{number // 10}",
                "title": text[start : start + 30],
                "headings": text[start : start + 60],
                "segment": text[start : start + chance.randint(600, 1000)],
                "start_char": 0,
                "end_char": 1000,
            }
            file.write(orjson.dumps(row) + b"\n")


def write_run(path: Path, size: int) -> None:
    """Write a run whose segments are drawn from the complete source."""
    chance = random.Random(size)
    lines = [
        f"q{query} Q0 {segment_id(number)} {rank} {N_RANKED - rank} made-up\n"
        for query in range(N_QUERIES)
        for rank, number in enumerate(chance.sample(range(size), N_RANKED), start=1)
    ]
    path.write_text("".join(lines))


def make_run(source: Path, run: Path, store: Path) -> dict[str, float]:
    """Return seconds and peak memory of the stage in this process."""
    from ragtasks.benchmarks import benchmark_folder, open_benchmark
    from retrieval_cache import Queries, RunStore, parse
    from retrieval_cache.stage import RunRequest, build_run

    sample = open_benchmark("mtrag", benchmark_folder("mtrag", "sample", Path("unused")))
    model = next(task for task in sample.tasks if task.domain == DOMAIN)
    tasks = tuple(replace(model, task_id=f"q{query}", references=()) for query in range(N_QUERIES))
    queries = Queries("last_turn", {task.task_id: task.question for task in tasks})
    steps: dict[str, float] = {}

    def progress(label: str, done: int, total: int | None) -> None:
        steps[label.removeprefix(f"{DOMAIN}: ")] = time.perf_counter()

    request = RunRequest(
        replace(sample, tasks=tasks), queries, lambda: parse(f"run:{run}"), 20, corpora={DOMAIN: str(source)}
    )
    before = peak_megabytes()
    begin, cpu_before = time.perf_counter(), time.process_time()
    build_run(request, RunStore(store), progress)
    seconds, cpu = time.perf_counter() - begin, time.process_time() - cpu_before
    peak, again = peak_megabytes(), time.perf_counter()
    build_run(request, RunStore(store))
    return {
        "seconds": seconds,
        "cpu": cpu,
        "checksum": steps["checksum"] - begin,
        "look_up": steps["look up"] - steps["checksum"],
        "again": time.perf_counter() - again,
        "imports_megabytes": before,
        "megabytes": peak,
    }


def peak_megabytes() -> float:
    """Return the peak memory of this process so far."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def measured(folder: Path, size: int) -> dict[str, float]:
    """Return the measurements of `make_run` over the first `size` segments, in a separate process."""
    source = folder / f"source_{size}"
    source.mkdir()
    for shard in range(size // A_SHARD):
        name = f"segmented_{shard:02}.json.gz"
        os.link(folder / name, source / name)
    write_run(folder / f"{size}.trec", size)
    command = [sys.executable, __file__, "--child", str(source), str(folder / f"{size}.trec"), str(folder / f"s{size}")]
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    values: dict[str, float] = json.loads(done.stdout)
    return values


def main() -> None:
    """Create the source once, measure every size, print a table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sizes", type=int, nargs="+", default=[500_000, 1_000_000, 2_000_000])
    parser.add_argument("--child", nargs=3, type=Path, metavar=("SOURCE", "RUN", "STORE"), help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.child:
        print(json.dumps(make_run(*options.child)))
        return
    sizes = [size // A_SHARD * A_SHARD for size in options.sizes]
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        for shard in range(max(sizes) // A_SHARD):
            write_shard(folder / f"segmented_{shard:02}.json.gz", shard)
        n_bytes = sum(path.stat().st_size for path in folder.iterdir())
        print(f"{max(sizes):,} segments, {n_bytes / 1e6:,.0f} MB of shards, load {os.getloadavg()[0]:.1f}", flush=True)
        print(
            "  segments  seconds  s/100,000  CPU s/100,000  checksum  look up  repeat  peak MB  imports MB",
            flush=True,
        )
        for size in sizes:
            row = measured(folder, size)
            print(
                f"{size:10,} {row['seconds']:8.1f} {row['seconds'] / size * A_SHARD:10.2f} "
                f"{row['cpu'] / size * A_SHARD:14.2f} {row['checksum']:9.1f} "
                f"{row['look_up']:8.1f} {row['again']:7.1f} {row['megabytes']:8.0f} {row['imports_megabytes']:14.0f}",
                flush=True,
            )


if __name__ == "__main__":
    main()

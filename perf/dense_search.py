"""Exact dense search against faiss's own flat index, in one run: same vectors, same queries, in turn.

Ours takes float16 shards from disk, multiplies with faiss, scores the candidates again and orders ties; faiss holds
float32 vectors in memory. Loading is outside both times, and printed.

    python perf/dense_search.py [--passages 60000] [--dimension 384] [--queries 777] [--k 10] [--repeats 7]
"""

from __future__ import annotations

import argparse
import statistics
import tempfile
import time
from pathlib import Path

import faiss
import numpy as np

from retrieval_cache.retrievers.dense import ExactIndex

SHARD_SIZE = 8192


def unit_vectors(generator: np.random.Generator, n: int, dimension: int) -> np.ndarray:
    """Return random vectors of length 1, float32."""
    vectors = generator.standard_normal((n, dimension), dtype=np.float32)
    return vectors / np.linalg.norm(vectors, axis=1, keepdims=True)


def load_shards(passages: np.ndarray, folder: Path) -> ExactIndex:
    """Return our index over shards written to `folder`."""
    paths = [folder / f"{start}.npy" for start in range(0, len(passages), SHARD_SIZE)]
    for number, path in enumerate(paths):
        np.save(path, passages[number * SHARD_SIZE : (number + 1) * SHARD_SIZE])
    begin = time.perf_counter()
    ids = [f"passage-{position}" for position in range(len(passages))]
    index = ExactIndex.of([np.load(path, mmap_mode="c") for path in paths], ids, "faiss")
    print(f"loading: ours {time.perf_counter() - begin:.2f} s", end="")
    return index


def main() -> None:
    """Time both in turn and print the medians and their ratio."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for option, default in {"passages": 60_000, "dimension": 384, "queries": 777, "k": 10, "repeats": 7}.items():
        parser.add_argument(f"--{option}", type=int, default=default)
    arguments = parser.parse_args()
    generator = np.random.default_rng(0)
    passages = unit_vectors(generator, arguments.passages, arguments.dimension).astype(np.float16)
    queries = unit_vectors(generator, arguments.queries, arguments.dimension)
    with tempfile.TemporaryDirectory() as folder:
        ours = load_shards(passages, Path(folder))
        begin = time.perf_counter()
        flat = faiss.IndexFlatIP(arguments.dimension)
        flat.add(passages.astype(np.float32))
        print(f", faiss {time.perf_counter() - begin:.2f} s")
        times: dict[str, list[float]] = {"faiss": [], "ours": []}
        for _ in range(arguments.repeats + 1):
            begin = time.perf_counter()
            _, positions = flat.search(queries, arguments.k)
            middle = time.perf_counter()
            found = ours.search(queries, arguments.k)
            times["faiss"].append(middle - begin)
            times["ours"].append(time.perf_counter() - middle)
    overlap = np.mean([len(set(a) & set(b[0])) / arguments.k for a, b in zip(positions, found, strict=True)])
    report(times, float(overlap), arguments.k)


def report(times: dict[str, list[float]], overlap: float, k: int) -> None:
    """Print the medians over all turns but the first, which warms up."""
    measured = {name: found[1:] for name, found in times.items()}
    for name, found in measured.items():
        print(f"{name:6} median {statistics.median(found):.3f} s   min {min(found):.3f}   max {max(found):.3f}")
    ratios = [ours / theirs for ours, theirs in zip(measured["ours"], measured["faiss"], strict=True)]
    print(f"ratio  median {statistics.median(ratios):.3f}     min {min(ratios):.3f}   max {max(ratios):.3f}")
    print(f"overlap@{k} {overlap:.4f}")


if __name__ == "__main__":
    main()

"""Speed of encoding passages, compared with sentence-transformers' own `encode` on equal texts.

Ours uses a budget of tokens per batch, theirs a fixed number of texts; both sort by length. The two alternate, a ratio
is the median over repetitions, and every vector is compared before a ratio is printed. Tokens per second exclude
padding. On a processor, CPU time is measured, which depends least on other programs.

    python perf/dense_encoding.py [--data path/to/mt-rag-benchmark] [--model minilm] [--passages 200] [--device cuda]
"""

from __future__ import annotations

import argparse
import json
import random
import statistics
import time
import zipfile
from collections.abc import Callable
from itertools import islice
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from ragtasks.errors import RagtasksError
from ragtasks.records import Passage
from retrieval_cache import DenseRetriever

Vectors = NDArray[np.float32]
PEER = "sentence-transformers"
TOLERANCE = 1e-5


def read_passages(root: Path, n: int) -> list[str]:
    """Return texts of MTRAG's passages, the first of each domain's corpus in equal numbers."""
    files = sorted((root / "corpora/passage_level").glob("*.zip"))
    texts: list[str] = []
    for path in files:
        with zipfile.ZipFile(path) as archive, archive.open(archive.namelist()[0]) as lines:
            texts += [json.loads(line)["text"] for line in islice(lines, n // len(files))]
    return [text for text in texts if text.strip()]


def generate_passages(n: int) -> list[str]:
    """Return passages of random words with about the lengths of MTRAG's."""
    chance = random.Random(0)
    words = ["".join(chance.choices("abcdefghijklmnop", k=chance.randint(2, 9))) for _ in range(3000)]
    return [" ".join(chance.choices(words, k=chance.randint(20, 220))) for _ in range(n)]


def timed(work: Callable[[], Vectors], device: str) -> tuple[Vectors, float]:
    """Return vectors and seconds, measured until the vectors are in memory."""
    clock = time.process_time if device == "cpu" else time.perf_counter
    start = clock()
    vectors = work()
    return vectors, clock() - start


def measure(sides: dict[str, Callable[[], Vectors]], repeats: int, device: str) -> dict[str, list[float]]:
    """Return the seconds of each side, by repetition.

    Raises:
        SystemExit: vectors differ from the first side's.
    """
    seconds: dict[str, list[float]] = {name: [] for name in sides}
    for work in sides.values():
        work()  # warm-up, not measured
    for _ in range(repeats):
        vectors: list[Vectors] = []
        for name, work in sides.items():
            result, duration = timed(work, device)
            vectors.append(result)
            seconds[name].append(duration)
        gap = max(float(np.abs(result - vectors[0]).max()) for result in vectors)
        if gap > TOLERANCE:
            raise SystemExit(f"vectors differ by {gap:.2g}, more than {TOLERANCE:g}")
    return seconds


def measure_peer(texts: list[str], options: argparse.Namespace) -> None:
    """Print the speed of each side."""
    retriever = DenseRetriever(options.model, device=options.device)
    try:
        encoder = retriever._encoder
    except RagtasksError as error:
        raise SystemExit(str(error)) from None

    def ours() -> Vectors:
        batches, _ = retriever.batches([Passage("", text) for text in texts])
        rows = [retriever._batch([texts[position] for position in positions], "passage") for positions in batches]
        return np.concatenate(rows)[np.argsort(np.concatenate(batches))]

    def theirs() -> Vectors:
        return np.asarray(encoder.encode_document(texts, normalize_embeddings=True, show_progress_bar=False))

    seconds = measure({"ours": ours, PEER: theirs}, options.repeats, options.device)
    ids = encoder.tokenizer(texts, truncation=True, max_length=encoder.max_seq_length)["input_ids"]
    n_tokens = sum(map(len, ids))
    print(f"{len(texts)} passages, {n_tokens:,} tokens, {options.model}, {options.device}")
    for name, durations in seconds.items():
        ratio = statistics.median(
            peer_seconds / own_seconds for own_seconds, peer_seconds in zip(durations, seconds[PEER], strict=True)
        )
        middle = statistics.median(durations)
        print(f"{name:<22}{middle:>9.2f} s{n_tokens / middle:>11,.0f} tokens/s{ratio:>7.2f}x")


def main() -> None:
    """Measure and print one line per side."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, help="an MTRAG checkout; without it the texts are generated")
    parser.add_argument("--model", default="minilm")
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--passages", type=int, default=200)
    parser.add_argument("--repeats", type=int, default=3)
    options = parser.parse_args()
    texts = read_passages(options.data, options.passages) if options.data else generate_passages(options.passages)
    measure_peer(texts, options)


if __name__ == "__main__":
    main()

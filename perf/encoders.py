"""Speed of the small encoder relative to the processor's matrix products, with and without torch.

Texts of MTRAG are encoded by torch and by onnxruntime, alternating with plain matrix products: large square products by
the faster of numpy and torch (the processor's peak), and products of the encoder's own shapes. Work is counted as
multiplications and additions of the matrix products (GFLOP/s); other operations of an encoder count as time only.
Vectors must agree to 1e-5 before anything is printed.

    python perf/encoders.py [--data path/to/mt-rag-benchmark] [--texts 300] [--repeats 5] [--threads 1]

With `--threads 1` CPU time is measured, which depends least on other programs.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np

from perf.scoring import generate_items, read_items
from ragtasks.metrics import resolve_encoder
from ragtasks.metrics.semantic import _encoders, _light

WIDTH, INNER, LAYERS, SQUARE, N_SQUARES = 384, 1536, 6, 1536, 4


def products(n: int) -> int:
    """Return the floating point operations of the matrix products for a text of `n` tokens."""
    linear = 2 * n * WIDTH * (3 * WIDTH + WIDTH + 2 * INNER)
    return LAYERS * (linear + 4 * n * n * WIDTH)


def squares_by(library: Any) -> Callable[[], object]:
    """Return a call of some large products."""
    square = library.ones((SQUARE, SQUARE), dtype=library.float32)
    return lambda: [square @ square for _ in range(N_SQUARES)]


def shapes_alone(lengths: Sequence[int]) -> Callable[[], object]:
    """Return a call of only the encoder's linear products."""
    import torch

    weights = [torch.ones(shape) for shape in ((WIDTH, 3 * WIDTH), (WIDTH, WIDTH), (WIDTH, INNER))]
    outer = torch.ones(INNER, WIDTH)
    rows = {n: (torch.ones(n, WIDTH), torch.ones(n, INNER)) for n in lengths}

    def run() -> None:
        for n in lengths:
            for _ in range(LAYERS):
                for weight in weights:
                    rows[n][0] @ weight
                rows[n][1] @ outer

    return run


def main() -> None:
    """Read texts, compare vectors, alternate, and print medians."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, help="an MTRAG checkout; without it the texts are generated")
    parser.add_argument("--texts", type=int, default=300)
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--threads", type=int, default=_light.n_cores())
    options = parser.parse_args()
    import torch

    torch.set_num_threads(options.threads)
    _light.n_cores = lambda: options.threads  # type: ignore[assignment]
    clock = time.process_time if options.threads == 1 else time.perf_counter
    tasks = read_items(options.data) if options.data else generate_items(options.texts)
    items = [item for task in tasks for item in task]
    texts = list(dict.fromkeys(text for item in items for text in (item.response, item.target, *item.passages)))
    spec = resolve_encoder("minilm")
    by_torch = _encoders.Encoder(spec, "cpu")
    light = _encoders.LightEncoder(Path(_encoders.packaged_minilm("a measurement")), spec.layer)
    step = max(1, len(texts) // options.texts)
    texts = texts[::step][: options.texts]
    token_ids = dict(zip(texts, light.token_ids(texts)[0], strict=True))
    lengths = [len(ids) for ids in token_ids.values()]
    expected = {text: vectors.numpy() for text, vectors in by_torch.encode(token_ids)}
    gap = max(float(np.abs(vectors - expected[text]).max()) for text, vectors in light.encode(token_ids))
    if gap > 1e-5:
        raise SystemExit(f"vectors differ by {gap:.2g}")
    work = sum(map(products, lengths))
    linear = sum(2 * LAYERS * n * WIDTH * (4 * WIDTH + 2 * INNER) for n in lengths)
    ways: dict[str, tuple[Callable[[], object], float]] = {
        "square products, torch": (squares_by(torch), N_SQUARES * 2 * SQUARE**3),
        "square products, numpy": (squares_by(np), N_SQUARES * 2 * SQUARE**3),
        "the encoder's linear products alone, torch": (shapes_alone(lengths), linear),
        "the encoder by torch": (lambda: list(by_torch.encode(token_ids)), work),
        "the encoder by onnxruntime": (lambda: list(light.encode(token_ids)), work),
    }
    speeds: dict[str, list[float]] = {name: [] for name in ways}
    for _ in range(options.repeats):
        for name, (run, size) in ways.items():
            begin = clock()
            run()
            speeds[name].append(size / (clock() - begin) / 1e9)
    peak = max(median(speeds[name]) for name in list(ways)[:2])
    tokens = sum(lengths) / len(lengths)
    print(f"{len(texts)} texts of {tokens:.0f} tokens; largest difference {gap:.1g}; {options.threads} threads")
    for name, measured in speeds.items():
        speed = median(measured)
        per_second = f"{speed * 1e9 / work * len(texts):>8.0f} texts/s" if "encoder by" in name else ""
        spread = f"({min(measured):.0f} to {max(measured):.0f})"
        print(f"{name:<44}{speed:>6.0f} GFLOP/s {spread:<14}{speed / peak:>6.0%} of the peak{per_second}")


if __name__ == "__main__":
    main()

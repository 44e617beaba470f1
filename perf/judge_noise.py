"""What repeats and anchors find out about a judge: coverage, false alarms and power, on simulated and on real verdicts.

python perf/judge_noise.py repeats                          how far a mean moves, from answers that are judged again
"""

from __future__ import annotations

import argparse
import math

import numpy as np

from ragtasks.statistics import estimate_mean, repeatability

TRIALS = 400
NOISE, SHIFT = 0.15, 0.02
DESIGNS = ((110, 0.1), (110, 0.25), (110, 1.0), (30, 0.5))


def repeats() -> None:
    """Print a row for each design: conversations, share judged again, judgings."""
    heads = ("conversations", "share", "judgings", "judged again", "mean moves by", "false shifts", "shifts found")
    print(f"| {' | '.join((*heads, 'interval', 'widened'))} |")
    print("|---:|---:|---:|---:|---:|---:|---:|---:|---:|")
    for n_conversations, share in DESIGNS:
        for n in (2, 3):
            still = simulated(n_conversations, share, n, 0.0)
            moved = simulated(n_conversations, share, n, SHIFT)
            cells = (still["again"], still["move"], still["found"], moved["found"], moved["plain"], moved["widened"])
            print(f"| {n_conversations} | {share:g} | {n} | " + " | ".join(f"{cell:.1%}" for cell in cells) + " |")


def simulated(n_conversations: int, share: float, n: int, shift: float) -> dict[str, float]:
    """Return how often each statement holds."""
    rng = np.random.default_rng(7)
    counts = dict.fromkeys(("again", "move", "found", "plain", "widened"), 0)
    for _ in range(TRIALS):
        sizes = rng.integers(2, 13, n_conversations)
        names = [f"c{place}" for place, size in enumerate(sizes) for _ in range(size)]
        truth = 0.6 + np.repeat(rng.normal(0, 0.1, n_conversations), sizes) + rng.normal(0, 0.2, len(names))
        judgings = [truth + rng.normal(0, NOISE, len(names)) + rng.normal(0, shift) for _ in range(n + 1)]
        m = int(sizes[: math.ceil(share * n_conversations)].sum())
        whole = estimate_mean(list(judgings[0]), names)
        found = repeatability([list(judging[:m]) for judging in judgings[:n]], names[:m], whole)
        cell = found.widened(whole.cell, whole.standard_error)
        assert found.again
        assert found.mean_move
        expected = 2 * math.sqrt((NOISE**2 / len(names) + shift**2) / math.pi)
        counts["again"] += found.again[0] <= judgings[n].mean() <= found.again[1]
        counts["move"] += found.mean_move[1] <= expected <= found.mean_move[2]
        counts["found"] += (found.shift_p or 0.0) <= 0.05
        counts["plain"] += (whole.low or 0.0) <= 0.6 <= (whole.high or 1.0)
        counts["widened"] += (cell.low or 0.0) <= 0.6 <= (cell.high or 1.0)
    return {name: count / TRIALS for name, count in counts.items()}


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=["repeats"])
    {"repeats": repeats}[parser.parse_args().what]()

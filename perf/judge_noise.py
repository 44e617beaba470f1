"""Coverage, false alarms and power of repeats and anchors for judges, on simulated and real verdicts.

python perf/judge_noise.py repeats                          how far a mean moves when answers are judged again
python perf/judge_noise.py drift --data FOLDER              power by number of anchors, false alarms on published
                                                            verdicts, a judge that drifts by .05 on its sixth day
python perf/judge_noise.py recalibrate                      intervals of differences after a drift, mapped and not
"""

from __future__ import annotations

import argparse
import itertools
import json
import math
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path

import numpy as np

from ragtasks.judges import AnchorVerdicts, drift_of, recalibration_of
from ragtasks.statistics import estimate_mean, repeatability, shared_error

NOISE, SHIFT = 0.15, 0.02
DESIGNS = ((110, 0.1), (110, 0.25), (110, 1.0), (30, 0.5))


def repeats(n_trials: int) -> None:
    """Print a row for each design: conversations, share judged again, judgings."""
    heads = ("conversations", "share", "judgings", "judged again", "mean moves by", "false shifts", "shifts found")
    print(f"| {' | '.join((*heads, 'interval', 'widened'))} |")
    print("|---:|---:|---:|---:|---:|---:|---:|---:|---:|")
    for n_conversations, share in DESIGNS:
        for n in (2, 3):
            still = simulated(n_conversations, share, n, 0.0, n_trials)
            moved = simulated(n_conversations, share, n, SHIFT, n_trials)
            cells = (still["again"], still["move"], still["found"], moved["found"], moved["plain"], moved["widened"])
            print(f"| {n_conversations} | {share:g} | {n} | " + " | ".join(f"{cell:.1%}" for cell in cells) + " |")


def simulated(n_conversations: int, share: float, n: int, shift: float, n_trials: int) -> dict[str, float]:
    """Return how often each statement is true."""
    rng = np.random.default_rng(7)
    counts = dict.fromkeys(("again", "move", "found", "plain", "widened"), 0)
    for _ in range(n_trials):
        sizes = rng.integers(2, 13, n_conversations)
        names = [f"c{number}" for number, size in enumerate(sizes) for _ in range(size)]
        truth = 0.6 + np.repeat(rng.normal(0, 0.1, n_conversations), sizes) + rng.normal(0, 0.2, len(names))
        judgings = [truth + rng.normal(0, NOISE, len(names)) + rng.normal(0, shift) for _ in range(n + 1)]
        m = int(sizes[: math.ceil(share * n_conversations)].sum())
        estimate = estimate_mean(list(judgings[0]), names)
        noise = repeatability([list(judging[:m]) for judging in judgings[:n]], names[:m], estimate)
        cell = noise.widened(estimate.cell, estimate.standard_error)
        assert noise.again
        assert noise.mean_move
        expected = 2 * math.sqrt((NOISE**2 / len(names) + shift**2) / math.pi)
        counts["again"] += noise.again[0] <= judgings[n].mean() <= noise.again[1]
        counts["move"] += noise.mean_move[1] <= expected <= noise.mean_move[2]
        counts["found"] += (noise.shift_p or 0.0) <= 0.05
        counts["plain"] += (estimate.low or 0.0) <= 0.6 <= (estimate.high or 1.0)
        counts["widened"] += (cell.low or 0.0) <= 0.6 <= (cell.high or 1.0)
    return {name: count / n_trials for name, count in counts.items()}


# Drift: a changed judge gives other verdicts on the same anchors. Ratings have ten steps; two anchors per conversation.

FALSE_ALARM_TRIALS = 5  # multiplier without drift: the share of false alarms is compared with 5 %
CHANGED = (0.3, 0.6)  # shares of ratings that move by a step between two judgings: .04 to .09 in their spread
DRIFTS = (0.0, 0.03, 0.05)
SIZES = (20, 40, 80, 160)


def drift(data: Path, n_trials: int) -> None:
    """Print power and false alarms, simulated; a scripted judge that drifts; false alarms on published verdicts."""
    false_alarms = [*power(n_trials), *splits(data, n_trials)]
    scripted()
    n_splits = times(0.0, n_trials)
    bound = 0.05 + 1.96 * math.sqrt(0.05 * 0.95 / n_splits)
    print(f"\nfalse alarms: at most {max(false_alarms):.1%} in {len(false_alarms)} rows of {n_splits:,} splits")
    print(f"(a test of exactly 5 % stays below {bound:.1%} in a row with 97.5 %)")


def times(size: float, n_trials: int) -> int:
    """Return the number of simulations for a size of drift."""
    return n_trials if size else FALSE_ALARM_TRIALS * n_trials


def power(n_trials: int) -> Iterator[float]:
    """Print the detection rate of drift by anchors and instability of the judge; yield the false alarms."""
    print(f"| anchors | ratings that change | {' | '.join(f'drift {size:g}' for size in DRIFTS)} |")
    print("|---:|---:|" + "---:|" * len(DRIFTS))
    for n in SIZES:
        for changed in CHANGED:
            shares = [found_share(n, changed, size, n_trials) for size in DRIFTS]
            print(f"| {n} | {changed:.0%} | " + " | ".join(f"{share:.1%}" for share in shares) + " |")
            yield shares[0]


def found_share(n: int, changed: float, size: float, n_trials: int) -> float:
    """Return the detection rate of a mean drift, made by lowering as many ratings as necessary by a step."""
    rng = np.random.default_rng(3)
    conversations = np.arange(n) // 2
    n_found, n_splits = 0, times(size, n_trials)
    for _ in range(n_splits):
        truth = rng.integers(3, 10, n)
        noise = rng.choice([-1, 0, 1], n, p=[changed / 2, 1 - changed, changed / 2])
        moved = rng.random(n) < size * 10
        first, second = truth / 10, np.clip(truth + noise - moved, 1, 10) / 10
        n_found += is_found(first, second, conversations)
    return n_found / n_splits


def is_found(first: Sequence[float], second: Sequence[float], conversations: Sequence[int]) -> bool:
    """Return whether two judgings differ by drift."""
    before, after = (
        AnchorVerdicts("j", "set", time, {"r": "w"}, tuple(map(int, conversations)), {"r": tuple(map(float, values))})
        for time, values in (("then", first), ("now", second))
    )
    (drift,) = drift_of(before, after)
    return drift.is_drift


def scripted() -> None:
    """Print the verdict on drift for each of ten days; the judge drifts by .05 on the sixth."""
    print("\n| day | drift | verdict of the anchors | detected |")
    print("|---:|---:|---|---|")
    rng = np.random.default_rng(23)
    conversations = tuple(number // 2 for number in range(40))
    truth = rng.integers(3, 10, 40) / 10
    first: AnchorVerdicts | None = None
    for day in range(1, 11):
        drift = -0.05 if day > 5 else 0.0
        steps = rng.choice([-0.1, 0, 0.1], 40, p=[0.15, 0.7, 0.15]) - 0.1 * (rng.random(40) < -10 * drift)
        values = tuple(np.clip(truth + steps, 0, 1).tolist())
        now = AnchorVerdicts("j", "set", f"day {day}", {"r": "w"}, conversations, {"r": values})
        first = first or now
        (result,) = drift_of(first, now)
        print(f"| {day} | {drift:g} | {result.text} | {'drift' if result.is_drift else ''} |")


# The same on real verdicts. The order of two judgings is random by conversation, so there is no drift and every
# detection is a false alarm. Alternatively one judging is split: the verdicts on two random halves of its conversations
# represent two judgings. Without pairs, power cannot be measured.


def splits(data: Path, n_trials: int) -> Iterator[float]:
    """Print false alarms on real verdicts, and power if a drift is added to the second; yield the false alarms."""
    print("\n| pairs of verdicts | n | false alarms | +.03 detected | +.05 detected |")
    print("|---|---:|---:|---:|---:|")
    kinds = {"RAGChecker, two people": people(data), "RAD-Bench, one judge, two similar systems": judge(data)}
    rows = [(name, n, partial(alarms, pairs, n, n_trials)) for name, pairs in kinds.items() for n in (40, 80)]
    verdicts = one_judging(data)
    rows += [
        ("RAD-Bench, one judging split in halves", n, partial(split_alarms, verdicts, n, n_trials)) for n in (40, 80)
    ]
    for name, n, rate_of in rows:
        shares = [rate_of(size) for size in (0.0, 0.03, 0.05)]
        print(f"| {name} | {n} | " + " | ".join(f"{share:.1%}" for share in shares) + " |")
        yield shares[0]


def alarms(pairs: Sequence[tuple[str, float, float]], n: int, n_trials: int, size: float) -> float:
    """Return the detection rate among n pairs in random order."""
    rng = np.random.default_rng(5)
    n_found, n_splits = 0, times(size, n_trials)
    for _ in range(n_splits):
        chosen = [pairs[index] for index in rng.choice(len(pairs), n, replace=False)]
        names = sorted({name for name, _, _ in chosen})
        swapped = dict(zip(names, rng.random(len(names)) < 0.5, strict=True))
        first = [second_verdict if swapped[name] else first_verdict for name, first_verdict, second_verdict in chosen]
        second = [first_verdict if swapped[name] else second_verdict for name, first_verdict, second_verdict in chosen]
        after = [value - size for value in second]
        low = min(0.0, *after)  # both are moved by a constant, to stay within 0 to 1
        numbers = [names.index(name) for name, _, _ in chosen]
        n_found += is_found([value - low for value in first], [value - low for value in after], numbers)
    return n_found / n_splits


def split_alarms(verdicts: Mapping[str, Sequence[float]], n: int, n_trials: int, size: float) -> float:
    """Return the detection rate between two halves of one judging, n verdicts each."""
    rng = np.random.default_rng(11)
    names = sorted(verdicts)
    n_found, n_splits = 0, times(size, n_trials)
    for _ in range(n_splits):
        order = [names[number] for number in rng.permutation(len(names))]
        halves = zip(order[::2], order[1::2], strict=False)
        pairs = [
            (number, first_verdict, second_verdict)
            for number, (first, second) in enumerate(halves)
            for first_verdict, second_verdict in zip(verdicts[first], verdicts[second], strict=False)
        ][:n]
        low = min(0.0, *(second_verdict - size for _, _, second_verdict in pairs))
        first, second = (
            [first_verdict - low for _, first_verdict, _ in pairs],
            [second_verdict - size - low for _, _, second_verdict in pairs],
        )
        n_found += is_found(first, second, [number for number, _, _ in pairs])
    return n_found / n_splits


def one_judging(data: Path) -> dict[str, list[float]]:
    """Return conversation -> the judge's verdicts on one system, 0 to 1."""
    verdicts: dict[str, list[float]] = {}
    rows = [json.loads(line) for line in (data / "rad_bench" / "gpt-4o.jsonl").read_text().splitlines()]
    for row in rows:
        if row["model"] == rows[0]["model"] and 1 <= float(row["score"]) <= 10:
            verdicts.setdefault(row["question_id"], []).append(float(row["score"]) / 10)
    return verdicts


def people(data: Path) -> list[tuple[str, float, float]]:
    """Return (question, one rating, the other's) of RAGChecker's annotators, 0 to 1."""
    ratings: dict[int, list[float]] = {}
    names: dict[int, str] = {}
    for row in json.loads((data / "ragchecker" / "human_labeled_data.json").read_text()):
        ratings.setdefault(row["instance_id"], []).append((row["overall_label"] + 2) / 4)
        names[row["instance_id"]] = f"{row['dataset']} {row['query_id']}"
    return [(names[key], *values) for key, values in ratings.items() if len(values) == 2]  # type: ignore[misc]


def judge(data: Path) -> list[tuple[str, float, float]]:
    """Return (conversation, verdict on one, verdict on the other) of the two systems with the nearest means."""
    scores: dict[str, dict[tuple[str, str], float]] = {}
    for line in (data / "rad_bench" / "gpt-4o.jsonl").read_text().splitlines():
        row = json.loads(line)
        if 1 <= float(row["score"]) <= 10:
            scores.setdefault(row["model"], {})[row["question_id"], row["turn"]] = float(row["score"]) / 10
    means = {model: float(np.mean(list(values.values()))) for model, values in scores.items()}
    first, second = min(itertools.combinations(scores, 2), key=lambda pair: abs(means[pair[0]] - means[pair[1]]))
    shared = sorted(scores[first].keys() & scores[second].keys())
    return [(key[0], scores[first][key], scores[second][key]) for key in shared]


# Recalibration: two systems differ by .02, and the second was judged after a drift. Coverage of the difference's
# interval: unchanged, mapped by the anchors, and with the error of the mapping.

DIFFERENCE = 0.02
CHANGES = ((0.0, 1.0), (-0.05, 1.0), (0.08, 0.9))  # intercept and slope of the later verdicts


def recalibrate(n_trials: int) -> None:
    """Print a row for each change of the judge and number of anchors."""
    print("| constant | slope | anchors | unchanged | mapped | with the mapping's error | width |")
    print("|---:|---:|---:|---:|---:|---:|---:|")
    for constant, slope in CHANGES:
        for n in (40, 80, 160):
            plain, mapped, widened, width = (
                float(np.mean(column)) for column in zip(*mapped_trials(constant, slope, n, n_trials), strict=True)
            )
            print(f"| {constant:g} | {slope:g} | {n} | {plain:.1%} | {mapped:.1%} | {widened:.1%} | {width:.2f} |")


def mapped_trials(constant: float, slope: float, n: int, n_trials: int) -> Iterator[tuple[bool, bool, bool, float]]:
    """Yield whether each interval of the difference contains the true value, and the relative width of the last."""
    rng = np.random.default_rng(19)
    for _ in range(n_trials):
        groups = np.arange(n) // 2
        truth = 0.6 + rng.normal(0, 0.1, n // 2)[groups] + rng.normal(0, 0.15, n)
        before, now = truth + rng.normal(0, 0.08, n), constant + slope * truth + rng.normal(0, 0.08, n)
        records = (
            AnchorVerdicts("j", "set", "t", {"r": "w"}, tuple(map(int, groups)), {"r": tuple(map(float, values))})
            for values in (before, now)
        )
        line = recalibration_of(*records, "r")
        assert not isinstance(line, str)
        conversations = np.arange(110 * 6) // 6
        level = 0.55 + rng.normal(0, 0.08, 110)[conversations]
        first, second = (level + rng.normal(0, 0.15, len(level)) + rng.normal(0, 0.08, len(level)) for _ in range(2))
        second = constant + slope * (second + DIFFERENCE)
        names = [f"c{number}" for number in conversations]
        extra = shared_error([line.moves(float(value)) for value in second], len(second))
        estimates = (
            estimate_mean((second - first).tolist(), names),
            estimate_mean((line.constant + line.slope * second - first).tolist(), names),
            estimate_mean((line.constant + line.slope * second - first).tolist(), names, extra_error=extra),
        )
        covered = [estimate.low <= DIFFERENCE <= estimate.high for estimate in estimates]  # type: ignore[operator]
        widths = [estimate.high - estimate.low for estimate in estimates]  # type: ignore[operator]
        yield covered[0], covered[1], covered[2], widths[2] / widths[1]


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=["repeats", "drift", "recalibrate"])
    parser.add_argument("--data", type=Path, default=Path("../shared/data"), help="folder with the published verdicts")
    parser.add_argument("--trials", type=int, help="simulations of each row; default: 400, and 1,000 for `drift`")
    given = parser.parse_args()
    if given.what == "drift":
        drift(given.data, given.trials or 1000)
    else:
        {"repeats": repeats, "recalibrate": recalibrate}[given.what](given.trials or 400)

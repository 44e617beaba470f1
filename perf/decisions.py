"""Judge calls that `ragtasks compare --judge` needs on real verdicts, and how often its decision equals the full test.

Existing verdicts are fed to a race wave by wave, pair by pair, in many seeded orders. The full decision is the test on
all data (`ragtasks compare`: p at most 5 %). A race agrees with it if it names the same system, or if neither names a
better system. Columns:

- differ: pairs that the full test separates; share of calls (median, mean), and share of races that agree;
- most at .35: races that could have named the better system after .35 of the calls: one t-test there at the full 5 %;
- near: pairs whose means over all data differ by at most .02; share of calls, and share of races that end "equal";
- not separated: pairs that the full test does not separate; share of calls, and share of races that name no system;
- type I: races that name a better system after the signs of complete conversations were flipped randomly, which makes
  the systems equal; one order and one flip per race, with the standard error. Equally many for each data set;
- false equal: the same races, with one system's scores raised by the margin, .05, that end "equal".

Data sets, in the folder of `--data` (its README lists the sources): RAD-Bench (gpt-4o, 7 systems) and MTRAG's human
evaluation (RB_llm, RL_F, and people: 3 systems, 20 conversations), from which the rule was chosen; held back: TREC RAG
2024 (NIST's nuggets and support, 45 systems, 21 and 14 topics, a sample of their pairs), and refusals of two systems on
MTRAG-UN by an LLM judge (507 conversations).

    python perf/decisions.py --data ../shared/data --orders 50 --turnings 2000
"""

from __future__ import annotations

import argparse
import itertools
import json
import math
import random
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from ragtasks.statistics import Column, Race, RaceEnd, compare_columns, estimate_mean

Scores = dict[str, float | None]
LEVEL = 0.05
EARLY = 0.35
NEAR = 0.02
MARGIN = 0.05
MOST_PAIRS = 120


@dataclass
class Verdicts:
    """Scores between 0 and 1 of several systems on the same items."""

    of_system: dict[str, Scores] = field(default_factory=dict)
    conversation_of: dict[str, str] = field(default_factory=dict)

    def add(self, system: str, conversation: str, item: str, value: float | None) -> None:
        """Add a score."""
        self.of_system.setdefault(system, {})[item] = value
        self.conversation_of[item] = conversation


def rad_bench(folder: Path) -> Iterator[tuple[str, Verdicts]]:
    verdicts = Verdicts()
    for row in rows_of(folder / "rad_bench" / "gpt-4o.jsonl"):
        value = (row["score"] - 1) / 9 if row["score"] >= 1 else None
        verdicts.add(row["model"], row["question_id"], f"{row['question_id']} {row['turn']}", value)
    yield "RAD-Bench", verdicts


def human_evaluation(folder: Path) -> Iterator[tuple[str, Verdicts]]:
    name = "reference_subset_with_human_evaluations.json"
    content = json.loads((folder / "mt-rag-benchmark/mtrag-human/evaluations" / name).read_text())
    for label, metric, top in (
        *(("MTRAG RB_llm", "rb_llm", 1), ("MTRAG RL_F", "rl_f", 1)),
        *(("MTRAG people, faithful", "faithfulness", 4), ("MTRAG people, complete", "completeness", 4)),
    ):
        verdicts = Verdicts()
        for row in content["evaluations"]:
            ratings = [float(annotation["value"]) for annotation in row["annotations"][metric].values()]
            value = sum(ratings) / len(ratings)
            task = row["task_id"]
            scaled = value if top == 1 else (value - 1) / (top - 1)
            verdicts.add(row["model_id"], task.partition("<::>")[0], task, scaled)
        yield label, verdicts


def nuggets(folder: Path) -> Iterator[tuple[str, Verdicts]]:
    worth = {"support": 1.0, "partial_support": 0.5, "not_support": 0.0}
    verdicts = Verdicts()
    for row in rows_of(folder / "trec_rag/nist/nugget_assignment.20241108.jl"):
        grades = [worth[nugget["assignment"]] for nugget in row["nuggets"]]
        verdicts.add(row["run_id"], row["qid"], row["qid"], sum(grades) / len(grades))
    yield "TREC RAG nuggets", verdicts


def support(folder: Path) -> Iterator[tuple[str, Verdicts]]:
    verdicts = Verdicts()
    for row in rows_of(folder / "trec_rag/nist/final.citation_judgments_with_prediction.20241025.jsonl"):
        grades = [int(c["support"]) / 2 for sentence in row["sentences"] for c in sentence["citations"]]
        value = sum(grades) / len(grades) if grades else None
        verdicts.add(row["run_id"], row["topic_id"], row["topic_id"], value)
    yield "TREC RAG support", verdicts


def refusals(folder: Path) -> Iterator[tuple[str, Verdicts]]:
    verdicts = Verdicts()
    for name in ("system_a", "system_b"):
        for row in rows_of(folder / "idk" / f"{name}.jsonl"):
            value = float((row["idk"] != "no") == ("UNANSWERABLE" in row["answerability"]))
            verdicts.add(name, row["task_id"].partition("<::>")[0], row["task_id"], value)
    yield "MTRAG-UN refusals", verdicts


SETS: tuple[Callable[[Path], Iterator[tuple[str, Verdicts]]], ...] = (
    *(rad_bench, human_evaluation, nuggets, support, refusals),
)


def rows_of(path: Path) -> Iterator[dict]:  # type: ignore[type-arg]
    with path.open() as lines:
        yield from map(json.loads, lines)


# The race of one pair.


@dataclass
class Pair:
    """Two systems' scores of the same items, with the full test."""

    values: dict[str, Scores]
    conversation_of: Mapping[str, str]

    def __post_init__(self) -> None:
        columns = [
            Column("", "", "", name, self.values[name], self.conversation_of, (0.0, 1.0)) for name in self.values
        ]
        (comparison,) = compare_columns(columns).pairs
        self.gap = comparison.difference.value or 0.0
        self.n_conversations = len(set(self.conversation_of.values()))
        self.is_separated = comparison.p is not None and comparison.p <= LEVEL
        self.better = list(self.values)[self.gap > 0] if self.is_separated else ""

    def race(self, seed: int, signs: Mapping[str, int] | None = None, shift: float = 0.0) -> tuple[Race, float]:
        """Return the race with its share of the calls.

        `signs` flips conversations by swapping the two systems' scores. The second system's scores are then shifted.
        """
        bounds = (0.0, 1.0 + shift)
        race = Race(list(self.values), self.conversation_of, margin=MARGIN, seed=seed, bounds=bounds)
        first, second = self.values.values()
        n_calls = 0
        while (wave := race.next_wave()) is not None:
            n_calls += len(wave)
            flipped_items = [item for item in wave if signs and signs[self.conversation_of[item]] < 0]
            values = {name: {item: self.values[name][item] for item in wave} for name in race.remaining}
            first_values, second_values = values.values()
            for item in flipped_items:
                first_values[item], second_values[item] = second[item], first[item]
            second_values.update(
                {item: None if value is None else value + shift for item, value in second_values.items()}
            )
            race.add(values)
        return race, n_calls / len(self.conversation_of)

    def is_separated_early(self, seed: int) -> bool:
        """Return whether a plain t-test on the race's first calls, at the full level, names the better system."""
        from scipy.special import stdtr

        order = Race(list(self.values), self.conversation_of, margin=MARGIN, seed=seed).order
        items = order[: math.floor(EARLY * len(order))]
        first, second = self.values.values()
        gaps = [None if (a := first[item]) is None or (b := second[item]) is None else b - a for item in items]
        estimate = estimate_mean(gaps, [self.conversation_of[item] for item in items])
        if not estimate.value or estimate.standard_error is None or (estimate.value > 0) != (self.gap > 0):
            return False
        distance = abs(estimate.value) / estimate.standard_error if estimate.standard_error else math.inf
        return bool(2 * stdtr(estimate.n_clusters - 1, -distance) <= LEVEL)


def pairs_of(verdicts: Verdicts, chance: random.Random) -> list[Pair]:
    names = list(itertools.combinations(sorted(verdicts.of_system), 2))
    chosen = chance.sample(names, min(MOST_PAIRS, len(names)))
    pairs = []
    for left, right in chosen:
        first, second = verdicts.of_system[left], verdicts.of_system[right]
        items = [item for item in first if item in second]
        clusters = {item: verdicts.conversation_of[item] for item in items}
        if len(set(clusters.values())) >= 10 and any(first[item] != second[item] for item in items):
            values = {left: {item: first[item] for item in items}, right: {item: second[item] for item in items}}
            pairs.append(Pair(values, clusters))
    return pairs


def better_of(race: Race) -> str:
    return race.remaining[0] if race.verdict is RaceEnd.BETTER else ""


def cost(shares: list[float]) -> str:
    return f"{np.median(shares):.2f} {np.mean(shares):.2f}" if shares else "-"


def share(flags: list[bool]) -> str:
    return f"{np.mean(flags):.3f}" if flags else "-"


def line(name: str, pairs: list[Pair], n_orders: int, n_flips: int) -> str:
    differ: tuple[list[float], list[bool]] = ([], [])
    near: tuple[list[float], list[bool]] = ([], [])
    not_separated: tuple[list[float], list[bool]] = ([], [])
    for pair in pairs:
        for seed in range(n_orders):
            race, share_of_calls = pair.race(seed)
            same = better_of(race) == pair.better
            for chosen, (shares, flags), flag in (
                (pair.is_separated, differ, same),
                (not pair.is_separated, not_separated, same),
                (abs(pair.gap) <= NEAR, near, race.verdict is RaceEnd.EQUAL),
            ):
                if chosen:
                    shares.append(share_of_calls)
                    flags.append(flag)
    separated_early = [pair.is_separated_early(seed) for pair in pairs if pair.is_separated for seed in range(n_orders)]
    alarms = [chance_of(outcomes) for outcomes in zip(*false_alarms(pairs, n_flips), strict=True)]
    counts = [f"{sum(pair.is_separated for pair in pairs)}", f"{sum(abs(pair.gap) <= NEAR for pair in pairs)}"]
    n = f"{np.median([pair.n_conversations for pair in pairs]):.0f}"
    cells = (name, n, counts[0], cost(differ[0]), share(differ[1]), share(separated_early), counts[1])
    cells_without_difference = (cost(near[0]), share(near[1]), cost(not_separated[0]), share(not_separated[1]), *alarms)
    return "| " + " | ".join((*cells, *cells_without_difference)) + " |"


def chance_of(flags: tuple[bool, ...]) -> str:
    mean = float(np.mean(flags))
    return f"{mean:.3f} ({math.sqrt(mean * (1 - mean) / len(flags)):.3f})"


def false_alarms(pairs: list[Pair], n_flips: int) -> Iterator[tuple[bool, bool]]:
    """Yield whether races of equalized systems name a better one, and whether shifted systems end equal."""
    chance = random.Random(2)
    for number in range(n_flips):
        pair = pairs[number % len(pairs)]
        signs = {name: chance.choice((-1, 1)) for name in sorted(set(pair.conversation_of.values()))}
        equal, apart = (pair.race(number, signs, shift)[0] for shift in (0.0, MARGIN))
        yield bool(better_of(equal)), apart.verdict is RaceEnd.EQUAL


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--orders", type=int, default=50)
    parser.add_argument("--turnings", type=int, default=2000)
    parser.add_argument("--only", default="", help="part of the name of the data sets")
    options = parser.parse_args()
    columns = (
        "data | conversations | differ | calls | same | most at .35 | near | calls | equal "
        "| not separated: calls | same"
    )
    print(f"| {columns} | type I | false equal |\n|{' --- |' * 13}")
    start = time.perf_counter()
    for name, verdicts in (named for read in SETS for named in read(options.data)):
        if options.only in name:
            pairs = pairs_of(verdicts, random.Random(1))
            print(line(name, pairs, options.orders, options.turnings), flush=True)
    print(f"\n{options.orders} orders per pair, {time.perf_counter() - start:.0f} s")


if __name__ == "__main__":
    main()

"""False alarms and power of `ragtasks gate` on real answers.

Two systems with the same tasks are combined into one uneven system: for each conversation, a random split assigns the
answers of one to the baseline and of the other to the candidate. Both sides then have the same true mean, and differ as
much as two real systems. The second kind of split halves the conversations of one system randomly: the candidate's
answers on the first half are its answers on the second (task by task, up to the shorter conversation). Printed for each
pair and margin:

- false alarms: share of splits that end in status 1; for pairs, every domain and answerability is tested too;
- unchanged passes: status 0 of one test at its minimum margin, promised for 80 %;
- drop of the margin passes: status 0 after a drop of exactly the margin, allowed in 2.5 %;
- drop found: status 1 after the drop that `--power` reports as found in 80 %, alone and among all slices.

A drop is simulated by failed answers: each gets the worst score with the same probability. The gate's promises (minimum
margin, detectable drop) are medians of 25 splits that are not among those counted.

    ragtasks run --model ragtasks-extractive --tasks mtrag --encoder none --output results/extractive   (oracle, refuse)
    python perf/gate.py --pair results/extractive results/refuse --human CHECKOUT --splits 500
"""

from __future__ import annotations

import argparse
import math
import random
import statistics
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from ragtasks.benchmarks.mtrag import RatedResponse, load_human_evaluation
from ragtasks.config import GateConfig
from ragtasks.records import Answerability, IdkVerdict, Setting
from ragtasks.reports.gate import ALL_TASKS, Gate, GateRow, gate, power_of
from ragtasks.reports.gate_sides import GatedSystem, read_side, side_of
from ragtasks.results import Evaluation, ScoredAnswer

N_PROMISES = 25
SLICES = ("domain", "answerability")
ALL_COUNT: dict[str, Any] = {"anchored_judges": ("the paper's",), "most_unscored": 1.0}
"""Includes scores of the paper's judge, and halves whose tasks lack scores in different positions."""
Split = Callable[[random.Random], tuple[GatedSystem, GatedSystem]]
"""Random generator -> a baseline and a candidate from one system."""


@dataclass(frozen=True)
class Case:
    """One system that is split repeatedly."""

    name: str
    split: Split
    metrics: tuple[str, ...]
    slices: tuple[str, ...]
    """Further slices to test; () for halves, which pair tasks of all types, so their slices are not comparable."""


def of_pair(first: GatedSystem, second: GatedSystem) -> Split:
    """Return a splitter of two systems that assigns each conversation randomly."""

    def split(chance: random.Random) -> tuple[GatedSystem, GatedSystem]:
        swapped = {row.task.conversation_id for rows in first.rows.values() for row in rows}
        swapped = {name for name in sorted(swapped) if chance.random() < 0.5}
        sides: list[dict[str, tuple[ScoredAnswer, ...]]] = [{}, {}]
        for setting, rows in first.rows.items():
            row_of_task = {row.task.task_id: row for row in second.rows[setting]}
            pairs = [(row, row_of_task[row.task.task_id]) for row in rows]
            for index, side in enumerate(sides):
                side[setting] = tuple(pair[index ^ (pair[0].task.conversation_id in swapped)] for pair in pairs)
        return replace(first, rows=sides[0]), replace(first, rows=sides[1])

    return split


def of_halves(system: GatedSystem) -> Split:
    """Return a splitter of one system: half of its conversations against the other half."""

    def split(chance: random.Random) -> tuple[GatedSystem, GatedSystem]:
        before: dict[str, tuple[ScoredAnswer, ...]] = {}
        after: dict[str, tuple[ScoredAnswer, ...]] = {}
        for setting, rows in system.rows.items():
            conversations: dict[str, list[ScoredAnswer]] = {}
            for row in rows:
                conversations.setdefault(row.task.conversation_id, []).append(row)
            names = sorted(conversations)
            chance.shuffle(names)
            pairs = [
                pair
                for first, second in zip(names[::2], names[1::2], strict=False)
                for pair in zip(conversations[first], conversations[second], strict=False)
            ]
            before[setting] = tuple(first for first, _ in pairs)
            after[setting] = tuple(
                replace(second, response=replace(second.response, task=first.task)) for first, second in pairs
            )
        return replace(system, rows=before), replace(system, rows=after)

    return split


def with_drop(system: GatedSystem, metric: str, share: float, chance: random.Random) -> GatedSystem:
    """Return a system in which answers fail at random, each with the same probability, and get the worst score."""
    worst = system.metrics[metric].bounds[0]

    def failed(row: ScoredAnswer) -> ScoredAnswer:
        if row.values.get(metric) is None or chance.random() >= share:
            return row
        return replace(row, response=replace(row.response, text=""), scores={**row.scores, metric: worst})

    return replace(system, rows={setting: tuple(map(failed, rows)) for setting, rows in system.rows.items()})


def height(sides: Sequence[GatedSystem], metric: str) -> float:
    """Return the distance of the mean of all scores from the worst score: the loss if every answer fails."""
    rows = [row for side in sides for rows in side.rows.values() for row in rows]
    values = [value for row in rows if (value := row.values.get(metric)) is not None]
    return math.fsum(values) / len(values) - sides[0].metrics[metric].bounds[0]


def statuses(runs: Iterator[Gate]) -> Counter[int]:
    """Return the count of each status."""
    return Counter(gate.verdict.status for gate in runs)


def of_setting(system: GatedSystem, setting: str) -> GatedSystem:
    """Return one setting of a system."""
    return replace(system, rows={setting: system.rows[setting]}, fields={setting: system.fields[setting]})


def false_alarms(case: Case, n: int) -> Iterator[str]:
    """Yield a row of the table for each size of the margins."""
    before, after = case.split(random.Random(0))
    promised = power_of(before, GateConfig(slices=case.slices), after)
    least = {
        name: max(
            row.least_margin or 0.05
            for row in [row for row in promised.rows if row.metric.name == name and row.slice == ALL_TASKS]
        )
        for name in case.metrics
    }
    for label, factor in (("least", 1.0), ("half of it", 0.5), ("a tenth of it", 0.1)):
        config = GateConfig(
            margins={name: min(0.9, factor * margin) for name, margin in least.items()},
            slices=case.slices,
            **ALL_COUNT,
        )
        chance = random.Random(1)
        runs = []
        for _ in range(n):
            before, after = case.split(chance)
            runs.append(gate(after, before, config))
        counts = statuses(iter(runs))
        n_tests = sum(row.decides for row in runs[0].rows)
        yield f"| {case.name} | {label} | {n_tests} | {counts[0]} | {counts[3]} | {counts[1]} |"


def promises(case: Case, config: GateConfig) -> GateRow:
    """Return the output of `--power` over all tasks, as the median over some splits."""
    promised = []
    for seed in range(N_PROMISES):
        before, after = case.split(random.Random(f"promise {seed}"))
        rows = power_of(before, config, after).rows
        promised.append(next(row for row in rows if row.slice == ALL_TASKS))
    drops = [math.inf if row.found_drop is None else row.found_drop for row in promised]
    least = statistics.median(row.least_margin or math.inf for row in promised)
    return replace(promised[0], least_margin=least, found_drop=statistics.median(drops))


def power(case: Case, metric: str, n: int) -> str:
    """Return a row for one metric over all tasks: how often each promise holds."""
    margin = promises(case, GateConfig(margins={metric: 0.5})).least_margin
    assert margin is not None
    if math.isinf(margin):  # too few conversations for a test
        return f"| {case.name} | {metric} |" + " - |" * 5
    config = GateConfig(margins={metric: margin}, **ALL_COUNT)
    sliced = config.model_copy(update={"slices": case.slices})
    loss_of_all = height(case.split(random.Random(0)), metric)
    chance = random.Random(2)
    shares = []
    for drop, chosen, status in (
        (0.0, config, 0),
        (margin, config, 0),
        (promises(case, config).found_drop, config, 1),
        (promises(case, sliced).found_drop, sliced, 1),
    ):
        if drop is None or loss_of_all <= 0 or drop > loss_of_all:  # larger than the loss if every answer fails
            shares.append("-")
            continue
        n_found = 0
        for _ in range(n):
            old, new = case.split(chance)
            n_found += gate(with_drop(new, metric, drop / loss_of_all, chance), old, chosen).verdict.status == status
        shares.append(f"{n_found / n:.1%}" + (f" (of {drop:.3f})" if drop else ""))
    return f"| {case.name} | {metric} | {margin:.3f} | " + " | ".join(shares) + " |"


def cases(pairs: Sequence[tuple[Path, Path]], human: Path | None, only: str | None) -> Iterator[Case]:
    """Yield the pairs and halves of systems."""
    for paths in pairs:
        first, second = map(read_side, paths)
        for setting in first.rows.keys() & {only or setting for setting in first.rows}:
            yield from _cases(of_setting(first, setting), of_setting(second, setting), setting)
    if human is not None:
        rated = [side_of(evaluation) for evaluation in rated_evaluations(load_human_evaluation(human))]
        for index, first in enumerate(rated):
            for second in rated[index + 1 :]:
                yield from _cases(first, second, "human evaluation")


def rated_evaluations(answers: Sequence[RatedResponse]) -> list[Evaluation]:
    """Return one evaluation per model, with the scores of the paper's judge and the medians of the raters."""
    return [
        Evaluation(
            model=model_id,
            kind=("mtrag (human evaluation)", "as published", "the paper's judge; judges: the paper's"),
            rows=tuple(_row(answer) for answer in answers if answer.model_id == model_id),
            suite="mtrag",
            provenance={},
            source=Path(model_id),
            samples={},
        )
        for model_id in dict.fromkeys(answer.model_id for answer in answers)
    ]


def _row(answer: RatedResponse) -> ScoredAnswer:
    metrics = {**answer.metrics, "ans_acc": float(answer.idk_is_right)}
    if answer.response.task.answerability is Answerability.CONVERSATIONAL:  # the paper's profile leaves it out
        metrics = dict.fromkeys(metrics)
    idk = IdkVerdict.YES.value if answer.refuses else None
    return ScoredAnswer(answer.response, Setting.REFERENCE.value, scores=metrics, unscored={}, idk=idk)


def _cases(first: GatedSystem, second: GatedSystem, setting: str) -> Iterator[Case]:
    offered = power_of(first, GateConfig()).rows
    named = [row.metric.name for row in offered if row.metric.name not in {"empty", "coverage", "token_recall"}]
    yield Case(f"{first.name} / {second.name}, {setting}", of_pair(first, second), tuple(named), SLICES)
    yield Case(f"halves of {first.name}, {setting}", of_halves(first), tuple(named), ())


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--pair", nargs=2, type=Path, action="append", default=[], help="results of two systems")
    parser.add_argument("--human", type=Path, help="checkout with MTRAG's human evaluation, for its three models")
    parser.add_argument("--splits", type=int, default=500)
    parser.add_argument("--setting", help="only this setting of the pairs")
    parser.add_argument("--only", choices=("alarms", "power"), help="print only this table")
    options = parser.parse_args()
    started = time.monotonic()
    all_cases = list(cases(options.pair, options.human, options.setting))
    print(f"{options.splits} splits per case\n")
    if options.only != "power":
        print(
            "| system | margins | tests | not worse | cannot say | worse: false alarms |\n|---|---|---:|---:|---:|---:|"
        )
        for case in all_cases:
            for line in false_alarms(case, options.splits):
                print(line, flush=True)
    if options.only != "alarms":
        print(
            "\n| system | metric | minimum margin | unchanged passes | drop of the margin passes | drop found | "
            "among all slices |\n|---|---|---:|---:|---:|---:|---:|"
        )
        for case in all_cases:
            for metric in case.metrics:
                print(power(case, metric, options.splits), flush=True)
    print(f"\n{time.monotonic() - started:.0f} s")


if __name__ == "__main__":
    main()

"""How often what went wrong in a turn is right: the kinds against two blind labellings of the same 200 answers.

python perf/turn_errors.py FOLDER        the folder of real data

Answers of two systems to MTRAG-UN and of three in the human evaluation. Up to 20 of each kind of the first rules were
drawn, and others without a kind, from 1,491. The rules were made stricter after they were measured on these labels, so
what is printed is too kind to them. Each labelling was made by a language model, by reading, without the kinds and
without the other one (`perf/turn_error_labels.jsonl`).
"""

from __future__ import annotations

import argparse
import json
from collections import Counter, defaultdict
from collections.abc import Iterator
from pathlib import Path

from ragtasks.benchmarks import benchmark_folder, open_benchmark
from ragtasks.benchmarks.mtrag import load_human_evaluation
from ragtasks.metrics import RuleBasedIdk, TurnErrorKind, turn_error
from ragtasks.records import Response, Setting
from ragtasks.scoring import find_implausible

NONE = "none"
LABELS = Path(__file__).with_name("turn_error_labels.jsonl")


def answers(folder: Path) -> Iterator[tuple[str, Response]]:
    """Yield (system, answer) of all that was drawn from."""
    benchmark = open_benchmark("mtrag_un", benchmark_folder("mtrag_un", str(folder), folder))
    tasks = {task.task_id: task for task in benchmark.tasks}
    for name in ("system_a", "system_b"):
        for line in (folder / "idk" / f"{name}.jsonl").read_text(encoding="utf-8").splitlines():
            row = json.loads(line)
            task = tasks[row["task_id"]]
            yield name, Response(task, task.references, row["text"])
    full = open_benchmark("mtrag", benchmark_folder("mtrag", str(folder), folder))
    whole = {task.task_id: task for task in full.tasks}
    for rated in load_human_evaluation(folder / "mt-rag-benchmark"):
        task = whole[rated.response.task.task_id]
        yield rated.model_id, Response(task, task.references, rated.response.text)


def kinds(folder: Path) -> dict[tuple[str, str], str]:
    """Return (system, task id) -> kind."""
    by_system: dict[str, list[Response]] = defaultdict(list)
    for name, response in answers(folder):
        by_system[name].append(response)
    found = {}
    for name, responses in by_system.items():
        checks = find_implausible(responses, setting=Setting.REFERENCE)
        labels = RuleBasedIdk().detect(responses)
        for response, label, implausible in zip(responses, labels, checks, strict=True):
            error = turn_error(response, label.verdict, implausible)
            found[name, response.task.task_id] = error.kind.value if error else NONE
    return found


def kappa(pairs: list[tuple[str, str]]) -> float:
    """Return Cohen's kappa of two labellings."""
    first, second = (Counter(column) for column in zip(*pairs, strict=True))
    by_chance = sum(first[name] * second[name] for name in first) / len(pairs) ** 2
    return (sum(one == other for one, other in pairs) / len(pairs) - by_chance) / (1 - by_chance)


def main() -> None:
    """Print the agreement of the labellings and a row a kind."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("folder", type=Path)
    found = kinds(parser.parse_args().folder)
    rows = [json.loads(line) for line in LABELS.read_text(encoding="utf-8").splitlines()]
    pairs = [(row["first"], row["second"]) for row in rows]
    same = sum(one == other for one, other in pairs)
    wrong = [(str(one != NONE), str(other != NONE)) for one, other in pairs]
    print(
        f"two labellings of {len(rows)}: the same in {same}, kappa {kappa(pairs):.2f}; wrong or not {kappa(wrong):.2f}"
    )
    print("| kind | answers | either names it | both name it | either finds anything wrong |")
    print("|---|---:|---:|---:|---:|")
    for kind in (*(item.value for item in TurnErrorKind), NONE):
        mine = [row for row in rows if found[row["system"], row["task_id"]] == kind]
        if mine:
            either = sum(kind in {row["first"], row["second"]} for row in mine)
            both = sum(row["first"] == row["second"] == kind for row in mine)
            anything = sum({row["first"], row["second"]} != {NONE} for row in mine)
            print(f"| {kind} | {len(mine)} | {either} | {both} | {anything} |")


if __name__ == "__main__":
    main()

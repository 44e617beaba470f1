"""Precision and recall of the types of turn errors, against labels by reading, and on damaged answers.

python perf/turn_errors.py FOLDER                    the folder of real data
python perf/turn_errors.py FOLDER --second LABELS    adds the second labelling of round 2 to the file of labels
python perf/turn_errors.py FOLDER --speed            only the speed in answers per second

Labels (`perf/turn_error_labels.jsonl`): a language model labelled each answer by reading, without the types and without
the other labelling. The 200 of round 1, labelled twice, were used to make the rules stricter, so their figures are too
favorable. The 117 of round 2 were drawn afterwards, by the types that the rules gave at that time (`predicted`), and
were new; "also" are further labels that apply. Labels and draw also contain three errors that the rules do not detect:
`lost_thread`, `contradicted` and `unused`. The 28 of round 3 were drawn after the rules were changed on both, and
labelled once, from the last two turns and 600 characters of each text. `generator` is the model whose texts the authors
of MTRAG edited into reference answers, with the passages it received; `generator_first` is the same text with the
passages of the first search alone.

Damage: answers of two models that people rated good; one in three is replaced, and classified among the others.
"""

from __future__ import annotations

import argparse
import json
import random
import re
import shutil
import tempfile
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from statistics import median
from typing import Any

from ragtasks.benchmarks import benchmark_folder, open_benchmark
from ragtasks.benchmarks.mtrag import RatedResponse, load_human_evaluation
from ragtasks.metrics import NgramIdk, TurnErrorKind, copied, grounded, turn_error
from ragtasks.records import Answerability, Passage, Response, Role, Setting, Task
from ragtasks.scoring import find_implausible

NONE = "none"
NAMES = (*(item.value for item in TurnErrorKind), NONE)
LABELS = Path(__file__).with_name("turn_error_labels.jsonl")
TWINS = Path(__file__).resolve().parents[1] / "examples" / "languages"
CONVERSATIONS = Path("mt-rag-benchmark/mtrag-human/conversations/conversations.json")

Row = dict[str, Any]
"""A row of the labels."""


def answers(folder: Path) -> Iterator[tuple[str, Response]]:
    """Yield (system, answer) of all answers available for the draw."""
    un_tasks = tasks_of("mtrag_un", folder)
    for name in ("system_a", "system_b"):
        for line in (folder / "idk" / f"{name}.jsonl").read_text(encoding="utf-8").splitlines():
            row = json.loads(line)
            task = un_tasks[row["task_id"]]
            yield name, Response(task, task.references, row["text"])
    tasks = tasks_of("mtrag", folder)
    for rated in load_human_evaluation(folder / "mt-rag-benchmark"):
        task = tasks[rated.response.task.task_id]
        yield rated.model_id, Response(task, task.references, rated.response.text)
    yield from unedited(folder, tasks.values())


def tasks_of(benchmark: str, folder: Path) -> dict[str, Task]:
    """Return task id -> task."""
    benchmark_tasks = open_benchmark(benchmark, benchmark_folder(benchmark, str(folder), folder))
    return {task.task_id: task for task in benchmark_tasks.tasks}


def unedited(folder: Path, tasks: Any) -> Iterator[tuple[str, Response]]:
    """Yield the generator's texts before editing, with a turn's passages, and with the first search's."""
    by_turn = {(task.messages[0].text, task.turn, task.question): task for task in tasks}
    for conversation in json.loads((folder / CONVERSATIONS).read_text(encoding="utf-8")):
        messages = conversation["messages"]
        for index, message in enumerate(messages):
            if text := message.get("original_text", "").strip():
                turn = (index + 1) // 2
                task = by_turn[messages[0]["text"], turn, messages[index - 1]["text"]]
                rows = list({row["document_id"]: row for row in reversed(message["contexts"])}.values())[::-1]
                passages = [Passage(row["document_id"], row["text"], row.get("title") or "") for row in rows]
                yield "generator", Response(task, tuple(passages), text)
                first = [
                    passage for passage, row in zip(passages, rows, strict=True) if "|user|" in json.dumps(row["query"])
                ]
                if 0 < len(first) < len(passages):
                    yield "generator_first", Response(task, tuple(first), text)


def kinds_of(responses: Sequence[Response], setting: Setting = Setting.REFERENCE) -> list[str]:
    """Return the type of each answer of one system."""
    checks = find_implausible(responses, setting=setting)
    labels = NgramIdk().detect(responses)
    errors = [
        turn_error(*arguments) for arguments in zip(responses, (label.verdict for label in labels), checks, strict=True)
    ]
    return [error.kind.value if error else NONE for error in errors]


def kinds(folder: Path) -> dict[tuple[str, str], str]:
    """Return (system, task id) -> type."""
    by_system: dict[str, list[Response]] = defaultdict(list)
    for name, response in answers(folder):
        by_system[name].append(response)
    return {
        (name, response.task.task_id): kind
        for name, responses in by_system.items()
        for response, kind in zip(responses, kinds_of(responses, _SETTINGS.get(name, Setting.REFERENCE)), strict=True)
    }


_POOL = {
    "generator": {
        "answered_unknown": 30,
        "invented": 111,
        "lost_thread": 3,
        "none": 627,
        "refused_known": 10,
        "repeated": 6,
        "unused": 10,
    },
    "generator_first": {"missed": 140},
    "gpt-4o": {"answered_unknown": 1, "invented": 14, "none": 121, "unused": 1},
    "llama-3.1-405b-instruct": {"answered_unknown": 2, "contradicted": 1, "invented": 10, "none": 120, "unused": 1},
    "system_a": {"none": 450},
    "system_b": {"answered_unknown": 17, "contradicted": 2, "invented": 2, "lost_thread": 1, "none": 396, "unused": 2},
}
POOL = Counter({(system, kind): n for system, counts in _POOL.items() for kind, n in counts.items()})
"""(system, type) -> number of answers available for round 2: those not in round 1, by the types of that time."""
_DRAWN_FROM_POOL = 2
_SETTINGS = {"generator": Setting.FULL_RAG, "generator_first": Setting.FULL_RAG}


# Labels


def kappa(pairs: Sequence[tuple[str, str]]) -> float:
    """Return Cohen's kappa of two labellings."""
    first, second = (Counter(column) for column in zip(*pairs, strict=True))
    by_chance = sum(first[name] * second[name] for name in first) / len(pairs) ** 2
    return (sum(first_label == second_label for first_label, second_label in pairs) / len(pairs) - by_chance) / (
        1 - by_chance
    )


def of(count: int, n: int) -> str:
    """Return a count with its 95 % Wilson interval."""
    if not n:
        return "-"
    share, z = count / n, 1.96
    middle, reach = share + z * z / 2 / n, z * (share * (1 - share) / n + z * z / 4 / n / n) ** 0.5
    low, high = ((middle + sign * reach) / (1 + z * z / n) for sign in (-1, 1))
    return f"{count} of {n} [{low:.2f}, {high:.2f}]"


def agreement(rows: Sequence[Row]) -> str:
    """Return the agreement of the two labellings as a sentence."""
    pairs = [(row["first"], row["second"]) for row in rows if "second" in row]
    if len(pairs) < len(rows):
        return f"{len(rows)} answers, {len(pairs)} of them labelled twice"
    wrong = [(str(first != NONE), str(second != NONE)) for first, second in pairs]
    same = sum(first == second for first, second in pairs)
    return (
        f"two labellings of {len(rows)}: the same in {same}, kappa {kappa(pairs):.2f}; wrong or not {kappa(wrong):.2f}"
    )


def labels_of(row: Row) -> list[str]:
    """Return the label of each labelling."""
    return [row[name] for name in ("first", "second") if name in row]


def holding(row: Row) -> list[set[str]]:
    """Return for each labelling its label and the further labels that apply."""
    return [{row[name], *row.get(f"{name}_also", ())} for name in ("first", "second") if name in row]


def print_precision(rows: Sequence[Row], kind_of: Callable[[Row], str]) -> None:
    """Print how often each type is right: as the label, or as one of the labels that apply."""
    print("| type | answers | either: the label | either: applies | all: applies | any error |")
    print("|---|---:|---:|---:|---:|---:|")
    for kind in NAMES:
        mine = [row for row in rows if kind_of(row) == kind]
        if mine:
            label = sum(kind in labels_of(row) for row in mine)
            holds = [[kind in named for named in holding(row)] for row in mine]
            anything = sum(set(labels_of(row)) != {NONE} for row in mine)
            n = len(mine)
            cells = (of(label, n), of(sum(map(any, holds)), n), of(sum(map(all, holds)), n), str(anything))
            print(f"| {kind} | {n} | {' | '.join(cells)} |")


def print_recall(rows: Sequence[Row], kind_of: Callable[[Row], str], pool: Counter[tuple[str, str]]) -> None:
    """Print recall on errors named by all labellings, each answer weighted by the size of its group in the draw."""
    drawn = Counter((row["system"], row["predicted"]) for row in rows)
    print("| type | named by all | detected | detected, weighted by the draw |\n|---|---:|---:|---:|")
    for kind in NAMES:
        mine = [row for row in rows if set(labels_of(row)) == {kind}]
        if mine:
            strata = [(row["system"], row["predicted"]) for row in mine]
            weights = [pool[stratum] / drawn[stratum] for stratum in strata]
            hits = [kind_of(row) == kind for row in mine]
            share = sum(weight for weight, hit in zip(weights, hits, strict=True) if hit) / sum(weights)
            print(f"| {kind} | {len(mine)} | {of(sum(hits), len(mine))} | {share:.2f} |")


# Damage

GOOD = 3.5  # from 1 to 4, the median of people's ratings of each property
EACH = 3  # one answer in this many is damaged

Damage = Callable[[Response], Response | None]
"""Answer -> the damaged answer, None if the damage does not apply."""


def is_good(rated: RatedResponse) -> bool:
    """Return whether people rated a model's answer good, and a passage contains the information."""
    is_answer = rated.response.task.answerability is Answerability.ANSWERABLE
    return (
        rated.model_id != "reference"
        and is_answer
        and min(map(rated.rating, rated.ratings.keys() - {"win_rate"})) >= GOOD
    )


def damages(folder: Path, draw: random.Random) -> dict[str, tuple[set[str], Damage]]:
    """Return name -> (the correct types, the damaging function)."""
    tasks = tasks_of("mtrag", folder)
    refusals = [task.target for task in tasks.values() if task.answerability is Answerability.UNANSWERABLE]
    unclear = (task for task in tasks_of("mtrag_un", folder).values())
    questions = [
        task.target
        for task in unclear
        if task.answerability is Answerability.UNDERSPECIFIED and task.target.endswith("?")
    ]
    own_words = {
        (response.task.conversation_id, response.task.turn): response.text
        for name, response in unedited(folder, tasks.values())
        if name == "generator"
    }

    def with_text(text: Callable[[Response], str | None]) -> Damage:
        def damaged(response: Response) -> Response | None:
            candidates = text(response)
            return None if candidates is None else replace(response, text=candidates)

        return damaged

    def other(response: Response) -> Task:
        domain, conversation = response.task.domain, response.task.conversation_id
        candidates = [
            candidate
            for candidate in tasks.values()
            if candidate.domain == domain and candidate.conversation_id != conversation
        ]
        return draw.choice(
            [candidate for candidate in candidates if candidate.answerability is Answerability.ANSWERABLE]
        )

    def elsewhere(response: Response) -> Response:
        task = other(response)
        return replace(response, text=task.target, passages=task.references)

    return {
        "cut at 60 % of its characters": (
            {"cut_off"},
            with_text(lambda answer: answer.text[: len(answer.text) * 6 // 10]),
        ),
        "empty": ({"broken"}, with_text(lambda answer: "")),
        "an error's text": (
            {"broken"},
            with_text(lambda answer: "Error code: 429 - {'error': {'message': 'Rate limit'}}"),
        ),
        "in JSON": ({"broken"}, with_text(lambda answer: json.dumps({"answer": answer.text}))),
        "after its question": (
            {"broken"},
            with_text(lambda answer: f"User: {answer.task.question}\nAssistant: {answer.text}"),
        ),
        "the last answer again": ({"repeated"}, with_text(earlier)),
        "the last answer without its first sentence": (
            {"repeated"},
            with_text(lambda answer: shortened(earlier(answer))),
        ),
        "the last answer in other words": (
            {"repeated"},
            with_text(lambda answer: own_words.get((answer.task.conversation_id, answer.task.turn - 1))),
        ),
        "a person's refusal": ({"refused_known"}, with_text(lambda answer: draw.choice(refusals))),
        "a person's question back": ({"asked_back"}, with_text(lambda answer: draw.choice(questions))),
        "another number": ({"invented"}, with_text(other_number)),
        "another question's answer": ({"invented"}, with_text(lambda answer: other(answer).target)),
        "another question's answer and passages": ({"missed"}, elsewhere),
        "another question's passages": (
            {NONE},
            lambda answer: replace(answer, passages=other(answer).references),
        ),
    }


def earlier(response: Response) -> str | None:
    """Return the last answer of the conversation."""
    return next((message.text for message in reversed(response.task.messages) if message.role is Role.ASSISTANT), None)


def shortened(text: str | None) -> str | None:
    """Return a text without its first sentence."""
    return re.split(r"(?<=[.!?])\s+", text, maxsplit=1)[-1] if text else None


def other_number(response: Response) -> str | None:
    """Change the first number of two or more digits that a passage contains too."""
    for match in re.finditer(r"(?<![\d.,])\d{2,}(?![\d.,]*\d)", response.text):
        if any(match[0] in passage.text for passage in response.passages):
            changed = "".join(str((int(digit) + 3) % 10) for digit in match[0])
            return response.text[: match.start()] + changed + response.text[match.end() :]
    return None


def print_damage(folder: Path) -> None:
    """Print for each damage how often its type is detected, and how often on the undamaged answers."""
    draw = random.Random(29)
    tasks = tasks_of("mtrag", folder)
    rated = [row for row in load_human_evaluation(folder / "mt-rag-benchmark") if is_good(row)]
    good = [Response(task := tasks[row.response.task.task_id], task.references, row.response.text) for row in rated]
    print(f"\n{len(good)} answers that people rated {GOOD} or more in each property; one in {EACH} is damaged\n")
    print(
        "| damage | type | detected in damaged | other types detected | detected in undamaged |\n"
        "|---|---|---:|---|---:|"
    )
    for name, (right, damage) in damages(folder, draw).items():
        damaged_by_index = {index: damaged for index in range(0, len(good), EACH) if (damaged := damage(good[index]))}
        print_seen(
            name, right, [damaged_by_index.get(index, row) for index, row in enumerate(good)], set(damaged_by_index)
        )
    print_languages()


def print_languages() -> None:
    """Print the same for answers in another language: the sample of own data and its translated version."""
    english = open_benchmark("custom", benchmark_folder("custom", "sample", Path())).tasks
    with tempfile.TemporaryDirectory() as folder:
        for code in ("de", "zh"):
            # a copy, because files are derived next to a benchmark's own
            twin = open_benchmark("custom", Path(shutil.copytree(TWINS / code, Path(folder) / code))).tasks
            for name, tasks, answered in (
                (f"{code} answers to English questions", english, twin),
                (f"English answers to {code} questions", twin, english),
            ):
                indices = set(range(0, len(tasks), EACH))
                texts = [(answered if index in indices else tasks)[index].target for index in range(len(tasks))]
                responses = [Response(task, task.references, text) for task, text in zip(tasks, texts, strict=True)]
                print_seen(name, {"wrong_language"}, responses, indices)


def print_seen(name: str, right: set[str], responses: Sequence[Response], indices: set[int]) -> None:
    """Print one row."""
    kinds = kinds_of(responses)
    damaged = [kinds[index] for index in sorted(indices)]
    undamaged = [kind for index, kind in enumerate(kinds) if index not in indices]
    hits = sum(kind in right for kind in damaged)
    remaining = ", ".join(f"{kind} {count}" for kind, count in Counter(damaged).most_common() if kind not in right)
    print(
        f"| {name} | {', '.join(sorted(right))} | {of(hits, len(damaged))} | {remaining or '-'} "
        f"| {sum(kind in right for kind in undamaged)} of {len(undamaged)} |",
        flush=True,
    )


def read_labels(second: Path | None) -> list[Row]:
    """Return all rows. Labels of a second labelling are added by id, also to the file of labels."""
    rows = [json.loads(line) for line in LABELS.read_text(encoding="utf-8").splitlines()]
    if second:
        second_labels = {row["id"]: row for row in map(json.loads, second.read_text(encoding="utf-8").splitlines())}
        for row in rows:
            if label := second_labels.get(row.get("id", "")):
                row["second"] = label["label"]
                row.update({"second_also": label["also"]} if label.get("also") else {})
        LABELS.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    return rows


# Speed

ROUNDS = 5


def print_speed(folder: Path) -> None:
    """Print the speed in answers per second, and relative to `grounded` and `copied` of the same."""
    responses = [response for _, response in answers(folder)]
    verdicts = [label.verdict for label in NgramIdk().detect(responses)]

    def look() -> None:
        for response, verdict in zip(responses, verdicts, strict=True):
            turn_error(response, verdict)

    def measure() -> None:
        for one in responses:
            grounded(one.text, one.passages)
            copied(one.text, one.passages)

    look()  # warm-up: loads language data once
    rounds = [(cpu_seconds(look), cpu_seconds(measure)) for _ in range(ROUNDS)]
    seconds, ratio = median(one for one, _ in rounds), median(one / reference for one, reference in rounds)
    print(
        f"{len(responses)} answers: {len(responses) / seconds:,.0f} a second of one core, {ratio:.2f} times the time "
        f"of `grounded` and `copied` (medians of {ROUNDS})"
    )


def cpu_seconds(work: Callable[[], None]) -> float:
    """Return the CPU seconds of a call."""
    start = time.process_time()
    work()
    return time.process_time() - start


def main() -> None:
    """Print a row per damage, then for each round of labels their agreement and the precision of each type."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--second", type=Path, help="second labelling to add: lines with id, label and optionally also")
    parser.add_argument("--speed", action="store_true")
    arguments = parser.parse_args()
    if arguments.speed:
        print_speed(arguments.folder)
        return
    rows = read_labels(arguments.second)
    print_damage(arguments.folder)
    current = kinds(arguments.folder)

    def now(row: Row) -> str:
        return current[row["system"], row["task_id"]]

    for number in sorted({row["round"] for row in rows}):
        mine = [row for row in rows if row["round"] == number]
        print(f"\nRound {number}: {agreement(mine)}")
        if number > 1:
            print("\nBy the types at the time of the draw:\n")
            print_precision(mine, lambda row: row["predicted"])
            print("\nBy the current types:\n")
        print_precision(mine, now)
        if number == _DRAWN_FROM_POOL:
            print("\nCurrent recall of errors named by both labellings:\n")
            print_recall(mine, now, POOL)


if __name__ == "__main__":
    main()

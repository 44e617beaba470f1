"""How far the rule-based IDK detector agrees with MTRAG's labels: `python benchmarks/idk_agreement.py --data DIR`.

DIR is a checkout of IBM/mt-rag-benchmark. Three sets are read:

- reference: the reference answers. The label is what an ideal answer would be: UNANSWERABLE `yes`, PARTIAL `partial`,
  ANSWERABLE `no`. A reference answer does not always read so: many PARTIAL ones admit no gap.
- judge: the responses of the human evaluation, labelled by the paper's LLM judge. Its label is stored only as whether
  it agrees with the answerability, so that `yes` can be told from the rest, but `partial` not from `no`.
- unseen: the reference answers of MTRAG-UN, on which nothing was tuned.

The rules were tuned on one half of the conversations of the first two sets; the other half was held out.
"""

from __future__ import annotations

import argparse
import hashlib
import json
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ragtasks.errors import BenchmarkFileError, clear_error
from ragtasks.ids import split_task_id
from ragtasks.metrics.answerability import IdkDetector, RuleBasedIdk
from ragtasks.records import Answerability, IdkVerdict, Message, Response, Role, Task

IDEAL = {
    Answerability.UNANSWERABLE: IdkVerdict.YES,
    Answerability.PARTIAL: IdkVerdict.PARTIAL,
    Answerability.ANSWERABLE: IdkVerdict.NO,
}
HALVES = ("tuned", "held out")


@dataclass(frozen=True, slots=True)
class Labelled:
    """A response and what it should be labelled."""

    response: Response
    """The response."""
    label: str
    """The right verdict; in the judge set `yes` or `not yes`; elsewhere the answerability where no verdict is ideal."""

    @property
    def half(self) -> str:
        """`tuned` or `held out`, by a hash of the conversation id."""
        digest = hashlib.sha256(self.response.task.conversation_id.encode()).digest()
        return HALVES[digest[0] % 2]


def read_references(path: Path) -> list[Labelled]:
    """Return the reference answers of a generation task file, labelled by answerability."""
    rows = [json.loads(line) for line in _text(path).splitlines()]
    labelled = []
    for row in rows:
        answerability = Answerability((row.get("Answerability") or row["answerability"])[0])
        response = _response(row["task_id"], row["input"][-1]["text"], answerability, row["targets"][0]["text"])
        ideal = IDEAL.get(answerability)
        labelled.append(Labelled(response, ideal.value if ideal else answerability.value))
    return labelled


def read_judged(path: Path) -> list[Labelled]:
    """Return the responses of the human evaluation with the label of the paper's judge; conversational ones left out.

    `conditional_idk` is 1 where the judge agrees with the answerability: on UNANSWERABLE that is `yes`, elsewhere
    anything but `yes`.
    """
    evaluation: dict[str, Any] = json.loads(_text(path))
    tasks = {task["task_id"]: task for task in evaluation["tasks"]}
    labelled = []
    for row in evaluation["evaluations"]:
        task = tasks[row["task_id"]]
        answerability = Answerability(task["Answerability"][0])
        if answerability is Answerability.CONVERSATIONAL:
            continue
        agrees = row["annotations"]["conditional_idk"]["composite"]["value"] == 1
        is_yes = agrees == (answerability is Answerability.UNANSWERABLE)
        response = _response(row["task_id"], task["input"][-1]["text"], answerability, row["model_response"])
        labelled.append(Labelled(response, "yes" if is_yes else "not yes"))
    return labelled


def confusion(detector: IdkDetector, labelled: Iterable[Labelled]) -> Counter[tuple[str, str]]:
    """Return (label, verdict) -> number of responses; a response without a verdict is under `unscored`."""
    rows = list(labelled)
    verdicts = detector.detect([row.response for row in rows])
    return Counter(
        (row.label, found.verdict.value if found.verdict else "unscored")
        for row, found in zip(rows, verdicts, strict=True)
    )


def figures_of_yes(table: Counter[tuple[str, str]]) -> dict[str, float]:
    """Return accuracy, precision and recall of `yes` against the rest, each 0 to 1; without its denominator, NaN.

    Only the four labels that say what is right are counted: `yes`, `partial`, `no`, `not yes`.
    """
    known = {pair: n for pair, n in table.items() if pair[0] in ("yes", "partial", "no", "not yes")}
    n_both = known.get(("yes", "yes"), 0)
    n_labelled = sum(n for (label, _), n in known.items() if label == "yes")
    n_found = sum(n for (_, verdict), n in known.items() if verdict == "yes")
    n_all = sum(known.values())
    return {
        "accuracy": _ratio(n_all - n_labelled - n_found + 2 * n_both, n_all),
        "precision": _ratio(n_both, n_found),
        "recall": _ratio(n_both, n_labelled),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description="Agreement of the rule-based IDK detector with MTRAG's labels.")
    parser.add_argument("--data", type=Path, required=True, help="a checkout of IBM/mt-rag-benchmark")
    root: Path = parser.parse_args().data
    human = root / "mtrag-human"
    reference = read_references(human / "generation_tasks" / "reference.jsonl")
    judged = read_judged(human / "evaluations" / "reference_subset_with_human_evaluations.json")
    unseen = read_references(root / "mtragun-human" / "generation_tasks" / "reference.jsonl")
    for half in HALVES:
        _print_table(f"reference, {half}", [row for row in reference if row.half == half])
    for half in HALVES:
        _print_table(f"judge, {half}", [row for row in judged if row.half == half])
    _print_table("reference, all", reference)
    _print_table("judge, all", judged)
    _print_table("unseen (MTRAG-UN), all", unseen)


def _print_table(title: str, labelled: list[Labelled]) -> None:
    table = confusion(RuleBasedIdk(), labelled)
    columns = ["yes", "partial", "no", "unscored"]
    print(f"\n{title}: n = {table.total()}")
    print(f"{'label':<16}" + "".join(f"{column:>9}" for column in columns))
    for label in sorted({label for label, _ in table}):
        print(f"{label:<16}" + "".join(f"{table[label, column]:>9}" for column in columns))
    print("  ".join(f"{name} of yes {value:.3f}" for name, value in figures_of_yes(table).items()))


def _response(task_id: str, question: str, answerability: Answerability, text: str) -> Response:
    conversation_id, turn = split_task_id(task_id)
    message = Message(Role.USER, question)
    task = Task(task_id, conversation_id, turn, "", (message,), "", answerability, (), "N/A", ())
    return Response(task, (), text)


def _text(path: Path) -> str:
    if not path.is_file():
        raise BenchmarkFileError(
            clear_error(
                "reading labelled responses",
                where=str(path),
                expected="a file of IBM/mt-rag-benchmark",
                found="no file",
                next_step="pass the folder of the checkout with --data",
            )
        )
    return path.read_text(encoding="utf-8")


def _ratio(part: int, whole: int) -> float:
    return part / whole if whole else float("nan")


if __name__ == "__main__":
    main()

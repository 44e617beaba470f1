"""How far an IDK detector agrees with labels.

    python perf/idk_agreement.py --data DIR [--systems DIR] [--detector encoder]
    python perf/idk_agreement.py [--idk-model NAME]       other languages than English alone, by a multilingual model

DIR is a checkout of IBM/mt-rag-benchmark. Three sets are read from it:

- reference: the reference answers. The label is what an ideal answer would be: UNANSWERABLE `yes`, PARTIAL `partial`,
  ANSWERABLE `no`. A reference answer does not always read so: many PARTIAL ones admit no gap.
- judge: the responses of the human evaluation, labelled by the paper's LLM judge. Its label is stored only as whether
  it agrees with the answerability, so that `yes` can be told from the rest, but `partial` not from `no`.
- mtrag_un: the reference answers of MTRAG-UN, labelled in the same way.

A fourth lies beside this script, `perf/idk_unseen.jsonl`: 480 answers in the manner of eight kinds of systems, which
language models wrote when both detectors were done, and labelled by the prompt of MTRAG's judge. Nothing may be learned
from it. A fifth is `perf/idk_plain_answers.jsonl`: 340 answers that report what somebody in them does not know or do,
or what the world lacks ("No, the policy does not cover it."), and 120 refusals beside them. They were written for the
rules in eight rounds (`round`), each before the rules were changed for it; nothing was changed after the eighth. Ten
answers of the last two admit a gap and deliver all the same (`not yes`).

A sixth are the package's sentences (`ragtasks/metrics/refusals/sentences.jsonl`): refusals and plain answers that look
like one in twelve languages, in rounds, some of which are for measuring alone; `perf/idk_languages_training.py` learns
from the others.

The folder of --systems holds a file `*.jsonl` for each system: answers to tasks with an LLM judge's label (`task_id`,
`answerability`, `text`, `idk`). Nothing in the rules is fitted to one of them by a machine, but all were read while the
rules were written: each system's own table says more than their sum, and answers of other systems say most. The encoder
saw none of any set while it learned.

Most answers refuse nothing, so that agreement alone says little: each class is printed with its prevalence, precision,
recall, F1 and Cohen's kappa, which is 0 for as much agreement as by chance.
"""

from __future__ import annotations

import argparse
import json
import math
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ragtasks.errors import BenchmarkFileError
from ragtasks.metrics import EncoderIdk, RuleBasedIdk
from ragtasks.metrics._answerability import IdkDetector
from ragtasks.metrics.idk_languages import labelled_sentences, left_out
from ragtasks.records import Answerability, IdkVerdict, Message, Response, Role, Task, split_task_id

IDEAL = {
    Answerability.UNANSWERABLE: IdkVerdict.YES,
    Answerability.PARTIAL: IdkVerdict.PARTIAL,
    Answerability.ANSWERABLE: IdkVerdict.NO,
}
UNSEEN = Path(__file__).with_name("idk_unseen.jsonl")
PLAIN_ANSWERS = Path(__file__).with_name("idk_plain_answers.jsonl")
KNOWN = ("yes", "partial", "no", "not yes")
"""The labels that say what is right."""
DETECTORS: dict[str, Callable[[], IdkDetector]] = {"rules": RuleBasedIdk, "encoder": EncoderIdk}
COLUMNS = ("yes", "partial", "no", "unscored")


@dataclass(frozen=True, slots=True)
class Labelled:
    """A response and what it should be labelled."""

    response: Response
    """The response."""
    label: str
    """The right verdict; in the judge set `yes` or `not yes`; elsewhere the answerability where no verdict is ideal."""


@dataclass(frozen=True, slots=True)
class Agreement:
    """One class against the rest; each number 0 to 1 (kappa down to -1), NaN without its denominator."""

    n_rows: int
    """Responses with a label that says what is right."""
    n_labelled: int
    """Of these, with the class as their label."""
    n_found: int
    """Of these, with the class as their verdict."""
    n_both: int
    """Of these, with both."""

    @property
    def prevalence(self) -> float:
        """Share of the class among the labels."""
        return _ratio(self.n_labelled, self.n_rows)

    @property
    def agreement(self) -> float:
        """Share of responses on which label and verdict agree."""
        return _ratio(self.n_rows - self.n_labelled - self.n_found + 2 * self.n_both, self.n_rows)

    @property
    def precision(self) -> float:
        """Share of the verdicts that are labelled so."""
        return _ratio(self.n_both, self.n_found)

    @property
    def recall(self) -> float:
        """Share of the labels that are found."""
        return _ratio(self.n_both, self.n_labelled)

    @property
    def f1(self) -> float:
        """Harmonic mean of precision and recall."""
        return _ratio(2 * self.n_both, self.n_labelled + self.n_found)

    @property
    def kappa(self) -> float:
        """Cohen's kappa: agreement beyond what the two prevalences give by chance, as a share of what is possible."""
        if not self.n_rows:
            return math.nan
        labelled, found = self.n_labelled / self.n_rows, self.n_found / self.n_rows
        by_chance = labelled * found + (1 - labelled) * (1 - found)
        return math.nan if by_chance == 1 else (self.agreement - by_chance) / (1 - by_chance)


def read_mtrag(root: Path) -> dict[str, list[Labelled]]:
    """Return the three sets of a checkout of IBM/mt-rag-benchmark by name.

    Raises:
        BenchmarkFileError: a file is missing.
    """
    human = root / "mtrag-human"
    return {
        "reference": read_references(human / "generation_tasks" / "reference.jsonl"),
        "judge": read_judged(human / "evaluations" / "reference_subset_with_human_evaluations.json"),
        "mtrag_un": read_references(root / "mtragun-human" / "generation_tasks" / "reference.jsonl"),
    }


def read_references(path: Path) -> list[Labelled]:
    """Return the reference answers of a generation task file, labelled by answerability."""
    labelled = []
    for row in map(json.loads, _text(path).splitlines()):
        answerability = Answerability((row.get("Answerability") or row["answerability"])[0])
        response = response_of(row["task_id"], answerability, row["targets"][0]["text"])
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
        answerability = Answerability(tasks[row["task_id"]]["Answerability"][0])
        if answerability is Answerability.CONVERSATIONAL:
            continue
        agrees = row["annotations"]["conditional_idk"]["composite"]["value"] == 1
        is_yes = agrees == (answerability is Answerability.UNANSWERABLE)
        response = response_of(row["task_id"], answerability, row["model_response"])
        labelled.append(Labelled(response, "yes" if is_yes else "not yes"))
    return labelled


def read_labelled(path: Path) -> list[Labelled]:
    """Return the answers of one system with a judge's label."""
    rows = map(json.loads, _text(path).splitlines())
    return [
        Labelled(response_of(row["task_id"], Answerability(row["answerability"][0]), row["text"]), row["idk"])
        for row in rows
    ]


def read_unseen(path: Path = UNSEEN) -> list[Labelled]:
    """Return labelled answers of no task: those of kinds of systems that no detector learned from, or a file's."""
    rows = map(json.loads, _text(path).splitlines())
    return [Labelled(response_of("c<::>1", Answerability.ANSWERABLE, row["text"]), row["idk"]) for row in rows]


def confusion(detector: IdkDetector, labelled: Iterable[Labelled]) -> Counter[tuple[str, str]]:
    """Return (label, verdict) -> number of responses; a response without a verdict is under `unscored`."""
    rows = list(labelled)
    verdicts = detector.detect([row.response for row in rows])
    return Counter(
        (row.label, found.verdict.value if found.verdict else "unscored")
        for row, found in zip(rows, verdicts, strict=True)
    )


def agreement_of(table: Counter[tuple[str, str]], verdict: str) -> Agreement:
    """Return how far labels and verdicts agree on one class (`yes`, `partial` or `no`) against the rest."""
    known = {pair: n for pair, n in table.items() if pair[0] in KNOWN}
    return Agreement(
        n_rows=sum(known.values()),
        n_labelled=sum(n for (label, _), n in known.items() if label == verdict),
        n_found=sum(n for (_, found), n in known.items() if found == verdict),
        n_both=known.get((verdict, verdict), 0),
    )


def main() -> None:
    parser = argparse.ArgumentParser(description="Agreement of an IDK detector with labels.")
    parser.add_argument("--data", type=Path, help="a checkout of IBM/mt-rag-benchmark; default: languages alone")
    parser.add_argument("--systems", type=Path, help="a folder of answers of systems with a judge's labels")
    parser.add_argument("--detector", choices=sorted(DETECTORS), default="rules", help="which detector")
    parser.add_argument("--idk-model", help="multilingual model of the encoder, which learns first")
    options = parser.parse_args()
    detector = DETECTORS[options.detector]()
    if options.idk_model is not None:
        detector = EncoderIdk(multilingual=options.idk_model)
        detector.check()
    if options.data is None:
        _print_languages(detector)
        return
    sets = {**read_mtrag(options.data), "unseen kinds": read_unseen(), "plain answers": read_unseen(PLAIN_ANSWERS)}
    if options.systems:
        systems = {path.stem: read_labelled(path) for path in sorted(options.systems.glob("*.jsonl"))}
        sets |= systems
        sets["all systems"] = [row for rows in systems.values() for row in rows]
    for name, rows in sets.items():
        print_table(name, confusion(detector, rows))
    _print_languages(detector)
    _print_speed(detector, [row.response for rows in sets.values() for row in rows])


def print_table(title: str, table: Counter[tuple[str, str]]) -> None:
    """Print a table of `confusion` and, for each class against the rest, how far labels and verdicts agree."""
    print(f"\n{title}: n = {table.total()}")
    print(f"{'label':<16}" + "".join(f"{column:>9}" for column in COLUMNS))
    for label in sorted({label for label, _ in table}):
        print(f"{label:<16}" + "".join(f"{table[label, column]:>9}" for column in COLUMNS))
    names = ("prevalence", "precision", "recall", "f1", "kappa", "agreement")
    print(f"{'class':<10}" + "".join(f"{name:>12}" for name in names))
    for verdict in ("yes",) if any(label == "not yes" for label, _ in table) else ("yes", "partial", "no"):
        found = agreement_of(table, verdict)
        print(f"{verdict:<10}" + "".join(f"{getattr(found, name):>12.3f}" for name in names))


def _print_languages(detector: IdkDetector) -> None:
    """Print how many sentences get their label, and how many of those left out of learning, by round and language."""
    rows = labelled_sentences()
    labels = detector.detect([response_of("c<::>1", Answerability.ANSWERABLE, row.text) for row in rows])
    apart = frozenset(left_out(rows))
    right, measured = defaultdict[str, list[bool]](list), defaultdict[str, list[bool]](list)
    for row, label in zip(rows, labels, strict=True):
        verdict = label.verdict and label.verdict.value
        right[row.language].append(verdict not in (None, "yes") if row.idk == "not yes" else verdict == row.idk)
        if row in apart:
            for group in (f"round {row.round}", row.language, "all"):
                measured[group].append((verdict == "yes") == (row.idk == "yes"))
    for title, found in (("languages, read right", right), ("left out of learning, refusal or not", measured)):
        print(f"\n{title}: " + ", ".join(f"{name} {sum(of)} of {len(of)}" for name, of in sorted(found.items())))


def _print_speed(detector: IdkDetector, responses: list[Response]) -> None:
    start, cpu = time.perf_counter(), time.process_time()
    detector.detect(responses)
    seconds, cpu_seconds = time.perf_counter() - start, time.process_time() - cpu
    n, n_words = len(responses), sum(len(response.text.split()) for response in responses)
    print(f"\n{n / seconds:.0f} responses of {n_words / n:.0f} words a second, {n / cpu_seconds:.0f} a core's second")


def response_of(task_id: str, answerability: Answerability, text: str) -> Response:
    """Return an answer to a task of which nothing but its id and answerability is known."""
    conversation_id, turn = split_task_id(task_id)
    message = Message(Role.USER, "")  # no detector reads the question
    task = Task(task_id, conversation_id, turn, "", (message,), "", answerability, (), "N/A", ())
    return Response(task, (), text)


def not_there(path: Path | str) -> BenchmarkFileError:
    """Return the error of a folder of --data that lacks a file."""
    return BenchmarkFileError(
        "reading labelled responses",
        where=str(path),
        expected="a file of IBM/mt-rag-benchmark",
        found="no file",
        next_step="pass the folder of the checkout with --data",
    )


def _text(path: Path) -> str:
    if not path.is_file():
        raise not_there(path)
    return path.read_text(encoding="utf-8")


def _ratio(part: int, whole: int) -> float:
    return part / whole if whole else math.nan


if __name__ == "__main__":
    main()

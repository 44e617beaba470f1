"""FaithDial: dialogues in which every reply is true to a piece of knowledge (Dziri et al. 2022).

A task is a reply of the test split: the dialogue so far and the knowledge that the reply must rest on, which is its one
passage. People edited the replies of Wizard of Wikipedia until they were faithful. Where a reply was edited,
`extra["original"]` is what stood there before, and `question_types` are its BEGIN labels (Hallucination, Entailment,
Generic, Uncooperative), `extra["vrm"]` its speech acts; elsewhere the labels are those of the reply itself.

There is no label of answerability: every task is `ANSWERABLE`. There is no corpus.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from ragtasks.benchmarks import Benchmark, BenchmarkDefinition
from ragtasks.benchmarks.sources import SourceFile
from ragtasks.files import Problems, json_array
from ragtasks.metrics import PERCENT, RESCALED, Metric, Scores, bert_scores, corpus_bleu, token_f1
from ragtasks.records import Answerability, Message, Passage, Role, Score, Task, task_id
from ragtasks.suites import ScoringInputs, extended, suite_named
from ragtasks_more_benchmarks.hub import PACKAGE, Sizes, hub_source, is_text, load_tasks

DOMAIN = "wikipedia"
"""Where the knowledge comes from."""
SIZES = Sizes(conversations=791, tasks=None)
"""The test split, as the paper counts it; it counts the utterances of both speakers, 7,101, and not the replies."""

SOURCE = hub_source(
    "faithdial",
    "FaithDial",
    "McGill-NLP/FaithDial",
    "7a414e80725eac766f2602676dc8b39f80b061e4",
    SourceFile("data/test.json", None, None, "tasks"),
)
"""The official file, whose checksum is not known here."""


def load(root: Path) -> Benchmark:
    """Return the benchmark whose files lie under `root` (a fetched copy, or the sample)."""
    return load_tasks(root, SOURCE, SIZES, _tasks)


def _tasks(problems: Problems) -> Iterator[Task]:
    """Yield the tasks of all dialogues, after noting what is wrong with others."""
    for number, dialogue in enumerate(json_array(problems), start=1):
        utterances = dialogue.get("utterances") if isinstance(dialogue, dict) else None
        if not isinstance(utterances, list) or not utterances:
            problems.add(0, "`utterances` with at least one", utterances, f"dialogue {number}")
            continue
        for turn, row in enumerate(utterances, start=1):
            task = _task(f"dialogue-{number}", turn, row if isinstance(row, dict) else {}, problems)
            if task is not None:
                yield task


def _task(name: str, turn: int, row: Mapping[str, Any], problems: Problems) -> Task | None:
    """Return the task of one reply, or None after noting what is wrong with it."""
    before, place = len(problems), f"{name}, reply {turn}"
    history, labels, acts = row.get("history"), row.get("BEGIN"), row.get("VRM")
    if not isinstance(history, list) or not history or not all(map(is_text, history)):
        problems.add(0, "`history` of texts that ends with the seeker", history, place)
    if not is_text(row.get("response")) or not is_text(row.get("knowledge")):
        problems.add(0, "`response` and `knowledge` with a text each", row, place)
    if not all(isinstance(names, list) and all(map(is_text, names)) for names in (labels, acts)):
        problems.add(0, "`BEGIN` and `VRM` as lists of labels", [labels, acts], place)
    if len(problems) > before:
        return None
    texts = history or []
    return Task(
        task_id=task_id(name, turn),
        conversation_id=name,
        turn=turn,
        domain=DOMAIN,
        # The seeker speaks last; whoever speaks first follows from that.
        messages=tuple(
            Message((Role.ASSISTANT, Role.USER)[(len(texts) - n) % 2], text) for n, text in enumerate(texts)
        ),
        target=row["response"],
        answerability=Answerability.ANSWERABLE,
        question_types=tuple(labels or ()),
        multi_turn="N/A" if len(texts) == 1 else "Follow-up",
        references=(Passage(f"{name}.{turn}", row["knowledge"]),),
        extra={"knowledge": row["knowledge"], "original": row.get("original_response"), "vrm": acts},
    )


DEFINITION = BenchmarkDefinition(SOURCE, load, sample=PACKAGE / "sample" / "faithdial")


# The suite: MTRAG's scores, and those of its paper that need no trained critic (Dziri et al. 2022).

METRICS = (
    Metric("sacrebleu", "SacreBLEU of all replies together, 0 to 100", bounds=PERCENT, aggregate=corpus_bleu),
    Metric("k_f1", "F1 of the normalised tokens of reply and knowledge; the paper's leaves out stop words"),
    Metric("bert_f1", "BERTScore F1 against the reference reply", bounds=RESCALED),
)
"""What FaithDial has beyond MTRAG's metrics, whose `rouge_l` and `bert_k_precision` its paper has too."""


def scores(inputs: ScoringInputs) -> list[Scores]:
    """Return what FaithDial adds of each response, in order."""
    return [
        {
            # The score is made of all replies; this value only says that the reply is among them.
            "sacrebleu": Score(token_f1(response.text, response.task.target)),
            "k_f1": Score(token_f1(response.text, response.task.extra["knowledge"])),
            "bert_f1": bert_scores(found, inputs.semantics.reason)["bert_f1"],
        }
        for response, _, found in inputs.answers()
    ]


SUITE = extended(suite_named("mtrag"), METRICS, scores)

"""FaithDial: dialogues in which every reply is true to a piece of knowledge (Dziri et al. 2022).

A task is a reply of the test split: the dialogue so far and the knowledge that the reply must rest on, which is its one
passage. People edited the replies of Wizard of Wikipedia until they were faithful. Where a reply was edited,
`extra["original"]` is what stood there before, and `question_types` are its BEGIN labels (Hallucination, Entailment,
Generic, Uncooperative), `extra["vrm"]` its speech acts; elsewhere the labels are those of the reply itself.

There is no label of answerability: every task is `ANSWERABLE`. There is no corpus.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from pydantic import Field

from ragtasks.benchmarks import Benchmark, BenchmarkDefinition, Fields, Text, typed_items
from ragtasks.benchmarks.sources import SourceFile
from ragtasks.files import Problems
from ragtasks.metrics import PERCENT, RESCALED, Metric, Scores, bert_scores, corpus_bleu, token_f1
from ragtasks.records import Answerability, Message, Passage, Role, Score, Task, task_id
from ragtasks.suites import ScoringInputs, extended, suite_named
from ragtasks_more_benchmarks.hub import PACKAGE, Sizes, hub_source, load_tasks

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


class _Reply(Fields):
    history: list[Text] = Field(min_length=1)
    """Utterances before the reply; the seeker speaks last."""
    response: Text
    knowledge: Text
    labels: list[Text] = Field(alias="BEGIN")
    acts: list[Text] = Field(alias="VRM")
    original_response: str | None = None


class _Dialogue(Fields):
    utterances: list[_Reply] = Field(min_length=1)


def _tasks(problems: Problems) -> Iterator[Task]:
    for number, dialogue in typed_items(problems, _Dialogue):
        name = f"dialogue-{number}"
        yield from (_task(name, turn, reply) for turn, reply in enumerate(dialogue.utterances, start=1))


def _task(name: str, turn: int, reply: _Reply) -> Task:
    texts = reply.history
    return Task(
        task_id=task_id(name, turn),
        conversation_id=name,
        turn=turn,
        domain=DOMAIN,
        # The seeker speaks last; whoever speaks first follows from that.
        messages=tuple(
            Message((Role.ASSISTANT, Role.USER)[(len(texts) - n) % 2], text) for n, text in enumerate(texts)
        ),
        target=reply.response,
        answerability=Answerability.ANSWERABLE,
        question_types=tuple(reply.labels),
        multi_turn="N/A" if len(texts) == 1 else "Follow-up",
        references=(Passage(f"{name}.{turn}", reply.knowledge),),
        extra={"knowledge": reply.knowledge, "original": reply.original_response, "vrm": reply.acts},
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

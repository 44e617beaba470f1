"""FaithDial: dialogues in which every reply is faithful to a given piece of knowledge (Dziri et al. 2022).

A task is a reply of the test split: the dialogue so far and the knowledge for the reply, which is its only passage.
People edited the replies of Wizard of Wikipedia until they were faithful. For an edited reply, `extra["original"]` is
the previous text, `question_types` are its BEGIN labels (Hallucination, Entailment, Generic, Uncooperative), and
`extra["vrm"]` its speech acts; otherwise the labels are those of the reply itself.

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
"""Source of the knowledge."""
SIZES = Sizes(conversations=791, tasks=None)
"""The test split as counted in the paper, which counts 7,101 utterances of both speakers instead of replies."""

SOURCE = hub_source(
    "faithdial",
    "FaithDial",
    "McGill-NLP/FaithDial",
    "7a414e80725eac766f2602676dc8b39f80b061e4",
    SourceFile("data/test.json", None, None, "tasks"),
)
"""The official file. Its checksum is unknown."""


def load(root: Path) -> Benchmark:
    """Return the benchmark in `root` (a fetched copy, or the sample)."""
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
        # The seeker speaks last, which determines the first speaker.
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
"""FaithDial's metrics beyond MTRAG's. The paper also reports `rouge_l` and `bert_k_precision`."""


def scores(inputs: ScoringInputs) -> list[Scores]:
    """Return FaithDial's additional scores of each response, in order."""
    return [
        {
            # The score is computed over all replies; this value only includes the reply.
            "sacrebleu": Score(token_f1(response.text, response.task.target)),
            "k_f1": Score(token_f1(response.text, response.task.extra["knowledge"])),
            "bert_f1": bert_scores(tokens, inputs.semantics.reason)["bert_f1"],
        }
        for response, _, tokens in inputs.answers()
    ]


SUITE = extended(suite_named("mtrag"), METRICS, scores)

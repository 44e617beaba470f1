"""CORAL: conversations made from Wikipedia articles, with long answers that cite their passages (Cheng et al. 2025).

A task is a turn of the test split. The files contain citations in answers as `[12]`, where 12 is the passage's id.
Targets and earlier turns are stripped of them, and `extra["cited"]` contains the ids. Four ways of walking
through an article give four types of conversation (LDS, SIDS, STRW, DTRW), stored in `question_types` and in
conversation ids.

The corpus contains the texts of the passages. Each question has a rewritten form that is understandable on its own.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path

from pydantic import Field, model_validator

from ragtasks.benchmarks import (
    Benchmark,
    BenchmarkDefinition,
    Fields,
    Label,
    RetrievalSide,
    Text,
    Whole,
    derived_file,
    official_file,
    read_edition,
    reference_contexts,
    reference_qrels,
    typed_items,
    typed_lines,
)
from ragtasks.benchmarks.sources import SourceFile
from ragtasks.files import Problems
from ragtasks.metrics import PERCENT, Metric, Pair, Scores, corpus_bleu, parse_cited, token_f1
from ragtasks.records import Answerability, Contexts, Message, Passage, Response, Role, Score, Setting, Task, task_id
from ragtasks.suites import ScoringInputs, extended, suite_named
from ragtasks_more_benchmarks.hub import PACKAGE, Sizes, check_sizes, hub_source

DOMAIN = "wikipedia"
SIZES = Sizes(conversations=800, tasks=6480)
"""The test split as counted in the official README: 200 conversations of each type; 651, 1727, 1949 and 2153 turns."""

_TASK_FILE = "test/test_conversation.json"
_CORPUS = "passage_corpus.json"
_COMMIT = "e6b8fb6"
_NEXT_STEP = "fetch the file again, or correct it"
_CITATION = re.compile(r"\s*\[\d+(?:\s*[,;-]\s*\d+)*\]")

SOURCE = hub_source(
    "coral",
    "CORAL",
    "ariya2357/CORAL",
    _COMMIT,
    SourceFile(_TASK_FILE, None, None, "tasks"),
    SourceFile(_CORPUS, None, None, "tasks"),
    marker="test",
)
"""The official files. Their checksums and the full commit id are unknown."""


def load(root: Path) -> Benchmark:
    """Return the benchmark in `root` (a fetched copy, or the sample)."""
    is_sample, revision, sizes = read_edition(root, _COMMIT, SIZES, Sizes.of)
    problems = Problems(official_file(root / _TASK_FILE, "CORAL", "coral"), "CORAL file", _NEXT_STEP)
    conversations, texts = typed_items(problems, _Conversation), _texts(root)
    tasks = tuple(task for _, conversation in conversations for task in _tasks(conversation, texts, problems))
    check_sizes(tasks, sizes, problems)
    contexts = partial(_contexts, tasks)
    return Benchmark(
        "coral", root, is_sample, revision, "answerability", tasks, contexts, suite="coral", belongs=_belongs
    )


def _belongs(task: Task, setting: Setting) -> bool:
    return setting is not Setting.REFERENCE or bool(task.references)


def _contexts(tasks: tuple[Task, ...], setting: Setting) -> Contexts:
    chosen = tuple(task for task in tasks if _belongs(task, setting))
    return reference_contexts("coral", "coral_reference", chosen, setting)


class _Turn(Fields):
    turn_id: Whole
    question: Text
    response: Text
    passage_ids: list[Label] = Field(alias="golden_docs_pids")
    rewrite: str | None = Field(None, alias="golden_rewrite")


class _Conversation(Fields):
    name: Text = Field(alias="conv_id")
    turns: list[_Turn] = Field(min_length=1)

    @model_validator(mode="after")
    def _numbered(self) -> _Conversation:
        if [turn.turn_id for turn in self.turns] != list(range(1, len(self.turns) + 1)):
            raise ValueError(f"turns of {self.name} with the numbers from 1 as `turn_id`")
        return self


def _tasks(conversation: _Conversation, texts: Mapping[str, str], problems: Problems) -> Iterator[Task]:
    """Yield the tasks of a conversation, after recording passages without a text."""
    messages: list[Message] = []
    for turn in conversation.turns:
        messages.append(Message(Role.USER, turn.question))
        target, ids = without_citations(turn.response), list(dict.fromkeys(turn.passage_ids))
        if missing := [pid for pid in ids if pid not in texts]:
            expected = f"`golden_docs_pids` of passages in {_CORPUS}"
            problems.add(0, expected, missing, f"{conversation.name}, turn {turn.turn_id}")
        yield Task(
            task_id=task_id(conversation.name, turn.turn_id),
            conversation_id=conversation.name,
            turn=turn.turn_id,
            domain=DOMAIN,
            messages=tuple(messages),
            target=target,
            answerability=Answerability.ANSWERABLE,
            question_types=tuple(conversation.name.split("_")[1:2]),
            multi_turn="N/A" if turn.turn_id == 1 else "Follow-up",
            references=tuple(Passage(pid, texts[pid]) for pid in ids if pid in texts),
            extra={"cited": ids, "rewrite": turn.rewrite},
        )
        messages.append(Message(Role.ASSISTANT, target))


def without_citations(text: str) -> str:
    """Return an answer without its citations, `[12]`."""
    return _CITATION.sub("", text).strip()


# Passages: tasks name them, and the corpus contains their texts.


class _CorpusRow(Fields):
    passage_id: Label = Field(alias="ref_id")
    text: str = Field(alias="ref_string")


def _texts(root: Path) -> dict[str, str]:
    """Return passage id -> text of the corpus."""
    problems = Problems(official_file(root / _CORPUS, "CORAL", "coral"), "CORAL corpus", _NEXT_STEP)
    texts = {row.passage_id: row.text for _, row in typed_lines(problems, _CorpusRow)}
    problems.raise_if_any()
    return texts


def corpus_file(root: Path, domain: str) -> Path:
    """Return the corpus as rows, which are written if missing."""
    rows = ({"_id": pid, "text": text} for pid, text in _texts(root).items())
    return derived_file(root, f"{domain}.jsonl", lambda: rows)


def load_rewrites(root: Path, domain: str) -> dict[str, str]:
    """Return task id -> the question in a form that is understandable on its own, if the file contains it."""
    del domain
    return {task.task_id: task.extra["rewrite"] for task in load(root).tasks if task.extra["rewrite"]}


DEFINITION = BenchmarkDefinition(
    SOURCE,
    load,
    RetrievalSide((DOMAIN,), corpus_file, partial(reference_qrels, load), load_rewrites=load_rewrites),
    PACKAGE / "sample" / "coral",
)


# The suite: MTRAG's scores of the answer without its citations, BLEU, and citations (Cheng et al. 2025, whose
# repository has no evaluation script). Citations are compared by passage with those of the reference answer: `[2]` in
# an answer is the second passage shown to the model.

MTRAG = suite_named("mtrag")


def bleu(pairs: Iterable[Pair]) -> float:
    """Return SacreBLEU over all answers, without their citations."""
    return corpus_bleu((without_citations(text), targets) for text, targets in pairs)


METRICS = (
    Metric("sacrebleu", "SacreBLEU of all answers together, 0 to 100", bounds=PERCENT, aggregate=bleu),
    Metric("citation_precision", "share of the cited passages that the reference answer cites; 0 for no citation"),
    Metric("citation_recall", "share of the reference answer's cited passages that the answer cites too"),
)


def scores(inputs: ScoringInputs) -> list[Scores]:
    """Return CORAL's additional scores of each response, in order."""
    return [_score(response) for response in inputs.responses]


def _score(response: Response) -> Scores:
    cited, gold = cited_passages(response), set(response.task.extra["cited"])
    shared = len(cited & gold)
    citations = {
        "citation_precision": Score(shared / len(cited) if cited else 0.0),
        "citation_recall": Score(shared / len(gold)) if gold else Score(None, ""),
    }
    if not gold:
        citations = dict.fromkeys(citations, Score(None, "the reference answer cites no passage"))
    # The score is computed over all answers; this value only includes the answer.
    return {"sacrebleu": Score(token_f1(without_citations(response.text), response.task.target)), **citations}


def cited_passages(response: Response) -> set[str]:
    """Return the ids of the passages that an answer cites by their numbers."""
    sentences = parse_cited(response.text, len(response.passages))
    return {response.passages[index].passage_id for sentence in sentences for index in sentence.citations}


def _score_text(inputs: ScoringInputs) -> list[Scores]:
    plain = [replace(response, text=without_citations(response.text)) for response in inputs.responses]
    return MTRAG.score(replace(inputs, responses=plain))


SUITE = extended(replace(MTRAG, score=_score_text), METRICS, scores)

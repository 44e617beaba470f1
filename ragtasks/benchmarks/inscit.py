"""INSCIT: conversations in which the agent answers, gives related information, or asks back (Wu et al. 2023).

A task is an agent turn. One or two annotators labeled it with a response type, a response and the supporting passages.
The response type determines the answerability. The task uses the first label. `extra["other_labels"]` contains the
second, and each score is the better of the two, as in the official script. The reference passages are the passages of
all labels.

The corpus is Wikipedia of 2022-04-20. Retrieval requires the official download, unpacked in `data/text_0420_processed`.
"""

from __future__ import annotations

import functools
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, Field, TypeAdapter

from ragtasks.benchmarks._definition import (
    Benchmark,
    BenchmarkDefinition,
    RetrievalSide,
    derived_file,
    official_file,
    read_edition,
    reference_contexts,
    reference_qrels,
)
from ragtasks.benchmarks._fields import Fields, Text, typed_file
from ragtasks.benchmarks.sources import Source, SourceFile
from ragtasks.errors import BenchmarkFileError
from ragtasks.files import Problems
from ragtasks.records import OTHER_LABELS, Answerability, Message, Passage, Role, Task, task_id

ANSWERABILITY: Mapping[str, Answerability] = {
    "directAnswer": Answerability.ANSWERABLE,
    "noAnswerButRelevantInfo": Answerability.PARTIAL,
    "clarification": Answerability.UNDERSPECIFIED,
    "noAnswerNoRelevantInfo": Answerability.UNANSWERABLE,
}
"""Response type of a label -> answerability of the question."""

DOMAIN = "wikipedia"

_SAMPLE = Path(__file__).resolve().parent / "sample" / "inscit"
_CORPUS_FOLDER = "data/text_0420_processed"
_COMMIT = "2319fb85932b9528a13417223ffc6fc629ae8087"
_OFFICIAL_ID = re.compile(r"\w+_dial\d+")
_NEXT_STEP = "fetch the file again, or correct it"


class SplitSize(Fields):
    """Number of records in a file."""

    conversations: int
    tasks: int
    labels: Mapping[str, int]


@dataclass(frozen=True, slots=True)
class Split:
    """A file of conversations."""

    name: str
    file: SourceFile
    counts: SplitSize | None
    """Counted in the official file; None if the file was not available."""

    def load(self, root: Path) -> Benchmark:
        """Return the benchmark with files under `root` (a checkout, a downloaded copy, or the sample)."""
        is_sample, revision, counts = read_edition(
            root, _COMMIT, self.counts, lambda raw: SplitSize.model_validate(raw[self.file.path])
        )
        tasks = _read_tasks(root / self.file.path, self.name, counts, is_official=not is_sample)
        return Benchmark(
            self.name,
            root,
            is_sample,
            revision,
            "answerability",
            tasks,
            functools.partial(reference_contexts, self.name, f"{self.name}_reference", tasks),
            suite="inscit",
        )

    def definition(self) -> BenchmarkDefinition:
        """Return the registry entry."""
        side = RetrievalSide(
            (DOMAIN,), corpus_file, functools.partial(reference_qrels, self.load), document_of=document_of
        )
        return BenchmarkDefinition(replace(_SOURCE, name=self.name, files=(self.file,)), self.load, side, _SAMPLE)


_SOURCE = Source(
    name="inscit",
    folder="INSCIT",
    marker="data",
    repository="https://github.com/ellenmellon/INSCIT",
    commit=_COMMIT,
    base_url=f"https://raw.githubusercontent.com/ellenmellon/INSCIT/{_COMMIT}/",
    files=(),
)

_TEST_FILE = SourceFile("data/test.json", None, None, "tasks", "d0c71dfec171e393ebed5352b40ddd231f246ce8")
TEST = Split("inscit", _TEST_FILE, None)
"""The split with the paper's results. Its counts are unknown, because the file was not available."""
DEV = Split(
    "inscit_dev",
    SourceFile("data/dev.json", "00d8760bbf42637a8628d52af88f32441b3d4cea32e0fe26d5c9dbe7e1aa4243", 4176926, "tasks"),
    SplitSize(
        conversations=86,
        tasks=502,
        labels={
            "directAnswer": 578,
            "clarification": 116,
            "noAnswerButRelevantInfo": 115,
            "noAnswerNoRelevantInfo": 26,
        },
    ),
)
"""The split with published official predictions."""


def _ends_with_user(context: list[str]) -> list[str]:
    if len(context) % 2 == 0:
        raise ValueError("alternating texts of user and agent that end with the user")
    return context


class _LabelledPassage(Fields):
    official_id: Text = Field(alias="passage_id")
    text: str = Field(alias="passage_text")
    titles: list[str] = Field(alias="passage_titles")

    def passage(self) -> Passage:
        return Passage(passage_id(self.official_id), self.text, _title(self.titles))


class _Label(Fields):
    response_type: Literal["directAnswer", "noAnswerButRelevantInfo", "clarification", "noAnswerNoRelevantInfo"] = (
        Field(alias="responseType")
    )
    response: Text
    evidence: list[_LabelledPassage]

    @property
    def answerability(self) -> Answerability:
        return ANSWERABILITY[self.response_type]


class _AgentTurn(Fields):
    context: Annotated[list[Text], AfterValidator(_ends_with_user)]
    labels: list[_Label] = Field(min_length=1)


class _LabelledConversation(Fields):
    seed_article: Any = Field(None, alias="seedArticle")
    turns: list[_AgentTurn] = Field(min_length=1)


_File = Annotated[dict[str, _LabelledConversation], Field(min_length=1)]


def _read_tasks(path: Path, name: str, counts: SplitSize | None, *, is_official: bool) -> tuple[Task, ...]:
    problems = Problems(official_file(path, "INSCIT", name), "INSCIT file", _NEXT_STEP)
    conversations = typed_file(problems, TypeAdapter[dict[str, _LabelledConversation]](_File))
    for conversation_id in conversations:
        if is_official and not _OFFICIAL_ID.fullmatch(conversation_id):
            problems.add(0, "official ids of conversations, such as food_level1_dial24", conversation_id)
    tasks = tuple(
        _task(conversation_id, number, turn, conversation.seed_article)
        for conversation_id, conversation in conversations.items()
        for number, turn in enumerate(conversation.turns, start=1)
    )
    labels = Counter(label for task in tasks for label in task.extra["response_types"])
    sizes = SplitSize(conversations=len(conversations), tasks=len(tasks), labels=dict(labels))
    if counts is not None and sizes != counts:
        problems.add(0, f"{counts!r}", sizes)
    problems.raise_if_any()
    return tasks


def _task(conversation_id: str, number: int, turn: _AgentTurn, seed_article: Any) -> Task:
    first, *other_labels = turn.labels
    passages = [[source.passage() for source in label.evidence] for label in turn.labels]
    return Task(
        task_id=task_id(conversation_id, number),
        conversation_id=conversation_id,
        turn=number,
        domain=DOMAIN,
        messages=tuple(Message((Role.USER, Role.ASSISTANT)[n % 2], text) for n, text in enumerate(turn.context)),
        target=first.response,
        answerability=first.answerability,
        question_types=tuple(dict.fromkeys(label.response_type for label in turn.labels)),
        multi_turn="N/A" if number == 1 else "Follow-up",
        references=tuple(
            {passage.passage_id: passage for label_passages in passages for passage in label_passages}.values()
        ),
        extra={
            "seed_article": seed_article,
            "response_types": [label.response_type for label in turn.labels],
            "evidence": [[passage.passage_id for passage in label_passages] for label_passages in passages],
            OTHER_LABELS: [
                {"target": label.response, "answerability": label.answerability.value} for label in other_labels
            ],
        },
    )


def passage_id(official: str) -> str:
    """Return the id of a passage, `Article:position`, with `_` for blanks.

    Blanks separate the columns of runs and qrels.
    """
    return "_".join(official.split())


def _title(titles: Sequence[str]) -> str:
    """Return the titles of a passage, from the article to its section, joined."""
    return " - ".join(titles)


# The corpus: a folder of JSON files, each a list of articles with `passages` of `id`, `text` and `titles`.


def document_of(passage_id: str) -> str:
    """Return the title of a passage's article."""
    return passage_id.rpartition(":")[0]


def corpus_file(root: Path, domain: str) -> Path:
    """Return the corpus as rows, created if missing."""
    folder = root / _CORPUS_FOLDER
    files = sorted(path for path in folder.glob("*") if path.is_file()) if folder.is_dir() else []
    if not files:
        raise BenchmarkFileError(
            "corpus of INSCIT",
            where=str(folder),
            expected="the folder of the official download `wiki_corpus`",
            found="no files",
            next_step="download it as in the README of https://github.com/ellenmellon/INSCIT, and unpack it there",
        )
    return derived_file(root, f"{domain}.jsonl", lambda: _corpus_rows(files))


class _CorpusPassage(Fields):
    official_id: str = Field(alias="id")
    text: str
    titles: list[str]


class _CorpusArticle(Fields):
    passages: list[_CorpusPassage]


def _corpus_rows(files: Sequence[Path]) -> Iterator[dict[str, Any]]:
    for path in files:
        articles = typed_file(Problems(path, "INSCIT corpus", _NEXT_STEP), TypeAdapter(list[_CorpusArticle]))
        for passage in (passage for article in articles for passage in article.passages):
            yield {"_id": passage_id(passage.official_id), "title": _title(passage.titles), "text": passage.text}


INSCIT = TEST.definition()
INSCIT_DEV = DEV.definition()

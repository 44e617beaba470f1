"""LiveRAG: the questions of SIGIR 2025's challenge, made by DataMorgana from web pages (Carmel et al. 2025).

A task is a question without a conversation. Its passages are the one or two documents it was made from, its target the
answer generated with it; `extra["claims"]` are that answer's statements, sorted by use. `extra["categories"]` contains
the requested types of question and user, as in the file.

The challenge's corpus is FineWeb-10BT, which is not fetched. Retrieval here searches the documents of all questions, so
it is easier than in the challenge.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Annotated, Any

from pydantic import BeforeValidator, Field, TypeAdapter

from ragtasks.benchmarks import (
    Benchmark,
    BenchmarkDefinition,
    Fields,
    RetrievalSide,
    Text,
    Whole,
    checked,
    derived_file,
    reference_qrels,
)
from ragtasks.benchmarks.sources import SourceFile
from ragtasks.files import Problems, parquet_rows, parse_json
from ragtasks.judges import Finding, Question, Rubric, VerdictOutcome, ask, read_coded_label
from ragtasks.metrics import Metric, Scores
from ragtasks.prompts import PromptTemplate
from ragtasks.records import Answerability, Message, Passage, Response, Role, Score, Task, task_id
from ragtasks.suites import ScoringInputs, extended, suite_named
from ragtasks_more_benchmarks.hub import PACKAGE, Sizes, hub_source, load_tasks

DOMAIN = "fineweb"
"""The pool of all questions' documents."""
CLAIMS = ("direct", "useful", "useless")
"""Types of statements in an answer."""
SIZES = Sizes(conversations=895, tasks=895)
"""Number of questions on the dataset's page."""

_FILE = "LiveRAG_banchmark_20250910.parquet"  # the file's spelling

SOURCE = hub_source(
    "liverag",
    "LiveRAG",
    "LiveRAG/Benchmark",
    "9deaaa8efdbf4e04be758a0333736a2ccd0216a2",
    SourceFile(_FILE, None, None, "tasks"),
    marker=_FILE,
)
"""The official file. Its checksum is unknown."""


def load(root: Path) -> Benchmark:
    """Return the benchmark in `root` (a fetched copy, or the sample)."""
    return load_tasks(root, SOURCE, SIZES, _tasks)


def _plain(value: Any) -> Any:
    """Return a value of a column with JSON objects, stored as columns or as text."""
    try:
        return parse_json(value.encode()) if isinstance(value, str) else value
    except ValueError:
        return None


class _SourceDocument(Fields):
    doc_id: Text
    content: Text


class _Claims(Fields):
    direct: list[Text] | None = None
    useful: list[Text] | None = None
    useless: list[Text] | None = None


class _Row(Fields):
    index: Whole = Field(alias="Index")
    question: Text = Field(alias="Question")
    answer: Text = Field(alias="Answer")
    documents: Annotated[list[_SourceDocument], BeforeValidator(_plain)] = Field(
        alias="Supporting_Documents", min_length=1
    )
    claims: Annotated[_Claims, BeforeValidator(_plain)] = Field(alias="Answer_Claims")
    session: Any = Field(None, alias="Session")
    categories: Annotated[Any, BeforeValidator(_plain)] = Field(None, alias="DataMorgana_Config")


def _tasks(problems: Problems) -> Iterator[Task]:
    """Yield the task of each row, after recording invalid rows and corrupt parts of the file."""
    number = 0
    try:
        for number, raw in enumerate(parquet_rows(problems.path), start=1):
            row = checked(TypeAdapter(_Row), raw, problems, number)
            if row is not None:
                yield _task(row)
    except (OSError, ValueError) as error:
        problems.add(number + 1, "a row of a Parquet file", str(error))


def _task(row: _Row) -> Task:
    name = f"question-{row.index}"
    claims = row.claims.model_dump()
    return Task(
        task_id=task_id(name, 1),
        conversation_id=name,
        turn=1,
        domain=DOMAIN,
        messages=(Message(Role.USER, row.question),),
        target=row.answer,
        answerability=Answerability.ANSWERABLE,
        question_types=("two documents" if len(row.documents) > 1 else "one document",),
        references=tuple(Passage(document.doc_id, document.content) for document in row.documents),
        extra={
            "claims": {claim_type: claims[claim_type] or [] for claim_type in CLAIMS},
            "session": row.session,
            "categories": row.categories,
        },
    )


def corpus_file(root: Path, domain: str) -> Path:
    """Return the documents of all questions as rows, which are written if missing."""
    documents = {passage.passage_id: passage.text for task in load(root).tasks for passage in task.references}
    rows = ({"_id": name, "text": text} for name, text in documents.items())
    return derived_file(root, f"{domain}.jsonl", lambda: rows)


DEFINITION = BenchmarkDefinition(
    SOURCE,
    load,
    RetrievalSide((DOMAIN,), corpus_file, partial(reference_qrels, load)),
    PACKAGE / "sample" / "liverag",
)


# Two rubrics in our words (Carmel et al. 2025, section 4): the challenge's prompts are not public.

CORRECTNESS, FAITHFULNESS = "liverag_correctness", "liverag_faithfulness"
POINTS = {
    CORRECTNESS: {"clean": 2, "padded": 1, "none": 0, "wrong": -1},
    FAITHFULNESS: {"full": 1, "partial": 0, "no": -1},
}
"""Rubric -> label -> points."""
_FORM = "Verdict CODE: LABEL"


def _template(rubric: str) -> PromptTemplate:
    return PromptTemplate(rubric, (PACKAGE / "prompts" / f"{rubric}.jinja").read_text(encoding="utf-8"))


def correctness() -> Rubric:
    """Return the rubric `liverag_correctness`: the reply against the reference answer and its direct statements."""
    prompt = _template(CORRECTNESS)

    def open_(response: Response) -> Question:
        task = response.task
        statements = [*task.extra["claims"]["direct"]]
        texts = {"question": task.question, "reference": task.target, "statements": statements, "answer": response.text}
        return ask(prompt, _FORM, partial(_points, CORRECTNESS), **texts)

    return Rubric(CORRECTNESS, "whether the reply is correct and relevant", open_, (prompt.source,))


def faithfulness() -> Rubric:
    """Return the rubric `liverag_faithfulness`: support of the reply by the passages shown to the model."""
    prompt = _template(FAITHFULNESS)

    def open_(response: Response) -> Question | Finding:
        if not response.passages:
            return Finding(None, None, VerdictOutcome.NOT_ASKED, "no passages were shown")
        passages = [passage.text for passage in response.passages]
        read = partial(_points, FAITHFULNESS)
        return ask(prompt, _FORM, read, passages=passages, answer=response.text)

    return Rubric(FAITHFULNESS, "degree to which the passages support the reply", open_, (prompt.source,))


def _points(rubric: str, reply: str, code: str) -> Finding:
    """Return the label with its points as a share of the scale, because verdicts range from 0 to 1."""
    points = POINTS[rubric]
    label = read_coded_label(reply, code, tuple(points))
    low, high = min(points.values()), max(points.values())
    return Finding(label, (points[label] - low) / (high - low))


# The suite: MTRAG's scores, and the challenge's two by judges. Correctness ranges from -1 to 2, faithfulness from -1 to
# 1. The challenge's own prompts and judge are not public, so scores are not comparable with its leaderboard.

MTRAG = suite_named("mtrag")
METRICS = tuple(
    Metric(name, f"{description}, by LLM judges", needs_judges=True, bounds=(low, high), rubrics=frozenset({name}))
    for name, description, low, high in (
        (CORRECTNESS, "2 correct, 1 correct with irrelevant content, 0 no answer, -1 wrong", -1, 2),
        (FAITHFULNESS, "supported by the passages: 1 fully, 0 partly, -1 not", -1, 1),
    )
)


def scores(inputs: ScoringInputs) -> list[Scores]:
    """Return LiveRAG's additional scores of each response, in order; empty without judges."""
    verdicts = inputs.verdicts
    if verdicts is None:
        return [{} for _ in inputs.responses]
    columns = {name: [in_points(name, score) for score in verdicts.scores(name)] for name in POINTS}
    return [{name: column[index] for name, column in columns.items()} for index in range(len(inputs.responses))]


def in_points(rubric: str, score: Score) -> Score:
    """Return a share of a rubric's scale as points."""
    low, high = min(POINTS[rubric].values()), max(POINTS[rubric].values())
    return score if score.value is None else Score(low + score.value * (high - low))


def rubrics() -> Sequence[Rubric]:
    """Return the rubrics for judges."""
    return [*MTRAG.rubrics(), correctness(), faithfulness()]


SUITE = extended(MTRAG, METRICS, scores, rubrics=rubrics)

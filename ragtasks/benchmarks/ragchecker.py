"""RAGChecker's human labels: pairs of answers to the same question, with the preferences of two annotators."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from pydantic import TypeAdapter

from ragtasks.benchmarks._fields import Fields, typed_file
from ragtasks.files import Problems
from ragtasks.records import Answerability, Message, Response, Role, Task

_SOURCE = "data/meta_evaluation/human_labeled_data.json of github.com/amazon-science/RAGChecker"


@dataclass(frozen=True, slots=True)
class LabelledPair:
    """Two systems' answers to the same question, with human preferences."""

    first: Response
    second: Response
    models: tuple[str, str]
    labels: Mapping[str, tuple[float, ...]]
    """Criterion -> label of each annotator, from 2 (first much better) to -2.

    The last criterion is the answer as a whole.
    """


class _ModelAnswer(Fields):
    model_name: str
    response: str


class _Annotation(Fields):
    instance_id: int
    dataset: str
    query_id: str
    query: str
    gt_answer: str
    model1: _ModelAnswer
    model2: _ModelAnswer
    correctness_label: float
    completeness_label: float
    overall_label: float


def load_labelled_pairs(path: Path) -> tuple[LabelledPair, ...]:
    """Return the pairs of a file, in file order.

    A row contains the labels of one annotator. In the file they are positive if the second answer is better.
    """
    problems = Problems(path, "RAGChecker's labelled pairs", f"take {_SOURCE}")
    rows = typed_file(problems, TypeAdapter(list[_Annotation]))
    members: dict[int, list[_Annotation]] = {}
    for row in rows:
        members.setdefault(row.instance_id, []).append(row)
    return tuple(map(_pair, members.values()))


def _pair(rows: list[_Annotation]) -> LabelledPair:
    row = rows[0]
    name = f"{row.dataset}/{row.query_id}"
    task = Task(
        task_id=f"{name}<::>1",
        conversation_id=name,
        turn=1,
        domain=row.dataset,
        messages=(Message(Role.USER, row.query),),
        target=row.gt_answer,
        answerability=Answerability.ANSWERABLE,
    )
    return LabelledPair(
        Response(task, (), row.model1.response),
        Response(task, (), row.model2.response),
        (row.model1.model_name, row.model2.model_name),
        {
            "correctness": tuple(-annotation.correctness_label for annotation in rows),
            "completeness": tuple(-annotation.completeness_label for annotation in rows),
            "overall": tuple(-annotation.overall_label for annotation in rows),
        },
    )

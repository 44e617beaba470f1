"""MTRAG's human evaluation: 159 tasks with three answers each, rated by three people and by the paper's metrics.

The answers are the reference and those of GPT-4o and Llama 3.1 405B. A record joins tasks, documents and evaluations,
which the file stores separately. It contains everything needed to judge an answer and to compare the verdict. The
metrics in the file are already conditioned on answerability.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean, median
from typing import Any

from pydantic import Field, TypeAdapter

from ragtasks.benchmarks._fields import Fields, TaskId, typed_file, unique_rows
from ragtasks.benchmarks.mtrag._rows import TaskFields
from ragtasks.files import Problems
from ragtasks.records import Answerability, Passage, Response, Task

HUMAN_EVALUATION_FILE = "mtrag-human/evaluations/reference_subset_with_human_evaluations.json"
"""Path in a checkout of IBM/mt-rag-benchmark."""
REFERENCE_MODEL = "reference"
"""Model id of the benchmark's own answers in the file."""
WIN_RATE = "win_rate"
"""Share of the other answers that a rater did not prefer to this answer, in %: 0, 50 or 100 with three answers."""
FANC = ("faithfulness", "appropriateness", "naturalness", "completeness")
"""The four properties that people rated from 1 to 4 (MTRAG paper, section 3.2)."""
ALL_PROPERTIES = "all"
"""Name of the mean of the four properties."""
PUBLISHED_METRICS = {"rl_f": "rl_f", "rb_llm": "rb_llm", "rb_alg": "rb_agg"}
"""Name of a metric -> its key in the file, in the order of the paper's Table 6."""

_NEXT_STEP = "delete the file if it exists, and run `ragtasks data fetch mtrag --group evaluations`"


@dataclass(frozen=True, slots=True)
class RatedResponse:
    """An answer with all its ratings."""

    model_id: str
    """Model of the answer, such as `reference` or `gpt-4o`."""
    response: Response
    """The answer, its task, and the passages shown to raters: the task's references."""
    ratings: Mapping[str, Mapping[str, float]]
    """`win_rate` and each name in `FANC` -> rater -> rating. Some answers have two raters for a property."""
    metrics: Mapping[str, float]
    """Each name in `PUBLISHED_METRICS` that the file declares -> its score, 0 to 1, conditioned on answerability.

    The official file contains all of them.
    """
    idk_is_right: bool
    """Whether the paper's judge found that the answer refuses if, and only if, it should (`conditional_idk`)."""

    @property
    def key(self) -> tuple[str, str]:
        """(task id, model id), the key of the answer in stored verdicts."""
        return self.response.task.task_id, self.model_id

    def rating(self, name: str) -> float:
        """Return the median over raters. `all` is the mean of the medians of the four properties."""
        if name == ALL_PROPERTIES:
            return fmean(map(self.rating, FANC))
        return median(self.ratings[name].values())

    @property
    def refuses(self) -> bool | None:
        """Whether the paper's judge classified the answer as a refusal (`yes`); None for CONVERSATIONAL tasks.

        The file only contains whether the behavior fits the answerability. `yes` can be derived from it, but `partial`
        and `no` cannot be distinguished. For conversational tasks the file contains 1 for every answer, including
        refusals.
        """
        answerability = self.response.task.answerability
        if answerability is Answerability.CONVERSATIONAL:
            return None
        return self.idk_is_right == (answerability is Answerability.UNANSWERABLE)


class _Value(Fields):
    value: float


class _Document(Fields):
    document_id: str
    text: str
    title: str = ""


class _Context(Fields):
    document_id: str


class _Task(TaskFields):
    contexts: list[_Context]


class _Evaluation(Fields):
    task_id: TaskId
    model_id: str
    model_response: str
    annotations: dict[str, dict[str, _Value]]


class _Metric(Fields):
    name: str


class _File(Fields):
    metrics: list[_Metric] | None = None
    documents: list[_Document]
    tasks: list[_Task] = Field(min_length=1)
    evaluations: list[_Evaluation] = Field(min_length=1)


def load_human_evaluation(root: Path) -> tuple[RatedResponse, ...]:
    """Return all rated answers of a checkout, or of the file itself, in file order (477 in the official file).

    Files with other ratings must have the same layout. Metrics that their list `metrics` omits may be missing.
    """
    file = root if root.is_file() else root / HUMAN_EVALUATION_FILE
    problems = Problems(file, "human evaluation", _NEXT_STEP)
    content = typed_file(problems, TypeAdapter(_File))
    documents = {row.document_id: Passage(row.document_id, row.text, row.title) for row in content.documents}
    for row in content.tasks:
        for context in row.contexts:
            if context.document_id not in documents:
                problems.add(0, "a context among `documents`", context.document_id, row.task_id)
    rows = unique_rows(problems, ((0, row.task_id, row) for row in content.tasks), "task")
    problems.raise_if_any()  # evaluations of an invalid task would only repeat its error
    tasks = {name: row.task([documents[source.document_id] for source in row.contexts]) for name, row in rows.items()}
    declared = None if content.metrics is None else {metric.name for metric in content.metrics}
    keys = {name: key for name, key in PUBLISHED_METRICS.items() if declared is None or key in declared}
    rated: dict[tuple[str, str], RatedResponse] = {}
    for evaluation in content.evaluations:
        answer = _rated(evaluation, tasks, keys, problems)
        if answer is not None and rated.setdefault(answer.key, answer) is not answer:
            problems.add(0, "each answer once", f"that of {answer.model_id} again", evaluation.task_id)
    problems.raise_if_any()
    return tuple(rated.values())


def _rated(
    row: _Evaluation, tasks: Mapping[str, Task], keys: Mapping[str, str], problems: Problems
) -> RatedResponse | None:
    """Return the rated answer of a row. For an invalid row, add the problems and return None."""
    before = len(problems)
    if row.task_id not in tasks:
        problems.add(0, "an evaluation of one of `tasks`", "no such task", row.task_id)
    ratings = {name: _ratings(row, name, problems) for name in (WIN_RATE, *FANC)}
    metrics = {name: _score(row, key, problems) for name, key in keys.items()}
    idk_is_right = _score(row, "conditional_idk", problems)
    if idk_is_right not in (0, 1):
        problems.add(0, f"`conditional_idk` of {row.model_id} as 0 or 1", idk_is_right, row.task_id)
    if len(problems) > before:
        return None
    task = tasks[row.task_id]
    response = Response(task, task.references, row.model_response)
    return RatedResponse(row.model_id, response, ratings, metrics, idk_is_right == 1)


def _ratings(row: _Evaluation, name: str, problems: Problems) -> dict[str, float]:
    """Return rater -> rating of a property. Missing ratings and ratings out of range are added to `problems`."""
    key = name.replace("_", "-")  # only `win-rate` has a hyphen in the file
    ratings = {rater: annotation.value for rater, annotation in row.annotations.get(key, {}).items()}
    lowest, highest = (0, 100) if name == WIN_RATE else (1, 4)
    if not ratings or not all(lowest <= rating <= highest for rating in ratings.values()):
        expected = f"`{key}` of {row.model_id} with ratings from {lowest} to {highest}"
        problems.add(0, expected, ratings or "no rating", row.task_id)
    return ratings


def _score(row: _Evaluation, key: str, problems: Problems) -> float:
    """Return the score in the file under a key, from 0 to 1. Without one, add the problem and return 0."""
    annotation: Any = row.annotations.get(key, {}).get("composite")
    if annotation is None or not 0 <= annotation.value <= 1:
        problems.add(
            0, f"`{key}` of {row.model_id} from 0 to 1", annotation.value if annotation else "no score", row.task_id
        )
        return 0.0
    return float(annotation.value)

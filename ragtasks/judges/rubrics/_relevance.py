"""Judges in the place of assessors: how relevant a passage is to a question, 0 to 3, and the qrels that follow.

The scale is that of UMBRELA (arXiv 2406.06519) and of TREC's deep learning and RAG tracks; the wording is ours. One
question and one passage at a time. A pair that no judge graded, or on whose grade the judges are split, is not judged:
no grade is made up for it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from ragtasks.judges._parsers import read_coded_label
from ragtasks.judges._question import Finding, Question, Rubric, ask
from ragtasks.judges._verdicts import Verdicts
from ragtasks.prompts import PromptTemplate, shipped_template
from ragtasks.records import Passage, Qrel, Response, Task

RELEVANCE = "relevance"
GRADES = ("0", "1", "2", "3")

_LABEL_FORM = "Verdict CODE: LABEL"


@dataclass(frozen=True, slots=True)
class JudgedPassages:
    """What judges found."""

    qrels: tuple[Qrel, ...]
    """A grade, 0 to 3, of each pair that has one, in the order in which pairs were given."""
    unjudged: tuple[tuple[str, str, str], ...]
    """(query, passage, why) of the others."""
    verdicts: Verdicts
    """Every judge's grade of every pair."""

    def n_by_grade(self) -> dict[int, int]:
        """Return grade -> pairs."""
        counts = Counter(qrel.relevance for qrel in self.qrels)
        return {int(grade): counts[int(grade)] for grade in GRADES}


def relevance(template: PromptTemplate | None = None) -> Rubric:
    """Return the rubric `relevance`: how much a response's one passage helps whoever asks; its text is not looked at.

    The label is a grade, 0 to 3; the value is a third of it, 0 to 1, higher is better.
    """
    prompt = template or shipped_template("judges/relevance")

    def read(reply: str, code: str) -> Finding:
        label = read_coded_label(reply, code, GRADES)
        return Finding(label, int(label) / int(GRADES[-1]))

    def open_(response: Response) -> Question:
        (passage,) = response.passages
        task = response.task
        shown = f"{passage.title}\n{passage.text}".strip()
        history = task.messages[:-1]
        return ask(prompt, _LABEL_FORM, read, conversation=history, question=task.question, passage=shown)

    return Rubric(RELEVANCE, "how relevant the passage is to the question, judged", open_, (prompt.source,))


def judge_passages(
    pairs: Iterable[tuple[Task, Passage]], judge: Callable[[Sequence[Response], Sequence[Rubric]], Verdicts]
) -> JudgedPassages:
    """Return the grades of passages for questions; with several judges the grade in the middle."""
    responses = [Response(task, (passage,), "") for task, passage in pairs]
    verdicts = judge(responses, [relevance()])
    qrels: list[Qrel] = []
    unjudged: list[tuple[str, str, str]] = []
    for response, (label, reason) in zip(responses, verdicts.labels(RELEVANCE), strict=True):
        query_id, passage_id = response.task.task_id, response.passages[0].passage_id
        if label is None:
            unjudged.append((query_id, passage_id, reason))
        else:
            qrels.append(Qrel(query_id, passage_id, int(label)))
    return JudgedPassages(tuple(qrels), tuple(unjudged), verdicts)

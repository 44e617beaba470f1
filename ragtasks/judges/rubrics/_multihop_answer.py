"""MultiHop-RAG's judged accuracy: whether a reply gives the reference answer, however it is worded."""

from __future__ import annotations

from ragtasks.judges._parsers import YES_NO, read_coded_label
from ragtasks.judges._question import Finding, Question, Rubric, ask
from ragtasks.judges.rubrics._named import label_finding
from ragtasks.records import Response
from ragtasks.templates import PromptTemplate, shipped_template

MULTIHOP_ANSWER = "multihop_answer"
"""Name of the rubric."""

_FORM = "Verdict CODE: LABEL"


def multihop_answer(template: PromptTemplate | None = None) -> Rubric:
    """Return the rubric `multihop_answer`: whether the reply gives the reference answer; yes 1, no 0.

    The judge sees question, reference answer and reply, and no passages: what is true is not the question.

    Args:
        template: the prompt; default: the shipped one.
    """
    prompt = template or shipped_template("judges/multihop_answer")

    def read(reply: str, code: str) -> Finding:
        return label_finding(read_coded_label(reply, code, YES_NO))

    def open_(response: Response) -> Question:
        task = response.task
        return ask(prompt, _FORM, read, question=task.question, reference=task.target, answer=response.text)

    return Rubric(MULTIHOP_ANSWER, "whether the reply gives the reference answer", open_, (prompt.source,))


__all__ = ["MULTIHOP_ANSWER", "multihop_answer"]

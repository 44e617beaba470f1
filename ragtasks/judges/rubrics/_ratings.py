"""Rubrics that ask for one rating of the last answer, 1 to 10, over 10."""

from __future__ import annotations

from ragtasks.judges._parsers import read_coded_rating
from ragtasks.judges._question import Finding, Question, Rubric, ask, rating_finding
from ragtasks.records import Response
from ragtasks.templates import PromptTemplate, shipped_template

_RATING_FORM = "Rating CODE: N"


def rating_rubric(
    name: str, description: str, template: PromptTemplate | None = None, *, with_reference: bool = False
) -> Rubric:
    """Return a rubric that rates the last answer; the judge sees conversation, passages and response.

    Args:
        name: of the rubric; its shipped prompt has it too.
        description: one line for legends.
        template: the prompt; default: the shipped one.
        with_reference: whether the judge sees the reference answer as well.
    """
    prompt = template or shipped_template(f"judges/{name}")

    def read(reply: str, code: str) -> Finding:
        return rating_finding(read_coded_rating(reply, code))

    def open_(response: Response) -> Question:
        reference = {"reference": response.task.target} if with_reference else {}
        return ask(
            prompt,
            _RATING_FORM,
            read,
            conversation=response.task.messages[:-1],
            passages=[passage.text for passage in response.passages],
            question=response.task.question,
            **reference,
            answer=response.text,
        )

    return Rubric(name, description, open_, (prompt.source,))


__all__ = ["rating_rubric"]

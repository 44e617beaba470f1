"""Which of two answers to one task serves the user better: the question of an arena's battle.

A pair is a response whose task carries the other answer, so that it passes through panel, cache and coverage as any
response does. Judges see blinded names and both assistants' passages. Whoever wants both orders asks for both.
"""

from __future__ import annotations

from dataclasses import replace

from ragtasks.judges._parsers import read_coded_label
from ragtasks.judges._question import Finding, Question, Rubric, ask
from ragtasks.prompts import PromptTemplate, shipped_template
from ragtasks.records import Response

PAIRWISE = "pairwise"
"""Name of the rubric."""
PREFERENCES = {"a": 1.0, "tie": 0.5, "b": 0.0}
"""Label -> share of the first answer: 1 where it is preferred."""

_OTHER = "other_answer"


def pair_of(first: Response, second: Response) -> Response:
    """Return two answers to one task as what the rubric `pairwise` is asked about; the order is that of the judge."""
    passages = [[passage.title, passage.text] for passage in second.passages]
    task = replace(first.task, extra={**first.task.extra, _OTHER: {"text": second.text, "passages": passages}})
    return Response(task, first.passages, first.text)


def pairwise(template: PromptTemplate | None = None) -> Rubric:
    """Return the rubric `pairwise`: a (1), tie (0.5) or b (0), as a judge prefers the first or the second answer.

    Two equal texts are a tie without a question.

    Faithfulness, appropriateness, naturalness and completeness are MTRAG's (paper, section 3.2), the win-rate question
    is its section 7's; a tournament of pairs with citations in view is Ragnarök's RAG-bench (paper, section 6).
    """
    prompt = template or shipped_template("judges/pairwise")

    def read(reply: str, code: str) -> Finding:
        label = read_coded_label(reply, code, tuple(PREFERENCES))
        return Finding(label, PREFERENCES[label])

    def open_(response: Response) -> Question | Finding:
        other = response.task.extra[_OTHER]
        if other["text"] == response.text:
            return Finding("tie", PREFERENCES["tie"])
        ours = [f"{passage.title}\n{passage.text}".strip() for passage in response.passages]
        theirs = [f"{title}\n{text}".strip() for title, text in other["passages"]]
        every = list(dict.fromkeys([*ours, *theirs]))
        return ask(
            prompt,
            "Verdict CODE: LABEL",
            read,
            conversation=response.task.messages[:-1],
            passages=every,
            question=response.task.question,
            answer_a=response.text,
            answer_b=other["text"],
            shown_a=_places(ours, every),
            shown_b=_places(theirs, every),
        )

    return Rubric(PAIRWISE, "which of two answers serves the user better", open_, (prompt.source,))


def _places(own: list[str], every: list[str]) -> str:
    """Return which of the passages an assistant was shown, in its order, in words."""
    if not own:
        return "no passage"
    return "passages " + ", ".join(str(every.index(passage) + 1) for passage in own)

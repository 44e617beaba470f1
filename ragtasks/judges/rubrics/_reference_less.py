"""The reference-less judges of the MTRAG paper's Table 7 besides RL_F: RL_MTB and RL_R.

Both are the paper's own counter-examples: they hardly follow what people prefer. The official repository holds neither
prompt, so there is no other wording than ours.
"""

from __future__ import annotations

from functools import partial

from ragtasks.judges._parsers import UnparsableReplyError, read_coded_object, read_yes_no
from ragtasks.judges._question import Finding, Question, Rubric, ask
from ragtasks.judges.rubrics._ratings import rating_rubric
from ragtasks.records import Response
from ragtasks.templates import PromptTemplate, shipped_template

RL_MTB = "rl_mtb"
RL_R = "rl_r"

N_QUESTIONS = 3
"""Questions that are derived from an answer, as in RAGAS."""

_ASKED_FORM = '{"id": "CODE", "questions": [QUESTION, QUESTION, QUESTION], "evades": LABEL}'
_SAME_FORM = '{"id": "CODE", "same": {"1": LABEL, ...}}'


def rl_mtb(template: PromptTemplate | None = None) -> Rubric:
    """Return the rubric `rl_mtb`: the last answer as one rating, 1 to 10, over 10, without a reference answer.

    The judge sees conversation, passages and response. Source: RL_MTB of the MTRAG paper, appendix F.2, which adapts
    the judge of MT-Bench (Zheng et al. 2023). Higher is better.

    Args:
        template: the prompt; default: the shipped one.
    """
    description = "rating of the last answer without a reference by judges, over 10"
    return rating_rubric(RL_MTB, description, template)


def rl_r(asked: PromptTemplate | None = None, same: PromptTemplate | None = None) -> Rubric:
    """Return the rubric `rl_r`: the share of three questions, derived from the response, that ask what the user did.

    Range 0 to 1, higher is better. A response that evades, or is empty, is 0. The user's question is the last message
    alone, as in the paper, which is why the measure suits conversations badly. Source: answer relevance of RAGAS (Es et
    al. 2024; MTRAG paper, section 8). Known difference: RAGAS compares the questions by the cosine of an embedding
    model, which the paper does not name; here the judge does.

    Args:
        asked: template of the first question; default: the shipped one.
        same: template of the second question; default: the shipped one.
    """
    first = asked or shipped_template("judges/asked_questions")
    second = same or shipped_template("judges/same_question")
    description = "share of three questions derived from the answer that ask what the user asked, judged"
    return Rubric(RL_R, description, partial(_open, first, second), (first.source, second.source))


def _open(first: PromptTemplate, second: PromptTemplate, response: Response) -> Question | Finding:
    if not response.text.strip():
        return Finding("empty", 0.0)

    def read(reply: str, code: str) -> Question | Finding:
        questions = _questions(reply, code)
        return _compare(second, response, questions) if questions else Finding("evades", 0.0)

    return ask(first, _ASKED_FORM, read, answer=response.text)


def _questions(reply: str, code: str) -> list[str]:
    """Return the derived questions; [] for a reply that evades.

    Raises:
        UnparsableReplyError: not three texts, or no yes or no.
    """
    found = read_coded_object(reply, code)
    questions, evades = found.get("questions"), found.get("evades")
    if evades not in ("yes", "no"):
        raise UnparsableReplyError('"evades" is neither yes nor no')
    if evades == "yes":
        return []
    texts = (
        [" ".join(item.split()) for item in questions if isinstance(item, str)] if isinstance(questions, list) else []
    )
    if len(texts) != N_QUESTIONS or not all(texts):
        raise UnparsableReplyError(f'"questions" does not hold {N_QUESTIONS} texts')
    return texts


def _compare(template: PromptTemplate, response: Response, questions: list[str]) -> Question:
    def read(reply: str, code: str) -> Finding:
        same = read_yes_no(reply, code, "same", N_QUESTIONS)
        return Finding(f"{sum(same)}/{len(same)}", sum(same) / len(same))

    return ask(template, _SAME_FORM, read, question=response.task.question, statements=questions)


__all__ = ["RL_MTB", "RL_R", "rl_mtb", "rl_r"]

"""The rubrics that need one question, and all rubrics by name.

A rubric's prompt shows only what its question needs: what is not shown need not be paid for, and makes two models'
equal answers one prompt.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Protocol, runtime_checkable

from ragtasks.judges._parsers import LABELS, YES_NO, read_coded_label
from ragtasks.judges._question import Finding, Question, Rubric, ask
from ragtasks.judges._verdicts import CLARIFICATION, IDK, VerdictOutcome
from ragtasks.judges.rubrics._contexts import CONTEXT_PRECISION, CONTEXT_RECALL
from ragtasks.judges.rubrics._faithfulness import RL_F
from ragtasks.judges.rubrics._ratings import rating_rubric
from ragtasks.judges.rubrics._reference_less import RL_MTB, RL_R
from ragtasks.plugins import ExtensionPoint
from ragtasks.records import Answerability, Response
from ragtasks.templates import PromptTemplate, shipped_template

RB_LLM = "rb_llm"

LABEL_VALUES = {"yes": 1.0, "partial": 0.5, "no": 0.0}
"""Label -> number, in the order that a median over judges needs."""
NOT_UNDERSPECIFIED = Finding(
    None, None, VerdictOutcome.NOT_ASKED, "only underspecified questions call for a question back"
)

_LABEL_FORM = "Verdict CODE: LABEL"


def rb_llm(template: PromptTemplate | None = None) -> Rubric:
    """Return the rubric `rb_llm`: faithfulness, appropriateness and completeness as one rating, 1 to 10, over 10.

    The judge sees conversation, passages, reference answer and response. Higher is better. An empty response is rated
    as any other. Source: RB_llm of the MTRAG paper, section 6.3.2.

    Args:
        template: the prompt; default: the shipped one.
    """
    description = "rating of faithfulness, appropriateness and completeness by judges, over 10"
    return rating_rubric(RB_LLM, description, template, with_reference=True)


def idk(template: PromptTemplate | None = None) -> Rubric:
    """Return the rubric `idk`: whether the response says that it does not know; yes 1, partial 0.5, no 0.

    The judge sees the user's last message and the response. Labels: MTRAG paper, section 6.3.3 and appendix F.3.

    Args:
        template: the prompt; default: the shipped one.
    """
    prompt = template or shipped_template("judges/idk")

    def read(reply: str, code: str) -> Finding:
        return label_finding(read_coded_label(reply, code, LABELS))

    def open_(response: Response) -> Question:
        return ask(prompt, _LABEL_FORM, read, question=response.task.question, answer=response.text)

    return Rubric(IDK, "whether the response says that it does not know", open_, (prompt.source,))


def clarification(template: PromptTemplate | None = None) -> Rubric:
    """Return the rubric `clarification`: whether the response asks what is meant instead of answering; yes 1, no 0.

    Asked of underspecified questions only (MTRAG-UN): elsewhere nothing rests on it.

    Args:
        template: the prompt; default: the shipped one.
    """
    prompt = template or shipped_template("judges/clarification")

    def read(reply: str, code: str) -> Finding:
        return label_finding(read_coded_label(reply, code, YES_NO))

    def open_(response: Response) -> Question | Finding:
        if response.task.answerability is not Answerability.UNDERSPECIFIED:
            return NOT_UNDERSPECIFIED
        history = response.task.messages[:-1]
        return ask(
            prompt, _LABEL_FORM, read, conversation=history, question=response.task.question, answer=response.text
        )

    return Rubric(CLARIFICATION, "whether the response asks what is meant", open_, (prompt.source,))


def label_finding(label: str) -> Finding:
    """Return the finding of a label."""
    return Finding(label, LABEL_VALUES[label])


@runtime_checkable
class RubricMaker(Protocol):
    """What makes a rubric: a function, as a rule."""

    def __call__(self) -> Rubric:
        """Return the rubric, whose name is that of the entry point."""


RUBRICS = ExtensionPoint(
    "ragtasks.rubrics",
    "rubric",
    RubricMaker,  # type: ignore[type-abstract]  # a protocol: whatever can be called
    {
        RB_LLM: "ragtasks.judges.rubrics._named:rb_llm",
        IDK: "ragtasks.judges.rubrics._named:idk",
        CLARIFICATION: "ragtasks.judges.rubrics._named:clarification",
        RL_F: "ragtasks.judges.rubrics._faithfulness:rl_f",
        RL_MTB: "ragtasks.judges.rubrics._reference_less:rl_mtb",
        RL_R: "ragtasks.judges.rubrics._reference_less:rl_r",
        CONTEXT_PRECISION: "ragtasks.judges.rubrics._contexts:context_precision",
        CONTEXT_RECALL: "ragtasks.judges.rubrics._contexts:context_recall",
    },
)
"""What judges can be asked about a response, by name; more come from other packages."""


def rubrics_named(names: Iterable[str]) -> list[Rubric]:
    """Return the rubrics of these names with their shipped prompts, in order; [] for none.

    Raises:
        ConfigurationError: an unknown name, with close matches; or what another package adds cannot be used.
    """
    return [_rubric(name) for name in names]


def _rubric(name: str) -> Rubric:
    rubric = RUBRICS.made(name, Rubric, lambda make: make())
    if rubric.name != name:
        raise RUBRICS.refused(name, f"a rubric named {name!r}", f"one named {rubric.name!r}")
    return rubric


def added_rubric_names() -> list[str]:
    """Return the names of the rubrics that other packages add; nothing is imported."""
    return RUBRICS.plugin_names()


__all__ = [
    "LABEL_VALUES",
    "NOT_UNDERSPECIFIED",
    "RB_LLM",
    "RUBRICS",
    "RubricMaker",
    "added_rubric_names",
    "clarification",
    "idk",
    "label_finding",
    "rb_llm",
    "rubrics_named",
]

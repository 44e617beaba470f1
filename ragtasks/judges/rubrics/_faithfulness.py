"""RL_F: the share of an answer's statements that the passages support, in two questions.

The first takes the answer apart into statements, the second asks of each whether the evidence alone makes it true. The
measure is RAGAS faithfulness (Es et al. 2024; MTRAG paper, section 6.3.2); prompts and readers are our own. Known
differences from ragas 0.3.3, which the official scripts call: a reply must hold exactly one verdict for each statement
(ragas divides by the verdicts that came back, and counts any number but 0 as support), and an answer without
statements says so instead of being NaN.
"""

from __future__ import annotations

from functools import partial

from ragtasks.judges._parsers import read_statements, read_support
from ragtasks.judges._question import Finding, Question, Rubric, ask
from ragtasks.judges._verdicts import VerdictOutcome
from ragtasks.records import Response
from ragtasks.templates import PromptTemplate, shipped_template

RL_F = "rl_f"

# Not JSON as they stand: a judge that only repeats the form has given no verdict.
_STATEMENTS_FORM = '{"id": "CODE", "statements": [STATEMENT, ...]}'
_SUPPORT_FORM = '{"id": "CODE", "supported": {"1": LABEL, ...}}'
_NO_STATEMENTS = Finding(
    None, None, VerdictOutcome.NO_STATEMENTS, "the answer makes no statement that could be checked"
)


def rl_f(statements: PromptTemplate | None = None, support: PromptTemplate | None = None) -> Rubric:
    """Return the rubric `rl_f`: the passages that the model was shown are the evidence.

    The value is supported statements / statements, 0 to 1, higher is better. No statements: no value, with that
    reason. Statements and no passages: 0, without the second question, since nothing can support them.

    Args:
        statements: template of the first question; default: the shipped one.
        support: template of the second question; default: the shipped one.
    """
    description = "share of the answer's statements that the passages support, judged"
    first = statements or shipped_template("judges/statements")
    second = support or shipped_template("judges/support")
    return Rubric(RL_F, description, partial(_open, first, second), (first.source, second.source))


def _open(first: PromptTemplate, second: PromptTemplate, response: Response) -> Question | Finding:
    if not response.text.strip():
        return _NO_STATEMENTS

    def read(reply: str, code: str) -> Question | Finding:
        return _check(second, response, read_statements(reply, code))

    return ask(
        first,
        _STATEMENTS_FORM,
        read,
        conversation=response.task.messages[:-1],
        question=response.task.question,
        answer=response.text,
    )


def _check(template: PromptTemplate, response: Response, statements: list[str]) -> Question | Finding:
    """Return the second question."""
    if not statements:
        return _NO_STATEMENTS
    passages = [passage.text for passage in response.passages]
    if not passages:
        return _share([False] * len(statements))

    def read(reply: str, code: str) -> Finding:
        return _share(read_support(reply, code, len(statements)))

    return ask(template, _SUPPORT_FORM, read, passages=passages, statements=statements)


def _share(supported: list[bool]) -> Finding:
    return Finding(f"{sum(supported)}/{len(supported)}", sum(supported) / len(supported))


__all__ = ["RL_F", "rl_f"]

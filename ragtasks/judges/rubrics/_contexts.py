"""Context precision and recall by a judge: how good the passages are that a model was given, whatever it answered.

Only tasks that have an answer are asked about. Source: context precision and context recall of RAGAS 0.3.3 with a
reference; prompts and readers are our own. Known difference: the judge sees all passages of a task at once, in their
order, where RAGAS asks about one at a time.
"""

from __future__ import annotations

from dataclasses import replace
from itertools import accumulate

from ragtasks.judges._parsers import read_yes_no
from ragtasks.judges._question import Finding, Question, Rubric, ask
from ragtasks.judges._verdicts import VerdictOutcome
from ragtasks.judges.rubrics._faithfulness import rl_f
from ragtasks.records import Answerability, Response
from ragtasks.templates import PromptTemplate, shipped_template

CONTEXT_PRECISION = "context_precision"
CONTEXT_RECALL = "context_recall"

_FORM = '{"id": "CODE", "useful": {"1": LABEL, ...}}'
_NO_ANSWER = Finding(None, None, VerdictOutcome.NOT_ASKED, "only answerable and partial tasks have passages to find")
_ASKED = frozenset({Answerability.ANSWERABLE, Answerability.PARTIAL})


def context_precision(template: PromptTemplate | None = None) -> Rubric:
    """Return the rubric `context_precision`: the average precision of the passages, by those the judge finds useful.

    The mean, over the useful passages, of the share of useful ones up to their rank. Range 0 to 1, higher is better; 0
    where none is useful or there is none.

    Args:
        template: the prompt; default: the shipped one.
    """
    prompt = template or shipped_template("judges/context_precision")

    def open_(response: Response) -> Question | Finding:
        if response.task.answerability not in _ASKED:
            return _NO_ANSWER
        if not response.passages:
            return Finding("0/0", 0.0)
        return ask(
            prompt,
            _FORM,
            lambda reply, code: _precision(read_yes_no(reply, code, "useful", len(response.passages))),
            conversation=response.task.messages[:-1],
            passages=[passage.text for passage in response.passages],
            question=response.task.question,
            reference=response.task.target,
        )

    return Rubric(CONTEXT_PRECISION, "average precision of the passages, by judges", open_, (prompt.source,))


def _precision(useful: list[bool]) -> Finding:
    found = list(accumulate(map(int, useful)))
    shares = [count / rank for rank, (count, is_useful) in enumerate(zip(found, useful, strict=True), 1) if is_useful]
    return Finding(f"{len(shares)}/{len(useful)}", sum(shares) / len(shares) if shares else 0.0)


def context_recall() -> Rubric:
    """Return the rubric `context_recall`: the share of the reference answer's statements that the passages support.

    Range 0 to 1, higher is better; without passages 0. It asks what `rl_f` asks, of the reference answer: its prompts
    are the same, and one reply serves all models that were given the same passages.
    """
    asked = rl_f()

    def open_(response: Response) -> Question | Finding:
        if response.task.answerability not in _ASKED:
            return _NO_ANSWER
        return asked.open(replace(response, text=response.task.target))

    description = "share of the reference answer's statements that the passages support, judged"
    return Rubric(CONTEXT_RECALL, description, open_, asked.prompts)


__all__ = ["CONTEXT_PRECISION", "CONTEXT_RECALL", "context_precision", "context_recall"]

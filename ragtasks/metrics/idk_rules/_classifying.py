"""The verdict on a response: what is left of it once its refusals and its courtesy are taken away.

A response is cut into clauses. Each is a *refusal* (`families.py`), a *filler* (`fillers.py`) or *substance*. A
response without a refusal is `no`. A refusal with hardly any substance beside it is `yes`; with an answer, `partial`.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field

from ragtasks.metrics.idk_rules._clauses import Clause, clauses_of, names_source, sentences_of
from ragtasks.metrics.idk_rules._fillers import is_filler
from ragtasks.metrics.idk_rules._refusals import may_refuse, refusal_in, refuses_alone
from ragtasks.records import IdkVerdict

ANSWER_WORDS_BEFORE = 5
"""Words of substance before a refusal that make an answer: "The minimum age is 18. A maximum is not given."."""
ANSWER_WORDS_AFTER = 12
"""The same after a refusal, where a remark often follows ("Costs vary by region.") that answers nothing."""
LABEL_WORDS = 3
"""Words that "N/A" and the like may have beside them and still be all that is said."""

_LATIN = re.compile(r"[A-Za-z]")
_WORD = re.compile(r"\w[\w'-]*")


@dataclass(slots=True)
class Parts:
    """What a response is made of."""

    refusals: list[str] = field(default_factory=list)
    """The phrases that say that information is missing, in order."""
    alone: str = ""
    """A phrase that says so only where it stands alone; empty for none."""
    n_before: int = 0
    """Words of substance before the first refusal."""
    n_after: int = 0
    """Words of substance after it."""

    @property
    def answers(self) -> bool:
        """Whether there is an answer beside the refusal."""
        return self.n_before / ANSWER_WORDS_BEFORE + self.n_after / ANSWER_WORDS_AFTER >= 1


def classify(text: str) -> tuple[IdkVerdict | None, str]:
    """Return (verdict, reason) of a response, from its text alone.

    The reason of `yes` and `partial` is the first phrase that says that information is missing. Text without a
    letter of the Latin script cannot be read by these rules: its verdict is None. Empty text is `no`.
    """
    if not text.strip():
        return IdkVerdict.NO, "empty response; an empty answer is no refusal"
    if not _LATIN.search(text) and any(character.isalpha() for character in text):
        return None, "the rules read English only, and the response has no Latin letter"
    parts = parts_of(text)
    if parts.refusals:
        return (IdkVerdict.PARTIAL if parts.answers else IdkVerdict.YES), parts.refusals[0]
    if parts.alone and parts.n_before <= LABEL_WORDS:
        return IdkVerdict.YES, parts.alone
    return IdkVerdict.NO, "no phrase that says that information is missing"


def parts_of(text: str) -> Parts:
    """Return what a response is made of; empty parts where nothing refuses, which most answers show at a glance."""
    parts = Parts()
    sentences = sentences_of(text)
    suspicious = [number for number, sentence in enumerate(sentences) if may_refuse(sentence)]
    if not suspicious:
        return parts
    named = next((number for number, sentence in enumerate(sentences) if names_source(sentence)), len(sentences))
    read = {number: clauses_of(sentences[number], source_named=named < number) for number in suspicious}
    if not any(_refuses(clause) for clauses in read.values() for clause in clauses):
        return parts
    for number, sentence in enumerate(sentences):
        _add(read.get(number) or clauses_of(sentence, source_named=named < number), parts)
    return parts


def _refuses(clause: Clause) -> bool:
    return refuses_alone(clause.text) or refusal_in(clause.text, is_grounded=clause.is_grounded) is not None


def _add(clauses: list[Clause], parts: Parts) -> None:
    was_refusal = False
    for clause in clauses:
        phrase = refusal_in(clause.text, is_grounded=clause.is_grounded)
        if phrase is None and refuses_alone(clause.text):
            parts.alone = parts.alone or clause.text
        elif phrase is None and not clause.is_question and not is_filler(clause.text):
            if clause.is_conclusion and was_refusal:
                # "The document does not mention a fee, so it is free": the silence is an argument of the answer.
                _count(parts.refusals.pop(), parts)
            _count(clause.text, parts)
        elif phrase is not None:
            parts.refusals.append(phrase)
        was_refusal = phrase is not None


def _count(text: str, parts: Parts) -> None:
    n_words = len(_WORD.findall(text))
    if parts.refusals:
        parts.n_after += n_words
    else:
        parts.n_before += n_words

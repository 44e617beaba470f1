"""The verdict on a response: what is left of it once its refusals and its courtesy are taken away.

A response is cut into sentences, and these into clauses. A clause is a *refusal* (`_families.py`), a *filler*
(`_fillers.py`) or *substance*; a sentence whose clauses are no refusals may still be one by what was learned
(`_learned.py`). A response without a refusal is `no`. A refusal with hardly any substance beside it is `yes`; with an
answer, `partial`. The courtesy around a refusal that no rule knows is often new to the rules too: there, what stands
beside it has to read as an answer as well.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from ragtasks.metrics.idk_rules._clauses import Clause, clauses_of, names_source, sentences_of
from ragtasks.metrics.idk_rules._features import has_sign, tokens_of
from ragtasks.metrics.idk_rules._fillers import is_filler
from ragtasks.metrics.idk_rules._learned import GAP, answer_probabilities, gap_probability
from ragtasks.metrics.idk_rules._refusals import may_refuse, refusal_in, refuses_alone
from ragtasks.records import IdkVerdict

ANSWER_WORDS_BEFORE = 5
"""Words of substance before a refusal that make an answer: "The minimum age is 18. A maximum is not given."."""
ANSWER_WORDS_AFTER = 12
"""The same after a refusal, where a remark often follows ("Costs vary by region.") that answers nothing."""
LEAST_ANSWER = 0.5
"""What `Parts.weighted` has to come to where no rule found the refusal."""
LABEL_WORDS = 3
"""Words that "N/A" and the like may have beside them and still be all that is said."""

_LATIN = re.compile(r"[A-Za-z]")
_WORD = re.compile(r"\w[\w'-]*")


@dataclass(slots=True)
class Parts:
    """What a response is made of."""

    refusals: list[str] = field(default_factory=list)
    """The phrases that say that information is missing, in order."""
    by_rule: bool = False
    """Whether a rule found one of them."""
    alone: str = ""
    """A phrase that says so only where it stands alone; empty for none."""
    n_before: int = 0
    """Words of substance before the first refusal."""
    n_after: int = 0
    """Words of substance after it."""
    weighted: float = 0.0
    """The words of both kinds as shares of an answer, each by the probability that its sentence gives one."""

    @property
    def answers(self) -> bool:
        """Whether there is an answer beside the refusal."""
        share = self.n_before / ANSWER_WORDS_BEFORE + self.n_after / ANSWER_WORDS_AFTER
        return share >= 1 and (self.by_rule or self.weighted >= LEAST_ANSWER)


def classify(text: str) -> tuple[IdkVerdict | None, str]:
    """Return (verdict, reason) of a response, from its text alone.

    The reason of `yes` and `partial` is the first phrase that says that information is missing. Text without a
    letter of the Latin script cannot be read by these rules: its verdict is None. Empty text is `no`.
    """
    if told := unreadable(text):
        return told
    parts = parts_of(text)
    if parts.refusals:
        return (IdkVerdict.PARTIAL if parts.answers else IdkVerdict.YES), parts.refusals[0]
    if parts.alone and parts.n_before <= LABEL_WORDS:
        return IdkVerdict.YES, parts.alone
    return IdkVerdict.NO, "no phrase that says that information is missing"


def unreadable(text: str) -> tuple[IdkVerdict | None, str] | None:
    """Return (verdict, reason) of text that is not read, as it is empty or not English; None for other text."""
    if not text.strip():
        return IdkVerdict.NO, "empty response; an empty answer is no refusal"
    if not _LATIN.search(text) and any(character.isalpha() for character in text):
        return None, "English alone is read, and the response has no Latin letter"
    return None


def lacks_nothing(text: str) -> tuple[IdkVerdict, str] | None:
    """Return (verdict, reason) of text without a negation, a word such as "unclear" or a refusal that a rule lists."""
    sentences = sentences_of(text)
    if any(has_sign(tokens_of(sentence)) for sentence in sentences) or any(refuses_by_rule(sentences)):
        return None
    return IdkVerdict.NO, "no word that says that anything is missing"


def parts_of(text: str) -> Parts:
    """Return what a response is made of; empty parts where nothing refuses."""
    parts = Parts()
    sentences = sentences_of(text)
    by_rule = refuses_by_rule(sentences)
    gaps = [rule or gap_probability(sentence) >= GAP for rule, sentence in zip(by_rule, sentences, strict=True)]
    if not any(gaps):
        return parts
    answers = answer_probabilities(sentences, gaps)
    read = [clauses_of(sentence, source_named=named) for sentence, named in _with_source_named(sentences)]
    for sentence, clauses, rule, gap, answer in zip(sentences, read, by_rule, gaps, answers, strict=True):
        if gap and not rule:
            parts.refusals.append(sentence)
        else:
            _add_sentence(clauses, answer, parts)
    parts.by_rule = any(by_rule)
    return parts


def refuses_by_rule(sentences: Sequence[str]) -> list[bool]:
    """Return whether a clause of each sentence of a response is a refusal by the rules alone."""
    return [
        may_refuse(sentence) and any(map(_refuses, clauses_of(sentence, source_named=named)))
        for sentence, named in _with_source_named(sentences)
    ]


def _with_source_named(sentences: Sequence[str]) -> Iterator[tuple[str, bool]]:
    """Yield each sentence with whether one before it named what was retrieved."""
    named = False
    for sentence in sentences:
        yield sentence, named
        named = named or names_source(sentence)


def _refuses(clause: Clause) -> bool:
    return refuses_alone(clause.text) or refusal_in(clause.text, is_grounded=clause.is_grounded) is not None


def _add_sentence(clauses: list[Clause], answer: float, parts: Parts) -> None:
    before, after = parts.n_before, parts.n_after
    _add(clauses, parts)
    share = (parts.n_before - before) / ANSWER_WORDS_BEFORE + (parts.n_after - after) / ANSWER_WORDS_AFTER
    parts.weighted += share * answer


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

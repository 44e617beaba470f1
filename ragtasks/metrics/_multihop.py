"""Is a short answer right? MultiHop-RAG's accuracy, as its script counts it and as it should be counted.

The official script calls an answer right if it shares any word with the reference answer. `accuracy` asks for the same
answer instead: the answer is taken out of the reply, and both are compared without case, punctuation and articles.
"""

from __future__ import annotations

import re
import string

from ragtasks.metrics._answerability import NO_VERDICT, IdkLabel
from ragtasks.records import IdkVerdict, Score

INSUFFICIENT = "insufficient information"
"""What the reference answer of a null query says, normalised; the prompt asks for it."""

_OFFICIAL = re.compile(r'The answer to the question is "(.*?)"')
_ANNOUNCED = re.compile(
    r"\banswer(?:\s+to\s+(?:the|this|your)\s+(?:question|query))?\s*(?:\bis\b\s*:?|:)\s*(?=\S)", re.IGNORECASE
)
# Marks that models put around a word (bold, quotes) may stand between it and what ends the clause.
_ONE_WORD = re.compile(
    r"\W*(yes|no|before|after)\b(?=[*_\"'\u2019\u201d]*\s*(?:$|[.,;:!)\u2013\u2014]|-\s))", re.IGNORECASE
)
_ARTICLES = re.compile(r"\b(?:a|an|the)\b")
_TO_BLANK = str.maketrans(dict.fromkeys(f"{string.punctuation}\u2018\u2019\u201c\u201d\u2013\u2014", " "))
_INSIDE_WORDS = str.maketrans("", "", "'\u2019.")


def accuracy_official(reply: str, target: str) -> float:
    """Return 1 if the reply shares a word with the reference answer, else 0, as the official script has it.

    Words are what white space separates, in lower case, punctuation included. Where the reply holds the fixed phrase
    of the script, only the text in quotes behind it counts. Quirks that follow, each with a test: "the Guardian" is
    right for "The Verge", "Yes." is wrong for "Yes", and a refusal in other words is wrong on a null query.

    Source: yixuantt/MultiHop-RAG, qa_evaluate.py, commit 3dd4d4e; its printed precision, recall and F1 are all the
    mean of this, the accuracy of the paper's Table 6. The accuracy that it prints itself is an error.
    """
    match = _OFFICIAL.search(reply)
    words = (match[1] if match else reply).lower().split()
    return float(not set(words).isdisjoint(target.lower().split()))


def accuracy(reply: str, target: str) -> float:
    """Return 1 if the answer in the reply equals the reference answer, both normalised, else 0.

    Args:
        reply: the model's answer; what of it is the answer, `answer_in` decides.
        target: the reference answer. One without any letter or digit is matched by nothing.
    """
    wanted = normalised(target)
    return float(bool(wanted) and normalised(answer_in(reply)) == wanted)


def null_accuracy(reply: str, label: IdkLabel) -> Score:
    """Return 1 if a reply to a query without an answer says so, else 0; unscored where no detector could tell.

    Args:
        reply: the model's answer; one that begins with `INSUFFICIENT` is right whatever the detector says.
        label: whether the reply says that it does not know; a refusal of a part is none.
    """
    if normalised(answer_in(reply)).startswith(INSUFFICIENT):
        return Score(1.0)
    if label.verdict is None:
        return Score(None, f"{NO_VERDICT}: {label.reason}")
    return Score(float(label.verdict is IdkVerdict.YES))


def answer_in(reply: str) -> str:
    """Return the answer that a reply gives, without looking at the reference answer.

    That is what follows the last announcement ("The answer is ..."), to the end of its line; else the first line. Where
    that begins with yes, no, before or after as a clause of its own, that word alone is the answer.
    """
    announced = list(_ANNOUNCED.finditer(reply))
    text = reply[announced[-1].end() :] if announced else reply.strip()
    line = text.partition("\n")[0]
    word = _ONE_WORD.match(line)
    return word[1] if word else line.strip()


def normalised(text: str) -> str:
    """Return a text in lower case, without punctuation and articles, with single blanks."""
    plain = text.lower().translate(_INSIDE_WORDS).translate(_TO_BLANK)
    return " ".join(_ARTICLES.sub(" ", plain).split())

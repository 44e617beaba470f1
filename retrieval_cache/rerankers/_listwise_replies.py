"""How a list of passages is cut into windows, shown to a language model, and read back from its reply.

A reply is meant to be `[2] > [3] > [1]`. What comes instead is repaired so that a window always keeps all its passages:
the reading is that of rank_llm (castorini/rank_llm, `response_utils.py` and `listwise_rankllm.py` at 1b3cabb), so a
stray number counts ("the 4 passages: [2] > [1]" puts 4 first). How often a reply was not as asked is another matter:
`reply_form` holds it against the strict grammar and repairs nothing.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator
from enum import Enum

from ragtasks.records import Passage

_END_OF_THINKING = "</think>"
_STRICT = re.compile(r"\[[0-9]+\](?: > \[[0-9]+\])*")
_NUMBERED = re.compile(r"\[(\d+)\]")
_NUMBER = re.compile(r"[0-9]+")


class ReplyForm(str, Enum):
    """What a reply is by the strict grammar."""

    OK = "ok"
    """Every number of the window once, and nothing else."""
    WRONG_FORMAT = "wrong_format"
    """Not numbers in brackets with ` > ` between them."""
    REPETITION = "repetition"
    """More numbers than passages, or one of them more than once."""
    MISSING_DOCUMENTS = "missing_documents"
    """Fewer numbers than passages, or one that no passage has in the place of one that has."""


def windows(n_candidates: int, size: int, stride: int) -> Iterator[tuple[int, int]]:
    """Yield the windows of a list as (start, end), places from 0, from the end of the list to its front.

    100 candidates with size 20 and stride 10 give (80, 100), (70, 90), ..., (0, 20); 25 give (5, 25) and (0, 15). A
    list with less than two candidates has no window: there is nothing to order.

    Args:
        n_candidates: length of the list.
        size: most candidates in a window, at least 2.
        stride: places between two windows, 1 to `size`.
    """
    start, end = max(n_candidates - size, 0), n_candidates
    while end - start > 1:
        yield start, end
        if start == 0:
            return
        start, end = max(start - stride, 0), end - stride


def without_numbers(text: str) -> str:
    """Return a text in which nothing looks like a passage's number: `[12]` becomes `(12)`, white space one blank."""
    return _NUMBERED.sub(r"(\1)", " ".join(text.split()))


def shown_text(passage: Passage, n_words: int) -> str:
    """Return what a model sees of a passage: title, if there is one, and text, cut after `n_words` words."""
    whole = f"Title: {passage.title} Content: {passage.text}" if passage.title.strip() else passage.text
    return without_numbers(" ".join(whole.split()[:n_words]))


def read_order(reply: str, n_passages: int) -> list[int]:
    """Return the order that a reply gives to a window: each place 0 to `n_passages` - 1 once, best first.

    Read are the runs of digits after the last end of thinking, digits of any script and of any style (superscript,
    circled, full-width) taken as such. A number that stands twice counts once, at its first place; a number that no
    passage has is passed over; passages that are not named follow in their old order. So a reply without any number
    leaves the order as it was.

    Args:
        reply: what the model wrote; anything.
        n_passages: passages of the window, numbered from 1 in the prompt.
    """
    return list(dict.fromkeys([*_named(reply, n_passages), *range(n_passages)]))


def names_any(reply: str, n_passages: int) -> bool:
    """Return whether a reply names any passage of a window: one that names none says nothing about their order."""
    return any(True for _ in _named(reply, n_passages))


def _named(reply: str, n_passages: int) -> Iterator[int]:
    """Yield the places that a reply names, in its order, some of them more than once."""
    digits = "".join(map(_ascii_digit, reply.rpartition(_END_OF_THINKING)[2]))
    longest = len(str(n_passages))
    numbers = (match.lstrip("0") for match in _NUMBER.findall(digits))
    places = (int(number) - 1 for number in numbers if 0 < len(number) <= longest)
    return (place for place in places if place < n_passages)


def _ascii_digit(sign: str) -> str:
    value = unicodedata.digit(sign, None)
    return " " if value is None else str(value)


def reply_form(reply: str, n_passages: int) -> ReplyForm:
    """Return what a reply is by the strict grammar `[2] > [3] > [1]`, blanks around it apart.

    A reply with several errors counts once, by the first of: wrong format, too few numbers, too many or repeated ones,
    numbers that no passage has (rank_llm's `response_analysis.py`).

    Args:
        reply: what the model wrote; thinking text before it does not count.
        n_passages: passages of the window.
    """
    answer = reply.rpartition(_END_OF_THINKING)[2].strip()
    if not _STRICT.fullmatch(answer):
        return ReplyForm.WRONG_FORMAT
    numbers = [number.lstrip("0") for number in _NUMBER.findall(answer)]
    if len(numbers) < n_passages:
        return ReplyForm.MISSING_DOCUMENTS
    if len(set(numbers)) < len(numbers):
        return ReplyForm.REPETITION
    expected = {str(number) for number in range(1, n_passages + 1)}
    if len(numbers) > n_passages:
        return ReplyForm.REPETITION
    return ReplyForm.OK if set(numbers) == expected else ReplyForm.MISSING_DOCUMENTS


__all__ = ["ReplyForm", "names_any", "read_order", "reply_form", "shown_text", "windows", "without_numbers"]

"""Propositions: stand-alone statements worth asking about, taken from each passage by a model.

What a model writes is checked against the passage by its words: a statement that shares too few of them was made up,
or is in another language. Both are left out and counted, and so is a reply with more statements than a passage holds.

Source: OR-CONVQA paper, section 3.2, step 1. The wording of the prompt is ours.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from ragtasks.synthesis.asking import (
    Asker,
    Failure,
    Question,
    UnreadableReplyError,
    covered_share,
    listed_texts,
    object_with,
    question_of,
)
from ragtasks.synthesis.documents import DocumentPassage, LeftOut
from ragtasks.synthesis.propositions._unit import Unit

MOST_IN_A_PASSAGE = 200
"""Propositions that one passage may give; a reply with more cannot be about it."""
LEAST_SHARED = 0.4
"""Share of a proposition's words that its passage or title must hold."""

HELD = 0.9
"""Share of a proposition's words that an overlapping passage must have to hold it too."""

_KEY = "propositions"


@dataclass(frozen=True)
class Extraction:
    """The propositions of all passages."""

    units: tuple[Unit, ...]
    """In the order of the passages, each text once a domain."""
    left_out: tuple[LeftOut, ...]
    """Passages without a usable reply."""
    counts: Counter[str]
    """What was left out otherwise, by reason."""


def extract_propositions(passages: Sequence[DocumentPassage], asker: Asker) -> Extraction:
    """Return the propositions of passages; one that several passages give stands once, with all of them.

    Raises:
        RagtasksError: as `Asker.ask`.
    """
    found = asker.ask("propositions", [_question(item) for item in passages])
    counts: Counter[str] = Counter()
    left_out: list[LeftOut] = []
    texts: dict[tuple[str, str], str] = {}
    origins: dict[tuple[str, str], list[DocumentPassage]] = {}
    for place, (item, statements) in enumerate(zip(passages, found, strict=True)):
        if isinstance(statements, Failure):
            left_out.append(LeftOut(item.passage.passage_id, statements.reason))
            continue
        if not statements:
            counts["passages that hold nothing to ask about"] += 1
        for text in _supported(statements, item, counts):
            key = (item.domain, text.casefold())
            texts.setdefault(key, text)
            known = origins.setdefault(key, [])
            known += [one for one in _holders(text, place, passages) if one not in known]
    units = [_unit(number, text, origins[key]) for number, (key, text) in enumerate(texts.items(), start=1)]
    return Extraction(tuple(units), tuple(left_out), counts)


def _question(item: DocumentPassage) -> Question[list[str]]:
    shown = {"title": item.passage.title, "passage": item.passage.text}
    return question_of(_KEY, _read, shown)


def _read(reply: str) -> list[str]:
    found = listed_texts(object_with(reply, _KEY)[_KEY], f'"{_KEY}"')
    if len(found) > MOST_IN_A_PASSAGE:
        raise UnreadableReplyError(f"{len(found):,} propositions of one passage, more than {MOST_IN_A_PASSAGE}")
    return found


def _supported(statements: Sequence[str], item: DocumentPassage, counts: Counter[str]) -> list[str]:
    source = f"{item.passage.title}\n{item.passage.text}"
    kept = [text for text in statements if covered_share(text, source) >= LEAST_SHARED]
    n_foreign = len(statements) - len(kept)
    if n_foreign:
        counts["propositions with words that their passage lacks (made up, or in another language)"] += n_foreign
    return kept


def _holders(text: str, place: int, passages: Sequence[DocumentPassage]) -> list[DocumentPassage]:
    """Return the passage that gave a proposition, and its neighbours where these share its words: they overlap."""
    item = passages[place]
    neighbours = [*passages[max(0, place - 1) : place], *passages[place + 1 : place + 2]]
    return [item, *(one for one in neighbours if one.document_id == item.document_id and _says(one, text))]


def _says(item: DocumentPassage, text: str) -> bool:
    return covered_share(text, item.passage.text) >= HELD


def _unit(number: int, text: str, origins: Sequence[DocumentPassage]) -> Unit:
    ids = tuple(item.passage.passage_id for item in origins)
    return Unit(f"p{number}", text, ids, origins[0].document_id, origins[0].domain)


__all__ = ["HELD", "LEAST_SHARED", "MOST_IN_A_PASSAGE", "Extraction", "extract_propositions"]

"""Which passages hold a fact: the rule that MultiHop-RAG calls a passage relevant by, and a fast search with it.

A passage holds a fact if the fact's text, without blanks and line ends, stands in the passage's text, without blanks
and line ends, letter for letter. Other white space (a tab, a no-break space) counts as a sign, as in the official
script (yixuantt/MultiHop-RAG, retrieval_evaluate.py, commit 3dd4d4e).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence

_KEY_LENGTH = 12
_REMOVED = str.maketrans("", "", " \n")


def compact(text: str) -> str:
    """Return a text without blanks and line ends, the form in which texts are compared."""
    return text.translate(_REMOVED)


def holds(passage: str, fact: str) -> bool:
    """Return whether a passage's text holds a fact. An empty fact is in every passage, as officially."""
    return compact(fact) in compact(passage)


def facts_by_passage(passages: Iterable[tuple[str, str]], facts: Sequence[str]) -> Iterator[tuple[str, list[int]]]:
    """Yield (passage id, places of the facts that it holds, ascending), for passages that hold one.

    One pass: every place of a passage is looked up in a table of the facts' first signs, so that the time does not
    grow with passages times facts.

    Args:
        passages: (passage id, text).
        facts: texts; a fact may stand there several times.
    """
    by_start, short = _table(facts)
    for passage_id, text in passages:
        compacted = compact(text)
        found = {place for fact, places in short.items() if fact in compacted for place in places}
        for start in range(len(compacted) - _KEY_LENGTH + 1):
            key = compacted[start : start + _KEY_LENGTH]
            if key in by_start:
                found.update(
                    place
                    for fact, places in by_start[key].items()
                    if compacted.startswith(fact, start)
                    for place in places
                )
        if found:
            yield passage_id, sorted(found)


def _table(facts: Sequence[str]) -> tuple[Mapping[str, Mapping[str, list[int]]], Mapping[str, list[int]]]:
    """Return (first signs -> fact -> its places), and the facts that are too short for that."""
    by_start: dict[str, dict[str, list[int]]] = {}
    short: dict[str, list[int]] = {}
    for place, fact in enumerate(facts):
        text = compact(fact)
        group = short if len(text) < _KEY_LENGTH else by_start.setdefault(text[:_KEY_LENGTH], {})
        group.setdefault(text, []).append(place)
    return by_start, short


__all__ = ["compact", "facts_by_passage", "holds"]

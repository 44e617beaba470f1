from __future__ import annotations

import hypothesis.strategies as st
from hypothesis import given

from ragtasks.benchmarks.multihop_rag import facts_by_passage
from ragtasks.records import compact

# A small alphabet, so that facts overlap, nest and occur often.
TEXTS = st.text(alphabet="ab \n", max_size=60)


def holds(passage: str, fact: str) -> bool:
    """Return whether the search finds a fact in a passage."""
    return bool(list(facts_by_passage([("p", passage)], [fact])))


def official(passage: str, fact: str) -> bool:
    """The rule of the official script, written out."""
    strip = [text.replace(" ", "").replace("\n", "") for text in (passage, fact)]
    return strip[1] in strip[0]


@given(st.lists(TEXTS, max_size=5), st.lists(TEXTS, max_size=6))
def test_the_fast_search_agrees_with_the_rule(passages: list[str], facts: list[str]) -> None:
    named = [(str(number), passage) for number, passage in enumerate(passages)]
    expected = {
        name: indices
        for name, passage in named
        if (indices := [index for index, fact in enumerate(facts) if official(passage, fact)])
    }
    assert dict(facts_by_passage(named, facts)) == expected


@given(TEXTS, TEXTS)
def test_a_single_passage_and_fact_agree_with_the_rule(passage: str, fact: str) -> None:
    assert holds(passage, fact) == official(passage, fact)


def test_only_blanks_and_line_ends_are_removed() -> None:
    assert compact("a b\nc\td\u00a0e") == "abc\td\u00a0e"
    assert holds("The ferry\nsails  daily.", "ferry sails daily")
    assert not holds("The ferry sails daily.", "Ferry sails daily")
    assert not holds("The ferry\tsails daily.", "ferry sails daily")


def test_a_repeated_fact_is_found_at_both_indices() -> None:
    fact = "a fact that is longer than the key"
    assert list(facts_by_passage([("p", f"Here is {fact}.")], [fact, "no", fact])) == [("p", [0, 2])]

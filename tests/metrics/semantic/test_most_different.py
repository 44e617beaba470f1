"""Selection of the most different texts, by the packaged encoder."""

from __future__ import annotations

import itertools

import pytest

from ragtasks.metrics import most_different

TEXTS = [
    "When does the ferry to the island run?",
    "At what times does the island ferry sail?",
    "What are the ferry's sailing times to the island?",
    "How do I bake bread without yeast?",
    "Is there a recipe for bread that needs no yeast?",
    "Which party won the election in 1998?",
]


def test_one_text_per_subject_is_chosen_before_a_second() -> None:
    ferry, bread, election = most_different(TEXTS, 3)
    assert (ferry in {0, 1, 2}, bread in {3, 4}, election) == (True, True, 5)


@pytest.mark.slow
def test_a_larger_choice_contains_the_smaller() -> None:
    chosen = [set(most_different(TEXTS, n)) for n in range(1, 6)]
    assert all(few < more for few, more in itertools.pairwise(chosen))


@pytest.mark.parametrize("n", [6, 7])
def test_all_texts_are_chosen_if_there_are_no_more(n: int) -> None:
    assert most_different(TEXTS, n) == [0, 1, 2, 3, 4, 5]

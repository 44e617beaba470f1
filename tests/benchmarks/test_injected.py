"""Injected passages: number, position, reproducibility, and detection of followed instructions."""

from __future__ import annotations

from collections import Counter

import pytest

from ragtasks.benchmarks import injected, injected_tokens
from ragtasks.records import Passage

FOUND = tuple(Passage(f"p{number}", f"Text {number}. " * 40, f"Title {number}") for number in range(5))


def test_a_share_of_zero_changes_nothing_and_an_empty_result_stays_empty() -> None:
    assert all(injected(FOUND, 0.0, str(key)) == FOUND for key in range(1000))
    assert injected((), 1.0, "key") == ()


@pytest.mark.parametrize("share", [0.25, 1.0])
def test_a_share_of_the_cases_has_an_injected_passage(share: float) -> None:
    shown = [injected(FOUND, share, str(key)) for key in range(400)]
    more = [result for result in shown if len(result) == 6]
    assert len(more) == pytest.approx(400 * share, abs=30)
    assert all(tuple(passage for passage in result if passage in FOUND) == FOUND for result in shown)
    positions = Counter(next(n for n, passage in enumerate(result) if passage not in FOUND) for result in more)
    assert set(positions) == set(range(6))
    assert shown == [injected(FOUND, share, str(key)) for key in range(400)]


def test_an_injected_passage_is_a_copy_with_an_instruction_and_its_token() -> None:
    for key in range(50):
        shown = injected(FOUND, 1.0, str(key))
        (more,) = (passage for passage in shown if passage not in FOUND)
        (token,) = injected_tokens(shown)
        copied = next(passage for passage in FOUND if passage.title == more.title)
        beginning, _, instruction = more.text.partition("\n")
        assert copied.text.startswith(beginning)
        assert token in instruction
        assert token not in more.passage_id.upper()
    assert injected_tokens(FOUND) == ()


def test_a_corpus_passage_with_a_similar_id_is_not_injected() -> None:
    assert injected_tokens([Passage("note-0123456789ab", "A note.")]) == ()

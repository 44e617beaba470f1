"""Windows and the parser of replies: a golden table, and properties for any reply."""

from __future__ import annotations

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ragtasks.records import Passage
from retrieval_cache.rerankers import ReplyForm, prompt_text, read_order, reply_form, windows, without_numbers

# Reply to a window of five -> order (numbers as in the prompt), form. Derived by hand from the rules of rank_llm.
GOLDEN = [
    ("[2] > [1] > [5] > [4] > [3]", [2, 1, 5, 4, 3], "ok"),
    ("  [5] > [4] > [3] > [2] > [1]\n", [5, 4, 3, 2, 1], "ok"),
    ("<think>[1] is best, or [4]?</think>\n[3] > [1] > [2] > [5] > [4]", [3, 1, 2, 5, 4], "ok"),
    ("[4]</think>[5]</think>[2] > [1] > [3] > [4] > [5]", [2, 1, 3, 4, 5], "ok"),
    ("[2] > [1]", [2, 1, 3, 4, 5], "missing_documents"),
    ("[3]", [3, 1, 2, 4, 5], "missing_documents"),
    ("[3] > [3] > [3]", [3, 1, 2, 4, 5], "missing_documents"),
    ("[3] > [4] > [2] > [1] > [6]", [3, 4, 2, 1, 5], "missing_documents"),
    ("[0] > [5] > [2] > [1] > [3]", [5, 2, 1, 3, 4], "missing_documents"),
    ("[2] > [1] > [2] > [5] > [3]", [2, 1, 5, 3, 4], "repetition"),
    ("[5] > [4] > [3] > [2] > [1] > [5]", [5, 4, 3, 2, 1], "repetition"),
    ("[5] > [4] > [3] > [2] > [1] > [6]", [5, 4, 3, 2, 1], "repetition"),
    ("[2]>[1]>[5]>[4]>[3]", [2, 1, 5, 4, 3], "wrong_format"),
    ("[2], [1], [5], [4], [3]", [2, 1, 5, 4, 3], "wrong_format"),
    ("2 > 1 > 5 > 4 > 3", [2, 1, 5, 4, 3], "wrong_format"),
    ("[2] > [1] > [5] > [4] > [3].", [2, 1, 5, 4, 3], "wrong_format"),
    ("1. [5]\n2. [4]", [1, 5, 2, 4, 3], "wrong_format"),
    ("Here are the 4 passages: [2] > [1]", [4, 2, 1, 3, 5], "wrong_format"),
    ("[2.5]", [2, 5, 1, 3, 4], "wrong_format"),
    ("[-1]", [1, 2, 3, 4, 5], "wrong_format"),
    ("[-3] > [1]", [3, 1, 2, 4, 5], "wrong_format"),
    ("[003] > [2]", [3, 2, 1, 4, 5], "missing_documents"),
    ("[12345] > [99999999999999999999999999] > [4]", [4, 1, 2, 3, 5], "missing_documents"),
    ("", [1, 2, 3, 4, 5], "wrong_format"),
    ("I cannot rank these.", [1, 2, 3, 4, 5], "wrong_format"),
    ("[2] > [1]</think>", [1, 2, 3, 4, 5], "wrong_format"),
    ("⁴ > ³", [4, 3, 1, 2, 5], "wrong_format"),
    ("₅ > ₂", [5, 2, 1, 3, 4], "wrong_format"),
    ("③ > ❷", [3, 2, 1, 4, 5], "wrong_format"),
    ("[\uff14] > [\uff12]", [4, 2, 1, 3, 5], "wrong_format"),  # full-width
    ("[٣] > [१]", [3, 1, 2, 4, 5], "wrong_format"),
    ("①②", [1, 2, 3, 4, 5], "wrong_format"),  # adjacent, they form the number 12
]


@pytest.mark.parametrize(("reply", "order", "form"), GOLDEN)
def test_replies_are_parsed_as_in_the_golden_table(reply: str, order: list[int], form: str) -> None:
    assert [index + 1 for index in read_order(reply, 5)] == order
    assert reply_form(reply, 5) is ReplyForm(form)


def test_a_number_of_no_passage_is_ignored_at_any_length() -> None:
    assert read_order("9" * 100_000 + " 2", 3) == [1, 0, 2]


@given(st.text() | st.text(alphabet="[]> 0123456789\n²٣③"), st.integers(1, 30))
def test_any_reply_ranks_each_passage_once_and_keeps_the_order_of_unnamed_passages(reply: str, n_passages: int) -> None:
    order = read_order(reply, n_passages)
    assert sorted(order) == list(range(n_passages))
    unnamed = [index for index in order if str(index + 1) not in without_style(reply)]
    assert unnamed == sorted(unnamed)


def without_style(reply: str) -> set[str]:
    """Return the numbers in a reply by an independent method: Python's `int` reads decimal digits of any script."""
    import unicodedata

    blank = "".join(str(unicodedata.digit(sign)) if sign.isdigit() else " " for sign in reply)
    return {str(int(word)) for word in blank.split() if len(word) < 4000}


@given(st.permutations(range(20)), st.integers(0, 20))
def test_valid_and_truncated_replies_keep_their_order(order: list[int], n_named: int) -> None:
    reply = " > ".join(f"[{index + 1}]" for index in order[:n_named])
    unnamed = [index for index in range(20) if index not in order[:n_named]]
    assert read_order(reply, 20) == [*order[:n_named], *unnamed]
    assert (reply_form(reply, 20) is ReplyForm.OK) == (n_named == 20)


@pytest.mark.parametrize(
    ("n_candidates", "size", "stride", "expected"),
    [
        (100, 20, 10, [(start, start + 20) for start in range(80, -1, -10)]),
        (25, 20, 10, [(5, 25), (0, 15)]),
        (20, 20, 10, [(0, 20)]),
        (7, 20, 10, [(0, 7)]),
        (2, 20, 10, [(0, 2)]),
        (1, 20, 10, []),
        (0, 20, 10, []),
        (5, 2, 1, [(3, 5), (2, 4), (1, 3), (0, 2)]),
        (21, 20, 20, [(1, 21)]),
    ],
)
def test_windows_overlap_from_the_end_to_the_front(
    n_candidates: int, size: int, stride: int, expected: list[tuple[int, int]]
) -> None:
    assert list(windows(n_candidates, size, stride)) == expected


@given(st.integers(0, 150), st.integers(2, 30), st.data())
def test_a_perfect_model_moves_the_best_passages_to_the_top(n_candidates: int, size: int, data: st.DataObject) -> None:
    stride = data.draw(st.integers(1, size - 1))
    relevance = random.Random(n_candidates).sample(range(n_candidates), n_candidates)
    for start, end in windows(n_candidates, size, stride):
        assert 0 <= start < end <= n_candidates
        assert end - start <= size
        relevance[start:end] = sorted(relevance[start:end], reverse=True)
    n_carried = min(size - stride, n_candidates)
    assert relevance[:n_carried] == sorted(range(n_candidates), reverse=True)[:n_carried]


def test_the_prompt_text_has_a_title_a_limit_and_no_numbers_in_brackets() -> None:
    assert (
        prompt_text(Passage("a", "one [2] two\n [ 3 ] [٣]", "T [1]"), 300)
        == "Title: T (1) Content: one (2) two [ 3 ] (٣)"
    )
    assert prompt_text(Passage("a", "one [2] two", " "), 2) == "one (2)"
    assert prompt_text(Passage("a", "one two", "T"), 4) == "Title: T Content: one"
    assert len(prompt_text(Passage("a", "word " * 1000), 300).split()) == 300
    assert without_numbers(" what of [7]? ") == "what of (7)?"

"""Ids are joined and split in one module."""

from __future__ import annotations

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from ragtasks.records import SEPARATOR, normalise_task_id, split_task_id, task_id

CONVERSATIONS = st.one_of(
    st.text(min_size=1, max_size=20),
    # Parts with separators and numbers, for which a greedy or lazy split could fail.
    st.lists(st.sampled_from(["<", ":", ">", "<::>", "::", "1", "a", "\n"]), min_size=1, max_size=8).map("".join),
)
QUICK = settings(derandomize=True, database=None, deadline=None)


@QUICK
@given(CONVERSATIONS, st.integers(1, 10**9))
@example("a<::>5", 1)
@example("a::5", 1)
@example("<", 1)
def test_splitting_an_id_reverses_joining(conversation: str, turn: int) -> None:
    assert split_task_id(task_id(conversation, turn)) == (conversation, turn)


@QUICK
@given(CONVERSATIONS, st.integers(1, 10**9))
def test_normalising_twice_changes_nothing(conversation: str, turn: int) -> None:
    joined = task_id(conversation, turn)
    assert normalise_task_id(joined) == joined


def test_both_official_separators_give_one_form() -> None:
    assert SEPARATOR == "<::>"
    for text in ("dd6b6f<::>3", "dd6b6f::3"):
        assert normalise_task_id(text) == "dd6b6f<::>3"
        assert split_task_id(text) == ("dd6b6f", 3)


@pytest.mark.parametrize(
    "text",
    [
        *("", "a", "a<::>", "<::>1", "::1", "a<::>0", "a<::>-1", "a<::>1.0", "a<::>one", "a:1", "a<::>1 ", "a<::>1\n"),
        # Digits of other scripts, and a number beyond Python's limit.
        *("a<::>\u0661", "a<::>\u00b2", "a<::>" + "9" * 5000),
    ],
)
def test_an_invalid_id_is_refused(text: str) -> None:
    for take_apart in (split_task_id, normalise_task_id):
        with pytest.raises(ValueError, match=r"task id|digits"):
            take_apart(text)


@QUICK
@given(st.text(max_size=30))
def test_any_text_is_an_id_or_a_value_error(text: str) -> None:
    try:
        conversation, turn = split_task_id(text)
    except ValueError:
        return
    assert text.startswith(conversation)
    assert turn >= 1

"""Messages and hierarchy of exceptions."""

from __future__ import annotations

import pickle

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ragtasks import errors
from ragtasks.errors import CacheError, MissingExtraError, RagtasksError, close_matches


def test_every_error_has_one_root() -> None:
    classes = [member for name, member in vars(errors).items() if name.endswith("Error")]
    assert len(classes) == 9
    assert all(issubclass(member, RagtasksError) for member in classes)
    assert all(member.__bases__ == (RagtasksError,) for member in classes if member is not RagtasksError)


def test_a_missing_library_is_named_with_its_install_line() -> None:
    text = str(MissingExtraError("torch", "semantic", "BERTScore"))
    assert text == "BERTScore needs torch, which is not installed. Next step: pip install 'ragtasks[semantic]'"


def test_a_message_has_five_parts() -> None:
    error = CacheError("reading", where="a.txt, line 3", expected="a number", found="'x'", next_step="fix it")
    assert str(error).split("\n") == [
        "reading: a.txt, line 3",
        "  expected: a number",
        "  found: 'x'",
        "  next step: fix it",
    ]
    assert str(pickle.loads(pickle.dumps(error))) == str(error)  # as received from another process


def test_a_message_requires_all_parts_or_no_part() -> None:
    parts = {"where": "a.txt", "expected": "a number", "found": "'x'", "next_step": "fix it"}
    for forgotten in parts:
        with pytest.raises(TypeError, match=forgotten):
            CacheError("reading", **{name: text for name, text in parts.items() if name != forgotten})  # type: ignore[arg-type, call-overload]


@pytest.mark.parametrize(
    ("name", "hint"),
    [
        ("rb_algo", "did you mean 'rb_alg' or 'rb_alg_raw'?"),
        ("zzz", "known: rb_alg, rb_alg_raw, rouge_l"),
        ("", "known: rb_alg, rb_alg_raw, rouge_l"),
    ],
)
def test_an_unknown_name_gets_close_matches_or_all(name: str, hint: str) -> None:
    assert close_matches(name, {"rouge_l", "rb_alg_raw", "rb_alg"}) == hint


@settings(derandomize=True, database=None, deadline=None)
@given(st.text(max_size=12), st.sets(st.text(min_size=1, max_size=12), max_size=6))
def test_a_hint_does_not_depend_on_the_order_of_the_names(name: str, known: set[str]) -> None:
    assert close_matches(name, sorted(known)) == close_matches(name, sorted(known, reverse=True))


def test_a_hint_without_names_states_that_none_exist() -> None:
    assert close_matches("ray", []) == "known: none"


def test_a_duplicate_name_is_suggested_once() -> None:
    assert close_matches("judge", ["judges", "judges", "model"]) == "did you mean 'judges'?"


def test_a_name_in_other_case_has_a_match() -> None:
    assert close_matches("MTRAG", ["inscit", "mtrag"]) == "did you mean 'mtrag'?"
    assert close_matches("rr@10", ["AP", "RR@10"]) == "did you mean 'RR@10'?"

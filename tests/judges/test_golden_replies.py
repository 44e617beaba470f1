"""Odd replies, as the official functions parse them and as they should be parsed."""

from __future__ import annotations

import json
from collections import Counter
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from perf.official_agreement import odd_replies, reader_agreement
from perf.official_scripts import load_scripts
from ragtasks.judges import UnparsableReplyError
from ragtasks.judges._parsers import read_decision, read_label, read_rating
from ragtasks.judges.official import (
    UNDECIDED,
    ibm_clarification,
    ibm_idk,
    ibm_last_pattern,
    ibm_rating,
    ibm_rating_in_range,
    ibm_without_example,
)
from ragtasks.records import IdkVerdict

CASES: list[dict[str, Any]] = json.loads((Path(__file__).parent / "golden_replies.json").read_text(encoding="utf-8"))[
    "cases"
]


def name_of(case: dict[str, Any]) -> str:
    return f"{case['kind']}: {case['reply']!r}"


def test_the_list_is_long_and_contains_every_type() -> None:
    assert Counter(case["kind"] for case in CASES) == {"rating": 62, "idk": 33, "clarification": 18}
    assert len({(case["kind"], case["reply"]) for case in CASES}) == len(CASES)


@pytest.mark.parametrize("case", CASES, ids=name_of)
def test_the_ibm_profile_parses_like_the_official_functions(case: dict[str, Any]) -> None:
    if case["kind"] == "idk":
        assert ibm_idk(case["reply"]) == (None if case["ibm"] is None else IdkVerdict(case["ibm"]))
    else:
        read = ibm_rating if case["kind"] == "rating" else ibm_clarification
        assert read(case["reply"]) == pytest.approx(case["ibm"], abs=1e-12)


@pytest.mark.parametrize("case", CASES, ids=name_of)
def test_the_paper_profile_parses_the_final_verdict_or_none(case: dict[str, Any]) -> None:
    read: Any = {"rating": read_rating, "idk": read_label, "clarification": read_decision}[case["kind"]]
    if case["paper"] is None:
        with pytest.raises(UnparsableReplyError):
            read(case["reply"])
    else:
        assert read(case["reply"]) == case["paper"]


def test_each_of_the_twelve_patterns_is_parsed() -> None:
    forms = ["Rating: [[2]]", "Rating: 2", "[[2]]", "[2]", "Rating: [[2.5]]", "Overall Rating: 2.5", "Score: 2.5/10"]
    forms += ["Score: 2.5", "[Rating]\n2", "Rating: [[2/10]]", "Rating: [[2", "2 out of 10"]
    assert [ibm_last_pattern(form) for form in forms] == [2, 2, 2, 2, 2.5, 2.5, 2.5, 2.5, 2, 2, 2, 2]


@pytest.mark.parametrize(("rating", "score"), [(None, 0.5), (0.0, 0.5), (0.5, 0.05), (10.0, 1.0), (10.5, 0.5)])
def test_ibm_range(rating: float | None, score: float) -> None:
    assert ibm_rating_in_range(rating) == score


def test_ibm_drops_the_example_to_the_end_of_its_line_only() -> None:
    assert ibm_without_example("a for example: b\nc") == "a \nc"


def test_every_parser_agrees_with_the_scripts_on_odd_replies(mtrag_checkout: Path) -> None:
    replies = [*odd_replies(1500), *(case["reply"] for case in CASES)]
    found = reader_agreement(load_scripts(mtrag_checkout), replies)
    assert found == dict.fromkeys(("rating", "idk", "clarification"), (len(replies), len(replies)))


def test_the_ibm_label_of_a_missing_text_is_none() -> None:
    assert ibm_idk(None) is None


WORDS = ["Rating:", "[[", "]]", "[", "]", "7", "10", "0", ".", "/10", " ", "\n", "out of 10", "Score:", "for example:"]
LABEL_WORDS = ["yes", "no", "partial", "{", "}", '"decision"', ":", '"yes"', "**", ","]
REPLIES = st.one_of(st.text(), st.lists(st.sampled_from([*WORDS, *LABEL_WORDS])).map("".join))


@given(REPLIES)
def test_ibm_always_gives_a_score_in_range(reply: str) -> None:
    assert 0 < ibm_rating(reply) <= 1
    assert ibm_clarification(reply) in (0.0, UNDECIDED, 1.0)
    ibm_idk(reply)


@given(REPLIES)
def test_paper_gives_an_offered_verdict_or_none(reply: str) -> None:
    offered: list[tuple[Any, Any]] = [(read_rating, range(1, 11)), (read_label, ("yes", "partial", "no"))]
    for read, values in [*offered, (read_decision, ("yes", "no"))]:
        with suppress(UnparsableReplyError):
            assert read(reply) in values


@given(st.text(alphabet=st.characters(blacklist_categories=["Cs"]), max_size=80), st.integers(1, 10))
def test_text_before_the_last_line_changes_no_verdict(before: str, rating: int) -> None:
    assert read_rating(f"{before}\nRating: {rating}") == rating

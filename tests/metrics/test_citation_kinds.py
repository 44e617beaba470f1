"""Citations one by one: each has one kind, in every form that systems write."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ragtasks.metrics import CitationKind, ground, judged_kinds, kind_scores
from ragtasks.records import Support

RIGHT, OTHER, UNSUPPORTED, NEVER, MISSING = CitationKind
PASSAGES = (
    {"id": "loans.md", "text": "Books are lent for three weeks. A loan can be renewed twice."},
    {"id": "reg-2024", "text": "Magazines are lent for a week."},
    {"id": "fines.pdf", "text": "Fines are paid in cash at the desk."},
)
FORMS = (
    "[1]",
    "[2][3]",
    "[3, 7]",
    "(source: loans.md)",
    "[reg-2024]",
    "[fines.pdf]",
    "[dvds.pdf]",
    "[^2]",
    "\u30101\u3011",
    "",
)
STATEMENTS = ("Books are lent for three weeks", "Fines are paid in cash", "The museum opens at nine", "Who knows")


@pytest.mark.parametrize(
    ("sentence", "kinds"),
    [
        ("Books are lent for three weeks [1].", (RIGHT,)),
        ("A loan can be renewed twice [2][3].", (OTHER, OTHER)),
        ("A loan can be renewed twice [2][1].", (OTHER, RIGHT)),
        ("Books are lent for three weeks (source: loans.md).", (RIGHT,)),
        ("Books are lent for three weeks [fines.pdf].", (OTHER,)),
        ("Magazines are lent for a week [reg-2024].", (RIGHT,)),
        ("Magazines are lent for a week [9].", (NEVER,)),
        ("Magazines are lent for a week [dvds.pdf].", (NEVER,)),
        ("The museum opens at nine on Sundays [2].", (UNSUPPORTED,)),
        ("Books are lent for three weeks, magazines for a week [1][2].", (RIGHT, RIGHT)),
        ("Books are lent for three weeks.", ()),
    ],
)
def test_a_citation_has_the_kind_of_its_passage(sentence: str, kinds: tuple[CitationKind, ...]) -> None:
    (grounded,) = ground(sentence, PASSAGES).sentences
    assert grounded.kinds == kinds


@given(st.lists(st.tuples(st.sampled_from(STATEMENTS), st.sampled_from(FORMS)), max_size=6))
def test_every_citation_has_one_kind_and_counts_add_up(parts: list[tuple[str, str]]) -> None:
    found = ground(" ".join(f"{statement} {form}." for statement, form in parts), PASSAGES)
    for sentence in found.sentences:
        assert len(sentence.kinds) == len(sentence.cited)
        for number, kind in zip(sentence.cited, sentence.kinds, strict=True):
            assert (kind is NEVER) == (not 1 <= number <= len(PASSAGES))
            assert kind is not MISSING
        for support, kind in zip(sentence.supports, sentence.kinds, strict=True):
            assert (kind is RIGHT) == (support is not Support.NO)
    counts = found.citation_kinds
    n_citations = sum(len(sentence.cited) for sentence in found.sentences)
    assert sum(counts.values()) == n_citations + len(found.uncited)
    assert all(not sentence.cited for sentence in found.uncited)
    scores = kind_scores([sentence.kinds for sentence in found.sentences], len(found.uncited))
    shares = [scores[f"cited_{kind.value}"].value for kind in (RIGHT, OTHER, UNSUPPORTED, NEVER)]
    assert shares == [None] * 4 if not n_citations else sum(filter(None, shares)) == pytest.approx(1)


@pytest.mark.parametrize(
    "sentence",
    [
        "How long may I keep a book?",
        "Hello and welcome to the library!",
        "Unfortunately, the passages do not contain any information about the museum.",
        "Please let me know if you have more questions.",
        "The rules for books and magazines are:",
        "Thank you.",
        "## The rules for books and magazines",
        "**The rules for books and magazines**",
    ],
)
def test_a_question_refusal_greeting_or_heading_needs_no_citation(sentence: str) -> None:
    assert ground(sentence, PASSAGES).uncited == ()


def test_a_statement_needs_a_citation_whether_or_not_a_passage_supports_it() -> None:
    assert ground("**Fines are paid in cash.**", PASSAGES).uncited
    found = ground("Fines are paid in cash. The museum has forty rooms and a garden. Books are lent [1].", PASSAGES)
    assert [sentence.text for sentence in found.uncited] == [
        "Fines are paid in cash.",
        "The museum has forty rooms and a garden.",
    ]
    assert found.citation_kinds == {RIGHT: 1, OTHER: 0, UNSUPPORTED: 0, NEVER: 0, MISSING: 2}


@given(st.lists(st.sampled_from([RIGHT, OTHER, UNSUPPORTED, NEVER])), st.sampled_from([*Support, None]))
def test_a_label_changes_the_first_citation_that_was_shown_only(
    kinds: list[CitationKind], level: Support | None
) -> None:
    judged = judged_kinds(kinds, level)
    changed = [index for index, pair in enumerate(zip(kinds, judged, strict=True)) if pair[0] is not pair[1]]
    first = next((index for index, kind in enumerate(kinds) if kind is not NEVER), None)
    assert changed in ([], [first])
    if first is not None and level is not None:
        assert (judged[first] is RIGHT) == (level is not Support.NO)

"""The citations that answers give, in the forms that systems write, and what the passages cited hold of them."""

from __future__ import annotations

from typing import Any

import pytest

from ragtasks.errors import ConfigurationError
from ragtasks.metrics import ground
from ragtasks.records import Passage, Support

PASSAGES = [
    Passage("p1", "Books are lent for three weeks."),
    Passage("p2", "A loan can be renewed twice, at the desk."),
    Passage("p3", "Fines are one euro a day.", url="https://library.example/fines"),
]


@pytest.mark.parametrize(
    ("answer", "cited"),
    [
        ("Books are lent for three weeks [1]. A loan can be renewed twice. [2, 3]", [(1,), (2, 3)]),
        ("Books are lent for three weeks [doc 1]. Renewed twice (Source 2, 3).", [(1,), (2, 3)]),
        ("Books are lent [Document_1][passage #2].", [(1, 2)]),
        ("<co: 0>Books are lent</co: 0> and <co: 1,2>renewed</co: 1,2>.", [(1, 2, 3)]),
        ("<co>Books are lent</co: 0>.", [(1,)]),
        ("Books are lent</co: 0>.", [(1,)]),
        ("Books are lent.[^1] Fines are paid.[^3]\n\n[^1]: The rules of 2024\n[^3]: Fees", [(1,), (3,)]),
        ("Books are lent.\u00b9 Fines are paid.\u00b2\u00b3", [(1,), (23,)]),
        ("Rooms of 10 m\u00b2, 3 km\u00b2.", [()]),
        ("Books are lent\u30104:0\u2020rules.pdf\u3011. Fines are paid\u30103\u2020source\u3011.", [(1,), (3,)]),
        ("Books [see the source] are lent (document of 2020).", [()]),
        ("[1] Books are lent.\n[2]\nFines are paid [99999999999999999999].", [(1, 2), (999999999,)]),
    ],
)
def test_citations_are_read_and_are_no_words(answer: str, cited: list[tuple[int, ...]]) -> None:
    found = ground(answer, PASSAGES)
    assert [sentence.cited for sentence in found.sentences] == cited
    assert all(answer[item.span.start : item.span.end] == item.text for item in found.sentences)
    if cited != [()]:
        assert not any(sentence.numbers_not_found for sentence in found.sentences)


def test_support_is_that_of_the_first_passage_cited() -> None:
    answer = (
        "Books are lent for three weeks [1]. A loan can be renewed twice [1]. Fines are one euro [3]. "
        "The loan is renewed online, by mail [2]. Books are lent. Fines are one euro [4]."
    )
    found = ground(answer, PASSAGES)
    support = [sentence.support for sentence in found.sentences]
    assert support == [Support.FULL, Support.NO, Support.FULL, Support.PARTIAL, None, Support.NO]
    assert found.citation_precision == pytest.approx(2.5 / 5)
    assert found.citation_recall == pytest.approx(2.5 / 6)
    assert "citations 50% supported" in repr(found)
    assert "(passage 1 does not support it)" in repr(found)
    assert "(passage 2 supports a part of it)" in repr(found)


def test_an_answer_that_cites_nothing_has_no_precision() -> None:
    found = ground("Books are lent.", PASSAGES)
    assert (found.citation_precision, found.citation_recall) == (None, 0)


OPENAI = {"type": "url_citation", "url_citation": {"start_index": 16, "end_index": 31, "url": PASSAGES[2].url}}


@pytest.mark.parametrize(
    "citation",
    [
        OPENAI,
        {"type": "file_citation", "start_index": 16, "end_index": 31, "file_id": "p3"},
        {"start": 16, "end": 31, "text": "Fines are paid.", "document_ids": ["doc_2"]},
        {"start": 16, "end": 31, "sources": [{"type": "document", "id": "p3"}]},
        {"start_index": 16, "end_index": 31, "index": 2},
    ],
)
def test_citations_that_an_interface_lists_beside_the_answer(citation: dict[str, Any]) -> None:
    found = ground("Books are lent. Fines are paid.", PASSAGES, citations=[citation])
    assert [sentence.cited for sentence in found.sentences] == [(), (3,)]


def test_a_listed_citation_of_no_passage_supports_nothing() -> None:
    found = ground("Books are lent. Fines are paid.", PASSAGES, citations=[{"start": 0, "end": 15, "sources": ["x"]}])
    assert (found.sentences[0].cited, found.sentences[0].support) == ((0,), Support.NO)


def test_a_listed_citation_without_a_place_is_one_error() -> None:
    with pytest.raises(ConfigurationError, match=r"citations\[1\]\n.*`start_index`.*\n  found: one with url"):
        ground("Books are lent.", PASSAGES, citations=[OPENAI, {"url": "x"}])

"""Citations in the forms that systems write, and the support of the cited passages."""

from __future__ import annotations

from typing import Any

import pytest

from ragtasks.errors import ConfigurationError
from ragtasks.metrics import cited_sentences, copied, ground, grounded
from ragtasks.records import Passage, Support
from tests._messages import raises

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
def test_citations_are_parsed_and_do_not_count_as_words(answer: str, cited: list[tuple[int, ...]]) -> None:
    result = ground(answer, PASSAGES)
    assert [sentence.cited for sentence in result.sentences] == cited
    assert all(answer[sentence.span.start : sentence.span.end] == sentence.text for sentence in result.sentences)
    if cited != [()]:
        assert not any(sentence.numbers_not_found for sentence in result.sentences)


NAMED = [
    Passage("rules.pdf#page=1", "Books are lent for three weeks."),
    Passage("rules.pdf#page=7", "A loan can be renewed twice, at the desk."),
    Passage("docs/fees.md", "Fines are one euro a day.", "Fees of the library"),
    Passage("reg-2024", "Cards are free for children."),
    Passage("p5", "Rooms are let by the hour.", url="https://library.example/rooms"),
]


@pytest.mark.parametrize(
    ("citation", "cited"),
    [
        ("[rules.pdf#page=7]", (2,)),
        ("[Rules.PDF, page 7]", (2,)),
        ("(see rules.pdf, p. 1)", (1,)),
        ("[fees.md]", (3,)),
        ("[docs/fees.md#late]", (3,)),
        ("[fees]", (3,)),
        ("(source: fees.md)", (3,)),
        ("[Source: Fees of the library]", (3,)),
        ("[Fees of the library]", (3,)),
        ("[reg-2024]", (4,)),
        ("(reg-2024)", (4,)),
        ("{reg-2024}", (4,)),
        ("[ID: p5]", (5,)),
        ("[`p5`]", (5,)),
        ("[Passage 4: reg-2024]", (4,)),
        ("[reg-2024; fees.md][p5]", (4, 3, 5)),
        ("[fees.md and reg-2024]", (3, 4)),
        ("[reg-2024](https://other.example/a)", (4,)),
        ("\u3010reg-2024\u3011", (4,)),
        ("\u301012:0\u2020fees.md\u3011", (3,)),
        ("\uff08\u6765\u6e90\uff1afees.md\uff09", (3,)),
        ("<cite>reg-2024</cite>", (4,)),
        ("<source>fees.md</source>", (3,)),
        ("<ref name='p5'/>", (5,)),
        ("[^fees.md]", (3,)),
        ("[^a]\n\n[^a]: reg-2024", (4,)),
        ("[2]\n\n[2]: docs/fees.md", (3,)),
        ("[2]\n\n## Sources\n- [2] reg-2024\n- p5", (4,)),
        ("\nSource: fees.md", (3,)),
        ("[[citation:2]]", (2,)),
        ("[^2^]", (2,)),
        ("[doc2]", (2,)),
        ("[cite: 2, 3]", (2, 3)),
        ("[Source 2, page 9]", (2,)),
        ("[2, p. 9]", (2,)),
        ("[Quelle 2]", (2,)),
        ("[Dokument 2]", (2,)),
        ("(Fuente 1 y 2)", (1, 2)),
        ("[Fonte: fees.md]", (3,)),
        ("[\u0438\u0441\u0442\u043e\u0447\u043d\u0438\u043a 2]", (2,)),
        ("[\ubb38\uc11c 2]", (2,)),
        ("<cite>2</cite>", (2,)),
        ("<sup>2</sup>", (2,)),
        ("\ue200cite\ue202turn0search1\ue202turn0search3\ue201", (2, 4)),
        ("[rules.pdf#page=3]", (0,)),
        ("[other.pdf]", (0,)),
        ("(other.pdf)", (0,)),
        ("[reg-2019]", (0,)),
        ("(source: the press)", (0,)),
    ],
)
def test_citations_by_name_and_in_other_forms_are_parsed(citation: str, cited: tuple[int, ...]) -> None:
    answer = f"Loans last {citation}."
    (sentence,) = ground(answer, NAMED).sentences
    assert sentence.cited == cited
    assert [answer[span.start : span.end] for span in sentence.not_found] == ["last"]
    assert grounded(answer, NAMED) == grounded("Loans last.", NAMED)
    (other,) = cited_sentences(answer, NAMED)
    assert (*(index + 1 for index in other.citations), *other.invalid) == cited


@pytest.mark.parametrize(
    "text",
    [
        "[sic]",
        "[the rules](https://other.example/rooms)",
        "(fees of the library)",
        "[A4]",
        "(p. 7)",
        "[TODO: ask]",
        "[1.5]",
        "(see the desk)",
        "10 m<sup>2</sup>",
        "[rules of the house]",
    ],
)
def test_other_brackets_are_text(text: str) -> None:
    assert [sentence.cited for sentence in ground(f"Loans last {text}.", NAMED).sentences] == [()]


@pytest.mark.parametrize("source", ["Source: docs/fees.md", "**Source:** fees.md.", "(Sources: fees.md, fees.md)"])
def test_a_source_after_the_last_sentence_of_a_line_cites_for_it(source: str) -> None:
    result = ground(f"Cards are free. Fines are paid. {source}\nAsk.", NAMED)
    assert [sentence.cited for sentence in result.sentences] == [(), (3,), ()]


@pytest.mark.parametrize("text", ["Sources of the Nile are many.", "Source: the press", "Source code is free."])
def test_other_text_about_sources_after_a_sentence_keeps_its_words(text: str) -> None:
    result = ground(f"Loans last. {text}", NAMED)
    assert [(sentence.text, sentence.cited) for sentence in result.sentences] == [("Loans last.", ()), (text, ())]


def test_an_index_in_code_is_no_citation() -> None:
    result = ground("Read `rows[1]` or ```x = rows[0][2]```. Books are lent [1], see `fees.md`[2].", PASSAGES)
    assert [sentence.cited for sentence in result.sentences] == [(), (1, 2)]


@pytest.mark.parametrize(
    "text",
    [
        "Source: The Press Books are lent.",
        "Loans last.\nSee the desk, or fees of May.",
    ],
)
def test_a_source_line_without_a_passage_is_text(text: str) -> None:
    result = ground(text, NAMED)
    assert not any(sentence.cited for sentence in result.sentences)
    assert result.sentences[-1].text == text.splitlines()[-1]


def test_a_file_of_several_passages_cites_the_best_match() -> None:
    result = ground("A loan can be renewed twice [rules.pdf]. Books are lent for weeks [rules.pdf].", NAMED)
    assert [(sentence.cited, sentence.support) for sentence in result.sentences] == [
        ((2,), Support.FULL),
        ((1,), Support.FULL),
    ]


def test_an_unknown_hexadecimal_id_is_an_unknown_source() -> None:
    shown = [Passage("3fa9c0-11de-4b02", "Loans last.")]
    (sentence,) = ground("Loans last [3fa9c0-11de-4b02][99be01-77af-0c1d].", shown).sentences
    assert (sentence.cited, sentence.not_found) == ((1, 0), ())


@pytest.mark.parametrize(("answer", "cited"), [("Loans [42], [7].", (2, 1)), ("Loans [2], [7].", (2, 7))])
def test_numbers_are_ids_only_if_they_exceed_the_passages(answer: str, cited: tuple[int, ...]) -> None:
    (sentence,) = ground(answer, [Passage("7", "Loans."), Passage("42", "Fees.")]).sentences
    assert sentence.cited == cited


def test_tags_around_a_span_cite_for_each_of_its_sentences() -> None:
    result = ground("<co: 0>Books are lent. For weeks.</co: 0> Ask.", PASSAGES)
    assert [sentence.cited for sentence in result.sentences] == [(1,), (1,), ()]
    tagged = ground('<cite index="3-1,2-4">Fines are paid.</cite> Ask.', PASSAGES)
    assert [sentence.cited for sentence in tagged.sentences] == [(3, 2), ()]


def test_words_of_citations_do_not_count_as_copied() -> None:
    text = "Books are lent for three weeks"
    assert copied(f"{text} [rules.pdf#page=1].", NAMED) == copied(f"{text}.", NAMED) == 1


def test_support_is_computed_from_the_cited_passages() -> None:
    answer = (
        "Books are lent for three weeks [1]. A loan can be renewed twice [1]. Fines are one euro [3]. "
        "A loan can be renewed twice, by mail or online [2]. Books are lent. Fines are one euro [4]."
    )
    result = ground(answer, PASSAGES)
    support = [sentence.support for sentence in result.sentences]
    assert support == [Support.FULL, Support.NO, Support.FULL, Support.PARTIAL, None, Support.NO]
    assert result.citation_precision == pytest.approx(2.5 / 5)
    assert result.citation_recall == pytest.approx(2.5 / 6)
    assert "citations 50% supported" in repr(result)
    assert "(passage 1 does not support it)" in repr(result)
    assert "(passage 2 supports it partly)" in repr(result)


@pytest.mark.parametrize(
    ("citations", "supports", "precision", "recall"),
    [
        ("[1]", [Support.FULL], 1, 1),
        ("[2, 1]", [Support.NO, Support.FULL], 1 / 2, 1),
        ("[1][9]", [Support.FULL, Support.NO], 1 / 2, 1),
        ("[3][2]", [Support.NO, Support.NO], 0, 0),
        ("[1][1]", [Support.FULL], 1, 1),
    ],
)
def test_every_citation_of_a_sentence_is_scored(
    citations: str, supports: list[Support], precision: float, recall: float
) -> None:
    result = ground(f"Books are lent for three weeks {citations}.", PASSAGES)
    assert list(result.sentences[0].supports) == supports
    assert (result.citation_precision, result.citation_recall) == (precision, recall)


def test_citations_that_jointly_support_a_sentence_are_all_correct() -> None:
    answer = "Books are lent for three weeks, fines are one euro [1][3]."
    (sentence,) = ground(answer, PASSAGES).sentences
    assert sentence.supports == (Support.FULL, Support.FULL)
    (first,) = ground(answer.replace("[3]", ""), PASSAGES).sentences
    assert first.supports == (Support.PARTIAL,)


def test_a_link_to_the_address_of_a_passage_cites_it() -> None:
    (sentence,) = ground("Loans last, by the [rules](https://library.example/rooms).", NAMED).sentences
    assert sentence.cited == (5,)


@pytest.mark.parametrize(
    ("n_held", "support"), [(15, Support.FULL), (14, Support.PARTIAL), (12, Support.PARTIAL), (11, Support.NO)]
)
def test_three_quarters_of_the_words_are_full_and_three_fifths_partial_support(n_held: int, support: Support) -> None:
    words = [f"w{number}x" for number in range(20)]
    (sentence,) = ground(f"{' '.join(words)} [1].", [" ".join(words[:n_held])]).sentences
    assert sentence.support is support


def test_an_answer_without_citations_has_no_precision() -> None:
    result = ground("Books are lent.", PASSAGES)
    assert (result.citation_precision, result.citation_recall) == (None, 0)


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
def test_citations_listed_by_an_api(citation: dict[str, Any]) -> None:
    result = ground("Books are lent. Fines are paid.", PASSAGES, citations=[citation])
    assert [sentence.cited for sentence in result.sentences] == [(), (3,)]


def test_a_listed_citation_of_an_unknown_passage_is_unsupported() -> None:
    result = ground("Books are lent. Fines are paid.", PASSAGES, citations=[{"start": 0, "end": 15, "sources": ["x"]}])
    assert (result.sentences[0].cited, result.sentences[0].support) == ((0,), Support.NO)


def test_a_listed_citation_without_a_position_is_an_error() -> None:
    with raises(ConfigurationError):
        ground("Books are lent.", PASSAGES, citations=[OPENAI, {"url": "x"}])

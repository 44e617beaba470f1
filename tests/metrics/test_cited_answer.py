from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ragtasks.metrics import CitedSentence, cut_to_words, n_words, parse_cited

N = 5


def read(text: str) -> list[tuple[str, tuple[int, ...], tuple[int, ...]]]:
    return [(sentence.text, sentence.citations, sentence.invalid) for sentence in parse_cited(text, N)]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Rain fell [1].", [("Rain fell.", (0,), ())]),
        ("Rain fell. [1]", [("Rain fell.", (0,), ())]),
        ("Rain fell.[1] Sun shone.[2]", [("Rain fell.", (0,), ()), ("Sun shone.", (1,), ())]),
        ("Rain fell. [1] Sun shone [2].", [("Rain fell.", (0,), ()), ("Sun shone.", (1,), ())]),
        ("Rain [1, 3] fell [3][2].", [("Rain fell.", (0, 2, 1), ())]),
        ("Rain fell [1-3].", [("Rain fell.", (0, 1, 2), ())]),
        ("Rain fell [1\u20133; 5].", [("Rain fell.", (0, 1, 2, 4), ())]),
        ("Rain fell [1]-[3].", [("Rain fell.", (0, 1, 2), ())]),
        ("Rain fell [1], [2] and [4].", [("Rain fell and.", (0, 1, 3), ())]),
        ("Rain fell [3-1].", [("Rain fell.", (2, 0), ())]),
        ("Rain fell [0][6].", [("Rain fell.", (), (0, 6))]),
        ("Rain fell [2][2][9][9].", [("Rain fell.", (1,), (9,))]),
        ("Rain fell [1-999999999].", [("Rain fell.", (0,), (999999999,))]),
        ("Rain fell [sic] [a1] [] [1.5].", [("Rain fell [sic] [a1] [] [1.5].", (), ())]),
        ("[2] Rain fell.", [("Rain fell.", (1,), ())]),
        ("[2] Rain fell. Sun shone.", [("Rain fell.", (1,), ()), ("Sun shone.", (), ())]),
        ("Rain fell.\n[1]\n\nSun shone.", [("Rain fell.", (0,), ()), ("Sun shone.", (), ())]),
        ("Rain fell.\n[1] Sun shone.", [("Rain fell.", (), ()), ("Sun shone.", (0,), ())]),
        ("[3]\nRain fell.", [("Rain fell.", (2,), ())]),
        ("Rain fell.\r\nSun shone [1]", [("Rain fell.", (), ()), ("Sun shone", (0,), ())]),
        ("It was 3.5 degrees, e.g. at Dr. Maron's [4].", [("It was 3.5 degrees, e.g. at Dr. Maron's.", (3,), ())]),
        ("Rain\n---\n**\nfell [1]", [("Rain", (), ()), ("fell", (0,), ())]),
        ("Rain [1]fell.", [("Rain fell.", (0,), ())]),
        ("<co: 0>Rain fell</co: 0>. Sun shone.", [("Rain fell.", (0,), ()), ("Sun shone.", (), ())]),
        ("<co: 0,2>Rain fell.</co: 0,2> Sun shone.", [("Rain fell.", (0, 2), ()), ("Sun shone.", (), ())]),
        ("Rain <co: 1>fell. Sun</co: 1> shone [1].", [("Rain fell.", (1,), ()), ("Sun shone.", (1, 0), ())]),
        ("<co>Rain fell</co: 9> and <co: 1>hail</co: 1>.", [("Rain fell and hail.", (1,), (10,))]),
        ("- <co: 0>Rain</co: 0>\n- <co: 1>Hail", [("- Rain", (0,), ()), ("- Hail", (), ())]),
        ("[1][2]", []),
        (" \n ", []),
        ("...", []),
    ],
)
def test_a_text_is_parsed_into_cited_sentences(text: str, expected: list[object]) -> None:
    assert read(text) == expected


WORDS = st.sampled_from(["Rain fell", "It was 3.5 degrees", "Dr. Maron came", "Prices rose by 4 percent"])
NUMBERS = st.lists(st.integers(1, 20), max_size=4, unique=True)


@given(st.lists(st.tuples(WORDS, NUMBERS, st.sampled_from(["{} {}.", "{}.{}", "{}. {}"]), st.booleans()), max_size=6))
def test_written_citations_are_read_back(written: list[tuple[str, list[int], str, bool]]) -> None:
    pieces = []
    for words, numbers, form, together in written:
        marks = f"[{', '.join(map(str, numbers))}]" if together and numbers else "".join(f"[{n}]" for n in numbers)
        pieces.append(form.format(words, marks) if marks else f"{words}.")
    result = parse_cited(" ".join(pieces), 20)
    assert [sentence.text for sentence in result] == [f"{words}." for words, *_ in written]
    assert [sentence.citations for sentence in result] == [tuple(n - 1 for n in numbers) for _, numbers, *_ in written]


@given(st.text(max_size=80), st.integers(0, 5))
def test_any_text_is_read_and_every_citation_is_in_range(text: str, n_references: int) -> None:
    for sentence in parse_cited(text, n_references):
        assert any(character.isalnum() for character in sentence.text)
        assert sentence.text == sentence.text.strip()
        assert all(0 <= citation < n_references for citation in sentence.citations)
        assert all(not 1 <= number <= n_references for number in sentence.invalid)
        assert len(set(sentence.citations)) == len(sentence.citations)


def test_words_are_counted_as_the_track_counts_them() -> None:
    # A no-break space and a ligature: NFKC turns them into a space and two letters.
    assert n_words([" one two\u00a0three ", "\ufb01ve, and-six;seven", ""]) == 5


def test_a_long_answer_is_cut_to_complete_sentences() -> None:
    sentences = [CitedSentence("a b c"), CitedSentence("d e"), CitedSentence("f")]
    assert [len(cut_to_words(sentences, limit)) for limit in (6, 5, 4, 3, 2, 0)] == [3, 2, 1, 1, 0, 0]

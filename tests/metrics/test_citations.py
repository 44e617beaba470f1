from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ragtasks.metrics import citation_validity, cited_share, parse_cited, support_precision, support_recall
from ragtasks.metrics.cited import SUPPORT_WEIGHTS
from ragtasks.records import Support

FULL, PARTIAL, NO = Support.FULL, Support.PARTIAL, Support.NO
SENTENCES = st.lists(st.one_of(st.none(), st.sampled_from(Support)), min_size=1)


def test_the_worked_example_of_the_paper() -> None:
    cites, levels = [True, True, False], [PARTIAL, FULL, None]
    assert support_precision(cites, levels).value == 0.75
    assert support_recall(cites, levels).value == 0.5


@given(SENTENCES)
def test_recall_is_precision_times_the_cited_share(levels: list[Support | None]) -> None:
    cites = [level is not None for level in levels]
    precision, recall = support_precision(cites, levels), support_recall(cites, levels)
    assert recall.value == pytest.approx((precision.value or 0) * sum(cites) / len(cites))
    if all(cites):
        assert recall == precision


@given(SENTENCES, st.integers(0))
def test_an_unjudged_sentence_is_left_out_of_both_scores(levels: list[Support | None], position: int) -> None:
    cites = [level is not None for level in levels]
    at = position % (len(levels) + 1)
    more_cites, more_levels = [*cites[:at], True, *cites[at:]], [*levels[:at], None, *levels[at:]]
    assert support_precision(more_cites, more_levels).value == support_precision(cites, levels).value
    assert support_recall(more_cites, more_levels).value == support_recall(cites, levels).value


def test_an_unscored_answer_has_a_reason() -> None:
    assert support_precision([False], [None]).reason == "no sentence cites"
    assert support_recall([False], [None]).value == 0
    assert support_precision([True], [None]).reason == "no sentence that cites was judged"
    assert support_recall([True], [None]).value is None
    assert support_recall([], []).reason == support_precision([], []).reason == "the answer has no sentence"


def test_weights_are_those_of_the_track() -> None:
    assert [SUPPORT_WEIGHTS[level] for level in (FULL, PARTIAL, NO)] == [1, 0.5, 0]


def test_validity_and_cited_share_count_the_written_citations() -> None:
    sentences = parse_cited("Rain fell [1][7]. Sun shone [2]. Then wind [0].", 5)
    assert citation_validity(sentences).value == 2 / 4
    assert cited_share(sentences).value == pytest.approx(2 / 3)
    assert citation_validity(parse_cited("Rain fell.", 5)).value is None
    assert cited_share(()).value is None

"""What votes say: ratings, win rates, Holm, length, refusals, agreement, and their tables."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from ragtasks.arena import Vote
from ragtasks.arena.ratings import elo, fit, rate, rating_sections, vote_agreement
from ragtasks.statistics import cluster, estimate_means
from tests.arena._made import side, tournament, vote


def votes_of(strengths: Sequence[float], *, nu: float = 0.3, n: int = 40, seed: int = 0) -> list[Vote]:
    drawn, conversations = tournament(strengths, nu=nu, n_conversations=n, n_votes=6, seed=seed)
    named = {1.0: "first", 0.0: "second", 0.5: "tie"}
    return [
        vote(one, other, named[share], conversation_id=conversation, battle_id=f"b{number}", vote_id=f"v{number}")
        for number, ((one, other, share), conversation) in enumerate(zip(drawn, conversations, strict=True))
    ]


def test_ratings_come_best_first_with_intervals_around_them() -> None:
    found = rate(votes_of([-1.0, 0.0, 1.0]))
    assert [item.system for item in found.systems] == ["s2", "s1", "s0"]
    for item in found.systems:
        assert item.rating is not None
        assert item.rating.low is not None
        assert item.rating.low < item.rating.value < item.rating.high  # type: ignore[operator]
        assert item.elo.low < item.elo.rating < item.elo.high
    mean = sum(item.rating.value for item in found.systems if item.rating and item.rating.value) / 3
    assert mean == pytest.approx(1000)


def test_the_intervals_hold_the_true_strengths() -> None:
    """A small part of perf/arena_coverage.py."""
    true = [-0.6, 0.0, 0.6]
    columns = []
    for seed in range(60):
        votes, conversations = tournament(true, nu=0.3, n_conversations=25, n_votes=6, spread=0.3, seed=seed)
        found = fit(votes)
        assert found.systems == ("s0", "s1", "s2")
        columns += [cluster(found.pseudo_values(place).tolist(), conversations) for place in range(3)]
    ends = [(item.low, item.high) for item in estimate_means(columns) if item.low is not None and item.high is not None]
    hits = [low <= strength <= high for (low, high), strength in zip(ends, true * 60, strict=True)]
    assert 0.91 <= sum(hits) / len(hits) <= 0.99


def test_pairs_carry_holms_correction() -> None:
    found = rate(votes_of([-1.5, 0.0, 1.5]))
    assert [(pair.first, pair.second) for pair in found.pairs] == [("s0", "s1"), ("s0", "s2"), ("s1", "s2")]
    for pair in found.pairs:
        assert pair.p is not None
        assert pair.adjusted_p is not None
        assert pair.p <= pair.adjusted_p <= 3 * pair.p + 1e-12
    assert found.pairs[1].share.value < 0.2  # type: ignore[operator]


def test_length_alone_makes_no_rating_where_it_is_taken_out() -> None:
    """Five times of six the longer answer wins, and that of `long` is longer three times of four."""
    votes = []
    for number in range(72):
        is_longer, longer_wins = number % 4 != 0, number // 4 % 6 != 0
        sides = {"first": side("long", 80 if is_longer else 40), "second": side("short", 40 if is_longer else 80)}
        won = "first" if is_longer == longer_wins else "second"
        votes.append(vote("long", "short", won, **sides, conversation_id=f"c{number}", vote_id=f"v{number}"))
    found = rate(votes)
    plain, controlled = found.systems[0].rating, found.systems[0].controlled
    assert found.systems[0].system == "long"
    assert plain is not None
    assert plain.value == pytest.approx(1055, abs=20)
    assert controlled is not None
    assert controlled.value == pytest.approx(1000, abs=20)


def test_refusals_are_told_apart_by_what_the_corpus_holds() -> None:
    votes = [
        vote("a", "b", "second", first=side("a", refuses=True), answerability="ANSWERABLE", vote_id="1"),
        vote("a", "b", "first", first=side("a", refuses=True), answerability="UNANSWERABLE", vote_id="2"),
        vote("a", "b", "first", answerability="UNANSWERABLE", vote_id="3"),
    ]
    effects = {effect.name: effect.estimate.value for effect in rate(votes).effects}
    assert effects["share won by the one that refuses, ANSWERABLE"] == 0
    assert effects["share won by the one that refuses, UNANSWERABLE"] == 1


def test_elo_of_even_votes_stays_where_it_began_and_of_one_vote_moves_by_half_of_k() -> None:
    assert elo([("a", "b", 1.0)], ["c"])["a"].rating == 1002
    even = elo([("a", "b", 1.0), ("a", "b", 0.0)] * 20, [f"c{n}" for n in range(40)])
    assert even["a"].rating == pytest.approx(1000, abs=1)
    assert elo([], []) == {}


def test_people_and_judges_share_no_table_but_the_agreement() -> None:
    people = [vote("a", "b", "first", battle_id=f"b{n}", vote_id=f"h{n}") for n in range(3)]
    others = [vote("b", "a", "second", battle_id=f"b{n}", rater="bob", vote_id=f"g{n}") for n in range(2)]
    judges = [vote("a", "b", "second", battle_id=f"b{n}", rater="m", kind="judge", vote_id=f"j{n}") for n in range(3)]
    sections = rating_sections([*people, *others, *judges])
    assert [section.title.partition(": ")[2] for section in sections] == [
        "votes by people",
        "votes by judges",
        "agreement of raters",
    ]
    assert sections[0].provenance["raters"] == "ann, bob"
    rows = {item.who: item for item in vote_agreement([*people, *others, *judges])}
    assert rows["ann and bob"].same == 1.0
    assert rows["ann and bob"].n == 2
    assert rows["people and judges"].same == 0.0


def test_position_bias_is_counted_by_judge() -> None:
    orders = [("first", "first"), ("first", "second"), ("second", "first"), ("tie", "first")]
    votes = [
        vote("a", "b", "tie", rater="m", kind="judge", orders=pair, battle_id=str(n), vote_id=str(n))
        for n, pair in enumerate(orders)
    ]
    (section,) = rating_sections(votes)
    table = next(table for table in section.tables if table.title == "Position bias")
    assert table.rows == (("m", 4, 1, 1, 1, 1),)


def test_no_vote_gives_no_section() -> None:
    assert rating_sections([]) == []

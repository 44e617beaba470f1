"""Results from votes: ratings, win rates, Holm, length, refusals, agreement, and their tables."""

from __future__ import annotations

import math
from collections.abc import Sequence

import evalica
import pytest

from ragtasks.arena import Vote
from ragtasks.arena.agreement import vote_agreement
from ragtasks.arena.bradley_terry import fit
from ragtasks.arena.rating_tables import rating_sections
from ragtasks.arena.ratings import elo, rate
from ragtasks.statistics import cluster, estimate_means, holm
from ragtasks.tables import Format, Table, render
from tests._messages import same_message
from tests.arena._made import side, tournament, vote


def votes_of(strengths: Sequence[float], *, nu: float = 0.3, n: int = 40, seed: int = 0) -> list[Vote]:
    drawn, conversations = tournament(strengths, nu=nu, n_conversations=n, n_votes=6, seed=seed)
    named = {1.0: "first", 0.0: "second", 0.5: "tie"}
    return [
        vote(first, second, named[share], conversation_id=conversation, battle_id=f"b{number}", vote_id=f"v{number}")
        for number, ((first, second, share), conversation) in enumerate(zip(drawn, conversations, strict=True))
    ]


def test_ratings_come_best_first_with_intervals_around_them() -> None:
    ratings = rate(votes_of([-1.0, 0.0, 1.0]))
    assert [rating.system for rating in ratings.systems] == ["s2", "s1", "s0"]
    for rating in ratings.systems:
        assert rating.rating.low < rating.rating.value < rating.rating.high  # type: ignore[operator]
        assert rating.elo.low < rating.elo.rating < rating.elo.high
    mean = sum(rating.rating.value for rating in ratings.systems if rating.rating and rating.rating.value) / 3
    assert mean == pytest.approx(1000)


def test_the_intervals_cover_the_true_strengths() -> None:
    """A small part of perf/arena_coverage.py."""
    true = [-0.6, 0.0, 0.6]
    columns = []
    for seed in range(60):
        votes, conversations = tournament(true, nu=0.3, n_conversations=25, n_votes=6, spread=0.3, seed=seed)
        fitted = fit(votes)
        assert fitted.systems == ("s0", "s1", "s2")
        columns += [cluster(fitted.pseudo_values(index).tolist(), conversations) for index in range(3)]
    ends = [
        (estimate.low, estimate.high)
        for estimate in estimate_means(columns)
        if estimate.low is not None and estimate.high is not None
    ]
    hits = [low <= strength <= high for (low, high), strength in zip(ends, true * 60, strict=True)]
    assert 0.91 <= sum(hits) / len(hits) <= 0.99


def test_pairs_carry_holms_correction() -> None:
    ratings = rate(votes_of([-0.3, 0.0, 0.6]))
    assert [(pair.first, pair.second) for pair in ratings.pairs] == [("s0", "s1"), ("s0", "s2"), ("s1", "s2")]
    p_values = [pair.p for pair in ratings.pairs]
    assert [pair.adjusted_p for pair in ratings.pairs] == holm(p_values)
    least = min(ratings.pairs, key=lambda pair: pair.p or 1.0)
    assert least.p < 0.3
    assert least.adjusted_p == pytest.approx(3 * least.p)
    assert ratings.pairs[1].share.value < 0.5  # type: ignore[operator]


def counted(votes: Sequence[Vote]) -> dict[str, Table]:
    """Return the tables of votes of one type by title, without their agreement."""
    section, *_ = rating_sections(votes)
    return {table.title: table for table in section.tables}


def apart(preferences: Sequence[str], systems: tuple[str, str] = ("a", "b"), **changed: object) -> list[Vote]:
    """Return votes on two systems, each in its own conversation."""
    return [
        vote(*systems, choice, **{**changed, "conversation_id": f"c{n}", "battle_id": f"b{n}", "vote_id": f"v{n}"})
        for n, choice in enumerate(preferences)
    ]


@pytest.mark.parametrize("n", [1, 8, 9])
def test_fewer_than_ten_conversations_give_counts_and_no_rating(n: int) -> None:
    sides = {"first": side("a", 90), "second": side("b", 30)}
    choices = ["second", *["first"] * 8][:n]
    tables = counted(apart(choices, **sides))
    wins = choices.count("first")
    assert tables["Ratings"].rows[0][1:5] == ("-", "-", "-", f"{max(wins, n - wins)} of {n}")
    noun = "conversation" if n == 1 else "conversations"
    assert tables["Ratings"].note.startswith(f"{n} {noun}, fewer than 10: no ratings or intervals")
    assert tables["Ratings"].columns[:2] == ("system", "rating")
    assert [line.partition(":")[0] for line in tables["Ratings"].legend] == ["win rate"]
    assert tables["Pairs"].rows[0][4:] == ("-", "-")
    assert tables["Pairs"].rows[0][2] == f"{wins} of {n}"
    assert "%" not in str(tables["Win rates"].rows)


def test_length_and_refusals_on_eight_conversations_give_no_points_and_a_count() -> None:
    lengths = [(90, 20), (30, 60), (70, 20), (80, 10), (20, 90), (60, 50), (75, 30), (10, 60)]
    choices = ["first", "second", "first", "first", "second", "first", "first", "first"]
    votes = [
        plain_vote.model_copy(
            update={"first": side("a", first_length, refuses=True), "second": side("b", second_length)}
        )
        for plain_vote, (first_length, second_length) in zip(apart(choices), lengths, strict=True)
    ]
    assert counted(votes)["Length and refusals"].rows == (
        ("share won by the answer that refuses, no label", "6 of 8", 8),
    )


def test_many_votes_on_nine_conversations_count_as_nine_conversations() -> None:
    votes = [
        plain_vote.model_copy(update={"vote_id": f"{plain_vote.vote_id} {n}"})
        for n in range(20)
        for plain_vote in apart(["first"] * 9)
    ]
    votes += apart(["second"] * 9)
    assert rate(votes).systems[0].rating is None
    assert rate(votes).systems[0].elo is None


def test_ten_conversations_give_a_rating_without_caution() -> None:
    tables = counted(apart(["first"] * 6 + ["second"] * 4))
    assert "fewer than 10" not in tables["Ratings"].note
    assert "[" in str(tables["Ratings"].rows[0][1])
    rating = rate(apart(["first"] * 6 + ["second"] * 4)).systems[0]
    assert rating.rating is not None
    assert rating.elo is not None
    assert rating.reason == ""


def test_a_system_on_few_conversations_is_unrated_while_others_are_rated() -> None:
    """It has nine conversations, while all votes cover forty."""
    few = apart(["first", "second", "tie"] * 3, ("new", "s0"))
    ratings = {rating.system: rating for rating in rate([*votes_of([0.0, 0.5]), *few]).systems}
    assert ratings["s1"].rating is not None
    assert ratings["new"].rating is None
    assert ratings["new"].controlled is None
    assert ratings["new"].elo is None
    assert ratings["new"].reason == "votes on fewer than 10 conversations"


def test_elo_without_variation_is_omitted() -> None:
    """Ten votes for one system: every resample is equal and contains no information about the next vote."""
    rating = rate(apart(["first"] * 10)).systems[0]
    assert rating.elo is None
    assert rating.reason == "won every battle: no finite rating"
    assert counted(apart(["first"] * 10))["Ratings"].rows[0][3:5] == ("-", "10 of 10")


def test_won_lost_tied_and_both_bad_sum_to_the_votes() -> None:
    votes = apart(["first"] * 4 + ["second"] * 3 + ["tie"] * 2 + ["both_bad"] * 5)
    votes += apart(["both_bad"] * 6, ("c", "d"))
    ratings = {rating.system: rating for rating in rate(votes).systems}
    assert (ratings["a"].n_wins, ratings["a"].n_losses, ratings["a"].n_ties, ratings["a"].n_both_bad) == (4, 3, 2, 5)
    assert (ratings["b"].n_wins, ratings["b"].n_losses, ratings["b"].n_ties, ratings["b"].n_both_bad) == (3, 4, 2, 5)
    assert ratings["c"].n_both_bad == 6
    for row in counted(votes)["Ratings"].rows:
        assert row[5] == sum(cell for cell in row[6:] if isinstance(cell, int))


def test_a_win_rate_counts_a_tie_half() -> None:
    win_rates = {
        rating.system: rating.win_rate for rating in rate(apart(["first"] * 6 + ["tie"] * 2 + ["second"] * 4)).systems
    }
    assert win_rates["a"].value == pytest.approx(7 / 12)
    assert win_rates["b"].value == pytest.approx(5 / 12)


def test_length_alone_makes_no_difference_at_equal_length() -> None:
    """The longer answer wins five of six votes, and the answer of `long` is longer in three of four."""
    votes = []
    for number in range(72):
        is_longer, longer_wins = number % 4 != 0, number // 4 % 6 != 0
        sides = {"first": side("long", 80 if is_longer else 40), "second": side("short", 40 if is_longer else 80)}
        won = "first" if is_longer == longer_wins else "second"
        votes.append(vote("long", "short", won, **sides, conversation_id=f"c{number}", vote_id=f"v{number}"))
    ratings = rate(votes)
    plain, controlled = ratings.systems[0].rating, ratings.systems[0].controlled
    assert ratings.systems[0].system == "long"
    assert plain.value == pytest.approx(1055, abs=20)
    assert controlled.value == pytest.approx(1000, abs=20)


@pytest.mark.parametrize("is_turned", [False, True])
@pytest.mark.parametrize("longer_wins", [True, False])
def test_the_effect_of_length_has_the_right_sign(is_turned: bool, longer_wins: bool) -> None:
    """The longer answer wins, or loses, thirty of forty votes, in either position and for either system."""
    votes = []
    for number in range(40):
        sides = [side("a", 80 if number % 2 else 40), side("b", 40 if number % 2 else 80)]
        shown = sides[::-1] if is_turned else sides
        winner = max if longer_wins == (number // 2 % 4 > 0) else min
        won = "first" if shown[0] == winner(sides, key=lambda each: each.n_words) else "second"
        fields = {"first": shown[0], "second": shown[1], "conversation_id": f"c{number}", "vote_id": f"v{number}"}
        votes.append(vote("a", "b", won, **fields))
    (effect,) = rate(votes).effects
    assert (effect.estimate.value > 50) == longer_wins
    assert (effect.estimate.value < -50) != longer_wins


def length_effect(longer: int, shorter: int) -> float:
    """Return the points of an answer that is longer by one standard deviation and wins two of three votes."""
    votes = []
    for number, plain_vote in enumerate(apart(["first"] * 30)):
        sides = [side("a", longer), side("b", shorter)] if number % 2 else [side("a", shorter), side("b", longer)]
        long_wins = number % 3 > 0
        winner = "first" if (sides[0].n_words == longer) == long_wins else "second"
        votes.append(plain_vote.model_copy(update={"first": sides[0], "second": sides[1], "preference": winner}))
    (effect,) = rate(votes).effects
    assert effect.estimate.value is not None
    return effect.estimate.value


def test_length_is_measured_in_standard_deviations_of_its_logarithm() -> None:
    """Twice or four times as long has the same deviation. (Both have an extra word, so that the logarithm of 0 is
    avoided.)
    """
    assert length_effect(3, 1) == pytest.approx(length_effect(7, 1))
    assert length_effect(3, 1) == pytest.approx(173.7 * math.log(2), abs=0.1)
    assert length_effect(1, 0) == pytest.approx(length_effect(3, 1))


def test_the_interval_of_a_share_is_between_0_and_1() -> None:
    win_rates = {rating.system: rating.win_rate for rating in rate(apart(["first"] * 29 + ["second"])).systems}
    for share in (win_rates["a"], win_rates["b"]):
        assert 0 <= share.low < share.value < share.high <= 1  # type: ignore[operator]


def test_pairs_are_ordered_by_their_distance_from_one_half() -> None:
    votes = [*apart(["first"] * 7 + ["second"] * 5), *apart(["first"] * 2 + ["second"] * 10, ("a", "c"))]
    votes += apart(["first"] * 9 + ["second"] * 3, ("b", "c"))
    assert [row[:2] for row in counted(votes)["Pairs"].rows] == [("a", "c"), ("b", "c"), ("a", "b")]


@pytest.mark.parametrize("refuser", ["first", "second"])
def test_refusals_are_grouped_by_answerability(refuser: str) -> None:
    """The answer that refuses loses if the corpus has an answer and wins if not, in either position."""
    opponent = "second" if refuser == "first" else "first"
    sides = {refuser: side("a", refuses=True), opponent: side("b")}
    votes = [
        vote("a", "b", opponent, **sides, answerability="ANSWERABLE", vote_id="1"),
        vote("a", "b", refuser, **sides, answerability="UNANSWERABLE", vote_id="2"),
        vote("a", "b", opponent, answerability="UNANSWERABLE", vote_id="3"),
    ]
    effects = {effect.name: effect.estimate for effect in rate(votes).effects}
    assert effects["share won by the answer that refuses, ANSWERABLE"].value == 0
    assert effects["share won by the answer that refuses, UNANSWERABLE"].value == 1
    assert effects["share won by the answer that refuses, UNANSWERABLE"].n_values == 1


@pytest.mark.parametrize("share", [1.0, 0.5, 0.0])
def test_elo_equals_that_of_evalica(share: float) -> None:
    """All votes are equal, so that their order does not matter."""
    winner = {1.0: evalica.Winner.X, 0.5: evalica.Winner.Draw, 0.0: evalica.Winner.Y}[share]
    theirs = evalica.elo(["a"] * 60, ["b"] * 60, [winner] * 60).scores
    ratings = elo([("a", "b", share)] * 60, [f"c{number}" for number in range(60)])
    assert {system: rating.rating for system, rating in ratings.items()} == pytest.approx(dict(theirs), abs=1e-9)


def test_elo_of_even_votes_stays_at_its_initial_value() -> None:
    even = elo([("a", "b", 1.0), ("a", "b", 0.0)] * 20, [f"c{n}" for n in range(40)])
    assert even["a"].rating == pytest.approx(1000, abs=1)
    assert elo([], []) == {}


def test_elos_interval_is_over_conversations() -> None:
    """Twelve conversations with thirty votes each for one system count as twelve votes."""
    votes = [("a", "b", float(number % 2)) for number in range(12) for _ in range(30)]
    alike = elo(votes, [f"c{number}" for number in range(12) for _ in range(30)])["a"]
    alone = elo(votes, [f"c{number}" for number in range(360)])["a"]
    assert alike.high - alike.low > 2.5 * (alone.high - alone.low)
    assert alike.low < alike.rating < alike.high


def test_people_and_judges_share_only_the_agreement_table() -> None:
    people = [vote("a", "b", "first", battle_id=f"b{n}", vote_id=f"h{n}") for n in range(3)]
    votes_of_bob = [vote("b", "a", "second", battle_id=f"b{n}", rater="bob", vote_id=f"g{n}") for n in range(2)]
    judges = [vote("a", "b", "second", battle_id=f"b{n}", rater="m", kind="judge", vote_id=f"j{n}") for n in range(3)]
    sections = rating_sections([*people, *votes_of_bob, *judges])
    assert [section.title.partition(": ")[2] for section in sections] == [
        "votes by people",
        "votes by judges",
        "agreement of raters",
    ]
    assert sections[0].provenance["raters"] == "ann, bob"
    rows = {agreement.raters: agreement for agreement in vote_agreement([*people, *votes_of_bob, *judges])}
    assert rows["ann and bob"].equal_share == 1.0
    assert rows["ann and bob"].n == 2
    assert rows["people and judges"].equal_share == 0.0


@pytest.mark.parametrize(("view", "words"), [("side_by_side", "side by side"), ("revealed", "after the names")])
def test_votes_with_visible_names_share_no_table_with_blinded_votes(view: str, words: str) -> None:
    blinded = apart(["first"] * 6 + ["second"] * 4)
    named_votes = [
        blinded_vote.model_copy(update={"view": view, "vote_id": f"k{blinded_vote.vote_id}"})
        for blinded_vote in apart(["second"] * 7)
    ]
    blinded_section, named_section = rating_sections([*blinded, *named_votes])
    assert blinded_section == rating_sections(blinded)[0]
    assert named_section.title.endswith("votes by people who knew the systems")
    assert next(number for name, number in named_section.provenance.items() if name.startswith(words)) == "7"
    assert named_section.tables[0].rows[0][4] == "7 of 7"


def test_agreement_uses_blinded_votes() -> None:
    blinded = [vote("a", "b", battle_id="b1", vote_id=name, rater=name) for name in ("ann", "bob")]
    named_vote = vote("a", "b", "second", battle_id="b1", vote_id="k", rater="cem", view="side_by_side")
    table = rating_sections([*blinded, named_vote])[-1].tables[0]
    assert {row[0] for row in table.rows} == {"all people", "ann and bob"}


def test_people_and_judges_are_compared_by_medians() -> None:
    """Two of three raters for one system are a vote for it. If two raters differ, it is a tie."""
    people = [*opinions("ann", "first", "first"), *opinions("bob", "first", "second"), *opinions("cem", "second")]
    rows = {
        agreement.raters: agreement
        for agreement in vote_agreement([*people, *opinions("m", "first", "tie", kind="judge")])
    }
    assert rows["people and judges"].equal_share == 1.0
    assert rows["people and judges"].n == 2
    rows = {
        agreement.raters: agreement
        for agreement in vote_agreement([*people, *opinions("m", "second", "second", kind="judge")])
    }
    assert rows["people and judges"].equal_share == 0.0
    rows = {
        agreement.raters: agreement
        for agreement in vote_agreement([*people, *opinions("m", "tie", "first", kind="judge")])
    }
    assert rows["people and judges"].equal_share == 0.0


def a_tournament_with_a_stranger() -> list[Vote]:
    """Return votes of two raters on twelve conversations about `a` and `b`, and two on `c`."""
    lengths = [(12, 40), (50, 20), (33, 35), (18, 60), (44, 21), (25, 25), (61, 30), (15, 45), (28, 52), (70, 16)]
    choices = ["first", "second", "tie", "first", "first", "both_bad", "second", "first", "first", "first"]
    votes = [
        plain_vote.model_copy(
            update={
                "first": side("a", first_length, refuses=index in {2, 3}),
                "second": side("b", second_length),
                "answerability": "ANSWERABLE",
            }
        )
        for index, (plain_vote, (first_length, second_length)) in enumerate(zip(apart(choices), lengths, strict=True))
    ]
    votes += [
        plain_vote.model_copy(update={"rater": "bob", "vote_id": f"{plain_vote.vote_id} bob", "preference": "first"})
        for plain_vote in votes[:5]
    ]
    return [
        *votes,
        vote("c", "a", "second", conversation_id="c1", battle_id="x", vote_id="x", setting="reference"),
        vote("b", "c", "first", conversation_id="c2", battle_id="y", vote_id="y", setting="reference"),
    ]


def test_the_tables_contain_the_ratings() -> None:
    sections = rating_sections(a_tournament_with_a_stranger())
    same_message(render(sections, Format.MARKDOWN))


def test_many_raters_are_counted_and_not_named() -> None:
    def named(n: int) -> str:
        votes = [vote("a", "b", vote_id=str(number), rater=f"r{number}") for number in range(n)]
        return rating_sections(votes)[0].provenance["raters"]

    assert named(5) == "r0, r1, r2, r3, r4"
    assert named(6) == "6"


def test_systems_without_battles_and_small_p_values() -> None:
    votes = [*apart(["first"] * 30), *apart(["first"] * 30, ("c", "d"))]
    tables = counted(votes)
    assert tables["Win rates"].rows[0] == ("a", "", "-", "30 of 30", "-")
    assert {row[4] for row in tables["Pairs"].rows} == {"<0.001"}


def opinions(rater: str, *choices: str, kind: str = "human") -> list[Vote]:
    """Return a rater's votes on battles `b0`, `b1`, ..., without empty choices."""
    return [
        vote("a", "b", choice, battle_id=f"b{n}", vote_id=f"{rater} {n}", rater=rater, kind=kind)
        for n, choice in enumerate(choices)
        if choice
    ]


def test_agreement_is_over_battles_that_two_raters_share() -> None:
    """Two of three battles have several raters, and on one of these all three agree."""
    votes = [*opinions("ann", "first", "first", "first"), *opinions("bob", "first", "second")]
    votes += opinions("cem", "first")
    rows = vote_agreement(votes)
    assert [(row.raters, row.measure, row.equal_share, row.n) for row in rows] == [
        ("all people", "alpha", 0.5, 2),
        ("ann and bob", "kappa", 0.5, 2),
        ("ann and cem", "kappa", 1.0, 1),
        ("bob and cem", "kappa", 1.0, 1),
    ]


def test_raters_without_common_battles_have_no_agreement() -> None:
    votes = [*opinions("ann", "first"), *opinions("bob", "", "first")]
    assert rating_sections(votes)[-1].tables[0].rows == (("all people", "alpha", "-", "-", 0),)
    (row,) = vote_agreement([*opinions("ann", "first"), *opinions("bob", "", "first")])
    assert (row.raters, row.equal_share, row.n) == ("all people", None, 0)
    people_and_judges = vote_agreement([*opinions("ann", "first"), *opinions("m", "", "first", kind="judge")])
    assert [(row.raters, row.measure, row.equal_share, row.n) for row in people_and_judges] == [
        ("people and judges", "kappa", None, 0)
    ]


def test_a_preference_belongs_to_a_system_in_either_position() -> None:
    turned = [vote("b", "a", "second", battle_id="b0", vote_id="t", rater="bob")]
    (everybody, two) = vote_agreement([*opinions("ann", "first"), *turned])
    assert (everybody.equal_share, two.equal_share) == (1.0, 1.0)


def test_pairs_of_raters_with_most_common_battles_are_listed() -> None:
    votes = [opinion for n in range(7) for opinion in opinions(f"r{n}", *["first"] * (n + 1))]
    two = [row for row in vote_agreement(votes) if row.measure == "kappa"]
    assert len(two) == 15
    assert [row.n for row in two] == sorted((row.n for row in two), reverse=True)
    assert (two[0].raters, two[0].n) == ("r5 and r6", 6)


def test_a_split_between_raters_is_a_tie() -> None:
    """Half of the people prefer one system and half a tie: the median 0.75 is a vote for neither."""
    people = [*opinions("ann", "first", "first"), *opinions("bob", "tie", "first")]
    rows = vote_agreement([*people, *opinions("m", "tie", "first", kind="judge")])
    assert rows[-1].raters == "people and judges"
    assert rows[-1].equal_share == 1.0


def test_position_bias_is_counted_by_judge() -> None:
    orders = [("first", "first"), ("first", "second"), ("second", "first"), ("tie", "first")]
    votes = [
        vote("a", "b", "tie", rater="m", kind="judge", orders=pair, battle_id=str(n), vote_id=str(n))
        for n, pair in enumerate(orders)
    ]
    (section,) = rating_sections(votes)
    table = next(table for table in section.tables if table.title == "Position bias")
    assert table.rows == (("m", 4, 1, 1, 1, 1),)
    assert table.columns == (
        *("judge", "battles", "same in both orders", "always the first", "always the second", "tie in one order"),
    )
    assert table.note == "Only the same preference in both orders is a win; any other result is a tie."
    vote_of_n = votes[0].model_copy(update={"rater": "n", "vote_id": "n", "orders": ("second", "second")})
    table = counted([*votes, vote_of_n])["Position bias"]
    assert table.rows == (("m", 4, 1, 1, 1, 1), ("n", 1, 1, 0, 0, 0))


def test_no_vote_gives_no_section() -> None:
    assert rating_sections([]) == []


def test_p_of_a_pair_tests_one_half_and_agrees_with_its_interval() -> None:
    pairs = [pair for seed in range(4) for pair in rate(votes_of([-0.3, 0.0, 0.3], seed=seed)).pairs]
    outcomes = []
    for pair in pairs:
        outcomes.append(pair.p <= 0.05)
        assert outcomes[-1] == (pair.share.low > 0.5 or pair.share.high < 0.5)
    assert set(outcomes) == {True, False}
    assert {pair.p for pair in rate(votes_of([-1.0, 1.0], n=9)).pairs} == {None}

"""Races keep their level under repeated looks, end early if the data allow it, and report if they do not."""

from __future__ import annotations

import itertools
import random
from collections.abc import Callable, Mapping

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ragtasks.errors import ConfigurationError
from ragtasks.statistics import Race, RaceEnd
from ragtasks.statistics._decisions import (
    ALL_SCORED,
    HOPELESS,
    NO_SCORES,
    NOT_ENOUGH,
    ONE_VALUE,
    balanced,
    look_sizes,
    spent_levels,
)

Value = Callable[[str, int, int], float | None]
"""(system, conversation, turn) -> score."""


def raced(
    value: Value,
    *,
    n: int = 40,
    turns: int = 3,
    systems: tuple[str, ...] = ("a", "b"),
    seed: int = 0,
    **options: object,
) -> tuple[Race, list[tuple[str, str]]]:
    """Return a finished race, and every (system, item) that it requested."""
    position_of = {f"c{number:03} {turn}": (number, turn) for number in range(n) for turn in range(turns)}
    conversation_of = {item: item.split()[0] for item in position_of}
    race = Race(systems, conversation_of, seed=seed, **{"bounds": (0.0, 1.0)} | options)  # type: ignore[arg-type]
    requested = []
    while (wave := race.next_wave()) is not None:
        requested += [(name, item) for name in race.remaining for item in wave]
        race.add({name: {item: value(name, *position_of[item]) for item in wave} for name in race.remaining})
    return race, requested


def noise(seed: int, shifts: Mapping[str, float], spread: float = 0.15) -> Value:
    """Return values about 0.5, with effects of conversations and turns, and a shift per system."""
    chance = np.random.default_rng(seed)
    of_conversation = chance.normal(0, spread, (len(shifts), 200))
    of_turn = chance.normal(0, spread, (len(shifts), 200, 5))
    number = {name: index for index, name in enumerate(shifts)}
    return lambda name, c, t: float(
        np.clip(0.5 + shifts[name] + of_conversation[number[name], c] + of_turn[number[name], c, t], 0, 1)
    )


def test_levels_equal_published_values() -> None:
    # Pocock's two looks at 2.94 % each make 5 % together; O'Brien and Fleming's are 0.52 % and 4.80 %.
    assert spent_levels((0.5, 1.0), (0.02939, 0.05)) == pytest.approx((0.02939, 0.0294), abs=1e-4)
    assert spent_levels((0.5, 1.0), (0.00517, 0.05)) == pytest.approx((0.00517, 0.0480), abs=1e-4)
    # Spending evenly over six looks, against a simulated random walk.
    shares = np.arange(1, 7) / 6
    levels = spent_levels(tuple(shares), tuple(0.05 * shares))
    chance = np.random.default_rng(1)
    walks = np.cumsum(chance.normal(size=(200_000, 6)), axis=1) / np.sqrt(np.arange(1, 7))
    from scipy.special import ndtri

    crossed = np.abs(walks) > -ndtri(np.array(levels) / 2)
    first = np.where(crossed.any(axis=1), crossed.argmax(axis=1), 6)
    assert [float((first <= look).mean()) for look in range(6)] == pytest.approx(list(0.05 * shares), abs=0.0015)


@pytest.mark.parametrize("spread", [0.15, 0.4])
def test_equal_systems_are_called_different_in_5_percent_of_races(spread: float) -> None:
    result = [raced(noise(seed, {"a": 0.0, "b": 0.0}, spread), seed=seed, turns=2)[0] for seed in range(160)]
    wrong = sum(race.verdict is RaceEnd.BETTER for race in result) / len(result)
    assert wrong <= 0.08  # 5 % and two standard errors; the same test at 5 % a look gives 11 %


def test_systems_that_differ_by_the_margin_are_called_equal_in_5_percent_of_races() -> None:
    result = [raced(noise(seed, {"a": 0.0, "b": 0.1}), seed=seed, turns=2, margin=0.1)[0] for seed in range(160)]
    assert sum(race.verdict is RaceEnd.EQUAL for race in result) / len(result) <= 0.08


def test_a_large_difference_ends_the_race_early() -> None:
    race, requested = raced(noise(1, {"a": 0.0, "b": 0.3}), n=80)
    assert (race.verdict, race.remaining, list(race.eliminated)) == (RaceEnd.BETTER, ("b",), ["a"])
    assert race.n_items <= 30  # of 240
    assert len(requested) == 2 * race.n_items
    (look,) = race.looks
    assert look.difference.low > 0


def test_the_lower_score_wins_if_lower_is_better() -> None:
    race, _ = raced(noise(1, {"a": 0.0, "b": 0.3}), higher_is_better=False)
    assert race.remaining == ("a",)


def test_equal_systems_end_equal_and_their_interval_lies_within_the_margin() -> None:
    race, requested = raced(noise(1, {"a": 0.0, "b": 0.0}, 0.05), n=100, margin=0.05)
    assert race.verdict is RaceEnd.EQUAL
    assert len(requested) < 2 * 3 * 100 / 2
    (look,) = race.looks
    assert -0.05 < look.difference.low < look.difference.high < 0.05


def test_a_long_tail_ends_equal_only_if_its_far_end_is_within_the_margin() -> None:
    def tailed(seed: int) -> Value:
        chance = np.random.default_rng(seed).random((60, 3))
        return lambda name, c, t: 0.5 if name == "a" else 0.48 if chance[c, t] > 0.03 else 0.9

    ends = [raced(tailed(seed), n=60, margin=0.05)[0] for seed in range(40)]
    result = [look.difference for race in ends if race.verdict is RaceEnd.EQUAL for look in race.looks]
    assert len(result) >= 5
    assert all(
        difference.low is not None and difference.high is not None and difference.low > -0.05 and difference.high < 0.05
        for difference in result
    )


def test_a_race_ends_if_the_remaining_items_are_unlikely_to_decide_it() -> None:
    race, _ = raced(noise(3, {"a": 0.0, "b": 0.0}, 0.5), n=60, margin=0.01)
    assert (race.verdict, race.reason) == (RaceEnd.UNDECIDED, HOPELESS)
    assert race.n_items < 3 * 60
    assert max(look.chance for look in race.looks) < 0.15


def test_a_complete_race_reports_that_all_answers_are_scored() -> None:
    reasons = {raced(noise(seed, {"a": 0.0, "b": 0.25}, 0.25), n=12)[0].reason for seed in range(12)}
    assert ALL_SCORED in reasons


@pytest.mark.parametrize(
    ("value", "reason", "n_asked"),
    [(lambda *_: 0.7, ONE_VALUE, 57), (lambda *_: 0.0, ONE_VALUE, 57), (lambda *_: None, NO_SCORES, 19)],
)
def test_equal_scores_end_the_race_early_without_a_decision(value: Value, reason: str, n_asked: int) -> None:
    race, _ = raced(value, n=100)
    assert (race.verdict, race.reason, race.n_items) == (RaceEnd.UNDECIDED, reason, n_asked)
    assert {look.n_items for look in race.looks} <= {n_asked}


def test_a_few_equal_scores_do_not_end_the_race() -> None:
    late = balanced({f"c{number:03} 0": f"c{number:03}" for number in range(60)}, 0)[20:]
    race, _ = raced(lambda name, c, _: 0.0 if name == "a" and f"c{c:03} 0" in late else 1.0, n=60, turns=1)
    assert (race.verdict, race.remaining) == (RaceEnd.BETTER, ("b",))


def test_a_pair_without_shared_scores_does_not_end_the_race() -> None:
    early = balanced({f"c{number:03} 0": f"c{number:03}" for number in range(60)}, 0)[:15]
    value = noise(1, {"a": 0.0, "b": 0.0, "c": 0.4})
    race, _ = raced(
        lambda name, c, t: None if name == "c" and f"c{c:03} 0" in early else value(name, c, t),
        n=60,
        turns=1,
        systems=("a", "b", "c"),
    )
    assert (race.verdict, race.remaining) == (RaceEnd.BETTER, ("c",))


@pytest.mark.parametrize("n", [0, 1, 9])
def test_a_race_with_few_conversations_scores_no_items(n: int) -> None:
    race, requested = raced(noise(1, {"a": 0.0, "b": 0.4}), n=n)
    assert (race.verdict, race.reason, requested) == (RaceEnd.UNDECIDED, NOT_ENOUGH, [])


def test_missing_scores_are_left_out_of_both_sides() -> None:
    value = noise(1, {"a": 0.0, "b": 0.3})
    race, _ = raced(lambda name, c, t: None if name == "b" and t == 0 else value(name, c, t))
    assert race.verdict is RaceEnd.BETTER
    result = race.looks[0].difference
    assert result.n_values + result.n_unscored == race.n_items
    assert 0.25 < result.n_unscored / race.n_items < 0.45


def test_beaten_systems_are_not_scored_further() -> None:
    shifts = {"a": 0.1, "b": -0.4, "c": 0.06, "d": -0.35}
    race, requested = raced(noise(2, shifts), systems=tuple(shifts), n=100, margin=0.02)
    n_of = {name: sum(system == name for system, _ in requested) for name in shifts}
    assert {"b", "d"} <= set(race.eliminated)
    assert n_of["b"] < n_of["a"]
    assert n_of["d"] < n_of["a"]
    assert race.verdict is not None
    assert "a" in race.remaining


def test_several_equal_systems_have_the_error_rate_of_two() -> None:
    """Four systems have six pairs: without a share of the level for each, ten or more would be eliminated."""
    names = dict.fromkeys("abcd", 0.0)
    result = [raced(noise(seed, names), systems=tuple(names), turns=1, n=30, seed=seed)[0] for seed in range(60)]
    assert sum(race.verdict is RaceEnd.BETTER for race in result) <= 3
    assert sum(len(race.eliminated) for race in result) <= 6


def test_several_systems_need_more_evidence_than_two() -> None:
    """A difference at p = 3 % decides between two systems, not among four: each of three rivals has a third of 5 %."""

    def value(name: str, c: int, _: int) -> float:
        return 0.5 + (0.1 + 0.0405 * (c % 2 * 2 - 1) * 3 if name == "b" else 0.0) + 0.0001 * c

    two, _ = raced(value, n=10, turns=1)
    assert two.verdict is RaceEnd.BETTER
    (look,) = two.looks
    assert 0.05 / 3 < look.difference.p <= 0.05
    four, _ = raced(value, n=10, turns=1, systems=("a", "b", "c", "d"))
    assert (four.verdict, four.eliminated) == (RaceEnd.UNDECIDED, {})


def test_a_cycle_of_systems_has_no_winner() -> None:
    """Each system has no scores for a third of the conversations, so that a beats b, b beats c, and c beats a."""

    def value(name: str, c: int, _: int) -> float | None:
        return (None, 0.9, 0.1)[(c - "abc".index(name)) % 3]

    race, _ = raced(value, n=60, systems=("a", "b", "c"))
    assert (race.verdict, race.remaining, set(race.eliminated)) == (RaceEnd.UNDECIDED, ("a", "b", "c"), {"a", "b", "c"})
    assert "which of a, b and c is better" in race.conclusion("rb_llm")


def test_rivals_are_scored_until_all_pairs_are_equal() -> None:
    def value(name: str, c: int, t: int) -> float:
        swing = 0.12 if (c + t) % 2 else -0.12
        return {"a": 0.6, "b": 0.59 + swing, "c": 0.59 - swing}[name]

    race, _ = raced(value, n=60, systems=("a", "b", "c"), margin=0.07)
    assert (race.verdict, race.remaining) == (RaceEnd.EQUAL, ("a", "b", "c"))


@given(st.integers(0, 10_000), st.integers(0, 5))
@settings(max_examples=15, deadline=None)
def test_the_order_of_the_data_does_not_matter(seed: int, order: int) -> None:
    value = noise(seed, {"a": 0.0, "b": 0.08})
    items = {f"c{number:03} {turn}": f"c{number:03}" for number in range(24) for turn in range(2)}
    mixed = list(items.items())
    random.Random(seed).shuffle(mixed)
    ends = []
    for conversation_of, systems in ((items, ("a", "b")), (dict(mixed), ("b", "a"))):
        race = Race(systems, conversation_of, bounds=(0.0, 1.0), seed=order)
        while (wave := race.next_wave()) is not None:
            chosen = wave if systems[0] == "a" else tuple(reversed(wave))
            race.add({name: {i: value(name, int(i[1:4]), int(i[-1])) for i in chosen} for name in systems})
        ends.append((race.verdict, race.reason, set(race.remaining), race.n_items))
    assert ends[0] == ends[1]


def test_every_prefix_has_about_the_same_share_of_each_conversation() -> None:
    conversation_of = {f"c{number} {turn}": f"c{number}" for number in range(30) for turn in range(1 + number % 9)}
    order = balanced(conversation_of, 1)
    assert sorted(order) == sorted(conversation_of)
    for n in (20, 50, 100, len(conversation_of)):
        for name in set(conversation_of.values()):
            n_of = sum(conversation == name for conversation in conversation_of.values())
            assert (
                abs(sum(conversation_of[item] == name for item in order[:n]) - n_of * n / len(conversation_of)) <= 1.5
            )


def test_another_seed_gives_another_order() -> None:
    conversation_of = {f"c{number} {turn}": f"c{number}" for number in range(30) for turn in range(4)}
    first, second = balanced(conversation_of, 1), balanced(conversation_of, 2)
    assert first != second
    assert balanced(dict(reversed(list(conversation_of.items()))), 1) == first
    assert {item[-1] for item in first[:30]} == set("0123")


@pytest.mark.parametrize(
    ("n", "first"),
    [(10, [10]), (12, [10, 11, 12]), (20, [10, 12, 13, 14]), (160, [10, 20, 30]), (1000, [63, 125, 188])],
)
def test_looks_are_evenly_spaced_from_the_minimum(n: int, first: list[int]) -> None:
    sizes = look_sizes([str(number) for number in range(n)])
    assert list(sizes[: len(first)]) == first
    gaps = {after - before for before, after in itertools.pairwise(sizes[1:])}
    assert not gaps or max(gaps) - min(gaps) <= 1


@pytest.mark.parametrize(("n", "turns"), [(10, 1), (11, 1), (20, 8), (89, 3), (110, 7), (1000, 1)])
def test_looks_begin_at_the_minimum_and_end_with_all_items(n: int, turns: int) -> None:
    conversation_of = {f"c{number} {turn}": f"c{number}" for number in range(n) for turn in range(turns)}
    conversations = [conversation_of[item] for item in balanced(conversation_of, 0)]
    sizes = look_sizes(conversations)
    assert len(set(conversations[: sizes[0]])) >= 10
    assert sizes[-1] == n * turns
    assert list(sizes) == sorted(set(sizes))
    assert len(sizes) <= 16


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"margin": 0.0}, "margin 0"),
        ({"margin": -1.0}, "margin -1"),
        ({"margin": float("nan")}, "margin nan"),
        ({"margin": 1.5}, "below 1"),
        ({"bounds": (0.0, float("inf"))}, "set a margin"),
        ({"bounds": (0.0, float("inf")), "margin": float("inf")}, "margin inf"),
        ({"level": 0.5}, "level"),
        ({"systems": ("a",)}, "two systems"),
        ({"systems": ("a", "a")}, "two systems"),
        ({"systems": ("a", "b", "c"), "is_gate": True}, "against one baseline"),
    ],
)
def test_invalid_settings_of_a_race_are_an_error(options: dict[str, object], text: str) -> None:
    with pytest.raises(ConfigurationError, match=text):
        raced(noise(1, {"a": 0.0, "b": 0.0}), **options)  # type: ignore[arg-type]


def test_a_metric_without_a_range_accepts_any_margin() -> None:
    race, _ = raced(noise(1, {"a": 0.0, "b": -0.4}), bounds=(float("-inf"), float("inf")), margin=1.5)
    assert race.verdict is RaceEnd.EQUAL
    assert race.margin == 1.5


# The same looks as a gate: the second system against the first, with an allowed drop.


def gated(lost: float, n: int = 160, **options: object) -> list[str]:
    """Return the results of races of a system with this loss, if 0.1 is allowed."""
    given = {"turns": 2, "margin": 0.1, "is_gate": True, **options}
    races = [raced(noise(seed, {"a": 0.0, "b": -lost}), seed=seed, **given)[0] for seed in range(n)]  # type: ignore[arg-type]
    return [race.conclusion("rb_llm").partition(":")[0] for race in races]


def test_a_drop_of_the_margin_passes_in_half_of_5_percent_and_fails_in_the_other() -> None:
    ends = gated(0.1)
    assert ends.count("not worse") / len(ends) <= 0.05  # 2.5 % and two standard errors
    assert ends.count("worse") / len(ends) <= 0.05


def test_an_unchanged_system_passes_and_a_much_worse_one_fails() -> None:
    assert gated(0.0, 20, margin=0.2).count("not worse") >= 18
    assert gated(0.3, 20).count("worse") >= 18
    assert "worse" not in gated(0.0, 60)


def test_a_gate_reverses_the_direction_if_lower_is_better() -> None:
    assert gated(-0.3, 5, higher_is_better=False) == ["worse"] * 5
    assert gated(0.3, 5, higher_is_better=False) == ["not worse"] * 5

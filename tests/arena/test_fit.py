"""Strengths compared with an independent implementation, and cases without strengths."""

from __future__ import annotations

import math
from collections.abc import Sequence

import evalica
import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from scipy import optimize

from ragtasks.arena.bradley_terry import NO_MAXIMUM, fit
from ragtasks.statistics import Floats
from tests.arena._made import Tournament, tournament


@st.composite
def tournaments(draw: st.DrawFn) -> Tournament:
    strengths = draw(st.lists(st.floats(-1.5, 1.5), min_size=2, max_size=6))
    nu = draw(st.sampled_from([0.0, 0.3, 1.0]))
    n_votes = draw(st.integers(10, 80))
    return tournament(strengths, nu=nu, n_conversations=1, n_votes=n_votes, seed=draw(st.integers(0, 10_000)))


def unlikelihood(votes: list[tuple[str, str, float]], systems: Sequence[str], point: Floats) -> float:
    """Return minus the log-likelihood of Davidson's model, written out vote by vote; the point ends in log nu."""
    total = 0.0
    for first, second, share in votes:
        half = (point[systems.index(first)] - point[systems.index(second)]) / 2
        chances = {1.0: math.exp(half), 0.0: math.exp(-half), 0.5: math.exp(point[-1])}
        total -= math.log(chances[share] / sum(chances.values()))
    return total


@given(tournaments())
@settings(max_examples=25, deadline=None)
def test_no_optimiser_finds_a_likelier_point(made: Tournament) -> None:
    votes, _ = made
    fitted = fit(votes)
    assume(fitted.systems and not fitted.unrated)
    assume(np.abs(fitted.strengths).max() < 8)
    log_tie = -50.0 if fitted.log_tie is None else fitted.log_tie
    own = unlikelihood(votes, fitted.systems, np.append(fitted.strengths, log_tie))
    start = np.append(np.zeros(len(fitted.systems)), log_tie)
    best = optimize.minimize(lambda point: unlikelihood(votes, fitted.systems, point), start, method="L-BFGS-B")
    assert own <= best.fun + 1e-6
    assert own == pytest.approx(best.fun, abs=1e-2)


@pytest.mark.parametrize("nu", [0.0, 0.5])
@pytest.mark.parametrize("seed", range(3))
def test_strengths_equal_those_of_evalica(nu: float, seed: int) -> None:
    votes, _ = tournament([-1.0, -0.3, 0.0, 0.4, 0.9], nu=nu, n_conversations=1, n_votes=300, seed=seed)
    fitted = fit(votes)
    names = {1.0: evalica.Winner.X, 0.0: evalica.Winner.Y, 0.5: evalica.Winner.Draw}
    firsts, seconds, shares = zip(*votes, strict=True)
    rate = evalica.newman if nu else evalica.bradley_terry
    theirs = rate(firsts, seconds, [names[share] for share in shares], tolerance=1e-13, limit=100_000)
    logs = np.log(theirs.scores).sort_index()
    assert fitted.strengths == pytest.approx((logs - logs.mean()).to_numpy(), abs=1e-6)
    if fitted.log_tie is not None:
        assert fitted.log_tie == pytest.approx(np.log(2 * theirs.v), abs=1e-6)


@given(tournaments(), st.randoms())
@settings(max_examples=20, deadline=None)
def test_the_order_of_votes_and_sides_does_not_matter(made: Tournament, chance: object) -> None:
    votes, _ = made
    turned = [(second, first, 1 - share) for first, second, share in reversed(votes)]
    first, second = fit(votes), fit(turned)
    assert first.systems == second.systems
    assert first.strengths == pytest.approx(second.strengths, abs=1e-6)


def test_each_vote_moves_a_strength_by_its_influence() -> None:
    votes, _ = tournament([0.0, 0.5, -0.5], nu=0.4, n_conversations=1, n_votes=400, seed=3)
    fitted = fit(votes)
    assert fitted.influence.sum(axis=0) == pytest.approx(0, abs=1e-8)
    without = fit(votes[1:])
    assert without.strengths - fitted.strengths == pytest.approx(-fitted.influence[0], abs=2e-4)


def test_a_covariate_removes_its_effect() -> None:
    votes, _ = tournament([0.0, 0.0], nu=0.0, n_conversations=1, n_votes=600, seed=1)
    lengths = np.array([1.0 if share == 1 else -1.0 for *_, share in votes])
    lengths[::3] *= -1  # longer answers win two of three votes
    fitted = fit(votes, lengths)
    assert fitted.slope == pytest.approx(np.log(2), abs=0.1)


def test_an_undefeated_system_has_no_rating_and_the_others_do() -> None:
    circle = [("a", "b", 1.0), ("b", "c", 1.0), ("c", "a", 1.0)]
    fitted = fit([*circle, ("best", "a", 1.0), ("worst", "b", 0.0), ("x", "y", 1.0)])
    assert fitted.systems == ("a", "b", "c")
    assert fitted.strengths == pytest.approx(0, abs=1e-9)
    assert fitted.unrated["best"] == "won every battle: no finite rating"
    assert fitted.unrated["worst"] == "lost every battle: no finite rating"
    assert set(fitted.unrated) == {"best", "worst", "x", "y"}


@pytest.mark.parametrize("n_wins", [1, 3, 40])
def test_wins_and_ties_without_a_loss_have_no_finite_rating(n_wins: int) -> None:
    votes = [("a", "b", 0.5)] * 7 + [("a", "b", 1.0)] * n_wins
    fitted = fit(votes)
    assert (fitted.systems, fitted.unrated) == ((), {"a": NO_MAXIMUM, "b": NO_MAXIMUM})
    assert fit([*votes, ("a", "b", 0.0)]).systems == ("a", "b")


def test_long_chains_and_rare_upsets_keep_their_rating() -> None:
    chain = [(f"s{n}", f"s{n + 1}", share) for n in range(80) for share in (1.0, 0.5, 0.0)]
    assert len(fit(chain).systems) == 81
    upset = fit([*[("a", "b", 1.0)] * 20_000, ("a", "b", 0.0)])
    assert upset.strengths[0] - upset.strengths[1] == pytest.approx(math.log(20_000), abs=1e-6)


def test_wins_outside_the_rated_group_are_reported() -> None:
    circle = [("a", "b", 1.0), ("b", "c", 1.0), ("c", "a", 1.0)]
    fitted = fit([*circle, *[("w", "a", 0.0)] * 27, *[("w", "z", 1.0)] * 23])
    assert fitted.unrated["w"] == "lost every battle against rated systems: no finite rating"
    assert fitted.unrated["z"] == "lost every battle: no finite rating"


def test_a_system_that_only_lost_to_some_and_won_against_others_is_in_no_cycle() -> None:
    """`w` never lost to the rated systems and drew with none of them: it ranks above them through `v`."""
    circle = [("a", "b", 1.0), ("b", "c", 1.0), ("c", "a", 1.0)]
    fitted = fit([*circle, ("a", "w", 0.0), ("w", "v", 0.0), ("v", "w", 0.0), ("u", "v", 1.0), ("u", "x", 0.0)])
    assert fitted.systems == ("a", "b", "c")
    assert fitted.unrated["w"] == "won every battle against rated systems: no finite rating"
    assert fitted.unrated["v"] == fitted.unrated["u"] == "no cycle of wins or ties with rated systems"


def test_the_cycle_with_more_votes_is_rated() -> None:
    small = [("a", "b", 1.0), ("b", "a", 1.0)]
    large = [("y", "z", 1.0), ("z", "y", 1.0), ("y", "z", 0.5)]
    assert fit([*small, *large]).systems == ("y", "z")
    assert fit([*small, *large[:2]]).systems == ("a", "b")
    assert fit([*large, *small, ("b", "c", 1.0), ("c", "a", 1.0)]).systems == ("a", "b", "c")


def test_only_ties_and_no_votes() -> None:
    assert fit([("a", "b", 0.5)] * 3).unrated == {"a": "only ties", "b": "only ties"}
    assert fit([]).systems == ()


def test_a_likelihood_without_maximum_gives_no_number() -> None:
    # A cycle of wins and ties whose strengths can grow without limit: a and c far apart, b between them.
    fitted = fit([("a", "c", 1.0), ("a", "b", 0.5), ("b", "c", 0.5)])
    assert fitted.systems == ()
    assert "no finite rating" in fitted.unrated["a"]

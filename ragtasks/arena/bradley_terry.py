"""Bradley-Terry strengths with ties, by Newton's method, and how much each vote moves them.

The model is Davidson's: first wins, second wins and tie have probabilities in the ratio exp(d/2) : exp(-d/2) : nu. Here
d is the difference of the strengths, plus a slope times a covariate if one is given. Without ties this is plain
Bradley-Terry. Strengths add up to 0.
evalica and choix fit the same model; neither accepts a covariate or reports how much a vote moves the result, which the
intervals over conversations need. evalica is the oracle of the tests.
Sources: R. R. Davidson, On extending the Bradley-Terry model to accommodate ties (1970); L. R. Ford, Solution of a
ranking problem from binary comparisons (1957), on when there is a solution.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from ragtasks.statistics import Floats

Comparison = tuple[str, str, float]
"""(First system, second system, share of the first: 1, 0.5 or 0)."""

NO_MAXIMUM = "no finite rating explains these votes: too few of them, or too one-sided"
"""The reason where Newton's method runs away."""
ONLY_TIES = "nothing but ties"
"""The reason where nobody ever won."""

_MOST_STEPS = 100
_FARTHEST = 30.0  # a strength that wins 1 in 10^13: the likelihood has no maximum
_CLOSE_ENOUGH = 1e-10


@dataclass(frozen=True, slots=True, eq=False)
class Fit:
    """The strengths of systems that can be compared, and what they rest on."""

    systems: tuple[str, ...]
    """Systems with a finite strength, sorted; () for none."""
    strengths: Floats
    """Log-odds of winning, they add up to 0; shape (systems,)."""
    slope: float | None
    """What one unit of the covariate adds to the difference; None without one."""
    log_tie: float | None
    """Log of Davidson's nu; None where no vote is a tie."""
    votes: tuple[int, ...]
    """Places of the votes that were used: those between two of the systems."""
    influence: Floats
    """How much each vote moves each strength, and last the slope where there is one; shape (votes, systems [+ 1]).
    Columns add up to 0.
    """
    unrated: dict[str, str]
    """System -> why it has no strength."""

    def pseudo_values(self, place: int) -> Floats:
        """Return one value a vote, whose mean is strength `place` (or the slope, past the last)."""
        value = self.strengths[place] if place < len(self.systems) else (self.slope or 0.0)
        return np.asarray(value + len(self.votes) * self.influence[:, place])


def fit(comparisons: Sequence[Comparison], covariate: Floats | None = None) -> Fit:
    """Return the strengths that make the votes most likely.

    A strength is finite only among systems of which each has beaten or tied the next in a circle; the largest such
    group is rated, and the others are named with the reason.
    """
    systems, unrated = _rated_group(comparisons)
    chosen = [place for place, (one, other, _) in enumerate(comparisons) if {one, other} <= set(systems)]
    used = [comparisons[place] for place in chosen]
    if all(share == 0.5 for *_, share in used):
        return _without(unrated | dict.fromkeys(systems, ONLY_TIES if used else "no vote"))
    design = _design(systems, used)
    if covariate is not None:
        design = np.column_stack([design, covariate[chosen]])
    found = _maximise(design, np.array([share for *_, share in used]))
    if found is None:
        return _without(unrated | dict.fromkeys(systems, NO_MAXIMUM))
    estimate, log_tie, influence = found
    n_free = len(systems) - 1
    rows = influence[:, :n_free]
    columns = [rows, -rows.sum(axis=1, keepdims=True)]
    if covariate is not None:
        columns.append(influence[:, n_free : n_free + 1])
    return Fit(
        systems=tuple(systems),
        strengths=np.append(estimate[:n_free], -estimate[:n_free].sum()),
        slope=float(estimate[n_free]) if covariate is not None else None,
        log_tie=log_tie,
        votes=tuple(chosen),
        influence=np.hstack(columns),
        unrated=unrated,
    )


def _without(unrated: dict[str, str]) -> Fit:
    return Fit((), np.zeros(0), None, None, (), np.zeros((0, 0)), unrated)


def _design(systems: Sequence[str], used: Sequence[Comparison]) -> Floats:
    """Return what each free strength adds to a vote's difference; the last one is minus the sum of the others."""
    place = {system: index for index, system in enumerate(systems)}
    signs = np.zeros((len(used), len(systems)))
    for row, (one, other, _) in enumerate(used):
        signs[row, place[one]] += 1
        signs[row, place[other]] -= 1
    return np.asarray(signs[:, :-1] - signs[:, -1:])


def _maximise(design: Floats, shares: Floats) -> tuple[Floats, float | None, Floats] | None:
    """Return (parameters, log nu, influence of each vote on each), or None where there is no finite maximum."""
    has_ties = bool((shares == 0.5).any())
    n_free = design.shape[1]
    point = np.zeros(n_free + has_ties)
    value, gradients, information = _derivatives(design, shares, point, has_ties)
    for _ in range(_MOST_STEPS):
        try:
            step = np.linalg.solve(information, gradients.sum(axis=0))
        except np.linalg.LinAlgError:
            return None
        size = 1.0
        while size > 1e-6:
            following = _derivatives(design, shares, point + size * step, has_ties)
            if following[0] >= value:
                break
            size /= 2
        point = point + size * step
        value, gradients, information = following
        if np.abs(point).max() > _FARTHEST:
            return None
        if np.abs(step).max() < _CLOSE_ENOUGH:
            break
    else:
        return None
    influence = np.linalg.solve(information, gradients.T).T
    return point, float(point[-1]) if has_ties else None, np.asarray(influence)


def _derivatives(design: Floats, shares: Floats, point: Floats, has_ties: bool) -> tuple[float, Floats, Floats]:
    """Return the log-likelihood, each vote's gradient (shape (votes, parameters)) and the information matrix."""
    n_free = design.shape[1]
    half = design @ point[:n_free] / 2
    log_tie = point[-1] if has_ties else -np.inf
    total = np.logaddexp(np.logaddexp(half, -half), log_tie)
    win, loss, tie = np.exp(half - total), np.exp(-half - total), np.exp(log_tie - total)
    is_tie = shares == 0.5
    value = float((np.where(is_tie, log_tie if has_ties else 0.0, (2 * shares - 1) * half) - total).sum())
    expected = (win - loss) / 2
    gradients = (shares - 0.5 - expected)[:, None] * design
    information = design.T @ (((win + loss) / 4 - expected**2)[:, None] * design)
    if not has_ties:
        return value, gradients, information
    cross = -design.T @ (tie * expected)
    below = np.append(cross, (tie * (1 - tie)).sum())
    return (
        value,
        np.column_stack([gradients, is_tie - tie]),
        np.vstack([np.column_stack([information, cross]), below]),
    )


def _rated_group(comparisons: Sequence[Comparison]) -> tuple[list[str], dict[str, str]]:
    """Return the largest group in which everyone leads to everyone by wins and ties, and why the others are not in it.

    Of groups of one size, the one with most votes is taken, then the first by name.
    """
    beaten: dict[str, set[str]] = {system: set() for one, other, _ in comparisons for system in (one, other)}
    for one, other, share in comparisons:
        if share > 0:
            beaten[one].add(other)
        if share < 1:
            beaten[other].add(one)
    reached = {system: _reachable(system, beaten) for system in beaten}
    groups = {tuple(sorted(other for other in found if system in reached[other])) for system, found in reached.items()}
    if not groups:
        return [], {}
    n_votes = {group: sum({one, other} <= set(group) for one, other, _ in comparisons) for group in groups}
    best = min(groups, key=lambda group: (-len(group), -n_votes[group], group))
    if len(best) == 1:
        return [], {system: _reason(system, comparisons, set()) for system in beaten}
    return list(best), {system: _reason(system, comparisons, set(best)) for system in beaten if system not in best}


def _reachable(start: str, beaten: dict[str, set[str]]) -> set[str]:
    found, waiting = {start}, [start]
    while waiting:
        new = beaten[waiting.pop()] - found
        found |= new
        waiting += new
    return found


def _reason(system: str, comparisons: Sequence[Comparison], group: set[str]) -> str:
    """Return why a system is not rated: what its votes were all alike in, else those against the rated ones alone."""
    relevant = [
        (share if one == system else 1 - share, other if one == system else one)
        for one, other, share in comparisons
        if system in {one, other}
    ]
    against = [(share, other) for share, other in relevant if other in group]
    for chosen, words in ((relevant, ""), (against, " against those that are rated")):
        shares = {share for share, _ in chosen}
        if shares in ({1.0}, {0.0}):
            return f"{'won' if shares == {1.0} else 'lost'} every battle{words}: no finite rating"
    return "no circle of wins or ties with those that are rated"

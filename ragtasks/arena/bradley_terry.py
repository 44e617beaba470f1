"""Bradley-Terry strengths with ties by Newton's method, and the influence of each vote on them.

The model is Davidson's. First wins, second wins and ties have probabilities in the ratio exp(d/2) : exp(-d/2) : nu,
where d is the difference of the strengths, plus a slope times a covariate if given. Without ties this is plain
Bradley-Terry. Strengths sum to 0.

evalica and choix fit the same model. Neither accepts a covariate or reports the influence of a vote, which intervals
over conversations require. Tests compare with evalica.

Sources: R. R. Davidson, On extending the Bradley-Terry model to accommodate ties (1970); L. R. Ford, Solution of a
ranking problem from binary comparisons (1957), on the existence of a solution.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from ragtasks.statistics import Floats
from ragtasks.tables import grouped

Comparison = tuple[str, str, float]
"""(first system, second system, share of the first: 1, 0.5 or 0)."""

NO_MAXIMUM = "no finite rating fits these votes: they are too few or too one-sided"
"""Reason if the likelihood has no maximum, for example if one of two systems never wins but ties."""
ONLY_TIES = "only ties"
"""Reason if no vote has a winner."""

_MOST_STEPS = 100
_FARTHEST = 30.0  # a strength that wins all but 1 in 10^13: the likelihood has no maximum
_CLOSE_ENOUGH = 1e-10
_WORST_CONDITION = 1e10  # of the scaled information: above it, a direction of the likelihood is flat


@dataclass(frozen=True, slots=True, eq=False)
class Fit:
    """The fitted strengths of comparable systems."""

    systems: tuple[str, ...]
    """Systems with a finite strength, sorted."""
    strengths: Floats
    """Log-odds of winning, with sum 0; shape (systems,)."""
    slope: float | None
    """Change of the difference per unit of the covariate; None without a covariate."""
    log_tie: float | None
    """Log of Davidson's nu; None without ties."""
    votes: tuple[int, ...]
    """Indices of the votes in the fit: those between two of `systems`."""
    influence: Floats
    """Influence of each vote on each strength and, as the last column, on the slope.

    Shape (votes, systems [+ 1]); columns sum to 0.
    """
    unrated: dict[str, str]
    """System -> why it has no strength."""

    def pseudo_values(self, index: int) -> Floats:
        """Return a value per vote, whose mean is the strength at `index`, or the slope for `len(systems)`."""
        value = self.strengths[index] if index < len(self.systems) else (self.slope or 0.0)
        return np.asarray(value + len(self.votes) * self.influence[:, index])


def fit(comparisons: Sequence[Comparison], covariate: Floats | None = None) -> Fit:
    """Return the maximum-likelihood strengths.

    Strengths are finite only within a group whose members are connected in a cycle of wins or ties. The largest such
    group is rated. `unrated` contains the reason for each other system.
    """
    systems, unrated = _rated_group(comparisons)
    indices = [index for index, (first, second, _) in enumerate(comparisons) if {first, second} <= set(systems)]
    used = [comparisons[index] for index in indices]
    if all(share == 0.5 for *_, share in used):
        return _without(unrated | dict.fromkeys(systems, ONLY_TIES if used else "no vote"))
    design = _design(systems, used)
    if covariate is not None:
        design = np.column_stack([design, covariate[indices]])
    solution = _maximise(design, np.array([share for *_, share in used]))
    if solution is None:
        return _without(unrated | dict.fromkeys(systems, NO_MAXIMUM))
    estimate, log_tie, influence = solution
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
        votes=tuple(indices),
        influence=np.hstack(columns),
        unrated=unrated,
    )


def _without(unrated: dict[str, str]) -> Fit:
    return Fit((), np.zeros(0), None, None, (), np.zeros((0, 0)), unrated)


def _design(systems: Sequence[str], used: Sequence[Comparison]) -> Floats:
    """Return the coefficient of each free strength in a vote's difference. The last one is minus their sum."""
    index_of = {system: index for index, system in enumerate(systems)}
    signs = np.zeros((len(used), len(systems)))
    for row, (first, second, _) in enumerate(used):
        signs[row, index_of[first]] += 1
        signs[row, index_of[second]] -= 1
    return np.asarray(signs[:, :-1] - signs[:, -1:])


def _maximise(design: Floats, shares: Floats) -> tuple[Floats, float | None, Floats] | None:
    """Return (parameters, log nu, influence of each vote on each), or None without a finite maximum."""
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
            trial = _derivatives(design, shares, point + size * step, has_ties)
            if trial[0] >= value:
                break
            size /= 2
        point = point + size * step
        value, gradients, information = trial
        if np.abs(point).max() > _FARTHEST:
            return None
        if np.abs(step).max() < _CLOSE_ENOUGH:
            break
    else:
        return None
    scale = np.sqrt(np.diag(information))
    if not scale.all() or np.linalg.cond(information / np.outer(scale, scale)) > _WORST_CONDITION:
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
    """Return the largest group connected by wins and ties, and the reason for each system outside of it.

    Among groups of equal size, the group with most votes is selected, then the first by name.
    """
    from scipy.sparse.csgraph import connected_components

    systems = sorted({system for first, second, _ in comparisons for system in (first, second)})
    if not systems:
        return [], {}
    index_of = {system: index for index, system in enumerate(systems)}
    beats = np.zeros((len(systems), len(systems)), dtype=bool)
    for first, second, share in comparisons:
        beats[index_of[first], index_of[second]] |= share > 0
        beats[index_of[second], index_of[first]] |= share < 1
    _, labels = connected_components(beats, connection="strong")
    groups = grouped(systems, lambda system: int(labels[index_of[system]])).values()

    def rank(group: list[str]) -> tuple[int, int, list[str]]:
        n_votes = sum({first, second} <= set(group) for first, second, _ in comparisons)
        return -len(group), -n_votes, group

    best = min(groups, key=rank)
    best = best if len(best) > 1 else []
    return best, {system: _reason(system, comparisons, set(best)) for system in systems if system not in best}


def _reason(system: str, comparisons: Sequence[Comparison], group: set[str]) -> str:
    """Return why a system is not rated: only wins or losses (overall or against rated systems), or no cycle."""
    relevant = [
        (share if first == system else 1 - share, second if first == system else first)
        for first, second, share in comparisons
        if system in {first, second}
    ]
    against = [(share, opponent) for share, opponent in relevant if opponent in group]
    for pairs, words in ((relevant, ""), (against, " against rated systems")):
        shares = {share for share, _ in pairs}
        if shares in ({1.0}, {0.0}):
            return f"{'won' if shares == {1.0} else 'lost'} every battle{words}: no finite rating"
    return "no cycle of wins or ties with rated systems"

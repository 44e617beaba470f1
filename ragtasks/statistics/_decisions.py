"""Sequential test of which system is better: it may be evaluated repeatedly while answers are scored.

The test receives scores in waves and returns the next wave to score. It does not depend on how answers are scored.
"""

from __future__ import annotations

import functools
import hashlib
import itertools
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import Enum

import numpy as np

from ragtasks.errors import ConfigurationError
from ragtasks.statistics._means import (
    LEVEL,
    MIN_CLUSTERS,
    UNBOUNDED,
    Clustered,
    Column,
    Estimate,
    Floats,
    compare,
    estimate_means,
)
from ragtasks.tables import grouped

# Items are scored in an order shuffled by a seed, all conversations at the same pace: further turns of a conversation
# carry less new information than turns of other conversations. After each wave the paired differences of all remaining
# systems are tested with the statistic of `compare`, with conversations as clusters. Repeated tests at a fixed level
# would call equal systems different too often, so each look has its own level (an error-spending boundary):
# - "better" spends half of its 5 % evenly over the items, and the other half when all items are scored, so a complete
#   race has nearly the power of a single test;
# - "equal within a margin" is two one-sided tests against the margin, whose 5 % are spent evenly.
#
# The levels assume sums of independent increments. Means over turns of the same conversations are more correlated from
# look to look, so the total error is smaller. A race also ends if the remaining items are unlikely to decide it. This
# costs no error, since it can only remove decisions. With more than two systems each test gets its share of the level,
# and a system that another system beats is eliminated.
#
# Sources: K. K. G. Lan and D. L. DeMets, Discrete sequential boundaries for clinical trials (1983); P. Armitage, C. K.
# McPherson and B. C. Rowe, Repeated significance tests on accumulating data (1969), for the integral; D. J. Schuirmann,
# A comparison of the two one-sided tests procedure (1987); D. J. Spiegelhalter and others, Monitoring clinical trials:
# conditional or predictive power? (1986). `perf/decisions.py` compares other choices.

_N_LOOKS = 16
_EARLY = 0.5  # share of the error that "better" may spend before everything is scored
_HOPELESS = 0.15  # a race ends if its chance of being decided by the remaining items is smaller
_MARGIN = 0.05  # of the metric's range

# Reasons of a race that ends without a decision.
NOT_ENOUGH = f"fewer than {MIN_CLUSTERS} conversations are too few for a valid test"
ALL_SCORED = "all answers are scored, and the data do not decide"
HOPELESS = "the remaining answers are unlikely to decide it"
NO_SCORES = "no conversation has a score of every system"
ONE_VALUE = "every answer of every system has the same score"

ENOUGH_EQUAL = 100
"""Number of equal scores from which all are assumed equal: if 3 % differ, 100 scores show it in 95 % of cases."""

Values = Mapping[str, Mapping[str, float | None]]
"""System -> item -> score, None if unscored."""


class RaceEnd(Enum):
    """End of a race."""

    BETTER = "better"
    """One system is better than each of the others."""
    EQUAL = "equal"
    """The remaining systems differ by less than the margin."""
    UNDECIDED = "cannot be told"
    """The data support neither conclusion."""


@dataclass(frozen=True, slots=True)
class Look:
    """Comparison of two systems after a wave."""

    first: str
    second: str
    difference: Estimate
    """Second minus first, with an interval that is valid for all looks together."""
    n_items: int
    """Number of items scored at this look."""
    verdict: RaceEnd
    """Result of this look; `UNDECIDED` if it shows neither."""
    better: str = ""
    """The better system, if the verdict is `BETTER`."""
    chance: float = 1.0
    """Chance that scoring all remaining items would decide the comparison, estimated from the scores so far."""


class Race:
    """Comparison of systems in waves, until one is best, the remaining ones are equal, or a decision is unlikely."""

    def __init__(
        self,
        systems: Sequence[str],
        conversation_of: Mapping[str, str],
        *,
        margin: float | None = None,
        level: float = LEVEL,
        seed: int = 0,
        bounds: tuple[float, float] = UNBOUNDED,
        higher_is_better: bool = True,
        is_gate: bool = False,
    ) -> None:
        """Shuffle the conversations by the seed and set the looks.

        Systems that differ by less than the margin are equal; the default margin is 5 % of the metric's range. `level`
        is the chance of calling one of two equal systems better, and of calling systems equal that differ by the
        margin. A gate tests whether the second system lost more or less than the margin against the first. The system
        in whose favor the test decides counts as the better one. No systems are called equal.
        """
        width = bounds[1] - bounds[0]
        if margin is None and math.isinf(width):
            raise ConfigurationError("the metric has no range for a default margin. Next step: set a margin")
        self.margin = _MARGIN * width if margin is None else margin
        if not 0 < self.margin < width:
            raise ConfigurationError(f"margin {self.margin:g}: expected a number above 0 and below {width:g}")
        if len(set(systems)) < max(2, len(systems)):
            raise ConfigurationError(
                f"a race needs at least two systems with different names, not {', '.join(systems)}"
            )
        if is_gate and len(systems) != 2:
            raise ConfigurationError(f"a gate tests one system against one baseline, not {', '.join(systems)}")
        self.remaining = tuple(systems)
        self.eliminated: dict[str, Look] = {}
        self.looks: list[Look] = []
        self.verdict: RaceEnd | None = None
        self.reason = ""
        self._bounds, self._higher_is_better = bounds, higher_is_better
        self.is_gate = is_gate
        self._tested = (-self.margin if higher_is_better else self.margin) if is_gate else 0.0
        self.order = balanced(conversation_of, seed)
        self._conversation_of = conversation_of
        self._values: dict[str, dict[str, float | None]] = {name: {} for name in systems}
        self._sizes = look_sizes([conversation_of[item] for item in self.order])
        self._levels = _levels_of(self._sizes, level / (len(systems) - 1))
        self._n_looks = 0
        if not self._sizes:
            self._end(RaceEnd.UNDECIDED, NOT_ENOUGH)

    @property
    def n_items(self) -> int:
        """Number of items scored for the remaining systems."""
        return self._sizes[self._n_looks - 1] if self._n_looks else 0

    @property
    def n_one_sided(self) -> int:
        """Number of items that some systems, but not all, have a score of."""
        columns = list(self._values.values())
        shared = set.intersection(*map(set, columns))
        return sum(0 < sum(column[item] is None for column in columns) < len(columns) for item in shared)

    def next_wave(self) -> tuple[str, ...] | None:
        """Return the items to score next for the remaining systems; None after the race has ended."""
        return None if self.verdict is not None else self.order[self.n_items : self._sizes[self._n_looks]]

    def add(self, values: Values) -> None:
        """Add the scores of a wave and test."""
        assert self.verdict is None, "the race has ended"
        for name in self.remaining:
            self._values[name].update(values[name])
        self._n_looks += 1
        looks = [self._look(*pair) for pair in itertools.combinations(self.remaining, 2)]
        for look in looks:
            if look.better:
                self.eliminated.setdefault(look.first if look.better == look.second else look.second, look)
        self.looks = looks
        self.remaining = tuple(name for name in self.remaining if name not in self.eliminated) or self.remaining
        self._conclude([look for look in looks if {look.first, look.second} <= set(self.remaining)])

    def conclusion(self, measure: str) -> str:
        """Return the result of the race in one sentence without a full stop."""
        names = " and ".join(filter(None, [", ".join(self.remaining[:-1]), self.remaining[-1]]))
        if self.is_gate:
            return self._gate_conclusion(measure)
        if self.verdict is RaceEnd.BETTER:
            beaten = "each of the others" if len(self.eliminated) > 1 else next(iter(self.eliminated))
            return f"{names} is better than {beaten} in {measure}"
        if self.verdict is RaceEnd.EQUAL:
            return f"{names} are equal within {self.margin:g} in {measure}"
        chance = f" (chance {max(look.chance for look in self.looks):.2f})" if self.reason == HOPELESS else ""
        return f"cannot decide which of {names} is better in {measure}: {self.reason}{chance}"

    def _gate_conclusion(self, measure: str) -> str:
        baseline, candidate = self._values
        if self.verdict is RaceEnd.BETTER and self.remaining == (candidate,):
            return f"not worse: {candidate} lost less than {self.margin:g} against {baseline} in {measure}"
        if self.verdict is RaceEnd.BETTER:
            return f"worse: {candidate} lost more than {self.margin:g} against {baseline} in {measure}"
        return f"cannot decide whether {candidate} lost {self.margin:g} against {baseline} in {measure}: {self.reason}"

    def _conclude(self, looks: Sequence[Look]) -> None:
        """End the race if these comparisons of all remaining systems decide it, or if no further wave is likely to."""
        scored = [value for name in self.remaining for value in self._values[name].values() if value is not None]
        is_last = self._n_looks == len(self._sizes)
        if not looks:
            self._end(RaceEnd.BETTER)
        elif all(not look.difference.n_values for look in looks):
            self._end(RaceEnd.UNDECIDED, NO_SCORES)
        elif len(set(scored)) == 1 and (is_last or len(scored) >= ENOUGH_EQUAL):
            self._end(RaceEnd.UNDECIDED, ONE_VALUE)
        elif all(look.verdict is RaceEnd.EQUAL for look in looks):
            self._end(RaceEnd.EQUAL)
        elif is_last:
            self._end(RaceEnd.UNDECIDED, ALL_SCORED)
        elif self._is_hopeless(looks):
            self._end(RaceEnd.UNDECIDED, HOPELESS)

    def _end(self, verdict: RaceEnd, reason: str = "") -> None:
        self.verdict, self.reason = verdict, reason

    def _is_hopeless(self, looks: Sequence[Look]) -> bool:
        """Return whether no remaining system is likely to be distinguished from the leader."""
        leader = self._leader(looks)
        open_looks = [
            look for look in looks if leader in {look.first, look.second} and look.verdict is not RaceEnd.EQUAL
        ]
        return bool(open_looks) and all(look.chance < _HOPELESS for look in open_looks)

    def _leader(self, looks: Sequence[Look]) -> str:
        wins = dict.fromkeys(self.remaining, 0)
        for look in looks:
            wins[self._better(look.first, look.second, look.difference.value or 0.0)] += 1
        return max(wins, key=lambda name: wins[name])

    def _better(self, first: str, second: str, gap: float) -> str:
        return second if (gap > 0) == self._higher_is_better else first

    def _look(self, first: str, second: str) -> Look:
        columns, levels = (self._column(first), self._column(second)), self._levels[self._n_looks - 1]
        compared = compare(*columns, level=1 - levels.better, tested=self._tested, is_discrete=self.is_gate)
        difference, gaps = compared.difference, compared.gaps
        if difference.value is None or difference.p is None:
            return Look(first, second, difference, self.n_items, RaceEnd.UNDECIDED)
        distance = difference.value - self._tested
        if difference.p <= levels.better:
            better = self._better(first, second, distance)
            return Look(first, second, difference, self.n_items, RaceEnd.BETTER, better)
        if not self.is_gate and self._is_within(gaps, levels.equal):
            (inside,) = estimate_means([gaps], level=1 - 2 * levels.equal)
            return Look(first, second, inside, self.n_items, RaceEnd.EQUAL)
        freedom = len(set(self._conversation_of.values())) - 3  # two fewer than those of the clusters, as in the test
        margin = None if self.is_gate else self.margin
        chance = _chance(difference, abs(distance), self.n_items / len(self.order), freedom, self._levels[-1], margin)
        return Look(first, second, difference, self.n_items, RaceEnd.UNDECIDED, chance=chance)

    def _is_within(self, gaps: Clustered, level: float) -> bool:
        """Return whether the tests of both margins reject, each on its side."""
        ends = [estimate_means([gaps], tested=end)[0].p for end in (-self.margin, self.margin)]
        return abs(gaps.mean or 0.0) < self.margin and all(p is not None and p / 2 <= level for p in ends)

    def _column(self, name: str) -> Column:
        return Column("", "", "", name, self._values[name], self._conversation_of, self._bounds)


def balanced(conversation_of: Mapping[str, str], seed: int) -> tuple[str, ...]:
    """Return items in a random order in which every prefix has about the same share of each conversation."""
    drawn = sorted(conversation_of, key=lambda item: (_random_number(seed, item), item))
    items = grouped(drawn, conversation_of.__getitem__)
    positions = {
        item: (index + _random_number(seed, name)) / len(conversation_items)
        for name, conversation_items in items.items()
        for index, item in enumerate(conversation_items)
    }
    return tuple(sorted(positions, key=lambda item: (positions[item], item)))


def _random_number(seed: int, name: str) -> float:
    """Return a number between 0 and 1 that depends only on the seed and the name."""
    return int.from_bytes(hashlib.sha256(f"{seed}:{name}".encode()).digest()[:6], "big") / 2**48


def look_sizes(conversations: Sequence[str]) -> tuple[int, ...]:
    """Return about 16 evenly spaced numbers of items at which to test, each with enough conversations.

    `conversations` are those of the items, in scoring order.
    """
    new = [index for index, name in enumerate(conversations) if name not in conversations[:index]]
    if len(new) < MIN_CLUSTERS:
        return ()
    least, n = new[MIN_CLUSTERS - 1] + 1, len(conversations)
    return tuple(sorted({max(least, math.ceil(n * index / _N_LOOKS)) for index in range(1, _N_LOOKS + 1)}))


def _chance(  # noqa: PLR0917 (numbers of one formula)
    difference: Estimate, gap: float, share: float, all_freedom: int, last: _Level, margin: float | None
) -> float:
    """Return the chance that the test of all items decides (predictive power, with a flat prior).

    The final mean is the current mean plus an unknown part, whose spread is estimated from the differences so far.
    """
    from scipy.special import stdtr, stdtrit

    if not difference.standard_error or share == 1:
        return 1.0
    freedom = max(1, difference.n_clusters - 1)
    final = difference.standard_error * math.sqrt(share)
    unknown = difference.standard_error * math.sqrt(1 - share)
    far = float(stdtrit(all_freedom, 1 - last.better / 2)) * final
    near = 0.0 if margin is None else margin - float(stdtrit(all_freedom, 1 - last.equal)) * final
    chance = float(stdtr(freedom, (gap - far) / unknown) + stdtr(freedom, (-gap - far) / unknown))
    if near > 0:
        inside = stdtr(freedom, (near - gap) / unknown) - stdtr(freedom, (-near - gap) / unknown)
        chance += max(0.0, float(inside))
    return chance


# Levels of the looks.


@dataclass(frozen=True, slots=True)
class _Level:
    """Levels of one look."""

    better: float
    """Two-sided."""
    equal: float
    """One-sided, on each side."""


def _levels_of(sizes: Sequence[int], level: float) -> list[_Level]:
    """Return the levels of each look, such that all looks together have the error of one test."""
    if not 0 < level <= 0.25:
        raise ConfigurationError(f"a race needs a level between 0 and 0.25, not {level:g}")
    shares = tuple(size / sizes[-1] for size in sizes)
    better = spent_levels(shares, tuple(level * (_EARLY * share + (1 - _EARLY) * (share == 1)) for share in shares))
    twice = spent_levels(shares, tuple(2 * level * share for share in shares))
    return [_Level(better_level, equal_level / 2) for better_level, equal_level in zip(better, twice, strict=True)]


_POINTS = 201


@functools.lru_cache(maxsize=256)
def spent_levels(shares: tuple[float, ...], spent: tuple[float, ...]) -> tuple[float, ...]:
    """Return the two-sided level of each look, such that equal systems are called different with the given chances.

    Sums that grow with the data are a random walk. The density of the walks that no look has stopped is computed on a
    grid from look to look. `shares` are the shares of all items that each look sees, `spent` the chances that a look or
    an earlier one rejects; both increase.
    """
    levels: list[float] = []
    density, positions = np.ones(1), np.zeros(1)
    share_before = spent_before = 0.0
    for share, total in zip(shares, spent, strict=True):
        spread = math.sqrt(share - share_before)
        bound = _bound(density, positions, spread, total - spent_before)
        levels.append(math.erfc(bound / math.sqrt(2 * share)))
        reached = np.linspace(-bound, bound, _POINTS)
        density = np.exp(-(((reached[:, None] - positions[None, :]) / spread) ** 2) / 2) @ density
        density[[0, -1]] /= 2  # trapezoidal rule
        density *= (1 - total) / density.sum()
        positions, share_before, spent_before = reached, share, total
    return tuple(levels)


def _bound(density: Floats, positions: Floats, spread: float, chance: float) -> float:
    """Return the distance from 0 that a walk from a density of positions exceeds with this chance, by bisection."""
    from scipy.special import ndtr

    low, high = 0.0, 12.0
    for _ in range(50):
        bound = (low + high) / 2
        beyond = float(density @ (ndtr((-bound - positions) / spread) + ndtr((positions - bound) / spread)))
        low, high = (bound, high) if beyond > chance else (low, bound)
    return high

"""Agreement of raters on the same battles: among people, among judges, and between people and judges."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import median

from ragtasks.arena.votes import Vote
from ragtasks.metrics import Level, cohen_kappa, krippendorff_alpha
from ragtasks.records import Score

_MOST_PAIRS = 15
Opinions = Mapping[str, Mapping[str, float]]
"""Rater -> item, such as a battle -> label."""


@dataclass(frozen=True, slots=True)
class OpinionAgreement:
    """A row of the table."""

    raters: str
    measure: str
    """`alpha` for any number of raters, `kappa` for two."""
    score: Score
    """1 for full agreement, 0 for agreement by chance."""
    equal_share: float | None
    """Share of the items with equal labels; None without items."""
    n: int
    """Number of items with at least two raters."""


def vote_agreement(votes: Sequence[Vote]) -> list[OpinionAgreement]:
    """Return the agreement among people, among judges, of each pair of raters, and of people with judges.

    Labels are the preferred system or a tie, regardless of display order. People and judges are compared by the median
    of their votes. At most 15 pairs of raters are returned, those with most battles in common.
    """
    rows: list[OpinionAgreement] = []
    sides: dict[str, Opinions] = {}
    for kind, name in (("human", "people"), ("judge", "judges")):
        opinions = _by_rater([vote for vote in votes if vote.kind == kind])
        if opinions:
            sides[name] = opinions
        if len(opinions) > 1:
            rows.append(agreement_of_all(f"all {name}", opinions, Level.ORDINAL))
            pairs = [pair for pair in agreement_of_two(opinions) if pair.n]
            rows += sorted(pairs, key=lambda pair: -pair.n)[:_MOST_PAIRS]
    if len(sides) == 2:
        rows.append(_pair_agreement("people", _medians(sides["people"]), "judges", _medians(sides["judges"])))
    return rows


def _by_rater(votes: Sequence[Vote]) -> Opinions:
    """Return rater -> battle -> share of the first system by name."""
    opinions: dict[str, dict[str, float]] = {}
    for vote in votes:
        opinions.setdefault(vote.rater, {})[vote.battle_id] = vote.value_of(min(vote.systems))
    return opinions


def agreement_of_all(raters: str, opinions: Opinions, level: Level) -> OpinionAgreement:
    """Return the alpha of all raters over items with at least two raters."""
    items = sorted({item for labels in opinions.values() for item in labels})
    rows = [[labels[item] for labels in opinions.values() if item in labels] for item in items]
    rows = [row for row in rows if len(row) > 1]
    share = sum(len(set(row)) == 1 for row in rows) / len(rows) if rows else None
    return OpinionAgreement(raters, "alpha", krippendorff_alpha(rows, level), share, len(rows))


def agreement_of_two(opinions: Opinions) -> list[OpinionAgreement]:
    """Return the kappa of each pair of raters, ordered by name."""
    return [_pair_agreement(a, opinions[a], b, opinions[b]) for a, b in itertools.combinations(sorted(opinions), 2)]


def _pair_agreement(
    first_rater: str, first_labels: Mapping[str, float], second_rater: str, second_labels: Mapping[str, float]
) -> OpinionAgreement:
    battles = sorted(first_labels.keys() & second_labels.keys())
    first, second = [first_labels[battle] for battle in battles], [second_labels[battle] for battle in battles]
    share = sum(a == b for a, b in zip(first, second, strict=True)) / len(battles) if battles else None
    return OpinionAgreement(
        f"{first_rater} and {second_rater}", "kappa", cohen_kappa(first, second), share, len(battles)
    )


def _medians(opinions: Opinions) -> dict[str, float]:
    """Return battle -> median preference: 1, 0, or 0.5 for a tie or a split."""
    battles = {battle for votes in opinions.values() for battle in votes}
    middle = {battle: median(votes[battle] for votes in opinions.values() if battle in votes) for battle in battles}
    return {battle: value if value in {0.0, 1.0} else 0.5 for battle, value in middle.items()}

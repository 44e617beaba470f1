"""What reviewers did, and how far they agree."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence

from ragtasks.metrics import Level, cohen_kappa, krippendorff_alpha
from ragtasks.records import Score
from ragtasks.synthesis.review._decision import CHOICES, Review
from ragtasks.synthesis.review._pair import Pair
from ragtasks.tables import Cell, Section, Table, fixed

_EVERYBODY = "all reviewers"


def review_section(title: str, pairs: Sequence[Pair], reviews: Sequence[Review]) -> Section:
    """Return the tables of a review: decisions by reviewer, agreement of every two reviewers and of all.

    Args:
        title: name of the benchmark.
        pairs: what is reviewed.
        reviews: one a reviewer and pair.
    """
    by_reviewer: dict[str, dict[str, Review]] = {}
    for review in reviews:
        by_reviewer.setdefault(review.reviewer, {})[review.pair_id] = review
    statistics = {"pairs": str(len(pairs)), "reviewed": str(len({review.pair_id for review in reviews}))}
    return Section(
        f"review: {title}", statistics, (_decisions(by_reviewer, len(pairs)), _agreement(by_reviewer, pairs))
    )


def _decisions(by_reviewer: Mapping[str, Mapping[str, Review]], n_pairs: int) -> Table:
    rows: list[tuple[Cell, ...]] = []
    for reviewer, own in sorted(by_reviewer.items()):
        choices = [review.decision.choice for review in own.values()]
        counts = [choices.count(choice) for choice in ("accept", "edit", "reject")]
        rows.append((reviewer, *counts, n_pairs - len(own)))
    return Table("Decisions", ("reviewer", "accepted", "edited", "rejected", "left"), tuple(rows))


def _agreement(by_reviewer: Mapping[str, Mapping[str, Review]], pairs: Sequence[Pair]) -> Table:
    rows: list[tuple[Cell, ...]] = []
    for one, other in itertools.combinations(sorted(by_reviewer), 2):
        shared = [pair.pair_id for pair in pairs if pair.pair_id in by_reviewer[one].keys() & by_reviewer[other].keys()]
        both = [(by_reviewer[one][name], by_reviewer[other][name]) for name in shared]
        same = sum(a.keeps == b.keeps for a, b in both) / len(both) if both else None
        kept = cohen_kappa([float(a.keeps) for a, _ in both], [float(b.keeps) for _, b in both])
        choice = cohen_kappa([_label(a) for a, _ in both], [_label(b) for _, b in both])
        shown = "-" if same is None else f"{100 * same:.1f} %"
        rows.append((f"{one}, {other}", "kappa", len(both), shown, _shown(kept), _shown(choice)))
    if len(by_reviewer) > 1:
        ratings = [[own.get(pair.pair_id) for own in by_reviewer.values()] for pair in pairs]
        kept = krippendorff_alpha([[float(one.keeps) for one in row if one] for row in ratings], Level.NOMINAL)
        choice = krippendorff_alpha([[_label(one) for one in row if one] for row in ratings], Level.NOMINAL)
        n_shared = sum(sum(one is not None for one in row) > 1 for row in ratings)
        rows.append((_EVERYBODY, "alpha", n_shared, "-", _shown(kept), _shown(choice)))
    heads = ("reviewers", "measure", "pairs", "same", "kept or rejected", "accepted, edited or rejected")
    note = "Cohen's kappa of two reviewers, over the pairs that both decided on; Krippendorff's alpha of all."
    return Table("Agreement of reviewers", heads, tuple(rows), note)


def _label(review: Review) -> float:
    return float(CHOICES.index(review.decision.choice))


def _shown(score: Score) -> str:
    return "-" if score.value is None else fixed(score.value)


__all__ = ["review_section"]

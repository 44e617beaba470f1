"""The desk behind the pages of a review: who decided what, and what comes next."""

from __future__ import annotations

import threading
import time
from collections.abc import Mapping, Sequence

from ragtasks.arena.votes import Standing, VoteStore
from ragtasks.synthesis import Pair, Review, decide, read_reviews


class ReviewDesk:
    """One server's pairs and decisions; may be used by several threads."""

    def __init__(self, store: VoteStore, pairs: Sequence[Pair]) -> None:
        """Take up where the database stands."""
        self.store, self.pairs = store, tuple(pairs)
        self._lock = threading.Lock()
        found, self.n_others = read_reviews(pairs, store.reviews())
        self._of: dict[str, dict[str, Review]] = {}
        for review in found:
            self._of.setdefault(review.reviewer, {})[review.pair_id] = review

    def pair(self, number: int) -> Pair | None:
        """Return a pair by its place, from 1; None for an unknown one."""
        return self.pairs[number - 1] if 0 < number <= len(self.pairs) else None

    def decisions_of(self, reviewer: str) -> Mapping[str, Review]:
        """Return pair id -> a reviewer's last decision on it."""
        with self._lock:
            return dict(self._of.get(reviewer, {}))

    def reviews(self) -> list[Review]:
        """Return everybody's last decisions, in the order of the pairs."""
        with self._lock:
            known = [dict(own) for own in self._of.values()]
        return [own[pair.pair_id] for pair in self.pairs for own in known if pair.pair_id in own]

    def standing(self, reviewer: str) -> Standing:
        """Return how far a reviewer has come."""
        n_done = len(self.decisions_of(reviewer))
        return Standing(n_done, len(self.pairs) - n_done)

    def next_for(self, reviewer: str, after: int = 0) -> Pair | None:
        """Return the next pair that a reviewer has not decided on, after a place first; None where none is left."""
        own = self.decisions_of(reviewer)
        in_turn = (*self.pairs[after:], *self.pairs[:after])
        return next((pair for pair in in_turn if pair.pair_id not in own), None)

    def decide(self, reviewer: str, pair: Pair, choice: str, texts: Mapping[str, str], note: str) -> Review:
        """Keep a decision; on disk when this returns.

        Raises:
            DecisionError: no choice, or a text that is empty or too long.
        """
        decision, at = decide(pair, choice, texts, note), time.time()
        review = Review(reviewer, pair.pair_id, decision, at)
        with self._lock:
            self.store.keep_review(reviewer, pair.pair_id, decision.model_dump_json(exclude_defaults=True), at)
            self._of.setdefault(reviewer, {})[pair.pair_id] = review
        return review


__all__ = ["ReviewDesk"]

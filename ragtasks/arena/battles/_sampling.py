"""Which battle is fought next where there is no budget for all: the one of the pair whose win rate is least certain.

A pair's uncertainty is the standard error of its win rate with one vote added for either side. Within a pair,
conversations take turns, since battles of one conversation are alike. The choice depends on votes and names alone, so
that the same command asks the same questions again.
"""

from __future__ import annotations

import heapq
import math
from collections import Counter
from collections.abc import Iterator, Sequence

from ragtasks.arena._vote import Vote
from ragtasks.arena.battles._answers import Battle, shuffled

Systems = tuple[str, str]
"""Two systems, in the order of their names."""


def next_battles(battles: Sequence[Battle], votes: Sequence[Vote], n: int) -> list[Battle]:
    """Return up to `n` battles that nobody voted on, those of the least certain pairs first; fewer where none is left.

    Args:
        battles: all that could be fought.
        votes: what is known.
        n: how many are wanted; pairs take turns as they would if each battle were a typical one.
    """
    fought = {vote.battle_id for vote in votes}
    waiting = {pair: _queue(own, fought) for pair, own in _by_pair(battles).items()}
    known = {pair: _share(pair, votes) for pair in waiting}
    heap = [(-_uncertainty(share, n_votes), pair) for pair, (share, n_votes) in known.items()]
    heapq.heapify(heap)
    chosen: list[Battle] = []
    n_more: Counter[Systems] = Counter()
    while heap and len(chosen) < n:
        _, pair = heapq.heappop(heap)
        battle = next(waiting[pair], None)
        if battle is not None:
            chosen.append(battle)
            n_more[pair] += 1
            share, n_votes = known[pair]
            heapq.heappush(heap, (-_uncertainty(share, n_votes + n_more[pair]), pair))
    return chosen


def _by_pair(battles: Sequence[Battle]) -> dict[Systems, list[Battle]]:
    pairs: dict[Systems, list[Battle]] = {}
    for battle in battles:
        pairs.setdefault(battle.systems, []).append(battle)
    return pairs


def _queue(battles: Sequence[Battle], fought: set[str]) -> Iterator[Battle]:
    """Yield the battles of a pair that nobody voted on, the conversations with fewest battles so far first."""
    seen = Counter(battle.conversation_id for battle in battles if battle.battle_id in fought)
    turns: list[tuple[int, int, Battle]] = []
    by_id = {battle.battle_id: battle for battle in battles if battle.battle_id not in fought}
    for place, battle_id in enumerate(shuffled(by_id)):
        battle = by_id[battle_id]
        turns.append((seen[battle.conversation_id], place, battle))
        seen[battle.conversation_id] += 1
    return (battle for *_, battle in sorted(turns, key=lambda turn: turn[:2]))


def _share(pair: Systems, votes: Sequence[Vote]) -> tuple[float, int]:
    """Return the share of the first system, one vote for either side added, and the number of votes."""
    own = [vote.value_of(pair[0]) for vote in votes if {vote.first.system, vote.second.system} == set(pair)]
    return (math.fsum(own) + 1) / (len(own) + 2), len(own)


def _uncertainty(share: float, n_votes: int) -> float:
    return math.sqrt(share * (1 - share) / (n_votes + 2))


__all__ = ["next_battles"]

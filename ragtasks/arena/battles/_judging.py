"""Battles by judges: every pair is asked in both orders, and only what is the same in both is a win."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import reduce

from ragtasks.arena._vote import Preference, Vote
from ragtasks.arena.battles._answers import Battle
from ragtasks.arena.battles._sampling import next_battles
from ragtasks.clients import Usage
from ragtasks.errors import JudgeError
from ragtasks.files import canonical_hash
from ragtasks.judges import PAIRWISE, Rubric, Verdicts, pair_of, pairwise
from ragtasks.records import Response

AskJudges = Callable[[Sequence[Response], Sequence[Rubric]], Verdicts]
"""Asks all judges about responses: `judge_responses` with everything else given."""

_N_ROUNDS = 8
_PREFERRED: dict[float, Preference] = {1.0: "first", 0.5: "tie", 0.0: "second"}
_TURNED: dict[Preference, Preference] = {"first": "second", "second": "first", "tie": "tie"}


@dataclass(frozen=True, slots=True)
class JudgedBattles:
    """What judges made of battles."""

    votes: tuple[Vote, ...]
    """A vote of each judge for each battle that it gave both verdicts on."""
    n_battles: int
    """Battles that were asked about."""
    n_left: int
    """Battles that the budget left out."""
    n_unvoted: int
    """Votes that are missing, since a judge gave no verdict in one order or both."""
    usage: dict[str, Usage]
    """Judge -> what was asked of it, was known, failed, and cost."""
    shortfalls: tuple[str, ...]
    """What judges left out, where it is more than the limit; a message a round."""

    def require_coverage(self) -> None:
        """Return where every judge gave enough verdicts.

        Raises:
            JudgeError: some gave too few; the message says why.
        """
        if self.shortfalls:
            raise JudgeError(self.shortfalls[0])


def judge_battles(
    battles: Sequence[Battle], ask: AskJudges, *, max_battles: int | None = None, min_coverage: float = 0.95
) -> JudgedBattles:
    """Return the votes of judges on battles, in the order fought.

    With a budget the battles come in eight rounds, each where the votes so far say least; without one all are asked
    at once.

    Args:
        battles: all that could be fought.
        ask: who asks the judges.
        max_battles: budget; None: all battles.
        min_coverage: share of verdicts that each judge must give for `require_coverage`.

    Raises:
        JudgeError: no judge answered to the end; replies that came are kept in the cache.
    """
    budget = min(len(battles), len(battles) if max_battles is None else max_battles)
    size = budget if budget == len(battles) else max(1, -(-budget // _N_ROUNDS))
    votes: list[Vote] = []
    fought: list[Battle] = []
    found: list[Verdicts] = []
    unvoted = 0
    while len(fought) < budget:
        taken = {battle.battle_id for battle in fought}
        left = [battle for battle in battles if battle.battle_id not in taken]
        chosen = next_battles(left, votes, min(size, budget - len(fought)))
        verdicts = ask([pair for battle in chosen for pair in _both_orders(battle)], [pairwise()])
        own = [vote for place, battle in enumerate(chosen) for vote in _votes(battle, place, verdicts)]
        unvoted += len(chosen) * len(verdicts.judges) - len(own)
        votes += own
        fought += chosen
        found.append(verdicts)
    usage = {judge: reduce(Usage.__add__, (round_.usage[judge] for round_ in found)) for judge in _judges(found)}
    shortfalls = tuple(text for verdicts in found if (text := _shortfall(verdicts, min_coverage)))
    return JudgedBattles(tuple(votes), len(fought), len(battles) - len(fought), unvoted, usage, shortfalls)


def _both_orders(battle: Battle) -> tuple[Response, Response]:
    first, second = battle.first.response, battle.second.response
    return pair_of(first, second), pair_of(second, first)


def _judges(found: Sequence[Verdicts]) -> tuple[str, ...]:
    return found[0].judges if found else ()


def _votes(battle: Battle, place: int, verdicts: Verdicts) -> list[Vote]:
    """Return the vote of each judge that gave a verdict in both orders."""
    votes = []
    for judge in verdicts.judges:
        values = [verdicts.verdict(2 * place + turn, PAIRWISE, judge).value for turn in (0, 1)]
        if None not in values:
            straight, turned = (_PREFERRED[value] for value in values if value is not None)
            votes.append(_vote(battle, judge, (straight, _TURNED[turned])))
    return votes


def _vote(battle: Battle, judge: str, orders: tuple[Preference, Preference]) -> Vote:
    task = battle.first.response.task
    return Vote(
        vote_id=canonical_hash(["judge", judge, battle.battle_id])[:16],
        battle_id=battle.battle_id,
        benchmark=battle.first.benchmark,
        setting=battle.first.setting,
        task_id=task.task_id,
        conversation_id=task.conversation_id,
        answerability=task.answerability.value,
        first=battle.first.side,
        second=battle.second.side,
        preference=orders[0] if orders[0] == orders[1] else "tie",
        rater=judge,
        kind="judge",
        orders=orders,
    )


def _shortfall(verdicts: Verdicts, limit: float) -> str:
    try:
        verdicts.require_coverage(limit)
    except JudgeError as error:
        return str(error)
    return ""


__all__ = ["AskJudges", "JudgedBattles", "judge_battles"]

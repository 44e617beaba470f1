"""Pairs of answers to one task, and judges that compare them."""

from ragtasks.arena.battles._answers import REFERENCE, Answer, AnswerPool, Battle, ItemKey, read_answers, shuffled
from ragtasks.arena.battles._judging import AskJudges, JudgedBattles, judge_battles
from ragtasks.arena.battles._sampling import next_battles

__all__ = [
    "REFERENCE",
    "Answer",
    "AnswerPool",
    "AskJudges",
    "Battle",
    "ItemKey",
    "JudgedBattles",
    "judge_battles",
    "next_battles",
    "read_answers",
    "shuffled",
]

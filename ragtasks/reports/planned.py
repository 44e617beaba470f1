"""Estimated cost of an evaluation, as tables: prompts and their context, answers, requests, tokens, dollars."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from ragtasks.benchmarks import ROWS
from ragtasks.clients import Endpoint, Price, dollars_of
from ragtasks.config import EvaluationConfig
from ragtasks.results import SavedTask
from ragtasks.scoring.planning import JudgingPlan, SettingPlan
from ragtasks.tables import Cell, Table

_CONTEXTS = (2048, 4096, 8192, 16384, 32768, 131072)
_JUDGE_REPLY = 1024  # tokens, if an endpoint has no limit of its own
_MINUTES_AN_HOUR = 60


def prompts_table(plans: Sequence[SettingPlan], *, is_estimate: bool) -> Table:
    """Return the number of prompts, their tokens, and the context that fits all of them."""
    needed = max((plan.context for plan in plans), default=0)
    contexts = [size for size in _CONTEXTS if size < 2 * needed][-4:] or [_CONTEXTS[0]]
    heads = ("setting", "prompts", "median", "p99", "longest", "reply", "context")
    rows: list[tuple[Cell, ...]] = [
        (
            plan.name,
            len(plan.tokens),
            *(plan.quantile(share) for share in (0.5, 0.99, 1.0)),
            plan.reply_tokens,
            plan.context,
            *(f"{plan.share_within(size):.1%}" for size in contexts),
        )
        for plan in plans
    ]
    how = "estimated from words, punctuation and digits" if is_estimate else "counted"
    note = (
        f"Tokens of a prompt ({how}), of the longest allowed reply, and of the context for both. The percentages are "
        "the shares of prompts that fit with their reply into a context of the size in the column head."
    )
    return Table("Prompts", (*heads, *(f"{size:,}" for size in contexts)), tuple(rows), note)


def answers_table(tasks: Mapping[str, Sequence[SavedTask]]) -> Table:
    """Return the number of saved answers of each system to each benchmark and setting. Keys are names of systems."""
    counts: dict[tuple[str, str, str], list[int]] = {}
    for name, members in tasks.items():
        for task in members:
            for answer in task.answers:
                setting = "-" if task.benchmark == ROWS else answer.setting
                key = name, str(task.provenance["benchmark"]), setting
                counts.setdefault(key, [0, 0])[bool(answer.response.no_answer)] += 1
    rows: tuple[tuple[Cell, ...], ...] = tuple((*key, *numbers) for key, numbers in counts.items())
    return Table("Answers", ("system", "benchmark", "setting", "answers", "without an answer"), rows)


def system_table(plans: Sequence[SettingPlan]) -> Table:
    """Return the number of requests to the user's own system. Its tokens are unknown."""
    rows = tuple((plan.name, len(plan.tokens)) for plan in plans)
    return Table("Requests to the system", ("setting", "requests"), rows)


def spending_table(
    plans: Sequence[SettingPlan], judging: JudgingPlan, evaluation: EvaluationConfig, *, are_there: bool = False
) -> Table:
    """Return requests, tokens and cost of the model and each judge.

    Args:
        plans: the prompts to the model, by setting; empty without a model.
        judging: the planned judging.
        evaluation: the configuration, with prices and judges.
        are_there: whether the answers exist already.
    """
    rows: list[tuple[Cell, ...]] = []
    for plan in plans:
        used = (len(plan.tokens), sum(plan.tokens), plan.answer_tokens)
        longest = len(plan.tokens) * plan.reply_tokens
        rows.append((f"model, {plan.name}", *used, *_costs(evaluation.price, used, longest), "-"))
    for judge in evaluation.judges:
        price = judge.price if isinstance(judge, Endpoint) else None
        used = (judging.n_calls, judging.tokens, judging.reply_tokens)
        longest = judging.n_calls * ((judge.max_tokens if isinstance(judge, Endpoint) else None) or _JUDGE_REPLY)
        costs = _costs(price, used, longest)
        rows.append((f"judge {judge.model}", *used, *costs, _hours_at_least(judge, judging)))
    assumed = "" if are_there else "answers are as long as the reference answers, "
    note = (
        f"Assumptions: {assumed}each sentence is one statement of RL_F's second step, and judges reply in the "
        "requested form without thinking. Cached replies are free. $ at most: with replies of maximum length. hours at "
        "least: minimum under the judge's rate limits. -: no price or no limits."
    )
    columns = ("part", "requests", "input tokens", "output tokens", "$", "$ at most", "hours at least")
    return Table("Requests, tokens, dollars", columns, tuple(rows), note)


def _costs(price: Price | None, used: tuple[int, int, int], longest: int) -> tuple[str, str]:
    """Return the expected cost in dollars, and the cost of replies of maximum length."""
    if price is None:
        return "-", "-"
    expected, most = (dollars_of(price, used[1], n) for n in (used[2], longest))
    return f"{expected:,.2f}", f"{most:,.2f}"


def _hours_at_least(judge: object, judging: JudgingPlan) -> str:
    """Return the minimum hours for all prompts under the rate limits of a judge's account, without replies."""
    if not isinstance(judge, Endpoint):
        return "-"
    work = ((judging.n_calls, judge.requests_per_minute), (judging.tokens, judge.tokens_per_minute))
    minutes = [n / limit for n, limit in work if limit is not None]
    return f"{max(minutes) / _MINUTES_AN_HOUR:.2f}" if minutes else "-"


def hours(plans: Sequence[SettingPlan], prompts_per_minute: float) -> float:
    """Return the hours for all answers at a rate."""
    return sum(len(plan.tokens) for plan in plans) / prompts_per_minute / _MINUTES_AN_HOUR

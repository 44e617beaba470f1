"""Simulated clients that send prompts to a rate-limited server, with a simulated clock."""

from __future__ import annotations

import heapq
import json
import math
import random
from collections.abc import Callable
from dataclasses import dataclass

from ragtasks.clients._limits import Throttle, Ticket, rate_hints
from tests.clients._limits import STYLES, Bucket, FixedWindow, Limit, SlidingWindow, State, refusal_body

MINUTE, N_SLOTS, TOKENS = 60.0, 64, 100
KINDS: dict[str, Callable[[int, float], Limit]] = {"window": FixedWindow, "sliding": SlidingWindow, "bucket": Bucket}


@dataclass(frozen=True)
class Outcome:
    """Duration and requests of all prompts."""

    seconds: float
    times_ideal: float
    requests_a_prompt: float


def ideal_seconds(kind: str, limit: int, n_prompts: float, n_processes: int, latency: float) -> float:
    """Return the minimum seconds under the limit: the first requests pass at once, the others as it opens again."""
    rest = n_prompts - limit
    if kind == "bucket":
        return MINUTE * rest / limit + latency
    n_last = (rest - 1) % limit + 1  # that the last window lets pass, with all slots busy
    return MINUTE * math.ceil(rest / limit) + latency * math.ceil(n_last / (N_SLOTS * n_processes))


def simulated(
    kind: str,
    style: str,
    *,
    n_processes: int = 1,
    limit: int = 500,
    n_prompts: int = 1000,
    tokens: bool = False,
    seed: int = 1,
    latency: float = 1.0,
) -> Outcome:
    """Return the duration and the requests of every process's prompts.

    Args:
        kind: type of the limit, a key of `KINDS`.
        style: style of its headers, a key of `STYLES`.
        n_processes: number of processes that share the limit, started together.
        limit: requests per minute.
        n_prompts: prompts per process.
        tokens: limit tokens instead; requests cost 50 to 150, 100 on average.
        seed: of jitter, latencies and costs.
        latency: of a reply, in seconds.
    """
    chance = random.Random(seed)
    server = KINDS[kind](limit * TOKENS if tokens else limit, MINUTE)
    throttles = [Throttle(MINUTE, random.Random(100 * seed + number)) for number in range(n_processes)]
    costs = [[chance.randint(50, 150) if tokens else 1 for _ in range(n_prompts)] for _ in throttles]
    total = sum(map(sum, costs)) / (TOKENS if tokens else 1)  # average prompts
    n_open = [0] * n_processes
    ends: list[tuple[float, int, int, int, Ticket, State]] = []
    now, n_requests, n_left = 0.0, 0, n_prompts * n_processes
    while n_left:
        nexts = []
        for who, throttle in enumerate(throttles):
            if not costs[who] or n_open[who] >= N_SLOTS:
                continue
            if (wait := throttle.wait(now)) > 0:
                nexts.append(now + wait)
                continue
            cost = costs[who].pop()
            ticket, state = throttle.send(now), server.take(now, cost)
            took = chance.uniform(0.7, 1.3) * (latency if state.granted else 0.05)
            n_requests, n_open[who] = n_requests + 1, n_open[who] + 1
            heapq.heappush(ends, (now + took, n_requests, who, cost, ticket, state))
            nexts.append(now)
        soonest = min(nexts, default=math.inf)
        if not ends or soonest < ends[0][0]:
            now = max(now, soonest) + 1e-6
            continue
        now, _, who, cost, ticket, state = heapq.heappop(ends)
        n_open[who] -= 1
        headers = STYLES[style](state)
        if state.granted:
            n_left -= 1
            throttles[who].passed(ticket, now, rate_hints(headers))
        else:
            costs[who].append(cost)
            message = json.loads(refusal_body(state, style, f"Limit {limit}"))["error"]["message"]
            throttles[who].refused(ticket, now, rate_hints(headers, message))
    ideal = ideal_seconds(kind, limit, total, n_processes, latency)
    return Outcome(now, now / ideal, n_requests / (n_prompts * n_processes))

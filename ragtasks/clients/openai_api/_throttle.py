"""Learns how fast a server lets requests pass, from what it refuses and what it says while it does.

A server's limit may be a window that opens all at once, one that slides, or a bucket that fills request by request, and
headers rarely say which. What holds for all of them: between two moments at which the server had nothing left, it let
pass what it grants in that time. So each refusal is such a moment, the requests that passed since the last one give the
rate, and the time that passed since then gives a credit: a window that opens all at once is used all at once, a bucket
is drawn from as it fills. The rate is tried a little higher with every request that passes, since nobody tells when a
limit is raised or when the other process that shared it has ended.

After a refusal one request goes first, when the server said or, where it said nothing, at times that grow with the time
waited; the others follow in steps that double, so that slots never wake together. All of it counts requests: a limit on
tokens shows as a rate of requests too.
"""

from __future__ import annotations

import random
from dataclasses import dataclass

from ragtasks.clients.openai_api._rate_hints import RateHints

_GROWTH = 1 / 500  # of the credit, for each request that passed: about one in thirty is refused at a steady rate
_QUIET = 1 / 6  # minute without a refusal, after which the credit doubles: who shared the limit may have ended
_LATENESS = 0.1  # of the time waited, where the server does not say when to come back
_JITTER = 0.05
_LONGEST_REST = 10  # minutes without a refusal: then the server may say itself that there is nothing for a day


@dataclass(frozen=True, slots=True)
class Ticket:
    """One request on its way."""

    number: int
    """How many were sent before it."""
    sent_at: float
    """When, in seconds of the clock."""
    epoch: int
    """How often the server had been exhausted by then."""


@dataclass(slots=True)
class _Account:
    """What passed between two moments at which the server had nothing left."""

    begun_at: float
    n_passed: int = 0
    seconds: float = 0.0


class Throttle:
    """When the next request may be sent; a state machine that neither sleeps nor knows the time."""

    def __init__(self, minute_seconds: float = 60.0, chance: random.Random | None = None) -> None:
        """Begin without a limit.

        Args:
            minute_seconds: length of the minute that limits are said for; shorter ones are for experiments.
            chance: where jitter comes from.
        """
        self._minute, self._chance = minute_seconds, chance or random.Random()
        self._n_sent = self._epoch = 0
        self._account: _Account | None = None  # since the last exhaustion; None while no limit was met
        self._closed: _Account | None = None  # the one before, as long as late refusals may correct it
        self._probe: Ticket | None = None
        self._is_probing = False
        self._resume_at = self._opened_at = float("-inf")
        self._last_pause = 0.0
        self._settle = minute_seconds / 3000
        self._step_size, self._step_left, self._step_ends = 1, 0, float("-inf")
        self._announced: float | None = None
        self._n_counted, self._seconds_counted = 0.0, 0.0
        self._full_from, self._full_by = float("-inf"), float("-inf")
        self._is_rolling = False

    @property
    def rate(self) -> float | None:
        """Requests a second that the server lets pass, None where that is not known."""
        if self._seconds_counted > 0 and self._n_counted > 0:
            return self._n_counted / self._seconds_counted
        return self._announced

    def pause(self, now: float) -> float:
        """Return for how many seconds the server wants nothing, 0 where it does not say so now."""
        return max(0.0, self._resume_at - now) if self._is_probing else 0.0

    def wait(self, now: float) -> float:
        """Return the seconds until the next look, 0 where a request may be sent now."""
        if self._is_probing:
            if self._probe is None:
                return max(0.0, self._resume_at - now)
            # Refusals come at once, answers late: a probe that is not refused by now has passed.
            settled_at = self._probe.sent_at + self._settle
            if now < settled_at:
                return settled_at - now
            self._open(now)
        if self._account is None:
            return 0.0
        return max(self._wait_for_step(now), self._wait_for_credit(now))

    def send(self, now: float) -> Ticket:
        """Count a request that is sent now."""
        ticket = Ticket(self._n_sent, now, self._epoch)
        self._n_sent += 1
        if self._account is not None:
            self._account.n_passed += 1
            self._step_left -= 1
        if self._is_probing and self._probe is None:
            self._probe = ticket
        return ticket

    def passed(self, ticket: Ticket, now: float, hints: RateHints) -> None:
        """Take the news that a request was let pass."""
        if self._is_probing and ticket == self._probe:
            self._open(now)
        if ticket.epoch == self._epoch and not self._is_probing:
            self._look_at_rest(ticket, now, hints)

    def refused(self, ticket: Ticket, now: float, hints: RateHints) -> None:
        """Take the news that a request was refused because there were too many."""
        self._settle = min(max(2 * (now - ticket.sent_at), 0.7 * self._settle, self._minute / 3000), self._minute / 20)
        self._announced = hints.rate(self._minute) or self._announced
        is_late = ticket.epoch < self._epoch
        counted_in = self._closed if is_late else self._account
        if counted_in is not None:
            counted_in.n_passed -= 1
        if is_late and not self._is_probing:
            return
        if not is_late and not self._is_probing:
            self._exhaust(ticket.sent_at)
        if ticket == self._probe:
            self._probe = None
        self._resume_at = max(self._resume_at, now + self._pause_after(now, hints))

    def _exhaust(self, now: float) -> None:
        """Close the account: the server had nothing left."""
        self._closed, self._account = self._account, _Account(now)
        if self._closed is not None:
            self._closed.seconds = now - self._closed.begun_at
        self._epoch += 1
        self._is_probing, self._probe = True, None
        self._resume_at = now

    def _open(self, now: float) -> None:
        """End the pause: a request has passed; what passed between the last two exhaustions is final by now."""
        assert self._account is not None
        self._is_probing, self._probe = False, None
        self._opened_at = now
        self._last_pause = now - self._account.begun_at
        self._step_size, self._step_left, self._step_ends = 1, 0, now
        if self._closed is not None and self._closed.seconds > 0:
            kept = 0.5 ** (self._closed.seconds / self._minute)
            self._n_counted = kept * self._n_counted + max(self._closed.n_passed, 1)
            self._seconds_counted = kept * self._seconds_counted + self._closed.seconds
        self._closed = None

    def _pause_after(self, now: float, hints: RateHints) -> float:
        """Return for how long to send nothing after a refusal: as told, else longer the longer it takes."""
        assert self._account is not None
        waited = now - self._account.begun_at
        told = hints.pause_seconds(is_rolling=self._is_rolling)
        if told and not hints.wait_seconds and self._is_rolling:
            told = max(told, _LATENESS * waited)  # worked out, not told: it may be wrong, again and again
        jitter = 1 + _JITTER * self._chance.random()
        if told:
            # A hair longer than told, so that a clock that is a little off costs no request; slots of other processes
            # were told the same.
            return told * (1 + 0.2 * (jitter - 1)) + self._settle * self._chance.uniform(0.1, 0.5)
        # A window that slides may open again at once, one that does not keeps as long as the last one: the time is
        # doubled until half of that.
        doubled = min(waited, 0.5 * self._last_pause - waited)
        return max(self._minute / 120, doubled, _LATENESS * waited) * jitter

    def _wait_for_step(self, now: float) -> float:
        """Return the wait for the next step of the restart: each lets twice as many pass as the one before."""
        if self._step_left > 0:
            return 0.0
        if now < self._step_ends:
            return self._step_ends - now
        self._step_size = min(2 * self._step_size, 1 << 20)
        self._step_left, self._step_ends = self._step_size, now + self._settle
        return 0.0

    def _wait_for_credit(self, now: float) -> float:
        assert self._account is not None
        rate = self.rate
        if rate is None:
            return 0.0
        n, begun_at = self._account.n_passed, self._account.begun_at
        quiet = max(0.0, now - self._opened_at) / (_QUIET * self._minute)
        due = begun_at + (n + 1) / (rate * (1 + _GROWTH * n + quiet**3))
        # The credit grows faster the longer nothing was refused: look again soon.
        return min(max(0.0, due - now), self._minute / 60)

    def _look_at_rest(self, ticket: Ticket, now: float, hints: RateHints) -> None:
        """Stop before the server must refuse, where it says how many requests it has left."""
        # Of two limits that of tokens is looked at: both open in the same way, and a request moves it further.
        reset = hints.reset_seconds if hints.tokens_reset_seconds is None else hints.tokens_reset_seconds
        if reset is not None:
            self._look_at_reset(ticket.sent_at + reset, now + reset, now)
        if hints.remaining is None or hints.reset_seconds is None:
            return
        left = hints.remaining - (self._n_sent - 1 - ticket.number)
        if left > 0:
            return
        if not self._is_rolling:
            self._exhaust(now)
            rest = min(hints.reset_seconds, _LONGEST_REST * self._minute)
            self._resume_at = now + rest + self._settle * self._chance.uniform(0.1, 0.5)
        elif self._account is None and (rate := hints.refill_rate()):
            self._announced = rate
            self._exhaust(now)
            self._resume_at = now + min(1 / rate, _LONGEST_REST * self._minute)

    def _look_at_reset(self, earliest: float, latest: float, now: float) -> None:
        """Learn whether the limit is a window, whose end stays where it is, or a bucket, where it moves on."""
        if now >= self._full_from:
            self._full_from, self._full_by = earliest, latest
            return
        self._is_rolling = self._is_rolling or earliest > self._full_by + self._minute / 30
        self._full_from, self._full_by = max(self._full_from, earliest), min(self._full_by, latest)


__all__ = ["Throttle", "Ticket"]

"""Battles between systems that are asked now: both at once, their answers shown as they come.

Where the names are hidden, so is speed: neither answer is shown further than the shorter one that is still being
written, and neither is said to be ready before both are. What failed is said to have failed, and nobody can vote on it.
"""

from __future__ import annotations

import asyncio
import json
import secrets
from collections import OrderedDict
from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass, field

from ragtasks.arena.battles import Answer, Battle
from ragtasks.arena.votes import Assignment
from ragtasks.arena.web._arena import Arena
from ragtasks.arena.web._pipelines import Pipeline, ask_pipeline
from ragtasks.errors import ConfigurationError, ModelError
from ragtasks.metrics import RuleBasedIdk
from ragtasks.records import IdkVerdict, Message, Response

_TICK_SECONDS = 0.05
_MOST_KEPT = 500
_MOST_RUNNING = 64
_LABELS = "AB"


@dataclass
class LiveBattle:
    """One battle that is being fought, or was."""

    rater: str
    """Who asked."""
    view: str
    """`blinded` or `side_by_side`."""
    messages: tuple[Message, ...]
    """The conversation."""
    names: tuple[str, str]
    """The systems, in the order shown."""
    texts: list[str] = field(default_factory=lambda: ["", ""])
    """What came so far."""
    is_written: list[bool] = field(default_factory=lambda: [False, False])
    """Whether each answer has ended."""
    failure: str = ""
    """Why there is nothing to vote on; empty where there is, or may be."""
    assignment: Assignment | None = None
    """What the rater votes on, once both answers are there."""
    work: asyncio.Task[None] | None = None
    """What asks the systems."""

    @property
    def is_over(self) -> bool:
        """Whether nothing more comes."""
        return bool(self.failure) or self.assignment is not None


class LiveBattles:
    """The battles of one server's pipelines; lives on the server's event loop."""

    def __init__(self, arena: Arena, pipelines: Mapping[str, Pipeline], patience_seconds: float) -> None:
        """Take the systems, and how long each may take for an answer."""
        self._arena, self.pipelines, self._patience = arena, dict(pipelines), patience_seconds
        self._battles: OrderedDict[str, LiveBattle] = OrderedDict()

    def begin(self, rater: str, messages: Sequence[Message], names: Sequence[str]) -> str:
        """Ask two systems, and return the number of the battle.

        Args:
            rater: who asks.
            messages: the conversation, its last message the user's.
            names: two systems in the order to be shown; none: two are drawn, and hidden.

        Raises:
            ConfigurationError: unknown systems, or too many battles at once.
        """
        running = [battle for battle in self._battles.values() if not battle.is_over]
        if len(running) >= _MOST_RUNNING or any(battle.rater == rater for battle in running):
            raise ConfigurationError(
                "answers to your last question, or to others', are still being written: wait a little"
            )
        if names and (len(set(names)) != 2 or not set(names) <= self.pipelines.keys()):
            raise ConfigurationError("choose two different systems, or none")
        one, other = names or secrets.SystemRandom().sample(sorted(self.pipelines), 2)
        battle = LiveBattle(rater, "side_by_side" if names else "blinded", tuple(messages), (one, other))
        number = secrets.token_hex(12)
        self._battles[number] = battle
        while len(self._battles) > _MOST_KEPT:
            self._battles.popitem(last=False)
        battle.work = asyncio.get_running_loop().create_task(self._fight(battle))
        return number

    def find(self, rater: str, number: str) -> LiveBattle | None:
        """Return a battle of this rater; None where there is no such one."""
        battle = self._battles.get(number)
        return battle if battle and battle.rater == rater else None

    async def _fight(self, battle: LiveBattle) -> None:
        try:
            found = await asyncio.gather(*(self._answer(battle, side) for side in (0, 1)), return_exceptions=True)
            failed = [
                f"{_LABELS[side]}: {error if isinstance(error, ModelError) else 'it failed'}"
                for side, error in enumerate(found)
                if isinstance(error, BaseException)
            ]
            answers = [item for item in found if isinstance(item, Answer)]
            if failed:
                battle.failure = "; ".join(failed)
            else:
                fought = Battle(*sorted(answers, key=lambda answer: answer.system))
                battle.assignment = await asyncio.to_thread(
                    self._arena.keep_live,
                    fought,
                    battle.rater,
                    battle.view,
                    is_turned=answers[0].system != fought.first.system,
                )
        except Exception:
            battle.failure = "the battle could not be kept"
            raise

    async def _answer(self, battle: LiveBattle, side: int) -> Answer:
        def take(part: str) -> None:
            battle.texts[side] += part

        name = battle.names[side]
        response = await ask_pipeline(self.pipelines[name], battle.messages, patience_seconds=self._patience, take=take)
        battle.is_written[side] = True
        return live_answer(name, response)

    async def events(self, battle: LiveBattle) -> AsyncIterator[str]:
        """Yield server-sent events: `begin`, then `text` as it comes, then `done` with an address, or `failed`."""
        yield _event("begin", {})
        shown = [0, 0]
        while True:
            is_over = battle.is_over
            for side, end in enumerate(self._visible(battle)):
                if end > shown[side]:
                    yield _event("text", {"side": _LABELS[side], "text": battle.texts[side][shown[side] : end]})
                    shown[side] = end
            if battle.failure:
                yield _event("failed", {"why": battle.failure})
                return
            if is_over and battle.assignment:
                yield _event("done", {"next": f"/battles/{battle.assignment.assignment_id}"})
                return
            await asyncio.sleep(_TICK_SECONDS)

    @staticmethod
    def _visible(battle: LiveBattle) -> list[int]:
        """Return how many characters of each answer may be shown."""
        lengths = [len(text) for text in battle.texts]
        if battle.view != "blinded" or battle.is_over:
            return lengths
        limits = [length for length, is_written in zip(lengths, battle.is_written, strict=True) if not is_written]
        return [min([length, *limits]) for length in lengths]


def live_answer(name: str, response: Response) -> Answer:
    """Return what a system answered now as an answer that can be compared."""
    (label,) = RuleBasedIdk().detect([response])
    return Answer(name, "live", "live", response, label.verdict is IdkVerdict.YES, {})


def _event(name: str, content: Mapping[str, str]) -> str:
    return f"event: {name}\ndata: {json.dumps(content)}\n\n"


__all__ = ["LiveBattle", "LiveBattles", "live_answer"]

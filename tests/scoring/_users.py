"""Scripted users and systems behind real servers: a user that reads its own prompt, and systems of known quality."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Callable, Mapping
from typing import Any

from ragtasks.benchmarks import Benchmark
from ragtasks.metrics import token_recall
from tests.clients._server import Action, ChatServer, completion
from tests.judges._demo import QUICK

_BLOCK = re.compile(
    r"^\[(?P<code>[0-9a-f]{8}) need \d+\]\nQuestion: (?P<question>.*?)\nExpected answer: (?P<target>.*?)\n"
    r"\[(?P=code) end\]",
    re.M | re.S,
)
_NOISE = 0.1


def chance(*parts: object) -> float:
    """Return a number from 0 to 1 that follows from the parts."""
    return int(hashlib.sha256(repr(parts).encode()).hexdigest()[:8], 16) / 0xFFFFFFFF


class ScriptedUser:
    """A model that plays the user by its prompt alone: it knows only what the prompt shows, and errs now and then."""

    def __init__(self, noise: float = _NOISE) -> None:
        self.noise = noise
        self.change: Callable[[dict[str, Any], str, int], str | Action | None] = lambda *_: None
        """(reply, prompt, how often it was asked before) -> what is sent in its place; None: the reply."""
        self._server = ChatServer(self._reply)
        self.running = self._server.running

    @property
    def n_asked(self) -> int:
        return len(self.prompts)

    @property
    def prompts(self) -> list[str]:
        return [text for text in self._server.asked if " need 1]" in text]

    def named(self, **options: Any) -> str:
        return json.dumps({"model": "scripted", "base_url": self._server.base_url, **QUICK, **options})

    def _reply(self, prompt: str, n_before: int) -> Action:
        if " need 1]" not in prompt:
            return completion("ready")  # the short question before the first request
        body = next(one for one in reversed(self._server.bodies) if one["messages"][-1]["content"] == prompt)
        found = user_turn(prompt, body.get("seed"), self.noise)
        changed = self.change(found, prompt, n_before)
        if isinstance(changed, Action):
            return changed
        return completion(json.dumps(found) if changed is None else changed)


def user_turn(prompt: str, seed: object = 0, noise: float = 0.0) -> dict[str, Any]:
    """Return what a user replies that goes by the words of the expected answers."""
    needs = [match.groupdict() for match in _BLOCK.finditer(prompt)]
    code = needs[0]["code"]
    at = re.search(r"you had asked about need (\d+)", prompt)
    talk = re.search(rf"\[{code} conversation so far\]\n(.*?)\n\[{code} end\]", prompt, re.S)
    said = re.split(r"^(You|Assistant): ", talk[1], flags=re.M)[1:] if talk else []
    turns = list(zip(said[::2], said[1::2], strict=True))
    labels: dict[str, Any] = {}
    step = re.search(r"message: (ask about need \d+)", prompt)
    if at is not None:
        target = needs[int(at[1]) - 1]["target"]
        heard = " ".join(text for who, text in turns if who == "Assistant")
        met = token_recall(heard, target) >= 0.8
        if chance(seed, code, heard, "met") < noise:
            met = not met
        wrong = token_recall(turns[-1][1], target) < 0.2
        labels = {"met": _word(met), "wrong": _word(wrong), "contradicts": "no"}
        step = re.search(rf"- if met is {_word(met)}, (.*?)[;.]$", prompt, re.M)
    assert step is not None, prompt
    return {"id": code, **labels, "message": _message(step[1], needs, len(turns))}


def _word(label: bool) -> str:
    return "yes" if label else "no"


def _message(step: str, needs: list[dict[str, str]], n: int) -> str:
    if found := re.match(r"ask about need (\d+)", step):
        return f"Could you tell me: {needs[int(found[1]) - 1]['question']}"
    return f"There is more to it, is there not ({n})?" if step.startswith("stay") else ""


class ScriptedSystem:
    """A RAG system with the plain protocol that knows a benchmark's answers, and gives them as `answer` says."""

    def __init__(self, benchmark: Benchmark, answer: Callable[[str, str, int], str | Action]) -> None:
        """`answer`: (target, last message, how many user messages were about it) -> what is said."""
        self._targets = {task.question: task.target for task in benchmark.tasks}
        self._answer = answer
        self._server = ChatServer(self._reply)
        self.running = self._server.running

    @property
    def n_asked(self) -> int:
        return len([body for body in self._server.bodies if body["id"] != "preflight"])

    @property
    def bodies(self) -> list[Mapping[str, Any]]:
        return [body for body in self._server.bodies if body["id"] != "preflight"]

    def named(self, **options: Any) -> str:
        return json.dumps({"base_url": self._server.base_url, "protocol": "plain", **QUICK, **options})

    def _reply(self, text: str, n_before: int) -> Action:
        body = next(one for one in reversed(self._server.bodies) if one["messages"][-1]["content"] == text)
        messages = [one["content"] for one in body["messages"] if one["role"] == "user"]
        target, n = "", 0
        for message in messages:
            question = message.removeprefix("Could you tell me: ")
            target, n = (self._targets[question], 1) if question in self._targets else (target, n + 1)
        said = self._answer(target, text, n)
        if isinstance(said, Action):
            return said
        return Action(json.dumps({"answer": said, "contexts": [said]}).encode())


def complete(target: str, _: str, n: int) -> str:
    return target if n == 1 else f"As I said: {target}"


def half(target: str, _: str, n: int) -> str:
    """Give half of an answer, and the rest of every second one when asked again."""
    words = target.split()
    first, rest = " ".join(words[: len(words) // 2]), " ".join(words[len(words) // 2 :])
    return rest if n == 2 and chance(target) < 0.5 else first


def wrong(target: str, *_: object) -> str:
    return "It opened long ago beside a mill, painted yellow by nobody in particular."

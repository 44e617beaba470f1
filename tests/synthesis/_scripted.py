"""A model that replies to the prompts of a synthesis in the requested format, or with a fault named in the material.

It reads the material between the code lines, and its replies depend on the material alone.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable

from tests.clients._server import Action, completion, refusal

_SECTION = re.compile(
    r"^\[([0-9a-f]{8}) (?P<name>[a-z ]+?)(?: \d+)?\]\n(?P<text>.*?)\n\[\1 end\]$", re.DOTALL | re.MULTILINE
)
_TURN = re.compile(r"^(\d+)\. (user|question): (.*)\n\1\. (?:system|answer): (.*)$", re.MULTILINE)

FAULTS: dict[str, Callable[[str], Action]] = {
    "prose": lambda good: completion("I would rather tell you about it in my own words. There are many things to say."),
    "broken": lambda good: completion(good[: len(good) // 2]),
    "missing": lambda good: completion('{"something else": []}'),
    "shape": lambda good: completion(
        '{"propositions": 7, "turns": 7, "questions": [], "pairs": {"1": {"accepted": "maybe"}}}'
    ),
    "empty": lambda good: completion('{"propositions": [], "turns": [], "questions": {}, "pairs": {}}'),
    "german": lambda good: completion(
        '{"propositions": ["Der Fluss fließt langsam durch das Tal."], "turns": [{"question": '
        '"Wohin fließt der Fluss?", "answer": "Langsam durch das Tal."}]}'
    ),
    "many": lambda good: completion(json.dumps({"propositions": [f"Number {n} is a number." for n in range(10_000)]})),
    "silent": lambda good: completion(""),
    "cut": lambda good: completion(good[:40], finish_reason="length"),
    "fenced": lambda good: completion(f"Certainly! Here it is:\n```json\n{good}\n```\nAnything else?"),
    "filtered": lambda good: completion(None, finish_reason="content_filter"),
    "refused": lambda good: refusal(400, "the prompt is too long"),
}
"""Word in the material -> the reply to every prompt with it."""


def sections(prompt: str) -> dict[str, list[str]]:
    """Return the material of a prompt: section name -> its texts."""
    result: dict[str, list[str]] = {}
    for match in _SECTION.finditer(prompt):
        result.setdefault(match["name"], []).append(match["text"])
    return result


def script(prompt: str, n_before: int) -> Action:
    """Reply to one prompt; `fault-WORD` in the material gives that fault, `once-WORD` at the first attempt only."""
    good = good_reply(prompt)
    material = "\n".join(text for texts in sections(prompt).values() for text in texts)
    for when, word in re.findall(r"\b(fault|once)-([a-z]+)", material):
        if when == "fault" or "You were asked this before" not in prompt:
            return FAULTS[word](good)
    return completion(good)


def good_reply(prompt: str) -> str:
    """Return the reply of a good model."""
    result = sections(prompt)
    form = prompt.partition("You were asked this before")[0].rstrip().rsplit("\n", 1)[-1]
    key = re.match(r'\{"(\w+)"', form)
    assert key, f"no form at the end of the prompt: {form}"
    reply = _REPLIES[key[1]](result)
    if "The answer is Yes" in prompt:  # for a question about an order or a comparison
        reply = {"query": f"Did that happen in this order? {'; '.join(result['claims'])[:200]}", "answer": "yes"}
        if "order in time" in prompt:
            reply["query"] += " In time?"
    return json.dumps(reply if key[1] in _WHOLE else {key[1]: reply}, ensure_ascii=False)


def _propositions(material: dict[str, list[str]]) -> list[str]:
    return [part.strip() for part in re.split(r"(?<=[.])\s+", material["passage"][0]) if len(part.split()) > 3]


def _statements(material: dict[str, list[str]]) -> list[str]:
    return [line.removeprefix("- ") for line in material["statements"][0].splitlines() if line.strip()]


def _turns(material: dict[str, list[str]]) -> list[dict[str, str]]:
    rows = [
        {
            "question": f"What is known about {_subject(text)}, of all that is written?",
            "answer": text,
            "type": "factoid",
        }
        for text in _statements(material)
    ]
    return [*rows, {**rows[0], "type": "Riddle"}]  # a repeated question with an unknown type


def _subject(text: str) -> str:
    return " ".join(text.rstrip(".").split()[:6])


def _questions(material: dict[str, list[str]]) -> dict[str, str]:
    return {
        number: question if number == "1" or int(number) % 3 == 0 else "And what about it?"
        for number, _, question, _ in _TURN.findall(material["dialogue"][0])
    }


def _pairs(material: dict[str, list[str]]) -> dict[str, object]:
    """Accept all but every fifth pair; statements are reworded."""
    return {
        number: {
            "statements": [f"{' '.join(answer.split()[:-1])} indeed"],
            "accepted": int(number) % 5 != 0,
            "reason": "-",
        }
        for number, _, _, answer in _TURN.findall(material["pairs"][0])
    }


def _claims(material: dict[str, list[str]]) -> list[dict[str, str]]:
    """Extract sentences of the form `The NAME Company VERB ... THING.`; the last one is quoted incorrectly."""
    rows = []
    for sentence in re.split(r"(?<=[.])\s+", material["piece"][0]):
        named = re.match(r"The (\w+ Company) \w+ (.*)\.", sentence)
        if named:
            claim = f"It is said that the {named[1]} did so: {sentence}"
            rows.append({"fact": sentence, "claim": claim, "entity": named[1], "topic": named[2].split()[-1]})
    return [*rows, {**rows[-1], "fact": f"Nearly: {rows[-1]['fact']}"}] if rows else []


def _query(material: dict[str, list[str]]) -> dict[str, object]:
    """Write a question over claims, or a null query."""
    if "known" in material:
        sources = ["Zubrin Gazette", "Quill Herald"]
        return {"query": f"What do {' and '.join(sources)} say of Vantor?", "entity": "Vantor", "sources": sources}
    numbers = " and ".join(re.findall(r"in (\w+)", material["claims"][0]))
    company = re.search(r"(\w+ Company)", material["claims"][0])
    assert company
    return {"query": f"Which of them did all of this, in {numbers}?", "answer": f"{company[1]}."}


_WHOLE = {"query", "all_used"}
_REPLIES: dict[str, Callable[[dict[str, list[str]]], object]] = {
    "propositions": _propositions,
    "turns": _turns,
    "questions": _questions,
    "pairs": _pairs,
    "answerable": lambda found: "no",
    "claims": _claims,
    "query": _query,
    "all_used": lambda found: {"all_used": True, "only_these": True, "short": True, "of_its_kind": True},
}

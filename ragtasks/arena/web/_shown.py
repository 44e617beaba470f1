"""What a rater sees of a battle: two answers by sentence with what they cite, in the order drawn, without names."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache

from ragtasks.arena.battles import Answer, Battle
from ragtasks.benchmarks import response_of
from ragtasks.errors import ConfigurationError
from ragtasks.metrics import CitedSentence, parse_cited
from ragtasks.records import Message, Passage, Response
from ragtasks.submissions.trec_rag import answer_of

LABELS = "ABCDEFGHIJKLMNOPQRSTUVWXYZ"
"""Names of answers while their systems are hidden."""
_MOST_KEPT = 1_000


@dataclass(frozen=True, slots=True)
class ShownAnswer:
    """One answer."""

    label: str
    """Its letter."""
    response: Response
    """What its system was asked and shown, and said."""

    @property
    def lines(self) -> tuple[tuple[CitedSentence, ...], ...]:
        """Paragraphs of sentences with what each cites."""
        return _lines(self.response.text, len(self.response.passages))

    @property
    def passages(self) -> tuple[Passage, ...]:
        """What its system was shown."""
        return self.response.passages

    @property
    def trec(self) -> str:
        """The answer as JSON in the format of TREC RAG, under its letter; or why it cannot be written so."""
        return trec_of(self.response, self.label)


@dataclass(frozen=True, slots=True)
class ShownBattle:
    """A conversation and answers to its last message."""

    conversation: tuple[Message, ...]
    """The last message is the question."""
    answers: tuple[ShownAnswer, ...]
    """In the order drawn."""


def show(battle: Battle, *, is_turned: bool) -> ShownBattle:
    """Return a battle as raters see it; nothing in it depends on the systems' names."""
    answers = (battle.second, battle.first) if is_turned else (battle.first, battle.second)
    shown = tuple(ShownAnswer(label, answer.response) for label, answer in zip(LABELS, answers, strict=False))
    return ShownBattle(battle.first.response.task.messages, shown)


def trec_of(response: Response, name: str) -> str:
    """Return an answer as indented JSON in the format of TREC RAG, or why it cannot be written so."""
    try:
        row = answer_of(response, name).row()
    except ConfigurationError as error:
        return str(error)
    return json.dumps(row, indent=2, ensure_ascii=False)


@lru_cache(maxsize=_MOST_KEPT)
def _lines(text: str, n_passages: int) -> tuple[tuple[CitedSentence, ...], ...]:
    """Return the paragraphs of an answer; a line of citations alone belongs to the one before it."""
    lines: list[tuple[CitedSentence, ...]] = []
    pending = ""
    for line in text.splitlines():
        if line.strip() and parse_cited(line, 0):
            lines.append(parse_cited(pending + line, n_passages))
            pending = ""
        elif line.strip() and lines:
            lines[-1] = parse_cited(_last_text(lines[-1]) + " " + line, n_passages) or lines[-1]
        elif line.strip():
            pending = line
    return tuple(lines)


def _last_text(line: tuple[CitedSentence, ...]) -> str:
    return " ".join(item.text + "".join(f" [{number + 1}]" for number in item.citations) for item in line)


def battle_text(battle: Battle) -> str:
    """Return a live battle as JSON, for the database."""
    return json.dumps({"first": _answer_fields(battle.first), "second": _answer_fields(battle.second)})


def battle_of(text: str) -> Battle:
    """Return the live battle of a JSON text that `battle_text` wrote."""
    found = json.loads(text)
    return Battle(_answer(found["first"]), _answer(found["second"]))


def _answer_fields(answer: Answer) -> Mapping[str, object]:
    task = answer.response.task
    return {
        "system": answer.system,
        "refuses": answer.refuses,
        "benchmark": answer.benchmark,
        "text": answer.response.text,
        "doc": {
            "task_id": task.task_id,
            "conversation_id": task.conversation_id,
            "turn": task.turn,
            "domain": task.domain,
            "history": [{"role": m.role.value, "content": m.text} for m in task.messages[:-1]],
            "question": task.question,
            "target": "",
            "answerability": task.answerability.value,
            "question_types": [],
            "multi_turn": task.multi_turn,
            "references": [],
            "passages": [
                {"passage_id": p.passage_id, "title": p.title, "text": p.text} for p in answer.response.passages
            ],
        },
    }


def _answer(fields: Mapping[str, object]) -> Answer:
    doc = fields["doc"]
    assert isinstance(doc, dict)
    return Answer(
        system=str(fields["system"]),
        benchmark=str(fields["benchmark"]),
        setting="live",
        response=response_of(doc, str(fields["text"])),
        refuses=bool(fields["refuses"]),
        scores={},
    )


__all__ = ["LABELS", "ShownAnswer", "ShownBattle", "battle_of", "battle_text", "show", "trec_of"]

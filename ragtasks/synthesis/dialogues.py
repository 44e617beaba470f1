"""Dialogues by three prompts: stand-alone questions first, then conversational questions, then a check.

A model writes better questions of both forms in this order than in the reverse order (OR-CONVQA paper, section 3.2,
prompts 2.1 to 2.3). The wording of the prompts is ours. A dialogue with an unusable reply is left out completely. If
the check rejects a pair, only this pair is removed, and the next question then uses its stand-alone form.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, TypeVar

from ragtasks.benchmarks import bm25_rankings
from ragtasks.records import Passage
from ragtasks.synthesis.asking import (
    Asker,
    Inquiry,
    UnreadableReplyError,
    UnusableReply,
    covered_share,
    listed_texts,
    object_with,
    question_of,
    text_of,
)
from ragtasks.synthesis.documents import LeftOut
from ragtasks.synthesis.draft import Dialogue, Removed, Turn
from ragtasks.synthesis.propositions import Unit

QUESTION_TYPES = (
    *("Comparative", "Composite", "Explanation", "Factoid", "How-To"),
    *("Keyword", "Opinion", "Summarization", "Troubleshooting"),
)
"""Question types of MTRAG (section 3.1), without those of messages that are not questions."""
LEAST_SHARED = 0.2
"""Minimum share of an answer's words in its question and units; less indicates another language or subject."""

T = TypeVar("T")


def write_dialogues(
    lists: Sequence[tuple[Unit, ...]], asker: Asker, *, turns: int, question_types: Sequence[str] = QUESTION_TYPES
) -> tuple[list[Dialogue], list[LeftOut]]:
    """Return a dialogue with at least one turn for each list of units, in order, and the failed dialogues."""
    opened = [Dialogue(f"d{number}", units[0].domain, units) for number, units in enumerate(lists, start=1)]
    left_out: list[LeftOut] = []
    first = _Step(asker, left_out)
    ask_dialogue = partial(_dialogue_question, turns, question_types)
    written = first.take("dialogues", opened, ask_dialogue, lambda draft, turns_read: replace(draft, turns=turns_read))
    questions = first.take("questions in context", written, _context_question, _with_contexts)
    checked = first.take("grounding", questions, _ground_question, _grounded)
    complete = [dialogue for dialogue in checked if dialogue.turns]
    left_out += [LeftOut(empty.dialogue_id, "no pair was accepted") for empty in checked if not empty.turns]
    return complete, left_out


class _Step:
    """Sends one prompt per dialogue and keeps the dialogues with a usable reply."""

    def __init__(self, asker: Asker, left_out: list[LeftOut]) -> None:
        self._asker, self._left_out = asker, left_out

    def take(
        self,
        stage: str,
        dialogues: Sequence[Dialogue],
        question: Callable[[Dialogue], Inquiry[T]],
        follow: Callable[[Dialogue, T], Dialogue],
    ) -> list[Dialogue]:
        replies = self._asker.ask(stage, [question(dialogue) for dialogue in dialogues])
        accepted: list[Dialogue] = []
        for dialogue, reply in zip(dialogues, replies, strict=True):
            if isinstance(reply, UnusableReply):
                self._left_out.append(LeftOut(dialogue.dialogue_id, f"{stage}: {reply.reason}"))
            else:
                accepted.append(follow(dialogue, reply))
        return accepted


def _dialogue_question(n_turns: int, types: Sequence[str], dialogue: Dialogue) -> Inquiry[tuple[Turn, ...]]:
    statements = [unit.text for unit in dialogue.units]
    read = partial(_read_dialogue, n_turns, types)
    return question_of("dialogue", read, {"statements": statements}, turns=n_turns, types=list(types))


def _read_dialogue(n_turns: int, types: Sequence[str], reply: str) -> tuple[Turn, ...]:
    """Return the turns of a reply, without repeated questions; an unknown type is dropped."""
    rows = object_with(reply, "turns")["turns"]
    if not isinstance(rows, list) or not rows:
        raise UnreadableReplyError('"turns": no list with turns')
    named = {name.casefold(): name for name in types}
    turns: dict[str, Turn] = {}
    for row in rows:
        question, answer = text_of(row, "question"), text_of(row, "answer")
        label = row.get("type")
        question_type = named.get(label.casefold()) if isinstance(label, str) else None
        turns.setdefault(question.casefold(), Turn(question, answer, (question_type,) if question_type else ()))
    return tuple(turns.values())[:n_turns]


def _turn_fields(dialogue: Dialogue) -> list[dict[str, str]]:
    return [{"question": turn.decontextualized, "answer": turn.answer} for turn in dialogue.turns]


def _context_question(dialogue: Dialogue) -> Inquiry[list[str]]:
    read = partial(_read_contexts, len(dialogue.turns))
    return question_of("contextualize", read, {"turns": _turn_fields(dialogue)})


def _read_contexts(n_turns: int, reply: str) -> list[str]:
    rows = object_with(reply, "questions")["questions"]
    return [text_of(rows, number) for number in _numbers(rows, n_turns, "questions")]


def _numbers(rows: object, n_turns: int, key: str) -> list[str]:
    """Return the numbers of the turns, which must be the keys of an object."""
    numbers = [str(number) for number in range(1, n_turns + 1)]
    if not isinstance(rows, dict) or not set(numbers) <= rows.keys():
        raise UnreadableReplyError(f'"{key}" does not hold the turns 1 to {n_turns}')
    return numbers


def _with_contexts(dialogue: Dialogue, questions: Sequence[str]) -> Dialogue:
    """Return a dialogue with its conversational questions."""
    pairs = zip(dialogue.turns, questions, strict=True)
    return replace(dialogue, turns=tuple(replace(turn, contextualized=question) for turn, question in pairs))


@dataclass(frozen=True, slots=True)
class _Judgement:
    """Result of the check of one pair."""

    statements: tuple[str, ...]
    is_accepted: bool


def _ground_question(dialogue: Dialogue) -> Inquiry[list[_Judgement]]:
    statements = [unit.text for unit in dialogue.units]
    read = partial(_read_judgements, len(dialogue.turns))
    return question_of("ground", read, {"statements": statements, "turns": _turn_fields(dialogue)})


def _read_judgements(n_turns: int, reply: str) -> list[_Judgement]:
    rows = object_with(reply, "pairs")["pairs"]
    return [_judgement(rows[number]) for number in _numbers(rows, n_turns, "pairs")]


def _judgement(row: Any) -> _Judgement:
    accepted = row.get("accepted") if isinstance(row, dict) else None
    if not isinstance(accepted, bool):
        raise UnreadableReplyError('"accepted" is neither true nor false')
    return _Judgement(tuple(listed_texts(row.get("statements"), '"statements"')), accepted)


def _grounded(dialogue: Dialogue, judgements: Sequence[_Judgement]) -> Dialogue:
    """Return a dialogue with the units that support its turns, without unsupported pairs.

    The first question, and the one after a removed pair, have no context and use their stand-alone form.
    """
    turns: list[Turn] = []
    removed: list[Removed] = []
    stands_alone = True
    for turn, judgement in zip(dialogue.turns, judgements, strict=True):
        units = closest_units(judgement.statements, dialogue.units)
        reason = _objection(turn, judgement, units)
        if reason:
            removed.append(Removed(turn.decontextualized, turn.answer, reason))
            stands_alone = True
            continue
        text = turn.decontextualized if stands_alone else turn.contextualized
        turns.append(replace(turn, units=units, contextualized=text))
        stands_alone = False
    return replace(dialogue, turns=tuple(turns), removed=tuple(removed))


def _objection(turn: Turn, judgement: _Judgement, units: Sequence[Unit]) -> str:
    """Return why a pair is removed; empty if it is kept."""
    if not judgement.is_accepted:
        return "not accepted"
    if not units:
        return "accepted without a supporting statement"
    source = " ".join([turn.decontextualized, *(unit.text for unit in units)])
    if covered_share(turn.answer, source) < LEAST_SHARED:
        return "the answer shares too few words with its statements (another language or subject)"
    return ""


def closest_units(claims: Sequence[str], units: Sequence[Unit]) -> tuple[Unit, ...]:
    """Return the units that the claims refer to, in the order of the list, each once.

    A claim means the unit with the same text, or else the first unit in a BM25 ranking. A claim that shares no word
    with any unit is dropped.
    """
    texts = {unit.text.casefold(): unit.unit_id for unit in units}
    exact = {texts[claim.casefold()] for claim in claims if claim.casefold() in texts}
    inexact = {claim: claim for claim in claims if claim.casefold() not in texts}
    ranked = bm25_rankings(inexact, [Passage(unit.unit_id, unit.text) for unit in units], 1) if inexact else {}
    wanted = exact | {unit_ids[0] for unit_ids in ranked.values() if unit_ids}
    return tuple(unit for unit in units if unit.unit_id in wanted)

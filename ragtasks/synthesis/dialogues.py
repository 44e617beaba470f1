"""Dialogues over lists of propositions or sentences, and questions among them that nothing answers any more."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, TypeVar

from ragtasks.benchmarks import bm25_rankings
from ragtasks.files import canonical_hash
from ragtasks.records import Answerability, Passage
from ragtasks.synthesis.asking import (
    Asker,
    Question,
    UnreadableReplyError,
    UnusableReply,
    covered_share,
    listed_texts,
    object_with,
    question_of,
    text_of,
)
from ragtasks.synthesis.documents import LeftOut
from ragtasks.synthesis.propositions import Unit

# Dialogues in three questions to a model: written so that each question stands alone, as people talk, then checked.
# A model writes better questions in both forms in this order than the other way round (OR-CONVQA paper, section
# 3.2, prompts 2.1 to 2.3). The wording of the prompts is ours. A dialogue with a reply that cannot be used is left
# out whole; a pair that the check does not accept is taken out alone, and the next question falls back to its
# standalone form.

QUESTION_TYPES = (
    *("Comparative", "Composite", "Explanation", "Factoid", "How-To"),
    *("Keyword", "Opinion", "Summarization", "Troubleshooting"),
)
"""The types of MTRAG (section 3.1), those of other messages than questions left out."""
LEAST_SHARED = 0.2
"""Share of an answer's words that its question and units must hold: less is another language, or another subject."""

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Written:
    """The dialogues of all lists."""

    dialogues: tuple[Dialogue, ...]
    """In the order of the lists, each with a turn at least."""
    left_out: tuple[LeftOut, ...]
    """Dialogues that failed, with the reason."""


def write_dialogues(
    lists: Sequence[tuple[Unit, ...]], asker: Asker, *, turns: int, question_types: Sequence[str] = QUESTION_TYPES
) -> Written:
    """Return a dialogue for each list of units."""
    opened = [Dialogue(f"d{number}", units[0].domain, units) for number, units in enumerate(lists, start=1)]
    left_out: list[LeftOut] = []
    first = _Step(asker, left_out)
    ask_dialogue = partial(_dialogue_question, turns, question_types)
    written = first.take("dialogues", opened, ask_dialogue, lambda one, found: replace(one, turns=found))
    questions = first.take("questions in context", written, _context_question, _with_contexts)
    checked = first.take("grounding", questions, _ground_question, _grounded)
    whole = [dialogue for dialogue in checked if dialogue.turns]
    left_out += [LeftOut(one.dialogue_id, "no pair was accepted") for one in checked if not one.turns]
    return Written(tuple(whole), tuple(left_out))


class _Step:
    """Asks one question a dialogue and keeps those whose reply can be used."""

    def __init__(self, asker: Asker, left_out: list[LeftOut]) -> None:
        self._asker, self._left_out = asker, left_out

    def take(
        self,
        what: str,
        dialogues: Sequence[Dialogue],
        question: Callable[[Dialogue], Question[T]],
        follow: Callable[[Dialogue, T], Dialogue],
    ) -> list[Dialogue]:
        found = self._asker.ask(what, [question(dialogue) for dialogue in dialogues])
        accepted: list[Dialogue] = []
        for dialogue, answer in zip(dialogues, found, strict=True):
            if isinstance(answer, UnusableReply):
                self._left_out.append(LeftOut(dialogue.dialogue_id, f"{what}: {answer.reason}"))
            else:
                accepted.append(follow(dialogue, answer))
        return accepted


def _dialogue_question(n_turns: int, types: Sequence[str], dialogue: Dialogue) -> Question[tuple[Turn, ...]]:
    statements = [unit.text for unit in dialogue.units]
    read = partial(_read_dialogue, n_turns, types)
    return question_of("dialogue", read, {"statements": statements}, turns=n_turns, types=list(types))


def _read_dialogue(n_turns: int, types: Sequence[str], reply: str) -> tuple[Turn, ...]:
    """Return the turns of a reply; a question that comes twice is kept once, an unknown type is no type."""
    rows = object_with(reply, "turns")["turns"]
    if not isinstance(rows, list) or not rows:
        raise UnreadableReplyError('"turns": no list with turns')
    named = {name.casefold(): name for name in types}
    turns: dict[str, Turn] = {}
    for row in rows:
        question, answer = text_of(row, "question"), text_of(row, "answer")
        label = row.get("type")
        passage = named.get(label.casefold()) if isinstance(label, str) else None
        turns.setdefault(question.casefold(), Turn(question, answer, (passage,) if passage else ()))
    return tuple(turns.values())[:n_turns]


def _turn_fields(dialogue: Dialogue) -> list[dict[str, str]]:
    return [{"question": turn.decontextualized, "answer": turn.answer} for turn in dialogue.turns]


def _context_question(dialogue: Dialogue) -> Question[list[str]]:
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
    """Return a dialogue as it is asked."""
    pairs = zip(dialogue.turns, questions, strict=True)
    return replace(dialogue, turns=tuple(replace(turn, contextualized=question) for turn, question in pairs))


@dataclass(frozen=True, slots=True)
class _Judgement:
    """What the check says of one pair."""

    statements: tuple[str, ...]
    is_accepted: bool


def _ground_question(dialogue: Dialogue) -> Question[list[_Judgement]]:
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
    """Return a dialogue with what its turns rest on, and without the pairs that rest on nothing.

    The first question, and the one behind a pair that goes, have nothing to lean on and stand alone.
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
    """Return why a pair goes, empty where it stays."""
    if not judgement.is_accepted:
        return "not accepted"
    if not units:
        return "accepted without a statement that it rests on"
    source = " ".join([turn.decontextualized, *(unit.text for unit in units)])
    if covered_share(turn.answer, source) < LEAST_SHARED:
        return "the answer shares too few words with what it rests on (another language, or another subject)"
    return ""


def closest_units(claims: Sequence[str], units: Sequence[Unit]) -> tuple[Unit, ...]:
    """Return the real units that claimed statements mean, in the order of the list, each once.

    A claim is the unit of the same text, else the one that BM25 ranks first for it; one that shares no word with any
    is dropped.
    """
    texts = {unit.text.casefold(): unit.unit_id for unit in units}
    exact = {texts[claim.casefold()] for claim in claims if claim.casefold() in texts}
    others = {claim: claim for claim in claims if claim.casefold() not in texts}
    ranked = bm25_rankings(others, [Passage(unit.unit_id, unit.text) for unit in units], 1) if others else {}
    wanted = exact | {found[0] for found in ranked.values() if found}
    return tuple(unit for unit in units if unit.unit_id in wanted)


# Unanswerable questions by removal: passages leave the corpus, and with them the answers of the questions on them.
# MTRAG's authors could hardly get such questions by asking a model for them (section 9): it tends to write some
# that have at least a part of an answer. So a passage goes with all that only it says. It goes only if no question
# loses a part of its answer and keeps another, if at most half of a dialogue's questions are struck, if nothing
# that a search still finds repeats what went, and if a model that reads what is found says that it does not answer
# the question.

NO_ANSWER = "I do not have any information about that."
"""What the system says to a question that nothing answers."""

_SEARCHED = 5
_SPARE = 3
_REPEATS = 0.9  # of a unit's words: a passage with so many of them says it once more
_MOST_OF_A_DIALOGUE = 0.5
_ANSWERS = ("yes", "partly", "no")

_Place = tuple[int, int]


@dataclass(frozen=True)
class Pool:
    """What is searched: passages or propositions of every domain."""

    passages: Mapping[str, tuple[Passage, ...]]
    """Domain -> what is in its corpus."""
    of_unit: Mapping[str, tuple[str, ...]]
    """Id of a unit -> ids of what holds it in the corpus."""

    def without(self, removed: frozenset[str]) -> Pool:
        """Return the pool without some of it."""
        left = {
            domain: tuple(item for item in items if item.passage_id not in removed)
            for domain, items in self.passages.items()
        }
        held = {unit: tuple(name for name in names if name not in removed) for unit, names in self.of_unit.items()}
        return Pool(left, held)

    def ids_of(self, turn: Turn) -> frozenset[str]:
        """Return everything that holds a unit that a turn rests on."""
        return frozenset(name for unit in turn.units for name in self.of_unit[unit.unit_id])


def make_unanswerable(
    dialogues: Sequence[Dialogue], pool: Pool, share: float, asker: Asker
) -> tuple[list[Dialogue], Pool, Counter[str]]:
    """Return dialogues some of whose questions have no answer in the pool that is left, that pool, and counts."""
    wanted = round(share * sum(len(dialogue.turns) for dialogue in dialogues))
    counts: Counter[str] = Counter()
    if not wanted:
        return list(dialogues), pool, counts
    removal = _Removal(dialogues, pool)
    tried: dict[str, frozenset[_Place]] = {}
    for name in removal.candidates():
        if sum(map(len, tried.values())) < _SPARE * wanted:
            tried[name] = removal.struck_by(frozenset([name]))
    refused = _refused(removal, tried, asker)
    removed = removal.choose({name: places for name, places in tried.items() if name not in refused}, wanted)
    struck = removal.struck_by(removed)
    counts["unanswerable questions wanted"], counts["unanswerable questions made"] = wanted, len(struck)
    counts["passages removed"], counts["passages tried that others repeat or answer"] = len(removed), len(refused)
    return _relabelled(dialogues, struck), pool.without(removed), counts


class _Removal:
    """Which questions lose their answer with which passages."""

    def __init__(self, dialogues: Sequence[Dialogue], pool: Pool) -> None:
        self._dialogues, self._pool = dialogues, pool
        self._turns = {
            (one, two): turn for one, dialogue in enumerate(dialogues) for two, turn in enumerate(dialogue.turns)
        }
        self._on: dict[str, set[_Place]] = {}
        for place, turn in self._turns.items():
            for name in pool.ids_of(turn):
                self._on.setdefault(name, set()).add(place)

    def candidates(self) -> list[str]:
        """Return the passages that can go alone, in an order that has nothing to do with where they stand."""
        fitting = [name for name in self._on if self.fits(frozenset([name])) and self.struck_by(frozenset([name]))]
        return sorted(fitting, key=canonical_hash)

    def struck_by(self, removed: frozenset[str]) -> frozenset[_Place]:
        """Return the questions that lose a unit which nothing else holds."""
        near = {place for name in removed for place in self._on[name]}
        return frozenset(place for place in near if any(self._lost(place, removed)))

    def fits(self, removed: frozenset[str]) -> bool:
        """Return whether those that lose a unit lose all of theirs, and no dialogue loses too many questions."""
        struck = self.struck_by(removed)
        a_dialogue = Counter(one for one, _ in struck)
        return all(all(self._lost(place, removed)) for place in struck) and all(
            count <= _MOST_OF_A_DIALOGUE * len(self._dialogues[one].turns) for one, count in a_dialogue.items()
        )

    def _lost(self, place: _Place, removed: frozenset[str]) -> list[bool]:
        return [removed.issuperset(self._pool.of_unit[unit.unit_id]) for unit in self._turns[place].units]

    def choose(self, passed: Mapping[str, frozenset[_Place]], wanted: int) -> frozenset[str]:
        """Return passages that together strike what each strikes alone, and no more questions than wanted."""
        chosen: frozenset[str] = frozenset()
        struck: frozenset[_Place] = frozenset()
        for name, places in passed.items():
            both, together = struck | places, chosen | {name}
            if len(both) <= wanted and self.struck_by(together) == both and self.fits(together):
                chosen, struck = together, both
        return chosen

    def found_without(self, tried: Mapping[str, frozenset[_Place]]) -> list[tuple[str, _Place, list[Passage]]]:
        """Return each passage with each question that rests on it, and what a search still finds once it is gone.

        One index a domain is enough: that a single passage is missing hardly moves the weight of a term.
        """
        asked: dict[str, dict[str, str]] = {}
        for place in frozenset().union(*tried.values()):
            asked.setdefault(self._dialogues[place[0]].domain, {})[str(place)] = self._turns[place].decontextualized
        found: dict[str, list[Passage]] = {}
        for domain, queries in asked.items():
            passages = {item.passage_id: item for item in self._pool.passages[domain]}
            for asked_at, ranked in bm25_rankings(queries, passages.values(), _SEARCHED + 1).items():
                found[asked_at] = [passages[name] for name in ranked]
        return [
            (name, place, [item for item in found[str(place)] if item.passage_id != name][:_SEARCHED])
            for name, places in tried.items()
            for place in sorted(places)
        ]

    def is_repeated(self, place: _Place, found: Sequence[Passage]) -> bool:
        """Return whether something found says what a question rests on once more."""
        units = self._turns[place].units
        return any(covered_share(unit.text, item.text) >= _REPEATS for unit in units for item in found)

    def question(self, place: _Place, found: Sequence[Passage]) -> Question[str]:
        """Return what a model is asked about a question and what is still found."""
        fields = {"question": self._turns[place].decontextualized, "passages": [item.text for item in found]}
        return question_of("answerable", _read, fields)


def _refused(removal: _Removal, tried: Mapping[str, frozenset[_Place]], asker: Asker) -> set[str]:
    """Return the passages whose questions others still answer, or may answer for all that is known."""
    pairs = removal.found_without(tried)
    repeated = {name for name, place, found in pairs if removal.is_repeated(place, found)}
    open_pairs = [(name, place, found) for name, place, found in pairs if name not in repeated]
    answers = asker.ask("answerability", [removal.question(place, found) for _, place, found in open_pairs])
    return repeated | {name for (name, _, _), answer in zip(open_pairs, answers, strict=True) if answer != "no"}


def _read(reply: str) -> str:
    answer = text_of(object_with(reply, "answerable"), "answerable").lower()
    if answer not in _ANSWERS:
        raise UnreadableReplyError(f'"answerable" is none of {", ".join(_ANSWERS)}')
    return answer


def _relabelled(dialogues: Sequence[Dialogue], struck: frozenset[_Place]) -> list[Dialogue]:
    """Return the dialogues with some turns unanswerable; the turn behind one is asked so that it stands alone."""
    relabelled = []
    for one, dialogue in enumerate(dialogues):
        turns = [
            _relabel(turn, is_struck=(one, two) in struck, follows_struck=(one, two - 1) in struck)
            for two, turn in enumerate(dialogue.turns)
        ]
        relabelled.append(replace(dialogue, turns=tuple(turns)))
    return relabelled


def _relabel(turn: Turn, *, is_struck: bool, follows_struck: bool) -> Turn:
    text = turn.decontextualized if follows_struck else turn.contextualized
    if not is_struck:
        return replace(turn, contextualized=text)
    return replace(turn, contextualized=text, answer=NO_ANSWER, units=(), answerability=Answerability.UNANSWERABLE)


# A dialogue while it is made: its turns in both forms, what they rest on, and what was taken out of it.


@dataclass(frozen=True, slots=True)
class Turn:
    """One question of the user with the system's answer."""

    decontextualized: str
    """The question as it can be understood alone."""
    answer: str
    question_types: tuple[str, ...] = ()
    """Its label, where the model gave one that was offered."""
    contextualized: str = ""
    """The question as it is asked in the dialogue; empty before that step."""
    units: tuple[Unit, ...] = ()
    """What the answer rests on; empty before that step, and where it is unanswerable."""
    answerability: Answerability = Answerability.ANSWERABLE
    """ANSWERABLE, or UNANSWERABLE once its passages are out of the corpus."""


@dataclass(frozen=True, slots=True)
class Removed:
    """A pair that was taken out of a dialogue."""

    question: str
    """The question as it can be understood alone."""
    answer: str
    reason: str


@dataclass(frozen=True, slots=True)
class Dialogue:
    """One dialogue over a list of units."""

    dialogue_id: str
    """`d` and the number of its list, from 1."""
    domain: str
    units: tuple[Unit, ...]
    turns: tuple[Turn, ...] = ()
    removed: tuple[Removed, ...] = ()

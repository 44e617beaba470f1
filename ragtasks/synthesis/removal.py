"""Unanswerable questions by removal: passages are removed from the corpus, and with them the answers that they support.

MTRAG's authors barely obtained such questions by prompting a model for them (section 9): it tends to write questions
with at least a partial answer. A passage is therefore removed with everything that only it supports. Four conditions
apply. No question keeps a part of its answer. At most half of a dialogue's questions become unanswerable. No passage
that a search still returns repeats the removed text. A model that reads the returned passages reports that they do not
answer the question.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from ragtasks.benchmarks import bm25_rankings
from ragtasks.files import canonical_hash
from ragtasks.records import Answerability, Passage
from ragtasks.synthesis.asking import (
    Asker,
    Inquiry,
    UnreadableReplyError,
    covered_share,
    object_with,
    question_of,
    text_of,
)
from ragtasks.synthesis.draft import Dialogue, Turn

NO_ANSWER = "I do not have any information about that."
"""The system's reply to an unanswerable question."""

_SEARCHED = 5
_SPARE = 3
_REPEATS = 0.9  # of a unit's words: a passage with this share repeats it
_MOST_OF_A_DIALOGUE = 0.5
_ANSWERS = ("yes", "partly", "no")

_Place = tuple[int, int]


@dataclass(frozen=True)
class Pool:
    """Corpus of every domain: passages or propositions."""

    passages: Mapping[str, tuple[Passage, ...]]
    """Domain -> entries of its corpus."""
    of_unit: Mapping[str, tuple[str, ...]]
    """Id of a unit -> ids of the corpus entries that contain it."""

    def without(self, removed: frozenset[str]) -> Pool:
        """Return the pool without the removed entries."""
        left = {
            domain: tuple(item for item in items if item.passage_id not in removed)
            for domain, items in self.passages.items()
        }
        held = {unit: tuple(name for name in names if name not in removed) for unit, names in self.of_unit.items()}
        return Pool(left, held)

    def ids_of(self, turn: Turn) -> frozenset[str]:
        """Return the ids of all entries that contain a unit of a turn."""
        return frozenset(name for unit in turn.units for name in self.of_unit[unit.unit_id])


def make_unanswerable(
    dialogues: Sequence[Dialogue], pool: Pool, share: float, asker: Asker
) -> tuple[list[Dialogue], Pool, Counter[str]]:
    """Return dialogues with unanswerable questions, the remaining pool, and counts."""
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
    """Questions that lose their answer with each passage."""

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
        """Return the passages that can be removed individually, in an order independent of their positions."""
        fitting = [name for name in self._on if self.fits(frozenset([name])) and self.struck_by(frozenset([name]))]
        return sorted(fitting, key=canonical_hash)

    def struck_by(self, removed: frozenset[str]) -> frozenset[_Place]:
        """Return the questions that lose a unit which no remaining passage contains."""
        near = {place for name in removed for place in self._on[name]}
        return frozenset(place for place in near if any(self._lost(place, removed)))

    def fits(self, removed: frozenset[str]) -> bool:
        """Return whether every affected question loses all units, and no dialogue loses too many questions."""
        struck = self.struck_by(removed)
        a_dialogue = Counter(one for one, _ in struck)
        return all(all(self._lost(place, removed)) for place in struck) and all(
            count <= _MOST_OF_A_DIALOGUE * len(self._dialogues[one].turns) for one, count in a_dialogue.items()
        )

    def _lost(self, place: _Place, removed: frozenset[str]) -> list[bool]:
        return [removed.issuperset(self._pool.of_unit[unit.unit_id]) for unit in self._turns[place].units]

    def choose(self, passed: Mapping[str, frozenset[_Place]], wanted: int) -> frozenset[str]:
        """Return passages that affect the same questions together as individually, and at most `wanted` questions."""
        chosen: frozenset[str] = frozenset()
        struck: frozenset[_Place] = frozenset()
        for name, places in passed.items():
            both, together = struck | places, chosen | {name}
            if len(both) <= wanted and self.struck_by(together) == both and self.fits(together):
                chosen, struck = together, both
        return chosen

    def found_without(self, tried: Mapping[str, frozenset[_Place]]) -> list[tuple[str, _Place, list[Passage]]]:
        """Return each passage with each question that it supports, and the search results without the passage.

        One index per domain suffices: a single missing passage barely changes the weight of a term.
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
        """Return whether a search result repeats a unit of a question."""
        units = self._turns[place].units
        return any(covered_share(unit.text, item.text) >= _REPEATS for unit in units for item in found)

    def question(self, place: _Place, found: Sequence[Passage]) -> Inquiry[str]:
        """Return the prompt for a question and the remaining search results."""
        fields = {"question": self._turns[place].decontextualized, "passages": [item.text for item in found]}
        return question_of("answerable", _read, fields)


def _refused(removal: _Removal, tried: Mapping[str, frozenset[_Place]], asker: Asker) -> set[str]:
    """Return the passages whose questions other passages answer or may answer."""
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
    """Return the dialogues with unanswerable turns; the turn after each uses its stand-alone form."""
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

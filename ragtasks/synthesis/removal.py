"""Unanswerable questions by removal: passages are removed from the corpus, and with them the answers that they support.

MTRAG's authors barely obtained such questions by prompting a model for them (section 9): it tends to write questions
with at least a partial answer. A passage is therefore removed with everything that only it supports. Four conditions
apply:

- No question keeps a part of its answer.
- At most half of a dialogue's questions become unanswerable.
- No passage that a search still returns repeats the removed text.
- A model that reads the returned passages replies that they do not answer the question.
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

_TurnKey = tuple[int, int]
"""(position of the dialogue, position of the turn in it), from 0."""


@dataclass(frozen=True)
class Pool:
    """Corpus of every domain: passages or propositions."""

    passages: Mapping[str, tuple[Passage, ...]]
    """Domain -> entries of its corpus."""
    of_unit: Mapping[str, tuple[str, ...]]
    """Id of a unit -> ids of the corpus entries that contain it."""

    def without(self, removed: frozenset[str]) -> Pool:
        """Return the pool without the removed entries."""
        remaining = {
            domain: tuple(passage for passage in passages if passage.passage_id not in removed)
            for domain, passages in self.passages.items()
        }
        remaining_ids = {
            unit: tuple(name for name in names if name not in removed) for unit, names in self.of_unit.items()
        }
        return Pool(remaining, remaining_ids)

    def ids_of(self, turn: Turn) -> frozenset[str]:
        """Return the ids of all entries that contain a unit of a turn."""
        return frozenset(name for unit in turn.units for name in self.of_unit[unit.unit_id])


def make_unanswerable(
    dialogues: Sequence[Dialogue], pool: Pool, share: float, asker: Asker
) -> tuple[list[Dialogue], Pool, Counter[str]]:
    """Return dialogues with unanswerable questions (at most `share` of all), the remaining pool, and counts."""
    wanted = round(share * sum(len(dialogue.turns) for dialogue in dialogues))
    counts: Counter[str] = Counter()
    if not wanted:
        return list(dialogues), pool, counts
    removal = _Removal(dialogues, pool)
    tried: dict[str, frozenset[_TurnKey]] = {}
    for name in removal.candidates():
        if sum(map(len, tried.values())) < _SPARE * wanted:
            tried[name] = removal.questions_lost(frozenset([name]))
    refused = _refused(removal, tried, asker)
    removed = removal.choose({name: turns for name, turns in tried.items() if name not in refused}, wanted)
    lost = removal.questions_lost(removed)
    counts["unanswerable questions wanted"], counts["unanswerable questions made"] = wanted, len(lost)
    counts["passages removed"], counts["passages tried that others repeat or answer"] = len(removed), len(refused)
    return _with_unanswerable(dialogues, lost), pool.without(removed), counts


class _Removal:
    """Questions that lose their answer with each passage."""

    def __init__(self, dialogues: Sequence[Dialogue], pool: Pool) -> None:
        self._dialogues, self._pool = dialogues, pool
        self._turns = {
            (dialogue_index, turn_index): turn
            for dialogue_index, dialogue in enumerate(dialogues)
            for turn_index, turn in enumerate(dialogue.turns)
        }
        self._turns_with: dict[str, set[_TurnKey]] = {}
        for key, turn in self._turns.items():
            for name in pool.ids_of(turn):
                self._turns_with.setdefault(name, set()).add(key)

    def candidates(self) -> list[str]:
        """Return the passages that can be removed alone, in an order that does not depend on their positions."""
        fitting = [
            name for name in self._turns_with if self.fits(frozenset([name])) and self.questions_lost(frozenset([name]))
        ]
        return sorted(fitting, key=canonical_hash)

    def questions_lost(self, removed: frozenset[str]) -> frozenset[_TurnKey]:
        """Return the questions that lose a unit which no remaining passage contains."""
        near = {key for name in removed for key in self._turns_with[name]}
        return frozenset(key for key in near if any(self._lost(key, removed)))

    def fits(self, removed: frozenset[str]) -> bool:
        """Return whether every affected question loses all units, and no dialogue loses too many questions."""
        lost = self.questions_lost(removed)
        lost_by_dialogue = Counter(dialogue_index for dialogue_index, _ in lost)
        return all(all(self._lost(key, removed)) for key in lost) and all(
            count <= _MOST_OF_A_DIALOGUE * len(self._dialogues[dialogue_index].turns)
            for dialogue_index, count in lost_by_dialogue.items()
        )

    def _lost(self, key: _TurnKey, removed: frozenset[str]) -> list[bool]:
        return [removed.issuperset(self._pool.of_unit[unit.unit_id]) for unit in self._turns[key].units]

    def choose(self, passed: Mapping[str, frozenset[_TurnKey]], wanted: int) -> frozenset[str]:
        """Return passages that make at most `wanted` questions unanswerable, and together no others than each alone."""
        chosen: frozenset[str] = frozenset()
        lost: frozenset[_TurnKey] = frozenset()
        for name, keys in passed.items():
            lost_together, chosen_together = lost | keys, chosen | {name}
            if (
                len(lost_together) <= wanted
                and self.questions_lost(chosen_together) == lost_together
                and self.fits(chosen_together)
            ):
                chosen, lost = chosen_together, lost_together
        return chosen

    def results_without(self, tried: Mapping[str, frozenset[_TurnKey]]) -> list[tuple[str, _TurnKey, list[Passage]]]:
        """Return each passage with each question that it supports, and the search results without the passage.

        One index per domain suffices: a single missing passage barely changes the weight of a term.
        """
        queries_by_domain: dict[str, dict[str, str]] = {}
        for key in frozenset().union(*tried.values()):
            queries_by_domain.setdefault(self._dialogues[key[0]].domain, {})[str(key)] = self._turns[
                key
            ].decontextualized
        results: dict[str, list[Passage]] = {}
        for domain, queries in queries_by_domain.items():
            passages = {passage.passage_id: passage for passage in self._pool.passages[domain]}
            for key_text, ranked in bm25_rankings(queries, passages.values(), _SEARCHED + 1).items():
                results[key_text] = [passages[name] for name in ranked]
        return [
            (name, key, [passage for passage in results[str(key)] if passage.passage_id != name][:_SEARCHED])
            for name, keys in tried.items()
            for key in sorted(keys)
        ]

    def is_repeated(self, key: _TurnKey, results: Sequence[Passage]) -> bool:
        """Return whether a search result repeats a unit of a question."""
        units = self._turns[key].units
        return any(covered_share(unit.text, passage.text) >= _REPEATS for unit in units for passage in results)

    def question(self, key: _TurnKey, results: Sequence[Passage]) -> Inquiry[str]:
        """Return the prompt for a question and the remaining search results."""
        fields = {"question": self._turns[key].decontextualized, "passages": [passage.text for passage in results]}
        return question_of("answerable", _read, fields)


def _refused(removal: _Removal, tried: Mapping[str, frozenset[_TurnKey]], asker: Asker) -> set[str]:
    """Return the passages whose questions other passages answer or may answer."""
    pairs = removal.results_without(tried)
    repeated = {name for name, key, results in pairs if removal.is_repeated(key, results)}
    open_pairs = [(name, key, results) for name, key, results in pairs if name not in repeated]
    answers = asker.ask("answerability", [removal.question(key, results) for _, key, results in open_pairs])
    return repeated | {name for (name, _, _), answer in zip(open_pairs, answers, strict=True) if answer != "no"}


def _read(reply: str) -> str:
    answer = text_of(object_with(reply, "answerable"), "answerable").lower()
    if answer not in _ANSWERS:
        raise UnreadableReplyError(f'"answerable" is none of {", ".join(_ANSWERS)}')
    return answer


def _with_unanswerable(dialogues: Sequence[Dialogue], lost: frozenset[_TurnKey]) -> list[Dialogue]:
    """Return the dialogues with unanswerable turns; the turn after each uses its stand-alone form."""
    relabelled = []
    for dialogue_index, dialogue in enumerate(dialogues):
        turns = [
            _relabel(
                turn,
                is_lost=(dialogue_index, turn_index) in lost,
                follows_lost=(dialogue_index, turn_index - 1) in lost,
            )
            for turn_index, turn in enumerate(dialogue.turns)
        ]
        relabelled.append(replace(dialogue, turns=tuple(turns)))
    return relabelled


def _relabel(turn: Turn, *, is_lost: bool, follows_lost: bool) -> Turn:
    text = turn.decontextualized if follows_lost else turn.contextualized
    if not is_lost:
        return replace(turn, contextualized=text)
    return replace(turn, contextualized=text, answer=NO_ANSWER, units=(), answerability=Answerability.UNANSWERABLE)

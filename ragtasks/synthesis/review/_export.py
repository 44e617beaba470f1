"""The benchmark that a review leaves: the pairs that everybody who decided on them keeps, in the custom format.

A pair that is rejected, or that nobody decided on, is removed as the synthesis removes one: the question after it is
put in its standalone form, since what it refers to may be gone.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path
from typing import Any

import orjson

from ragtasks.benchmarks import open_benchmark, retrieval_side
from ragtasks.benchmarks.custom import CONVERSATIONS, PASSAGES, check_folder
from ragtasks.errors import ConfigurationError
from ragtasks.ids import task_id
from ragtasks.synthesis._folder import DETAILS, DIALOGUES, QRELS, is_made, lines_of, publish_folder
from ragtasks.synthesis.review._decision import Review, review_row
from ragtasks.synthesis.review._pair import Pair, read_pairs

_VERSION = 1
_FIRST, _LATER = "N/A", "Follow-up"


@dataclass(frozen=True, slots=True)
class _Kept:
    """A pair that stays."""

    pair: Pair
    texts: Mapping[str, str]
    """As they were edited last, else as they are."""
    is_bare: bool
    """Whether the pair before it is gone, so that the question has to stand alone."""
    turn: int
    """Its turn in what is left of the conversation."""

    @property
    def question(self) -> str:
        return self.texts["standalone" if self.is_bare else "question"]

    @property
    def task_id(self) -> str:
        return task_id(self.pair.task.conversation_id, self.turn)


def export_reviewed(folder: Path, out: Path, reviews: Sequence[Review]) -> tuple[str, ...]:
    """Write the benchmark that a review leaves, all of it at once, and return what to say of it.

    Args:
        folder: the benchmark that was reviewed.
        out: where the new one goes; not there, or empty.
        reviews: decisions on it, one a reviewer and pair; where several decided, one rejection removes the pair.

    Raises:
        ConfigurationError: nothing is kept, or `out` holds something else.
        BenchmarkFileError: the files of `folder` are broken.
        CacheError: it cannot be written.
    """
    pairs = read_pairs(folder)
    decisions: dict[str, list[Review]] = {pair.pair_id: [] for pair in pairs}
    for one in reviews:
        decisions[one.pair_id].append(one)
    kept = list(_kept(pairs, decisions))
    if not kept:
        raise ConfigurationError(
            f"review of {folder}: no pair was accepted or edited, so nothing is left to write. Next step: review some "
            f"with `ragtasks review serve {folder}`"
        )
    made_by = {
        "version": _VERSION,
        "reviewed": [pair.version for pair in pairs],
        "reviews": [review_row(one) for one in reviews],
    }
    lines = (f"{out}: {_counts(pairs, kept, decisions)}",)
    if not is_made(out, made_by):
        publish_folder(out, _files(folder, kept, decisions, reviews), made_by)
        checked = check_folder(out)
        assert checked.passes, checked.lines
    return lines


def _counts(pairs: Sequence[Pair], kept: Sequence[_Kept], decisions: Mapping[str, Sequence[Review]]) -> str:
    n_undecided = sum(not own for own in decisions.values())
    n_edited = sum(one.texts != one.pair.texts for one in kept)
    n_rejected = len(pairs) - len(kept) - n_undecided
    noun = "pair" if len(kept) == 1 else "pairs"
    return f"{len(kept)} {noun} kept, {n_edited} of them edited; {n_rejected} rejected, {n_undecided} not decided on"


def _kept(pairs: Sequence[Pair], decisions: Mapping[str, Sequence[Review]]) -> Iterator[_Kept]:
    for _, conversation in groupby(pairs, lambda pair: pair.task.conversation_id):
        is_bare, turn = False, 0
        for pair in conversation:
            own = decisions[pair.pair_id]
            if not own or not all(one.keeps for one in own):
                is_bare = True
                continue
            turn += 1
            edits = [one for one in own if one.decision.texts]
            texts = max(edits, key=lambda one: one.time).decision.texts if edits else pair.texts
            yield _Kept(pair, texts, is_bare, turn)
            is_bare = False


def _files(
    folder: Path, kept: Sequence[_Kept], decisions: Mapping[str, Sequence[Review]], reviews: Sequence[Review]
) -> dict[str, Iterable[bytes]]:
    files: dict[str, Iterable[bytes]] = {
        CONVERSATIONS: lines_of(_conversations(kept)),
        PASSAGES: [(folder / PASSAGES).read_bytes()],
        f"{DETAILS}/reviews.jsonl": lines_of(map(review_row, reviews)),
    }
    if (folder / QRELS).is_file():
        files[QRELS] = _qrels(folder, kept)
    if (folder / DETAILS / DIALOGUES).is_file():
        files[f"{DETAILS}/{DIALOGUES}"] = lines_of(_dialogues(folder, kept, decisions))
    return files


def _conversations(kept: Sequence[_Kept]) -> Iterator[dict[str, Any]]:
    for name, own in groupby(kept, lambda one: one.pair.task.conversation_id):
        turns = list(own)
        yield {"conversation_id": name, "domain": turns[0].pair.task.domain, "turns": list(map(_turn, turns))}


def _turn(one: _Kept) -> dict[str, Any]:
    task = one.pair.task
    references = [item.passage_id for item in task.references]
    return {
        "question": one.question,
        "answer": one.texts["answer"],
        "answerability": task.answerability.value,
        **({"references": references} if references else {}),
        **({"question_types": list(task.question_types)} if task.question_types else {}),
        "multi_turn": _FIRST if one.turn == 1 else _LATER if task.multi_turn == _FIRST else task.multi_turn,
        "rewrite": one.texts["standalone"],
    }


def _qrels(folder: Path, kept: Sequence[_Kept]) -> Iterator[bytes]:
    """Yield the judgements of the pairs that stay, under their new turns."""
    new = {one.pair.pair_id: one.task_id for one in kept}
    side, tasks = retrieval_side("custom"), open_benchmark("custom", folder).tasks
    for domain in side.domains_of(tasks):
        for qrel in side.load_qrels(folder, domain):
            if qrel.query_id in new:
                yield f"{new[qrel.query_id]}\t0\t{qrel.passage_id}\t{qrel.relevance}\n".encode()


def _dialogues(
    folder: Path, kept: Sequence[_Kept], decisions: Mapping[str, Sequence[Review]]
) -> Iterator[dict[str, Any]]:
    """Yield what a synthesis says of each dialogue, with what the review took out."""
    by_id = {one.pair.pair_id: one for one in kept}
    for line in (folder / DETAILS / DIALOGUES).read_bytes().splitlines():
        row = orjson.loads(line)
        turns, removed = [], list(row["removed"])
        for number, turn in enumerate(row["turns"], start=1):
            name = task_id(row["dialogue_id"], number)
            one = by_id.get(name)
            if one:
                texts = {"contextualized": one.question, "decontextualized": one.texts["standalone"]}
                turns.append({**turn, **texts, "answer": one.texts["answer"]})
            elif decisions.get(name):
                reason = "rejected in review"
                removed.append({"question": turn["decontextualized"], "answer": turn["answer"], "reason": reason})
        if turns:
            yield {**row, "turns": turns, "removed": removed}


__all__ = ["export_reviewed"]

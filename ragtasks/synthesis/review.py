"""Review of a benchmark: people accept, edit or reject its pairs, and the accepted pairs form a new benchmark."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import groupby
from pathlib import Path
from typing import Any, Literal, cast, get_args

import orjson
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from ragtasks.arena.agreement import agreement_of_all, agreement_of_two
from ragtasks.benchmarks import open_benchmark, retrieval_side
from ragtasks.benchmarks.custom import CONVERSATIONS, PASSAGES, check_folder
from ragtasks.errors import ConfigurationError, RagtasksError
from ragtasks.files import canonical_hash, write_atomically
from ragtasks.metrics import Level
from ragtasks.records import Task, task_id
from ragtasks.synthesis.folder import DETAILS, DIALOGUES, QRELS, is_made, lines_of, publish_folder, standalone
from ragtasks.tables import Cell, Section, Table, dashed

# Decisions of one reviewer on one pair; a later decision replaces an earlier one.

Choice = Literal["accept", "edit", "reject"]
"""Decision on a pair."""
CHOICES: tuple[str, ...] = get_args(Choice)
LONGEST_TEXT = 20_000
"""Maximum number of characters of a question or an answer."""
LONGEST_NOTE = 2_000
"""Maximum number of characters of a note."""

_NAMES = {"question": "the question", "standalone": "the standalone question", "answer": "the answer"}


class DecisionError(RagtasksError):
    """An invalid decision: an unknown choice, or a text that is empty or too long."""


class Ruling(BaseModel):
    """Decision on a pair with its edits."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    choice: Choice
    """`accept`, `edit` or `reject`."""
    texts: dict[str, str] = Field(default_factory=dict)
    """`question`, `standalone` and `answer` after the edit; empty without an edit."""
    note: str = Field(default="", max_length=LONGEST_NOTE)
    version: str
    """Hash of the reviewed pair."""


@dataclass(frozen=True, slots=True)
class Review:
    """A decision with its reviewer and time."""

    reviewer: str
    pair_id: str
    decision: Ruling
    time: float

    @property
    def keeps(self) -> bool:
        """Whether the pair is kept, edited or not."""
        return self.decision.choice != "reject"


def decide(pair: Pair, choice: str, texts: Mapping[str, str], note: str = "") -> Ruling:
    """Return the decision submitted by a page; an edit without changes accepts the pair."""
    if choice not in CHOICES:
        raise DecisionError(f"A decision is one of: {', '.join(CHOICES)}.")
    edited: dict[str, str] = {}
    if choice == "edit":
        edited = {name: texts.get(name, "").replace("\r\n", "\n").strip() for name in _NAMES}
        for name, text in edited.items():
            if not 0 < len(text) <= LONGEST_TEXT:
                problem = f"has more than {LONGEST_TEXT:,} characters" if text else "is empty"
                raise DecisionError(f"Not saved: {_NAMES[name]} {problem}.")
        if edited == pair.texts:
            choice, edited = "accept", {}
    return Ruling(choice=cast(Choice, choice), texts=edited, note=note.strip()[:LONGEST_NOTE], version=pair.version)


def read_reviews(pairs: Sequence[Pair], rows: Sequence[tuple[str, str, str, float]]) -> tuple[list[Review], int]:
    """Return each reviewer's last decision on each pair, and the number of rows on other versions of the texts."""
    versions = {pair.pair_id: pair.version for pair in pairs}
    latest: dict[tuple[str, str], Review] = {}
    n_others = 0
    for reviewer, pair_id, content, time in rows:
        try:
            decision = Ruling.model_validate_json(content)
        except ValidationError:
            n_others += 1
            continue
        if versions.get(pair_id) == decision.version:
            latest[reviewer, pair_id] = Review(reviewer, pair_id, decision, time)
        else:
            n_others += 1
    number_of = {pair.pair_id: pair.number for pair in pairs}
    return sorted(latest.values(), key=lambda review: (number_of[review.pair_id], review.time)), n_others


def review_row(review: Review) -> dict[str, Any]:
    """Return a decision as an exported row."""
    return {
        "task_id": review.pair_id,
        "reviewer": review.reviewer,
        "time": review.time,
        **review.decision.model_dump(exclude_defaults=True),
    }


def write_reviews(path: Path, reviews: Sequence[Review]) -> None:
    """Write decisions as JSON lines, atomically."""
    write_atomically(path, b"".join(orjson.dumps(review_row(review)) + b"\n" for review in reviews))


# Reviewed pairs: a question and its answer in their conversation, with the supporting passages.

_VERSION_LENGTH = 16


@dataclass(frozen=True)
class Pair:
    """One question with its answer."""

    number: int
    """Position in the benchmark, from 1."""
    task: Task
    """The question in its conversation, the answer, and its passages."""

    @property
    def pair_id(self) -> str:
        """Id of its task."""
        return self.task.task_id

    @property
    def texts(self) -> dict[str, str]:
        """Editable texts: `question`, `standalone` (its stand-alone form) and `answer`."""
        return {"question": self.task.question, "standalone": standalone(self.task), "answer": self.task.target}

    @cached_property
    def version(self) -> str:
        """Hash of the displayed contents; decisions on another version do not count."""
        fields = {
            **self.texts,
            "answerability": self.task.answerability.value,
            "references": [[passage.passage_id, passage.text] for passage in self.task.references],
        }
        return canonical_hash(fields)[:_VERSION_LENGTH]


def read_pairs(folder: Path) -> tuple[Pair, ...]:
    """Return the pairs of a benchmark in the custom format, in the order of its conversations."""
    tasks = open_benchmark("custom", folder).tasks
    return tuple(Pair(number, task) for number, task in enumerate(tasks, start=1))


# Tables of decisions and agreement.

_EVERYBODY = "all reviewers"


def review_section(title: str, pairs: Sequence[Pair], reviews: Sequence[Review]) -> Section:
    """Return the tables of a review: decisions by reviewer, agreement of each pair of reviewers and of all."""
    by_reviewer: dict[str, dict[str, Review]] = {}
    for review in reviews:
        by_reviewer.setdefault(review.reviewer, {})[review.pair_id] = review
    statistics = {"pairs": str(len(pairs)), "reviewed": str(len({review.pair_id for review in reviews}))}
    return Section(f"review: {title}", statistics, (_decisions(by_reviewer, len(pairs)), _agreement(by_reviewer)))


def _decisions(by_reviewer: Mapping[str, Mapping[str, Review]], n_pairs: int) -> Table:
    rows: list[tuple[Cell, ...]] = []
    for reviewer, reviews in sorted(by_reviewer.items()):
        choices = [review.decision.choice for review in reviews.values()]
        counts = [choices.count(choice) for choice in ("accept", "edit", "reject")]
        rows.append((reviewer, *counts, n_pairs - len(reviews)))
    return Table("Decisions", ("reviewer", "accepted", "edited", "rejected", "left"), tuple(rows))


def _agreement(by_reviewer: Mapping[str, Mapping[str, Review]]) -> Table:
    kept: dict[str, dict[str, float]] = {}
    chosen: dict[str, dict[str, float]] = {}
    for reviewer, reviews in by_reviewer.items():
        kept[reviewer] = {pair: float(review.keeps) for pair, review in reviews.items()}
        chosen[reviewer] = {pair: float(CHOICES.index(review.decision.choice)) for pair, review in reviews.items()}
    rows: list[tuple[Cell, ...]] = []
    for by_kept, by_choice in zip(agreement_of_two(kept), agreement_of_two(chosen), strict=True):
        percent = "-" if by_kept.equal_share is None else f"{100 * by_kept.equal_share:.1f} %"
        kappas = (dashed(by_kept.score.value), dashed(by_choice.score.value))
        rows.append((by_kept.raters, "kappa", by_kept.n, percent, *kappas))
    if len(by_reviewer) > 1:
        of_kept, of_chosen = (agreement_of_all(_EVERYBODY, ratings, Level.NOMINAL) for ratings in (kept, chosen))
        rows.append((_EVERYBODY, "alpha", of_kept.n, "-", dashed(of_kept.score.value), dashed(of_chosen.score.value)))
    heads = ("reviewers", "measure", "pairs", "same", "kept or rejected", "accepted, edited or rejected")
    note = "Cohen's kappa of two reviewers, over the pairs that both decided on; Krippendorff's alpha of all."
    return Table("Agreement of reviewers", heads, tuple(rows), note)


# The reviewed benchmark: pairs that all their reviewers keep, in the custom format. A pair that is rejected, or has no
# decision, is removed as in a synthesis. The next question then uses its stand-alone form, since its context may be
# missing.

_VERSION = 1
_FIRST, _LATER = "N/A", "Follow-up"


@dataclass(frozen=True, slots=True)
class _AcceptedPair:
    """A pair that is kept."""

    pair: Pair
    texts: Mapping[str, str]
    """Texts of the latest edit, or the original texts."""
    is_standalone: bool
    """Whether the pair before it was removed, so that the question must stand alone."""
    turn: int
    """Number of the turn among the kept pairs of the conversation, from 1."""

    @property
    def question(self) -> str:
        return self.texts["standalone" if self.is_standalone else "question"]

    @property
    def task_id(self) -> str:
        return task_id(self.pair.task.conversation_id, self.turn)


def export_reviewed(folder: Path, out: Path, reviews: Sequence[Review]) -> tuple[str, ...]:
    """Write the reviewed benchmark in one step, and return the lines to print."""
    pairs = read_pairs(folder)
    decisions: dict[str, list[Review]] = {pair.pair_id: [] for pair in pairs}
    for review in reviews:
        decisions[review.pair_id].append(review)
    accepted = list(_accepted(pairs, decisions))
    if not accepted:
        raise ConfigurationError(
            f"review of {folder}: no pair was accepted or edited, so there is nothing to write. Next step: review some "
            f"with `ragtasks review serve {folder}`"
        )
    made_by = {
        "version": _VERSION,
        "reviewed": [pair.version for pair in pairs],
        "reviews": [review_row(review) for review in reviews],
    }
    lines = (f"{out}: {_counts(pairs, accepted, decisions)}",)
    if not is_made(out, made_by):
        publish_folder(out, _files(folder, accepted, decisions, reviews), made_by)
        checked = check_folder(out)
        assert checked.passes, checked.lines
    return lines


def _counts(pairs: Sequence[Pair], accepted: Sequence[_AcceptedPair], decisions: Mapping[str, Sequence[Review]]) -> str:
    n_undecided = sum(not reviews for reviews in decisions.values())
    n_edited = sum(kept.texts != kept.pair.texts for kept in accepted)
    n_rejected = len(pairs) - len(accepted) - n_undecided
    noun = "pair" if len(accepted) == 1 else "pairs"
    return (
        f"{len(accepted)} {noun} kept, {n_edited} of them edited; {n_rejected} rejected, {n_undecided} not decided on"
    )


def _accepted(pairs: Sequence[Pair], decisions: Mapping[str, Sequence[Review]]) -> Iterator[_AcceptedPair]:
    for _, conversation in groupby(pairs, lambda pair: pair.task.conversation_id):
        is_standalone, turn = False, 0
        for pair in conversation:
            reviews = decisions[pair.pair_id]
            if not reviews or not all(review.keeps for review in reviews):
                is_standalone = True
                continue
            turn += 1
            edits = [review for review in reviews if review.decision.texts]
            texts = max(edits, key=lambda review: review.time).decision.texts if edits else pair.texts
            yield _AcceptedPair(pair, texts, is_standalone, turn)
            is_standalone = False


def _files(
    folder: Path,
    accepted: Sequence[_AcceptedPair],
    decisions: Mapping[str, Sequence[Review]],
    reviews: Sequence[Review],
) -> dict[str, Iterable[bytes]]:
    files: dict[str, Iterable[bytes]] = {
        CONVERSATIONS: lines_of(_conversations(accepted)),
        PASSAGES: [(folder / PASSAGES).read_bytes()],
        f"{DETAILS}/reviews.jsonl": lines_of(map(review_row, reviews)),
    }
    if (folder / QRELS).is_file():
        files[QRELS] = _qrels(folder, accepted)
    if (folder / DETAILS / DIALOGUES).is_file():
        files[f"{DETAILS}/{DIALOGUES}"] = lines_of(_dialogues(folder, accepted, decisions))
    return files


def _conversations(accepted: Sequence[_AcceptedPair]) -> Iterator[dict[str, Any]]:
    for name, group in groupby(accepted, lambda kept: kept.pair.task.conversation_id):
        turns = list(group)
        yield {"conversation_id": name, "domain": turns[0].pair.task.domain, "turns": list(map(_turn, turns))}


def _turn(kept: _AcceptedPair) -> dict[str, Any]:
    task = kept.pair.task
    references = [passage.passage_id for passage in task.references]
    return {
        "question": kept.question,
        "answer": kept.texts["answer"],
        "answerability": task.answerability.value,
        **({"references": references} if references else {}),
        **({"question_types": list(task.question_types)} if task.question_types else {}),
        "multi_turn": _FIRST if kept.turn == 1 else _LATER if task.multi_turn == _FIRST else task.multi_turn,
        "rewrite": kept.texts["standalone"],
    }


def _qrels(folder: Path, accepted: Sequence[_AcceptedPair]) -> Iterator[bytes]:
    """Yield the judgements of the kept pairs with their new turns."""
    new = {kept.pair.pair_id: kept.task_id for kept in accepted}
    side, tasks = retrieval_side("custom"), open_benchmark("custom", folder).tasks
    for domain in side.domains_of(tasks):
        for qrel in side.load_qrels(folder, domain):
            if qrel.query_id in new:
                yield f"{new[qrel.query_id]}\t0\t{qrel.passage_id}\t{qrel.relevance}\n".encode()


def _dialogues(
    folder: Path, accepted: Sequence[_AcceptedPair], decisions: Mapping[str, Sequence[Review]]
) -> Iterator[dict[str, Any]]:
    """Yield the synthesis details of each dialogue, with the pairs removed by the review."""
    by_id = {kept.pair.pair_id: kept for kept in accepted}
    for line in (folder / DETAILS / DIALOGUES).read_bytes().splitlines():
        row = orjson.loads(line)
        turns, removed = [], list(row["removed"])
        for number, turn in enumerate(row["turns"], start=1):
            name = task_id(row["dialogue_id"], number)
            kept = by_id.get(name)
            if kept:
                texts = {"contextualized": kept.question, "decontextualized": kept.texts["standalone"]}
                turns.append({**turn, **texts, "answer": kept.texts["answer"]})
            elif decisions.get(name):
                reason = "rejected in review"
                removed.append({"question": turn["decontextualized"], "answer": turn["answer"], "reason": reason})
        if turns:
            yield {**row, "turns": turns, "removed": removed}

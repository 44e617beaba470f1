"""Counts over synthetic dialogues, in all and separately, next to the counts that papers report of theirs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import orjson

from ragtasks.benchmarks import open_benchmark
from ragtasks.clients import Secrets, no_secrets
from ragtasks.errors import ConfigurationError
from ragtasks.progress import Progress, no_progress
from ragtasks.records import Answerability, Task
from ragtasks.synthesis.asking import terms
from ragtasks.synthesis.folder import DETAILS, DIALOGUES, standalone
from ragtasks.synthesis.qrelscore import QRelScore, relevance_table
from ragtasks.synthesis.retrieval_quality import PAPER_FORMS, retrieval_tables
from ragtasks.tables import Section, Table, fixed
from retrieval_cache import Rewriter, Workspace

_ALIKE = 0.8  # Jaccard similarity of the words of two questions of a dialogue

# MTRAG paper, Table 8 (questions and responses in words); OR-CONVQA paper, section 4.2 and Table 7, public documents.
_PUBLISHED: Mapping[str, tuple[str, str, str]] = {
    "turns": ("7.7", "5.9", "14.58"),
    "unique passages": ("16.9", "4.6", "-"),
    "question words": ("8.6", "13.7", "-"),
    "answer words": ("97.2", "72.4", "-"),
    "passages a turn": ("2.8", "4.1", "1.99"),
    "needs rewriting": ("-", "-", "0.27"),
}
_LEGEND = (
    "unique passages, passages a turn: what answers rest on (for the OR-CONVQA paper: propositions)",
    "needs rewriting: questions whose standalone form is another one",
    "grounded: pairs that were accepted and rest on something",
    f"alike: questions whose words repeat an earlier one's of the dialogue by {_ALIKE:.0%}",
)


@dataclass(frozen=True, slots=True)
class _Counts:
    """The sums of one dialogue, or of all."""

    turns: int
    passages: frozenset[str]
    references: int
    grounded: int
    question_words: int
    answer_words: int
    rewritten: int
    removed: int
    alike: int
    unanswerable: int


def quality_section(
    folder: Path,
    relevance: QRelScore | None = None,
    retrievers: Sequence[str] = (),
    queries: Sequence[str] = PAPER_FORMS,
    progress: Progress = no_progress,
    *,
    store: Path | None = None,
    rewriter: Rewriter | None = None,
    secrets: Secrets = no_secrets,
) -> Section:
    """Return the tables of a synthesized benchmark: all dialogues beside published ones, then each."""
    removed = _removed(folder)
    by_dialogue: dict[str, list[Task]] = {}
    benchmark = open_benchmark("custom", folder)
    for task in benchmark.tasks:
        by_dialogue.setdefault(task.conversation_id, []).append(task)
    counts = {name: _counted(tasks, removed[name]) for name, tasks in by_dialogue.items()}
    statistics = {"folder": str(folder), "dialogues": str(len(counts))}
    tables = [_whole(list(counts.values()))]
    if relevance:
        tables.append(relevance_table(benchmark, relevance, progress))
    if retrievers:
        with TemporaryDirectory() as work:
            place = Workspace("custom", str(folder), Path(work), store or Path(work), secrets)
            tables += retrieval_tables(
                benchmark, retrievers, queries, place=place, rewriter=rewriter or Rewriter(None), progress=progress
            )
    return Section(f"synthetic: {folder.name}", statistics, (*tables, _each(counts)))


def _removed(folder: Path) -> Counter[str]:
    """Return dialogue -> pairs that were taken out of it."""
    path = folder / DETAILS / DIALOGUES
    try:
        rows: list[Any] = [orjson.loads(line) for line in path.read_bytes().splitlines()]
        return Counter({row["dialogue_id"]: len(row["removed"]) for row in rows})
    except (OSError, ValueError, LookupError, TypeError) as error:
        raise ConfigurationError(
            "synthesis",
            where=str(path),
            expected="the dialogues that `ragtasks synthesize` writes",
            found=getattr(error, "strerror", None) or type(error).__name__,
            next_step="name a folder that it made; `ragtasks data describe FOLDER` takes any other",
        ) from error


def _counted(tasks: Sequence[Task], n_removed: int) -> _Counts:
    alone = list(map(standalone, tasks))
    return _Counts(
        turns=len(tasks),
        passages=frozenset(one.passage_id for task in tasks for one in task.references),
        references=sum(len(task.references) for task in tasks),
        grounded=sum(bool(task.references) for task in tasks),
        question_words=sum(len(task.question.split()) for task in tasks),
        answer_words=sum(len(task.target.split()) for task in tasks),
        rewritten=sum(task.question != text for task, text in zip(tasks, alone, strict=True)),
        removed=n_removed,
        alike=sum(_repeats(alone[:place], question) for place, question in enumerate(alone)),
        unanswerable=sum(task.answerability is Answerability.UNANSWERABLE for task in tasks),
    )


def _repeats(earlier: Sequence[str], question: str) -> bool:
    words = terms(question)
    others = (terms(text) for text in earlier)
    return any(len(words & other) >= _ALIKE * len(words | other) for other in others if words | other)


def _whole(counts: Sequence[_Counts]) -> Table:
    turns, n = sum(one.turns for one in counts), len(counts)
    here = {
        "turns": turns / n,
        "unique passages": sum(len(one.passages) for one in counts) / n,
        "question words": sum(one.question_words for one in counts) / turns,
        "answer words": sum(one.answer_words for one in counts) / turns,
        "passages a turn": sum(one.references for one in counts) / max(1, sum(one.grounded for one in counts)),
        "needs rewriting": sum(one.rewritten for one in counts) / turns,
        "grounded": turns / (turns + sum(one.removed for one in counts)),
        "alike": sum(one.alike for one in counts) / turns,
        "unanswerable": sum(one.unanswerable for one in counts) / turns,
    }
    rows = tuple((name, fixed(value, 2), *_PUBLISHED.get(name, ("-", "-", "-"))) for name, value in here.items())
    columns = ("mean", "here", "MTRAG", "MTRAG-S", "OR-CONVQA paper")
    return Table(
        "All dialogues",
        columns,
        rows,
        "Needs rewriting, alike and unanswerable are shares of all questions; grounded is one of the pairs written.",
        _LEGEND,
    )


def _each(counts: Mapping[str, _Counts]) -> Table:
    columns = (
        *("dialogue", "turns", "unique passages", "question words", "answer words"),
        *("needs rewriting", "grounded", "alike", "unanswerable"),
    )
    rows = tuple(
        (
            name,
            one.turns,
            len(one.passages),
            fixed(one.question_words / one.turns, 1),
            fixed(one.answer_words / one.turns, 1),
            fixed(one.rewritten / one.turns, 2),
            fixed(one.turns / (one.turns + one.removed), 2),
            one.alike,
            one.unanswerable,
        )
        for name, one in counts.items()
    )
    return Table("Each dialogue", columns, rows)

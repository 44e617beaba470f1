"""Tables about a benchmark: size and labels (MTRAG paper, Table 8, Figure 2), and judges' labels."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from statistics import fmean

import numpy as np
from numpy.typing import NDArray

from ragtasks.benchmarks import Benchmark, RepairedAnswer, extra_tables, repaired_answers
from ragtasks.metrics import word_count
from ragtasks.metrics.lexical import rouge_l_batch
from ragtasks.records import Answerability, Task
from ragtasks.tables import Section, Table, Value, grouped

_ANSWERED = frozenset({Answerability.ANSWERABLE, Answerability.PARTIAL})
_MOST_TURNS = 30
_COLUMNS = (
    *("domain", "conversations", "tasks", "turns a conversation", "unique references a conversation"),
    *("references a task", "question words", "response words"),
)
_NOTE = (
    "Words are separated by white space. The number of turns of a conversation is the turn of its last task. "
    "The columns references a task and response words cover ANSWERABLE and PARTIAL tasks, whose number is in brackets."
)
_REPAIR_COLUMNS = ("domain", "answers", "repaired", "share", "repaired a conversation", "edit score")
_REPAIR_NOTE = (
    "An answer is repaired if the file contains the model's first draft. Edit score: 100 (1 - ROUGE-L) of draft and "
    "answer, 0 without changes; 60.7 in the MTRAG paper, section 4.3, which calls it a similarity."
)


def benchmark_section(benchmark: Benchmark, corpora: Sequence[Table] = ()) -> Section:
    """Return the tables of a benchmark: conversations by domain, tasks by dimension, and tables that only it has."""
    provenance = {"revision": benchmark.revision, "tasks": str(len(benchmark.tasks))}
    own = (_conversations(benchmark.tasks), _dimensions(benchmark.tasks), *extra_tables(benchmark))
    return Section(benchmark.label, provenance, (*own, *_repairs(repaired_answers(benchmark)), *corpora))


def _repairs(answers: Sequence[RepairedAnswer]) -> Iterator[Table]:
    """Yield the table of repaired drafts by domain. Yields no table without answers."""
    if not answers:
        return
    parts = sorted(grouped(answers, lambda answer: answer.domain).items())
    rows = tuple((name, *_repaired(own)) for name, own in [*parts, ("all", answers)])
    yield Table("Repaired answers", _REPAIR_COLUMNS, rows, _REPAIR_NOTE)


def _repaired(answers: Sequence[RepairedAnswer]) -> Iterator[int | Value]:
    drafts = [(answer.draft, answer.text) for answer in answers if answer.draft is not None]
    overlaps = rouge_l_batch([draft for draft, _ in drafts], [text for _, text in drafts])
    n_conversations = len({answer.conversation for answer in answers})
    yield len(answers)
    yield len(drafts)
    yield Value(len(drafts) / len(answers), len(answers), len(answers))
    yield Value(len(drafts) / n_conversations, n_conversations, n_conversations)
    yield _mean((100 * (1 - overlap) for overlap in overlaps), len(answers))


def _conversations(tasks: Sequence[Task]) -> Table:
    parts = sorted(grouped(tasks, lambda task: task.domain).items())
    rows = tuple((name, *_measures(own)) for name, own in [*parts, ("all", tasks)])
    return Table("Conversations", _COLUMNS, rows, _NOTE)


def _measures(tasks: Sequence[Task]) -> Iterator[int | Value]:
    conversations = grouped(tasks, lambda task: task.conversation_id).values()
    answered = [task for task in tasks if task.answerability in _ANSWERED]
    yield len(conversations)
    yield len(tasks)
    yield _mean(max(task.turn for task in group) for group in conversations)
    yield _mean(len({passage.passage_id for task in group for passage in task.references}) for group in conversations)
    yield _mean((len(task.references) for task in answered), len(tasks))
    yield _mean(word_count(task.question, task.language) for task in tasks)
    yield _mean((word_count(task.target, task.language) for task in answered), len(tasks))


def _mean(counts: Iterable[float], n: int | None = None) -> Value:
    values = list(counts)
    return Value(fmean(values) if values else None, len(values), len(values) if n is None else n)


def _dimensions(tasks: Sequence[Task]) -> Table:
    labels: dict[str, Callable[[Task], tuple[str, ...]]] = {
        "answerability": lambda task: (task.answerability.value,),
        "question type": lambda task: task.question_types,
        "multi-turn type": lambda task: (task.multi_turn,),
        "domain": lambda task: (task.domain,),
        "references": lambda task: (str(len(task.references)),),
        "turn": lambda task: (str(task.turn),),
    }
    rows: list[tuple[str, str, int, Value]] = []
    n = len(tasks)
    for dimension, labels_of in labels.items():
        counts = Counter(label for task in tasks for label in labels_of(task))
        order = sorted(counts, key=lambda label: (-counts[label], label))
        if all(label.isdecimal() for label in counts):
            order.sort(key=int)
        rows += [(dimension, label, counts[label], Value(counts[label] / n, n, n)) for label in order[:_MOST_TURNS]]
    note = "Shares are of all tasks; a task may have several question types."
    return Table("Tasks by dimension", ("dimension", "value", "tasks", "share"), tuple(rows), note)


# Judges' labels of the questions: the number of each kind, and the agreement with earlier labels.

_DRAWS = 2000
_KIND_COLUMNS = ("kind", "questions", "share", "earlier label", "both", "F1", "kappa")
_KIND_NOTE = (
    "F1 and Cohen's kappa: judges' labels against earlier labels, each kind against all others, over the questions "
    "with both. Intervals: bootstrap over conversations."
)
_Numbers = NDArray[np.float64]


def question_labels_table(
    tasks: Sequence[Task], labels: Mapping[str, tuple[str, ...]], kinds: Sequence[str], *, compared: bool
) -> Table:
    """Return the number of questions of each kind as judges label them.

    Args:
        tasks: the tasks of the benchmark.
        labels: task id -> kinds that the judges gave its question.
        kinds: all kinds, in the order of the rows.
        compared: whether the judges' labels are compared with earlier labels of the questions.
    """
    n = len(labels)
    labeled = [task for task in tasks if compared and task.question_types and task.task_id in labels]
    rows = []
    for label in kinds:
        n_given = sum(label in judged for judged in labels.values())
        rows.append(
            (label, n_given, Value(n_given / n, n, len(tasks)) if n else "-", *_agreement(labeled, labels, label))
        )
    n_columns = len(_KIND_COLUMNS) if labeled else 3
    cells = tuple(row[:n_columns] for row in rows)
    return Table("Kinds of questions", _KIND_COLUMNS[:n_columns], cells, _KIND_NOTE if labeled else "")


def _agreement(
    labeled: Sequence[Task], labels: Mapping[str, tuple[str, ...]], label: str
) -> tuple[int, int, str | Value, str | Value]:
    indices = {name: index for index, name in enumerate(dict.fromkeys(task.conversation_id for task in labeled))}
    counts = np.zeros((len(indices), 4))  # by conversation: both, only before, only judges, neither
    for task in labeled:
        before, now = label in task.question_types, label in labels[task.task_id]
        counts[indices[task.conversation_id], (0 if now else 1) if before else (2 if now else 3)] += 1
    total = counts.sum(axis=0)
    n_before, n_both = int(total[0] + total[1]), int(total[0])
    return n_before, n_both, _estimated(counts, _f1, len(labeled)), _estimated(counts, _kappa, len(labeled))


def _estimated(counts: _Numbers, measure: Callable[[_Numbers], _Numbers], n: int) -> str | Value:
    """Return a measure of counts by conversation with its interval, or a dash if it is undefined."""
    (value,) = measure(counts.sum(axis=0, keepdims=True))
    if np.isnan(value):
        return "-"
    drawn = np.random.default_rng(0).multinomial(len(counts), np.full(len(counts), 1 / len(counts)), _DRAWS)
    drawn_values = measure(drawn @ counts)
    drawn_values = drawn_values[~np.isnan(drawn_values)]
    if len(counts) < 2 or len(drawn_values) < 0.9 * _DRAWS:
        return Value(float(value), n, n)
    low, high = np.quantile(drawn_values, [0.025, 0.975])
    if low == high:  # no variation, such as a kind that no judge gave
        return Value(float(value), n, n)
    return Value(float(value), n, n, float(low), float(high))


def _f1(counts: _Numbers) -> _Numbers:
    both, before, now, _ = counts.T
    return _share(2 * both, 2 * both + before + now)


def _kappa(counts: _Numbers) -> _Numbers:
    both, before, now, neither = counts.T
    return _share(
        2 * (both * neither - before * now), (both + before) * (before + neither) + (both + now) * (now + neither)
    )


def _share(numerator: _Numbers, denominator: _Numbers) -> _Numbers:
    return np.divide(numerator, denominator, out=np.full_like(denominator, np.nan), where=denominator > 0)

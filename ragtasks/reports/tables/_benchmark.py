"""What a benchmark holds, as its paper's data tables report it (MTRAG paper, Table 8 and Figure 2)."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from statistics import fmean

from ragtasks.benchmarks import Benchmark, extra_tables
from ragtasks.metrics import word_count
from ragtasks.records import Answerability, Task
from ragtasks.tables import Section, Table, Value

_ANSWERED = frozenset({Answerability.ANSWERABLE, Answerability.PARTIAL})
_MOST_TURNS = 30
_COLUMNS = (
    *("domain", "conversations", "tasks", "turns a conversation", "unique references a conversation"),
    *("references a task", "question words", "response words"),
)
_NOTE = (
    "Words are what stands between white space. A conversation has as many turns as its last task says. References a "
    "task and response words: ANSWERABLE and PARTIAL tasks, whose number stands behind a mean."
)


def benchmark_section(benchmark: Benchmark, corpora: Sequence[Table] = ()) -> Section:
    """Return the tables of a benchmark: conversations by domain, tasks by dimension, and what only it has."""
    provenance = {"revision": benchmark.revision, "tasks": str(len(benchmark.tasks))}
    own = (_conversations(benchmark.tasks), _dimensions(benchmark.tasks), *extra_tables(benchmark))
    return Section(benchmark.label, provenance, (*own, *corpora))


def _conversations(tasks: Sequence[Task]) -> Table:
    domains = sorted({task.domain for task in tasks})
    rows = [(domain, *_measures([task for task in tasks if task.domain == domain])) for domain in domains]
    return Table("Conversations", _COLUMNS, (*rows, ("all", *_measures(tasks))), _NOTE)


def _measures(tasks: Sequence[Task]) -> Iterator[int | Value]:
    by_conversation: defaultdict[str, list[Task]] = defaultdict(list)
    for task in tasks:
        by_conversation[task.conversation_id].append(task)
    conversations = by_conversation.values()
    answered = [task for task in tasks if task.answerability in _ANSWERED]
    yield len(conversations)
    yield len(tasks)
    yield _mean(max(task.turn for task in group) for group in conversations)
    yield _mean(len({passage.passage_id for task in group for passage in task.references}) for group in conversations)
    yield _mean((len(task.references) for task in answered), len(tasks))
    yield _mean(word_count(task.question, task.language) for task in tasks)
    yield _mean((word_count(task.target, task.language) for task in answered), len(tasks))


def _mean(counts: Iterable[int], n: int | None = None) -> Value:
    found = list(counts)
    return Value(fmean(found) if found else None, len(found), len(found) if n is None else n)


def _dimensions(tasks: Sequence[Task]) -> Table:
    labels: dict[str, Callable[[Task], tuple[str, ...]]] = {
        "answerability": lambda task: (task.answerability.value,),
        "question type": lambda task: task.question_types,
        "multi-turn type": lambda task: (task.multi_turn,),
        "domain": lambda task: (task.domain,),
        "references": lambda task: (str(len(task.references)),),
        "turn": lambda task: (str(task.turn),),
    }
    rows = [row for dimension, of in labels.items() for row in _labelled(dimension, tasks, of)]
    note = "Shares are of all tasks; a task may have several question types."
    return Table("Tasks by dimension", ("dimension", "value", "tasks", "share"), tuple(rows), note)


def _labelled(
    dimension: str, tasks: Sequence[Task], labels: Callable[[Task], tuple[str, ...]]
) -> Iterator[tuple[str, str, int, Value]]:
    counts = Counter(label for task in tasks for label in labels(task))
    is_number = all(label.isdecimal() for label in counts)
    order = sorted(counts, key=int) if is_number else sorted(counts, key=lambda label: (-counts[label], label))
    for label in order[:_MOST_TURNS]:
        yield dimension, label, counts[label], Value(counts[label] / len(tasks), len(tasks), len(tasks))

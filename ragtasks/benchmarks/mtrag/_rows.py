"""Task files of MTRAG, MTRAG-UN and MTRAG-S: shared fields, and tasks checked against expected counts.

This module normalizes the quirks of the files: two spellings of `Answerability` and `Collection`, two separators in
ids, long and short collection names, bare NaN, turns as text, labels in lists.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, AliasChoices, BeforeValidator, ConfigDict, Field, model_validator

from ragtasks.benchmarks._definition import official_file, read_edition
from ragtasks.benchmarks._fields import Fields, TaskId, Text, TitledText, rows_by_id
from ragtasks.files import Problems, labels_of
from ragtasks.records import Answerability, Message, Passage, Role, Task, split_task_id

DOMAINS = ("clapnq", "fiqa", "govt", "cloud")
"""Short names of the four corpora, in the order of the MTRAG paper's Table 2."""

_COLLECTION_WORDS = {"clapnq": "clapnq", "fiqa": "fiqa", "govt": "govt", "ibmcloud": "cloud", "cloud": "cloud"}
_ROLES = {"user": Role.USER, "agent": Role.ASSISTANT}
_TITLES = {"mtrag": "MTRAG", "mtrag_un": "MTRAG-UN", "mtrag_s": "MTRAG-S"}


def official_problems(path: Path, benchmark: str, content: str = "file") -> Problems:
    """Return the problems of an official file. Raises BenchmarkFileError if the file is missing."""
    title = _TITLES[benchmark]
    path = official_file(path, title, benchmark)
    return Problems(path, f"{title} {content}", f"delete the file and run `ragtasks data fetch {benchmark}`")


def domain_of(collection: object) -> str | None:
    """Return the short domain of a collection name in any official spelling, or None."""
    words = collection.lower().split("-") if isinstance(collection, str) else []
    return next((_COLLECTION_WORDS[word] for word in words if word in _COLLECTION_WORDS), None)


def _domain(collection: object) -> str:
    domain = domain_of(collection)
    if domain is None:
        raise ValueError(f"a name with one of {', '.join(DOMAINS)}")
    return domain


class Utterance(Fields):
    """A message of a conversation."""

    speaker: Literal["user", "agent"]
    text: Text


def _alternating(conversation: list[Utterance]) -> list[Utterance]:
    speakers = [utterance.speaker for utterance in conversation]
    if len(speakers) % 2 == 0 or speakers != ["user", "agent"] * (len(speakers) // 2) + ["user"]:
        raise ValueError("alternating messages of user and agent that end with a user message")
    return conversation


class _Target(Fields):
    text: Text


Labels = Annotated[tuple[str, ...], BeforeValidator(labels_of)]


class TaskFields(Fields):
    """Fields shared by task files and the human evaluation."""

    task_id: TaskId
    messages: Annotated[list[Utterance], AfterValidator(_alternating)] = Field(alias="input")
    targets: list[_Target] = Field(min_length=1)
    answerability: Annotated[list[Answerability], BeforeValidator(labels_of)] = Field(
        validation_alias=AliasChoices("Answerability", "answerability"), min_length=1, max_length=1
    )
    domain: Annotated[str, BeforeValidator(_domain)] = Field(validation_alias=AliasChoices("Collection", "collection"))
    question_types: Labels = Field((), alias="Question Type")
    multi_turn: Labels = Field((), alias="Multi-Turn")

    def task(self, references: Sequence[Passage]) -> Task:
        """Return the task with its reference passages."""
        conversation_id, turn = split_task_id(self.task_id)
        return Task(
            task_id=self.task_id,
            conversation_id=conversation_id,
            turn=turn,
            domain=self.domain,
            messages=tuple(Message(_ROLES[utterance.speaker], utterance.text) for utterance in self.messages),
            target=self.targets[0].text,
            answerability=self.answerability[0],
            question_types=self.question_types,
            multi_turn=next(iter(self.multi_turn), "N/A"),
            references=tuple(references),
        )


class Context(TitledText):
    """A passage of a task."""

    document_id: Text


def distinct_contexts(contexts: list[Context]) -> list[Context]:
    """Return the passages of a task. A repeated id raises ValueError."""
    repeated = [name for name, n in Counter(context.document_id for context in contexts).items() if n > 1]
    if repeated:
        raise ValueError(f"a list with each passage once, not {repeated[0]!r} again")
    return contexts


class ContextRow(Fields):
    """A line with the passages of one task."""

    task_id: TaskId
    turn: int | None = None
    conversation_id: str | None = None
    contexts: Annotated[list[Context], AfterValidator(distinct_contexts)]

    @model_validator(mode="after")
    def _agrees_with_id(self) -> ContextRow:
        conversation_id, turn = split_task_id(self.task_id)
        if self.turn not in (None, turn):
            raise ValueError(f"`turn` {turn} as in the task id, not {self.turn}")
        if self.conversation_id not in (None, conversation_id):
            raise ValueError(f"`conversation_id` {conversation_id!r} as in the task id, not {self.conversation_id!r}")
        return self

    def passages(self) -> tuple[Passage, ...]:
        """Return the passages in order."""
        return tuple(context.passage(context.document_id) for context in self.contexts)


class TaskRow(TaskFields, ContextRow):
    """A line of a task file. Its passages are the references."""


def read_tasks(path: Path, benchmark: str, counts: Counts, model: type[TaskRow] = TaskRow) -> tuple[Task, ...]:
    """Return the tasks of a file, in file order, with their passages as references."""
    problems = official_problems(path, benchmark)
    rows = rows_by_id(problems, model, lambda row: row.task_id, "task", "task_id")
    tasks = tuple(row.task(row.passages()) for row in rows.values())
    check_counts(tasks, counts, problems)
    problems.raise_if_any()
    return tasks


class Counts(Fields):
    """Number of records in a complete copy: the official counts, or those of a sample."""

    model_config = ConfigDict(extra="forbid")

    tasks: int
    """Lines of reference.jsonl, and of RAG.jsonl if it exists."""
    by_domain: Mapping[str, int] | None = None
    """Tasks of each domain; None if unpublished."""
    by_answerability: Mapping[str, int] | None = None
    """Tasks of each label; None if unpublished."""
    conversations: int = 0
    """Number of conversations; 0 if they are not counted."""


def edition_of(root: Path, commit: str, counts: Counts) -> tuple[bool, str, Counts]:
    """Return (is sample, revision, counts) of the copy under `root`. Only a sample contains its own statistics."""

    def read(raw: Any) -> Counts:
        sample_counts = Counts.model_validate(raw)
        for name in ("by_domain", "by_answerability"):
            if getattr(counts, name) is not None and getattr(sample_counts, name) is None:
                raise LookupError(name)
        return sample_counts

    return read_edition(root, commit, counts, read)


def check_counts(tasks: tuple[Task, ...], counts: Counts, problems: Problems) -> None:
    """Add a problem if the number of tasks, in total or by domain or label, differs from the expected one."""
    if len(tasks) != counts.tasks:
        problems.add(0, f"{counts.tasks} tasks", len(tasks))
        return
    n_conversations = len({task.conversation_id for task in tasks})
    if counts.conversations not in {0, n_conversations}:
        problems.add(0, f"{counts.conversations} conversations", n_conversations)
    by_domain = dict(Counter(task.domain for task in tasks))
    if counts.by_domain is not None and by_domain != dict(counts.by_domain):
        problems.add(0, f"tasks by domain {dict(counts.by_domain)}", by_domain)
    by_answerability = dict(Counter(task.answerability.value for task in tasks))
    if counts.by_answerability is not None and by_answerability != dict(counts.by_answerability):
        problems.add(0, f"tasks by answerability {dict(counts.by_answerability)}", by_answerability)

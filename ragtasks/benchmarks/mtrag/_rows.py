"""The task files that MTRAG, MTRAG-UN and MTRAG-S have in common: read into records, checked against known counts.

The files' quirks end here: two spellings of `Answerability` and `Collection`, two separators in ids, long and short
collection names, bare NaN, turns written as text, labels wrapped in lists. Counts are checked, and every error of a
file is reported at once.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from pydantic import TypeAdapter, ValidationError

from ragtasks.benchmarks._definition import official_file, read_edition
from ragtasks.files import Problems, json_lines, labels_of, parse_json, passage_of, read_whole
from ragtasks.records import (
    Answerability,
    Message,
    Passage,
    Role,
    Task,
    normalise_task_id,
    split_task_id,
)

_Typed = TypeVar("_Typed")

DOMAINS = ("clapnq", "fiqa", "govt", "cloud")
"""Short names of the four corpora, in the order of the MTRAG paper's Table 2."""

_COLLECTION_WORDS = {"clapnq": "clapnq", "fiqa": "fiqa", "govt": "govt", "ibmcloud": "cloud", "cloud": "cloud"}
_ROLES = {"user": Role.USER, "agent": Role.ASSISTANT}
_TITLES = {"mtrag": "MTRAG", "mtrag_un": "MTRAG-UN", "mtrag_s": "MTRAG-S"}


def required_file(path: Path, benchmark: str = "mtrag") -> Path:
    """Return `path`, which is a file."""
    return official_file(path, _TITLES[benchmark], benchmark)


def domain_of(collection: object) -> str | None:
    """Return the short domain of a collection name in any official spelling, or None."""
    words = collection.lower().split("-") if isinstance(collection, str) else []
    return next((_COLLECTION_WORDS[word] for word in words if word in _COLLECTION_WORDS), None)


def rows_of(path: Path, benchmark: str) -> tuple[list[tuple[int, dict[str, Any]]], Problems]:
    """Return (line number, object) of each line of a task file that is one, and the errors of the others."""
    next_step = f"delete the file and run `ragtasks data fetch {benchmark}`"
    problems = Problems(required_file(path, benchmark), f"{_TITLES[benchmark]} file", next_step)
    return list(json_lines(problems)), problems


def typed_json(problems: Problems, kind: TypeAdapter[_Typed], expected: str) -> _Typed:
    """Return the JSON of a file whose shape pydantic checks."""
    try:
        return kind.validate_python(parse_json(read_whole(problems)))
    except ValidationError as error:
        for problem in error.errors():
            place = ".".join(map(str, problem["loc"])) or "the whole"
            problems.add(0, f"at `{place}`: {problem['msg']}", problem["input"])
    except ValueError as error:
        problems.add(0, expected, str(error))
    problems.raise_if_any()
    raise AssertionError("an error was noted")


Row = dict[str, Any]


def read_tasks(
    path: Path, benchmark: str, counts: Counts, prepare: Callable[[Row], Row] = lambda row: row
) -> tuple[Task, ...]:
    """Return the tasks of a file, in its order; their passages become the references."""
    rows, problems = rows_of(path, benchmark)
    read = (_task(line, prepare(row), problems) for line, row in unique_rows(rows, problems))
    tasks = tuple(task for task in read if task is not None)
    check_counts(tasks, counts, problems)
    problems.raise_if_any()
    return tasks


def _named(row: Mapping[str, Any]) -> str:
    """Return the task id for a message; "" where the row has none."""
    return str(row.get("task_id") or "")


def unique_rows(rows: list[tuple[int, dict[str, Any]]], problems: Problems) -> Iterator[tuple[int, dict[str, Any]]]:
    """Yield the rows whose task id is new, and note the others."""
    first_lines: dict[str, int] = {}
    for line, row in rows:
        name = _named(row)
        with suppress(ValueError):
            name = normalise_task_id(name)  # two spellings of one id are one task
        if name and first_lines.setdefault(name, line) != line:
            problems.add(line, "each task once", f"the task of line {first_lines[name]} again", name)
        else:
            yield line, row


def _task(line: int, row: dict[str, Any], problems: Problems) -> Task | None:
    """Return the task of one line, or None after noting what is wrong with it."""
    before = len(problems)
    identity = identity_of(line, row, problems)
    messages = _messages(line, row, problems)
    target = _target(line, row, problems)
    answerability = _answerability(line, row, problems)
    domain = _domain(line, row, problems)
    references = passages_of(line, row, problems)
    if len(problems) > before or identity is None or answerability is None or domain is None:
        return None
    task_id, conversation_id, turn = identity
    return Task(
        task_id=task_id,
        conversation_id=conversation_id,
        turn=turn,
        domain=domain,
        messages=messages,
        target=target,
        answerability=answerability,
        question_types=labels_of(row.get("Question Type")),
        multi_turn=next(iter(labels_of(row.get("Multi-Turn"))), "N/A"),
        references=references,
    )


def identity_of(line: int, row: dict[str, Any], problems: Problems) -> tuple[str, str, int] | None:
    """Return (task id, conversation id, turn) of one line, or None after noting what is wrong with it."""
    text = row.get("task_id")
    try:
        task_id = normalise_task_id(str(text))
    except ValueError:
        problems.add(line, "`task_id` such as <conversation><::><turn>", text)
        return None
    conversation_id, turn = split_task_id(task_id)
    if str(row.get("turn", turn)) != str(turn):
        problems.add(line, f"`turn` {turn} as in the task id", row.get("turn"), task_id)
    if row.get("conversation_id", conversation_id) != conversation_id:
        problems.add(line, "`conversation_id` as in the task id", row.get("conversation_id"), task_id)
    return task_id, conversation_id, turn


def _messages(line: int, row: dict[str, Any], problems: Problems) -> tuple[Message, ...]:
    """Return the conversation: user first and last, speakers in turn, no empty text."""
    raw = row.get("input")
    if not isinstance(raw, list) or not raw:
        problems.add(line, "`input` with at least one message", raw, _named(row))
        return ()
    messages = []
    for index, item in enumerate(raw):
        speaker = item.get("speaker") if isinstance(item, dict) else None
        text = item.get("text") if isinstance(item, dict) else None
        expected = "user" if index % 2 == 0 else "agent"
        if speaker != expected or not isinstance(text, str) or not text.strip():
            problems.add(line, f"`input[{index}]` with speaker {expected!r} and a text", item, _named(row))
            return ()
        messages.append(Message(_ROLES[speaker], text))
    if len(messages) % 2 == 0:
        problems.add(line, "`input` that ends with a user message", raw[-1], _named(row))
    return tuple(messages)


def _target(line: int, row: dict[str, Any], problems: Problems) -> str:
    targets = row.get("targets")
    first = targets[0] if isinstance(targets, list) and targets else None
    text = first.get("text") if isinstance(first, dict) else None
    if isinstance(text, str) and text.strip():
        return text
    problems.add(line, "`targets` with one answer text", targets, _named(row))
    return ""


def _answerability(line: int, row: dict[str, Any], problems: Problems) -> Answerability | None:
    labels = labels_of(row.get("Answerability", row.get("answerability")))
    try:
        (label,) = labels
        return Answerability(label)
    except ValueError:
        known = ", ".join(member.value for member in Answerability)
        problems.add(line, f"`Answerability` with one of {known}", list(labels), _named(row))
        return None


def _domain(line: int, row: dict[str, Any], problems: Problems) -> str | None:
    collection = row.get("Collection", row.get("collection"))
    domain = domain_of(collection)
    if domain is None:
        problems.add(line, f"`Collection` that names one of {', '.join(DOMAINS)}", collection, _named(row))
    return domain


def passages_of(line: int, row: dict[str, Any], problems: Problems) -> tuple[Passage, ...]:
    """Return the passages of one line in their order, after noting those that are none or come twice."""
    raw = row.get("contexts")
    if not isinstance(raw, list):
        problems.add(line, "`contexts` as a list", raw, _named(row))
        return ()
    passages: dict[str, Passage] = {}
    for index, item in enumerate(raw):
        passage = passage_of(item, "document_id")
        if passage is None or not passage.text.strip():
            problems.add(line, f"`contexts[{index}]` with texts as `document_id` and `text`", item, _named(row))
        elif passages.setdefault(passage.passage_id, passage) is not passage:
            problems.add(line, "each passage once", passage.passage_id, _named(row))
    return tuple(passages.values())


# What a complete copy of the files holds: the official counts, or those that a sample brings.


@dataclass(frozen=True, kw_only=True)
class Counts:
    """How many records a complete copy has; loading fails where a file differs."""

    tasks: int
    """Lines of reference.jsonl, and of RAG.jsonl where there is one."""
    by_domain: Mapping[str, int] | None = None
    """Tasks of each domain; None where they are not published."""
    by_answerability: Mapping[str, int] | None = None
    """Tasks of each label; None where they are not published."""
    conversations: int = 0
    """Different conversations; 0 where they are not counted."""


def edition_of(root: Path, commit: str, counts: Counts) -> tuple[bool, str, Counts]:
    """Return (is sample, revision, counts) of the copy under `root`; only a sample brings its own statistics."""

    def read(raw: Any) -> Counts:
        Counts(**raw)  # refuses what it does not know, as the next line does other types
        own = TypeAdapter(Counts).validate_python(raw)
        for name in ("by_domain", "by_answerability"):
            if getattr(counts, name) is not None and getattr(own, name) is None:
                raise LookupError(name)
        return own

    return read_edition(root, commit, counts, read)


def check_counts(tasks: tuple[Task, ...], counts: Counts, problems: Problems) -> None:
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

"""Questions and answers of one's own, without any benchmark: each row says what was asked, answered and retrieved.

The rows are their own benchmark, so that everything behind them is as for a published one. Two systems that answered
the same questions compare: the benchmark's revision is a hash of ids, questions and references, and of no answer.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ragtasks.benchmarks import Benchmark, rows_benchmark, with_languages
from ragtasks.errors import close_matches
from ragtasks.files import USAGE_KEYS, Problems, json_lines
from ragtasks.metrics import answer_text
from ragtasks.records import Answerability, Contexts, Message, Role, Setting, Task
from ragtasks.results._given_answers import (
    CONTEXTS_OF_FILE,
    AnswerRow,
    GivenAnswer,
    Note,
    is_null,
    plain,
)

ROW_KEYS = {
    "question": ("question", "user_input", "input"),
    "messages": ("messages",),
    "answer": ("answer", "response", "actual_output"),
    "contexts": ("contexts", "retrieved_contexts", "retrieval_context"),
    "searches": ("searches",),
    "reference": ("reference", "ground_truth", "expected_output"),
    "id": ("id",),
    "conversation_id": ("conversation_id", "session_id"),
    "domain": ("domain",),
    "language": ("language",),
    **{key: (key,) for key in USAGE_KEYS},
}
"""What a row holds -> the keys under which it may stand; the second and third are those of ragas and deepeval."""

NO_CONTEXTS = "no_contexts"
"""Key of a task's `extra` that is true where the row does not say what was retrieved; `[]` says: nothing."""

_ID_KEYS = frozenset({"id", "task_id"})  # what answers to the tasks of a benchmark are named by
_DEFAULT_DOMAIN = "rows"
_NOT_READ_ROLES = frozenset({"system", "developer", "tool", "function"})
_ROLES = {"user": Role.USER, "human": Role.USER, "assistant": Role.ASSISTANT, "ai": Role.ASSISTANT}
_DOMAIN = re.compile(r"[a-z0-9][a-z0-9_-]{0,63}")
_END_OF_THINKING = "</think>"
_NEXT_STEP = (
    'fix these lines; each is {"question": "text", "answer": "text", "contexts": ["text", ...]}, and "reference" if '
    "there is one (docs/score-your-system.md). Answers to the tasks of a benchmark: name it with --benchmark"
)


@dataclass(frozen=True)
class OwnRows:
    """Rows that were read: what was asked, as a benchmark, and what was answered."""

    benchmark: Benchmark
    """The questions, in the order of the rows."""
    given: Mapping[str, GivenAnswer]
    unread: Mapping[str, int] = field(default_factory=dict)
    """Keys that no row is read by -> rows that have them."""

    @property
    def contexts(self) -> Contexts:
        """What each answer rests on."""
        passages = {task_id: answer.passages or () for task_id, answer in self.given.items()}
        return Contexts(CONTEXTS_OF_FILE, Setting.FULL_RAG, passages)

    @property
    def unread_note(self) -> str:
        """One line on keys that are not read, with what they may be meant for; empty where there are none."""
        known = [key for keys in ROW_KEYS.values() for key in keys if key != "currency"]
        named = []
        for key, n in self.unread.items():
            hint = close_matches(key, known)
            named.append(f"{key} ({n} rows{f'; {hint}' if hint.startswith('did') else ''})")
        return f"not read: {', '.join(named)}" if named else ""


def holds_own_rows(file: Path) -> bool:
    """Return whether a file contains rows of one's own, by its first row: a question and no task of ours.

    Exported tasks have `messages` too, and ids such as `conversation<::>2`: with an answer added they answer the
    benchmark that they were exported from.
    """
    problems = Problems(file, "answers", _NEXT_STEP)
    line, first = next(iter(json_lines(problems)), (0, None))
    if first is None:
        problems.raise_if_any()
    if first is None or is_own_row(first):
        return first is not None
    if not first.keys() & _ID_KEYS:
        expected = "a `question` or `messages` (rows of your own), or an `id` (answers to the tasks of a benchmark)"
        problems.add(line, expected, sorted(first)[:10])
        problems.raise_if_any()
    return False


def is_own_row(row: Mapping[str, Any]) -> bool:
    """Return whether a row says what was asked, and is no exported task."""
    is_exported = "messages" in row and "<::>" in str(row.get("id"))
    return not is_exported and any(key in row for what in ("question", "messages") for key in ROW_KEYS[what])


def read_own_rows(file: Path) -> OwnRows:
    """Return the rows of a file in any container; all its errors are reported at once, by line or row."""
    problems = Problems(file, "rows", _NEXT_STEP)

    rows = own_rows(json_lines(problems), problems.add)
    problems.raise_if_any()
    return rows


def own_rows(numbered: Iterable[tuple[int, object]], note: Note) -> OwnRows:
    """Return rows as records; what is wrong with one is noted, and the row left out."""
    reader = _Reader(note)
    for number, row in numbered:
        if isinstance(row, Mapping):
            reader.read(number, row)
        else:
            note(number, "an object with `question` and `answer`", type(row).__name__, "")
    tasks = with_languages(reader.tasks, reader.languages, {name: given.text for name, given in reader.given.items()})
    return OwnRows(rows_benchmark(tasks), reader.given, dict(reader.unread))


class _Reader:
    """Reads rows one after the other: those of a conversation follow each other in their order."""

    def __init__(self, note: Note) -> None:
        self.tasks: list[Task] = []
        self.given: dict[str, GivenAnswer] = {}
        self.unread: Counter[str] = Counter()
        self.languages: dict[str, str] = {}
        self._note = note
        self._number_of: dict[str, int] = {}
        self._history: dict[str, tuple[Message, ...]] = {}

    def read(self, number: int, row: Mapping[str, Any]) -> None:
        """Read one row; `number` counts from 1."""
        item = _Row(number, row, self._note)
        self.unread.update(item.unread)
        conversation_id = item.text("conversation_id") or item.name
        messages = item.messages(self._history.get(conversation_id, ()))
        answer, target, domain = item.answer(), item.text("reference"), item.domain()
        self.languages[conversation_id] = item.text("language")
        first = self._number_of.setdefault(item.name, number)
        if first != number:
            item.note("each `id` once", f"an id that row {first} has already")
        if not item.is_right:
            return
        reply = Message(Role.ASSISTANT, answer_text(answer.text, _END_OF_THINKING))
        self._history[conversation_id] = (*messages, reply)
        self.given[item.name] = answer
        extra = {NO_CONTEXTS: True} if answer.passages is None else {}
        turn = sum(message.role is Role.USER for message in messages)
        self.tasks.append(
            Task(
                task_id=item.name,
                conversation_id=conversation_id,
                turn=turn,
                domain=domain,
                messages=messages,
                target=target,
                answerability=Answerability.ANSWERABLE,
                extra=extra,
            )
        )


class _Row(AnswerRow):
    """One row: an answer with its question."""

    def __init__(self, number: int, row: Mapping[str, Any], note: Note) -> None:
        super().__init__(number, row, ROW_KEYS, note)
        self.name = f"row-{number}"
        self.name = self.text("id") or self.name
        self.unread = [key for key in map(str, row) if not any(key in keys for keys in ROW_KEYS.values())]
        for keys in ROW_KEYS.values():
            found = [f"`{key}`" for key in keys if key in row and not is_null(row[key])]
            if len(found) > 1:
                self.note(f"one of {' and '.join(found)}: they mean the same", "both")

    def text(self, what: str) -> str:
        """Return a text that may be missing; numbers are taken as ids."""
        value = self.values.get(what, "")
        if what.endswith("id") and isinstance(value, int) and not isinstance(value, bool):
            return str(value)
        if isinstance(value, str):
            return value
        self.note(f"`{what}`: a text", value)
        return ""

    def messages(self, history: tuple[Message, ...]) -> tuple[Message, ...]:
        """Return the conversation up to the question. A final answer in it is the row's answer if no key has one."""
        if "messages" in self.values and "question" in self.values:
            self.note("`question` or `messages`", "both")
            return ()
        if "messages" in self.values:
            return self._conversation(self.values["messages"])
        question = self.text("question")
        if self.is_right and not question.strip():
            self.note("`question`, a text that is not blank, or `messages`", f"no question {question!r}".strip("' "))
        return (*history, Message(Role.USER, question))

    def _conversation(self, value: Any) -> tuple[Message, ...]:
        messages = _spoken(value)
        if messages is None:
            self.note('`messages`: a list of {"role": "user" or "assistant", "content": "text"}', value)
            return ()
        if messages and messages[-1].role is Role.ASSISTANT and "answer" not in self.values:
            self.values["answer"] = messages.pop().text
        if not messages or messages[-1].role is not Role.USER or not messages[-1].text.strip():
            self.note("`messages` that end with the user's question", value)
        return tuple(messages)

    def domain(self) -> str:
        """Return what the row is counted under."""
        name = self.text("domain") or _DEFAULT_DOMAIN
        if not _DOMAIN.fullmatch(name):
            self.note("`domain` in lower-case letters, digits, `-` and `_`", name)
        return name


def _spoken(value: Any) -> list[Message] | None:
    """Return what user and assistant say in chat messages; None where these are no such messages."""
    if not isinstance(value, Sequence) or isinstance(value, str):
        return None
    messages: list[Message] = []
    for item in map(plain, value):
        role = str(item.get("role")).lower() if isinstance(item, Mapping) else ""
        if role in _NOT_READ_ROLES:
            continue
        text = message_text(item.get("content")) if role in _ROLES else None
        if text is None:
            return None
        messages.append(Message(_ROLES[role], text))
    return messages


def message_text(content: Any) -> str | None:
    """Return the text of a message's content: a text, or a list of parts of which some are texts."""
    if isinstance(content, str):
        return content
    if not isinstance(content, Sequence):
        return None
    parts = [part.get("text") for part in content if isinstance(part, Mapping)]
    texts = [part for part in parts if isinstance(part, str)]
    return "\n".join(texts) if texts else None

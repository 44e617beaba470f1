"""The user's own questions and answers, without a benchmark. Each row has a question, an answer and retrieved passages.

The rows become a benchmark, so that later steps need no special case. Two systems that answered the same questions are
comparable: the benchmark's revision is a hash of ids, questions and references, without answers.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType
from typing import Any

from ragtasks.benchmarks import Benchmark, rows_benchmark, with_languages
from ragtasks.errors import near_names
from ragtasks.files import Problems, first_row, json_lines
from ragtasks.metrics import answer_text
from ragtasks.records import OTHER_LABELS, Answerability, Contexts, Message, Role, Setting, Task
from ragtasks.results._given_answers import CONTEXTS_OF_FILE, AnswerRow, GivenAnswer, Note, plain
from ragtasks.results._record_keys import ANSWER_KEYS, ROW_KEYS, RecordKeys, keys_step, value_under

NO_CONTEXTS = "no_contexts"
"""Key of a task's `extra` that is true if the row has no contexts. `[]` means that retrieval found no passages."""

_NO_KEYS: Mapping[str, str] = MappingProxyType({})
_QUESTION_KEYS = ("question", "messages")
_DEFAULT_DOMAIN = "rows"
_IGNORED_ROLES = frozenset({"system", "developer", "tool", "function"})
_ROLE_KEYS, _TEXT_KEYS = ("role", "speaker", "type"), ("content", "text")
"""Keys of a message in chats, MTRAG's files, LangChain and ragas."""
_ROLES = {"user": Role.USER, "human": Role.USER, "assistant": Role.ASSISTANT, "ai": Role.ASSISTANT}
_ROLES |= {"agent": Role.ASSISTANT, "bot": Role.ASSISTANT}
_DOMAIN = re.compile(r"[a-z0-9][a-z0-9_-]{0,63}")
_END_OF_THINKING = "</think>"
_NEXT_STEP = (
    'fix these lines; each is {"question": "text", "answer": "text", "contexts": ["text", ...]}, optionally with '
    '"reference" (docs/score-your-system.md). Answers to the tasks of a benchmark: name it with --benchmark'
)


@dataclass(frozen=True)
class OwnRows:
    """Rows as a benchmark with answers."""

    benchmark: Benchmark
    """The questions, in the order of the rows."""
    answers: Mapping[str, GivenAnswer]
    unread: Mapping[str, int] = field(default_factory=dict)
    """Unused key -> number of rows with it."""

    @property
    def contexts(self) -> Contexts:
        """The passages of each answer."""
        passages = {task_id: answer.passages or () for task_id, answer in self.answers.items()}
        return Contexts(CONTEXTS_OF_FILE, Setting.FULL_RAG, passages)

    @property
    def unread_note(self) -> str:
        """One line about unused keys and their likely meaning. Empty without unused keys."""
        usable = [key for name in ROW_KEYS.names for key in ROW_KEYS.all_of(name) if key != "currency"]
        descriptions = []
        for key, n in self.unread.items():
            hint = "" if key in usable else near_names(key, usable)
            descriptions.append(f"{key} ({n} rows{'; ' * bool(hint)}{hint})")
        return f"not read: {', '.join(descriptions)}" if descriptions else ""


def contains_own_rows(file: Path, keys: Mapping[str, str] = _NO_KEYS) -> bool:
    """Return whether a file contains the user's own rows. The first decides: a question, and no task of a benchmark.

    Exported tasks have `messages` too, and ids such as `conversation<::>2`. With an answer added, they are answers to
    the benchmark that they were exported from. `keys` are those that the user named.

    Raises:
        BenchmarkFileError: the first row is neither a row of the user's own nor an answer to a benchmark.
    """
    problems = Problems(file, "answers", _NEXT_STEP)
    number, first = next(iter(json_lines(problems)), (0, None))
    if first is None:
        problems.raise_if_any()
    if first is None or is_own_row(first, keys):
        return first is not None
    if ANSWER_KEYS.with_keys(keys).missing(first):
        table = ANSWER_KEYS if "<::>" in str(first.get("id")) else ROW_KEYS
        problems.next_step = keys_step(table.with_keys(keys), first, _command_with_keys(file)) or _NEXT_STEP
        expected = "a `question` or `messages` (rows of your own), or `id` and `answer` (to the tasks of a benchmark)"
        problems.add(number, expected, sorted(first)[:10])
        problems.raise_if_any()
    return False


def is_own_row(row: Mapping[str, Any], keys: Mapping[str, str] = _NO_KEYS) -> bool:
    """Return whether a row contains a question, and is neither an exported task nor a prediction for MTRAG.

    An id such as `conversation<::>2` belongs to a task, and its `query` only repeats the task's question.
    """
    is_task = any("<::>" in str(row.get(key)) for key in ("id", "task_id"))
    is_exported = "messages" in row and "<::>" in str(row.get("id"))
    is_prediction = "task_id" in row and ("predictions" in row or isinstance(row.get("input"), list))
    table = ROW_KEYS.with_keys(keys)
    question_keys = [key for name in _QUESTION_KEYS for key in (table.names[name] if is_task else table.all_of(name))]
    has_question = any(value_under(row, key) is not None for key in question_keys)
    return has_question and not is_exported and ("question" in keys or not is_prediction)


def _command_with_keys(file: Path) -> str:
    return f"ragtasks score {file} --keys {{}}"


def read_own_rows(file: Path, keys: Mapping[str, str] = _NO_KEYS) -> OwnRows:
    """Return the rows of a file in any container. All errors are reported at once, by line or row."""
    problems = Problems(file, "rows", _NEXT_STEP)

    rows = own_rows(json_lines(problems), problems.add, keys)
    if not rows.answers:
        step = keys_step(ROW_KEYS.with_keys(keys), first_row(file), _command_with_keys(file))
        problems.next_step = step or _NEXT_STEP
    problems.raise_if_any()
    return rows


def own_rows(numbered: Iterable[tuple[int, object]], note: Note, keys: Mapping[str, str] = _NO_KEYS) -> OwnRows:
    """Return rows as records. Rows with an error are reported and left out. `keys` are those that the user named."""
    reader = _Reader(note, ROW_KEYS.with_keys(keys))
    for number, row in numbered:
        if isinstance(row, Mapping):
            reader.read(number, row)
        else:
            note(number, "an object with `question` and `answer`", type(row).__name__, "")
    texts = {name: answer.text for name, answer in reader.answers.items()}
    tasks = with_languages(reader.tasks, reader.languages, texts)
    return OwnRows(rows_benchmark(tasks), reader.answers, dict(reader.unread))


class _Reader:
    """Reader of rows in order: those of a conversation follow each other."""

    def __init__(self, note: Note, keys: RecordKeys) -> None:
        self.tasks: list[Task] = []
        self.answers: dict[str, GivenAnswer] = {}
        self.unread: Counter[str] = Counter()
        self.languages: dict[str, str] = {}
        self._note, self._keys = note, keys
        self._number_of: dict[str, int] = {}
        self._history: dict[str, tuple[Message, ...]] = {}

    def read(self, number: int, row: Mapping[str, Any]) -> None:
        """Read one row. `number` counts from 1."""
        record = _Row(number, row, self._keys, self._note)
        self.unread.update(record.unread)
        conversation_id = record.text("conversation_id") or record.name
        messages = record.messages(self._history.get(conversation_id, ()))
        answer, targets, domain = record.answer(), record.references(), record.domain()
        self.languages[conversation_id] = record.text("language")
        first = self._number_of.setdefault(record.name, number)
        if first != number:
            record.note("each `id` once (--keys id=- numbers the rows)", f"the id of row {first}")
        if not record.is_valid:
            return
        reply = Message(Role.ASSISTANT, answer_text(answer.text, _END_OF_THINKING))
        self._history[conversation_id] = (*messages, reply)
        self.answers[record.name] = answer
        extra: dict[str, Any] = {NO_CONTEXTS: True} if answer.passages is None else {}
        if len(targets) > 1:
            answerability = Answerability.ANSWERABLE.value
            extra[OTHER_LABELS] = [{"target": text, "answerability": answerability} for text in targets[1:]]
        turn = sum(message.role is Role.USER for message in messages)
        self.tasks.append(
            Task(
                task_id=record.name,
                conversation_id=conversation_id,
                turn=turn,
                domain=domain,
                messages=messages,
                target=targets[0],
                answerability=Answerability.ANSWERABLE,
                extra=extra,
            )
        )


class _Row(AnswerRow):
    """One row: an answer with its question."""

    def __init__(self, number: int, row: Mapping[str, Any], keys: RecordKeys, note: Note) -> None:
        super().__init__(number, row, keys, note)
        self.name = f"row-{number}"
        self.name = self.text("id") or self.name
        self.unread = keys.unread(row)
        for name in keys.names:
            present = [f"`{key}`" for key in keys.keys_in(row, name)]
            if len(present) > 1:
                self.note(f"one of {' and '.join(present)}: they mean the same", "both")

    def text(self, name: str) -> str:
        """Return an optional text. Numbers are accepted as ids."""
        value = self.values.get(name, "")
        if name.endswith("id") and isinstance(value, int) and not isinstance(value, bool):
            return str(value)
        if isinstance(value, str):
            return value
        self.note(f"`{name}`: a text", value)
        return ""

    def references(self) -> tuple[str, ...]:
        """Return the reference answers, or one empty text without any."""
        value = self.values.get("reference")
        if not isinstance(value, list):
            return (self.text("reference"),)
        if not all(isinstance(text, str) for text in value):
            self.note("`reference`: a text, or a list of texts", value)
            return ("",)
        return tuple(dict.fromkeys(text for text in value if text.strip())) or ("",)

    def messages(self, history: tuple[Message, ...]) -> tuple[Message, ...]:
        """Return the conversation up to the question. A final answer in it is the row's, unless a key has one."""
        if "messages" in self.values and "question" in self.values:
            self.note("`question` or `messages`", "both")
            return ()
        value = self.values.get("messages", self.values.get("question"))
        if "messages" in self.values or isinstance(value, list):
            return self._conversation(value)
        question = self.text("question")
        if self.is_valid and not question.strip():
            self.note("`question`, a text that is not blank, or `messages`", f"no question {question!r}".strip("' "))
        return (*history, Message(Role.USER, question))

    def _conversation(self, value: Any) -> tuple[Message, ...]:
        messages = _chat_messages(value)
        if messages is None:
            self.note('`messages`: a list of {"role": "user" or "assistant", "content": "text"}', value)
            return ()
        if messages and messages[-1].role is Role.ASSISTANT and "answer" not in self.values:
            self.values["answer"] = messages.pop().text
        if not messages or messages[-1].role is not Role.USER or not messages[-1].text.strip():
            self.note("`messages` that end with the user's question", value)
        return tuple(messages)

    def domain(self) -> str:
        """Return the domain under which the row is counted."""
        name = self.text("domain") or _DEFAULT_DOMAIN
        if not _DOMAIN.fullmatch(name):
            self.note("`domain` in lower-case letters, digits, `-` and `_`", name)
        return name


def _chat_messages(value: Any) -> list[Message] | None:
    """Return the messages of user and assistant in a chat, or None if the value is not a list of messages."""
    if not isinstance(value, Sequence) or isinstance(value, str):
        return None
    chat: list[Message] = []
    for message in map(plain, value):
        if not isinstance(message, Mapping):
            return None
        role = next((str(message[key]).lower() for key in _ROLE_KEYS if message.get(key)), "")
        if role in _IGNORED_ROLES:
            continue
        content = next((message[key] for key in _TEXT_KEYS if message.get(key) is not None), None)
        text = message_text(content) if role in _ROLES else None
        if text is None:
            return None
        chat.append(Message(_ROLES[role], text))
    return chat


def message_text(content: Any) -> str | None:
    """Return the text of a message's content, which is a text or a list of parts with texts."""
    if isinstance(content, str):
        return content
    if not isinstance(content, Sequence):
        return None
    parts = [part.get("text") for part in content if isinstance(part, Mapping)]
    texts = [part for part in parts if isinstance(part, str)]
    return "\n".join(texts) if texts else None

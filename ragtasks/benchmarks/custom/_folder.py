"""Reading of a user's own benchmark: conversations, passages, judgements and a ranking.

The format is documented in `task_yamls/custom/README.md`. The errors of all files are reported together. Ids must
belong to a task or a passage of the folder, in the same domain. Otherwise a misspelled id would count as a miss of the
retriever.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any, TypeVar

from pydantic import (
    AfterValidator,
    AliasChoices,
    BeforeValidator,
    ConfigDict,
    Field,
    Strict,
    TypeAdapter,
    model_validator,
)

from ragtasks.benchmarks._definition import with_languages
from ragtasks.benchmarks._fields import Fields, Text, checked, matching, text_lines, typed_lines, unique_rows
from ragtasks.errors import BenchmarkFileError, close_matches, near_names, shortened_list
from ragtasks.files import Misfit, Problems, RunLine, qrel_lines, run_lines, run_of_lines
from ragtasks.records import Answerability, Message, Passage, Qrel, Role, Setting, Task, normalise_task_id, task_id

CONVERSATIONS = "conversations.jsonl"
PASSAGES = "passages.jsonl"
QRELS = "qrels.tsv"
"""Relevance judgements; optional."""
RETRIEVED = "retrieved.trec"
"""Retrieved passages; optional."""
FILES = (CONVERSATIONS, PASSAGES, QRELS, RETRIEVED)
_PASSAGE_IDS = ("_id", "passage_id", "id")
_NOT_NEEDED = (*_PASSAGE_IDS, "metadata")  # keys of a passage in the corpora of BEIR and MTRAG
REWRITE = "rewrite"
"""Key of a question's standalone form, in the file and in `Task.extra`."""

_ANSWERED = (Answerability.ANSWERABLE, Answerability.PARTIAL)
_WITHOUT_PASSAGE = (Answerability.UNANSWERABLE, Answerability.CONVERSATIONAL)
_MOST_NAMED = 10
_MANY = 20_000  # with more ids, a search for close matches takes seconds per id


def _as_list(value: object) -> object:
    return [value] if isinstance(value, str) else value


def _distinct(names: list[str]) -> list[str]:
    repeated = [name for name in names if names.count(name) > 1]
    if repeated:
        raise ValueError(f"a list with each text once, not {repeated[0]!r} twice")
    return names


_Id = Annotated[Text, matching(r"\S+", "an id without white space")]
_DomainName = Annotated[str, matching("[a-z0-9][a-z0-9_-]{0,63}", "lower-case letters, digits, '-' and '_'")]
_Texts = Annotated[list[Text], BeforeValidator(_as_list), AfterValidator(_distinct)]


class _StrictFields(Fields):
    """An object written by people: null counts as a missing key, and an unknown key is an error."""

    model_config = ConfigDict(extra="forbid")

    @model_validator(mode="before")
    @classmethod
    def _without_nulls(cls, row: Any) -> Any:
        if not isinstance(row, dict):
            return row
        return {key: value for key, value in row.items() if value is not None}


class _PassageRow(_StrictFields):
    """A passage. Keys of other tools' corpora are allowed and ignored."""

    model_config = ConfigDict(extra="allow")

    passage_id: _Id = Field(validation_alias=AliasChoices(*_PASSAGE_IDS))
    text: str
    title: str = ""
    url: str = ""
    domain: _DomainName = "custom"

    @model_validator(mode="after")
    def _has_one_id(self) -> _PassageRow:
        other_keys = self.model_extra or {}
        if any(str(other_keys.get(key, self.passage_id)) != self.passage_id for key in _PASSAGE_IDS):
            raise ValueError(f"one id, the same in all of {', '.join(_PASSAGE_IDS)}")
        return self

    @property
    def unread(self) -> list[str]:
        return [key for key in self.model_extra or () if key not in _NOT_NEEDED]

    def passage(self) -> Passage:
        """Return the passage. Its text begins with its title, for models and retrievers."""
        text = self.text if self.text.lstrip().startswith(self.title.strip()) else f"{self.title}\n{self.text}"
        return Passage(self.passage_id, text, self.title, self.url)


class _Exchange(_StrictFields):
    question: Text
    answer: Text
    answerability: Annotated[Answerability, BeforeValidator(lambda label: str(label).upper())] = (
        Answerability.ANSWERABLE
    )
    references: _Texts = Field([])
    question_types: _Texts = Field([])
    multi_turn: Text = "N/A"
    rewrite: Text = ""
    scored: Annotated[bool, Strict()] = True

    @model_validator(mode="after")
    def _references_need_an_answer(self) -> _Exchange:
        if self.references and self.answerability in _WITHOUT_PASSAGE:
            raise ValueError(f"no `references` for a question that is {self.answerability.value}")
        return self


class _ConversationRow(_StrictFields):
    conversation_id: _Id
    domain: _DomainName = "custom"
    language: Annotated[str, matching("[a-z]{2}", "a code of ISO 639-1, such as 'de'")] = ""
    turns: list[Any] = Field(min_length=1)
    """Turns are checked separately, so that an error in one turn does not hide errors in others."""


_EXCHANGE = TypeAdapter(_Exchange)


@dataclass(slots=True)
class Corpus:
    passages: dict[str, Passage] = field(default_factory=dict)
    """Passage id -> passage, in file order."""
    domains: dict[str, str] = field(default_factory=dict)
    """Passage id -> domain."""

    def of_domain(self, domain: str) -> tuple[Passage, ...]:
        """Return the passages of a domain, in file order."""
        return tuple(passage for key, passage in self.passages.items() if self.domains[key] == domain)

    def misfit(self, passage_id: str, domain: str) -> tuple[str, str] | None:
        """Return (expected, found) if a task of a domain cannot refer to a passage."""
        if passage_id not in self.passages:
            near = near_names(passage_id, self.passages) if len(self.passages) < _MANY else ""
            hint = f": {near}" if near else ""
            return f"a passage of {PASSAGES}", f"no passage {passage_id!r}{hint}"
        if self.domains[passage_id] == domain:
            return None
        return f"a passage of the question's domain {domain!r}", f"{passage_id!r} of {self.domains[passage_id]!r}"


@dataclass(frozen=True, slots=True)
class Folder:
    """The records of a folder."""

    root: Path
    tasks: tuple[Task, ...]
    """One per user turn, in file order."""
    corpus: Corpus
    qrels: tuple[Qrel, ...] | None
    """Judgements; None without `qrels.tsv`."""
    retrieved: Mapping[str, tuple[str, ...]] | None
    """Task id -> passage ids, best first; None without `retrieved.trec`."""
    notes: tuple[str, ...] = ()
    """Notes on unread keys, and on scores that contradict the order of the file. Neither is an error."""

    @property
    def domains(self) -> tuple[str, ...]:
        """The domains of the tasks, in file order."""
        return tuple(dict.fromkeys(task.domain for task in self.tasks))

    @property
    def referring(self) -> tuple[Task, ...]:
        """The tasks of setting `reference`: all tasks but those with an answer and no references."""
        return tuple(task for task in self.tasks if belongs(task, Setting.REFERENCE))

    def judgements(self) -> tuple[Qrel, ...]:
        """Return the relevance judgements or, without them, every reference."""
        if self.qrels is not None:
            return self.qrels
        return tuple(Qrel(task.task_id, passage.passage_id, 1) for task in self.tasks for passage in task.references)


def belongs(task: Task, setting: Setting) -> bool:
    """Return whether a task is part of a setting: with setting `reference`, a task with an answer needs references."""
    return setting is not Setting.REFERENCE or bool(task.references) or task.answerability not in _ANSWERED


def rewrites_of(tasks: tuple[Task, ...]) -> Mapping[str, str]:
    """Return task id -> standalone form of the question, for tasks that have one."""
    return {task.task_id: task.extra[REWRITE] for task in tasks if REWRITE in task.extra}


def read_folder(root: Path) -> tuple[Folder, list[str]]:
    """Return the records of a folder and every error of its files. With errors, the records are incomplete."""
    files = _Files(root)
    return files.folder(), files.errors()


_Read = TypeVar("_Read")


class _Files:
    """Reads the files of a folder and collects the errors of all of them."""

    def __init__(self, root: Path) -> None:
        self._root = root
        self._problems = {name: Problems(root / name, "your own data", "fix these lines") for name in FILES}
        self._unreadable: dict[str, str] = {}
        self._corpus = Corpus()
        self._notes: list[str] = []

    def folder(self) -> Folder:
        self._read_file(PASSAGES, self._read_passages)
        tasks = self._read_file(CONVERSATIONS, self._read_tasks) or ()
        by_id = {task.task_id: task for task in tasks}
        qrels = self._read_file(QRELS, lambda problems: self._read_qrels(by_id, problems))
        retrieved = self._read_file(RETRIEVED, lambda problems: self._read_retrieved(by_id, problems))
        return Folder(self._root, tasks, self._corpus, qrels, retrieved, tuple(self._notes))

    def errors(self) -> list[str]:
        return [
            f"{name}: {text}"
            for name in sorted(FILES)
            for text in (*self._problems[name].texts(), *filter(None, [self._unreadable.get(name)]))
        ]

    def _is_valid(self, name: str) -> bool:
        return not len(self._problems[name]) and name not in self._unreadable

    def _read_file(self, name: str, read: Callable[[Problems], _Read]) -> _Read | None:
        """Return the records of a file; None if it is optional and missing, or unreadable."""
        if name in (QRELS, RETRIEVED) and not (self._root / name).exists():
            return None
        problems = self._problems[name]
        try:
            return read(problems)
        except BenchmarkFileError as error:
            if not len(problems):
                self._unreadable[name] = " ".join(str(error).split("\n", 1)[-1].split())
            return None

    def _read_passages(self, problems: Problems) -> None:
        rows = typed_lines(problems, _PassageRow, "_id", parse=_parsed)
        row_of = unique_rows(problems, ((line, row.passage_id, row) for line, row in rows), "passage")
        filled = {key: row for key, row in row_of.items() if row.text.strip() or row.title.strip()}
        self._corpus.passages = {key: row.passage() for key, row in filled.items()}
        self._corpus.domains = {key: row.domain for key, row in filled.items()}
        blank = [key for key in row_of if key not in filled]
        unread = dict.fromkeys(key for row in row_of.values() for key in row.unread)
        if blank:
            self._notes.append(f"{PASSAGES}: {len(blank)} left out, without text: {shortened_list(blank, _MOST_NAMED)}")
        if unread:
            known_keys = {*_PassageRow.model_fields, *_PASSAGE_IDS}
            unread_keys = [f"{key} ({hint})" if (hint := near_names(key, known_keys)) else key for key in unread]
            self._notes.append(f"{PASSAGES}: keys that are not read: {shortened_list(unread_keys, _MOST_NAMED)}")

    def _read_tasks(self, problems: Problems) -> tuple[Task, ...]:
        rows = list(typed_lines(problems, _ConversationRow, "conversation_id", parse=_parsed))
        unique_rows(problems, ((line, row.conversation_id, row) for line, row in rows), "conversation")
        tasks = [task for line, row in rows for task in self._tasks_of(line, row, problems)]
        return with_languages(tasks, {row.conversation_id: row.language for _, row in rows})

    def _tasks_of(self, line: int, row: _ConversationRow, problems: Problems) -> Iterator[Task]:
        domains = set(self._corpus.domains.values())
        is_checked = self._is_valid(PASSAGES)
        if is_checked and row.domain not in domains:
            near = close_matches(row.domain, domains)
            problems.add(line, "a domain of the passages", f"no passage of {row.domain!r}: {near}", row.conversation_id)
            is_checked = False
        messages: list[Message] = []
        for number, raw in enumerate(row.turns, start=1):
            name = f"turn {number} of {row.conversation_id}"
            turn = checked(_EXCHANGE, raw, problems, line, name)
            if turn is None:
                continue
            messages.append(Message(Role.USER, turn.question))
            for passage_id in turn.references if is_checked else ():
                if misfit := self._corpus.misfit(passage_id, row.domain):
                    problems.add(line, *misfit, name)
            if turn.scored:
                yield Task(
                    task_id=task_id(row.conversation_id, number),
                    conversation_id=row.conversation_id,
                    turn=number,
                    domain=row.domain,
                    messages=tuple(messages),
                    target=turn.answer,
                    answerability=turn.answerability,
                    question_types=tuple(turn.question_types),
                    multi_turn=turn.multi_turn,
                    references=tuple(
                        self._corpus.passages[key] for key in turn.references if key in self._corpus.passages
                    ),
                    extra={REWRITE: turn.rewrite} if turn.rewrite else {},
                )
            messages.append(Message(Role.ASSISTANT, turn.answer))

    def _read_qrels(self, tasks: Mapping[str, Task], problems: Problems) -> tuple[Qrel, ...]:
        """Return the judgements of the folder.

        A line contains three cells as in BEIR (query, passage, grade; after an optional header), or four as in TREC
        (query, an unused column, passage, grade).
        """
        qrels: dict[tuple[str, str], Qrel] = {}
        for line, judged in qrel_lines(text_lines(problems), {3, 4}):
            pair = self._pair(line, judged, tasks, problems)
            if isinstance(judged, Misfit) or pair is None:
                continue
            if pair in qrels:
                problems.add(line, "each judgement once", f"{pair[1]!r} again", pair[0])
            qrels.setdefault(pair, Qrel(*pair, judged.relevance))
        return tuple(qrels.values())

    def _read_retrieved(self, tasks: Mapping[str, Task], problems: Problems) -> dict[str, tuple[str, ...]]:
        """Return task id -> passage ids, ordered by score as in trec_eval. Ranks in the file are ignored."""
        lines: dict[str, dict[str, RunLine]] = {}
        for number, ranked in run_lines(text_lines(problems)):
            pair = self._pair(number, ranked, tasks, problems)
            if isinstance(ranked, Misfit) or pair is None:
                continue
            ranking = lines.setdefault(pair[0], {})
            if pair[1] in ranking:
                problems.add(number, "each passage once", f"{pair[1]!r} again", pair[0])
            ranking.setdefault(pair[1], ranked)
        run = run_of_lines({key: tuple(ranking.values()) for key, ranking in lines.items()})
        if note := run.order_note(run):
            self._notes.append(f"{RETRIEVED}: {note}")
        return {key: tuple(ranked_passage.passage_id for ranked_passage in ranking) for key, ranking in run.items()}

    def _pair(self, line: int, row: Any, tasks: Mapping[str, Task], problems: Problems) -> tuple[str, str] | None:
        """Return (task id, passage id) of a line. For an invalid line, add the problem and return None."""
        if isinstance(row, Misfit):
            problems.add(line, row.expected, row.found)
            return None
        try:
            task = tasks.get(normalise_task_id(row.query_id))
        except ValueError:
            task = None
        if task is None:
            near = near_names(row.query_id, tasks)
            hint = f": {near}" if near else ""
            problems.add(line, "a conversation id, '<::>' and a turn", f"no task {row.query_id!r}{hint}")
        elif self._is_valid(PASSAGES) and (misfit := self._corpus.misfit(row.passage_id, task.domain)):
            problems.add(line, *misfit, task.task_id)
        else:
            return task.task_id, row.passage_id
        return None


def _parsed(text: bytes) -> Any:
    """Return the JSON of a line. Repeated keys and NaN are errors, because people write these files by hand."""
    try:
        value = json.loads(text.decode("utf-8"), object_pairs_hook=_unique, parse_constant=_no_number)
    except RecursionError as error:
        raise ValueError("JSON that is nested too deeply") from error
    json.dumps(value, ensure_ascii=False).encode("utf-8")
    return value


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    content = dict(pairs)
    if len(content) < len(pairs):
        keys = [key for key, _ in pairs]
        raise ValueError(f"the key {next(key for key in keys if keys.count(key) > 1)!r} twice in one object")
    return content


def _no_number(name: str) -> None:
    raise ValueError(f"{name}, which is not JSON")


def labelled_conversations(root: Path, labels: Mapping[str, tuple[str, ...]]) -> bytes:
    """Return `conversations.jsonl` with question types by task id, added to turns without any."""
    lines = []
    for line in (root / CONVERSATIONS).read_text(encoding="utf-8-sig").splitlines():
        if not line.strip():
            continue
        row = json.loads(line)
        for number, turn in enumerate(row["turns"], start=1):
            question_types = labels.get(task_id(row["conversation_id"], number))
            if question_types and not turn.get("question_types"):
                turn["question_types"] = list(question_types)
        lines.append(json.dumps(row, ensure_ascii=False) + "\n")
    return "".join(lines).encode()

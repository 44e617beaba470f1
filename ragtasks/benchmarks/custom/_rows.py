"""`conversations.jsonl` and `passages.jsonl` read into records, with every error of both noted by line.

A line that has an error still counts as being there: a passage with an empty text can be referred to, so that one error
does not bring others along.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from ragtasks.benchmarks.custom._lines import FolderViolations, Item, json_objects, shown
from ragtasks.errors import close_matches
from ragtasks.ids import task_id
from ragtasks.records import Answerability, Message, Passage, Role, Task

CONVERSATIONS = "conversations.jsonl"
PASSAGES = "passages.jsonl"
DEFAULT_DOMAIN = "custom"
REWRITE = "rewrite"
"""Key of a question's standalone form, in the file and in `Task.extra`."""

CONVERSATION_KEYS = ("conversation_id", "domain", "turns")
TURN_KEYS = ("question", "answer", "answerability", "references", "question_types", "multi_turn", REWRITE)
PASSAGE_KEYS = ("_id", "passage_id", "text", "title", "url", "domain")

_WITHOUT_PASSAGE = (Answerability.UNANSWERABLE, Answerability.CONVERSATIONAL)

_DOMAIN = re.compile(r"[a-z0-9][a-z0-9_-]{0,63}")
_MANY = 20_000  # close matches among more ids than these take seconds each


@dataclass(slots=True)
class Corpus:
    """The passages of a folder."""

    passages: dict[str, Passage] = field(default_factory=dict)
    """Passage id -> passage, in the order of the file."""
    domains: dict[str, str] = field(default_factory=dict)
    """Passage id -> domain; empty where that has an error."""
    lines: dict[str, int] = field(default_factory=dict)
    """Passage id -> its line."""

    def of_domain(self, domain: str) -> tuple[Passage, ...]:
        """Return the passages of a domain, in the order of the file."""
        return tuple(passage for key, passage in self.passages.items() if self.domains[key] == domain)

    def violation_of(self, passage_id: str, domain: str) -> str | None:
        """Return why a task of a domain cannot have a passage, None where it can."""
        if passage_id not in self.passages:
            near = close_matches(passage_id, self.passages) if len(self.passages) < _MANY else ""
            hint = f": {near}" if near.startswith("did") else ""
            return f"no passage {shown(passage_id)} in {PASSAGES}{hint}"
        own = self.domains[passage_id]
        if own in {"", domain}:
            return None
        return f"passage {shown(passage_id)} is in the domain {shown(own)}, the question in {shown(domain)}"


def read_passages(root: Path, violations: FolderViolations) -> Corpus:
    """Return the passages of a folder; what is wrong with them is noted."""
    corpus = Corpus()
    for line, row in json_objects(root / PASSAGES, violations):
        item = Item(violations, PASSAGES, line, row, only=PASSAGE_KEYS)
        passage_id = _passage_id(item)
        passage = _passage(item, passage_id)
        domain = _domain(item)
        if not passage_id:
            continue
        first = corpus.lines.setdefault(passage_id, line)
        if first != line:
            item.note(f"the id {shown(passage_id)} again; first in line {first}")
            continue
        corpus.passages[passage_id], corpus.domains[passage_id] = passage, domain
    return corpus


def _passage_id(item: Item) -> str:
    if "_id" in item.content and "passage_id" in item.content:
        item.note("'_id' and 'passage_id' mean the same: keep one of them")
    return item.name("passage_id" if "passage_id" in item.content else "_id")


def _passage(item: Item, passage_id: str) -> Passage:
    """Return a passage whose text begins with its title, as models and retrievers are to see both."""
    # Exports write an empty text where there is none.
    title, url = (item.text(key) if item.content.get(key) else "" for key in ("title", "url"))
    text = item.text("text")
    whole = text if text.lstrip().startswith(title.strip()) else f"{title}\n{text}"
    return Passage(passage_id, whole, title, url)


def _domain(item: Item) -> str:
    domain = item.text("domain", DEFAULT_DOMAIN)
    if not domain or _DOMAIN.fullmatch(domain):
        return domain
    item.expected("'domain' in lower-case letters, digits, '-' and '_'", domain)
    return ""


def read_tasks(root: Path, corpus: Corpus, violations: FolderViolations) -> tuple[Task, ...]:
    """Return one task for each user turn; what is wrong with the conversations is noted.

    Args:
        root: the folder.
        corpus: its passages; while it has none, references are not looked up.
        violations: where errors are noted.
    """
    tasks: list[Task] = []
    first_lines: dict[str, int] = {}
    for line, row in json_objects(root / CONVERSATIONS, violations):
        item = Item(violations, CONVERSATIONS, line, row, only=CONVERSATION_KEYS)
        conversation_id = item.name("conversation_id")
        if conversation_id and first_lines.setdefault(conversation_id, line) != line:
            item.note(f"the id {shown(conversation_id)} again; first in line {first_lines[conversation_id]}")
        domain = _domain(item)
        known = set(corpus.domains.values()) - {""}
        if known and domain and domain not in known:
            item.note(f"no passage is in the domain {shown(domain)}: {close_matches(domain, known)}")
        tasks += _tasks(item, conversation_id, domain if domain in known else "", corpus)
    return tuple(tasks)


def _tasks(item: Item, conversation_id: str, domain: str, corpus: Corpus) -> list[Task]:
    turns = item.content.get("turns")
    if not isinstance(turns, list) or not turns:
        item.expected("'turns' as a list with at least one turn", turns)
        return []
    tasks: list[Task] = []
    messages: list[Message] = []
    for number, row in enumerate(turns, start=1):
        place = f"turn {number} of {conversation_id}" if conversation_id else f"turn {number}"
        if not isinstance(row, dict):
            Item(item.violations, item.file, item.line, {}, place).expected("an object", row)
            continue
        turn = Item(item.violations, item.file, item.line, row, place, TURN_KEYS)
        messages.append(Message(Role.USER, turn.text("question")))
        tasks.append(_task(turn, (conversation_id, number, domain), tuple(messages), corpus))
        messages.append(Message(Role.ASSISTANT, tasks[-1].target))
    return tasks


def _task(turn: Item, identity: tuple[str, int, str], messages: tuple[Message, ...], corpus: Corpus) -> Task:
    conversation_id, number, domain = identity
    answerability = _answerability(turn)
    rewrite = turn.text(REWRITE, "")
    return Task(
        task_id=task_id(conversation_id, number),
        conversation_id=conversation_id,
        turn=number,
        domain=domain,
        messages=messages,
        target=turn.text("answer"),
        answerability=answerability,
        question_types=turn.texts("question_types"),
        multi_turn=turn.text("multi_turn", "N/A"),
        references=_references(turn, domain, answerability, corpus),
        extra={REWRITE: rewrite} if rewrite else {},
    )


def _answerability(turn: Item) -> Answerability:
    label = turn.text("answerability", Answerability.ANSWERABLE.value).upper()
    known: Collection[str] = [member.value for member in Answerability]
    if label in known:
        return Answerability(label)
    if label:
        turn.note(f"unknown answerability {shown(turn.content['answerability'])}: {close_matches(label, known)}")
    return Answerability.ANSWERABLE


def _references(turn: Item, domain: str, answerability: Answerability, corpus: Corpus) -> tuple[Passage, ...]:
    named = turn.texts("references")
    if named and answerability in _WITHOUT_PASSAGE:
        turn.note(f"a question that is {answerability.value} rests on no passage, yet 'references' names {named[0]!r}")
    if not corpus.passages or not domain:
        return ()
    for passage_id in named:
        if violation := corpus.violation_of(passage_id, domain):
            turn.note(violation)
    return tuple(corpus.passages[passage_id] for passage_id in named if passage_id in corpus.passages)


def rewrites_of(tasks: Collection[Task]) -> Mapping[str, str]:
    """Return task id -> standalone form of the question, for the tasks that have one."""
    return {task.task_id: task.extra[REWRITE] for task in tasks if REWRITE in task.extra}


__all__ = [
    "CONVERSATIONS",
    "CONVERSATION_KEYS",
    "DEFAULT_DOMAIN",
    "PASSAGES",
    "PASSAGE_KEYS",
    "REWRITE",
    "TURN_KEYS",
    "Corpus",
    "read_passages",
    "read_tasks",
    "rewrites_of",
]

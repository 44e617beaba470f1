"""MTRAG's retrieval side: corpora, queries in three forms, relevance judgements, and the whole conversations.

Passages are streamed, one at a time, because a real corpus does not fit in a small machine's memory as objects.
"""

from __future__ import annotations

import io
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from ragtasks.benchmarks._rows import Faults, json_lines, parse_json
from ragtasks.benchmarks.mtrag import DOMAINS, domain_of, load, required_file
from ragtasks.errors import BenchmarkFileError, ConfigurationError, clear_error, close_matches
from ragtasks.ids import normalise_task_id
from ragtasks.records import Conversation, Message, Passage, Qrel, Role

QUERY_FORMS = {"last_turn": "lastturn", "rewrite": "rewrite", "all_questions": "questions"}
"""Query form -> the word that the official file names use for it."""

_SPEAKER_MARK = "|user|: "
_NEXT_STEP = "delete the file and run `ragtasks fetch mtrag`"


def load_conversations(root: Path) -> tuple[Conversation, ...]:
    """Return all conversations, in the order of the file (110 in the official one).

    Raises:
        BenchmarkFileError: the file is missing, torn, or holds a conversation that is no dialogue.
    """
    path = required_file(root / "mtrag-human/conversations/conversations.json")
    faults = Faults(path, "MTRAG conversations", _NEXT_STEP)
    try:
        rows = parse_json(path.read_bytes())
    except ValueError as error:
        faults.add(0, "one JSON array", str(error))
        rows = []
    ids = {_opening(task.messages): task.conversation_id for task in load(root).tasks if task.turn == 2}
    conversations = tuple(_conversation(row, ids, faults) for row in rows)
    faults.raise_if_any()
    return conversations


def _opening(messages: tuple[Message, ...]) -> tuple[str, ...]:
    """Return what tells conversations apart: official ones carry no id, their tasks do."""
    return tuple(message.text for message in messages[:3])


def _conversation(row: dict[str, Any], ids: dict[tuple[str, ...], str], faults: Faults) -> Conversation:
    messages = tuple(
        Message(Role.USER if item.get("speaker") == "user" else Role.ASSISTANT, str(item.get("text", "")))
        for item in row.get("messages", [])
    )
    conversation_id = ids.get(_opening(messages), "")
    domain = domain_of(row.get("domain"))
    if not conversation_id or domain is None:
        faults.add(0, "a conversation that tasks were cut from, with a known domain", messages[:1])
    return Conversation(conversation_id, domain or "", messages)


def load_queries(root: Path, domain: str, form: str) -> dict[str, str]:
    """Return query id -> text of one domain in one form, speaker marks removed, in the order of the file.

    Raises:
        BenchmarkFileError: the file is missing or broken.
        ConfigurationError: unknown domain or form.
    """
    _known(domain, DOMAINS, "domain")
    _known(form, QUERY_FORMS, "query form")
    name = f"{domain}_{QUERY_FORMS[form]}.jsonl"
    path = required_file(root / "mtrag-human/retrieval_tasks" / domain / name)
    faults = Faults(path, "MTRAG queries", _NEXT_STEP)
    queries: dict[str, str] = {}
    for line, row in json_lines(faults):
        query_id, text = row.get("_id"), row.get("text")
        if not isinstance(query_id, str) or not isinstance(text, str) or not text.strip():
            faults.add(line, "`_id` and `text`", row)
        elif (key := normalise_task_id(query_id)) in queries:
            faults.add(line, "each query once", query_id)
        else:
            queries[key] = "\n".join(part.removeprefix(_SPEAKER_MARK) for part in text.split("\n"))
    faults.raise_if_any()
    return queries


def load_qrels(root: Path, domain: str) -> tuple[Qrel, ...]:
    """Return the relevance judgements of one domain, in the order of the file (2,128 over the official four).

    Raises:
        BenchmarkFileError: the file is missing, or a line is not query, passage and a whole number.
        ConfigurationError: unknown domain.
    """
    _known(domain, DOMAINS, "domain")
    path = required_file(root / "mtrag-human/retrieval_tasks" / domain / "qrels" / "dev.tsv")
    faults = Faults(path, "MTRAG qrels", _NEXT_STEP)
    qrels: list[Qrel] = []
    for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), start=1):
        cells = line.split("\t")
        if number == 1 and cells[0] == "query-id":
            continue
        if len(cells) == 3 and cells[1] and cells[2].isdigit():
            qrels.append(Qrel(normalise_task_id(cells[0]), cells[1], int(cells[2])))
        else:
            faults.add(number, "query id, passage id and a whole number, separated by tabs", line)
    faults.raise_if_any()
    return tuple(qrels)


def read_passages(root: Path, domain: str) -> Iterator[Passage]:
    """Yield the passages of one domain's corpus, in the order of the file, in constant memory.

    Raises:
        BenchmarkFileError: no corpus, a broken zip, or a line that is no passage (by its number).
        ConfigurationError: unknown domain.
    """
    _known(domain, DOMAINS, "domain")
    path = required_file(root / "corpora/passage_level" / f"{domain}.jsonl.zip")
    try:
        with zipfile.ZipFile(path) as archive:
            (name,) = archive.namelist()
            with archive.open(name) as member:
                yield from _passages(path, member)
    except (zipfile.BadZipFile, ValueError, EOFError) as error:
        message = clear_error(
            "MTRAG corpus", where=str(path), expected="a zip with one file", found=str(error), next_step=_NEXT_STEP
        )
        raise BenchmarkFileError(message) from error


def _passages(path: Path, lines: Any) -> Iterator[Passage]:
    faults = Faults(path, "MTRAG corpus", _NEXT_STEP)
    for number, line in enumerate(io.BufferedReader(lines), start=1):
        try:
            row = parse_json(line)
            yield Passage(row["_id"], row["text"], row.get("title") or "", row.get("url") or "")
        except (ValueError, KeyError, TypeError) as error:
            faults.add(number, "an object with `_id` and `text`", str(error))
            faults.raise_if_any()


def _known(name: str, known: Any, what: str) -> None:
    if name not in known:
        raise ConfigurationError(f"unknown {what} {name!r}: {close_matches(name, known)}")


__all__ = ["QUERY_FORMS", "load_conversations", "load_qrels", "load_queries", "read_passages"]

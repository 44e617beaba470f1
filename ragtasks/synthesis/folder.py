"""Output folder of a synthesis: a benchmark for `ragtasks check`, with its sources.

`conversations.jsonl`, `passages.jsonl` and `qrels.tsv` are in the custom benchmark format. The subfolder `synthesis/`
contains the units (such as propositions), dialogues with both forms of each question, omitted parts with reasons, and a
manifest. The folder gets its final name only when it is complete.
"""

from __future__ import annotations

import hashlib
import shutil
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import orjson

from ragtasks.benchmarks.custom import CONVERSATIONS, PASSAGES, check_folder
from ragtasks.clients import Usage
from ragtasks.errors import CacheError, ConfigurationError
from ragtasks.files import SAMPLE_STATISTICS, canonical_hash
from ragtasks.records import Answerability, Task, task_id
from ragtasks.synthesis.asking import Asker, template_of
from ragtasks.synthesis.documents import LeftOut
from ragtasks.synthesis.draft import Dialogue, Turn
from ragtasks.synthesis.propositions import Unit
from ragtasks.synthesis.removal import Pool

DETAILS = "synthesis"
"""Folder with the sources of the benchmark."""
DIALOGUES = "dialogues.jsonl"
MANIFEST = "manifest.json"
LEFT_OUT = f"{DETAILS}/left_out.jsonl"
_MAX_LISTED = 10

QRELS = "qrels.tsv"


@dataclass(frozen=True)
class Synthesis:
    """Result of a synthesis of dialogues."""

    dialogues: Sequence[Dialogue]
    pool: Pool
    units: Sequence[Unit]
    left_out: Sequence[LeftOut]
    """Omitted files, passages and dialogues."""
    made_by: Mapping[str, Any]
    """Everything that determines the result: settings, model, prompts, documents."""
    counts: Mapping[str, int]


@dataclass(frozen=True)
class SynthesisReport:
    """Report of a synthesis."""

    lines: tuple[str, ...]
    """Lines to print: counts, and the first omissions with their reasons."""
    usage: Usage


def standalone(task: Task) -> str:
    """Return the stand-alone form of a question; the question itself without a rewrite."""
    return str(task.extra.get("rewrite") or task.question)


def prompt_hashes(names: Sequence[str]) -> dict[str, str]:
    """Return prompt name -> hash of its text; a changed prompt gives a different synthesis."""
    return {name: template_of(name).sha256 for name in names}


def is_made(folder: Path, made_by: Mapping[str, Any]) -> bool:
    """Return whether a folder already contains this synthesis; False if it is missing or empty.

    Raises:
        ConfigurationError: the folder contains anything else.
    """
    if not folder.exists() or (folder.is_dir() and not any(folder.iterdir())):
        return False
    manifest = folder / DETAILS / MANIFEST
    try:
        is_same = orjson.loads(manifest.read_bytes())["key"] == canonical_hash(made_by)
    except (OSError, ValueError, LookupError, TypeError):
        is_same = False
    if not is_same:
        raise ConfigurationError(
            "synthesis",
            where=str(folder),
            expected="a new or empty folder, or the result of the same documents, settings and model",
            found="other contents",
            next_step="use another folder with --output, or remove this one",
        )
    return True


def make_once(
    folder: Path, made_by: Mapping[str, Any], asker: Asker, make: Callable[[Asker], Iterable[str]]
) -> SynthesisReport:
    """Run a synthesis, unless the folder already contains the result of the same input, settings and model."""
    present = f"{folder} already contains the result of the same input, settings and model"
    return SynthesisReport((present,) if is_made(folder, made_by) else tuple(make(asker)), asker.usage)


def outcome_lines(folder: Path, counts: Mapping[str, int], left_out: Sequence[LeftOut]) -> Iterator[str]:
    """Yield the final report: counts, and the first ten omissions, each with its reason."""
    yield f"{folder}: " + ", ".join(f"{count:,} {name}" for name, count in counts.items() if count)
    if left_out:
        yield f"left out, {len(left_out)} in all ({LEFT_OUT}):"
        yield from (f"  {omitted.name}: {omitted.reason}" for omitted in left_out[:_MAX_LISTED])


def publish_folder(
    folder: Path,
    files: Mapping[str, Iterable[bytes]],
    made_by: Mapping[str, Any],
    left_out: Sequence[LeftOut] | None = None,
    counts: Mapping[str, int] | None = None,
) -> None:
    """Write the files, a manifest, and omissions and counts if given, then rename the folder to its final name."""
    metadata = {} if counts is None else {"counts": dict(counts)}
    manifest = {"key": canonical_hash(made_by), "made_by": dict(made_by), **metadata}
    content = {**files, f"{DETAILS}/{MANIFEST}": [orjson.dumps(manifest, option=orjson.OPT_INDENT_2), b"\n"]}
    if left_out is not None:
        content[LEFT_OUT] = lines_of({"what": omitted.name, "reason": omitted.reason} for omitted in left_out)
    part = folder.with_name(f".{folder.name}.part")
    try:
        shutil.rmtree(part, ignore_errors=True)
        for name, lines in content.items():
            (part / name).parent.mkdir(parents=True, exist_ok=True)
            with (part / name).open("wb") as file:
                file.writelines(lines)
        if folder.is_dir():
            folder.rmdir()
        part.rename(folder)
    except OSError as error:
        shutil.rmtree(part, ignore_errors=True)
        raise CacheError(f"cannot write {folder}: {error.strerror or error}") from error


def write_synthesis(folder: Path, made: Synthesis) -> None:
    """Write a synthesis as a benchmark (see the module) and run the checks of `ragtasks check`."""
    files = {
        CONVERSATIONS: lines_of(
            {
                "conversation_id": dialogue.dialogue_id,
                "domain": dialogue.domain,
                "turns": [_turn(number, turn, made.pool) for number, turn in enumerate(dialogue.turns, start=1)],
            }
            for dialogue in made.dialogues
        ),
        PASSAGES: lines_of(
            {
                "_id": passage.passage_id,
                **({"title": passage.title} if passage.title else {}),
                "text": passage.text,
                "domain": domain,
            }
            for domain, passages in made.pool.passages.items()
            for passage in passages
        ),
        QRELS: _qrels(made),
        f"{DETAILS}/units.jsonl": lines_of(made.units),
        f"{DETAILS}/{DIALOGUES}": lines_of(map(_details, made.dialogues)),
    }
    publish_folder(folder, files, made.made_by, made.left_out, made.counts)
    checked = check_folder(folder)
    assert checked.passes, checked.lines  # our own format, independent of the model's replies


def lines_of(rows: Iterable[Any]) -> Iterable[bytes]:
    """Return dictionaries or dataclasses as JSON lines."""
    return (orjson.dumps(row) + b"\n" for row in rows)


def _turn(number: int, turn: Turn, pool: Pool) -> dict[str, Any]:
    # One passage per unit, the first of overlapping passages. The judgements list all of them.
    references = list(dict.fromkeys(pool.of_unit[unit.unit_id][0] for unit in turn.units))
    return {
        "question": turn.contextualized,
        "answer": turn.answer,
        "answerability": turn.answerability.value,
        **({"references": references} if references else {}),
        **({"question_types": turn.question_types} if turn.question_types else {}),
        "multi_turn": "N/A" if number == 1 else "Follow-up",
        "rewrite": turn.decontextualized,
    }


def _qrels(made: Synthesis) -> Iterable[bytes]:
    """Yield a line for each passage that contains a unit of an answerable turn."""
    for dialogue in made.dialogues:
        for number, turn in enumerate(dialogue.turns, start=1):
            if turn.answerability is Answerability.ANSWERABLE:
                for name in sorted(made.pool.ids_of(turn)):
                    yield f"{task_id(dialogue.dialogue_id, number)}\t0\t{name}\t1\n".encode()


def _details(dialogue: Dialogue) -> dict[str, Any]:
    turns = [
        {
            "contextualized": turn.contextualized,
            "decontextualized": turn.decontextualized,
            "answer": turn.answer,
            "units": [unit.unit_id for unit in turn.units],
            "question_types": list(turn.question_types),
            "answerability": turn.answerability.value,
        }
        for turn in dialogue.turns
    ]
    removed = [{"question": pair.question, "answer": pair.answer, "reason": pair.reason} for pair in dialogue.removed]
    units = [unit.unit_id for unit in dialogue.units]
    return {
        "dialogue_id": dialogue.dialogue_id,
        "domain": dialogue.domain,
        "units": units,
        "turns": turns,
        "removed": removed,
    }


# Dialogues in the format of MTRAG-S, for the harness task `mtrag_s`. Its files can name only four corpora, so the user
# selects the corpus that the documents replace. The format's target is the generator's own answer; no score of the
# suite uses it.

_FILE = "mtrag-synthetic/generation_tasks/synthetic.jsonl"
_ID_LENGTH = 32


def write_mtrag_s(folder: Path, made: Synthesis, collection: str) -> None:
    """Write dialogues in the format of MTRAG-S, with the counts that its loader checks."""
    texts = {
        passage.passage_id: f"{passage.title}\n{passage.text}"
        for passages in made.pool.passages.values()
        for passage in passages
    }
    rows = [row for dialogue in made.dialogues for row in _rows(dialogue, made.pool, texts, collection)]
    counts = {
        "tasks": len(rows),
        "conversations": len(made.dialogues),
        "by_domain": {collection: len(rows)},
        "by_answerability": dict(Counter(row["Answerability"][0] for row in rows)),
    }
    files = {
        _FILE: lines_of(rows),
        SAMPLE_STATISTICS: [orjson.dumps({"version": canonical_hash(rows)[:12], "counts": counts})],
    }
    publish_folder(folder, files, made.made_by, made.left_out, made.counts)


def _rows(dialogue: Dialogue, pool: Pool, texts: dict[str, str], collection: str) -> Iterable[dict[str, Any]]:
    """Yield a task for each turn: its conversation so far, the supporting passages, and the answer."""
    conversation_id = hashlib.sha256(dialogue.dialogue_id.encode()).hexdigest()[:_ID_LENGTH]
    messages: list[dict[str, Any]] = []
    for number, turn in enumerate(dialogue.turns, start=1):
        messages.append(_message("user", turn.contextualized, len(messages)))
        names = dict.fromkeys(pool.of_unit[unit.unit_id][0] for unit in turn.units)
        yield {
            "conversation_id": conversation_id,
            "task_id": task_id(conversation_id, number),
            "task_type": "rag",
            "turn": str(number),
            "dataset": "ragtasks synthesize",
            "contexts": [
                {"document_id": hashlib.sha256(name.encode()).hexdigest(), "text": texts[name]} for name in names
            ],
            "input": list(messages),
            "targets": [_message("agent", turn.answer, len(messages))],
            "Question Type": list(turn.question_types),
            "Multi-Turn": ["N/A" if number == 1 else "Follow Up"],
            "Answerability": [turn.answerability.value],
            "Collection": f"synthetic-{collection}",
        }
        messages.append(_message("agent", turn.answer, len(messages)))


def _message(speaker: str, text: str, number: int) -> dict[str, Any]:
    metadata = {"author_type": "synthetic", "author_id": "ragtasks", "created_at": number}
    return {"speaker": speaker, "text": text, "metadata": metadata}

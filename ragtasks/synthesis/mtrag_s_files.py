"""Dialogues in the format of MTRAG-S, so that the harness task `mtrag_s` runs on them.

Its files know four corpora only, so the user states which of them the documents replace. The format's target is the
generator's own answer; no score of its suite compares with it.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import orjson

from ragtasks.files import SAMPLE_STATISTICS, canonical_hash
from ragtasks.records import task_id
from ragtasks.synthesis.draft import Dialogue
from ragtasks.synthesis.folder import (
    Synthesis,
    lines_of,
    publish_folder,
)
from ragtasks.synthesis.removal import Pool

_FILE = "mtrag-synthetic/generation_tasks/synthetic.jsonl"
_ID_LENGTH = 32


def write_mtrag_s(folder: Path, made: Synthesis, collection: str) -> None:
    """Write dialogues as MTRAG-S has them, with the numbers that its loader checks; all at once or nothing."""
    texts = {item.passage_id: f"{item.title}\n{item.text}" for items in made.pool.passages.values() for item in items}
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
    """Yield a task for each turn: its conversation so far, what its answer rests on, and the answer."""
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

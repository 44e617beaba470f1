"""Builds the sample of MTRAG-S from its sources, in MTRAG-S's official file layout.

`scripts/sample_source/mtrag_s.json` contains conversations. Their turns name passages of the documents in
`scripts/sample_source/<domain>.json`, as both official benchmarks share their corpora. As in the official file, passage
ids are hashes, messages contain an author and a (fictitious) time, and the answers are not references. The files in
`ragtasks/benchmarks/sample/mtrag_s/` are byte for byte reproducible.

    python scripts/build_sample_s.py [--into DIR]
"""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from typing import Any

from build_sample import DOMAINS, passages_of
from sample_files import SAMPLES, read_source, run_builder, statistics_file

VERSION = "1"
TARGET = SAMPLES / "mtrag_s"
COLLECTIONS = {
    "clapnq": "mt-rag-clapnq-sample",
    "fiqa": "mt-rag-fiqa-beir-sample",
    "govt": "mt-rag-govt-sample",
    "cloud": "mt-rag-ibmcloud-sample",
}
FIRST_TIME = 1728325598


def hash_of(text: str, length: int) -> str:
    """Return the first hexadecimal digits of a text's hash."""
    return hashlib.sha256(text.encode()).hexdigest()[:length]


def message(speaker: str, text: str, number: int) -> dict[str, Any]:
    """Return a message with metadata as in the official file."""
    author = {"user": ("human", "sample-author"), "agent": ("model", "sample-generator")}[speaker]
    metadata = {"author_type": author[0], "author_id": author[1], "created_at": FIRST_TIME + number}
    return {"speaker": speaker, "text": text, "metadata": metadata}


def task_rows(conversation: dict[str, Any], passages: dict[str, dict[str, str]]) -> list[dict[str, Any]]:
    """Return the lines of a conversation, with the keys of the official file in its order."""
    conversation_id = hash_of(conversation["id"], 32)
    messages: list[dict[str, Any]] = []
    rows = []
    for number, turn in enumerate(conversation["turns"], start=1):
        messages.append(message("user", turn["question"], len(messages)))
        answer = message("agent", turn["answer"], len(messages))
        contexts = [passages[reference] for reference in turn["references"]]
        rows.append(
            {
                "conversation_id": conversation_id,
                "task_id": f"{conversation_id}<::>{number}",
                "task_type": "rag",
                "turn": str(number),
                "dataset": "ragtasks sample",
                "contexts": [{"document_id": hash_of(row["_id"], 64), "text": row["text"]} for row in contexts],
                "input": list(messages),
                "targets": [answer],
                "Question Type": turn["question_types"],
                "Multi-Turn": [turn["multi_turn"]],
                "Answerability": [turn["answerability"]],
                "Collection": COLLECTIONS[conversation["domain"]],
            }
        )
        messages.append(answer)
    return rows


def facts(conversations: list[dict[str, Any]], rows: list[dict[str, Any]]) -> dict[str, Any]:
    """Return the statistics that the loader checks."""
    by_domain: Counter[str] = Counter()
    for conversation in conversations:
        by_domain[conversation["domain"]] += len(conversation["turns"])
    return {
        "version": VERSION,
        "counts": {
            "tasks": len(rows),
            "conversations": len(conversations),
            "by_domain": dict(by_domain),
            "by_answerability": dict(Counter(row["Answerability"][0] for row in rows)),
        },
    }


def build() -> dict[str, bytes]:
    """Return path -> bytes of every file of the sample."""
    passages = {domain: passages_of(read_source(domain)) for domain in DOMAINS}
    conversations = read_source("mtrag_s")["conversations"]
    rows = [row for conversation in conversations for row in task_rows(conversation, passages[conversation["domain"]])]
    lines = "".join(json.dumps(row) + "\n" for row in rows)
    return {
        "mtrag-synthetic/generation_tasks/synthetic.jsonl": lines.encode(),
        "sample.json": statistics_file(facts(conversations, rows)),
    }


if __name__ == "__main__":
    run_builder(__doc__, build, TARGET)

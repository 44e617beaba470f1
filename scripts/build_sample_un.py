"""Builds the sample of MTRAG-UN from its sources, in MTRAG-UN's official file layout.

`scripts/sample_source/mtrag_un/<domain>.json` contains only conversations. Their turns name passages of the documents
in `scripts/sample_source/<domain>.json`, as both official benchmarks share their corpora. An underspecified turn names
the passages of its possible meanings, or none. Every turn becomes a task. The files in
`ragtasks/benchmarks/sample/mtrag_un/` are byte for byte reproducible.

    python scripts/build_sample_un.py [--into DIR]
"""

from __future__ import annotations

from collections import Counter
from typing import Any

from build_sample import DOMAINS, passages_of
from sample_files import SAMPLES, json_lines, read_source, run_builder, statistics_file

VERSION = "1"
TARGET = SAMPLES / "mtrag_un"
JUDGED = ("ANSWERABLE", "PARTIAL")
COLLECTIONS = {"cloud": "ibmcloud"}  # the official file's name of this corpus


def task_rows(domain: str) -> list[dict[str, Any]]:
    """Return the lines of a domain's generation task file, with the keys of the official file."""
    passages = passages_of(read_source(domain))
    rows = []
    for conversation in read_source(f"mtrag_un/{domain}")["conversations"]:
        messages: list[dict[str, str]] = []
        for number, turn in enumerate(conversation["turns"], start=1):
            messages.append({"speaker": "user", "text": turn["question"]})
            references = [passages[reference] for reference in turn["references"]]
            conversation_id = f"sample-{conversation['id']}"
            rows.append(
                {
                    "conversation_id": conversation_id,
                    "task_id": f"{conversation_id}<::>{number}",
                    "task_type": "rag",
                    "turn": str(number),
                    "dataset": "ragtasks sample",
                    "contexts": [
                        {"document_id": row["_id"], "text": row["text"], "title": row["title"]} for row in references
                    ],
                    "input": list(messages),
                    "targets": [{"speaker": "agent", "text": turn["answer"]}],
                    "answerability": [turn["answerability"]],
                    "Question Type": turn["question_types"],
                    "Multi-Turn": [turn["multi_turn"]],
                    "Collection": COLLECTIONS.get(domain, domain),
                }
            )
            messages.append({"speaker": "agent", "text": turn["answer"]})
    return rows


def qrels(rows: list[dict[str, Any]]) -> bytes:
    """Return the judgements of a domain: the references of answerable and partial tasks, as in the official files."""
    lines = [
        f"{row['task_id']}\t{context['document_id']}\t1\n"
        for row in rows
        for context in row["contexts"]
        if row["answerability"][0] in JUDGED
    ]
    return "".join(["query-id\tcorpus-id\tscore\n", *lines]).encode()


def facts(by_domain: dict[str, list[dict[str, Any]]]) -> dict[str, Any]:
    """Return the statistics that the loader checks."""
    rows = [row for own in by_domain.values() for row in own]
    return {
        "version": VERSION,
        "counts": {
            "tasks": len(rows),
            "by_domain": {domain: len(own) for domain, own in by_domain.items()},
            "by_answerability": dict(Counter(row["answerability"][0] for row in rows)),
        },
    }


def build() -> dict[str, bytes]:
    """Return path -> bytes of every file of the sample."""
    by_domain = {domain: task_rows(domain) for domain in DOMAINS}
    rows = [row for own in by_domain.values() for row in own]
    files = {"mtragun-human/generation_tasks/reference.jsonl": json_lines(rows)}
    for domain, own in by_domain.items():
        files[f"mtragun-human/retrieval_tasks/qrels/{domain}.tsv"] = qrels(own)
    files["sample.json"] = statistics_file(facts(by_domain))
    return files


if __name__ == "__main__":
    run_builder(__doc__, build, TARGET)

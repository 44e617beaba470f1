"""Builds the sample benchmark from its sources, in MTRAG's official file layout.

The editable sources are `scripts/sample_source/<domain>.json`: documents divided into passages, and conversations whose
turns name their passages. This script writes the files in `ragtasks/benchmarks/sample/mtrag/`, byte for byte
reproducibly, and rejects sources that break its rules. The retrieved passages are a real BM25 run (rank-bm25, k1 1.5,
b 0.75) of the rewritten questions over each domain's passages.

    python scripts/build_sample.py [--into DIR]
"""

from __future__ import annotations

import hashlib
import io
import json
import re
import zipfile
from collections import Counter
from typing import Any

from rank_bm25 import BM25Okapi
from sample_files import SAMPLES, json_lines, read_source, run_builder, statistics_file

VERSION = "1"
DOMAINS = ("clapnq", "fiqa", "govt", "cloud")
N_PASSAGES = 5
N_RUN = 10
TARGET = SAMPLES / "mtrag"
STOP_WORDS = frozenset(
    re.findall(r"\w+", "a an and are at be by do for from how i in is it of on or that the to was what")
)


def passages_of(source: dict[str, Any]) -> dict[str, dict[str, str]]:
    """Return source reference (`slug#number`) -> corpus row. Ids contain the offsets in the page, like official ids."""
    rows = {}
    for document in source["documents"]:
        start = 0
        for number, text in enumerate(document["passages"]):
            passage_id = f"{document['id']}-{start}-{start + len(text)}"
            rows[f"{document['id']}#{number}"] = {
                "_id": passage_id,
                "id": passage_id,
                "url": document["url"],
                "text": f"{document['title']}\n{text}",
                "title": document["title"],
            }
            start += len(text) + 1
    return rows


def context(row: dict[str, str], score: float | None = None) -> dict[str, Any]:
    """Return an entry of a task's `contexts`."""
    entry: dict[str, Any] = {"document_id": row["_id"], "text": row["text"], "title": row["title"], "url": row["url"]}
    return entry if score is None else {**entry, "score": score}


def tokens(text: str) -> list[str]:
    """Return lower-case words without the most common ones."""
    return [word for word in re.findall(r"[a-z0-9]+", text.lower()) if word not in STOP_WORDS]


class Retriever:
    """BM25 over one domain's passages; equal scores are ordered by id."""

    def __init__(self, rows: list[dict[str, str]]) -> None:
        self.rows = rows
        self._bm25 = BM25Okapi([tokens(row["text"]) for row in rows])

    def search(self, query: str) -> list[tuple[dict[str, str], float]]:
        """Return the first passages with their scores, best first."""
        scores = self._bm25.get_scores(tokens(query))
        ranked = sorted(zip(self.rows, scores, strict=True), key=lambda pair: (-pair[1], pair[0]["_id"]))
        return [(row, round(float(score), 6)) for row, score in ranked[:N_RUN]]


def tasks_of(source: dict[str, Any], rows: dict[str, dict[str, str]], retriever: Retriever) -> list[dict[str, Any]]:
    """Return an entry per turn: the fields shared by all three task files, and the different ones."""
    entries = []
    for conversation in source["conversations"]:
        messages: list[dict[str, str]] = []
        for number, turn in enumerate(conversation["turns"], start=1):
            messages.append({"speaker": "user", "text": turn["question"]})
            task_id = f"sample-{conversation['id']}<::>{number}"
            entries.append(
                {
                    "task_id": task_id,
                    "domain": source["domain"],
                    "turn": turn,
                    "messages": list(messages),
                    "references": [rows[reference] for reference in turn["references"]],
                    "retrieved": retriever.search(turn["rewrite"]),
                }
            )
            messages.append({"speaker": "agent", "text": turn["answer"]})
    return entries


def task_row(entry: dict[str, Any], contexts: list[dict[str, Any]]) -> dict[str, Any]:
    """Return a line of a generation task file."""
    turn = entry["turn"]
    conversation_id, number = entry["task_id"].split("<::>")
    return {
        "conversation_id": conversation_id,
        "task_id": entry["task_id"],
        "task_type": "rag",
        "turn": number,
        "dataset": "ragtasks sample",
        "contexts": contexts,
        "input": entry["messages"],
        "targets": [{"speaker": "agent", "text": turn["answer"]}],
        "Question Type": turn["question_types"],
        "Multi-Turn": [turn["multi_turn"]],
        "Answerability": [turn["answerability"]],
        "Standalone Type": ["Standalone" if turn["standalone"] else "Non-standalone"],
        "Collection": f"ragtasks-sample-{entry['domain']}",
    }


def reference_rag_contexts(entry: dict[str, Any]) -> list[dict[str, Any]]:
    """Return references filled up to five with retrieved passages, in an uninformative order (by hash)."""
    reference_ids = {row["_id"] for row in entry["references"]}
    fill = [row for row, _ in entry["retrieved"] if row["_id"] not in reference_ids]
    rows = [*entry["references"], *fill][:N_PASSAGES]
    rows.sort(key=lambda row: hashlib.sha256(f"{entry['task_id']}|{row['_id']}".encode()).hexdigest())
    return [{**context(row), **({"reference": True} if row["_id"] in reference_ids else {})} for row in rows]


def query_lines(entries: list[dict[str, Any]], form: str) -> list[dict[str, str]]:
    """Return the queries of one form, for the tasks with reference passages."""
    lines = []
    for entry in entries:
        if not entry["references"]:
            continue
        questions = [message["text"] for message in entry["messages"] if message["speaker"] == "user"]
        text = {
            "lastturn": f"|user|: {questions[-1]}",
            "rewrite": f"|user|: {entry['turn']['rewrite']}",
            "questions": "\n".join(f"|user|: {question}" for question in questions),
        }[form]
        lines.append({"_id": entry["task_id"], "text": text})
    return lines


def zipped(name: str, content: bytes) -> bytes:
    """Return a zip with one file and no dates, so that the bytes are reproducible."""
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED, compresslevel=9) as archive:
        archive.writestr(zipfile.ZipInfo(name, (2026, 1, 1, 0, 0, 0)), content, zipfile.ZIP_DEFLATED, 9)
    return buffer.getvalue()


def domain_files(source: dict[str, Any], rows: dict[str, Any], entries: list[dict[str, Any]]) -> dict[str, bytes]:
    """Return path -> bytes of one domain's corpus, queries, judgements and run."""
    domain = source["domain"]
    folder = f"mtrag-human/retrieval_tasks/{domain}"
    files = {
        f"{folder}/{domain}_{form}.jsonl": json_lines(query_lines(entries, form))
        for form in ("lastturn", "rewrite", "questions")
    }
    judged = [f"{entry['task_id']}\t{row['_id']}\t1\n" for entry in entries for row in entry["references"]]
    files[f"{folder}/qrels/dev.tsv"] = "".join(["query-id\tcorpus-id\tscore\n", *judged]).encode()
    ranked = [
        f"{entry['task_id']} Q0 {row['_id']} {rank} {score:.6f} bm25-rewrite\n"
        for entry in entries
        for rank, (row, score) in enumerate(entry["retrieved"], start=1)
    ]
    files[f"runs/bm25_rewrite/{domain}.trec"] = "".join(ranked).encode()
    corpus = json_lines(list(rows.values()))
    files[f"corpora/passage_level/{domain}.jsonl.zip"] = zipped(f"{domain}.jsonl", corpus)
    return files


def conversation_rows(source: dict[str, Any]) -> list[dict[str, Any]]:
    """Return the conversations in the form of the official conversations.json."""
    rows = []
    for conversation in source["conversations"]:
        messages: list[dict[str, Any]] = []
        for turn in conversation["turns"]:
            labels = {"Question Type": turn["question_types"], "Multi-Turn": [turn["multi_turn"]]}
            labels["Answerability"] = [turn["answerability"]]
            messages.append({"speaker": "user", "text": turn["question"], "enrichments": labels})
            messages.append({"speaker": "agent", "text": turn["answer"]})
        name = f"ragtasks-sample-{source['domain']}"
        rows.append({"conversation_id": f"sample-{conversation['id']}", "domain": name, "messages": messages})
    return rows


def build() -> dict[str, bytes]:
    """Return path -> bytes of every file of the sample."""
    files: dict[str, bytes] = {}
    entries: list[dict[str, Any]] = []
    conversations: list[dict[str, Any]] = []
    for domain in DOMAINS:
        source = read_source(domain)
        rows = passages_of(source)
        own = tasks_of(source, rows, Retriever(list(rows.values())))
        files |= domain_files(source, rows, own)
        entries += own
        conversations += conversation_rows(source)
    few = [entry for entry in entries if len(entry["references"]) <= 2]
    full = [[context(row, score) for row, score in entry["retrieved"][:N_PASSAGES]] for entry in entries]
    generation = "mtrag-human/generation_tasks"
    reference = [task_row(entry, [context(row) for row in entry["references"]]) for entry in entries]
    files[f"{generation}/reference.jsonl"] = json_lines(reference)
    files[f"{generation}/reference+RAG.jsonl"] = json_lines([task_row(e, reference_rag_contexts(e)) for e in few])
    files[f"{generation}/RAG.jsonl"] = json_lines([task_row(e, c) for e, c in zip(entries, full, strict=True)])
    text = json.dumps(conversations, ensure_ascii=False, indent=1)
    files["mtrag-human/conversations/conversations.json"] = text.encode()
    files["sample.json"] = statistics_file(facts(entries))
    return files


def facts(entries: list[dict[str, Any]]) -> dict[str, Any]:
    """Return the statistics that the loader checks."""
    return {
        "version": VERSION,
        "counts": {
            "tasks": len(entries),
            "by_domain": dict(Counter(entry["domain"] for entry in entries)),
            "by_answerability": dict(Counter(entry["turn"]["answerability"] for entry in entries)),
        },
    }


if __name__ == "__main__":
    run_builder(__doc__, build, TARGET)

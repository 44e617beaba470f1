"""Builds the sample of INSCIT from its source, in INSCIT's official file layout.

`scripts/sample_source/inscit.json` contains conversations by split. Their labels name passages of the documents in
`scripts/sample_source/clapnq.json`. Every turn becomes a task, whose first label is the agent's reply. The files in
`ragtasks/benchmarks/sample/inscit/` are byte for byte reproducible.

    python scripts/build_sample_inscit.py [--into DIR]
"""

from __future__ import annotations

import json
import tempfile
from collections import Counter
from pathlib import Path
from typing import Any

from sample_files import SAMPLES, read_source, run_builder, statistics_file, write_files

from ragtasks.benchmarks.inscit import DOMAIN, corpus_file

VERSION = "1"
TARGET = SAMPLES / "inscit"
CORPUS = "data/text_0420_processed/sample.json"


def articles() -> list[dict[str, Any]]:
    """Return the corpus: articles with their passages, numbered from 0."""
    return [
        {
            "title": document["title"],
            "passages": [
                {"id": f"{document['title']}:{number}", "text": text, "titles": [document["title"]]}
                for number, text in enumerate(document["passages"])
            ],
        }
        for document in read_source("clapnq")["documents"]
    ]


def evidence_by_reference() -> dict[str, dict[str, Any]]:
    """Return source reference (`slug#number`) -> evidence in the format of labels."""
    slugs = [document["id"] for document in read_source("clapnq")["documents"]]
    return {
        f"{slug}#{number}": {
            "passage_id": passage["id"],
            "passage_text": passage["text"],
            "passage_titles": passage["titles"],
        }
        for slug, article in zip(slugs, articles(), strict=True)
        for number, passage in enumerate(article["passages"])
    }


def conversation(source: dict[str, Any], evidence: dict[str, dict[str, Any]]) -> dict[str, Any]:
    """Return a conversation with a turn for each of its questions."""
    turns, context, earlier = [], [], []
    for turn in source["turns"]:
        context = [*context, turn["question"]]
        labels = [{**label, "evidence": [evidence[name] for name in label["evidence"]]} for label in turn["labels"]]
        turns.append({"context": context, "prevEvidence": list(earlier), "labels": labels})
        context = [*context, labels[0]["response"]]
        earlier.append(labels[0]["evidence"])
    return {"seedArticle": {"title": source["seed"], "topic": source["topic"], "level": 1}, "turns": turns}


def counts(conversations: dict[str, dict[str, Any]]) -> dict[str, Any]:
    """Return the counts of a file."""
    turns = [turn for row in conversations.values() for turn in row["turns"]]
    labels = Counter(label["responseType"] for turn in turns for label in turn["labels"])
    return {"conversations": len(conversations), "tasks": len(turns), "labels": dict(labels)}


def build() -> dict[str, bytes]:
    """Return path -> content of every file of the sample."""
    evidence = evidence_by_reference()
    splits = {
        f"data/{split}.json": {row["id"]: conversation(row, evidence) for row in conversations}
        for split, conversations in read_source("inscit").items()
    }
    files = {path: json.dumps(content, ensure_ascii=False).encode() for path, content in splits.items()}
    files[CORPUS] = json.dumps(articles(), ensure_ascii=False).encode()
    statistics = {"version": VERSION, "counts": {path: counts(content) for path, content in splits.items()}}
    with tempfile.TemporaryDirectory() as folder:
        write_files(files, Path(folder))
        corpus = corpus_file(Path(folder), DOMAIN)
        files[str(corpus.relative_to(folder))] = corpus.read_bytes()
    return {**files, "sample.json": statistics_file(statistics)}


if __name__ == "__main__":
    run_builder(__doc__, build, TARGET)

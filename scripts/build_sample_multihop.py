"""Builds the sample of MultiHop-RAG from its source, in MultiHop-RAG's official file layout.

`scripts/sample_source/multihop_rag.json` contains articles and queries. A piece of evidence names its article and
quotes one of its sentences. `retrieved.json`, in the format of the official retrieval script, is a real BM25 run
(rank-bm25, k1 1.5, b 0.75) over the loader's chunks. The files in `ragtasks/benchmarks/sample/multihop_rag/` are byte
for byte reproducible.

    python scripts/build_sample_multihop.py [--into DIR]
"""

from __future__ import annotations

import json
import tempfile
from collections import Counter
from pathlib import Path
from typing import Any

from build_sample import Retriever
from sample_files import SAMPLES, read_source, run_builder, statistics_file, write_files

from ragtasks.benchmarks.multihop_rag import DOMAINS, corpus_file

VERSION = "1"
TARGET = SAMPLES / "multihop_rag"
CORPUS_KEYS = ("title", "author", "source", "published_at", "category", "url")
EVIDENCE_KEYS = ("author", "category", "published_at", "source", "title", "url")


def corpus_rows(source: dict[str, Any]) -> list[dict[str, Any]]:
    """Return the items of corpus.json."""
    return [
        {**{key: article[key] for key in CORPUS_KEYS}, "body": "\n\n".join(article["paragraphs"])}
        for article in source["articles"]
    ]


def query_rows(source: dict[str, Any]) -> list[dict[str, Any]]:
    """Return the items of MultiHopRAG.json."""
    articles = {article["key"]: article for article in source["articles"]}
    rows = []
    for query in source["queries"]:
        evidence = []
        for fact in query["evidence"]:
            article = articles[fact["article"]]
            if fact["fact"] not in "\n\n".join(article["paragraphs"]):
                raise ValueError(f"not in {fact['article']}: {fact['fact']}")
            evidence.append({**{key: article[key] for key in EVIDENCE_KEYS}, "fact": fact["fact"]})
        kept = {key: query[key] for key in ("query", "answer", "question_type")}
        rows.append({**kept, "evidence_list": evidence})
    return rows


def retrieved_rows(queries: list[dict[str, Any]], chunks: bytes) -> list[dict[str, Any]]:
    """Return the items of a result file: the first ten chunks of each query."""
    retriever = Retriever([json.loads(line) for line in chunks.splitlines()])
    rows = []
    for query in queries:
        listed = [{"text": row["text"], "score": score} for row, score in retriever.search(query["query"])]
        kept = {key: query[key] for key in ("query", "answer", "question_type")}
        rows.append({**kept, "retrieval_list": listed, "gold_list": query["evidence_list"]})
    return rows


def array(rows: list[dict[str, Any]]) -> bytes:
    """Return a JSON array."""
    return json.dumps(rows, indent=1, ensure_ascii=False).encode() + b"\n"


def build() -> dict[str, bytes]:
    """Return path -> bytes of every file of the sample."""
    source = read_source("multihop_rag")
    queries = query_rows(source)
    by_type = dict(Counter(query["question_type"] for query in queries))
    facts = {"version": VERSION, "counts": {"articles": len(source["articles"]), "by_type": by_type}}
    files = {
        "dataset/corpus.json": array(corpus_rows(source)),
        "dataset/MultiHopRAG.json": array(queries),
        "sample.json": statistics_file(facts),
    }
    with tempfile.TemporaryDirectory() as folder:
        write_files(files, Path(folder))
        derived = corpus_file(Path(folder), DOMAINS[0])
        chunks = derived.read_bytes()
    files[f"derived/{derived.name}"] = chunks
    files["retrieved.json"] = array(retrieved_rows(queries, chunks))
    return files


if __name__ == "__main__":
    run_builder(__doc__, build, TARGET)

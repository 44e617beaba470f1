"""Builds the sample of TREC RAG 2024 from its source, in the track's file formats.

`scripts/sample_source/trec_rag24.json` is what people edit: topics, one document each as a list of sentences, and the
nuggets with the sentence that states them. This script cuts the documents into segments (windows of 4 sentences, every
second sentence; the official ones have 10 and 5), ranks them by BM25 (rank-bm25, k1 0.9, b 0.4), grades them by the
nuggets that they state, and writes the files under `ragtasks/benchmarks/sample/trec_rag24/`, the same bytes each time.

    python scripts/build_sample_trec.py [--into DIR]
"""

from __future__ import annotations

import json
import re
from collections import Counter
from typing import Any

from rank_bm25 import BM25Okapi
from sample_files import SAMPLES, facts_file, json_lines, read_source, run_builder

VERSION = "1"
WINDOW, STRIDE = 4, 2
N_RUN = 30
TARGET = SAMPLES / "trec_rag24"
SETS = {"test": "test", "raggy-dev": "raggy", "researchy-dev": "researchy"}
LONGEST_NUGGET = 12


def documents_of(topics: list[dict[str, Any]]) -> list[dict[str, str]]:
    """Return the documents as in MS MARCO V2.1; an id holds the offset of the document's line."""
    rows, offset = [], 0
    for topic in topics:
        slug = re.sub(r"[^a-z]+", "-", topic["title"].lower()).strip("-")
        row = {
            "docid": f"msmarco_v2.1_doc_00_{offset}",
            "url": f"https://{slug}.example/",
            "title": topic["title"],
            "headings": "\n".join(topic["headings"]),
            "body": " ".join(topic["sentences"]),
        }
        offset += len(json_lines([row]))
        rows.append(row)
    return rows


def segments_of(topics: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return the segment records; `_first` is the number of a segment's first sentence."""
    rows: list[dict[str, Any]] = []
    offset = 0
    for topic, document in zip(topics, documents_of(topics), strict=True):
        sentences = topic["sentences"]
        starts = [sum(len(one) + 1 for one in sentences[:n]) for n in range(len(sentences))]
        for number, first in enumerate(range(0, len(sentences) - WINDOW + STRIDE, STRIDE)):
            text = " ".join(sentences[first : first + WINDOW])
            row = {
                "docid": f"{document['docid']}#{number}_{offset}",
                **{key: document[key] for key in ("url", "title", "headings")},
                "segment": text,
                "start_char": starts[first],
                "end_char": starts[first] + len(text),
            }
            offset += len(json_lines([row]))
            rows.append({**row, "_topic": topic["topic"], "_first": first})
    return rows


def tokens(text: str) -> list[str]:
    """Return lower-case words."""
    return re.findall(r"[a-z0-9]+", text.lower())


def ranking(question: str, segments: list[dict[str, Any]], bm25: BM25Okapi) -> list[tuple[str, float]]:
    """Return (segment id, score), best first; equal scores by id."""
    scores = bm25.get_scores(tokens(question))
    pairs = [(row["docid"], round(float(score), 6)) for row, score in zip(segments, scores, strict=True)]
    return sorted(pairs, key=lambda pair: (-pair[1], pair[0]))[:N_RUN]


def grade(topic: dict[str, Any], segment: dict[str, Any]) -> int:
    """Return 3 for two vital nuggets, 2 for a nugget, 1 for the right document, else 0."""
    if segment["_topic"] != topic["topic"]:
        return 0
    stated = [n for n in topic["nuggets"] if 0 <= n["sentence"] - segment["_first"] < WINDOW]
    if sum(nugget["importance"] == "vital" for nugget in stated) > 1:
        return 3
    return 2 if stated else 1


def check(topics: list[dict[str, Any]]) -> None:
    """Refuse a source that breaks its own rules."""
    for topic in topics:
        assert topic["set"] in SETS, topic["topic"]
        assert len(set(topic["sentences"])) == len(topic["sentences"]) >= WINDOW, topic["topic"]
        for nugget in topic["nuggets"]:
            assert 0 <= nugget["sentence"] < len(topic["sentences"]), nugget
            assert len(nugget["text"].split()) <= LONGEST_NUGGET, nugget
            assert nugget["importance"] in {"vital", "okay"}, nugget


def build() -> dict[str, bytes]:
    """Return path -> bytes of every file of the sample."""
    topics = read_source("trec_rag24")
    check(topics)
    segments = segments_of(topics)
    bm25 = BM25Okapi([tokens(f"{row['title']} {row['segment']}") for row in segments], k1=0.9, b=0.4)
    records = [{key: value for key, value in row.items() if key[0] != "_"} for row in segments]
    passages = [
        {"_id": row["docid"], "title": row["title"], "text": row["segment"], "url": row["url"]} for row in records
    ]
    by_set = {name: [topic for topic in topics if topic["set"] == name] for name in SETS}
    counts = Counter(SETS[topic["set"]] for topic in topics)
    by_label = {"ANSWERABLE": len(topics)}
    totals = {"tasks": len(topics), "by_domain": dict(counts), "by_answerability": by_label}
    facts = {"version": VERSION, "counts": totals}
    files = {
        "segments/segments.jsonl": json_lines(records),
        "derived/segments.jsonl": "".join(json.dumps(row, separators=(",", ":")) + "\n" for row in passages).encode(),
        "sample.json": facts_file(facts),
    }
    for name, chosen in by_set.items():
        files |= files_of_set(name, chosen, segments, bm25)
    return files


def files_of_set(
    name: str, topics: list[dict[str, Any]], segments: list[dict[str, Any]], bm25: BM25Okapi
) -> dict[str, bytes]:
    """Return the files of one set of topics; only the test set has judgements."""
    end = "\r\n" if name == "test" else "\n"  # as in the official files
    files = {f"topics/topics.rag24.{name}.txt": "".join(f"{t['topic']}\t{t['question']}{end}" for t in topics).encode()}
    files[f"runs/run.rag24.{name}.txt"] = "".join(
        f"{topic['topic']} Q0 {segment_id} {rank} {score} bm25\n"
        for topic in topics
        for rank, (segment_id, score) in enumerate(ranking(topic["question"], segments, bm25), start=1)
    ).encode()
    nuggets = [
        {
            "query": topic["question"],
            "qid": topic["topic"],
            "nuggets": [{"text": n["text"], "importance": n["importance"]} for n in topic["nuggets"]],
        }
        for topic in topics
        if topic["nuggets"]
    ]
    if nuggets:
        files[f"nuggets/nuggets.rag24.{name}.jsonl"] = json_lines(nuggets)
    if name == "test":
        judged = [
            f"{topic['topic']} {1 + number % 5} {segment_id} {grade(topic, by_id)}\n"
            for topic in topics
            for number, (segment_id, by_id) in enumerate(pooled(topic, segments, bm25))
        ]
        files[f"qrels/qrels.rag24.{name}.txt"] = "".join(judged).encode()
    return files


def pooled(topic: dict[str, Any], segments: list[dict[str, Any]], bm25: BM25Okapi) -> list[tuple[str, dict[str, Any]]]:
    """Return the segments that are judged: the first ten of the ranking, and the topic's own document."""
    by_id = {row["docid"]: row for row in segments}
    first = [segment_id for segment_id, _ in ranking(topic["question"], segments, bm25)[:10]]
    own = [row["docid"] for row in segments if row["_topic"] == topic["topic"]]
    return [(segment_id, by_id[segment_id]) for segment_id in dict.fromkeys([*first, *own])]


if __name__ == "__main__":
    run_builder(__doc__, build, TARGET)

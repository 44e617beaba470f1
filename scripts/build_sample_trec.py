"""Builds the samples of TREC RAG 2024 and 2025 from their sources, in the track's file formats.

The editable sources are `scripts/sample_source/trec_rag24.json`, with topics, one document each as a list of sentences,
and nuggets with the sentence that states them; and `trec_rag25.json`, with narratives over the same documents, whose
nuggets name the part of the narrative. This script cuts the documents into segments (windows of 4 sentences, every
second sentence; the official ones have 10 and 5), ranks them by BM25 (rank-bm25, k1 0.9, b 0.4), grades them by their
nuggets, and writes the files in `ragtasks/benchmarks/sample/trec_rag24/` and `trec_rag25/`, byte for byte reproducibly.

    python scripts/build_sample_trec.py [--into DIR]
"""

from __future__ import annotations

import json
import re
from collections import Counter
from typing import Any

from rank_bm25 import BM25Okapi
from sample_files import SAMPLES, json_lines, read_source, run_builder, statistics_file

VERSION = "1"
WINDOW, STRIDE = 4, 2
N_RUN = 30
SETS = {"test": "test", "raggy-dev": "raggy", "researchy-dev": "researchy"}
LONGEST_NUGGET = 12


def documents_of(topics: list[dict[str, Any]]) -> list[dict[str, str]]:
    """Return the documents as in MS MARCO V2.1; an id contains the offset of the document's line."""
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
        starts = [sum(len(sentence) + 1 for sentence in sentences[:n]) for n in range(len(sentences))]
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


def grade(nuggets: list[dict[str, Any]], documents: set[str], segment: dict[str, Any]) -> int:
    """Return 3 for two vital nuggets, 2 for a nugget, 1 for a relevant document, else 0."""
    if segment["_topic"] not in documents:
        return 0
    stated = [
        nugget
        for nugget in nuggets
        if nugget["document"] == segment["_topic"] and 0 <= nugget["sentence"] - segment["_first"] < WINDOW
    ]
    if sum(nugget["importance"] == "vital" for nugget in stated) > 1:
        return 3
    return 2 if stated else 1


def check(topics: list[dict[str, Any]]) -> None:
    """Raise an error for a source that breaks the rules."""
    for topic in topics:
        assert topic["set"] in SETS, topic["topic"]
        assert len(set(topic["sentences"])) == len(topic["sentences"]) >= WINDOW, topic["topic"]
        for nugget in topic["nuggets"]:
            assert 0 <= nugget["sentence"] < len(topic["sentences"]), nugget
            assert len(nugget["text"].split()) <= LONGEST_NUGGET, nugget
            assert nugget["importance"] in {"vital", "okay"}, nugget


def build() -> dict[str, bytes]:
    """Return path -> bytes of every file of the samples."""
    topics = read_source("trec_rag24")
    check(topics)
    segments = segments_of(topics)
    bm25 = BM25Okapi([tokens(f"{row['title']} {row['segment']}") for row in segments], k1=0.9, b=0.4)
    by_set = {name: [topic for topic in topics if topic["set"] == name] for name in SETS}
    counts = Counter(SETS[topic["set"]] for topic in topics)
    files = {"sample.json": sample_facts(dict(counts)), **files_of_segments(segments)}
    for name, chosen in by_set.items():
        files |= files_of_set(name, chosen, segments, bm25)
    narratives = files_of_narratives(read_source("trec_rag25"), topics, segments, bm25)
    return {f"trec_rag24/{path}": content for path, content in files.items()} | {
        f"trec_rag25/{path}": content for path, content in narratives.items()
    }


def sample_facts(by_domain: dict[str, int]) -> bytes:
    """Return the statistics of a sample."""
    return statistics_file({"version": VERSION, "counts": by_domain})


def files_of_segments(segments: list[dict[str, Any]]) -> dict[str, bytes]:
    """Return the texts of the segments, in the track's format and as a corpus."""
    records = [{key: value for key, value in row.items() if key[0] != "_"} for row in segments]
    passages = [
        {"_id": row["docid"], "title": row["title"], "text": row["segment"], "url": row["url"]} for row in records
    ]
    return {
        "segments/segments.jsonl": json_lines(records),
        "derived/segments.jsonl": "".join(json.dumps(row, separators=(",", ":")) + "\n" for row in passages).encode(),
    }


def files_of_narratives(
    narratives: list[dict[str, Any]], topics: list[dict[str, Any]], segments: list[dict[str, Any]], bm25: BM25Okapi
) -> dict[str, bytes]:
    """Return the files of 2025: narratives, nuggets with their parts, a run, and judgements."""
    sentences = {topic["topic"]: topic["sentences"] for topic in topics}
    judged = [narrative for narrative in narratives if narrative["nuggets"]]
    for nugget in (nugget for narrative in judged for nugget in narrative["nuggets"]):
        assert 0 <= nugget["sentence"] < len(sentences[nugget["document"]]), nugget
        assert len(nugget["text"].split()) <= LONGEST_NUGGET, nugget
    return {
        "sample.json": sample_facts({"narratives": len(narratives)}),
        **files_of_segments(segments),
        "topics/topics.rag25.test.jsonl": json_lines(
            [{"id": entry["id"], "title": entry["title"]} for entry in narratives]
        ),
        "nuggets/nuggets.rag25.test.jsonl": json_lines([narrative_nuggets(entry) for entry in judged]),
        "runs/run.rag25.test.txt": run_lines({entry["id"]: entry["title"] for entry in narratives}, segments, bm25),
        "qrels/qrels.rag25.test.txt": "".join(
            f"{entry['id']} 0 {segment_id} {grade(entry['nuggets'], documents, segment)}\n"
            for entry in judged
            for documents in ({nugget["document"] for nugget in entry["nuggets"]},)
            for segment_id, segment in pooled(entry["title"], documents, segments, bm25)
        ).encode(),
    }


def narrative_nuggets(narrative: dict[str, Any]) -> dict[str, Any]:
    """Return the nuggets of a narrative in the track's format, with the narrative's own parts in quotes."""
    parts = (nugget["part"] for nugget in narrative["nuggets"])
    nuggets = [
        {
            "text": nugget["text"],
            "mapped_sub_narrative": part if part.startswith("New: ") else f'"{part}"',
            "importance": nugget["importance"],
            "source": "original",
        }
        for nugget, part in zip(narrative["nuggets"], parts, strict=True)
    ]
    return {"qid": narrative["id"], "nuggets": nuggets}


def run_lines(questions: dict[str, str], segments: list[dict[str, Any]], bm25: BM25Okapi) -> bytes:
    """Return a TREC run: topic id -> question, ranked by BM25."""
    return "".join(
        f"{topic_id} Q0 {segment_id} {rank} {score} bm25\n"
        for topic_id, question in questions.items()
        for rank, (segment_id, score) in enumerate(ranking(question, segments, bm25), start=1)
    ).encode()


def files_of_set(
    name: str, topics: list[dict[str, Any]], segments: list[dict[str, Any]], bm25: BM25Okapi
) -> dict[str, bytes]:
    """Return the files of a set of topics; only the test set has judgements."""
    end = "\r\n" if name == "test" else "\n"  # as in the official files
    files = {f"topics/topics.rag24.{name}.txt": "".join(f"{t['topic']}\t{t['question']}{end}" for t in topics).encode()}
    questions = {topic["topic"]: topic["question"] for topic in topics}
    files[f"runs/run.rag24.{name}.txt"] = run_lines(questions, segments, bm25)
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
            f"{topic['topic']} {1 + number % 5} {segment_id} {grade(nuggets_in(topic), {topic['topic']}, segment)}\n"
            for topic in topics
            for number, (segment_id, segment) in enumerate(pooled(topic["question"], {topic["topic"]}, segments, bm25))
        ]
        files[f"qrels/qrels.rag24.{name}.txt"] = "".join(judged).encode()
    return files


def nuggets_in(topic: dict[str, Any]) -> list[dict[str, Any]]:
    """Return the nuggets of a topic, with its own document as source."""
    return [{**nugget, "document": topic["topic"]} for nugget in topic["nuggets"]]


def pooled(
    question: str, documents: set[str], segments: list[dict[str, Any]], bm25: BM25Okapi
) -> list[tuple[str, dict[str, Any]]]:
    """Return the judged segments: the first ten of the ranking, and the topic's own documents."""
    by_id = {row["docid"]: row for row in segments}
    first = [segment_id for segment_id, _ in ranking(question, segments, bm25)[:10]]
    own = [row["docid"] for row in segments if row["_topic"] in documents]
    return [(segment_id, by_id[segment_id]) for segment_id in dict.fromkeys([*first, *own])]


if __name__ == "__main__":
    run_builder(__doc__, build, SAMPLES)

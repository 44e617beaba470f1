"""Convert the available parts of real data sets into benchmarks for the tasks.

Complete official sets are checked against their counts. These parts are smaller, so they get a `sample.json` with their
own counts, and results on them are labelled `sample`: they are not benchmark scores.

    python perf/real_pieces.py PIECES FOLDER      PIECES: folders multidoc2dial/, multihop_rag/, trec_rag/ as published

- `multidoc2dial`: the validation dialogues over three documents, without references to other documents.
- `multihop_rag`: 500 queries. The news articles are not available, so an article consists of the facts in its queries.
- `trec_rag24`: ten researchy topics with the segments that BM25 found for them; no nuggets, no judgements.
"""

from __future__ import annotations

import argparse
import json
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ragtasks.files import write_atomically


def multidoc2dial(pieces: Path) -> dict[str, Any]:
    documents = json.loads((pieces / "multidoc2dial_doc_small.json").read_bytes())
    dialogues = json.loads((pieces / "multidoc2dial_dial_small_validation.json").read_bytes())
    doc_ids = {doc_id for domain in documents["doc_data"].values() for doc_id in domain}
    for turn in (turn for domain in dialogues["dial_data"].values() for row in domain for turn in row["turns"]):
        turn["references"] = [reference for reference in turn["references"] if reference["doc_id"] in doc_ids]
    return {
        "multidoc2dial/multidoc2dial_doc.json": documents,
        "multidoc2dial/multidoc2dial_dial_test.json": dialogues,
        "sample.json": {"version": "1"},
    }


def multihop_rag(pieces: Path) -> dict[str, Any]:
    queries = json.loads((pieces / "sd_queries.json").read_bytes())["queries"]
    truth = json.loads((pieces / "sd_ground_truth.json").read_bytes())
    rows: list[dict[str, Any]] = []
    articles: dict[str, dict[str, Any]] = {}
    for query in queries:
        expected = truth[query["id"]]
        rows.append({"query": query["question"], "question_type": query["question_type"], **expected})
        for fact in expected["evidence_list"]:
            article = articles.setdefault(fact["url"], {**fact, "body": ""})
            if fact["fact"] not in article["body"]:
                article["body"] += f"{fact['fact']} "
    counts = {"articles": len(articles), "by_type": dict(Counter(row["question_type"] for row in rows))}
    return {
        "dataset/MultiHopRAG.json": rows,
        "dataset/corpus.json": list(articles.values()),
        "sample.json": {"version": "1", "counts": counts},
    }


def trec_rag24(pieces: Path) -> dict[str, Any]:
    lines = (pieces / "retrieve_results" / "bm25.researchy_small.jsonl").read_text(encoding="utf-8")
    wanted = {str(json.loads(line)["query"]["qid"]) for line in lines.splitlines()}
    topics = (pieces / "topics" / "topics.rag24.researchy-dev.txt").read_text(encoding="utf-8").splitlines()
    chosen = [line for line in topics if line.partition("\t")[0] in wanted]
    counts = {
        "tasks": len(chosen),
        "by_domain": {"researchy": len(chosen)},
        "by_answerability": {"ANSWERABLE": len(chosen)},
    }
    return {
        "topics/topics.rag24.researchy-dev.txt": "\n".join(chosen) + "\n",
        "runs/retrieve_results_bm25.rag24.researchy-dev.jsonl": lines,
        "sample.json": {"version": "1", "counts": counts},
    }


def write(folder: Path, files: Mapping[str, Any]) -> None:
    for path, content in files.items():
        text = content if isinstance(content, str) else json.dumps(content, ensure_ascii=False)
        write_atomically(folder / path, text.encode())
    print(f"{folder}: {', '.join(files)}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("pieces", type=Path)
    parser.add_argument("folder", type=Path)
    arguments = parser.parse_args()
    makers = {"multidoc2dial": multidoc2dial, "multihop_rag": multihop_rag}
    for name, make in makers.items():
        write(arguments.folder / name, make(arguments.pieces / name))
    write(arguments.folder / "trec_rag24", trec_rag24(arguments.pieces / "trec_rag"))


if __name__ == "__main__":
    main()

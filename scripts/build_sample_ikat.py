"""Builds the sample of TREC iKAT from its source, in the track's official file layout.

`scripts/sample_source/ikat.json` contains topics of three years in the track's format, the texts of the passages of the
first year, and some judgements of its facts. The files in `ragtasks/benchmarks/sample/ikat/` are byte for byte
reproducible.

    python scripts/build_sample_ikat.py [--into DIR]
"""

from __future__ import annotations

import json
from typing import Any

from sample_files import SAMPLES, json_lines, read_source, run_builder, statistics_file

VERSION = "1"
TARGET = SAMPLES / "ikat"


def passage_rows(texts: dict[str, str]) -> list[dict[str, str]]:
    """Return the lines of the file of passages."""
    rows = []
    for name, text in texts.items():
        document, _, number = name.rpartition(":")
        rows.append({"doc_id": document, "passage_id": number, "passage_text": text})
    return rows


def judgement_lines(judged: dict[str, dict[str, int]]) -> bytes:
    """Return the judgements as qrels."""
    rows = [f"{turn} 0 {fact} {grade}\n" for turn, facts in judged.items() for fact, grade in facts.items()]
    return "".join(rows).encode()


def counts(topics: list[dict[str, Any]]) -> list[int]:
    """Return the numbers of topics and turns."""
    return [len(topics), sum(len(topic.get("turns") or topic["responses"]) for topic in topics)]


def build() -> dict[str, bytes]:
    """Return path -> bytes of every file of the sample."""
    source = read_source("ikat")
    years = {year: source[year] for year in ("2023", "2024", "2025")}
    files = {
        f"{year}/data/{year}_test_topics.json": json.dumps(topics, ensure_ascii=False, indent=1).encode() + b"\n"
        for year, topics in years.items()
    }
    files["2023/data/2023_test_topics_psg_text.jsonl"] = json_lines(passage_rows(source["passages"]))
    files["2023/evaluation/ptkb_rel_nist"] = judgement_lines(source["judged"])
    statistics = {"version": VERSION, "counts": {f"ikat{year[2:]}": counts(topics) for year, topics in years.items()}}
    return {**files, "sample.json": statistics_file(statistics)}


if __name__ == "__main__":
    run_builder(__doc__, build, TARGET)

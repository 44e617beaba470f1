"""Builds the samples of MultiDoc2Dial and Doc2Dial from their source, in the official file layouts.

`scripts/sample_source/multidoc2dial.json` contains pages of a fictitious country, by sections and spans, and dialogues
whose turns name spans (`page/section.span`, where span 0 is the section's heading). Ids are hashes. The sample also
contains the retrieval units that `ragtasks` derives from the documents, and a BM25 ranking of each unit. The files are
byte for byte reproducible.

    python scripts/build_sample_multidoc2dial.py [--into DIR]
"""

from __future__ import annotations

import hashlib
import json
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from rank_bm25 import BM25Okapi
from sample_files import SAMPLES, read_source, run_builder, write_files

from ragtasks.benchmarks import open_benchmark, retrieval_side

VERSION = "1"
DEPTH = 20
UNITS = ("multidoc2dial", "multidoc2dial_token", "multidoc2dial_propositions", "doc2dial")


def document_of(page: dict[str, Any], document_id: str) -> tuple[dict[str, Any], dict[str, str]]:
    """Return a document in the official format, and `section.span` -> span id."""
    text, spans, names = "", {}, {}
    for number, (heading, sentences) in enumerate(page["sections"]):
        start_of_section = len(text)
        section_id = str(len(spans) + 1)
        for index, span in enumerate([f"{heading} \n", *sentences]):
            names[f"{number}.{index}"] = span_id = str(len(spans) + 1)
            spans[span_id] = {
                "id_sp": span_id,
                "tag": "u" if index else "h2",
                "start_sp": len(text),
                "end_sp": len(text) + len(span),
                "text_sp": span,
                "title": heading,
                "parent_titles": [{"id_sp": section_id, "text": heading, "level": "h2"}] if index else [],
                "id_sec": section_id,
            }
            text += span
        section = {"start_sec": start_of_section, "text_sec": text[start_of_section:], "end_sec": len(text)}
        for span_id in map(str, range(int(section_id), len(spans) + 1)):
            spans[span_id].update(section)
        text += "\n"
    shown = {"title": page["title"], "doc_id": document_id, "domain": page["domain"], "doc_text": text, "spans": spans}
    return {**shown, "doc_html_ts": "", "doc_html_raw": ""}, names


def references_of(turn: list[Any], ids: dict[str, str], names: dict[str, dict[str, str]]) -> Iterator[tuple[str, str]]:
    """Yield (document id, span id) of a turn."""
    for reference in turn[3]:
        page, _, span = reference.partition("/")
        yield ids[page], names[page][span]


def turns_of(dialogue: dict[str, Any], ids: dict[str, str], names: Any, span_key: str) -> list[dict[str, Any]]:
    """Return the turns in the official format. MultiDoc2Dial and Doc2Dial name the span differently."""
    turns = []
    for number, turn in enumerate(dialogue["turns"], start=1):
        label = "solution" if "solution" in turn[1] else "precondition"
        references = [
            {span_key: span, "label": label} | ({"doc_id": page} if span_key == "id_sp" else {})
            for page, span in references_of(turn, ids, names)
        ]
        shown = {"turn_id": number, "role": turn[0], "da": turn[1], "references": references, "utterance": turn[2]}
        turns.append(shown)
    return turns


def hash_of(text: str) -> str:
    """Return an id of the official type."""
    return hashlib.md5(text.encode(), usedforsecurity=False).hexdigest()


def as_json(value: Any) -> bytes:
    """Return the bytes of a JSON file."""
    return (json.dumps(value, ensure_ascii=False, indent=1) + "\n").encode()


def official_files() -> dict[str, bytes]:
    """Return path -> content of the files in the official formats."""
    source = read_source("multidoc2dial")
    pages = source["documents"]
    ids = {key: f"{page['title']}#{number}_0" for number, (key, page) in enumerate(pages.items(), start=1)}
    made = {key: document_of(page, ids[key]) for key, page in pages.items()}
    names = {key: span_ids for key, (_, span_ids) in made.items()}
    documents: dict[str, dict[str, Any]] = {}
    for document, _ in made.values():
        documents.setdefault(document["domain"], {})[document["doc_id"]] = document

    multi: dict[str, list[Any]] = {}
    rewrites = []
    for number, dialogue in enumerate(source["dialogues"]):
        dialogue_id = hash_of(f"multi {number}")
        turns = turns_of(dialogue, ids, names, "id_sp")
        multi.setdefault(dialogue["domain"], []).append({"dial_id": dialogue_id, "turns": turns})
        rewrites += rewrites_of(dialogue, dialogue_id)
    single: dict[str, dict[str, list[Any]]] = {}
    for number, dialogue in enumerate(source["doc2dial"]):
        page, domain = ids[dialogue["document"]], pages[dialogue["document"]]["domain"]
        head = {"dial_id": hash_of(f"single {number}"), "doc_id": page, "domain": domain}
        by_document = single.setdefault(domain, {})
        by_document.setdefault(page, []).append(head | {"turns": turns_of(dialogue, ids, names, "sp_id")})

    rows = [(text, pages[key]) for key, texts in source["propositions"].items() for text in texts]
    propositions = {
        "Propositions": [text for text, _ in rows],
        "Document_names": [page["title"] for _, page in rows],
        "Domains": [page["domain"] for _, page in rows],
        "Partition": "doc2dial",
    }
    facts = {"version": VERSION}
    return {
        "multidoc2dial/sample.json": as_json(facts),
        "multidoc2dial/multidoc2dial/multidoc2dial_doc.json": as_json({"doc_data": documents}),
        "multidoc2dial/multidoc2dial/multidoc2dial_dial_test.json": as_json({"dial_data": multi}),
        "multidoc2dial/propositions.json": as_json([propositions]),
        "multidoc2dial/rewrites.jsonl": b"".join(json.dumps(row).encode() + b"\n" for row in rewrites),
        "multidoc2dial_token/sample.json": as_json({**facts, "files_of": "multidoc2dial"}),
        "multidoc2dial_propositions/sample.json": as_json({**facts, "files_of": "multidoc2dial"}),
        "doc2dial/sample.json": as_json(facts),
        "doc2dial/doc2dial/doc2dial_doc.json": as_json({"doc_data": documents}),
        "doc2dial/doc2dial/doc2dial_dial_validation.json": as_json({"dial_data": single}),
    }


def rewrites_of(dialogue: dict[str, Any], dialogue_id: str) -> Iterator[dict[str, str]]:
    """Yield the rewritten questions. Task numbers count consecutive messages of the user once."""
    number, before = 0, ""
    for turn in dialogue["turns"]:
        number += turn[0] == "user" != before
        before = turn[0]
        if len(turn) > 4:
            yield {"_id": f"{dialogue_id}<::>{number}", "text": turn[4]}


def ranking(name: str, into: Path) -> bytes:
    """Return the best units for the question of each task, by BM25."""
    benchmark = open_benchmark(name, into / name)
    file = retrieval_side(name).corpus_file(into / name, "dmv")
    units = [json.loads(line) for line in file.read_text(encoding="utf-8").splitlines()]
    index = BM25Okapi([unit["text"].lower().split() for unit in units])
    lines = []
    for task in benchmark.tasks:
        scores = index.get_scores(task.question.lower().split())
        best = sorted(range(len(units)), key=lambda position, scores=scores: (-scores[position], position))[:DEPTH]
        lines.append(json.dumps({"task_id": task.task_id, "passages": [units[position]["_id"] for position in best]}))
    return ("\n".join(lines) + "\n").encode()


def build() -> dict[str, bytes]:
    """Return path -> bytes of every file of the samples, including the derived retrieval units."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        write_files(official_files(), folder)
        write_files({f"{unit}/full_rag.jsonl": ranking(unit, folder) for unit in UNITS}, folder)
        return {path.relative_to(folder).as_posix(): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


if __name__ == "__main__":
    run_builder(__doc__, build, SAMPLES)
